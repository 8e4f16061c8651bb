// Predictions of clicks, one row after the other, for checks of priors.
#pragma once
#include "logistic.hpp"

namespace mixts::logistic {

// Predictions of each row by each component, (N, L), given the earlier rows of its task: mean and variance
// of x'theta, log probability of the row's successes in a given order, mean and variance of the click rate.
struct RowPredictions {
    Matrix<double> location, variance, log_mass, rate, rate_variance;
};

struct Tilted {
    double log_mass, mean, variance;
};

// Return ln of the mass of k successes in n trials for x'theta ~ N(mu, variance), and the mean and variance
// of x'theta given them: Gauss-Hermite quadrature around the mode, nodes (2, Q) for a standard normal weight.
inline Tilted tilted(double mu, double variance, double n, double k, const Matrix<const double> &nodes) {
    double x = mu;
    for (int step = 0; step < 50; ++step) {
        const double t = exp_negative(-std::fabs(x)), p = (x > 0.0 ? 1.0 : t) / (1.0 + t);
        const double curvature = 1.0 / variance + n * t / ((1.0 + t) * (1.0 + t));
        // A logistic function is nearly straight within 2: longer steps may overshoot.
        const double move = std::min(std::max((k - n * p - (x - mu) / variance) / curvature, -2.0), 2.0);
        x += move;
        if (std::fabs(move) < 1e-9 * (1.0 + std::fabs(x))) break;
    }
    const double t = exp_negative(-std::fabs(x));
    const double scale = 1.0 / std::sqrt(1.0 / variance + n * t / ((1.0 + t) * (1.0 + t)));
    auto height = [&](double e) { return k * e - n * softplus_of(e) - 0.5 * (e - mu) * (e - mu) / variance; };
    const double peak = height(x);
    double total = 0.0, first = 0.0, second = 0.0;
    for (Index q = 0; q < nodes.m; ++q) {
        const double z = nodes(0, q);
        const double weight = nodes(1, q) * std::exp(height(x + scale * z) - peak + 0.5 * z * z);
        total += weight;
        first += weight * z;
        second += weight * z * z;
    }
    first /= total;
    second = second / total - first * first;
    return {peak + std::log(total * scale) - 0.5 * std::log(variance), x + scale * first, scale * scale * second};
}

// Predict each row from the earlier rows of its task, under each component with mean (L, d) and covariance
// (L, d, d). After a row, the posterior of theta becomes the normal distribution with the same moments
// (assumed-density filtering): in the direction of the row they come from quadrature, the others follow.
inline void predict_rows(const Vector<const Index> &offsets, const Table &table, const Matrix<const double> &mean,
                         const Cube<const double> &covariance, const Matrix<const double> &nodes,
                         const RowPredictions &out) {
    const Index d = mean.m;
    std::vector<double> centre(d), within(d * d), v(d);
    for (Index i = 0; i + 1 < offsets.n; ++i)
        for (Index s = 0; s < mean.n; ++s) {
            std::copy_n(&mean(s, 0), d, centre.data());
            std::copy_n(covariance[s].data, d * d, within.data());
            for (Index a = offsets[i]; a < offsets[i + 1]; ++a) {
                const double *row = &table.rows(a, 0);
                for (Index j = 0; j < d; ++j) v[j] = dot(&within[j * d], row, d);
                const double mu = dot(row, centre.data(), d), variance = std::max(dot(row, v.data(), d), 1e-12);
                double rate = 0.0, square = 0.0;
                for (Index q = 0; q < nodes.m; ++q) {
                    const double p = logistic_of(mu + std::sqrt(variance) * nodes(0, q));
                    rate += nodes(1, q) * p;
                    square += nodes(1, q) * p * p;
                }
                const Tilted after = tilted(mu, variance, table.trials[a], table.successes[a], nodes);
                out.location(a, s) = mu, out.variance(a, s) = variance, out.log_mass(a, s) = after.log_mass;
                out.rate(a, s) = rate, out.rate_variance(a, s) = std::max(square - rate * rate, 0.0);
                const double shift = (after.mean - mu) / variance;
                const double shrink = (after.variance - variance) / (variance * variance);
                for (Index j = 0; j < d; ++j) {
                    centre[j] += v[j] * shift;
                    const double scaled = v[j] * shrink;
                    for (Index k = 0; k < d; ++k) within[j * d + k] += scaled * v[k];
                }
            }
        }
}

}  // namespace mixts::logistic
