"""The compiled loop that plays episodes of MDPs in lockstep."""

from __future__ import annotations

from mixts._compiled import compiled
from mixts._typing import Array


@compiled()
def _draw(row: Array, first: int, n: int, uniform: float) -> int:
    """Return the entry in which a uniform number falls; never an entry of probability zero."""
    chosen = 0
    for y in range(n):
        if row[first + y] > 0.0:
            # Rounding may leave a remainder at the end: then it is the last possible entry.
            chosen = y
            uniform -= row[first + y]
            if uniform < 0.0:
                break
    return chosen


@compiled(borrows=True)
def play_episodes(
    parameters: Array, initial: Array, n_actions: int, policy: Array, uniform: Array,
    states: Array, actions: Array, rewards: Array,
) -> None:  # fmt: skip
    """Play an episode of each MDP under its policy (n, h, X), from 2 h + 1 uniform numbers."""
    n_states = len(initial)
    n_pairs = n_states * n_actions
    last = states.shape[1] - 1
    for m in range(len(parameters)):
        row = parameters[m]
        x = _draw(initial, 0, n_states, uniform[m, 0])
        for i in range(actions.shape[1]):
            a = policy[m, i, x]
            pair = x * n_actions + a
            states[m, i] = x
            actions[m, i] = a
            rewards[m, i] = 1.0 if uniform[m, 2 * i + 1] < row[pair] else 0.0
            x = _draw(row, n_pairs + pair * n_states, n_states, uniform[m, 2 * i + 2])
            if i + 1 == last:
                states[m, last] = x
