// Actions compared under linear posteriors: moments of a'theta, and draws.
//
// An action set is stored by columns, (d, K), so that the innermost loops run over actions: equal actions
// then get equal scores, to the last bit, and share the votes of a draw. K is rounded up to a multiple of
// 16, because loops over such a length have no slow remainder.
//
// Draws come in pairs, theta = mean + C x and mean - C x with x standard normal. The root is applied to the
// actions, once for all draws: the scores are A mean + A C x and A mean - A C x.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "linear.hpp"
#include "views.hpp"

namespace mixts {

// P(action is best), its squared standard error, and E[max_b X_b] - E[X_a], X_a = a'theta; (K,) each.
struct ActionEstimates {
    double *probability, *error, *regret;
};

class LinearActions {
  public:
    LinearActions(Linear &posterior, Index n_actions)
        : posterior_(posterior), prior_(posterior.prior), n_(n_actions), d_(prior_.mean.m),
          width_((n_actions + 15) / 16 * 16), columns_(size(d_)), projected_(size(d_)), mixture_(size(1)),
          center_(size(1)), deviation_(size(1)), above_(size(1)), below_(size(1)), votes_(size(1)),
          squares_(size(1)), x_(static_cast<std::size_t>(d_)) {}

    // Store the available actions of a set (K, d) by columns; the others, and those added, are zeros.
    // `mask` is nullptr where every action is available.
    void load(const Matrix<const double> &set, const bool *mask) {
        mask_ = mask;
        for (Index k = 0; k < d_; ++k)
            for (Index a = 0; a < width_; ++a)
                columns_[k * width_ + a] = a < n_ && is_available(a) ? set(a, k) : 0.0;
    }

    // Set mean (L, K) and variance (L, K) of a'theta; dormant components keep their zeros. Without an array
    // for variances they are not computed.
    void moments(Index t, double *mean, double *variance) {
        for (Index g = 0; g < prior_.n_groups(); ++g) {
            if (posterior_.is_dormant(t, g)) continue;
            if (variance != nullptr) {
                project(posterior_.settled_root(t, g));
                std::fill(deviation_.begin(), deviation_.end(), 0.0);
                for (Index k = 0; k < d_; ++k) {
                    const double *__restrict row = projected_.data() + k * width_;
                    for (Index a = 0; a < width_; ++a) deviation_[a] += row[a] * row[a];
                }
            }
            for (Index j = prior_.starts[g]; j < prior_.starts[g + 1]; ++j) {
                const Index s = prior_.members[j];
                combine(posterior_.settled_mean(t, s), columns_, d_, center_);
                std::copy_n(center_.data(), n_, mean + s * n_);
                if (variance != nullptr) std::copy_n(deviation_.data(), n_, variance + s * n_);
            }
        }
    }

    // Estimate from pairs (L,) of draws of each component of a task, with these weights (L,); components
    // without pairs are left out. `draw` fills x (d,) for component s: a standard normal, times sigma where
    // the noise is unknown. Returns whether all scores are finite.
    template <class Draw>
    bool best_in_draws(Index t, const double *weights, const Index *pairs, Draw draw, const ActionEstimates &out) {
        const Index lead = set_mixture(t, weights, pairs);
        double gain = 0.0, check = 0.0;  // a sum that is finite if all scores are
        for (Index g = 0; g < prior_.n_groups(); ++g) {
            bool fresh = true;
            for (Index j = prior_.starts[g]; j < prior_.starts[g + 1]; ++j) {
                const Index s = prior_.members[j];
                if (pairs[s] == 0) continue;
                if (fresh) {
                    project(posterior_.settled_root(t, g));
                    // A score that is no number would lose every comparison, and not be seen again.
                    check += 0.0 * sum(projected_.data(), d_ * width_);
                }
                fresh = false;
                combine(posterior_.settled_mean(t, s), columns_, d_, center_);
                for (Index a = 0; a < width_; ++a)
                    if (a >= n_ || !is_available(a)) center_[a] = -INF;
                gain += weights[s] * count_pairs(s, pairs[s], lead, draw);
                const double n = static_cast<double>(pairs[s]);
                for (Index a = 0; a < n_; ++a) {
                    const double share = votes_[a] / n, square = squares_[a] / n;
                    out.probability[a] += weights[s] * share;
                    out.error[a] += weights[s] * weights[s] * std::max(square - share * share, 0.0) / (n - 1.0);
                }
            }
        }
        check += gain;
        for (Index a = 0; a < n_; ++a)
            if (is_available(a)) {
                check += mixture_[a];
                out.regret[a] = gain + (mixture_[lead] - mixture_[a]);
            }
        return std::isfinite(check);
    }

  private:
    using Line = std::vector<double>;

    std::size_t size(Index rows) const { return static_cast<std::size_t>(rows * width_); }
    bool is_available(Index a) const { return mask_ == nullptr || mask_[a]; }

    // total (K,) = sum_i x[i] rows[i]; every action has the same rounding.
    void combine(const double *__restrict x, const Line &rows, Index n, Line &total) const {
        combine(x, rows.data(), n, total.data());
    }
    void combine(const double *x, const double *rows, Index n, double *total) const {
        std::fill_n(total, width_, 0.0);
        mixts::combine(x, 1, rows, width_, n, width_, total);
    }

    // Compute C'A' (d, K).
    void project(const double *root) {
        for (Index k = 0; k < d_; ++k)
            combine(root + column(k, d_), columns_.data() + k * width_, d_ - k, projected_.data() + k * width_);
    }

    // Set the mean scores under the mixture; return the available action of the highest.
    Index set_mixture(Index t, const double *weights, const Index *pairs) {
        std::fill(x_.begin(), x_.end(), 0.0);
        for (Index s = 0; s < prior_.mean.n; ++s) {
            if (pairs[s] == 0) continue;
            const double *mean = posterior_.settled_mean(t, s);
            for (Index k = 0; k < d_; ++k) x_[k] += weights[s] * mean[k];
        }
        combine(x_.data(), columns_, d_, mixture_);
        Index lead = -1;
        for (Index a = 0; a < n_; ++a)
            if (is_available(a) && (lead < 0 || mixture_[a] > mixture_[lead])) lead = a;
        return lead;
    }

    // The vote of each action that has the largest score: half a vote for all of them.
    static double share(const Line &scores, double top) {
        double n = 0.0;
        for (double score : scores) n += score == top ? 1.0 : 0.0;
        return 0.5 / n;
    }

    // Let the pairs of a component vote for their best actions; return E[max X - X_lead].
    template <class Draw>
    double count_pairs(Index s, Index n, Index lead, Draw draw) {
        std::fill(votes_.begin(), votes_.end(), 0.0);
        std::fill(squares_.begin(), squares_.end(), 0.0);
        double gain = 0.0;
        for (Index r = 0; r < n; ++r) {
            draw(s, x_.data());
            combine(x_.data(), projected_, d_, deviation_);
            double *__restrict above = above_.data(), *__restrict below = below_.data();
            const double *__restrict center = center_.data(), *__restrict deviation = deviation_.data();
            for (Index a = 0; a < width_; ++a) {
                above[a] = center[a] + deviation[a];
                below[a] = center[a] - deviation[a];
            }
            const double high = largest(above, width_), low = largest(below, width_);
            gain += (high - above[lead]) + (low - below[lead]);
            const double one = share(above_, high), other = share(below_, low);
            double *__restrict votes = votes_.data(), *__restrict squares = squares_.data();
            for (Index a = 0; a < width_; ++a) {
                const double vote = (above[a] == high ? one : 0.0) + (below[a] == low ? other : 0.0);
                votes[a] += vote;
                squares[a] += vote * vote;
            }
        }
        return 0.5 * gain / static_cast<double>(n);
    }

    Linear &posterior_;
    const LinearPrior &prior_;
    Index n_, d_, width_;
    const bool *mask_ = nullptr;
    Line columns_, projected_;  // (d, K): the actions A by columns, and C'A'.
    // (K,): mean scores under the mixture and under a component (-inf where an action is not available), a
    // pair's deviation from the latter, added and subtracted, votes and their squares.
    Line mixture_, center_, deviation_, above_, below_, votes_, squares_;
    Line x_;  // (d,)
};

}  // namespace mixts
