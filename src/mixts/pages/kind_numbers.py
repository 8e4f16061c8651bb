"""The numbers behind the words of a learned prior: means and ranges of every kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._typing import Array, Float
from mixts.errors import ParameterError
from mixts.families import (
    BernoulliArms,
    Family,
    GaussianArms,
    LinearGaussian,
    LinearStatistics,
    PoissonArms,
    Statistics,
)
from mixts.prior import MixturePrior

STANDS_OUT = 0.5
"""Standard deviations of all tasks: a kind whose mean is nearer is like the others there."""
LONGEST_NAME = 48
_INNER = 0.8
"""Of the tasks of a kind are in the range that is shown."""


@dataclass(frozen=True)
class Numbers:
    """Of L kinds and K arms or features."""

    names: tuple[str, ...]
    mean: Float[Array, "L K"]
    low: Float[Array, "L K"]
    high: Float[Array, "L K"]
    overall: Float[Array, " K"]
    deviation: Float[Array, " K"]
    """Of all tasks, whatever their kind."""
    scale: Float[Array, " K"]
    """What a feature is multiplied by to be compared with others: its typical size; 1 for arms."""
    digits: int

    @property
    def distance(self) -> Float[Array, "L K"]:
        """From the mean of all tasks, in standard deviations of them."""
        return (self.mean - self.overall) / np.where(self.deviation > 0, self.deviation, 1.0)

    def text(self, value: float) -> str:
        """A number with as many digits as all of them have."""
        return f"{value:.{self.digits}f}".replace("-", "−")

    def numbers(self, s: int, k: int, all_tasks: str = "") -> str:
        """A kind's mean beside that of all tasks."""
        mean, overall = self.text(self.mean[s, k]), self.text(self.overall[k])
        return f"{mean}, against {overall}{all_tasks}" if len(self.mean) > 1 else mean

    def named(self, s: int, k: int, all_tasks: str = "") -> str:
        """An arm or feature with its numbers."""
        return f"`{self.names[k]}` ({self.numbers(s, k, all_tasks)})"

    def outstanding(self, s: int, sign: int, left_out: set[int]) -> list[int]:
        """Where a kind is above (or, with -1, below) all tasks, the furthest first."""
        distance = sign * self.distance[s]
        order = np.argsort(-distance, kind="stable").tolist()
        return [k for k in order if distance[k] > STANDS_OUT and k not in left_out]


def numbers_of(
    prior: MixturePrior, tasks: Statistics, names: tuple[str, ...], n_kinds: int
) -> Numbers:
    """Of the first components of a prior, for arms or features of these names."""
    family = prior.family.select(np.arange(n_kinds))
    weights = prior.weights[:n_kinds] / prior.weights[:n_kinds].sum()
    mean, (low, high) = _means(family), _ranges(family)
    names = tuple(_shown(name) for name in names)
    if len(names) != mean.shape[1]:
        raise ParameterError(f"expected a name for each of {mean.shape[1]}, got {len(names)}")
    one = family.collapse(weights)
    deviation = np.sqrt(_variances(one)[0])
    scale = np.ones(len(names))
    if isinstance(tasks, LinearStatistics):
        squares = (tasks.array("factor")[:, :-1, :-1] ** 2).sum(axis=(0, 1))
        scale = np.sqrt(squares / max(int(tasks.array("count").sum()), 1))
    largest = np.abs(mean).max(axis=0)
    typical = float(np.median(largest[largest > 0])) if mean.any() else 1.0
    digits = int(np.clip(1 - np.floor(np.log10(typical)), 0, 6))
    return Numbers(names, mean, low, high, _means(one)[0], deviation, scale, digits)


def _shown(name: str) -> str:
    """A name that can stand between backticks, in a line."""
    text = " ".join(name.replace("`", "'").split())
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."


def _means(family: Family) -> Float[Array, "L K"]:
    if isinstance(family, BernoulliArms):
        return family.alpha / (family.alpha + family.beta)
    if isinstance(family, PoissonArms):
        return family.shape / family.rate
    if isinstance(family, (GaussianArms, LinearGaussian)):
        return family.mean
    raise ParameterError(f"a page tells of arms and of features, got {family!r}")


def _variances(family: Family) -> Float[Array, "L K"]:
    if isinstance(family, BernoulliArms):
        mean, total = _means(family), family.alpha + family.beta
        return np.asarray(mean * (1 - mean) / (total + 1))
    if isinstance(family, PoissonArms):
        return np.asarray(family.shape / family.rate**2)
    if isinstance(family, GaussianArms):
        return family.variance
    assert isinstance(family, LinearGaussian)
    return np.diagonal(family.full_covariances(), axis1=1, axis2=2)


def _ranges(family: Family) -> tuple[Float[Array, "L K"], Float[Array, "L K"]]:
    """Between which numbers the middle 80 % of a kind's tasks are."""
    tail = (1 - _INNER) / 2
    if isinstance(family, BernoulliArms):
        low, high = (special.betaincinv(family.alpha, family.beta, p) for p in (tail, 1 - tail))
    elif isinstance(family, PoissonArms):
        low, high = (special.gammaincinv(family.shape, p) / family.rate for p in (tail, 1 - tail))
    else:
        half = -float(special.ndtri(tail)) * np.sqrt(_variances(family))
        low, high = _means(family) - half, _means(family) + half
    return np.asarray(low), np.asarray(high)
