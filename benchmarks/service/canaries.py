"""Measure what the canary's rule finds and what it costs.

    python benchmarks/service/canaries.py [--canaries 400]

A canary decides for a tenth of the new tasks, ten decisions each, whose mean rewards differ from task
to task (standard deviation .25 around .6). Both sides are compared whenever another 50 tasks of the
canary are done. It is withdrawn when the confidence sequence of the difference is below zero, promoted
when it is above zero, or after ``CANARY_TASKS`` tasks.

The loss that a canary makes itself is in decisions' rewards: its tasks, times ten, times the
difference. After a wrong promotion the difference is lost in every decision until the next refit.
"""

from __future__ import annotations

import argparse

import numpy as np
from mixts_serve import lift
from mixts_serve.promotion import CANARY_TASKS, sums_of
from scipy import stats

ROUNDS = 10
SHARE = 0.1
STEP = 50
"""Tasks of the canary between two looks."""
MEAN, SPREAD = 0.6, 0.25


def tasks(rng: np.random.Generator, n: int, gain: float) -> np.ndarray:
    """Return the decisions, rewards and absolute rewards of tasks."""
    strength = MEAN * (1 - MEAN) / SPREAD**2 - 1
    means = np.clip(rng.beta(MEAN * strength, (1 - MEAN) * strength, n) + gain, 0, 1)
    rewards = rng.binomial(ROUNDS, means)
    return np.column_stack([np.full(n, ROUNDS), rewards, rewards]).astype(float)


def judged(rng: np.random.Generator, gain: float) -> tuple[bool, int]:
    """Return whether a canary is promoted, and after how many of its tasks."""
    n_others = round(STEP * (1 - SHARE) / SHARE)
    n_looks = CANARY_TASKS // STEP
    canary, others = tasks(rng, STEP * n_looks, gain), tasks(rng, n_others * n_looks, 0.0)
    for look in range(1, n_looks + 1):
        sides = (sums_of(others[: look * n_others]), sums_of(canary[: look * STEP]))
        found = lift.compare(*sides).per_decision
        if found is not None and found.direction:
            return found.direction > 0, look * STEP
    return True, CANARY_TASKS


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--canaries", type=int, default=400)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    for gain in (-0.05, -0.019, -0.01, -0.005, 0.0, 0.019):
        found = [judged(rng, gain) for _ in range(options.canaries)]
        n = sum(not promoted for promoted, _ in found)
        low, high = stats.binomtest(n, len(found)).proportion_ci(0.95, "exact")
        median = np.median([count for _, count in found])
        print(
            f"{gain:+.3f} a decision: withdrawn {n / len(found):.1%} ({low:.1%} to {high:.1%}), "
            f"judged after {median:,.0f} of its tasks (median), which "
            f"{'lost' if gain < 0 else 'gained'} {median * ROUNDS * abs(gain):,.0f} in rewards"
        )


if __name__ == "__main__":
    main()
