// The action probabilities of information-directed sampling.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "views.hpp"

namespace mixts {

// regret^2 / information of a distribution over actions.
inline double ratio_of(double regret, double information) {
    if (regret <= 0.0) return 0.0;
    return information > 0.0 ? regret * regret / information : INF;
}

// One decision: regrets, informations (K,) and the available actions.
struct Terms {
    Vector<const double> regret, information;
    Vector<const bool> mask;
};

// Write the corners of the frontier to `corner`, (K,), and return their number; `order`, (K,), is scratch.
//
// A distribution over actions is a point (regret, information) of the convex hull of the actions. Less
// regret and more information are better, so that only the upper left side of the hull matters: there,
// both rise from corner to corner, and the slope falls.
inline Index frontier(const Terms &terms, std::vector<Index> &order, std::vector<Index> &corner) {
    const auto &[regret, information, mask] = terms;
    Index n_available = 0, n = 0;
    for (Index k = 0; k < mask.n; ++k)
        if (mask[k] && !std::isnan(regret[k])) order[n_available++] = k;
    std::sort(order.begin(), order.begin() + n_available,
              [&](Index i, Index j) { return regret[i] < regret[j] || (regret[i] == regret[j] && i < j); });
    for (Index place = 0; place < n_available; ++place) {
        const Index k = order[place];
        const double d = regret[k], g = information[k];
        if (n > 0 && g <= information[corner[n - 1]]) continue;
        if (n > 0 && d == regret[corner[n - 1]]) --n;
        for (; n > 1; --n) {
            const Index i = corner[n - 2], j = corner[n - 1];
            const double rise = (information[j] - information[i]) * (d - regret[i]);
            if (rise > (g - information[i]) * (regret[j] - regret[i])) break;
        }
        corner[n++] = k;
    }
    return n;
}

// Add a probability to action k, in equal parts to all available actions that are exactly like it.
inline void spread(Index k, double share, const Terms &terms, const Vector<double> &probability) {
    auto like = [&](Index b) {
        return terms.mask[b] && terms.regret[b] == terms.regret[k] && terms.information[b] == terms.information[k];
    };
    Index same = 0;
    for (Index b = 0; b < terms.mask.n; ++b) same += like(b);
    for (Index b = 0; b < terms.mask.n; ++b)
        if (like(b)) probability[b] += share / static_cast<double>(same);
}

// Write the probabilities (m, K) that minimise regret^2 / information. The ratio is convex on the hull,
// so that its minimum lies on one edge of the frontier: at most two different actions have a positive
// probability. Where no action is informative, the action of least regret is taken.
inline void least_ratio(const Matrix<const double> &regrets, const Matrix<const double> &informations,
                        const Matrix<const bool> &mask, const Matrix<double> &probabilities) {
    std::vector<Index> order(mask.m), corner(mask.m);
    for (Index r = 0; r < mask.n; ++r) {
        const Terms terms{regrets.row(r), informations.row(r), mask.row(r)};
        for (double &x : probabilities.row(r)) x = 0.0;
        const Index n = frontier(terms, order, corner);
        if (n == 0) continue;
        Index first = corner[0], second = corner[0];
        double share = 0.0, least = ratio_of(terms.regret[first], terms.information[first]);
        for (Index c = 1; c < n; ++c) {
            const Index i = corner[c - 1], j = corner[c];
            const double regret = terms.regret[i], information = terms.information[i];
            const double d = terms.regret[j] - regret, g = terms.information[j] - information;
            // The ratio's slope along the edge is zero at this share of its end.
            const double q = std::clamp(regret / d - 2.0 * information / g, 0.0, 1.0);
            const double found = ratio_of(regret + q * d, information + q * g);
            if (found < least) {
                least = found;
                first = i;
                second = j;
                share = q;
            }
        }
        if (share < 1.0) spread(first, 1.0 - share, terms, probabilities.row(r));
        if (share > 0.0) spread(second, share, terms, probabilities.row(r));
    }
}

}  // namespace mixts
