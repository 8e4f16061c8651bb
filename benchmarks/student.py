"""Compare decisions and updates with unknown noise with those with known noise.

python -m benchmarks.student
python -m benchmarks.student --repeats 21

Both sides take turns, and the time is that of the processor: the table has the median ratio.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import numpy as np

import mixts

CASES = (
    ("full", 5, 10, None),
    ("full", 20, 20, None),
    ("tied", 20, 10, None),
    ("tied", 100, 20, None),
    ("full", 5, 10, 1000),
    ("tied", 20, 10, 1000),
)
"""Covariance type, components, features, tasks."""
N_ACTIONS = 10


def prior(kind: Any, n: int, d: int, *, student: bool) -> mixts.MixturePrior:
    """Return a prior of n components and d features."""
    rng = np.random.default_rng(1)
    root = rng.standard_normal((n, d, d)) / np.sqrt(d)
    covariance = root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(d)
    covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
    covariance = covariance[0] if kind == "tied" else covariance
    mean = rng.standard_normal((n, d))
    if student:
        return mixts.MixturePrior(mixts.LinearStudent(mean, covariance, 0.5, 6.0, kind))
    return mixts.MixturePrior(mixts.LinearGaussian(mean, covariance, 0.5, kind))


def play(own: mixts.MixturePrior, n_tasks: int | None, n_rounds: int, d: int) -> float:
    """Return the seconds of some rounds of act and update."""
    rng = np.random.default_rng(2)
    sets = rng.standard_normal((n_rounds, N_ACTIONS, d))
    rewards = rng.standard_normal((n_rounds, *([] if n_tasks is None else [n_tasks])))
    agent = mixts.MixTS(own, n_tasks=n_tasks, seed=1)
    start = process_time()
    for actions, reward in zip(sets, rewards, strict=True):
        agent.update(actions[agent.act(actions)], reward)
    return process_time() - start


def main() -> None:
    """Measure all cases, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.student", description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    repeats = parser.parse_args().repeats
    print("covariance  components  features  tasks  microseconds  ratio")
    for kind, n, d, n_tasks in CASES:
        n_rounds = 400 if n_tasks is None else 30
        both = [prior(kind, n, d, student=student) for student in (False, True)]
        times = np.array(
            [[play(one, n_tasks, n_rounds, d) for one in both] for _ in range(repeats + 1)]
        )[1:]  # the first is warm-up
        known, own = np.median(times, axis=0) / n_rounds * 1e6
        ratio = np.median(times[:, 1] / times[:, 0])
        print(
            f"{kind:10}  {n:10}  {d:8}  {n_tasks or 1:5}  {known:5.0f} {own:6.0f}  {ratio:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
