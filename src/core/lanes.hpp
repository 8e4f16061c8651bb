// One number of each of eight tasks. Tasks are many and features are few, so that loops over the
// features of one task are too short to be vectorised: eight tasks go through each formula together.
#pragma once
#include <cmath>

#include "views.hpp"

namespace mixts {

inline constexpr int LANES = 8;

// The widest vector of the processor that is compiled for; elsewhere a plain number. Lanes do not
// mix, so the width changes no bit.
#if defined(__GNUC__) && defined(__AVX__)
using Piece = double __attribute__((vector_size(32)));
#elif defined(__GNUC__)
using Piece = double __attribute__((vector_size(16)));
#else
using Piece = double;
#endif
inline constexpr int PIECES = LANES * sizeof(double) / sizeof(Piece);

struct alignas(64) Lanes {
    Piece piece[PIECES];

    // A vector may be read and written as its numbers.
    double &operator[](int lane) { return reinterpret_cast<double *>(piece)[lane]; }
    double operator[](int lane) const { return reinterpret_cast<const double *>(piece)[lane]; }
};

inline Lanes operator+(const Lanes &x, const Lanes &y) {
    Lanes out;
    for (int p = 0; p < PIECES; ++p) out.piece[p] = x.piece[p] + y.piece[p];
    return out;
}
inline Lanes operator-(const Lanes &x, const Lanes &y) {
    Lanes out;
    for (int p = 0; p < PIECES; ++p) out.piece[p] = x.piece[p] - y.piece[p];
    return out;
}
inline Lanes operator*(const Lanes &x, const Lanes &y) {
    Lanes out;
    for (int p = 0; p < PIECES; ++p) out.piece[p] = x.piece[p] * y.piece[p];
    return out;
}
inline Lanes operator+(double x, const Lanes &y) {
    Lanes out;
    for (int p = 0; p < PIECES; ++p) out.piece[p] = x + y.piece[p];
    return out;
}
inline Lanes operator*(double x, const Lanes &y) {
    Lanes out;
    for (int p = 0; p < PIECES; ++p) out.piece[p] = x * y.piece[p];
    return out;
}
inline Lanes &operator+=(Lanes &x, const Lanes &y) { return x = x + y; }
inline Lanes &operator-=(Lanes &x, const Lanes &y) { return x = x - y; }

inline Lanes inverse_root(const Lanes &x) {
    Lanes out;
    for (int lane = 0; lane < LANES; ++lane) out[lane] = std::sqrt(x[lane]);
    for (int p = 0; p < PIECES; ++p) out.piece[p] = 1.0 / out.piece[p];
    return out;
}

// The sum over the lanes, in a fixed order.
inline double total(const Lanes &x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

// x'y over the first n entries, of each lane.
inline Lanes dot(const Lanes *x, const Lanes *y, Index n) {
    Lanes sum{};
    for (Index i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

// x'z and y'z over the first n entries: two sums hide each other's delay.
struct TwoLanes {
    Lanes x, y;
};
inline TwoLanes dots(const Lanes *x, const Lanes *y, const Lanes *z, Index n) {
    TwoLanes sum{};
    for (Index i = 0; i < n; ++i) {
        sum.x += x[i] * z[i];
        sum.y += y[i] * z[i];
    }
    return sum;
}

}  // namespace mixts
