// Linear rewards from statistics: log evidence and posterior of one group of components.
//
// With the task's triangle [[R, z], [0, r]] and the prior root C of a group, the orthogonal
// factorisation of [[I, 0], [R C / sigma, (z - R theta_0) / sigma]] gives everything: a lower triangle T
// with log det M = 2 sum log |diag|, M = T'T = I + C'R'R C / sigma^2; the residual q of the last column;
// the posterior root C T^-1, lower triangular again because the columns are eliminated from the last to
// the first; and the mean theta_0 + C T^-1 g. The identity on top is never stored: a reflection of column
// k touches row k of the top and the block below.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "roots.hpp"
#include "special.hpp"
#include "views.hpp"

namespace mixts {

// The prior of the L components, in G groups of equal covariance.
struct LinearPrior {
    Matrix<const double> mean;                 // (L, d): theta_0.
    Matrix<const double> roots;                // (G, d (d + 1) / 2): packed triangles C, C C' = Sigma_0.
    Vector<const Index> starts;                // (G + 1,): members[starts[g]:starts[g + 1]] are group g.
    Vector<const Index> members, group_of;     // (L,): components group by group; the group of each.
    Vector<const double> log_weights;          // (L,)
    double noise_std, noise;                   // sigma and sigma^2; 1 if the noise is unknown.
    Vector<const double> degrees, unit;        // (L,): those of an unknown noise variance, or empty.

    Index n_groups() const { return roots.n; }
    bool noise_is_unknown() const { return degrees.n > 0; }
};

// The square of a smaller number underflows, and vanishes beside any noise.
inline constexpr double SMALLEST = 1e-150;

// Rotate one observation [a', y] into a task's triangle (d + 1, d + 1); `row` (d + 1,) is scratch.
inline void fold_row(const Matrix<double> &factor, const double *a, double y, double *__restrict row) {
    const Index size = factor.n;
    std::copy_n(a, size - 1, row);
    row[size - 1] = y;
    for (Index k = 0; k < size; ++k) {
        const double x = row[k];
        if (std::abs(x) <= SMALLEST) continue;
        double *__restrict line = factor.row(k).data;
        const double old = line[k], length = std::sqrt(old * old + x * x), c = old / length, s = x / length;
        line[k] = length;
        for (Index j = k + 1; j < size; ++j) {
            const double f = line[j], r = row[j];
            line[j] = c * f + s * r;
            row[j] = c * r - s * f;
        }
    }
}

class LinearEvidence {
  public:
    explicit LinearEvidence(const LinearPrior &prior) : prior_(prior), d_(prior.mean.m), width_(d_) {
        for (Index g = 0; g < prior.n_groups(); ++g)
            width_ = std::max(width_, d_ + prior.starts[g + 1] - prior.starts[g]);
        below_.resize(static_cast<std::size_t>(d_ * width_));
        top_.resize(static_cast<std::size_t>(d_ * width_));
        sums_.resize(static_cast<std::size_t>(width_));
    }

    // Set the log evidence (L,) of a group's members: -n/2 ln(2 pi sigma^2) - ln det M / 2 - (rss / sigma^2 + q) / 2;
    // if the noise is unknown, whole_evidence(nu, u, n, S) - ln det M / 2 and the misfit S = rss + q (L,).
    void evaluate(Index g, Index count, const Matrix<double> &factor, double *evidence, double *misfit) {
        factorise(g, factor);
        const double n = static_cast<double>(count), rest = factor(d_, d_) / prior_.noise_std;
        const double shared = -0.5 * (n * (LOG_2PI + 2.0 * std::log(prior_.noise_std)) + rest * rest);
        for (Index j = prior_.starts[g]; j < prior_.starts[g + 1]; ++j) {
            const Index s = prior_.members[j], place = d_ + j - prior_.starts[g];
            double q = 0.0;
            for (Index i = 0; i < d_; ++i) q += below(i)[place] * below(i)[place];
            if (prior_.noise_is_unknown()) {
                misfit[s] = factor(d_, d_) * factor(d_, d_) + q;
                evidence[s] = whole_evidence(prior_.degrees[s], prior_.unit[s], count, misfit[s]) - half_log_det_;
            } else {
                evidence[s] = shared - half_log_det_ - 0.5 * q;
            }
        }
    }

    // Factorise one group's matrix; the functions below read the result.
    void factorise(Index g, const Matrix<double> &factor) {
        load(g, factor);
        eliminate(d_ + prior_.starts[g + 1] - prior_.starts[g]);
    }

    // Set packed to the posterior root C T^-1.
    void root(Index g, double *packed) {
        const double *root = prior_.roots.row(g).data;
        double *x = sums_.data();
        for (Index k = 0; k < d_; ++k) {
            // Row k of C, then x T = row by back substitution, a row of T at a time.
            for (Index j = 0; j <= k; ++j) x[j] = root[column(j, d_) + k - j];
            for (Index i = k; i >= 0; --i) {
                x[i] /= top(i)[i];
                for (Index j = 0; j < i; ++j) x[j] -= x[i] * top(i)[j];
            }
            for (Index j = 0; j <= k; ++j) packed[column(j, d_) + k - j] = x[j];
        }
    }

    // Set out (d,) to the posterior mean theta_0 + C T^-1 g of a member.
    void mean(Index g, Index s, double *out) {
        Index place = d_;
        while (prior_.members[prior_.starts[g] + place - d_] != s) ++place;
        for (Index i = 0; i < d_; ++i) out[i] = (top(i)[place] - dot(top(i), out, i)) / top(i)[i];
        apply_root(prior_.roots.row(g).data, 1, d_, out);
        for (Index k = 0; k < d_; ++k) out[k] += prior_.mean(s, k);
    }

  private:
    double *below(Index i) { return below_.data() + i * width_; }
    double *top(Index i) { return top_.data() + i * width_; }

    // Set below to [R C, z - R theta_0] / sigma, a column of the latter for each member.
    void load(Index g, const Matrix<double> &factor) {
        const double *root = prior_.roots.row(g).data;
        for (Index i = 0; i < d_; ++i) {
            const double *row = factor.row(i).data;
            for (Index j = 0; j < d_; ++j) {
                const Index first = std::max(i, j);
                below(i)[j] = dot(row + first, root + column(j, d_) + first - j, d_ - first) / prior_.noise_std;
            }
            for (Index j = prior_.starts[g]; j < prior_.starts[g + 1]; ++j) {
                const double *mean = prior_.mean.row(prior_.members[j]).data;
                below(i)[d_ + j - prior_.starts[g]] = (row[d_] - dot(row + i, mean + i, d_ - i)) / prior_.noise_std;
            }
        }
    }

    // Reflect [[I, 0], [below]] to a lower triangle, top; columns from d on are right-hand sides.
    void eliminate(Index width) {
        half_log_det_ = 0.0;
        double *__restrict sums = sums_.data();
        for (Index k = d_ - 1; k >= 0; --k) {
            double square = 0.0;
            for (Index i = 0; i < d_; ++i) square += below(i)[k] * below(i)[k];
            const double norm = std::sqrt(1.0 + square);
            half_log_det_ += std::log(norm);
            // The reflection maps (1, b) to (-norm, 0); its vector is (1 + norm, b).
            const double head = 1.0 + norm, scale = 1.0 / (norm * head);
            std::fill_n(sums, width, 0.0);
            for (Index i = 0; i < d_; ++i) {
                const double b = below(i)[k], *__restrict line = below(i);
                if (b == 0.0) continue;
                for (Index j = 0; j < k; ++j) sums[j] += b * line[j];
                for (Index j = d_; j < width; ++j) sums[j] += b * line[j];
            }
            for (Index j = 0; j < width; ++j) top(k)[j] = scale * head * sums[j];
            top(k)[k] = norm;
            for (Index i = 0; i < d_; ++i) {
                double *__restrict line = below(i);
                const double b = line[k] * scale;
                if (b == 0.0) continue;
                for (Index j = 0; j < k; ++j) line[j] -= b * sums[j];
                for (Index j = d_; j < width; ++j) line[j] -= b * sums[j];
            }
        }
    }

    const LinearPrior &prior_;
    Index d_, width_;
    double half_log_det_ = 0.0;
    std::vector<double> below_, top_, sums_;
};

}  // namespace mixts
