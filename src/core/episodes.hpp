// Episodes of known MDPs under a policy. An MDP is a row of numbers as in planning.hpp.
#pragma once
#include "planning.hpp"

namespace mixts {

// Return the entry of probabilities (n,) in which a uniform number falls; never an entry of
// probability zero.
inline Index draw_entry(const double *probabilities, Index n, double uniform) {
    Index chosen = 0;
    for (Index y = 0; y < n; ++y) {
        if (probabilities[y] > 0.0) {
            chosen = y;  // rounding may leave a remainder at the end: then the last possible entry
            uniform -= probabilities[y];
            if (uniform < 0.0) break;
        }
    }
    return chosen;
}

// What an episode of h steps writes: states (h,) or (h + 1,), actions (h,) and rewards (h,).
struct EpisodeRow {
    Index *states;
    Index n_states;
    Index *actions;
    double *rewards;
};

// Play one episode from 2 h + 1 uniform numbers: the first state; then reward and next state of
// each step. The policy's actions were checked.
inline void play(const MDPShape &shape, const double *mdp, const double *initial, const Index *policy,
                 const double *uniform, const EpisodeRow &out) {
    Index x = draw_entry(initial, shape.n_states, uniform[0]);
    for (Index i = 0; i < shape.horizon; ++i) {
        const Index a = policy[i * shape.n_states + x], pair = x * shape.n_actions + a;
        out.states[i] = x;
        out.actions[i] = a;
        out.rewards[i] = uniform[2 * i + 1] < mdp[pair] ? 1.0 : 0.0;
        x = draw_entry(mdp + shape.n_pairs() + pair * shape.n_states, shape.n_states, uniform[2 * i + 2]);
    }
    if (out.n_states > shape.horizon) out.states[shape.horizon] = x;
}

}  // namespace mixts
