// Square roots of covariances. A component is theta = mean + C x with x standard normal and C lower
// triangular, packed by columns: column k is the d - k entries from the diagonal down, and starts at
// `column(k, d)`.
//
// The roots of several groups of components lie side by side in W lanes: entry i of lane l is at
// i * W + l, so that one vector instruction serves W groups. With one lane this is a plain packed
// root, and the loops run over its columns instead.
#pragma once
#include <cmath>

#include "views.hpp"

namespace mixts {

inline constexpr Index WIDTH = 4;

inline Index packed_size(Index d) { return d * (d + 1) / 2; }
inline Index column(Index k, Index d) { return k * d - k * (k - 1) / 2; }

// total = x'a of each lane, x (n, W) and a (n,).
template <int W>
inline void dot_lanes(const double *__restrict x, const double *__restrict a, Index n, double *__restrict total) {
    if constexpr (W == 1) {
        *total = dot(x, a, n);
    } else {
        double part[4][W] = {};
        Index i = 0;
        for (; i + 4 <= n; i += 4)
            for (int j = 0; j < 4; ++j)
                for (int l = 0; l < W; ++l) part[j][l] += x[(i + j) * W + l] * a[i + j];
        for (; i < n; ++i)
            for (int l = 0; l < W; ++l) part[0][l] += x[i * W + l] * a[i];
        for (int l = 0; l < W; ++l) total[l] = (part[0][l] + part[1][l]) + (part[2][l] + part[3][l]);
    }
}

// out (d, W) = C'a of each lane. The zeros at both ends of a cost no time.
template <int W>
inline void project(const double *__restrict root, const double *__restrict a, Index d, double *__restrict out) {
    Index low = 0, high = d, start = 0;
    while (low < d - 1 && a[low] == 0.0) ++low;
    while (high > low + 1 && a[high - 1] == 0.0) --high;
    for (Index k = 0; k < d; ++k) {
        const Index first = k > low ? k : low;
        dot_lanes<W>(root + (start + first - k) * W, a + first, high > first ? high - first : 0, out + k * W);
        start += d - k;
    }
}

// The temporary vectors of `update_roots`, each (d, W): factors of a column's own entries, factors of
// the sum of the later columns, and C v of before the update.
struct RootScratch {
    double *keep, *move, *reach;
};

// Update roots C by an observation with v = C'a (d, W) and this noise variance; `active` lanes change.
// Carlson's form of Potter's square-root update: with alpha_k the noise plus the squares of v from the
// last entry to k, column k becomes
//     (alpha_{k+1} column - v_k sum_{j>k} v_j column_j) / sqrt(alpha_k alpha_{k+1}),
// which keeps the triangle. Then v becomes C'next with the new C, while its columns are at hand;
// without `next`, C'a, which is v_k noise / sqrt(alpha_k alpha_{k+1}).
template <int W>
inline void update_roots(double *__restrict root, double *__restrict v, double noise, Index d, Index active,
                         const double *__restrict next, const RootScratch &scratch) {
    double *__restrict keep = scratch.keep, *__restrict move = scratch.move, *__restrict reach = scratch.reach;
    double alpha[W];
    for (int l = 0; l < W; ++l) alpha[l] = noise;
    for (Index k = d - 1; k >= 0; --k)
        for (int l = 0; l < W; ++l) {
            const double before = alpha[l], x = v[k * W + l];
            alpha[l] += x * x;
            const double scale = 1.0 / std::sqrt(before * alpha[l]);
            keep[k * W + l] = before * scale;
            move[k * W + l] = x * scale;
            reach[k * W + l] = 0.0;
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
        double keep1[W], move1[W], v1[W], keep0[W], move0[W], v0[W];
        for (int l = 0; l < W; ++l) {
            keep1[l] = keep[k * W + l], move1[l] = move[k * W + l], v1[l] = v[k * W + l];
            keep0[l] = keep[(k - 1) * W + l], move0[l] = move[(k - 1) * W + l], v0[l] = v[(k - 1) * W + l];
        }
        for (Index i = 0; i < n; ++i)
            for (int l = 0; l < W; ++l) {
                const double entry1 = last[i * W + l], entry0 = first[i * W + l], past = tail[i * W + l];
                const double between = past + entry1 * v1[l];
                last[i * W + l] = entry1 * keep1[l] - past * move1[l];
                first[i * W + l] = entry0 * keep0[l] - between * move0[l];
                tail[i * W + l] = between + entry0 * v0[l];
            }
        for (int l = 0; l < W; ++l) {
            reach[(k - 1) * W + l] = top[l] * v0[l];
            top[l] *= keep0[l];
        }
        if (next != nullptr) {
            dot_lanes<W>(last, next + k, n, v + k * W);
            dot_lanes<W>(top, next + k - 1, n + 1, v + (k - 1) * W);
        }
    }
    if (k == 0) {
        for (Index i = 0; i < d; ++i)
            for (int l = 0; l < W; ++l) {
                const double entry = root[i * W + l], past = reach[i * W + l];
                root[i * W + l] = entry * keep[l] - past * move[l];
                reach[i * W + l] = past + entry * v[l];
            }
        if (next != nullptr) dot_lanes<W>(root, next, d, v);
    }
    if (next == nullptr)
        for (Index i = 0; i < d * W; ++i) v[i] = move[i] * noise;
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
