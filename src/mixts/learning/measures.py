"""Measures of a prior check: calibration, surprising tasks and the use of components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from mixts._typing import Array, Bool, Float, Int
from mixts.learning.models.predictive import Predictive

LEVELS = (0.5, 0.8, 0.95)
"""Of the central intervals whose coverage is counted."""

SIGNIFICANCE = 0.01
"""Of the verdict: so rarely is a right prior called wrong. Its three tests share it."""

SLIGHT = 0.03
"""A deviation of less than this: every probability is right to within three points in a hundred."""

FEWEST = 10
"""Predictions without which nothing is said."""

_WORDS = {
    "narrow": "predictions are {}too narrow",
    "wide": "predictions are {}too wide",
    "high": "what comes is {}above the predictions",
    "low": "what comes is {}below the predictions",
    "shape": "predictions have {}the wrong shape",
}
_NOISE_WORDS = {
    "high": "the noise is {}larger than noise_std",
    "low": "the noise is {}smaller than noise_std",
    "narrow": "the noise varies {}more than predicted",
    "wide": "the noise varies {}less than predicted",
    "shape": "the noise has {}another distribution",
}


class Coverage(NamedTuple):
    """How often central intervals of a level held what came; the error is that of a right prior."""

    level: float
    found: float
    error: float


@dataclass(frozen=True)
class Calibration:
    """Probability integral transforms of one kind of prediction: uniform if the prior is right."""

    group: str
    """What is predicted: rewards, transitions or noise."""
    transforms: Float[Array, " k"]
    """P(less than what came), ties broken at random: 0.5 is the median of the prediction."""
    tasks: Int[Array, " k"]
    """The task of each."""

    @property
    def n_predictions(self) -> int:
        """How many there are."""
        return len(self.transforms)

    def coverage(self) -> list[Coverage]:
        """Of the central 50, 80 and 95 % intervals, with binomial standard errors."""
        out = np.abs(2 * self.transforms - 1)
        n = max(self.n_predictions, 1)
        return [
            Coverage(level, float((out <= level).mean()) if len(out) else np.nan,
                     float(np.sqrt(level * (1 - level) / n)))
            for level in LEVELS
        ]  # fmt: skip

    def deviation_curve(self) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """The transforms in order, and by how much more of them are below each than should be.

        Just before and just after each of its steps.
        """
        u, n = np.sort(self.transforms), max(self.n_predictions, 1)
        rank = np.arange(len(u)) / n
        after = np.stack([rank - u, rank + 1 / n - u], axis=1)
        return np.repeat(u, 2), after.reshape(-1)

    @property
    def deviation(self) -> float:
        """The largest error of any predicted probability (Kolmogorov and Smirnov's distance)."""
        return float(np.abs(self.deviation_curve()[1]).max(initial=0.0))

    @property
    def p_value(self) -> float:
        """How likely a right prior has as large a deviation (Stephens's approximation)."""
        root = np.sqrt(self.n_predictions)
        if not root:
            return 1.0
        return float(special.kolmogorov((root + 0.12 + 0.11 / root) * self.deviation))

    @property
    def location(self) -> float:
        """The mean of the transforms less 1/2 in its standard errors: positive if too much came."""
        return float((self.transforms - 0.5).sum() * np.sqrt(12 / max(self.n_predictions, 1)))

    @property
    def spread(self) -> float:
        """The same of |2 u - 1|: positive if too much is far from the middle of the predictions."""
        out = np.abs(2 * self.transforms - 1) - 0.5
        return float(out.sum() * np.sqrt(12 / max(self.n_predictions, 1)))

    @property
    def findings(self) -> tuple[str, ...]:
        """What is wrong: narrow or wide, high or low, or, if neither is seen, the shape.

        The spread, the location and the deviation are each tested at a third of 1 %.
        """
        if self.n_predictions < FEWEST:
            return ()
        limit = float(special.ndtri(1 - SIGNIFICANCE / 6))
        found = []
        if abs(self.spread) > limit:
            found.append("narrow" if self.spread > 0 else "wide")
        if abs(self.location) > limit:
            found.append("high" if self.location > 0 else "low")
        if not found and self.p_value < SIGNIFICANCE / 3:
            found.append("shape")
        if self.group == "noise" and {"high", "low"} & set(found):
            # Noise of another size has another spread, too.
            found = [name for name in found if name in ("high", "low")]
        return tuple(found)

    @property
    def verdict(self) -> str:
        """In words."""
        if self.n_predictions < FEWEST:
            return "too few to tell"
        if not self.findings:
            return "calibrated"
        words = _NOISE_WORDS if self.group == "noise" else _WORDS
        degree = "slightly " if self.deviation < SLIGHT else ""
        return ", and ".join(words[name].format(degree) for name in self.findings)


LEVEL = 0.01
"""A task with a p-value of at most this is surprising."""

SCREENED = 99
"""Draws for every task; all others are only for those that have at most SCREENED / 10 below."""


@dataclass(frozen=True)
class Surprise:
    """How probable each task is beside tasks that the prior draws, the same things tried."""

    score: Float[Array, " n"]
    """ln of the probability (for real numbers, density) of the task's statistics."""
    expected: Float[Array, " n"]
    """The mean score of tasks that the prior draws."""
    spread: Float[Array, " n"]
    """Their standard deviation."""
    p_value: Float[Array, " n"]
    """How likely the prior draws a task that is no more probable; 0 for what is impossible, 1 for
    tasks without observations."""
    log_factor: Float[Array, " n"]
    """ln of how much more probable the flat prior makes the task. Above ln 100 for at most 1 % of a
    right prior's tasks, however actions were chosen, if the flat prior does not depend on them: one
    that was given, or that of Bernoulli arms and MDPs. Others take their scale from these tasks, so
    that it is nearly so, the more tasks the better."""
    n_observations: Int[Array, " n"]

    @property
    def impossible(self) -> Int[Array, " k"]:
        """The tasks that have seen what every component rules out."""
        return np.flatnonzero(np.isneginf(self.score))

    @property
    def surprising(self) -> Bool[Array, " n"]:
        """Those with a p-value of at most 0.01."""
        return np.asarray(self.p_value <= LEVEL)

    @property
    def n_expected(self) -> float:
        """How many would be surprising, at most, if the prior were right."""
        return LEVEL * int((self.n_observations > 0).sum())

    @property
    def n_unlike(self) -> int:
        """How many tasks the flat prior makes 100 times more probable."""
        return int((self.log_factor > -np.log(LEVEL)).sum())

    def ranked(self) -> Int[Array, " n"]:
        """The tasks, the most surprising first; among equals the one furthest from expectation."""
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = np.where(self.spread > 0, (self.score - self.expected) / self.spread, 0.0)
        distance = np.where(np.isneginf(self.score), -np.inf, distance)
        return np.lexsort((np.arange(len(distance)), distance, self.p_value))


def scores_beside(
    predictive: Predictive, observed: Float[Array, " n"], n_draws: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Means and deviations of replicated scores, and Monte Carlo p-values, (n,) each.

    ``(1 + how many draws score no more) / (1 + draws)``. A task of which 10 of the first 99 do is
    not looked at further: its p-value is above 0.1 and needs no more digits.
    """
    every = np.arange(len(observed))
    first = min(n_draws, SCREENED)
    drawn = predictive.replicate(rng, every, first)
    # The same counts may have scores that differ by rounding.
    tie = observed + 1e-9 * (1 + np.where(np.isfinite(observed), np.abs(observed), 0.0))
    below = (drawn <= tie[:, None]).sum(axis=1)
    p_value = (1 + below) / (1 + first)
    mean, deviation = drawn.mean(axis=1), drawn.std(axis=1)
    closer = np.flatnonzero(below <= SCREENED // 10)
    if n_draws > first and len(closer):
        more = predictive.replicate(rng, closer, n_draws - first)
        below[closer] += (more <= tie[closer, None]).sum(axis=1)
        p_value[closer] = (1 + below[closer]) / (1 + n_draws)
    return mean, deviation, p_value


PROMISE = 3.0
"""Fewer tasks than this, expected by a component's weight, say nothing if none comes: of a right
prior that happens with a probability of up to exp(-3) = 5 %."""
SHARE = 0.1
"""Of the promise: a component with less than this is unused."""


@dataclass(frozen=True)
class Usage:
    """How many tasks each component is responsible for, of those with observations."""

    names: tuple[str, ...]
    weights: Float[Array, " L"]
    n_tasks: int
    """Tasks with observations that some component can explain."""
    found: Float[Array, " L"]
    """The expected number of tasks: the sum of P(s | task)."""
    largest: Float[Array, " L"]
    """The largest P(s | task) of any task."""

    @property
    def promised(self) -> Float[Array, " L"]:
        """How many tasks the component's weight says."""
        return np.asarray(self.weights * self.n_tasks)

    @property
    def told(self) -> Bool[Array, " L"]:
        """Whether there are enough tasks to tell: a promise of at least 3."""
        return np.asarray(self.promised >= PROMISE)

    @property
    def unused(self) -> Bool[Array, " L"]:
        """Fewer than a tenth of the tasks that the weight promises, where that is at least 3."""
        return np.asarray(self.told & (self.found < SHARE * self.promised))
