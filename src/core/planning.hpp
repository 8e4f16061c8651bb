// Finite-horizon MDPs: backward induction, and the values of policies.
//
// An MDP is one row of numbers: mean rewards R (X, A), then transition probabilities T (X, A, X).
// A pair is a state and an action, numbered x A + a. A policy is (h, X), and so are its values.
#pragma once
#include <vector>

#include "stream.hpp"
#include "views.hpp"

namespace mixts {

struct MDPShape {
    Index n_states, n_actions, horizon;

    Index n_pairs() const { return n_states * n_actions; }
    Index n_numbers() const { return n_pairs() * (1 + n_states); }
};

// Memory to plan one MDP at a time.
struct PlanningRoom {
    std::vector<double> quality;      // Q (X A)
    std::vector<double> value;        // V (X)
    std::vector<double> transitions;  // T by next state, (X, X A): a step is X sums over all pairs

    explicit PlanningRoom(const MDPShape &shape)
        : quality(shape.n_pairs()), value(shape.n_states), transitions(shape.n_states * shape.n_pairs()) {}
};

// Return the best of the actions with these qualities (A,). Of several, take the first without a
// word, else the one that the random word picks.
inline Index best_action(const double *quality, Index n_actions, const std::uint64_t *word, Index place) {
    Index best = 0, n_best = 1;
    for (Index a = 1; a < n_actions; ++a) {
        if (quality[a] > quality[best]) {
            best = a;
            n_best = 1;
        } else if (quality[a] == quality[best]) {
            ++n_best;
        }
    }
    if (n_best == 1 || word == nullptr) return best;
    const double top = quality[best];
    // The word's own stream has a word for each place, a step and a state.
    auto left = mixed(*word + STEP * static_cast<std::uint64_t>(place + 1)) %
                static_cast<std::uint64_t>(n_best);
    for (Index a = best; a < n_actions; ++a)
        if (quality[a] == top && left-- == 0) return a;
    return best;
}

// Plan one MDP: V_i(x) = max_a Q_i(x, a), Q_i(x, a) = R(x, a) + sum_y T(x, a, y) V_{i+1}(y).
// `values` may be null.
inline void plan(const MDPShape &shape, const double *mdp, const std::uint64_t *word, PlanningRoom &room,
                 Index *policy, double *values) {
    const Index n_states = shape.n_states, n_actions = shape.n_actions, n_pairs = shape.n_pairs();
    double *quality = room.quality.data(), *value = room.value.data(), *next = room.transitions.data();
    const double *rows = mdp + n_pairs;
    for (Index pair = 0; pair < n_pairs; ++pair)
        for (Index y = 0; y < n_states; ++y) next[y * n_pairs + pair] = rows[pair * n_states + y];
    for (Index x = 0; x < n_states; ++x) value[x] = 0.0;
    for (Index i = shape.horizon - 1; i >= 0; --i) {
        for (Index pair = 0; pair < n_pairs; ++pair) quality[pair] = next[pair] * value[0];
        for (Index y = 1; y < n_states; ++y) {
            const double *column = next + y * n_pairs, there = value[y];
            for (Index pair = 0; pair < n_pairs; ++pair) quality[pair] += column[pair] * there;
        }
        for (Index pair = 0; pair < n_pairs; ++pair) quality[pair] += mdp[pair];
        for (Index x = 0; x < n_states; ++x) {
            const Index place = i * n_states + x;
            const Index a = best_action(quality + x * n_actions, n_actions, word, place);
            policy[place] = a;
            value[x] = quality[x * n_actions + a];
            if (values != nullptr) values[place] = value[x];
        }
    }
}

// Write the values (h, X) of a policy: V_i(x) = R(x, a) + sum_y T(x, a, y) V_{i+1}(y), a = pi_i(x).
// Return false if the policy has an action that does not exist.
inline bool evaluate(const MDPShape &shape, const double *mdp, const Index *policy, double *values) {
    const Index n_states = shape.n_states, n_actions = shape.n_actions;
    const double *rows = mdp + shape.n_pairs();
    for (Index i = 0; i < shape.horizon * n_states; ++i)
        if (policy[i] < 0 || policy[i] >= n_actions) return false;
    for (Index i = shape.horizon - 1; i >= 0; --i) {
        const Index *chosen = policy + i * n_states;
        double *value = values + i * n_states;
        for (Index x = 0; x < n_states; ++x) value[x] = 0.0;
        // The sums of all states side by side: each is in the order of the next states.
        for (Index y = 0; y < n_states && i + 1 < shape.horizon; ++y) {
            const double there = value[n_states + y];
            for (Index x = 0; x < n_states; ++x)
                value[x] += rows[(x * n_actions + chosen[x]) * n_states + y] * there;
        }
        for (Index x = 0; x < n_states; ++x) value[x] += mdp[x * n_actions + chosen[x]];
    }
    return true;
}

}  // namespace mixts
