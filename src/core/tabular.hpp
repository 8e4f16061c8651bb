// Tabular MDPs with Beta priors on mean rewards and Dirichlet priors on transitions: counts of the
// tasks' episodes, the evidence of each component, and posterior counts.
//
// A pair is a state and an action, numbered x A + a. Counts of a component are one row of numbers:
// rewards (X, A, 2), ones first, then transitions (X, A, X). A prior count of zero makes the outcome
// impossible under that component.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "planning.hpp"
#include "special.hpp"

namespace mixts {

// Prior counts of L components.
struct TabularPrior {
    MDPShape shape;
    Matrix<const double> counts;       // (L, 2 X A + X A X)
    Vector<const double> log_weights;  // (L,)

    Index n_components() const { return counts.n; }
    const double *reward(Index s, Index pair) const { return counts.row(s).data + 2 * pair; }
    const double *transition(Index s, Index pair) const {
        return counts.row(s).data + 2 * shape.n_pairs() + pair * shape.n_states;
    }
};

// Counts of n tasks: rewards (n, 2 X A) and transitions (n, X A X).
struct TabularCounts {
    Matrix<Index> rewards, transitions;
};

// m episodes: states (m, h) or (m, h + 1), actions and rewards (m, h), lengths (m,) or null.
struct Episodes {
    Matrix<const Index> states, actions;
    Matrix<const double> rewards;
    const Index *lengths;

    // Within the arrays even if they share memory with the counts, which change.
    Index length(Index i) const { return lengths == nullptr ? actions.m : std::clamp<Index>(lengths[i], 0, actions.m); }
};

// One step of an episode. The history holds the transition after the last step only if its next
// state is given; otherwise `moved` is false.
struct Step {
    Index pair, outcome, next;  // outcome 0 is reward 1
    bool moved;
};

// Read step j of episode i; return false if one of its numbers is out of range.
inline bool read_step(const MDPShape &shape, const Episodes &episodes, Index i, Index j, Step &step) {
    const Index x = episodes.states(i, j), a = episodes.actions(i, j);
    const double reward = episodes.rewards(i, j);
    step.moved = j + 1 < episodes.length(i) + episodes.states.m - episodes.actions.m;
    step.next = step.moved ? episodes.states(i, j + 1) : 0;
    if (x < 0 || x >= shape.n_states || a < 0 || a >= shape.n_actions) return false;
    if (step.next < 0 || step.next >= shape.n_states || (reward != 1.0 && reward != 0.0)) return false;
    step.pair = x * shape.n_actions + a;
    step.outcome = reward == 1.0 ? 0 : 1;
    return true;
}

// Add to a count that may be any number, since Python can write to it: it wraps.
inline void add(Index &count, Index n) {
    count = static_cast<Index>(static_cast<std::uint64_t>(count) + static_cast<std::uint64_t>(n));
}

// ln of the probability of a sequence with these counts (k,), under Dirichlet prior counts (k,):
// sum_y ln [a_y (a_y + 1) ... (a_y + n_y - 1)] - ln [a (a + 1) ... (a + n - 1)], a and n the sums.
inline double row_evidence(const double *prior, const Index *counts, Index k) {
    double n = 0.0, sum = 0.0, total = 0.0;
    for (Index y = 0; y < k; ++y) {
        sum += prior[y];
        if (counts[y] <= 0) continue;
        n += static_cast<double>(counts[y]);
        total += prior[y] > 0.0 ? log_rising(prior[y], static_cast<double>(counts[y])) : -INF;
    }
    return total - log_rising(sum, n);
}

// Return ln p(history | s) of a task from its counts.
inline double tabular_evidence(const TabularPrior &prior, const TabularCounts &counts, Index task, Index s) {
    const Index n_states = prior.shape.n_states;
    const Index *rewards = counts.rewards.row(task).data, *transitions = counts.transitions.row(task).data;
    double total = 0.0;
    for (Index pair = 0; pair < prior.shape.n_pairs(); ++pair) {
        total += row_evidence(prior.reward(s, pair), rewards + 2 * pair, 2);
        total += row_evidence(prior.transition(s, pair), transitions + pair * n_states, n_states);
    }
    return total;
}

// Tasks whose counts and evidence (n, L) change together.
struct TabularState {
    TabularPrior prior;
    TabularCounts counts;
    Matrix<double> evidence;
    Vector<Index> n_since;             // steps of each task since its evidence was computed from counts
    std::vector<double> totals;        // sums of transitions' prior counts, (L, X A)
    std::vector<double> refused;       // old evidence of components that an update rules out,
    std::vector<double *> refused_at;  // and where it was: a refused update restores it

    // Steps of a task after which its evidence is computed from the counts, so that rounding errors
    // of single steps do not add up: 4096 steps lose about 1e-11.
    static constexpr Index REFRESH = 4096;

    TabularState(TabularPrior given, TabularCounts stored, Matrix<double> of_tasks, Vector<Index> n_steps)
        : prior(given), counts(stored), evidence(of_tasks), n_since(n_steps) {
        const Index n_states = prior.shape.n_states;
        for (Index s = 0; s < prior.n_components(); ++s) {
            for (Index pair = 0; pair < prior.shape.n_pairs(); ++pair) {
                double total = 0.0;
                for (Index y = 0; y < n_states; ++y) total += prior.transition(s, pair)[y];
                totals.push_back(total);
            }
        }
    }

    void refresh(Index task) {
        for (Index s = 0; s < prior.n_components(); ++s)
            evidence(task, s) = tabular_evidence(prior, counts, task, s);
        n_since[task] = 0;
    }

    // Learn from episodes of these tasks (m,), all or none; null: all of task 0. Return false, with
    // nothing changed, for a number out of range or a step that no component of its task allows.
    bool observe(const Index *tasks, const Episodes &episodes) {
        const auto task_of = [tasks](Index i) { return tasks == nullptr ? 0 : tasks[i]; };
        refused.clear();
        refused_at.clear();
        for (Index i = 0; i < episodes.actions.n; ++i) {
            if (!possible(task_of(i), episodes, i)) {
                while (!refused.empty()) {
                    *refused_at.back() = refused.back();
                    refused.pop_back();
                    refused_at.pop_back();
                }
                return false;
            }
        }
        for (Index i = 0; i < episodes.actions.n; ++i) learn(task_of(i), episodes, i);
        return true;
    }

    // Rule out the components that forbid a step of episode i: zeros of the prior do, whatever was
    // counted. Return whether every step is in range and leaves a component.
    bool possible(Index task, const Episodes &episodes, Index i) {
        Step step;
        for (Index j = 0; j < episodes.length(i); ++j) {
            if (!read_step(prior.shape, episodes, i, j, step)) return false;
            bool left = false;
            for (Index s = 0; s < prior.n_components(); ++s) {
                double &now = evidence(task, s);
                if (now == -INF) continue;
                const bool allowed = prior.reward(s, step.pair)[step.outcome] > 0.0 &&
                                     (!step.moved || prior.transition(s, step.pair)[step.next] > 0.0);
                if (!allowed) {
                    refused.push_back(now);
                    refused_at.push_back(&now);
                    now = -INF;
                }
                left = left || (allowed && prior.log_weights[s] > -INF);
            }
            if (!left) return false;
        }
        return true;
    }

    // Multiply the evidence by each step's predictive probability, and count the step:
    // p(reward) = (a_k + n_k) / (a_0 + n_0 + a_1 + n_1), p(next) = (a_y + n_y) / (a + n).
    void learn(Index task, const Episodes &episodes, Index i) {
        const Index n_states = prior.shape.n_states, n_pairs = prior.shape.n_pairs();
        Step step;
        for (Index j = 0; j < episodes.length(i); ++j) {
            if (!read_step(prior.shape, episodes, i, j, step)) return;
            Index *rewards = counts.rewards.row(task).data + 2 * step.pair;
            Index *transitions = counts.transitions.row(task).data + step.pair * n_states;
            double n = 0.0;
            for (Index y = 0; y < n_states; ++y) n += static_cast<double>(transitions[y]);
            for (Index s = 0; s < prior.n_components(); ++s) {
                const double *before = prior.reward(s, step.pair);
                const double same = before[step.outcome] + static_cast<double>(rewards[step.outcome]);
                const double other = before[1 - step.outcome] + static_cast<double>(rewards[1 - step.outcome]);
                const double p = same / (same + other);
                double q = 1.0;
                if (step.moved)
                    q = (prior.transition(s, step.pair)[step.next] + static_cast<double>(transitions[step.next])) /
                        (totals[s * n_pairs + step.pair] + n);
                // One logarithm for both, unless their product would underflow.
                evidence(task, s) += p * q > 1e-290 ? std::log(p * q) : std::log(p) + std::log(q);
            }
            add(rewards[step.outcome], 1);
            if (step.moved) add(transitions[step.next], 1);
        }
        add(n_since[task], episodes.length(i));
        if (n_since[task] >= REFRESH) refresh(task);
    }

    // Write the posterior counts of a task under a component; a prior count of zero stays zero.
    void posterior_counts(Index task, Index s, double *out) const {
        const Vector<const double> before = prior.counts.row(s);
        const Vector<Index> rewards = counts.rewards.row(task), transitions = counts.transitions.row(task);
        for (Index j = 0; j < rewards.n; ++j)
            out[j] = before[j] > 0.0 ? before[j] + static_cast<double>(rewards[j]) : 0.0;
        for (Index j = 0; j < transitions.n; ++j) {
            const double count = before[rewards.n + j];
            out[rewards.n + j] = count > 0.0 ? count + static_cast<double>(transitions[j]) : 0.0;
        }
    }
};

// Turn positive weights (rewards 2 X A, transitions X A X) into mean rewards and probabilities.
inline void normalise(const MDPShape &shape, const double *weights, double *mdp) {
    const Index n_pairs = shape.n_pairs(), n_states = shape.n_states;
    for (Index pair = 0; pair < n_pairs; ++pair)
        mdp[pair] = weights[2 * pair] / (weights[2 * pair] + weights[2 * pair + 1]);
    for (Index pair = 0; pair < n_pairs; ++pair) {
        const double *row = weights + 2 * n_pairs + pair * n_states;
        double total = 0.0;
        for (Index y = 0; y < n_states; ++y) total += row[y];
        // A quotient, not a product with the inverse: certain transitions are 1 exactly.
        for (Index y = 0; y < n_states; ++y) mdp[n_pairs + pair * n_states + y] = row[y] / total;
    }
}

}  // namespace mixts
