// Exponentials and logarithms as polynomials: loops over the C library's do not vectorise.
//
// fast_exp, fast_expm1, fast_log and fast_log1p are right to the last digits. exp_negative, log1p_unit and
// log_positive have shorter polynomials, for loops over rows and points; their errors stand beside them.
// No function checks for NaN and infinity.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace mixts {

// From about this x on, e^x overflows, and e^-x is negligible beside one.
inline constexpr double LONG = 700.0;
// ln 2 in two parts, the first with so few digits that its product with 1000 is exact.
inline constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
inline constexpr double LOG2_E = 1.4426950408889634, HALF_LN2 = 0.34657359027997264, ROOT2 = 1.4142135623730951;

// -- exponentials --------------------------------------------------------------------------------

// x = k ln 2 + r, |r| <= ln(2) / 2, for x from -708 to 709: 2^k and r.
struct Reduced {
    double power, r;
};

inline Reduced reduced(double x) {
    // Adding this rounds a number to an integer, which is then in the last bits.
    constexpr double shift = 6755399441055744.0;  // 1.5 * 2^52
    const double shifted = x * LOG2_E + shift, k = shifted - shift;
    return {std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52),
            (x - k * LN2_HIGH) - k * LN2_LOW};
}

// 2^k, and e^r - 1 by a polynomial whose error is below 2e-17: r + r^2 times the interpolation of
// (e^r - 1 - r) / r^2 at ten Chebyshev nodes. A number below -700 counts as -700.
struct ExpParts {
    double power, rest;
};

inline ExpParts exp_parts(double x) {
    const auto [power, r] = reduced(x > -LONG ? x : -LONG);
    // Short chains of dependent operations: ((c0 + c1 r) + (c2 + c3 r) r^2) + ...
    const double r2 = r * r, r4 = r2 * r2;
    const double low = (0.5 + 0.16666666666666669 * r) + (0.041666666666624164 + 0.008333333333330065 * r) * r2;
    const double middle = (0.001388888891719689 + 0.00019841269863040675 * r) +
                          (2.480152132210459e-05 + 2.7557268480106926e-06 * r) * r2;
    const double high = 2.762007600563138e-07 + 2.5100375929185925e-08 * r;
    return {power, (low + (middle + high * r4) * r4) * r2 + r};
}

// e^x for x up to 700, and e^-700 below -700.
inline double fast_exp(double x) {
    const auto [power, rest] = exp_parts(x);
    return power * rest + power;
}

// e^x - 1 for x up to 700.
inline double fast_expm1(double x) {
    const auto [power, rest] = exp_parts(x);
    return power * rest + (power - 1.0);
}

// e^x for x <= 0, at least e^-708, the smallest power that is not subnormal. The polynomial
// interpolates e^r at Chebyshev's nodes: its relative error is 3.3e-16.
inline double exp_negative(double x) {
    const auto [power, r] = reduced(x > -708.0 ? x : -708.0);
    double p = 2.764018079620985e-06 + r * 2.7626357241447223e-07;
    p = 0.00019841170270440067 + r * (2.4801504346997686e-05 + r * p);
    p = 0.008333333385667782 + r * (0.0013888888932488599 + r * p);
    p = 0.16666666666554406 + r * (0.04166666666657314 + r * p);
    p = 1.0 + r * (1.0000000000000067 + r * (0.5000000000000006 + r * p));
    return p * power;
}

// 1 / (1 + e^-x)
inline double logistic_of(double x) {
    const double t = exp_negative(-std::fabs(x));
    return (x > 0.0 ? 1.0 : t) / (1.0 + t);
}

// -- logarithms ----------------------------------------------------------------------------------

// y = 2^k m for a normal y > 0, with m between the roots of 1/2 and 2.
struct Octave {
    double k, m;
};

inline Octave octave_of(double y) {
    constexpr std::uint64_t root = 0x3FE6A09E667F3BCD;  // bits of sqrt(1/2)
    constexpr std::uint64_t one = 0x3FF0000000000000, fraction = 0x000FFFFFFFFFFFFF;
    constexpr double large = 4503599627370496.0;  // 2^52: the last bits of large + k are k
    // Unsigned numbers: shifts and conversions of signed ones are not vectorised, and the bits of a NaN may wrap.
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(y) - root + one;
    return {std::bit_cast<double>((bits >> 52) | std::bit_cast<std::uint64_t>(large)) - (large + 1023.0),
            std::bit_cast<double>((bits & fraction) + root)};
}

// ln(y + lost y) for y above 0 and a tiny `lost`. With s = (m - 1) / (m + 1),
// ln m = 2 s (1 + s^2 / 3 + s^4 / 5 + ...); the rest is below 1e-17.
inline double fast_log(double y, double lost = 0.0) {
    const auto [k, m] = octave_of(y);
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = (z * (2.0 / 21) + 2.0 / 19) * z + 2.0 / 17;
    p = ((p * z + 2.0 / 15) * z + 2.0 / 13) * z + 2.0 / 11;
    p = ((p * z + 2.0 / 9) * z + 2.0 / 7) * z + 2.0 / 5;
    p = (p * z + 2.0 / 3) * z;
    return (k * LN2_HIGH + (p * s + (k * LN2_LOW + lost))) + 2.0 * s;
}

// ln(1 + x) for x above -1.
inline double fast_log1p(double x) {
    const double y = 1.0 + x;
    return fast_log(y, (x - (y - 1.0)) / y);
}

// 2 atanh(s) for |s| < 0.1716; interpolation at Chebyshev's nodes, relative error 3e-18.
inline double twice_atanh(double s) {
    const double q = s * s;
    double p = 0.07656264074182095 + q * 0.07404855180327638;
    p = 0.11111098528363024 + q * (0.09091815840114664 + q * p);
    p = 0.1999999999965117 + q * (0.1428571438032084 + q * p);
    return 2.0 * s * (1.0 + q * (0.33333333333333826 + q * p));
}

// ln(1 + t) for 0 <= t <= 1, with its relative precision: 1 + t = c (1 + s) / (1 - s), c 1 or sqrt(2).
inline double log1p_unit(double t) {
    const bool far = t > ROOT2 - 1.0;
    const double s = (t - (far ? ROOT2 - 1.0 : 0.0)) / (t + (far ? ROOT2 + 1.0 : 2.0));
    return (far ? HALF_LN2 : 0.0) + twice_atanh(s);
}

// ln(1 + e^x)
inline double softplus_of(double x) { return (x > 0.0 ? x : 0.0) + log1p_unit(exp_negative(-std::fabs(x))); }

// ln x for normal x > 0.
inline double log_positive(double x) {
    const auto [k, m] = octave_of(x);
    return k * LN2_HIGH + (twice_atanh((m - 1.0) / (m + 1.0)) + k * LN2_LOW);
}

}  // namespace mixts
