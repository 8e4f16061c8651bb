"""RiverSwim as in the paper, made with numpy alone: 10 states, horizon 20, Bernoulli rewards.

The MDP of each run is drawn from the paper's prior. Its means are the tables of the paper's figure
for either current; its strength is 30 pseudo-counts for each state and action.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from benchmark import Benchmark
from problems import Array, task_generator

N_STATES = 10
HORIZON = 20
START = 5
STRENGTH = 30.0
LEFT, RIGHT = 0, 1


class Tables(NamedTuple):
    """Mean rewards (..., X, A) and transitions (..., X, A, X)."""

    rewards: Array
    transitions: Array


def mean_tables() -> Tables:
    """Return the prior means, current to the left, then mirrored: (2, X, A) and (2, X, A, X)."""
    rewards = np.zeros((N_STATES, 2))
    rewards[0, LEFT], rewards[-1, RIGHT] = 0.005, 0.9
    transitions = np.zeros((N_STATES, 2, N_STATES))
    for state in range(N_STATES):
        transitions[state, LEFT, max(state - 1, 0)] = 1.0
        if 0 < state < N_STATES - 1:
            transitions[state, RIGHT, state - 1 : state + 2] = 0.05, 0.6, 0.35
    transitions[0, RIGHT, :2] = 0.6, 0.4
    transitions[-1, RIGHT, -2:] = 0.4, 0.6
    mirrored = rewards[::-1, ::-1], transitions[::-1, ::-1, ::-1]
    return Tables(np.stack([rewards, mirrored[0]]), np.stack([transitions, mirrored[1]]))


def drawn_tables(indices: Iterable[int]) -> Tables:
    """Return the MDPs of these runs; runs are the first axis."""
    drawn = [_draw(index) for index in indices]
    return Tables(*(np.stack(parts) for parts in zip(*drawn, strict=True)))


def _draw(index: int) -> Tables:
    """Draw MDPs by normalising gamma variables, for which a count of zero gives exactly zero."""
    rng = task_generator(index)
    means = mean_tables()
    current = int(rng.integers(2))
    ones = STRENGTH * means.rewards[current]
    pairs = rng.standard_gamma(np.stack([ones, STRENGTH - ones], axis=-1))
    rows = rng.standard_gamma(STRENGTH * means.transitions[current])
    return Tables(pairs[..., 0] / pairs.sum(axis=-1), rows / rows.sum(axis=-1, keepdims=True))


def best_value(tables: Tables) -> Array:
    """Return the optimal value from the start, for any batch of MDPs."""
    values = np.zeros(tables.rewards.shape[:-1])
    for _ in range(HORIZON):
        values = _look_ahead(tables, values).max(axis=-1)
    return np.asarray(values[..., START])


def uniform_value(tables: Tables) -> Array:
    """Return the value from the start of choosing uniformly at random."""
    values = np.zeros(tables.rewards.shape[:-1])
    for _ in range(HORIZON):
        values = _look_ahead(tables, values).mean(axis=-1)
    return np.asarray(values[..., START])


def _look_ahead(tables: Tables, values: Array) -> Array:
    return tables.rewards + np.einsum("...xay,...y->...xa", tables.transitions, values)


def relative_regret(tables: Tables, returns: Array) -> float:
    """Return the regret of mean returns (runs,) in these MDPs, divided by that of uniform play."""
    best = best_value(tables)
    return float(np.sum(best - returns) / np.sum(best - uniform_value(tables)))


def fingerprint() -> list[float]:
    """Return weighted sums of all tables; the weights differ, so that exchanged entries show."""
    parts = (*mean_tables(), *drawn_tables(range(2)))
    return [float(np.sum(part * np.arange(part.size).reshape(part.shape))) for part in parts]


# -- the benchmark --------------------------------------------------------------------------------

N_EPISODES = 500
N_LAST = 100
N_WARM = 20


class Played(NamedTuple):
    """Results of a chunk of runs."""

    seconds: float
    """Seconds per episode of one run."""
    returns: Array
    """Mean returns over the last episodes, (runs,)."""
    tables: Tables
    """MDPs of the runs."""


@dataclass(frozen=True, kw_only=True)
class EpisodeBenchmark(Benchmark):
    """Benchmark of episodes: sample, plan, play and update.

    ``ours`` and ``peer`` play a number of episodes of a chunk, with new agents and MDPs, on one
    core.
    """

    ours: Callable[[int, int], Played]
    peer: Callable[[int, int], Played]
    our_threads: int | None = 1
    peer_threads: tuple[int, ...] = (1,)

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"mean of {N_EPISODES} episodes",)

    def chunk(self, side: str, index: int) -> dict[str, Any]:
        play = self.ours if side == "ours" else self.peer
        play(index + 1, N_WARM)
        gc.collect()
        played = play(index, N_EPISODES)
        return {
            "seconds": dict.fromkeys(self.labels, played.seconds),
            "regret": relative_regret(played.tables, played.returns),
        }

    def fingerprint(self) -> list[float]:
        return fingerprint()
