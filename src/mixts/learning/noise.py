"""The noise of tasks: compare one noise for all with a noise of each task, on held-out tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts import _random
from mixts._progress import step
from mixts.families import Statistics
from mixts.learning.learn import learn
from mixts.learning.models.predictive import mixture_evidence
from mixts.learning.models.student import LEAST_NOISE, typical_noise, with_noise
from mixts.learning.options import Noise

HELD_OUT = 0.2
LEAST_TASKS = 20
"""With fewer tasks nothing is compared: four held-out tasks show no difference."""
LEAST_SHOWING = 4
"""With fewer held-out tasks that show noise nothing is compared."""
COLLAPSED = 10 * LEAST_NOISE
"""Noise of a kind, as a fraction of the typical noise, below which rewards only repeat."""
N_RESTARTS = 2
N_ERRORS = 2.0
"""A noise of each task must predict better by this many standard errors."""


@dataclass(frozen=True)
class NoiseChoice:
    """Comparison of one noise for all tasks with a noise of each task."""

    chosen: Noise
    """What was taken."""
    gain: float
    """Mean gain of the log evidence of a held-out task by a noise of its own, in nats."""
    standard_error: float
    """Standard error of the gain."""
    n_tasks: int
    """Number of held-out tasks."""
    reason: str = ""
    """Reason for a common noise if predictions were not compared; then the numbers are NaN."""

    @property
    def sentence(self) -> str:
        """Reason for the choice, in a sentence."""
        if self.reason:
            return f"noise: all tasks have the same; {self.reason}"
        by = f"{abs(self.gain):.2g} ± {self.standard_error:.2g} nats per task"
        on = f"on {self.n_tasks:,} held-out task{'s' * (self.n_tasks != 1)}"
        if self.chosen == "per-task":
            return f"noise: each task has its own, which predicts better by {by} {on}"
        if self.gain <= 0:
            return f"noise: all tasks have the same; a noise of each predicts worse by {by} {on}"
        return f"noise: all tasks have the same; a noise of each predicts better by only {by} {on}"


def compare_noise(
    tasks: Statistics,
    n_components: int,
    seed: int,
    most: int = 1000,
    options: Mapping[str, Any] | None = None,
) -> NoiseChoice | None:
    """Compare both kinds of noise by the evidence of tasks that were not learned from.

    Parameters
    ----------
    tasks
        Statistics of tasks with Gaussian or linear rewards.
    n_components
        Number of components of both priors.
    seed
        Seed of all that is random.
    most
        Largest number of tasks to use; a fifth of them is held out.
    options
        More arguments of :func:`mixts.learning.learn`.

    Returns
    -------
    NoiseChoice or None
        A noise of each task is chosen if it predicts better by two standard errors, unless hardly
        any task shows noise, or the noise of a kind is practically zero. None if there are too few
        tasks to compare.
    """
    seen = np.flatnonzero(np.atleast_1d(tasks.n_observations) > 0)
    if len(seen) < LEAST_TASKS:
        return None
    order = seen[_random.stream(seed, "fit", "noise").permutation(len(seen))[:most]]
    n_test = round(HELD_OUT * len(order))
    test, train = tasks[np.sort(order[:n_test])], tasks[np.sort(order[n_test:])]
    n = max(1, min(n_components, len(train) // 3))
    _, shows = with_noise(test)
    if shows.sum() < LEAST_SHOWING:
        quiet = f"{n_test - shows.sum():,} of {n_test:,} held-out tasks show no noise"
        return common_noise(f"{quiet}: the same choice always had the same reward")
    step(f"comparing one noise of all with a noise of each task on {len(order):,} tasks")
    arguments = {"method": "evidence", "seed": seed, "n_restarts": N_RESTARTS, **(options or {})}
    common, own = (
        learn(train, n, noise=noise, **arguments).prior for noise in ("common", "per-task")
    )
    family: Any = own.family
    if np.min(family.noise_std) < COLLAPSED * typical_noise(train):
        return common_noise(
            "a noise of each would be zero in a kind whose tasks have exactly the same rewards"
        )
    gain = mixture_evidence(own, test) - mixture_evidence(common, test)
    mean, error = float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))
    chosen: Noise = "per-task" if mean > N_ERRORS * error else "common"
    return NoiseChoice(chosen, mean, error, n_test)


def common_noise(reason: str) -> NoiseChoice:
    """Return the choice of a common noise for another reason than the predictions."""
    return NoiseChoice("common", float("nan"), float("nan"), 0, reason)
