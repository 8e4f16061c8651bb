// Quantiles of mixtures of normal distributions, and estimates after more rewards.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "views.hpp"

namespace mixts {

// One mixture: weights, means and deviations (L,); a deviation of zero is a certain component.
struct NormalMixture {
    Vector<const double> weight;
    std::vector<double> mean, deviation;

    // Distribution function and density at x.
    struct At {
        double below, density;
    };
    At at(double x) const {
        At found{0.0, 0.0};
        for (Index s = 0; s < weight.n; ++s) {
            if (!(weight[s] > 0.0)) continue;
            if (deviation[s] > 0.0) {
                const double u = (x - mean[s]) / deviation[s];
                found.below += weight[s] * 0.5 * std::erfc(-u / std::numbers::sqrt2);
                found.density += weight[s] * std::exp(-0.5 * (u * u + LOG_2PI)) / deviation[s];
            } else if (x >= mean[s]) {
                found.below += weight[s];
            }
        }
        return found;
    }

    // The quantile between low and high, by Newton's method.
    double quantile(double probability, double low, double high) const {
        constexpr int most = 30;  // far more steps than a smooth distribution function needs
        const double least = 1e-16 * std::max(std::fabs(low), std::fabs(high));
        double x = 0.5 * (low + high);
        for (int n = 0; high - low > least && low < x && x < high; ++n) {
            const auto [below, density] = at(x);
            (below < probability ? low : high) = x;
            // Beside a certain component the function jumps, and only halving makes progress.
            const double change = n < most && density > 0.0 ? (probability - below) / density : INF;
            if (std::fabs(change) <= least) break;
            x = low < x + change && x + change < high ? x + change : 0.5 * (low + high);
        }
        return x;
    }
};

// Set out (m, K) to the quantiles of mixtures with weights (m, L), means and variances (m, L, K).
// `standard` (m,) are the quantiles of the standard normal distribution. The quantiles of components
// of a weight above `least` bracket that of the mixture.
inline void mixture_quantiles(const Matrix<const double> &weights, const Cube<const double> &mean,
                              const Cube<const double> &variance, const Vector<const double> &probability,
                              const Vector<const double> &standard, double least, const Matrix<double> &out) {
    const Index L = weights.m;
    NormalMixture mixture{{}, std::vector<double>(L), std::vector<double>(L)};
    for (Index i = 0; i < out.n; ++i) {
        mixture.weight = weights.row(i);
        for (Index k = 0; k < out.m; ++k) {
            double low = INF, high = -INF;
            for (Index s = 0; s < L; ++s) {
                mixture.mean[s] = mean(i, s, k);
                mixture.deviation[s] = std::sqrt(variance(i, s, k));
                if (weights(i, s) > least) {
                    const double each = mixture.mean[s] + standard[i] * mixture.deviation[s];
                    low = std::min(low, each);
                    high = std::max(high, each);
                }
            }
            out(i, k) = mixture.quantile(probability[i], low, high);
        }
    }
}

// Set out (m, n, K) to E[theta_a | the average of n_more (m,) rewards of a]: sum_s w_s(average) (mean_s +
// share_s (average - mean_s)) with total_s = noise + n variance_s, share_s = n variance_s / total_s, and
// weights ln w_s = ln P(s) - 1/2 ln total_s - n (average - mean_s)^2 / (2 total_s) + constant.
// `averages` (m, n, K) are those of rewards with this noise variance.
inline void estimates(const Matrix<const double> &weights, const Cube<const double> &mean,
                      const Cube<const double> &variance, double noise, const Cube<const double> &averages,
                      const Vector<const Index> &n_more, const Cube<double> &out) {
    // A component that is so many nats below the most likely one adds less than rounding does.
    constexpr double far = 40.0;
    const Index L = weights.m;
    std::vector<double> level(L), sharp(L), share(L), logs(L);
    for (Index i = 0; i < out.n; ++i) {
        const double n = static_cast<double>(n_more[i]);
        for (Index k = 0; k < out.k; ++k) {
            for (Index s = 0; s < L; ++s) {
                const double total = noise + n * variance(i, s, k);
                level[s] = std::log(weights(i, s)) - 0.5 * std::log(total);
                sharp[s] = 0.5 * n / total;
                share[s] = n * variance(i, s, k) / total;
            }
            for (Index r = 0; r < out.m; ++r) {
                const double average = averages(i, r, k);
                double top = -INF;
                for (Index s = 0; s < L; ++s) {
                    const double gap = average - mean(i, s, k);
                    logs[s] = level[s] - sharp[s] * gap * gap;
                    top = std::max(top, logs[s]);
                }
                double value = 0.0, mass = 0.0;
                for (Index s = 0; s < L; ++s)
                    if (logs[s] > top - far) {
                        const double weight = std::exp(logs[s] - top);
                        mass += weight;
                        value += weight * (mean(i, s, k) + share[s] * (average - mean(i, s, k)));
                    }
                out(i, r, k) = value / mass;
            }
        }
    }
}

}  // namespace mixts
