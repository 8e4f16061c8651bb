// Independent arms: counts of observations, log evidence of the components, posterior parameters.
//
// Each struct below is one kind of rewards. It has the statistics, matrices (tasks, K), and the prior
// parameters twice: (L, K), where the arms of a component are side by side for decisions, and (K, L),
// where the components of an arm are side by side for updates. It knows
//
//     accepts(t, k, y, total)   whether y is a possible reward of arm k; `total` is the sum of the batch
//     predict(t, k, y, sums)    add the log probability of the next reward to each component's evidence
//     count(t, k, y)            count the reward; `learn` does both
//     evidence(t, sums)         compute the log evidence of a task from its statistics
//     parameters(t, s, ...)     the posterior parameters of all arms under component s
//
// Evidence is relative: the terms that all components share are left out (`evidence_constant` of the
// plain family).
#pragma once
#include <cfloat>
#include <cmath>

#include "best_arm.hpp"
#include "choice.hpp"
#include "special.hpp"
#include "views.hpp"

namespace mixts {

// Beyond 2^53 a double no longer holds every whole number; sums of counts must not overflow.
inline constexpr double LARGEST_COUNT = 9007199254740992.0, LARGEST_TOTAL = 4611686018427387904.0;

inline double real(Index n) { return static_cast<double>(n); }

// A matrix of parameters in both orders.
struct Parameters {
    Matrix<const double> by_component, by_arm;  // (L, K) and (K, L)
};

// The rows of evidence of a task, (L,); `misfit` is of Student arms only.
struct Sums {
    double *evidence, *misfit;
};

// -- Bernoulli ----------------------------------------------------------------------------------

struct Bernoulli {
    static constexpr bool DECIDES = true;
    static constexpr Form FORM = Form::LOGIT_BETA;
    Matrix<Index> successes, failures;
    Parameters alpha, beta;

    bool accepts(Index, Index, double y, double) const { return y == 0.0 || y == 1.0; }

    // ln of (alpha + successes) / (alpha + beta + both), or of (beta + failures) / the same.
    void predict(Index t, Index k, double y, Sums sums) const {
        const bool won = y == 1.0;
        const double seen = real(won ? successes(t, k) : failures(t, k));
        const double both = real(successes(t, k) + failures(t, k));
        const Index n = alpha.by_arm.m;
        const double *a = alpha.by_arm.row(k).data, *b = beta.by_arm.row(k).data, *own = won ? a : b;
        double least = INF;
        for (Index s = 0; s < n; ++s) {
            const double chance = (own[s] + seen) / (a[s] + b[s] + both);
            least = chance < least ? chance : least;
        }
        if (least < DBL_MIN) {  // too small for the fast logarithm
            for (Index s = 0; s < n; ++s)
                sums.evidence[s] += std::log(own[s] + seen) - std::log(a[s] + b[s] + both);
            return;
        }
        for (Index s = 0; s < n; ++s)
            sums.evidence[s] += fast_log((own[s] + seen) / (a[s] + b[s] + both));
    }

    void count(Index t, Index k, double y) const { ++(y == 1.0 ? successes : failures)(t, k); }

    // ln B(alpha + w, beta + l) - ln B(alpha, beta), summed over the arms.
    void evidence(Index t, Sums sums) const {
        const Index n = alpha.by_arm.m;
        for (Index s = 0; s < n; ++s) sums.evidence[s] = 0.0;
        for (Index k = 0; k < successes.m; ++k) {
            const double won = real(successes(t, k)), lost = real(failures(t, k));
            if (won + lost == 0.0) continue;
            for (Index s = 0; s < n; ++s)
                sums.evidence[s] += beta_evidence(alpha.by_arm(k, s), beta.by_arm(k, s), won, lost);
        }
    }

    void parameters(Index t, Index s, Sums, Stream &, double *a, double *b) const {
        const double *first = alpha.by_component.row(s).data, *second = beta.by_component.row(s).data;
        const Index *won = successes.row(t).data, *lost = failures.row(t).data;
        for (Index k = 0; k < successes.m; ++k) a[k] = first[k] + real(won[k]), b[k] = second[k] + real(lost[k]);
    }
};

// -- Poisson ------------------------------------------------------------------------------------

// An arm's log evidence ln G(a + y) - ln G(a) + a ln b - (a + y) ln(b + n) without y (ln(y / n) - 1),
// the part that all components share, so that large counts leave no large numbers whose difference is
// small: Stirling's formula of both gamma functions, subtracted by hand.
inline double poisson_gap(double a, double b, double y, double n) {
    const double shrunk = a * std::log1p(n / b);
    if (y == 0.0) return -shrunk;
    return (a - 0.5) * std::log1p(y / a) + y * (std::log1p(a / y) - std::log1p(b / n)) - shrunk +
           whole_stirling_rest(a + y) - whole_stirling_rest(a);
}

struct Poisson {
    static constexpr bool DECIDES = true;
    static constexpr Form FORM = Form::LOG_GAMMA;
    Matrix<Index> counts, totals;
    Matrix<double> log_factorials;
    Parameters shape, rate;

    bool accepts(Index t, Index k, double y, double total) const {
        return 0.0 <= y && y <= LARGEST_COUNT && y == std::floor(y) && real(totals(t, k)) + total <= LARGEST_TOTAL;
    }

    // Differences of the closed form telescope, so that rounding errors do not add up.
    void predict(Index t, Index k, double y, Sums sums) const {
        const double before = real(totals(t, k)), n = real(counts(t, k));
        for (Index s = 0; s < shape.by_arm.m; ++s) {
            const double a = shape.by_arm(k, s), b = rate.by_arm(k, s);
            sums.evidence[s] += poisson_gap(a, b, before + y, n + 1.0);
            if (n > 0.0) sums.evidence[s] -= poisson_gap(a, b, before, n);
        }
    }

    void count(Index t, Index k, double y) const {
        counts(t, k) += 1;
        totals(t, k) += static_cast<Index>(y);
        log_factorials(t, k) += log_rising(1.0, y);
    }

    // poisson_gap, summed over the arms.
    void evidence(Index t, Sums sums) const {
        for (Index s = 0; s < shape.by_arm.m; ++s) sums.evidence[s] = 0.0;
        for (Index k = 0; k < counts.m; ++k) {
            const double n = real(counts(t, k)), y = real(totals(t, k));
            if (n == 0.0) continue;
            for (Index s = 0; s < shape.by_arm.m; ++s)
                sums.evidence[s] += poisson_gap(shape.by_arm(k, s), rate.by_arm(k, s), y, n);
        }
    }

    void parameters(Index t, Index s, Sums, Stream &, double *a, double *b) const {
        const double *first = shape.by_component.row(s).data, *second = rate.by_component.row(s).data;
        const Index *sum = totals.row(t).data, *n = counts.row(t).data;
        for (Index k = 0; k < counts.m; ++k) a[k] = first[k] + real(sum[k]), b[k] = second[k] + real(n[k]);
    }
};

// -- averages and squared deviations --------------------------------------------------------------

// Count, average and sum of squared deviations of each arm, (tasks, K).
struct Moments {
    Matrix<Index> counts;
    Matrix<double> averages, squares;

    bool accepts(Index, Index, double y, double) const { return std::fabs(y) <= LARGEST; }

    // Welford's formula.
    void count(Index t, Index k, double y) const {
        const double old = averages(t, k), now = old + (y - old) / real(counts(t, k) + 1);
        counts(t, k) += 1;
        averages(t, k) = now;
        squares(t, k) += (y - old) * (y - now);
    }
};

// -- Gaussian -----------------------------------------------------------------------------------

struct Gaussian {
    static constexpr bool DECIDES = true;
    static constexpr Form FORM = Form::NORMAL;
    Moments seen;
    Parameters mean, variance;
    double noise;

    bool accepts(Index t, Index k, double y, double total) const { return seen.accepts(t, k, y, total); }
    void count(Index t, Index k, double y) const { seen.count(t, k, y); }

    // n (average - m)^2 / (noise + n v)
    static double quadratic(double n, double average, double m, double v, double noise) {
        const double gap = average - m;
        return n * gap * gap / (noise + n * v);
    }

    // Differences of the closed form telescope, so that rounding errors do not add up.
    void predict(Index t, Index k, double y, Sums sums) const {
        const double n = real(seen.counts(t, k)), old = seen.averages(t, k), now = old + (y - old) / (n + 1.0);
        const double *m = mean.by_arm.row(k).data, *v = variance.by_arm.row(k).data, sigma2 = noise;
        for (Index s = 0; s < mean.by_arm.m; ++s)
            sums.evidence[s] += 0.5 * (quadratic(n, old, m[s], v[s], sigma2) -
                                       quadratic(n + 1.0, now, m[s], v[s], sigma2) -
                                       fast_log1p(v[s] / (sigma2 + n * v[s])));
    }

    // -(ln(1 + n v / noise) + n (average - m)^2 / (noise + n v)) / 2, summed over the arms.
    void evidence(Index t, Sums sums) const {
        for (Index s = 0; s < mean.by_arm.m; ++s) sums.evidence[s] = 0.0;
        for (Index k = 0; k < seen.counts.m; ++k) {
            const double n = real(seen.counts(t, k)), average = seen.averages(t, k), sigma2 = noise;
            if (n == 0.0) continue;
            const double *m = mean.by_arm.row(k).data, *v = variance.by_arm.row(k).data;
            for (Index s = 0; s < mean.by_arm.m; ++s)
                sums.evidence[s] -=
                    0.5 * (quadratic(n, average, m[s], v[s], sigma2) + fast_log1p(n * v[s] / sigma2));
        }
    }

    void parameters(Index t, Index s, Sums, Stream &, double *a, double *b) const {
        const double *prior_mean = mean.by_component.row(s).data, *prior_variance = variance.by_component.row(s).data;
        const double *average = seen.averages.row(t).data, sigma2 = noise;
        const Index *n = seen.counts.row(t).data;
        for (Index k = 0; k < seen.counts.m; ++k) {
            const double m = prior_mean[k], v = prior_variance[k], weight = real(n[k]) * v, total = sigma2 + weight;
            a[k] = m + weight * (average[k] - m) / total;
            b[k] = v * sigma2 / total;
        }
    }
};

// -- unknown noise ------------------------------------------------------------------------------

// `ratio` are variances in units of the noise variance; the noise has `degrees` and `units`, (L,).
// `misfit` is the squared misfit of a task's rewards under each component.
struct Student {
    static constexpr bool DECIDES = true;
    static constexpr Form FORM = Form::NORMAL;
    Moments seen;
    Parameters mean, ratio;
    Vector<const double> degrees, units;

    bool accepts(Index t, Index k, double y, double total) const { return seen.accepts(t, k, y, total); }
    void count(Index t, Index k, double y) const { seen.count(t, k, y); }

    double observations(Index t) const {
        Index total = 0;
        for (Index n : seen.counts.row(t)) total += n;
        return real(total);
    }

    // A reward is Student, with the squared scale alpha = 1 + r / (1 + n r) in units of the noise variance.
    void predict(Index t, Index k, double y, Sums sums) const {
        const double n = real(seen.counts(t, k)), old = seen.averages(t, k), total = observations(t);
        for (Index s = 0; s < mean.by_arm.m; ++s) {
            const double m = mean.by_arm(k, s), r = ratio.by_arm(k, s), wide = 1.0 + n * r;
            const double error = y - (m + n * r * (old - m) / wide), alpha = 1.0 + r / wide;
            const double square = error * error / alpha;
            sums.evidence[s] += predictive(degrees[s] + total, units[s] + sums.misfit[s], alpha, square);
            sums.misfit[s] += square;
        }
    }

    // whole_evidence(nu, u, n, S) - sum_k ln(1 + n_k r_k) / 2, S = sum_k M_k + n_k (y_k - m_k)^2 / (1 + n_k r_k).
    void evidence(Index t, Sums sums) const {
        const Index n_components = mean.by_arm.m;
        for (Index s = 0; s < n_components; ++s) sums.evidence[s] = sums.misfit[s] = 0.0;
        for (Index k = 0; k < seen.counts.m; ++k) {
            const double n = real(seen.counts(t, k)), average = seen.averages(t, k), square = seen.squares(t, k);
            if (n == 0.0) continue;
            for (Index s = 0; s < n_components; ++s) {
                const double gap = average - mean.by_arm(k, s), wide = n * ratio.by_arm(k, s);
                sums.evidence[s] -= 0.5 * std::log1p(wide);
                sums.misfit[s] += square + n * gap * gap / (1.0 + wide);
            }
        }
        const Index total = static_cast<Index>(observations(t));
        for (Index s = 0; s < n_components; ++s)
            sums.evidence[s] += whole_evidence(degrees[s], units[s], total, sums.misfit[s]);
    }

    // Draw the noise first: given it, arms are normal and independent.
    void parameters(Index t, Index s, Sums sums, Stream &stream, double *a, double *b) const {
        const double freedom = degrees[s] + observations(t), unit = units[s] + sums.misfit[s];
        const double noise = 0.5 * unit / stream.gamma(0.5 * freedom);
        for (Index k = 0; k < seen.counts.m; ++k) {
            const double m = mean.by_component(s, k), r = ratio.by_component(s, k), n = real(seen.counts(t, k));
            const double wide = 1.0 + n * r;
            a[k] = m + n * r * (seen.averages(t, k) - m) / wide;
            b[k] = r / wide * noise;
        }
    }
};

// -- spends -------------------------------------------------------------------------------------

// A purchase or a miss, and the logarithm of the spend of a purchase: normal with a mean and a variance
// that are unknown. The variance is one of a few levels, with weights sigma^(-2 shape) exp(-scale / sigma^2).
// Parameters are (K, L) only: the mean reward has no form, and numpy draws it.
struct Spend {
    static constexpr bool DECIDES = false;
    static constexpr Index MOST_LEVELS = 128;
    Moments spends;  // of the logarithms; their counts are the purchases
    Matrix<Index> misses;
    Matrix<const double> alpha, beta, log_spend, strength, shape, scale, norm;
    Vector<const double> logs, inverses;  // of the levels of sigma^2

    bool accepts(Index, Index, double y, double) const { return 0.0 <= y && y <= LARGEST; }

    void count(Index t, Index k, double y) const {
        if (y > 0.0)
            spends.count(t, k, std::log(y));
        else
            ++misses(t, k);
    }

    // ln of the sum of sigma^(-2 shape) exp(-scale / sigma^2) over the levels.
    double log_sum(double a, double b) const {
        double exponents[MOST_LEVELS] = {};
        for (Index g = 0; g < logs.n; ++g) exponents[g] = -a * logs[g] - b * inverses[g];
        const double top = largest(exponents, logs.n);
        for (Index g = 0; g < logs.n; ++g) exponents[g] = fast_exp(exponents[g] - top);
        return top + std::log(sum(exponents, logs.n));
    }

    // Add the log evidence of the log spends of arm k, times a sign:
    // ln(r / (r + n)) / 2 + ln Z(a + n/2, b + (M2 + r n / (r + n) (average - m)^2) / 2) - ln Z(a, b).
    void add_spends(Index t, Index k, double sign, double *evidence) const {
        const double n = real(spends.counts(t, k)), average = spends.averages(t, k), squares = spends.squares(t, k);
        if (n == 0.0) return;
        for (Index s = 0; s < strength.m; ++s) {
            const double gap = average - log_spend(k, s), before = strength(k, s), after = before + n;
            const double misfit = 0.5 * (squares + before * n / after * gap * gap);
            const double found = log_sum(shape(k, s) + 0.5 * n, scale(k, s) + misfit) - norm(k, s);
            evidence[s] += sign * (0.5 * std::log(before / after) + found);
        }
    }

    // Count the reward, and add the differences of the closed form.
    void learn(Index t, Index k, double y, Sums sums) const {
        const bool bought = y > 0.0;
        const double won = real(spends.counts(t, k)), lost = real(misses(t, k));
        for (Index s = 0; s < alpha.m; ++s) {
            const double a = alpha(k, s), b = beta(k, s);
            sums.evidence[s] += std::log((bought ? a + won : b + lost)) - std::log(a + b + won + lost);
        }
        if (bought) add_spends(t, k, -1.0, sums.evidence);
        count(t, k, y);
        if (bought) add_spends(t, k, 1.0, sums.evidence);
    }

    // ln B(alpha + w, beta + l) - ln B(alpha, beta), and the evidence of the log spends, summed over the arms.
    void evidence(Index t, Sums sums) const {
        for (Index s = 0; s < alpha.m; ++s) sums.evidence[s] = 0.0;
        for (Index k = 0; k < misses.m; ++k) {
            const double won = real(spends.counts(t, k)), lost = real(misses(t, k));
            if (won + lost == 0.0) continue;
            for (Index s = 0; s < alpha.m; ++s) sums.evidence[s] += beta_evidence(alpha(k, s), beta(k, s), won, lost);
            add_spends(t, k, 1.0, sums.evidence);
        }
    }
};

// -- loops over observations and decisions --------------------------------------------------------

// Observations of a batch: tasks, arms and rewards, (m,) each.
struct Observations {
    Vector<const Index> tasks, arms;
    Vector<const double> outcomes;
};

// The first observation whose arm or reward is impossible, or -1.
template <class Kind>
Index first_bad(const Kind &kind, Index n_arms, const Observations &seen) {
    double total = 0.0;
    for (Index i = 0; i < seen.arms.n; ++i) {
        if (seen.arms[i] < 0 || seen.arms[i] >= n_arms) return i;
        total += seen.outcomes[i];
        if (!kind.accepts(seen.tasks[i], seen.arms[i], seen.outcomes[i], total)) return i;
    }
    return -1;
}

// Add the log probability of a reward to the evidence, and count it.
template <class Kind>
void learn(const Kind &kind, Index t, Index k, double y, Sums sums) {
    if constexpr (requires { kind.learn(t, k, y, sums); }) {
        kind.learn(t, k, y, sums);
    } else {
        kind.predict(t, k, y, sums);
        kind.count(t, k, y);
    }
}

// Scratch of one thread's decisions.
struct Room {
    std::vector<double> weights;
    Contest arms;

    Room(Index n_components, Index n_arms) : weights(static_cast<std::size_t>(n_components)), arms(n_arms) {}
};

struct Decision {
    Index action, latent;
};

// Draw S ~ P_t, all means given S, and take the best arm  [paper: Alg. 1].
template <class Kind>
Decision decide(const Kind &kind, const Vector<const double> &log_weights, Index t, Sums sums, Index n_arms,
                const bool *mask, Stream stream, Room &room) {
    const Index s = pick_latent(log_weights, sums.evidence, stream.uniform(), room.weights.data());
    kind.parameters(t, s, sums, stream, room.arms.a.data(), room.arms.b.data());
    return {best_arm<Kind::FORM>(n_arms, mask, stream, room.arms), s};
}

}  // namespace mixts
