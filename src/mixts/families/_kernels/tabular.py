"""Compiled loops of tabular MDPs: check and absorb trajectories, evidence, posterior counts.

A pair is a state and an action, numbered ``x * A + a``. Counts of a task are whole numbers:
rewards (n, X, A, 2), ones first, and transitions (n, X, A, X). Prior counts come with the
components last, (X, A, 2, L) and (X, A, X, L), and their sums over outcomes, (X, A, L). A prior
count of zero makes the outcome impossible under that component.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import log_rising

_TINY = 1e-290


@compiled()
def first_malformed(
    states: Array, actions: Array, rewards: Array, lengths: Array, n_states: int, n_actions: int
) -> int:
    """The first episode with something out of range among what counts, or -1."""
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


# Whole arrays and indices are passed on: a slice would cost more than what is done with it.


@compiled()
def _count(
    sign: int, t: int, i: int, states: Array, actions: Array, rewards: Array, steps: int, last: int,
    reward_counts: Array, transition_counts: Array,
) -> None:  # fmt: skip
    """Add (or take back) steps of episode i; the transition after ``last`` is unseen."""
    for j in range(steps):
        x, a = states[i, j], actions[i, j]
        reward_counts[t, x, a, 0 if rewards[i, j] == 1.0 else 1] += sign
        if j < last:
            transition_counts[t, x, a, states[i, j + 1]] += sign


@compiled()
def _possible(log_weights: Array, relative: Array, t: int) -> bool:
    possible = False
    for s in range(len(log_weights)):
        possible = possible or (log_weights[s] > -np.inf and relative[t, s] > -np.inf)
    return possible


@compiled()
def _predict(
    t: int, x: int, a: int, k: int, y: int, seen: bool, reward_counts: Array,
    transition_counts: Array, reward_prior: Array, reward_total: Array, transition_prior: Array,
    transition_total: Array, relative: Array,
) -> bool:  # fmt: skip
    """Move each component's log evidence by its prediction of one step; true if one became -inf.

    Reward k and next state y; without ``seen`` the transition is not part of the history.
    """
    won = reward_counts[t, x, a, k]
    tried = reward_counts[t, x, a, 0] + reward_counts[t, x, a, 1]
    went, left = 0, 0
    if seen:
        went = transition_counts[t, x, a, y]
        for z in range(transition_counts.shape[3]):
            left += transition_counts[t, x, a, z]
    struck = False
    for s in range(relative.shape[1]):
        prior = reward_prior[x, a, k, s]
        p, q = (prior + won) / (reward_total[x, a, s] + tried), 1.0
        impossible = prior == 0.0
        if seen:
            prior = transition_prior[x, a, y, s]
            q = (prior + went) / (transition_total[x, a, s] + left)
            impossible = impossible or prior == 0.0
        if impossible:
            struck = True
            relative[t, s] = -np.inf
        else:
            # One logarithm for both, unless their product would underflow.
            relative[t, s] += math.log(p * q) if p * q > _TINY else math.log(p) + math.log(q)
    return struck


@compiled()
def absorb(
    tasks: Array, states: Array, actions: Array, rewards: Array, lengths: Array,
    reward_counts: Array, transition_counts: Array, reward_prior: Array, reward_total: Array,
    transition_prior: Array, transition_total: Array, log_weights: Array, relative: Array,
    since_refresh: Array,
) -> tuple[int, int]:  # fmt: skip
    """Absorb well-formed episodes: predictive probabilities, then counts; steps are counted too.

    Returns (-1, -1), or the episode and step after which a task has no possible component: then
    all counts are taken back, and the caller restores ``relative``.
    """
    extra = states.shape[1] - actions.shape[1]
    for i in range(len(tasks)):
        t = tasks[i]
        since_refresh[t] += lengths[i]
        last = lengths[i] - 1 + extra
        for j in range(lengths[i]):
            x, a, seen = states[i, j], actions[i, j], j < last
            k = 0 if rewards[i, j] == 1.0 else 1
            y = states[i, j + 1] if seen else 0
            struck = _predict(
                t, x, a, k, y, seen, reward_counts, transition_counts, reward_prior, reward_total,
                transition_prior, transition_total, relative,
            )  # fmt: skip
            reward_counts[t, x, a, k] += 1
            if seen:
                transition_counts[t, x, a, y] += 1
            if struck and not _possible(log_weights, relative, t):
                for e in range(i + 1):
                    steps = j + 1 if e == i else lengths[e]
                    _count(-1, tasks[e], e, states, actions, rewards, steps,
                           lengths[e] - 1 + extra, reward_counts, transition_counts)  # fmt: skip
                return i, j
    return -1, -1


@compiled()
def _log_ratio(prior: Array, total: float, counts: Array, n: int, s: int) -> float:
    """ln of a row's Dirichlet-multinomial probability for component s, without coefficients."""
    value = -log_rising(total, n)
    for y in range(len(counts)):
        if counts[y] > 0:
            if prior[y, s] == 0.0:
                return -np.inf
            value += log_rising(prior[y, s], counts[y])
    return value


@compiled()
def evidence(
    tasks: Array, reward_counts: Array, transition_counts: Array,
    reward_prior: Array, reward_total: Array, transition_prior: Array, transition_total: Array,
    relative: Array,
) -> None:  # fmt: skip
    """The log evidence of tasks from their counts; nothing visited, nothing added."""
    n_states, n_actions, n_components = reward_total.shape
    for t in tasks:
        relative[t] = 0.0
        for x in range(n_states):
            for a in range(n_actions):
                for prior, total, counts in (
                    (reward_prior[x, a], reward_total[x, a], reward_counts[t, x, a]),
                    (transition_prior[x, a], transition_total[x, a], transition_counts[t, x, a]),
                ):
                    n = counts.sum()
                    if n > 0:
                        for s in range(n_components):
                            relative[t, s] += _log_ratio(prior, total[s], counts, n, s)


@compiled()
def gather(
    tasks: Array, latent: Array, reward_counts: Array, transition_counts: Array, prior: Array,
    out: Array,
) -> None:  # fmt: skip
    """Posterior counts of pairs of a task and a component, a row each: rewards, transitions.

    All arrays flat: ``reward_counts`` (n, 2 X A), ``transition_counts`` (n, X A X) and ``prior``
    (L, 2 X A + X A X). What is impossible stays so.
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
    """Rows of positive weights (rewards 2 X A, transitions X A X) to rewards and probabilities."""
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
            # A quotient, not a product with the inverse: what is certain is 1 exactly.
            for y in range(n_states):
                to[n_pairs + pair * n_states + y] = row[start + y] / total
