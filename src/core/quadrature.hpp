// P(an arm is the best of independent ones) and E[the best mean], in one pass.
//
// P(a is best) = integral of f_a(t) prod_{b != a} F_b(t) dt, in a coordinate where all densities are
// smooth (densities.hpp). The integral starts where the best arm lies with probability e^-39 at most.
// From there one integral over cells to the left gives F_a(start), and one to the right the rest
// (cells.hpp). No incomplete beta or gamma function is needed, and the result is checked: every arm's
// mass must be one, and so must the sum of the probabilities; otherwise cells are made shorter.
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
inline constexpr Limits FIRST_TRY{4.0, 1e-5};
inline constexpr int N_TRIES = 3;

// Return where the falls of all arms whose mode is above sum to DEPTH, or a little more. Each
// distribution function is at most e^-fall there, and their product e^-DEPTH. The sum of falls is
// convex, so that Newton's method cannot step over the point from the left, where it begins.
template <Form F>
inline double find_start(double floor, const Arm *arms, Index n) {
    constexpr double slack = 4.0;  // the start may be this much deeper than necessary
    double t = floor;
    for (int i = 0; i < 100; ++i) {
        double depth = 0.0, slope = 0.0;
        for (Index k = 0; k < n; ++k)
            if (t < arms[k].mode) {
                const Fall fallen = fall<F>(arms[k].a, arms[k].b, arms[k].curvature, t - arms[k].mode);
                depth += fallen.depth;
                slope += fallen.slope;
            }
        if (depth >= DEPTH && depth <= DEPTH + slack) break;
        t += (depth - DEPTH - slack / 4.0) / slope;
    }
    return t;
}

// Describe the densities of n arms, and put them at the start of the line. The origin is the mode of
// the sharpest arm that can win, so that narrow peaks far from zero keep their digits. The start is
// no lower than the threshold.
template <Form F>
inline Line prepare(double threshold, Arm *arms, Index n) {
    double floor = -INF;
    for (Index i = 0; i < n; ++i) {
        const Mode mode = mode_of<F>(arms[i].a, arms[i].b);
        arms[i].mode = mode.at;
        arms[i].curvature = mode.curvature;
        floor = std::max(floor, mode.at - tail_distance<F>(mode.curvature, DEPTH));
    }
    double origin = 0.0, sharpest = 0.0;
    for (Index i = 0; i < n; ++i) {
        const Arm &arm = arms[i];
        if (arm.curvature > sharpest &&
            (floor < arm.mode || fall<F>(arm.a, arm.b, arm.curvature, floor - arm.mode).depth < DEPTH)) {
            origin = arm.mode;
            sharpest = arm.curvature;
        }
    }
    floor = -INF;
    for (Index i = 0; i < n; ++i) {
        arms[i].mode -= origin;
        floor = std::max(floor, arms[i].mode - tail_distance<F>(arms[i].curvature, DEPTH));
    }
    const double start = std::max(find_start<F>(floor, arms, n), threshold - origin);
    for (Index i = 0; i < n; ++i) {
        Arm &arm = arms[i];
        const double gap = start - arm.mode, depth = fall<F>(arm.a, arm.b, arm.curvature, gap).depth;
        arm.start_place = place_of(depth, gap);
        if (arm.may_win()) {
            arm.peak = peak_of<F>(arm.a, arm.b, arm.curvature);
            arm.start_level = arm.peak - depth;
        }
    }
    return {origin, start};
}

// Put the arms that may win back to the start; return how many have mass on this side of it.
inline Index return_to_start(Index n, double sign, Work &work) {
    Index count = 0;
    for (Index i = 0; i < n; ++i) {
        Arm &arm = work.arms[i];
        if (arm.may_win()) {
            arm.level = arm.start_level;
            arm.place = arm.start_place;
            if (sign * arm.place < END) work.alive[count++] = i;
        }
    }
    return count;
}

// Set every arm's share; return how far the masses and the sum of shares are from one. `certain` is
// P(a certain arm is best).
inline double set_shares(Index n, double certain, Work &work) {
    double total = certain, gap = 0.0;
    for (Index i = 0; i < n; ++i) {
        double share = 0.0;
        if (work.arms[i].may_win()) {
            for (int j = 0; j < N_NODES; ++j) share += work.won[i].part[j];
            gap = std::max(gap, std::fabs(work.arms[i].below - 1.0));
        }
        work.arms[i].share = std::max(share, 0.0);  // a sum that should be zero may be just below
        total += share;
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
    if (free) {
        Index n_may_win = 0, winner = 0;
        for (Index i = 0; i < n; ++i) {
            arms[i].share = 0.0;
            if (arms[i].may_win()) {
                ++n_may_win;
                winner = i;
            }
        }
        if (n_may_win == 1) {
            arms[winner].share = 1.0;
            return {0.0, 0.0, mean_of<F>(arms[winner].a, arms[winner].b)};
        }
    }
    Limits limits = FIRST_TRY;
    double gap = INF, below = 1.0;
    for (int i = 0; i < N_TRIES && !(gap < TOLERANCE); ++i) {
        work.gain = 0.0;
        for (Index k = 0; k < n; ++k) {
            arms[k].below = 0.0;
            for (double &part : work.won[k].part) part = 0.0;
        }
        integrate_side<F>(line, -1.0, return_to_start(n, -1.0, work), limits, work);
        below = 1.0;
        for (Index k = 0; k < n; ++k)
            if (arms[k].may_win()) below *= arms[k].below;
        integrate_side<F>(line, 1.0, return_to_start(n, 1.0, work), limits, work);
        gap = set_shares(n, free ? 0.0 : below, work);
        limits = {0.5 * limits.stride, 0.01 * limits.roughness};
    }
    const double under = line.start == threshold - line.origin ? below : 0.0;
    double best = height_at<F>(line.origin) * (1.0 - under) + work.gain;
    if (!free) best += under * threshold;
    return {gap, under, best};
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
