// Draws from logistic posteriors, and moments of coefficients and of click rates.
#pragma once
#include "logistic.hpp"

namespace mixts::logistic {

// -- draws ------------------------------------------------------------------------------------------------

// Prepare draws from a component: its rows at the location, A, and sums of the points' weights.
inline void prepare_draws(Work &w, const Component &from) {
    set_eta(w, from.location);
    set_coefficients(w, from.direction);
    set_weights(from.log_weight, *from.n_points, w.weights_.data());
    std::partial_sum(w.weights_.begin(), w.weights_.begin() + *from.n_points, w.weights_.begin());
}

// Draw theta (d,): start at a fixed point, chosen by its weight, then make Metropolis moves
// z -> c z + sqrt(1 - c^2) normal, which leave N(0, I) unchanged, so that they are accepted with the
// ratio of weights. Takes 1 + N_MOVES uniforms above 0 and (N_MOVES r + d - r) normals; returns how
// many moves were accepted.
inline Index draw(Work &w, const Points &points, const Component &from, const double *uniforms, const double *normals,
                  double *theta) {
    const Index d = w.d, r = w.r, n = *from.n_points;
    const double *centre = from.shape, *spread = centre + d, *bend = spread + d, *slack = bend + d;
    double *z = w.moments_.data(), *proposed = z + d, *y = proposed + d, *move = w.x_.data();
    Index accepted = 0;
    auto place = [&](const double *at) {  // y, and the log weight but for rows
        double total = 0.0, product = 1.0;
        for (Index j = 0; j < r; ++j) {
            const double size = std::sqrt(1.0 + at[j] * at[j]);
            y[j] = centre[j] + spread[j] * at[j] + bend[j] * size;
            total += 0.5 * at[j] * at[j] + y[j] * (slack[j] - 0.5 * y[j]);
            product *= spread[j] + bend[j] * at[j] / size;
            if (j % FACTORS == FACTORS - 1 || j == r - 1) total += std::log(product), product = 1.0;
        }
        return total;
    };
    if (r > 0) {
        const double *sums = w.weights_.data();
        const Index start = std::min<Index>(std::upper_bound(sums, sums + n, uniforms[0] * sums[n - 1]) - sums, n - 1);
        for (Index j = 0; j < r; ++j) z[j] = points.at(j, start);
        double present = from.log_weight[start];
        for (Index t = 0; t < N_MOVES; ++t, normals += r) {
            const double fresh = std::sqrt(1.0 - MIXING[t] * MIXING[t]);
            for (Index j = 0; j < r; ++j) proposed[j] = MIXING[t] * z[j] + fresh * normals[j];
            double total = place(proposed);
            std::fill_n(move, w.n_rows, 0.0);
            combine(y, 1, w.coefficient_.data(), w.n_rows, r, w.n_rows, move);
            total += rise(w, move);
            if (std::log(uniforms[1 + t]) < total - present) {
                ++accepted;
                present = total;
                std::copy_n(proposed, r, z);
            }
        }
        place(z);
    }
    for (Index k = 0; k < d; ++k) {
        const double *heads = from.direction + k * d;
        theta[k] = from.location[k] + dot(heads, y, r) + dot(heads + r, normals, d - r);
    }
    return accepted;
}

// -- moments ------------------------------------------------------------------------------------------------

// The points of a component that are used, for sums over them. The moments of the proposal are known, so the
// points estimate only the difference that the weights make: sums have weights w - share, where share is
// 1 / n, or 0 where the error of the evidence is so large that such sums might be no covariance.
struct Cloud {
    Index n = 0, r = 0;
    double share = 0.0;
    std::vector<double> weight;    // (n,): they sum to 1
    std::vector<double> y;         // (r, n): distances from the proposal's mean
    std::vector<double> centre;    // (r,): the proposal's mean
    std::vector<double> variance;  // (r,): the proposal's variance
    std::vector<double> scaled, second, half, head, move, x, rate, control;  // temporary

    void load(Work &w, const Points &points, const Component &of) {
        n = *of.n_used, r = w.r;
        const Index d = w.d;
        weight.resize(n), y.resize(r * n), centre.resize(d), variance.resize(d), scaled.resize(n), move.resize(d);
        const double top = set_weights(of.log_weight, n, weight.data());
        share = average(top, weight.data(), n).error < LARGE_ERROR ? 1.0 / static_cast<double>(n) : 0.0;
        const double total = sum(weight.data(), n);
        for (Index a = 0; a < n; ++a) weight[a] /= total;
        for (Index j = 0; j < r; ++j) {
            const double spread = of.shape[d + j], bend = of.shape[2 * d + j];
            centre[j] = of.shape[j] + bend * MEAN_SIZE;
            variance[j] = spread * spread + bend * bend * VAR_SIZE;
            for (Index c = 0; c < n / CHUNK; ++c) {
                const Index at = points.chunk(c) + j * CHUNK;
                const double *z = &points.z[at], *size = &points.size[at];
                double *own = &y[j * n + c * CHUNK];
                for (Index a = 0; a < CHUNK; ++a) own[a] = spread * z[a] + bend * (size[a] - MEAN_SIZE);
            }
        }
    }
};

// Set mean (d,) and covariance (d, d) of theta.
inline void parameter_moments(Work &w, Cloud &cloud, const Points &points, const Component &of, double *mean,
                              double *covariance) {
    cloud.load(w, points, of);
    const Index d = w.d, r = w.r, n = cloud.n;
    auto &[_n, _r, share, weight, y, centre, variance, scaled, second, half, head, move, x, rate, control] = cloud;
    second.assign(d * d, 0.0);
    half.resize(d * d);
    for (Index j = 0; j < d; ++j) second[j * d + j] = 1.0;
    for (Index j = 0; j < r; ++j) {
        for (Index a = 0; a < n; ++a) scaled[a] = (weight[a] - share) * y[j * n + a];
        move[j] = sum(scaled.data(), n);
        for (Index k = 0; k <= j; ++k) second[j * d + k] = dot(scaled.data(), &y[k * n], n);
        if (share > 0.0) second[j * d + j] += variance[j];
    }
    for (Index j = 0; j < r; ++j)
        for (Index k = 0; k <= j; ++k) second[k * d + j] = second[j * d + k] -= move[j] * move[k];
    for (Index j = 0; j < r; ++j) move[j] += centre[j];
    for (Index j = 0; j < d; ++j) {
        const double *heads = of.direction + j * d;
        mean[j] = of.location[j] + dot(heads, move.data(), r);
        for (Index k = 0; k < d; ++k) half[j * d + k] = dot(heads, &second[k * d], d);
    }
    for (Index j = 0; j < d; ++j)
        for (Index k = 0; k <= j; ++k)
            covariance[j * d + k] = covariance[k * d + j] = dot(&half[j * d], of.direction + k * d, d);
}

struct RateMoments {
    double rate, rate_variance, mean, variance;  // of logistic(a'theta), and of a'theta
};

// Set head (d,) to direction' action, and x (n,) to the distances of a'theta from its middle over the points, but for
// coordinates beyond the rank; return the middle, a'theta at the proposal's mean.
inline double project(const Work &w, Cloud &cloud, const Component &of, const double *action) {
    const Index d = w.d, r = w.r, n = cloud.n;
    cloud.head.assign(d, 0.0);
    combine(action, 1, of.direction, d, d, d, cloud.head.data());
    cloud.x.assign(n, 0.0);
    combine(cloud.head.data(), 1, cloud.y.data(), n, r, n, cloud.x.data());
    return dot(action, of.location, d) + dot(cloud.head.data(), cloud.centre.data(), r);
}

// Return E[max_b p_b - p_lead] over the points, p the click rates of the available actions, after cloud.load.
// Coordinates beyond the rank are further coordinates of the points.
inline double expected_gain(const Work &w, Cloud &cloud, const Points &points, const Component &of,
                            const Matrix<const double> &actions, const Vector<const bool> &mask, Index lead) {
    const Index d = w.d, r = w.r, n = cloud.n;
    auto &x = cloud.x, &best = cloud.rate, &own = cloud.control, &gain = cloud.scaled;
    best.assign(n, -INF);
    for (Index k = 0; k < actions.n; ++k) {
        if (!mask[k]) continue;
        const double middle = project(w, cloud, of, &actions(k, 0));
        for (Index c = 0; c < n / CHUNK; ++c)
            combine(cloud.head.data() + r, 1, points.z.data() + points.chunk(c) + r * CHUNK, CHUNK, d - r, CHUNK, &x[c * CHUNK]);
        for (Index a = 0; a < n; ++a) x[a] += middle, best[a] = x[a] > best[a] ? x[a] : best[a];
        if (k == lead) own = x;
    }
    // The rate rises with a'theta: the best action has the largest.
    for (Index a = 0; a < n; ++a) gain[a] = logistic_of(best[a]) - logistic_of(own[a]);
    return dot(gain.data(), cloud.weight.data(), n);
}

// Return the moments of one action (d,), after cloud.load. Coordinates beyond the rank are one more
// normal coordinate of the points. The mean click rate is corrected by the proposal's known mean of
// the second-order expansion, with the coefficient of a regression (a control variate).
inline RateMoments action_moments(Work &w, Cloud &cloud, const Points &points, const Component &of, const double *action) {
    const Index d = w.d, r = w.r, n = cloud.n;
    auto &[_n, _r, share, weight, y, centre, variance, scaled, second, half, head, move, x, rate, control] = cloud;
    const double middle = project(w, cloud, of, action);
    rate.resize(n), control.resize(n);
    double within = 0.0, beyond = 0.0;
    for (Index j = 0; j < r; ++j) within += head[j] * head[j] * variance[j];
    for (Index j = r; j < d; ++j) beyond += head[j] * head[j];
    for (Index a = 0; a < n; ++a) scaled[a] = (weight[a] - share) * x[a];
    const double shift = sum(scaled.data(), n);
    const double spread = dot(scaled.data(), x.data(), n) - shift * shift + (share > 0.0 ? within : 0.0);
    const double deviation = std::sqrt(beyond);
    if (beyond > 0.0)
        for (Index a = 0; a < n; ++a) x[a] += deviation * points.at(std::min(r, d - 1), a);
    for (Index a = 0; a < n; ++a) rate[a] = logistic_of(middle + x[a]);
    double mean = dot(rate.data(), weight.data(), n);
    for (Index a = 0; a < n; ++a) scaled[a] = (rate[a] - mean) * weight[a];
    for (Index a = 0; a < n; ++a) rate[a] -= mean;
    const double rate_variance = std::max(dot(scaled.data(), rate.data(), n), 0.0);
    if (share > 0.0) {
        // logistic'' / (2 logistic') = (1 - 2 p) / 2 at the middle
        const double bend = 0.5 * std::tanh(0.5 * middle);
        for (Index a = 0; a < n; ++a) control[a] = x[a] * (1.0 - bend * x[a]);
        const double average = sum(control.data(), n) / static_cast<double>(n);
        const double product = dot(scaled.data(), control.data(), n);
        for (Index a = 0; a < n; ++a) control[a] -= average;
        const double square = std::max(dot(control.data(), control.data(), n) / static_cast<double>(n), 1e-300);
        mean -= product / square * (average + bend * (within + beyond));
    }
    mean = std::min(std::max(mean, 0.0), 1.0);
    return {mean, rate_variance, middle + shift, std::max(spread, 0.0) + beyond};
}

}  // namespace mixts::logistic
