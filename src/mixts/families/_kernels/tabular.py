"""Compiled loops of tabular MDPs: check and count episodes, log evidence, posterior counts.

A pair is a state and an action, numbered ``x * A + a``. The tuples that the loops take:

- ``episodes``: states, actions, rewards, (m, h) each or (m, h + 1) for states, and lengths (m,);
- ``counts`` of the tasks, whole numbers: rewards (n, X, A, 2), ones first, and transitions
  (n, X, A, X);
- ``prior`` counts, components last: rewards (X, A, 2, L), transitions (X, A, X, L), and sums of
  transitions (X, A, L). A prior count of zero makes the outcome impossible under that component.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import log_rising

Arrays = tuple[Array, ...]

_TINY = 1e-290


@compiled(borrows=True)
def count(tasks: Array, episodes: Arrays, counts: Arrays) -> None:
    """Count well-formed episodes."""
    states, actions, rewards, lengths = episodes
    reward_counts, transition_counts = counts
    extra = states.shape[1] - actions.shape[1]
    for i in range(len(tasks)):
        for j in range(lengths[i]):
            t, x, a = tasks[i], states[i, j], actions[i, j]
            reward_counts[t, x, a, 0 if rewards[i, j] == 1.0 else 1] += 1
            # The history holds the transition after the last step only if its next state is given.
            if j + 1 < lengths[i] + extra:
                transition_counts[t, x, a, states[i, j + 1]] += 1


@compiled(borrows=True)
def observe(
    tasks: Array, episodes: Arrays, counts: Arrays, prior: Arrays, log_weights: Array,
    relative: Array, since_refresh: Array,
) -> tuple[int, int]:  # fmt: skip
    """Update the evidence by each step's predictive probability, then count the step.

    Returns -1 and the most steps of a task since its evidence was computed from the counts. Or the
    first episode and step that no component of its task allows; the step is -1 if a number of the
    episode is out of range. Then no count has changed, and the caller restores ``relative``. One
    function without calls: a call would count references of every array
    in the tuples, and an inlined function takes a third longer to compile.
    """
    states, actions, rewards, lengths = episodes
    reward_counts, transition_counts = counts
    reward_prior, transition_prior, totals = prior
    n_states, n_actions, n_components = totals.shape
    extra = states.shape[1] - actions.shape[1]
    # First what is refused: only zeros of the prior rule a step out, whatever was counted.
    for i in range(len(tasks)):
        t = tasks[i]
        for j in range(lengths[i]):
            x, a, reward = states[i, j], actions[i, j], rewards[i, j]
            seen = j + 1 < lengths[i] + extra
            y = states[i, j + 1] if seen else x
            k = 0 if reward == 1.0 else 1
            if not (0 <= x < n_states and 0 <= y < n_states and 0 <= a < n_actions):
                return i, -1
            if k == 1 and reward != 0.0:
                return i, -1
            possible = False
            for s in range(n_components):
                if reward_prior[x, a, k, s] == 0.0 or (
                    seen and transition_prior[x, a, y, s] == 0.0
                ):
                    relative[t, s] = -np.inf
                elif log_weights[s] + relative[t, s] > -np.inf:
                    possible = True
            if not possible:
                return i, j
    most = 0
    for i in range(len(tasks)):
        t = tasks[i]
        since_refresh[t] += lengths[i]
        if since_refresh[t] > most:
            most = since_refresh[t]
        for j in range(lengths[i]):
            x, a = states[i, j], actions[i, j]
            k = 0 if rewards[i, j] == 1.0 else 1
            won, lost = reward_counts[t, x, a, k], reward_counts[t, x, a, 1 - k]
            reward_counts[t, x, a, k] = won + 1
            # The history holds the transition after the last step only if its next state is given.
            seen = j + 1 < lengths[i] + extra
            y = states[i, j + 1] if seen else x
            went = transition_counts[t, x, a, y]
            left = 0
            for z in range(n_states):
                left += transition_counts[t, x, a, z]
            if seen:
                transition_counts[t, x, a, y] = went + 1
            for s in range(n_components):
                p = reward_prior[x, a, k, s] + won
                p /= p + (reward_prior[x, a, 1 - k, s] + lost)
                q = 1.0
                if seen:
                    q = (transition_prior[x, a, y, s] + went) / (totals[x, a, s] + left)
                # One logarithm for both, unless their product would underflow.
                relative[t, s] += math.log(p * q) if p * q > _TINY else math.log(p) + math.log(q)
    return -1, most


@compiled(inline="always")
def _add_row(relative: Array, t: int, x: int, a: int, prior: Array, counts: Array) -> None:
    """Add ln of a row's Dirichlet-multinomial probability, no coefficients, for each component."""
    n = 0
    for y in range(counts.shape[3]):
        n += counts[t, x, a, y]
    if n > 0:
        for s in range(relative.shape[1]):
            total = 0.0
            for y in range(counts.shape[3]):
                before, seen = prior[x, a, y, s], counts[t, x, a, y]
                total += before
                if seen > 0:
                    relative[t, s] += log_rising(before, seen) if before > 0.0 else -np.inf
            relative[t, s] -= log_rising(total, n)


@compiled(borrows=True)
def evidence(tasks: Array, counts: Arrays, prior: Arrays, relative: Array) -> None:
    """Compute the log evidence of tasks from their counts."""
    n_states, n_actions = counts[0].shape[1], counts[0].shape[2]
    for i in range(len(tasks)):
        t = tasks[i]
        for s in range(relative.shape[1]):
            relative[t, s] = 0.0
        for x in range(n_states):
            for a in range(n_actions):
                _add_row(relative, t, x, a, prior[0], counts[0])
                _add_row(relative, t, x, a, prior[1], counts[1])


@compiled(borrows=True)
def gather(
    tasks: Array, latent: Array, reward_counts: Array, transition_counts: Array, prior: Array,
    out: Array,
) -> None:  # fmt: skip
    """Write the posterior counts of pairs of a task and a component, a row each.

    All arrays are flat: ``reward_counts`` (n, 2 X A), ``transition_counts`` (n, X A X) and
    ``prior`` (L, 2 X A + X A X). A prior count of zero stays zero.
    """
    n_rewards = reward_counts.shape[1]
    for i in range(len(tasks)):
        t, s = tasks[i], latent[i]
        for j in range(n_rewards):
            before = prior[s, j]
            out[i, j] = before + reward_counts[t, j] if before > 0.0 else 0.0
        for j in range(transition_counts.shape[1]):
            before = prior[s, n_rewards + j]
            out[i, n_rewards + j] = before + transition_counts[t, j] if before > 0.0 else 0.0


@compiled(borrows=True)
def normalise(weights: Array, n_states: int, n_pairs: int, out: Array) -> None:
    """Turn rows of positive weights (rewards 2 X A, transitions X A X) into mean rewards and
    probabilities."""
    for i in range(len(weights)):
        row, to = weights[i], out[i]
        for pair in range(n_pairs):
            won, lost = row[2 * pair], row[2 * pair + 1]
            to[pair] = won / (won + lost)
        for pair in range(n_pairs):
            start = 2 * n_pairs + pair * n_states
            total = 0.0
            for y in range(n_states):
                total += row[start + y]
            # A quotient, not a product with the inverse: certain transitions are 1 exactly.
            for y in range(n_states):
                to[n_pairs + pair * n_states + y] = row[start + y] / total
