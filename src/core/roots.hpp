// Square roots of covariances. A component is theta = mean + C x with x standard normal and C lower
// triangular, packed by columns: column k is the d - k entries from the diagonal down, and starts at
// `column(k, d)`.
//
// The roots of four groups of components lie side by side (T = Quad): entry i of lane l is at
// 4 i + l. Where there are fewer groups each root lies alone (T = double).
#pragma once
#include <cmath>

#include "lanes.hpp"
#include "views.hpp"

namespace mixts {

// Four lanes, not eight as for tasks, because few groups are left after some rounds.
using Quad = Lanes<4>;

inline Index packed_size(Index d) { return d * (d + 1) / 2; }
inline Index column(Index k, Index d) { return k * d - k * (k - 1) / 2; }

// x'a of each lane, x (n,) of T and a (n,). Four partial sums, because each addition waits for the last.
template <class T>
inline T lane_dot(const double *__restrict x, const double *__restrict a, Index n) {
    if constexpr (width_of<T> == 1) {
        return dot(x, a, n);
    } else {
        T sum0 = spread<T>(0.0), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        Index i = 0;
        for (; i + 4 <= n; i += 4) {
            sum0 = sum0 + load<T>(x, i) * a[i];
            sum1 = sum1 + load<T>(x, i + 1) * a[i + 1];
            sum2 = sum2 + load<T>(x, i + 2) * a[i + 2];
            sum3 = sum3 + load<T>(x, i + 3) * a[i + 3];
        }
        for (; i < n; ++i) sum0 = sum0 + load<T>(x, i) * a[i];
        return (sum0 + sum1) + (sum2 + sum3);
    }
}

// out (d,) of T = C'a. The zeros at both ends of a cost no time.
template <class T>
inline void project(const double *__restrict root, const double *__restrict a, Index d, double *__restrict out) {
    Index low = 0, high = d, start = 0;
    while (low < d - 1 && a[low] == 0.0) ++low;
    while (high > low + 1 && a[high - 1] == 0.0) --high;
    for (Index k = 0; k < d; ++k) {
        const Index first = k > low ? k : low;
        store(out, k, lane_dot<T>(root + (start + first - k) * width_of<T>, a + first, high > first ? high - first : 0));
        start += d - k;
    }
}

// The temporary vectors of `update_roots`, each (d,) of T: factors of a column's own entries, factors of
// the sum of the later columns, and C v of before the update.
struct RootScratch {
    double *keep, *move, *reach;
};

// Update roots C by an observation with v = C'a, (d,) of T, and this noise variance; only the first lanes,
// `active`, change. Carlson's form of Potter's square-root update: with alpha_k the noise plus the squares
// of v from the last entry to k, column k becomes
//     (alpha_{k+1} column - v_k sum_{j>k} v_j column_j) / sqrt(alpha_k alpha_{k+1}),
// which keeps the triangle. Then v becomes C'next with the new C, while its columns are at hand.
template <class T>
inline void update_roots(double *__restrict root, double *__restrict v, double noise, Index d, Index active,
                         const double *__restrict next, const RootScratch &scratch) {
    constexpr Index W = width_of<T>;
    double *__restrict keep = scratch.keep, *__restrict move = scratch.move, *__restrict reach = scratch.reach;
    T alpha = spread<T>(noise);
    for (Index k = d - 1; k >= 0; --k) {
        const T before = alpha, x = load<T>(v, k);
        alpha = alpha + x * x;
        const T scale = inverse_root(before * alpha);
        store(keep, k, before * scale);
        store(move, k, x * scale);
        store(reach, k, spread<T>(0.0));
    }
    // Other lanes have v = 0; one times a root leaves it as it is, to the bit.
    for (Index l = active; l < W; ++l)
        for (Index k = 0; k < d; ++k) keep[k * W + l] = 1.0;
    Index start = packed_size(d), k = d - 1;
    // Two columns in one pass halve the traffic on `reach`.
    for (; k > 0; k -= 2) {
        const Index n = d - k;
        double *__restrict last = root + (start - n) * W;
        start -= 2 * n + 1;
        double *__restrict top = root + start * W, *__restrict first = top + W, *__restrict tail = reach + k * W;
        const T keep1 = load<T>(keep, k), move1 = load<T>(move, k), v1 = load<T>(v, k);
        const T keep0 = load<T>(keep, k - 1), move0 = load<T>(move, k - 1), v0 = load<T>(v, k - 1);
        T sum1 = spread<T>(0.0), sum0 = sum1;
        for (Index i = 0; i < n; ++i) {
            const T entry1 = load<T>(last, i), entry0 = load<T>(first, i), past = load<T>(tail, i);
            const T between = past + entry1 * v1;
            const T new1 = entry1 * keep1 - past * move1, new0 = entry0 * keep0 - between * move0;
            store(last, i, new1);
            store(first, i, new0);
            store(tail, i, between + entry0 * v0);
            // A sum in this loop would keep the compiler from a vector of entries.
            if constexpr (W > 1) sum1 = sum1 + new1 * next[k + i], sum0 = sum0 + new0 * next[k + i];
        }
        if constexpr (W == 1) sum1 = dot(last, next + k, n), sum0 = dot(first, next + k, n);
        const T entry = load<T>(top, 0), scaled = entry * keep0;
        store(reach, k - 1, entry * v0);
        store(top, 0, scaled);
        store(v, k, sum1);
        store(v, k - 1, sum0 + scaled * next[k - 1]);
    }
    if (k == 0) {
        const T keep0 = load<T>(keep, 0), move0 = load<T>(move, 0), v0 = load<T>(v, 0);
        for (Index i = 0; i < d; ++i) {
            const T entry = load<T>(root, i), past = load<T>(reach, i);
            store(root, i, entry * keep0 - past * move0);
            store(reach, i, past + entry * v0);
        }
        store(v, 0, lane_dot<T>(root, next, d));
    }
}

// Replace x (d,) by C x, where the entries of C are `stride` apart.
inline void apply_root(const double *__restrict root, Index stride, Index d, double *__restrict x) {
    Index start = packed_size(d);
    for (Index k = d - 1; k >= 0; --k) {
        start -= d - k;
        // From the last column to the first: column k needs the original x[k].
        const double *__restrict below = root + start * stride;
        double *__restrict tail = x + k;
        const double value = x[k];
        tail[0] = value * below[0];
        if (stride == 1)
            for (Index i = 1; i < d - k; ++i) tail[i] += value * below[i];
        else
            for (Index i = 1; i < d - k; ++i) tail[i] += value * below[i * stride];
    }
}

}  // namespace mixts
