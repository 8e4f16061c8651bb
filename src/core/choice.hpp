// A decision: draw a latent state, and find the best of the scores.
#pragma once
#include <cmath>

#include "densities.hpp"
#include "views.hpp"

namespace mixts {

// A component so many nats below the leading one adds less to the sum of weights than rounding.
inline constexpr double FAR = 40.0;

// Draw S ~ P_t by inversion: the first state whose cumulative weight exceeds uniform * total. The
// weights are exp(log_weights[s] + relative[s]) up to a constant; `scratch` has room for all of them.
inline Index pick_latent(const Vector<const double> &log_weights, const double *relative, double uniform,
                         double *scratch) {
    const Index n = log_weights.n;
    for (Index s = 0; s < n; ++s) scratch[s] = log_weights[s] + relative[s];
    const double lead = largest(scratch, n);
    for (Index s = 0; s < n; ++s) {
        const double weight = scratch[s] - lead;
        scratch[s] = weight > -FAR ? fast_exp(weight) : 0.0;
    }
    const double total = sum(scratch, n);
    double rest = uniform * total;
    // Rounding may leave a positive rest: then the last possible state is taken.
    Index picked = 0;
    for (Index s = 0; s < n; ++s) {
        if (scratch[s] <= 0.0) continue;
        picked = s;
        rest -= scratch[s];
        if (rest < 0.0) break;
    }
    return picked;
}

// The first available action of the largest score. `bad`: an available score is not finite.
struct Best {
    Index action = -1;
    bool tied = false, bad = false;
};

// `mask` is nullptr where every action is available.
inline Best best_score(const double *scores, const bool *mask, Index n) {
    Best best;
    double top = -INF;
    for (Index k = 0; k < n; ++k) {
        if (mask != nullptr && !mask[k]) continue;
        if (!std::isfinite(scores[k])) return {-1, false, true};
        if (scores[k] > top) {
            top = scores[k];
            best = {k, false, false};
        } else if (scores[k] == top) {
            best.tied = true;
        }
    }
    return best;
}

// Write scores a'theta of the rows of an action set (K, d), and find the best.
inline Best best_product(const double *theta, const Matrix<const double> &set, const bool *mask, double *scores) {
    for (Index k = 0; k < set.n; ++k) scores[k] = dot(set.row(k).data, theta, set.m);
    return best_score(scores, mask, set.n);
}

}  // namespace mixts
