"""Measures of a prior check: evidence, calibration, surprising tasks and the use of components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Bool, Float, Int
from mixts.learning.models.predictive import Predictive, Rates


@dataclass(frozen=True)
class Evidence:
    """Log evidence of held-out tasks under a checked prior and the priors that it is compared with.

    Means are over the tasks that are possible under every prior; ``impossible`` counts the others.
    """

    log_evidence: Mapping[str, Float[Array, " n"]]
    """Log evidence of each task, by name of the prior; the checked prior comes first."""
    n_observations: Int[Array, " n"]
    """Number of observations of each task."""
    least: float = 0.0
    """Least difference of mean log evidence that makes a prior better or worse."""

    @property
    def names(self) -> list[str]:
        """Names of the priors; the checked prior comes first."""
        return list(self.log_evidence)

    @property
    def compared(self) -> Bool[Array, " n"]:
        """Mask of the tasks that are possible under every prior."""
        finite = [np.isfinite(one) for one in self.log_evidence.values()]
        return np.asarray(np.all(finite, axis=0))

    def impossible(self, name: str) -> int:
        """Return the number of tasks that are impossible under this prior."""
        return int((~np.isfinite(self.log_evidence[name])).sum())

    def per_task(self, name: str) -> Estimate:
        """Return the mean log evidence per task under this prior."""
        return estimate(self.log_evidence[name][self.compared])

    def per_observation(self, name: str) -> Estimate:
        """Return the mean log evidence per observation under this prior.

        The mean is the sum over tasks divided by their number of observations; the standard error
        is that of a ratio of means.
        """
        value, n = self.log_evidence[name][self.compared], self.n_observations[self.compared]
        if not n.sum():
            return Estimate(np.nan, np.nan)
        ratio = value.sum() / n.sum()
        return Estimate(float(ratio), estimate((value - ratio * n) / n.mean()).error)

    def verdict(self, name: str) -> Literal["better", "worse", "no different"]:
        """Compare the checked prior with this one, by two standard errors of the gain.

        A prior that calls a task impossible which the other explains is worse, whatever the gain on
        other tasks.
        """
        ours, theirs = (np.isfinite(self.log_evidence[one]) for one in (self.names[0], name))
        if (~ours & theirs).any():
            return "worse"
        mean, error = self.gain(name)
        if (ours & ~theirs).any() and not mean < 0:
            return "better"
        if not np.isfinite(error) or abs(mean) <= max(2 * error, self.least):
            return "no different"
        return "better" if mean > 0 else "worse"

    def comparison(self, name: str) -> str:
        """Compare the checked prior with this one in a sentence."""
        gain, n = self.gain(name), len(self.n_observations)
        if n < FEWEST:
            few = "1 held-out task is" if n == 1 else f"{n} held-out tasks are"
            return f"{few} too few to compare it with {name}."
        words = {"better": "better than", "worse": "worse than", "no different": "as well as"}
        return (
            f"It predicts {n:,} held-out tasks {words[self.verdict(name)]} {name} (log evidence of "
            f"a task {gain.mean:+.3f} ± {gain.error:.3f})."
        )

    def gain(self, name: str) -> Estimate:
        """Return the mean over tasks of the checked prior's log evidence minus this prior's."""
        checked = self.log_evidence[self.names[0]]
        return estimate(checked[self.compared] - self.log_evidence[name][self.compared])


# -- calibration -----------------------------------------------------------------------------

LEVELS = (0.5, 0.8, 0.95)
"""Levels of the central intervals whose coverage is counted."""

SIGNIFICANCE = 0.01
"""Probability that a right prior is called wrong; the three tests of a verdict share it."""

SLIGHT = 0.03
"""A smaller deviation is called slight: every probability is right to within 0.03."""

FEWEST = 10
"""Least number of predictions for a verdict."""

_WORDS = {
    "narrow": "predictions are {}too narrow",
    "wide": "predictions are {}too wide",
    "high": "outcomes are {}above the predictions",
    "low": "outcomes are {}below the predictions",
    "shape": "predictions have {}the wrong shape",
}
_NOISE_WORDS = {
    "high": "the noise is {}larger than predicted",
    "low": "the noise is {}smaller than predicted",
    "narrow": "the noise varies {}more than predicted",
    "wide": "the noise varies {}less than predicted",
    "shape": "the noise has {}another distribution",
}


HARMLESS = "decisions are hardly affected"
MORE_TASKS = "learn from more tasks"
_REMEDIES = {
    "narrow": "decisions explore too little and trust a kind too soon; {narrow}",
    "wide": "decisions explore more than they need; {wide}",
    "high": "rewards are better than the prior says, so that good choices are tried too late; "
    "learn from recent logs",
    "low": "rewards are worse than the prior says, so that first decisions disappoint; learn from "
    "recent logs",
    "shape": "probabilities of kinds are not exact; {shape}",
}
_NOISE_REMEDIES = {
    "high": "decisions trust single rewards too much; {noise}",
    "low": "decisions learn slower than they could; {noise}",
    "narrow": "the noise differs from task to task; {noise}",
    "wide": HARMLESS,
    "shape": "single large rewards can mislead decisions; {shape}",
}
"""What a fault means for decisions, and what to do."""


@dataclass(frozen=True)
class Remedies:
    """Remedies that are left to try: their options were not given, and would not be refused."""

    unusual: str = f"add --robust, or {MORE_TASKS}"
    """For tasks unlike any kind."""
    narrow: str = f"add --robust, or {MORE_TASKS}"
    """For predictions of rewards that are too narrow."""
    wide: str = MORE_TASKS
    """For predictions of rewards that are too wide."""
    noise: str = MORE_TASKS
    """For a noise of another size."""
    shape: str = MORE_TASKS
    """For rewards of another distribution."""
    n_kinds: int | None = None
    """Number of kinds that were learned, without a broad one; None if all were."""


class Coverage(NamedTuple):
    """Share of outcomes in central intervals of a level; the error is that of a right prior."""

    level: float
    found: float
    error: float


@dataclass(frozen=True)
class Calibration:
    """Probability integral transforms of a group of predictions; uniform if the prior is right."""

    group: str
    """Kind of prediction: "rewards", "transitions" or "noise"."""
    transforms: Float[Array, " k"]
    """P(less than the outcome), ties broken at random; 0.5 is the median of the prediction."""
    tasks: Int[Array, " k"]
    """Task of each transform."""
    remedies: Remedies = Remedies()
    """What may be done about faults."""

    @property
    def n_predictions(self) -> int:
        """Number of predictions."""
        return len(self.transforms)

    def coverage(self) -> list[Coverage]:
        """Count the coverage of the central 50, 80 and 95 % intervals, with binomial errors."""
        out = np.abs(2 * self.transforms - 1)
        n = max(self.n_predictions, 1)
        return [
            Coverage(level, float((out <= level).mean()) if len(out) else np.nan,
                     float(np.sqrt(level * (1 - level) / n)))
            for level in LEVELS
        ]  # fmt: skip

    def deviation_curve(self) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Return the sorted transforms, and their empirical distribution minus the uniform one.

        Both have two entries for each transform: just below it, and at it.
        """
        u, n = np.sort(self.transforms), max(self.n_predictions, 1)
        rank = np.arange(len(u)) / n
        after = np.stack([rank - u, rank + 1 / n - u], axis=1)
        return np.repeat(u, 2), after.reshape(-1)

    @property
    def deviation(self) -> float:
        """Largest error of any predicted probability: the Kolmogorov-Smirnov distance."""
        return float(np.abs(self.deviation_curve()[1]).max(initial=0.0))

    @property
    def p_value(self) -> float:
        """Probability that a right prior has as large a deviation, by Stephens's approximation."""
        root = np.sqrt(self.n_predictions)
        if not root:
            return 1.0
        return float(special.kolmogorov((root + 0.12 + 0.11 / root) * self.deviation))

    @property
    def location(self) -> float:
        """Mean of u - 1/2 in standard errors: positive if outcomes are larger than predicted."""
        return float((self.transforms - 0.5).sum() * np.sqrt(12 / max(self.n_predictions, 1)))

    @property
    def spread(self) -> float:
        """Mean of |2 u - 1| - 1/2 in standard errors: positive if predictions are too narrow."""
        out = np.abs(2 * self.transforms - 1) - 0.5
        return float(out.sum() * np.sqrt(12 / max(self.n_predictions, 1)))

    @property
    def findings(self) -> tuple[str, ...]:
        """Faults of the predictions: "narrow" or "wide", "high" or "low"; else perhaps "shape".

        The spread, the location and the deviation are each tested at a third of 1 %.
        """
        if not self.judged:
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
            # A wrong size of the noise also changes the spread.
            found = [name for name in found if name in ("high", "low")]
        return tuple(found)

    @property
    def judged(self) -> bool:
        """Whether there are enough predictions for a verdict: at least 10."""
        return self.n_predictions >= FEWEST

    @property
    def remedy(self) -> str:
        """Consequence of the faults for decisions, and what to do about them; "" if none."""
        words = _NOISE_REMEDIES if self.group == "noise" else _REMEDIES
        left = vars(self.remedies)
        return "; ".join(words[name].format(**left) for name in self.findings)

    @property
    def verdict(self) -> str:
        """Findings in words."""
        if not self.judged:
            return "too few to tell"
        if not self.findings:
            return "calibrated"
        words = _NOISE_WORDS if self.group == "noise" else _WORDS
        degree = "slightly " if self.deviation < SLIGHT else ""
        return ", and ".join(words[name].format(degree) for name in self.findings)


LEVEL = 0.01
"""Largest p-value of a surprising task."""

SCREENED = 99
"""Number of draws for every task; the rest only for tasks above at most a tenth of them."""


@dataclass(frozen=True)
class Surprise:
    """Probability of each task beside tasks drawn from the prior, with the same things tried."""

    score: Float[Array, " n"]
    """ln of the probability (of real numbers: density) of the task's statistics."""
    expected: Float[Array, " n"]
    """Mean score of tasks drawn from the prior."""
    spread: Float[Array, " n"]
    """Standard deviation of their scores."""
    p_value: Float[Array, " n"]
    """Probability that the prior draws a task that is no more probable; 0 for impossible tasks, 1
    for tasks without observations."""
    log_factor: Float[Array, " n"]
    """ln of the factor by which the flat prior makes the task more probable. For a right prior at
    most 1 % of tasks exceed ln 100, however actions were chosen, if the flat prior does not depend
    on the tasks: a given one, or that of Bernoulli arms and MDPs. Other flat priors take their
    scale from these tasks; for them it holds approximately, the better the more tasks there are."""
    n_observations: Int[Array, " n"]

    @property
    def impossible(self) -> Int[Array, " k"]:
        """Tasks that are impossible under every component."""
        return np.flatnonzero(np.isneginf(self.score))

    @property
    def surprising(self) -> Bool[Array, " n"]:
        """Whether the p-value of each task is at most 0.01."""
        return np.asarray(self.p_value <= LEVEL)

    @property
    def n_expected(self) -> float:
        """Largest expected number of surprising tasks if the prior is right."""
        return LEVEL * int((self.n_observations > 0).sum())

    @property
    def beyond_chance(self) -> bool:
        """Whether there are more surprising tasks than chance explains, or impossible ones.

        Under a right prior as many come with a probability below 1 %.
        """
        n, expected = int(self.surprising.sum()), self.n_expected
        if len(self.impossible):
            return True
        return bool(n and expected and float(special.gammainc(n, expected)) < LEVEL)

    @property
    def n_unlike(self) -> int:
        """Number of tasks that the flat prior makes more than 100 times as probable."""
        return int((self.log_factor > -np.log(LEVEL)).sum())

    def ranked(self) -> Int[Array, " n"]:
        """Return the tasks, the most surprising first; ties by the distance from the mean score."""
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = np.where(self.spread > 0, (self.score - self.expected) / self.spread, 0.0)
        distance = np.where(np.isneginf(self.score), -np.inf, distance)
        return np.lexsort((np.arange(len(distance)), distance, self.p_value))


def scores_beside(
    predictive: Predictive, observed: Float[Array, " n"], n_draws: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return means and deviations of replicated scores, and Monte Carlo p-values, (n,) each.

    A p-value is ``(1 + draws that score no more) / (1 + draws)``. A task with 10 such draws among
    the first 99 gets no more draws: its p-value is above 0.1 and needs no more digits.
    """
    every = np.arange(len(observed))
    first = min(n_draws, SCREENED)
    drawn = predictive.replicate(rng, every, first)
    # Scores of equal counts may differ by rounding.
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


N_BINS = 10
"""Number of classes of predicted click rates."""


@dataclass(frozen=True)
class RateCalibration:
    """Predicted click rates beside the share of clicks, in ten classes of about equal size.

    Each row is predicted from the task's earlier rows, so that differences between clicks and
    predictions are uncorrelated if the prior is right.
    """

    predicted: Float[Array, " b"]
    """Mean predicted rate of each class."""
    clicked: Float[Array, " b"]
    """Share of clicks."""
    error: Float[Array, " b"]
    """Standard error of the share if the prior is right."""
    n_trials: Float[Array, " b"]
    """Number of observations."""

    @classmethod
    def of(cls, rates: Rates) -> RateCalibration:
        """Sort rows by their predicted rates and divide them into ten classes."""
        order = np.argsort(rates.mean, kind="stable")
        mean, spread, trials, successes = (np.asarray(array)[order] for array in rates)
        total = np.cumsum(trials)
        # A row belongs to the class in which its middle observation lies.
        place = (total - trials / 2) * N_BINS / max(float(total[-1:].sum()), 1.0)
        bins = np.minimum(place.astype(np.int64), N_BINS - 1)
        # The clicks of a row share its rate: that correlates them.
        variance = trials * mean * (1 - mean) + trials * (trials - 1) * spread
        sums = [np.bincount(bins, x, N_BINS) for x in (trials, trials * mean, successes, variance)]
        n, expected, clicked, square = (x[sums[0] > 0] for x in sums)
        return cls(expected / n, clicked / n, np.sqrt(square) / n, n)

    @property
    def distances(self) -> Float[Array, " b"]:
        """Share of clicks minus predicted rate, in standard errors."""
        gap = self.clicked - self.predicted
        return np.asarray(gap / np.maximum(self.error, 1e-300))

    @property
    def p_value(self) -> float:
        """Probability that a right prior has as large distances, by a chi-squared test."""
        return float(special.chdtrc(len(self.error), float((self.distances**2).sum())))

    @property
    def judged(self) -> bool:
        """Whether the test has enough data: at least 10 expected clicks and 10 expected misses."""
        expected = float((self.n_trials * self.predicted).sum())
        return min(expected, float(self.n_trials.sum()) - expected) >= FEWEST

    @property
    def verdict(self) -> str:
        """Findings in words."""
        if not self.judged:
            return "too few clicks to tell"
        if self.p_value >= SIGNIFICANCE:
            return "calibrated"
        worst = int(np.argmax(np.abs(self.distances)))
        word = "too low" if self.distances[worst] > 0 else "too high"
        return (
            f"predicted rates are {word} where they are about {self.predicted[worst]:.1%}: "
            f"{self.clicked[worst]:.1%} clicked"
        )


LEAST_EXPECTED = 3.0
"""Least number of tasks, expected from a component's weight, for a verdict on its use: under a
right prior none of 3 expected tasks comes with probability exp(-3) = 5 %."""
UNUSED_SHARE = 0.1
"""A component with less than this share of its expected tasks is unused."""


@dataclass(frozen=True)
class Usage:
    """Number of tasks of each kind, among tasks with observations."""

    names: tuple[str, ...]
    weights: Float[Array, " G"]
    n_tasks: int
    """Number of tasks with observations that some component can explain."""
    found: Float[Array, " G"]
    """Expected number of tasks given the data: the sum of P(kind | task)."""
    largest: Float[Array, " G"]
    """Largest P(kind | task) of any task."""

    @property
    def expected(self) -> Float[Array, " G"]:
        """Expected number of tasks given the kind's weight."""
        return np.asarray(self.weights * self.n_tasks)

    @property
    def judged(self) -> Bool[Array, " G"]:
        """Whether there are enough tasks for a verdict: at least 3 expected."""
        return np.asarray(self.expected >= LEAST_EXPECTED)

    @property
    def unused(self) -> Bool[Array, " G"]:
        """Whether the kind has less than a tenth of its expected tasks, if judged."""
        return np.asarray(self.judged & (self.found < UNUSED_SHARE * self.expected))
