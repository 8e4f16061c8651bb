"""Compiled loops of tabular MDPs: check and count episodes, log evidence, posterior counts.

A pair is a state and an action, numbered ``x * A + a``. The tuples that the loops take:

- ``episodes``: states, actions, rewards, (m, h) each or (m, h + 1) for states, and lengths (m,);
- ``counts`` of the tasks, whole numbers: rewards (n, X, A, 2), ones first, and transitions
  (n, X, A, X);
- ``prior`` counts, components last: rewards (X, A, 2, L) and their sums (X, A, L), transitions
  (X, A, X, L) and their sums (X, A, L). A prior count of zero makes the outcome impossible under
  that component.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import log_rising

Arrays = tuple[Array, ...]

_TINY = 1e-290


@compiled()
def first_malformed(episodes: Arrays, n_states: int, n_actions: int) -> int:
    """Return the first episode with a number out of range among the steps that count, or -1."""
    states, actions, rewards, lengths = episodes
    extra = states.shape[1] - actions.shape[1]
    for i in range(len(lengths)):
        for j in range(lengths[i]):
            good = (
                0 <= states[i, j] < n_states
                and 0 <= actions[i, j] < n_actions
                and (rewards[i, j] == 0.0 or rewards[i, j] == 1.0)
            )
            if not good:
                return i
        if extra and lengths[i] > 0 and not 0 <= states[i, lengths[i]] < n_states:
            return i
    return -1


# Whole arrays and indices are passed on: a slice would cost more than the work on it. The two
# functions of a step are inlined: a call would count references of every array in the tuples.


@compiled(inline="always")
def _count_step(sign: int, t: int, i: int, j: int, episodes: Arrays, counts: Arrays) -> None:
    """Add (or, with sign -1, remove) step j of episode i to the counts of task t."""
    (states, actions, rewards, lengths), (reward_counts, transition_counts) = episodes, counts
    x, a = states[i, j], actions[i, j]
    reward_counts[t, x, a, 0 if rewards[i, j] == 1.0 else 1] += sign
    # The history holds the transition after the last step only if its next state is given.
    if j < lengths[i] - 1 + states.shape[1] - actions.shape[1]:
        transition_counts[t, x, a, states[i, j + 1]] += sign


@compiled()
def count(tasks: Array, episodes: Arrays, counts: Arrays) -> None:
    """Count well-formed episodes."""
    lengths = episodes[3]
    for i in range(len(tasks)):
        for j in range(lengths[i]):
            _count_step(1, tasks[i], i, j, episodes, counts)


@compiled()
def _possible(log_weights: Array, relative: Array, t: int) -> bool:
    possible = False
    for s in range(len(log_weights)):
        possible = possible or (log_weights[s] > -np.inf and relative[t, s] > -np.inf)
    return possible


@compiled(inline="always")
def _predict(
    t: int, i: int, j: int, episodes: Arrays, counts: Arrays, prior: Arrays, relative: Array
) -> bool:
    """Add each component's log prediction of a step to its evidence; true if one became -inf."""
    (states, actions, rewards, lengths), (reward_counts, transition_counts) = episodes, counts
    reward_prior, reward_total, transition_prior, transition_total = prior
    x, a = states[i, j], actions[i, j]
    k = 0 if rewards[i, j] == 1.0 else 1
    won = reward_counts[t, x, a, k]
    tried = reward_counts[t, x, a, 0] + reward_counts[t, x, a, 1]
    seen = j < lengths[i] - 1 + states.shape[1] - actions.shape[1]
    y, went, left = 0, 0, 0
    if seen:
        y = states[i, j + 1]
        went = transition_counts[t, x, a, y]
        for z in range(transition_counts.shape[3]):
            left += transition_counts[t, x, a, z]
    struck = False
    for s in range(relative.shape[1]):
        before = reward_prior[x, a, k, s]
        p, q = (before + won) / (reward_total[x, a, s] + tried), 1.0
        impossible = before == 0.0
        if seen:
            before = transition_prior[x, a, y, s]
            q = (before + went) / (transition_total[x, a, s] + left)
            impossible = impossible or before == 0.0
        if impossible:
            struck = True
            relative[t, s] = -np.inf
        else:
            # One logarithm for both, unless their product would underflow.
            relative[t, s] += math.log(p * q) if p * q > _TINY else math.log(p) + math.log(q)
    return struck


@compiled()
def observe(
    tasks: Array, episodes: Arrays, counts: Arrays, prior: Arrays, log_weights: Array,
    relative: Array, since_refresh: Array,
) -> tuple[int, int]:  # fmt: skip
    """Update the evidence by each step's predictive probability, then count the step.

    Returns (-1, -1), or the episode and step after which a task has no possible component: then
    all counts are as before, and the caller restores ``relative``.
    """
    lengths = episodes[3]
    for i in range(len(tasks)):
        t = tasks[i]
        since_refresh[t] += lengths[i]
        for j in range(lengths[i]):
            struck = _predict(t, i, j, episodes, counts, prior, relative)
            _count_step(1, t, i, j, episodes, counts)
            if struck and not _possible(log_weights, relative, t):
                for e in range(i + 1):
                    for step in range(j + 1 if e == i else lengths[e]):
                        _count_step(-1, tasks[e], e, step, episodes, counts)
                return i, j
    return -1, -1


@compiled()
def _log_ratio(prior: Array, total: float, counts: Array, n: int, s: int) -> float:
    """Return ln of a row's Dirichlet-multinomial probability for component s, no coefficients."""
    value = -log_rising(total, n)
    for y in range(len(counts)):
        if counts[y] > 0:
            if prior[y, s] == 0.0:
                return -np.inf
            value += log_rising(prior[y, s], counts[y])
    return value


@compiled()
def evidence(tasks: Array, counts: Arrays, prior: Arrays, relative: Array) -> None:
    """Compute the log evidence of tasks from their counts."""
    reward_counts, transition_counts = counts
    reward_prior, reward_total, transition_prior, transition_total = prior
    n_states, n_actions, n_components = reward_total.shape
    for t in tasks:
        relative[t] = 0.0
        for x in range(n_states):
            for a in range(n_actions):
                for given, total, seen in (
                    (reward_prior[x, a], reward_total[x, a], reward_counts[t, x, a]),
                    (transition_prior[x, a], transition_total[x, a], transition_counts[t, x, a]),
                ):
                    n = seen.sum()
                    if n > 0:
                        for s in range(n_components):
                            relative[t, s] += _log_ratio(given, total[s], seen, n, s)


@compiled()
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


@compiled()
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
