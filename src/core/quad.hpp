// Four numbers side by side, for loops that do the same with four groups of components at once.
// Compilers find such vectors in plain loops only now and then, at half the speed. There are four, not
// eight as in lanes.hpp, because few groups are left after some rounds.
#pragma once
#include <cmath>
#include <cstring>

#include "lanes.hpp"
#include "views.hpp"

namespace mixts {

struct Quad {
    static constexpr Index WIDTH = 4;
    static constexpr int N = static_cast<int>(WIDTH * sizeof(double) / sizeof(Piece));
    Piece part[N];
};

inline Quad operator+(const Quad &x, const Quad &y) {
    Quad z;
    for (int p = 0; p < Quad::N; ++p) z.part[p] = x.part[p] + y.part[p];
    return z;
}
inline Quad operator-(const Quad &x, const Quad &y) {
    Quad z;
    for (int p = 0; p < Quad::N; ++p) z.part[p] = x.part[p] - y.part[p];
    return z;
}
inline Quad operator*(const Quad &x, const Quad &y) {
    Quad z;
    for (int p = 0; p < Quad::N; ++p) z.part[p] = x.part[p] * y.part[p];
    return z;
}
inline Quad operator*(const Quad &x, double y) {
    Quad z;
    for (int p = 0; p < Quad::N; ++p) z.part[p] = x.part[p] * y;
    return z;
}
// 1 / sqrt(x)
inline Quad inverse_root(const Quad &x) {
    double each[Quad::WIDTH];
    std::memcpy(each, &x, sizeof x);
    for (double &value : each) value = std::sqrt(value);
    Quad z;
    std::memcpy(&z, each, sizeof z);
    for (int p = 0; p < Quad::N; ++p) z.part[p] = 1.0 / z.part[p];
    return z;
}
inline double inverse_root(double x) { return 1.0 / std::sqrt(x); }

// The numbers of one lane or of four: entry i of an array of them.
template <class T>
inline constexpr Index width_of = static_cast<Index>(sizeof(T) / sizeof(double));

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
    double each[width_of<T>];
    for (double &lane : each) lane = value;
    return load<T>(each, 0);
}

}  // namespace mixts
