"""Compiled loops over batches of MDPs: backward induction, and the evaluation of policies.

An MDP is one row of numbers: mean rewards (X, A), then transition probabilities (X, A, X). A pair
is a state and an action, numbered ``x * A + a``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
_SUMS = {"reassoc", "contract", "nsz"}


@compiled()
def _next_word(word: Any) -> Any:
    """Return the next state of a splitmix64 generator."""
    return word + np.uint64(0x9E3779B97F4A7C15)


@compiled()
def _mixed(word: Any) -> Any:
    """Return the output of splitmix64: every bit depends on all bits of the word."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled(fastmath=_SUMS)
def induce(
    parameters: Array, n_states: int, n_actions: int, words: Array, policy: Array, values: Array
) -> None:
    """Plan by backward induction for each row: write policy (m, h, X) and values (m, h, X).

    ``words`` holds a random word for each MDP to choose among equal actions; if it is empty, the
    first is taken. ``values`` may be empty if they are not needed.
    """
    n_pairs = n_states * n_actions
    columns = np.empty((n_states, n_pairs))
    action_values = np.empty(n_pairs)
    after = np.empty(n_states)
    for m in range(len(parameters)):
        rewards = parameters[m, :n_pairs]
        rows = parameters[m, n_pairs:].reshape(n_pairs, n_states)
        # Transposed by next state, so that a step is a few sums over all pairs at once.
        for pair in range(n_pairs):
            for y in range(n_states):
                columns[y, pair] = rows[pair, y]
        word = words[m] if len(words) > 0 else np.uint64(0)
        after[:] = 0.0
        for i in range(policy.shape[1] - 1, -1, -1):
            for pair in range(n_pairs):
                action_values[pair] = rewards[pair]
            for y in range(n_states):
                worth = after[y]
                for pair in range(n_pairs):
                    action_values[pair] += columns[y, pair] * worth
            for x in range(n_states):
                first = x * n_actions
                best, top, same = 0, action_values[first], 1
                for a in range(1, n_actions):
                    value = action_values[first + a]
                    if value > top:
                        best, top, same = a, value, 1
                    elif value == top and len(words) > 0:
                        # Reservoir sampling: the k-th equal action replaces with probability 1/k.
                        same += 1
                        word = _next_word(word)
                        if _mixed(word) % np.uint64(same) == np.uint64(0):
                            best = a
                policy[m, i, x] = best
                after[x] = top
            if len(values) > 0:
                values[m, i] = after


@compiled(fastmath=_SUMS)
def evaluate(
    parameters: Array, n_states: int, n_actions: int, policy: Array, values: Array
) -> None:
    """Write the values (m, h, X) of policies; one MDP or one policy may serve all rows."""
    n_pairs = n_states * n_actions
    after, now = np.empty(n_states), np.empty(n_states)
    for m in range(len(values)):
        one = m if len(parameters) > 1 else 0
        rewards = parameters[one, :n_pairs]
        rows = parameters[one, n_pairs:].reshape(n_pairs, n_states)
        chosen = policy[m if len(policy) > 1 else 0]
        after[:] = 0.0
        for i in range(len(chosen) - 1, -1, -1):
            for x in range(n_states):
                pair = x * n_actions + chosen[i, x]
                value = rewards[pair]
                for y in range(n_states):
                    value += rows[pair, y] * after[y]
                now[x] = value
            for x in range(n_states):
                after[x] = now[x]
                values[m, i, x] = now[x]
