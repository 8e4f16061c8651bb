// Differences of log gamma functions, and densities of rewards whose noise is unknown. Nothing
// here subtracts two large numbers: with 1e8 observations, evidence keeps its digits.
#pragma once
#include <cmath>
#include <limits>
#include <numbers>

#include "views.hpp"

namespace mixts {

// ln Gamma(x) minus Stirling's formula (x - 1/2) ln x - x + ln(2 pi) / 2, for x >= 10. The first
// neglected term, 691/360360 x^-11, is below 2e-14.
inline double stirling_rest(double x) {
    const double y = 1.0 / (x * x);
    return (1.0 / 12 + y * (-1.0 / 360 + y * (1.0 / 1260 + y * (-1.0 / 1680 + y * (1.0 / 1188))))) / x;
}

// ln Gamma(a + n) - ln Gamma(a), for whole n the log of the rising factorial a (a + 1) ... (a + n - 1).
inline double log_rising(double a, double n) {
    double total = 0.0;
    // The loops end for positive a and n only; other numbers come from counts that no history has.
    if (!(a > 0.0 && n >= 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (n <= 16.0 && n == std::floor(n)) {
        for (int i = 0; i < static_cast<int>(n); ++i) total += std::log(a + i);
        return total;
    }
    // A small a is moved up: Gamma(a + n) / Gamma(a) is the ratio at a + 1, times a / (a + n).
    while (a < 10.0) {
        total -= std::log1p(n / a);
        a += 1.0;
    }
    const double end = a + n;
    total += (a - 0.5) * std::log1p(n / a) + n * (std::log(end) - 1.0);
    return total + stirling_rest(end) - stirling_rest(a);
}

// ln B(a + won, b + lost) - ln B(a, b), with the beta function B.
inline double beta_evidence(double a, double b, double won, double lost) {
    return log_rising(a, won) + log_rising(b, lost) - log_rising(a + b, won + lost);
}

// -- unknown noise --------------------------------------------------------------------------------
//
// The noise variance of a task is inverse gamma: degrees / 2 is its shape and unit / 2 its scale,
// unit = degrees * noise_std^2. After n rewards with the squared misfit S (in units of the task's
// own variance, were it one) it is inverse gamma with degrees + n and unit + S.

// h and r with Gamma(x + 1/2) / Gamma(x) = sqrt(h) exp(r). A small x is first moved up: the ratio
// at x is that at x + 1, times x / (x + 1/2). From 10 on the series errs by less than 4e-14.
struct HalfStep {
    double head, rest;
};

inline HalfStep half_step(double x) {
    double ratio = 1.0;
    if (!(x > 0.0)) return {std::numeric_limits<double>::quiet_NaN(), 0.0};
    while (x < 10.0) {
        ratio *= x / (x + 0.5);
        x += 1.0;
    }
    const double y = 1.0 / (x * x);
    const double rest = -1.0 / 8 + y * (1.0 / 192 + y * (-1.0 / 640 + y * (17.0 / 14336 - y * 31.0 / 18432)));
    return {x * ratio * ratio, rest / x};
}

// The log density of a reward, a Student variable: alpha is its variance and square its squared
// standardised error, both in units of the noise variance, which has `freedom` and `unit`.
inline double predictive(double freedom, double unit, double alpha, double square) {
    const auto [head, rest] = half_step(0.5 * freedom);
    const double level = 0.5 * std::log(head / (std::numbers::pi * unit) / alpha) + rest;
    return level - 0.5 * (freedom + 1.0) * std::log1p(square / unit);
}

// The log density of n rewards with this misfit, without their determinant:
// ln Gamma((nu + n) / 2) - ln Gamma(nu / 2) - n/2 ln(pi u) - (nu + n) / 2 ln(1 + S / u).
inline double whole_evidence(double degrees, double unit, Index n, double misfit) {
    double total = log_rising(0.5 * degrees, static_cast<double>(n / 2));
    if (n % 2 == 1) {
        const auto [head, rest] = half_step(0.5 * (degrees + static_cast<double>(n - 1)));
        total += 0.5 * std::log(head) + rest;
    }
    const double count = static_cast<double>(n);
    return total - 0.5 * (count * std::log(std::numbers::pi * unit) + (degrees + count) * std::log1p(misfit / unit));
}

}  // namespace mixts
