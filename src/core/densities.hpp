// Densities of an arm's mean in a coordinate where they are smooth.
//
// Which arm is best does not change when all means are mapped by one increasing function. The forms
// below are mapped to the whole line, where their densities are log-concave. Seen from a base point,
// densities of one form differ by three numbers only,
//
//     ln f(base + x) = level + linear x + bent bend(x)
//
// and share the bend, so that a density costs one exponential. The base is the edge of a cell from
// which nothing large has to be subtracted: a density with 1e8 observations keeps twelve digits.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "elementary.hpp"
#include "special.hpp"
#include "views.hpp"

namespace mixts {

// A mean's density with parameters a and b, after the map to the line.
enum class Form : Index {
    NORMAL = 0,           // the mean itself, with mean a and variance b: -(t - a)^2 / (2 b) + constant
    LOGIT_BETA = 1,       // the logit of a Beta(a, b) variable: -a ln(1 + e^-t) - b ln(1 + e^t)
    LOG_GAMMA = 2,        // the logarithm of a Gamma variable of shape a and rate b: a t - b e^t
    MINUS_LOG_GAMMA = 3,  // the logarithm of an inverse Gamma variable: -a t - b e^-t
};

// -- one density ---------------------------------------------------------------------------------

// ln Gamma(x) minus Stirling's formula, for every x > 0, else NaN. A small x is first moved up to y = x + n:
// Gamma(x) = Gamma(y) / (x (x + 1) ... (y - 1)).
inline double whole_stirling_rest(double x) {
    if (x >= 10.0) return stirling_rest(x);
    if (!(x > 0.0)) return std::numeric_limits<double>::quiet_NaN();
    double y = x, product = 1.0;
    do {
        product *= y;
        y += 1.0;
    } while (y < 10.0);
    return stirling_rest(y) + ((y - 0.5) * std::log(y) - (y - x)) - (x - 0.5) * std::log(x) - std::log(product);
}

// Where the density is highest, and the curvature -(ln f)'' there.
struct Mode {
    double at, curvature;
};

template <Form F>
inline Mode mode_of(double a, double b) {
    if constexpr (F == Form::NORMAL) return {a, 1.0 / b};
    if constexpr (F == Form::LOGIT_BETA) return {std::log(a / b), a / (a + b) * b};
    if constexpr (F == Form::LOG_GAMMA) return {std::log(a / b), a};
    if constexpr (F == Form::MINUS_LOG_GAMMA) return {-std::log(a / b), a};
}

// How much lower the log density is at its mode than a normal one of its curvature: there, only
// the remainders of Stirling's formula are left of the gamma functions.
template <Form F>
inline double stirling_rests(double a, double b) {
    if constexpr (F == Form::NORMAL) return 0.0;
    if constexpr (F == Form::LOGIT_BETA)
        return whole_stirling_rest(a) + whole_stirling_rest(b) - whole_stirling_rest(a + b);
    return whole_stirling_rest(a);
}

// The log density at its mode.
template <Form F>
inline double peak_of(double a, double b, double curvature) {
    return 0.5 * (std::log(curvature) - LOG_2PI) - stirling_rests<F>(a, b);
}

// At a smaller distance from the mode, six terms of a series give the fall to the last digit.
inline constexpr double NEAR = 3e-3;

// How far the log density has fallen at a distance from its mode, and its absolute slope there. As
// for every log-concave density, at most e^-depth of the mass lies beyond such a point.
struct Fall {
    double depth, slope;
};

template <Form F>
inline Fall fall(double a, double b, double curvature, double x) {
    if constexpr (F == Form::NORMAL) return {0.5 * curvature * x * x, curvature * std::fabs(x)};
    if constexpr (F == Form::LOGIT_BETA) {
        if (std::fabs(x) < NEAR) {
            // n times the cumulants of a Bernoulli variable: for sharp densities this keeps all digits.
            const double p = a / (a + b), q = b / (a + b), v = p * q, skew = q - p;
            const double c4 = 1.0 - 6.0 * v, c5 = skew * (1.0 - 12.0 * v), c6 = 1.0 - 30.0 * v + 120.0 * v * v;
            const double depth = x * x * (1.0 / 2 + x * (skew / 6 + x * (c4 / 24 + x * (c5 / 120 + x * c6 / 720))));
            const double slope = x * (1.0 + x * (skew / 2 + x * (c4 / 6 + x * c5 / 24)));
            return {curvature * depth, curvature * std::fabs(slope)};
        }
        // To the left a |x| + n ln(b / n + a / n e^-|x|), to the right the same with a and b
        // exchanged: written so that the logarithm is of one plus something small.
        const double tail = x < 0 ? a : b, other = x < 0 ? b : a, distance = std::fabs(x), n = a + b;
        const double decay = fast_exp(-distance), lost = fast_expm1(-distance);
        const double slope = curvature * n * -lost / (other + tail * decay);
        if (tail <= other) return {tail * distance + n * fast_log1p(tail / n * lost), slope};
        if (distance < LONG) return {n * fast_log1p(other / n * (-lost / decay)) - other * distance, slope};
        return {tail * distance + n * std::log(other / n), slope};
    }
    const double y = F == Form::LOG_GAMMA ? x : -x, growth = fast_expm1(y < LONG ? y : LONG);
    if (std::fabs(y) < NEAR) {  // the same for e^y - 1 - y
        const double depth = y * y * (1.0 / 2 + y * (1.0 / 6 + y * (1.0 / 24 + y * (1.0 / 120 + y / 720))));
        return {a * depth, a * std::fabs(growth)};
    }
    return {a * (growth - y), a * std::fabs(growth)};
}

// About how far to a side of the mode the log density has fallen by `depth`. Where the density of a
// Gamma variable falls like e^-e^|x|, that is nearer than for a normal density of the same curvature.
template <bool DoublyExponential>
inline double tail_distance(double curvature, double depth) {
    const double distance = std::sqrt(2.0 * depth / curvature);
    return DoublyExponential ? std::min(distance, std::log1p(depth / curvature)) : distance;
}

template <Form F>
inline double left_distance(double curvature, double depth) {
    return tail_distance<F == Form::MINUS_LOG_GAMMA>(curvature, depth);
}

template <Form F>
inline double right_distance(double curvature, double depth) {
    return tail_distance<F == Form::LOG_GAMMA>(curvature, depth);
}

// The mean at a point of the line.
template <Form F>
inline double height_at(double t) {
    if constexpr (F == Form::NORMAL) return t;
    if constexpr (F == Form::LOGIT_BETA) return t > -LONG ? 1.0 / (1.0 + std::exp(-t)) : std::exp(t);
    return std::exp(t);
}

// The expectation of a mean with these parameters.
template <Form F>
inline double mean_of(double a, double b) {
    if constexpr (F == Form::NORMAL) return a;
    if constexpr (F == Form::LOGIT_BETA) return a / (a + b);
    if constexpr (F == Form::LOG_GAMMA) return a / b;
    return a > 1.0 ? b / (a - 1.0) : INF;
}

// -- densities in a cell -------------------------------------------------------------------------

// How far to the left a cell from `edge` may reach. Near zero a logit's density and the mean bend within
// some units, which 16 nodes resolve in cells of about six units; far from zero cells may be longer.
template <Form F>
inline double reach_of(double edge) {
    if constexpr (F != Form::LOGIT_BETA) return -INF;
    return edge > 3.0 ? (edge - 6.0) / 3.0 : edge - 6.0 + 2.0 * std::min(edge, 0.0);
}

// The base of a cell is its left edge or its right one; `constant` is that of its bend.
struct Base {
    bool left;
    double constant;
};

template <Form F>
inline Base base_of(double low, double high) {
    if constexpr (F == Form::LOGIT_BETA) {
        if (low + high > 0.0) return {true, 1.0 / (1.0 + std::exp(low))};
        return {false, 1.0 / (1.0 + std::exp(-high))};
    }
    return {F != Form::LOG_GAMMA, 0.0};
}

// bend(x) at N distances x from the base, all to one side of it: -x^2 / 2 for normal densities,
// 1 - e^-|x| for gamma ones, and -ln(1 - constant (1 - e^-|x|)) for those of logits.
template <Form F, int N>
inline void set_bends(double constant, const double (&x)[N], double (&bend)[N]) {
    if constexpr (F == Form::NORMAL) {
        for (int j = 0; j < N; ++j) bend[j] = -0.5 * x[j] * x[j];
    } else {
        for (int j = 0; j < N; ++j) bend[j] = -fast_expm1(-std::fabs(x[j]));
        if constexpr (F == Form::LOGIT_BETA)
            for (int j = 0; j < N; ++j) bend[j] = -fast_log1p(-constant * bend[j]);
    }
}

// `linear` and `bent` of a density whose mode is `gap` to the left of the base.
struct Factors {
    double linear, bent;
};

template <Form F>
inline Factors factors(bool left, double a, double b, double curvature, double gap) {
    if constexpr (F == Form::NORMAL) return {-curvature * gap, curvature};
    if constexpr (F == Form::LOGIT_BETA) return {left ? -b : a, a + b};
    if constexpr (F == Form::LOG_GAMMA) return {a, a * std::exp(gap)};
    return {-a, a * std::exp(-gap)};
}

// The mean at the nodes, origin + base + x, minus the mean at the origin.
template <Form F, int N>
inline void set_heights(double origin, double base, const double (&x)[N], double (&height)[N]) {
    if constexpr (F == Form::NORMAL) {
        for (int j = 0; j < N; ++j) height[j] = base + x[j];
    } else {
        const double here = height_at<F>(origin);
        for (int j = 0; j < N; ++j) {
            const double t = base + x[j];
            height[j] = here * fast_expm1(t < LONG ? t : LONG);
        }
        if constexpr (F == Form::LOGIT_BETA)
            for (int j = 0; j < N; ++j) height[j] *= (1.0 - here) / (1.0 + height[j]);
    }
}

}  // namespace mixts
