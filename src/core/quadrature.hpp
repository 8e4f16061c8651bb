// P(an arm is the best of independent ones) and E[the best mean], in one pass.
//
// P(a is best) = integral of f_a(t) prod_{b != a} F_b(t) dt, in a coordinate where all densities are
// smooth (densities.hpp), by one sweep over cells (cells.hpp) from where the last arm ends to where the
// best arm lies with probability e^-39 at most. No incomplete beta or gamma function is needed, and the
// result is checked: the arms' distribution functions must be small where the sweep ends, and the sum of
// the probabilities must be one; otherwise cells are made shorter.
//
// The best mean is integrated with the same products: it has the density sum_a f_a prod_{b != a} F_b.
// Its mean is measured from that of the arm at the origin, so that a narrow gain keeps its digits.
#pragma once
#include "cells.hpp"

namespace mixts {

// A component of less weight changes no probability that a double can hold beside one.
inline constexpr double NEGLIGIBLE = 1e-16;
// Masses, and the sum of the probabilities of one component, may differ from one by this.
inline constexpr double TOLERANCE = 1e-10;
// Larger differences are reported: with counts of 1e13, densities have only eight digits.
inline constexpr double NOTABLE = 1e-8;
// A smaller variance counts as zero: the square of its inverse would overflow.
inline constexpr double CERTAIN = 1e-290;
// The error of the result is about the square of the roughness: Gauss's rule is exact for polynomials
// of twice the degree. A second and a third try have half the stride and a hundredth of the roughness.
inline constexpr Limits FIRST_TRY{3.8, 1e-5};
inline constexpr int N_TRIES = 3;

// Describe the densities of n arms, and return the line from where the last of them ends down to the
// threshold. The origin is the mode of the sharpest arm that can win, so that narrow peaks far from zero
// keep their digits.
template <Form F>
inline Line prepare(double threshold, Arm *arms, Index n) {
    double floor = -INF;
    for (Index i = 0; i < n; ++i) {
        Arm &arm = arms[i];
        const Mode mode = mode_of<F>(arm.a, arm.b);
        arm.mode = mode.at;
        arm.curvature = mode.curvature;
        arm.peak = -INF;  // not known yet
        floor = std::max(floor, arm.mode - left_distance<F>(arm.curvature, DEPTH));
        // The fall is convex: a step of Newton's method ends beyond the point that it looks for.
        const double x = right_distance<F>(arm.curvature, DEPTH);
        const auto [depth, slope] = fall<F>(arm.a, arm.b, arm.curvature, x);
        arm.end = x - (depth - DEPTH) / slope;  // seen from the mode
    }
    Line line{0.0, -INF, -INF, 0.0};
    double sharpest = 0.0;
    for (Index i = 0; i < n; ++i)
        if (arms[i].curvature > sharpest && arms[i].mode + arms[i].end >= floor) {
            line.origin = arms[i].mode;
            sharpest = arms[i].curvature;
        }
    for (Index i = 0; i < n; ++i) {
        arms[i].mode -= line.origin;
        arms[i].end += arms[i].mode;
        if (arms[i].end > line.top) {
            line.top = arms[i].end;
            line.width = 1.0 / std::sqrt(arms[i].curvature);
        }
    }
    line.bottom = threshold - line.origin;
    return line;
}

// Set every arm's share; return how far the sum of shares is from one, and by how much a distribution
// function is outside of its limits where the sweep has ended: 0, and e^-depth to the left of the mode.
// `certain` is P(a certain arm is best).
inline double set_shares(Index n, double certain, Work &work) {
    for (Index i = 0; i < n; ++i) work.arms[i].share = 0.0;
    double total = certain, gap = 0.0;
    for (Index i : work.present) {
        Arm &arm = work.arms[i];
        double share = 0.0;
        for (int j = 0; j < N_NODES; ++j) share += work.won[i].part[j];
        total += share;
        arm.share = std::max(share, 0.0);  // a sum that should be zero may be just below
        const double most = std::exp(arm.level - arm.peak);
        gap = std::max(gap, arm.place < 0.0 ? std::max(arm.below - most, -arm.below) : 1.0 - arm.below - most);
    }
    // In this order, so that no comparison hides a NaN.
    return std::fabs(total - 1.0) < gap ? gap : std::fabs(total - 1.0);
}

// What is found for one component: the error, P(all uncertain arms are below the certain ones), and
// E[best mean]. The arms have their shares.
struct Found {
    double gap, below, best;
};

// The first n arms are uncertain; `threshold` is the best certain mean, or -INF.
template <Form F>
inline Found integrate(double threshold, Index n, Work &work) {
    Arm *arms = work.arms.data();
    const Line line = prepare<F>(threshold, arms, n);
    const bool free = threshold == -INF;
    Limits limits = FIRST_TRY;
    double gap = INF, below = 1.0;
    for (int i = 0; i < N_TRIES && !(gap < TOLERANCE); ++i) {
        work.gain = 0.0;
        work.present.clear();
        work.waiting.clear();
        for (Index k = 0; k < n; ++k) {
            work.waiting.push_back(k);
            arms[k].below = 1.0;
            for (double &part : work.won[k].part) part = 0.0;
        }
        sweep<F>(line, limits, work);
        below = 1.0;
        for (Index k : work.present) below *= arms[k].below;
        gap = set_shares(n, free ? 0.0 : below, work);
        limits = {0.5 * limits.stride, 0.01 * limits.roughness};
    }
    if (free && work.present.size() == 1) {
        Arm &winner = arms[work.present[0]];
        winner.share = 1.0;
        return {0.0, 0.0, mean_of<F>(winner.a, winner.b)};
    }
    double best = height_at<F>(line.origin) * (free ? 1.0 : 1.0 - below) + work.gain;
    if (!free) best += below * threshold;
    return {gap, free ? 0.0 : below, best};
}

// Decisions of a batch: parameters a and b (m, L, K) of the arms' densities, weights (m, L) of the
// components, and the available arms (m, K).
struct Decisions {
    Cube<const double> a, b;
    Matrix<const double> weights;
    Matrix<const bool> mask;
};

// Of each decision P(arm is best) (m, K), the error of these chances (m,), and E[best mean] (m,).
struct BestArms {
    Matrix<double> chance;
    Vector<double> error, best;
};

// Write the uncertain arms of a component to `arms`, and after them the certain ones of the highest
// mean.
struct Split {
    Index n, n_certain;
    double threshold;
};

template <Form F>
inline Split split(const double *a, const double *b, const Vector<const bool> &mask, Arm *arms) {
    Split found{0, 0, -INF};
    for (Index k = 0; k < mask.n; ++k) {
        if (!mask[k]) continue;
        if (F == Form::NORMAL && b[k] < CERTAIN) {
            found.threshold = std::max(found.threshold, a[k]);
        } else {
            arms[found.n].index = k;
            arms[found.n].a = a[k];
            arms[found.n++].b = b[k];
        }
    }
    if (F == Form::NORMAL && found.threshold > -INF)
        for (Index k = 0; k < mask.n; ++k)
            if (mask[k] && b[k] < CERTAIN && a[k] == found.threshold) arms[found.n + found.n_certain++].index = k;
    return found;
}

template <Form F>
inline void best_arms(const Decisions &given, const BestArms &out) {
    const Index n_arms = given.mask.m;
    Work work(n_arms);
    for (Index r = 0; r < given.mask.n; ++r) {
        double total = 0.0;
        const Vector<double> chance = out.chance.row(r);
        for (double &x : chance) x = 0.0;
        out.error[r] = out.best[r] = 0.0;
        for (Index s = 0; s < given.weights.m; ++s) {
            const double weight = given.weights(r, s);
            if (weight <= NEGLIGIBLE) continue;
            const Split arms = split<F>(&given.a(r, s, 0), &given.b(r, s, 0), given.mask.row(r), work.arms.data());
            Found found{0.0, 1.0, arms.threshold};
            if (arms.n > 0) found = integrate<F>(arms.threshold, arms.n, work);
            for (Index i = 0; i < arms.n; ++i) chance[work.arms[i].index] += weight * work.arms[i].share;
            for (Index i = arms.n; i < arms.n + arms.n_certain; ++i)
                chance[work.arms[i].index] += weight * found.below / static_cast<double>(arms.n_certain);
            out.best[r] += weight * found.best;
            if (!(found.gap <= NOTABLE)) out.error[r] += weight * found.gap;
        }
        for (double x : chance) total += x;
        for (double &x : chance) x /= total;
    }
}

}  // namespace mixts
