// Evidence and posterior moments of Gaussian arms, for learning a prior. Arms that a task did not
// try say nothing and cost no time: of many arms, most.
#pragma once
#include <cmath>
#include <vector>

#include "views.hpp"

namespace mixts {

// Numbers of rewards and their averages, (n, K).
struct ArmTasks {
    Matrix<const Index> count;
    Matrix<const double> average;
};

// Means and variances, (L, K), and sigma^2.
struct ArmComponents {
    Matrix<const double> mean, variance;
    double noise;
};

// Sums over tasks that tried an arm, (L, K): of shares r; of u = r times the task's sharpness; and,
// for the posterior mean mu, of u (mu - m) and of u (mu - m)^2 + r times the posterior variance.
struct ArmSums {
    Matrix<double> tasks, sharp, first, second;
};

// Add ln(1 + n v / sigma^2) and n (average - m)^2 / (sigma^2 + n v) of all arms to (n, L) each.
inline void arm_evidence(const ArmTasks &tasks, const ArmComponents &components, const Matrix<double> &logs,
                         const Matrix<double> &squares) {
    const auto &[mean, variance, noise] = components;
    const Index n_arms = mean.m;
    std::vector<double> once(mean.n * n_arms);  // of ratings and many other rewards, an arm has only one
    for (Index i = 0; i < mean.n * n_arms; ++i) once[i] = std::log1p(variance.data[i] / noise);
    for (Index i = 0; i < logs.n; ++i)
        for (Index k = 0; k < n_arms; ++k) {
            if (tasks.count(i, k) <= 0) continue;
            const double n = static_cast<double>(tasks.count(i, k));
            for (Index s = 0; s < mean.n; ++s) {
                const double gap = tasks.average(i, k) - mean(s, k), wide = n * variance(s, k);
                logs(i, s) += n == 1.0 ? once[s * n_arms + k] : std::log1p(wide / noise);
                squares(i, s) += n * gap * gap / (noise + wide);
            }
        }
}

// Add posterior moments to the sums, and return the sum of r E[n (average - theta)^2].
inline double arm_moments(const ArmTasks &tasks, const ArmComponents &components, const Matrix<const double> &share,
                          const Matrix<const double> &sharp, const ArmSums &sums) {
    const auto &[mean, variance, noise] = components;
    double misfit = 0.0;
    for (Index i = 0; i < share.n; ++i)
        for (Index k = 0; k < mean.m; ++k) {
            if (tasks.count(i, k) <= 0) continue;
            const double n = static_cast<double>(tasks.count(i, k));
            for (Index s = 0; s < mean.n; ++s) {
                const double r = share(i, s), u = sharp(i, s);
                const double wide = n * variance(s, k), gap = tasks.average(i, k) - mean(s, k);
                const double step = wide / (noise + wide) * gap, rest = variance(s, k) * noise / (noise + wide);
                sums.tasks(s, k) += r;
                sums.sharp(s, k) += u;
                sums.first(s, k) += u * step;
                sums.second(s, k) += u * step * step + r * rest;
                misfit += r * n * ((gap - step) * (gap - step) + rest);
            }
        }
    return misfit;
}

}  // namespace mixts
