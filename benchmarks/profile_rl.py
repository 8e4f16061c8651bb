"""Profile an episode of RiverSwim by part: 500 runs at once, on one core.

    python benchmarks/profile_rl.py [--runs 500] [--episodes 500] [--chunks 5] [--out FILE]

The profile times every compiled loop and every large draw of random numbers inside an ordinary run.
The rest is Python: checks, new arrays, calls. A call serves hundreds of runs, so that the time of
the clock itself is negligible.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from alternation import THREAD_VARIABLES

# Libraries read these when they are imported.
os.environ |= dict.fromkeys(THREAD_VARIABLES, "1")

import numpy as np
import river_swim
from problems import Array
from river import drawn_tables
from table import cpu_model, markdown

LOOPS = (
    ("mixts.belief", "draw_latent", "sample: latent states"),
    ("mixts.families.tabular_posterior", "gather", "sample: posterior counts"),
    ("mixts.families.tabular_posterior", "normalise", "sample: normalise"),
    ("mixts.planning.mdp", "induce", "plan"),
    ("mixts.environments.mdp", "play_episodes", "play: episodes"),
    ("mixts.families.tabular_posterior", "observe", "update: counts and evidence"),
    ("mixts.planning.mdp", "evaluate", "evaluate the policies, for regret"),
)
"""Compiled loops, by the module that calls them."""

GAMMAS, UNIFORMS, REST = "sample: gamma draws", "play: uniform draws", "the rest: Python"
ORDER = (
    "sample: latent states", "sample: posterior counts", GAMMAS, "sample: normalise", "plan",
    UNIFORMS, "play: episodes", "update: counts and evidence",
    "evaluate the policies, for regret", REST,
)  # fmt: skip

Clock = dict[str, float]


def timed(clock: Clock, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        started = perf_counter()
        result = function(*arguments, **options)
        clock[label] = clock.get(label, 0.0) + perf_counter() - started
        return result

    return call


@contextmanager
def timed_loops(clock: Clock) -> Iterator[None]:
    """Replace every loop by a timed version, until the end of the context."""
    originals = []
    for module_name, name, label in LOOPS:
        module = importlib.import_module(module_name)
        originals.append((module, name, getattr(module, name)))
        setattr(module, name, timed(clock, label, getattr(module, name)))
    try:
        yield
    finally:
        for module, name, function in originals:
            setattr(module, name, function)


class TimedGenerator(np.random.Generator):
    """Generator that times one of its methods."""

    def __init__(self, seed: int, clock: Clock, method: str, label: str) -> None:
        super().__init__(np.random.PCG64(seed))
        setattr(self, method, timed(clock, label, getattr(super(), method)))


def profile(prior: Callable[[], Any], n_runs: int, n_episodes: int, index: int) -> Clock:
    """Return the microseconds per episode of each part, for one chunk."""
    import mixts

    clock: Clock = {}
    tables = drawn_tables(range(index * n_runs, (index + 1) * n_runs))
    agent = mixts.MixTS(
        prior(), n_tasks=n_runs, seed=TimedGenerator(index, clock, "standard_gamma", GAMMAS)
    )
    problem = river_swim.start(tables, TimedGenerator(index, clock, "random", UNIFORMS))
    with timed_loops(clock):
        clock.clear()
        seconds, _ = river_swim.play(agent, problem, n_episodes)
    clock[REST] = seconds - sum(clock.values())
    return {part: 1e6 * taken / (n_runs * n_episodes) for part, taken in clock.items()}


def table(chunks: dict[str, list[Clock]]) -> str:
    """Return a row for each part: its median over chunks, and its share of the sum of medians."""
    medians: dict[str, Array] = {
        name: np.array([np.median([clock.get(part, 0.0) for clock in clocks]) for part in ORDER])
        for name, clocks in chunks.items()
    }
    header = ("part", *(f"{name}, {what}" for name in medians for what in ("us", "share")))
    body = []
    for row, part in enumerate((*ORDER, "an episode")):
        cells = [part]
        for parts in medians.values():
            taken = parts.sum() if row == len(ORDER) else parts[row]
            cells += [f"{taken:.2f}", f"{100 * taken / parts.sum():.0f} %"]
        body.append(cells)
    return markdown(header, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--chunks", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    names = {"PSRL": "L = 1", "MixTS": "L = 2"}
    chunks: dict[str, list[Clock]] = {name: [] for name in names.values()}
    for prior in river_swim.PRIORS.values():
        profile(prior, options.runs, 20, 0)
    for index in range(1, options.chunks + 1):
        for name, prior in river_swim.PRIORS.items():
            chunks[names[name]].append(profile(prior, options.runs, options.episodes, index))
    text = f"{table(chunks)}\n\n- CPU: {cpu_model()}\n"
    print(text, end="")
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
