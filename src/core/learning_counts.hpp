// Sums over distinct counts, for learning Dirichlet and Gamma priors by Newton's method.
#pragma once
#include <cmath>

#include "special.hpp"

namespace mixts {

// The asymptotic series below have full precision for arguments of at least this.
inline constexpr double LARGE_ARGUMENT = 8.0;

// psi, the derivative of ln Gamma: by recurrence up to LARGE_ARGUMENT, then by a series.
inline double digamma(double x) {
    double shift = 0.0;
    for (; x < LARGE_ARGUMENT; x += 1.0) shift -= 1.0 / x;
    const double y = 1.0 / (x * x);
    const double series =
        y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691.0 / 32760)))));
    return shift + std::log(x) - 0.5 / x - series;
}

// psi', the second derivative of ln Gamma, in the same way.
inline double trigamma(double x) {
    double shift = 0.0;
    for (; x < LARGE_ARGUMENT; x += 1.0) shift += 1.0 / (x * x);
    const double y = 1.0 / (x * x);
    const double series =
        1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * 691.0 / 2730))));
    return shift + 1.0 / x + 0.5 * y + series * y / x;
}

// Add sum_u share_u (f(a + value_u) - f(a)) to out (3, columns, L), for f = ln Gamma, psi and psi';
// without derivatives, for ln Gamma only. Entry u (u, L) belongs to column[u], and a is
// start (columns, L).
inline void rising_sums(const Vector<const Index> &column, const Vector<const double> &value,
                        const Matrix<const double> &shares, const Matrix<const double> &start, bool derivatives,
                        const Cube<double> &out) {
    for (Index s = 0; s < start.m; ++s) {
        Index last = -1;
        double psi = 0.0, psi_prime = 0.0;
        for (Index u = 0; u < value.n; ++u) {
            const Index c = column[u];
            const double a = start(c, s), share = shares(u, s);
            if (share == 0.0) continue;
            out(0, c, s) += share * log_rising(a, value[u]);
            if (!derivatives) continue;
            if (c != last) {
                last = c;
                psi = digamma(a);
                psi_prime = trigamma(a);
            }
            out(1, c, s) += share * (digamma(a + value[u]) - psi);
            out(2, c, s) += share * (trigamma(a + value[u]) - psi_prime);
        }
    }
}

}  // namespace mixts
