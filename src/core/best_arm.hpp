// The best of independent arms under one draw of all means, of which only those that may win are drawn.
//
// The arm of the highest mean comes first, in the coordinate of densities.hpp, where every density is
// log-concave: beyond the best draw so far, at t, a density is below the exponential of the same value
// and slope at t. The mass under that exponential bounds the probability that an arm wins, so that one
// uniform number and a few products reject most arms. For an arm that is left, the exponential is the
// envelope of a rejection step: the arm wins with exactly the probability of its tail, and its draw then
// follows the distribution of its tail. So the best arm has the probabilities of Thompson sampling,
// although the means of most of the others are never drawn.
#pragma once
#include <cmath>
#include <numbers>
#include <vector>

#include "densities.hpp"
#include "stream.hpp"

namespace mixts {

// What is known of an arm before its mean is drawn: it cannot win; it wins with less than a bound; it may win.
enum class Fate : Index { LOSES = 0, BOUNDED = 1, OPEN = 2 };

// Numbers of the K arms of one decision: parameters a and b; the mean, and `share`, 1 / (a + b) of logits
// and 1 / b of logarithms; the curvature at the mode; a uniform number, used at most once; and the fate of
// `set_fates`.
struct Contest {
    std::vector<double> a, b, mean, share, curvature, uniform;
    std::vector<Fate> fate;

    explicit Contest(Index n_arms)
        : a(static_cast<std::size_t>(n_arms)), b(a), mean(a), share(a), curvature(a), uniform(a), fate(a.size()) {}
};

// Draw an arm's mean, in the coordinate of its form.
template <Form F>
inline double draw_mean(double a, double b, Stream &stream) {
    if constexpr (F == Form::NORMAL) return a + std::sqrt(b) * stream.normal();
    if constexpr (F == Form::LOGIT_BETA) {
        if (a >= 1.0 && b >= 1.0) {
            const double won = stream.gamma(a);
            return std::log(won / stream.gamma(b));  // one logarithm instead of two
        }
        const double won = stream.log_gamma(a);
        return won - stream.log_gamma(b);
    }
    return stream.log_gamma(a) - std::log(b);
}

// Bounds of `stirling_rests`: the remainder for x is between 1 / (12 x) - 1 / (360 x^3) and 1 / (12 x).
struct Bounds {
    double low, high;
};

template <Form F>
inline Bounds bounds_of_rests(double a, double b) {
    if constexpr (F == Form::NORMAL) return {-1.0, 0.0};
    const double x = 1.0 / a, y = 1.0 / b, z = 1.0 / (a + b);
    if constexpr (F == Form::LOG_GAMMA) return {x / 12.0 - x * x * x / 360.0, x / 12.0};
    const double high = (x + y - z) / 12.0;
    return {high - (x * x * x + y * y * y) / 360.0, high + z * z * z / 360.0};
}

// How fast the log density falls at a point above the mode, where the mean is `height`.
template <Form F>
inline double steepness(double a, double b, double best, double height) {
    if constexpr (F == Form::NORMAL) return (best - a) / b;
    if constexpr (F == Form::LOGIT_BETA) return (a + b) * height - a;
    return b * height - a;
}

// Draw an arm's mean if it is above `best`, else return -inf; u is uniform.
template <Form F>
inline double draw_above(double a, double b, double best, double height, double u, Stream &stream) {
    const auto [mode, curvature] = mode_of<F>(a, b);
    const double steep = steepness<F>(a, b, best, height);
    const double fallen = fall<F>(a, b, curvature, best - mode).depth;
    // The logarithm of the bound, e^-fallen sqrt(curvature / 2 pi) / steep, over u.
    const double gap = 0.5 * std::log(curvature / (2.0 * std::numbers::pi * steep * steep * u * u)) - fallen;
    if (gap <= 0.0) return -INF;
    // Given that u is below the bound, their ratio is uniform again.
    const double t = best + gap / steep;
    // The draw is kept where this is above Stirling's remainders, whose bounds mostly decide.
    const double least = gap + fallen - fall<F>(a, b, curvature, t - mode).depth - std::log(stream.uniform());
    const auto [low, high] = bounds_of_rests<F>(a, b);
    const bool kept = least > high || (least > low && least > stirling_rests<F>(a, b));
    return kept ? t : -INF;
}

// Set the fates of arms: an arm loses if its uniform number u is above a bound of its probability to
// beat the best mean so far. With the slope there, the curvature at the mode, and q, by which the log
// density has fallen at least, because curvatures are at most n / 4, or b e^t, or 1 / b, the bound of
// `draw_above` is at most e^-q sqrt(curvature / 2 pi) / slope: Stirling's remainders only make a peak lower.
// No bound below one says nothing: the arm is open.
template <Form F>
inline void set_fates(double best, double height, Index n, Contest &arms) {
    const double *a = arms.a.data(), *b = arms.b.data(), *share = arms.share.data();
    const double *curvature = arms.curvature.data(), *u = arms.uniform.data();
    Fate *fate = arms.fate.data();
    for (Index k = 0; k < n; ++k) {
        const double steep = steepness<F>(a[k], b[k], best, height);
        double q;
        if constexpr (F == Form::NORMAL) q = 0.5 * steep * (best - a[k]);
        if constexpr (F == Form::LOGIT_BETA) q = 2.0 * steep * steep * share[k];
        if constexpr (F == Form::LOG_GAMMA) q = 0.5 * steep * steep * share[k] / height;
        // The series is less than e^q.
        const double series = 1.0 + q * (1.0 + q * (1.0 / 2 + q * (1.0 / 6 + q * (1.0 / 24 + q * (1.0 / 120)))));
        const double wide = 2.0 * std::numbers::pi * steep * steep, reach = u[k] * series;
        const Fate bounded = wide * reach * reach >= curvature[k] ? Fate::LOSES : Fate::BOUNDED;
        fate[k] = (wide > curvature[k]) & (steep > 0.0) ? bounded : Fate::OPEN;
    }
}

// Return the best of the first n arms, whose parameters are given; `mask` is nullptr: all are available.
template <Form F>
inline Index best_arm(Index n, const bool *mask, Stream &stream, Contest &arms) {
    const double *a = arms.a.data(), *b = arms.b.data();
    double *share = arms.share.data(), *curvature = arms.curvature.data(), *mean = arms.mean.data();
    for (Index k = 0; k < n; ++k) {
        if constexpr (F == Form::NORMAL) share[k] = 1.0, curvature[k] = 1.0 / b[k];
        if constexpr (F == Form::LOGIT_BETA) share[k] = 1.0 / (a[k] + b[k]), curvature[k] = a[k] * b[k] * share[k];
        if constexpr (F == Form::LOG_GAMMA) share[k] = 1.0 / b[k], curvature[k] = a[k];
        mean[k] = a[k] * share[k];
    }
    if (mask != nullptr)
        for (Index k = 0; k < n; ++k) mean[k] = mask[k] ? mean[k] : -INF;
    const double top = largest(mean, n);
    Index lead = 0;
    while (lead < n && !(mean[lead] == top && (mask == nullptr || mask[lead]))) ++lead;
    if (lead == n) return -1;  // no arm is available
    stream.fill(arms.uniform.data(), n);
    Index winner = lead;
    double same = 1.0, best = draw_mean<F>(a[lead], b[lead], stream), height = height_at<F>(best);
    set_fates<F>(best, height, n, arms);
    for (Index k = 0; k < n; ++k) {
        const Fate fate = arms.fate[static_cast<std::size_t>(k)];
        if (fate == Fate::LOSES || k == lead || (mask != nullptr && !mask[k])) continue;
        const double u = arms.uniform[static_cast<std::size_t>(k)];
        const double t = fate == Fate::OPEN ? draw_mean<F>(a[k], b[k], stream)
                                            : draw_above<F>(a[k], b[k], best, height, u, stream);
        if (t > best) {
            best = t, winner = k, same = 1.0;
            height = height_at<F>(best);
            set_fates<F>(best, height, n, arms);
        } else if (t == best) {
            // Certain arms may be equal: then chance decides.
            same += 1.0;
            winner = stream.uniform() * same < 1.0 ? k : winner;
        }
    }
    return winner;
}

}  // namespace mixts
