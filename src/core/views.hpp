// Views of arrays that numpy owns. No Python here: every header of the core but binding.hpp and
// generator.hpp is plain mathematics. Arrays are C-contiguous; the last axis varies fastest.
#pragma once
#include <cstdint>
#include <limits>

namespace mixts {

using Index = std::int64_t;

inline constexpr double INF = std::numeric_limits<double>::infinity();
inline constexpr double LOG_2PI = 1.8378770664093453;
// Real rewards and features beyond this are refused: products of four must not overflow.
inline constexpr double LARGEST = 1e75;

// A vector (n,).
template <class T>
struct Vector {
    T *data = nullptr;
    Index n = 0;

    T &operator[](Index i) const { return data[i]; }
    Vector slice(Index first, Index last) const { return {data + first, last - first}; }
    T *begin() const { return data; }
    T *end() const { return data + n; }
};

// A matrix (n, m).
template <class T>
struct Matrix {
    T *data = nullptr;
    Index n = 0, m = 0;

    T &operator()(Index i, Index j) const { return data[i * m + j]; }
    Vector<T> row(Index i) const { return {data + i * m, m}; }
};

// An array (n, m, k).
template <class T>
struct Cube {
    T *data = nullptr;
    Index n = 0, m = 0, k = 0;

    T &operator()(Index i, Index j, Index l) const { return data[(i * m + j) * k + l]; }
    Matrix<T> operator[](Index i) const { return {data + i * m * k, m, k}; }
};

// x'y over the first n entries. Eight partial sums, in a fixed order: a loop over them is
// vectorised, and every instruction set gives the same bits.
inline double dot(const double *x, const double *y, Index n) {
    double part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    Index i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; ++j) part[j] += x[i + j] * y[i + j];
    double total = ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
    for (; i < n; ++i) total += x[i] * y[i];
    return total;
}

// The sum of n entries, by the same partial sums.
inline double sum(const double *x, Index n) {
    double part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    Index i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; ++j) part[j] += x[i + j];
    double total = ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
    for (; i < n; ++i) total += x[i];
    return total;
}

// Add sum_j c[j] columns[j] to out (n,), where column j begins at columns + j * stride and the
// coefficients are c[0], c[step], c[2 step] ... Four columns at a time: fewer loads and stores. The
// length may be a constant of the type std::integral_constant.
inline void combine(const double *__restrict c, Index step, const double *__restrict columns, Index stride,
                    Index count, auto n, double *__restrict out) {
    Index j = 0;
    for (; j + 4 <= count; j += 4, c += 4 * step) {
        const double c0 = c[0], c1 = c[step], c2 = c[2 * step], c3 = c[3 * step];
        const double *__restrict x0 = columns + j * stride, *__restrict x1 = x0 + stride;
        const double *__restrict x2 = x1 + stride, *__restrict x3 = x2 + stride;
        for (Index i = 0; i < n; ++i) out[i] += (c0 * x0[i] + c1 * x1[i]) + (c2 * x2[i] + c3 * x3[i]);
    }
    for (; j < count; ++j, c += step) {
        const double c0 = c[0], *__restrict x0 = columns + j * stride;
        for (Index i = 0; i < n; ++i) out[i] += c0 * x0[i];
    }
}

// The largest of n entries; -inf of none. NaN counts as smaller than any number.
inline double largest(const double *x, Index n) {
    double part[8] = {-INF, -INF, -INF, -INF, -INF, -INF, -INF, -INF};
    Index i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; ++j) part[j] = x[i + j] > part[j] ? x[i + j] : part[j];
    double top = part[0];
    for (int j = 1; j < 8; ++j) top = part[j] > top ? part[j] : top;
    for (; i < n; ++i) top = x[i] > top ? x[i] : top;
    return top;
}

}  // namespace mixts
