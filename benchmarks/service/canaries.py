"""Measure what the canary's rule finds and what it costs.

    python benchmarks/service/canaries.py [--canaries 1000]

A canary decides for a tenth of the new tasks, ten decisions each, whose mean rewards differ from
task to task (standard deviation .25 around .6). Both sides are compared whenever another 50 tasks
of the canary are done. It is withdrawn when the confidence sequence of the difference is below
zero, promoted when it is above zero, or after ``CANARY_TASKS`` tasks.

The loss that a canary makes itself is in decisions' rewards: its tasks, times ten, times the
difference. After a wrong promotion the difference is lost in every decision until the next refit.
"""

from __future__ import annotations

import argparse

import numpy as np
from mixts_serve import lift
from mixts_serve.promotion import CANARY_TASKS
from scipy import stats

ROUNDS = 10
SHARE = 0.1
STEP = 50
"""Tasks of the canary between two looks."""
MEAN, SPREAD = 0.6, 0.25


def looks(rng: np.random.Generator, step: int, gain: float) -> list[lift.Sums]:
    """Return the sums of one side whenever ``step`` more of its tasks are done."""
    strength = MEAN * (1 - MEAN) / SPREAD**2 - 1
    shape = (CANARY_TASKS // STEP, step)
    means = np.clip(rng.beta(MEAN * strength, (1 - MEAN) * strength, shape) + gain, 0, 1)
    rewards = rng.binomial(ROUNDS, means).astype(float)
    # All tasks have as many decisions, so that their errors follow from sums of powers.
    centred = rewards - ROUNDS * MEAN
    powers = [(centred**k).sum(axis=1).cumsum() for k in range(1, 5)]
    found = []
    for look, (a, b, c, d) in enumerate(zip(*powers, strict=True)):
        n = (look + 1) * step
        m, total = a / n, a + n * ROUNDS * MEAN
        squares = b - n * m**2
        fourths = d - 4 * m * c + 6 * m**2 * b - 3 * n * m**4
        found.append(lift.Sums(n, n * ROUNDS, total, total, squares, fourths, squares, fourths))
    return found


def judged(rng: np.random.Generator, gain: float) -> tuple[bool, int]:
    """Return whether a canary is promoted, and after how many of its tasks."""
    canary, others = looks(rng, STEP, gain), looks(rng, round(STEP * (1 - SHARE) / SHARE), 0.0)
    for one, rest in zip(canary, others, strict=True):
        found = lift.compare(rest, one).per_decision
        if found is not None and found.direction:
            return found.direction > 0, one.tasks
    return True, CANARY_TASKS


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--canaries", type=int, default=1_000)
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
