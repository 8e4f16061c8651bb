// Numbers side by side, for loops that do the same with several tasks or groups of components at once:
// the loops over the features of one of them are too short to be vectorised. Lanes do not mix, so that
// every instruction set gives the same bits.
//
// A template of these loops also takes T = double, one lane.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "views.hpp"

namespace mixts {

// The widest vector of the processor that is compiled for; elsewhere a plain number.
#if defined(__GNUC__) && defined(__AVX__)
using Piece = double __attribute__((vector_size(32)));
#elif defined(__GNUC__)
using Piece = double __attribute__((vector_size(16)));
#else
using Piece = double;
#endif

// The number of lanes of each type.
template <class T>
inline constexpr Index width_of = static_cast<Index>(sizeof(T) / sizeof(double));

// W lanes: a piece, or two halves. Compilers keep members in registers, but not the entries of an array.
template <Index W>
struct Lanes {
    Lanes<W / 2> low, high;
};
template <>
struct Lanes<width_of<Piece>> {
    Piece all;
};

// f of the pieces of x and y.
template <Index W, class F>
inline Lanes<W> by_piece(const Lanes<W> &x, const Lanes<W> &y, F f) {
    if constexpr (W == width_of<Piece>)
        return {f(x.all, y.all)};
    else
        return {by_piece(x.low, y.low, f), by_piece(x.high, y.high, f)};
}

template <Index W>
inline Lanes<W> operator+(const Lanes<W> &x, const Lanes<W> &y) {
    return by_piece(x, y, [](Piece a, Piece b) { return a + b; });
}
template <Index W>
inline Lanes<W> operator-(const Lanes<W> &x, const Lanes<W> &y) {
    return by_piece(x, y, [](Piece a, Piece b) { return a - b; });
}
template <Index W>
inline Lanes<W> operator*(const Lanes<W> &x, const Lanes<W> &y) {
    return by_piece(x, y, [](Piece a, Piece b) { return a * b; });
}
template <Index W>
inline Lanes<W> operator/(const Lanes<W> &x, const Lanes<W> &y) {
    return by_piece(x, y, [](Piece a, Piece b) { return a / b; });
}

// The numbers of the lanes, and lanes of numbers.
template <class T>
using Numbers = std::array<double, static_cast<std::size_t>(width_of<T>)>;

template <class T>
inline Numbers<T> numbers(const T &x) {
    return std::bit_cast<Numbers<T>>(x);
}

// Entry i of an array of lanes.
template <class T>
inline T load(const double *x, Index i) {
    T value;
    std::memcpy(&value, x + i * width_of<T>, sizeof value);
    return value;
}
template <class T>
inline void store(double *x, Index i, const T &value) {
    std::memcpy(x + i * width_of<T>, &value, sizeof value);
}

// The same number in every lane.
template <class T>
inline T spread(double value) {
    Numbers<T> each;
    each.fill(value);
    return std::bit_cast<T>(each);
}

template <Index W>
inline Lanes<W> operator+(double x, const Lanes<W> &y) {
    return spread<Lanes<W>>(x) + y;
}
template <Index W>
inline Lanes<W> operator*(double x, const Lanes<W> &y) {
    return spread<Lanes<W>>(x) * y;
}
template <Index W>
inline Lanes<W> operator*(const Lanes<W> &x, double y) {
    return x * spread<Lanes<W>>(y);
}
template <Index W>
inline Lanes<W> &operator+=(Lanes<W> &x, const Lanes<W> &y) {
    return x = x + y;
}
template <Index W>
inline Lanes<W> &operator-=(Lanes<W> &x, const Lanes<W> &y) {
    return x = x - y;
}

// 1 / sqrt(x)
template <class T>
inline T inverse_root(const T &x) {
    Numbers<T> each = numbers(x);
    for (double &value : each) value = std::sqrt(value);
    return spread<T>(1.0) / std::bit_cast<T>(each);
}

// The sum over eight lanes, in a fixed order.
inline double total(const Lanes<8> &lanes) {
    const auto x = numbers(lanes);
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

// x'y over the first n entries, of each lane.
template <Index W>
inline Lanes<W> dot(const Lanes<W> *x, const Lanes<W> *y, Index n) {
    Lanes<W> sum{};
    for (Index i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

// x'z and y'z over the first n entries: two sums hide each other's delay.
template <Index W>
struct TwoLanes {
    Lanes<W> x, y;
};
template <Index W>
inline TwoLanes<W> dots(const Lanes<W> *x, const Lanes<W> *y, const Lanes<W> *z, Index n) {
    TwoLanes<W> sum{};
    for (Index i = 0; i < n; ++i) {
        sum.x += x[i] * z[i];
        sum.y += y[i] * z[i];
    }
    return sum;
}

}  // namespace mixts
