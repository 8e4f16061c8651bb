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
def _mixed(word: Any) -> Any:
    """Return the output of splitmix64: every bit depends on all bits of the word."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled(borrows=True, fastmath=_SUMS)
def induce(
    parameters: Array, n_actions: int, words: Array, room: Array, policy: Array, values: Array
) -> None:
    """Plan by backward induction for each row: write policy (m, h, X) and values (m, h, X).

    ``words`` holds a random word for each MDP to choose among equal actions; if it is empty, the
    first is taken. ``values`` may be empty if they are not needed. ``room`` (2 + X, X A) is memory
    to work in.
    """
    n_steps, n_states = policy.shape[1], policy.shape[2]
    n_pairs = n_states * n_actions
    for m in range(len(parameters)):
        # Transposed by next state, so that a step is a few sums over all pairs at once.
        for pair in range(n_pairs):
            for y in range(n_states):
                room[2 + y, pair] = parameters[m, n_pairs + pair * n_states + y]
        word = words[m] if len(words) > 0 else np.uint64(0)
        for x in range(n_states):
            room[1, x] = 0.0
        for i in range(n_steps - 1, -1, -1):
            for pair in range(n_pairs):
                room[0, pair] = parameters[m, pair]
            for y in range(n_states):
                for pair in range(n_pairs):
                    room[0, pair] += room[2 + y, pair] * room[1, y]
            for x in range(n_states):
                best, same = 0, 1
                top = room[0, x * n_actions]
                for a in range(1, n_actions):
                    value = room[0, x * n_actions + a]
                    if value > top:
                        best, top, same = a, value, 1
                    elif value == top and len(words) > 0:
                        # Reservoir sampling: the k-th equal action replaces with probability 1/k.
                        same += 1
                        word += np.uint64(0x9E3779B97F4A7C15)  # the next state of splitmix64
                        if _mixed(word) % np.uint64(same) == np.uint64(0):
                            best = a
                policy[m, i, x] = best
                room[1, x] = top
                if len(values) > 0:
                    values[m, i, x] = top


@compiled(borrows=True, fastmath=_SUMS)
def evaluate(parameters: Array, n_actions: int, policy: Array, values: Array) -> bool:
    """Write the values (m, h, X) of policies; one MDP or one policy may serve all rows.

    Returns false if a policy has an action that does not exist.
    """
    n_steps, n_states = policy.shape[1], policy.shape[2]
    n_pairs = n_states * n_actions
    for m in range(len(values)):
        one = m if len(parameters) > 1 else 0
        chosen = m if len(policy) > 1 else 0
        for i in range(n_steps - 1, -1, -1):
            for x in range(n_states):
                a = policy[chosen, i, x]
                if a < 0 or a >= n_actions:
                    return False
                pair = x * n_actions + a
                value = parameters[one, pair]
                if i + 1 < n_steps:
                    for y in range(n_states):
                        value += (
                            parameters[one, n_pairs + pair * n_states + y] * values[m, i + 1, y]
                        )
                values[m, i, x] = value
    return True
