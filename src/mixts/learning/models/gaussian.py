"""Gaussian arms: how their prior is learned, from posterior moments, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from mixts import _program
from mixts._numbers import LOG_2PI
from mixts._typing import Array, Float, Int
from mixts.families import Family, GaussianArms, GaussianStatistics, Statistics
from mixts.learning.models.base import MomentModel, positive
from mixts.learning.models.predictive import ArmPredictive, Prediction, chi_squared, noise_part
from mixts.learning.two_stage import Group
from mixts.prior import MixturePrior

ALIKE = 2.0
"""Number of pseudo-tasks whose arms vary as in all components; see the linear model with d = 1."""


BLOCK = 1 << 19
"""Entries computed at a time: tasks times components times arms."""


class ArmSums(NamedTuple):
    """Sums over tasks that tried an arm, weighted by shares."""

    tasks: Float[Array, "L K"]
    """Sums of 1."""
    sharp: Float[Array, "L K"]
    """Sums of the sharpness u of a task, which is 1 if the noise is known."""
    first: Float[Array, "L K"]
    """Sums of u (mu - m_s), for the posterior mean mu."""
    second: Float[Array, "L K"]
    """Sums of u (mu - m_s)^2 plus the posterior variance."""


class GaussianSums(NamedTuple):
    """Sums over tasks of which the M step makes components and their noise."""

    misfit: float
    """Sum of E(reward - theta)^2 over all rewards."""
    n_rewards: int
    """Number of rewards."""
    arms: ArmSums


def arm_evidence(
    count: Int[Array, "n K"],
    average: Float[Array, "n K"],
    mean: Float[Array, "L K"],
    variance: Float[Array, "L K"],
    noise: float,
) -> tuple[Float[Array, "n L"], Float[Array, "n L"]]:
    """Sum ln(1 + n v / sigma^2) and n (average - m)^2 / (sigma^2 + n v) over the arms."""
    logs, squares = np.zeros((2, len(count), len(mean)))
    if _program.core is not None:
        _program.core.arm_evidence(count, average, mean, variance, noise, logs, squares)
        return logs, squares
    for block in _blocks(len(count), mean.size):
        n, gap = count[block, None], average[block, None] - mean
        logs[block] = np.log1p(n * variance / noise).sum(axis=2)
        squares[block] = (n * gap**2 / (noise + n * variance)).sum(axis=2)
    return logs, squares


def arm_moments(
    count: Int[Array, "n K"],
    average: Float[Array, "n K"],
    share: Float[Array, "n L"],
    sharp: Float[Array, "n L"],
    mean: Float[Array, "L K"],
    variance: Float[Array, "L K"],
    noise: float,
) -> tuple[float, ArmSums]:
    """Sum E[n (average - theta)^2] and posterior moments over the tasks.

    ``sharp`` are shares times the tasks' sharpness; with known noise, the shares.
    """
    sums = ArmSums(*np.zeros((4, *mean.shape)))
    if _program.core is not None:
        misfit = _program.core.arm_moments(
            count, average, share, sharp, mean, variance, noise, *sums
        )
        return misfit, sums
    misfit = 0.0
    for block in _blocks(len(count), mean.size):
        n, gap = count[block, None], average[block, None] - mean
        r, u, tried = share[block, :, None], sharp[block, :, None], count[block, None] > 0
        step = n * variance / (noise + n * variance) * gap
        rest = variance * noise / (noise + n * variance)
        sums.tasks[...] += (r * tried).sum(axis=0)
        sums.sharp[...] += (u * tried).sum(axis=0)
        sums.first[...] += (u * step).sum(axis=0)
        sums.second[...] += (u * step**2 + r * rest * tried).sum(axis=0)
        misfit += float((r * n * ((gap - step) ** 2 + rest)).sum())
    return misfit, sums


def _blocks(n: int, size: int) -> Iterator[slice]:
    """Yield blocks of n tasks, each with as many numbers as ``size``."""
    step = max(1, BLOCK // size)
    for start in range(0, n, step):
        yield slice(start, start + step)


class GaussianModel(MomentModel):
    """Tasks with Gaussian rewards; the noise is learned unless it is given.

    Only tasks that tried an arm count for it, so that rarely tried arms are learned as fast as
    others.
    """

    statistics_type: ClassVar[type[Statistics]] = GaussianStatistics
    options: ClassVar[tuple[str, ...]] = ("noise_std",)
    statistics: GaussianStatistics
    centre: GaussianArms

    def __init__(self, statistics: GaussianStatistics, noise_std: float | None = None) -> None:
        self.noise_is_given = noise_std is not None
        self._noise = typical_noise(statistics) if noise_std is None else noise_std
        super().__init__(statistics)

    def _prepare(self) -> None:
        self._count: Array = self.statistics.array("count")
        self._average: Array = self.statistics.array("average")
        self._squares: Array = self.statistics.array("squares")

    @property
    def alike(self) -> float:
        """Number of pseudo-tasks that vary as all components do; none in a refit."""
        return 0.0 if self.continues else ALIKE

    def after(self, prior: MixturePrior, pseudo: Array, pseudo_weights: Array) -> Self:
        other = super().after(prior, pseudo, pseudo_weights)
        other._noise = other.centre.noise_std
        return other

    def _broad(self) -> GaussianArms:
        """Return a component around the mean of all rewards, as wide as the arms' averages."""
        n = max(int(self._count.sum()), 1)
        mean = float((self._count * self._average).sum() / n)
        between = float((self._count * (self._average - mean) ** 2).sum() / n)
        shape = (1, self._count.shape[1])
        variance = max(between, self._noise**2 / n)
        return GaussianArms(np.full(shape, mean), np.full(shape, variance), self._noise)

    def log_evidence(self, family: GaussianArms) -> Float[Array, "n L"]:  # type: ignore[override]
        logs, squares = arm_evidence(
            self._count, self._average, family.mean, family.variance, family.noise_std**2
        )
        return family.evidence_constant(self.statistics)[:, None] - (logs + squares) / 2

    def log_hyperprior(self, family: GaussianArms) -> float:  # type: ignore[override]
        about = self.centre.variance + (family.mean - self.centre.mean) ** 2
        logs = np.log(family.variance)
        value = -(self.pseudo * (logs + about / family.variance)).sum() / 2
        joint = len(logs) * np.log((1 / family.variance).mean(axis=0)).sum()
        value -= self.alike / 2 * (logs.sum() + joint)
        if not self.noise_is_given:
            ratio = self._noise**2 / family.noise_std**2
            value -= np.sum(self.pseudo_weights) / 2 * (ratio - np.log(ratio))
        return float(value)

    def sums(self, family: GaussianArms, share: Array) -> GaussianSums:  # type: ignore[override]
        misfit, arms = arm_moments(
            self._count, self._average, share, share, family.mean, family.variance,
            family.noise_std**2,
        )  # fmt: skip
        return GaussianSums(misfit + float(self._squares.sum()), int(self._count.sum()), arms)

    def improved(self, family: GaussianArms, sums: GaussianSums) -> GaussianArms:  # type: ignore[override]
        tasks, _, first, second = sums.arms
        start = self.centre.mean - family.mean
        step = (first + self.pseudo * start) / (tasks + self.pseudo)
        scatter = second - 2 * first * step + tasks * step**2
        scatter += self.pseudo * (self.centre.variance + (start - step) ** 2)
        shared = 1 / (1 / family.variance).mean(axis=0)
        variance = (scatter + self.alike * shared) / (tasks + self.pseudo + self.alike)
        noise = family.noise_std
        if not self.noise_is_given:
            pseudo = np.sum(self.pseudo_weights)  # each pseudo-task was observed at least once
            total = sums.misfit + pseudo * self._noise**2
            noise = float(np.sqrt(total / (sums.n_rewards + pseudo)))
        return GaussianArms(family.mean + step, variance, noise)

    def pack(self, family: GaussianArms) -> Float[Array, " p"]:  # type: ignore[override]
        noise = [] if self.noise_is_given else [np.log(family.noise_std)]
        return np.concatenate([family.mean.ravel(), np.log(family.variance).ravel(), noise])

    def unpack(self, numbers: Array, n_components: int) -> GaussianArms | None:
        shape = (n_components, self._count.shape[1])
        size = shape[0] * shape[1]
        variance = positive(numbers[size : 2 * size])
        noise = np.full(1, self._noise) if self.noise_is_given else positive(numbers[-1:])
        if variance is None or noise is None or not np.isfinite(numbers).all():
            return None
        return GaussianArms(numbers[:size].reshape(shape), variance.reshape(shape), float(noise[0]))

    def estimates(self, family: GaussianArms) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return posterior means minus the component's mean."""
        known = self._count * family.variance[0]
        trust = known / (known + family.noise_std**2)
        return np.asarray(trust * (self._average - family.mean[0]))

    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> GaussianArms:
        prior = self.centre if pooled is None else pooled
        assert isinstance(prior, GaussianArms)
        noise = prior.noise_std**2
        found = [Group.of(self._average, self._count, groups == g) for g in range(n_groups)]
        seen = np.stack([group.seen for group in found])
        mean = np.stack([group.mean for group in found])
        variance = np.stack([group.variance(np.asarray(noise)) for group in found])
        # The variance of an arm is at least that of its average.
        variance = np.where(np.isnan(variance), prior.variance, variance)
        variance = np.maximum(variance, noise / np.maximum(seen, 1))
        return GaussianArms(
            np.where(seen > 0, mean, prior.mean),
            np.where(seen > 0, variance, prior.variance),
            prior.noise_std,
        )

    def n_parameters(self, n_components: int) -> int:
        noise = 0 if self.noise_is_given else 1
        return n_components * (2 * self._count.shape[1] + 1) - 1 + noise


def typical_noise(statistics: GaussianStatistics) -> float:
    """Estimate the standard deviation of rewards around the average of their arm and task.

    If no task tried an arm twice, half of the variance of all rewards counts as noise.
    """
    count, squares = statistics.array("count"), statistics.array("squares")
    spare = np.maximum(count - 1, 0).sum()
    n = max(int(count.sum()), 1)
    mean = (count * statistics.array("average")).sum() / n
    whole = (squares.sum() + (count * (statistics.array("average") - mean) ** 2).sum()) / n
    # Equal rewards have no variance: use their size instead.
    size = np.sqrt(whole or mean**2)
    noise = np.sqrt(squares.sum() / spare) if spare else np.sqrt(0.5) * size
    # Noise of zero would mean a division by zero.
    return float(max(noise, 1e-3 * size)) or 1.0


class GaussianPredictive(ArmPredictive):
    """Predictions of normal averages; the deviations from them are chi-squared noise."""

    family_type: ClassVar[type[Family]] = GaussianArms

    def parts(self) -> Iterator[Prediction]:
        yield from super().parts()
        family = self.family
        spare = np.maximum(self.pulls - 1, 0).sum(axis=1)
        squares = self.statistics.array("squares").sum(axis=1)
        yield noise_part(spare, squares / family.noise_std**2)

    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        family = self.family
        noise = family.noise_std**2 / self.pulls[tasks, arm, None]
        variance = family.variance[:, arm] + noise
        gap = self.statistics.array("average")[tasks, arm, None] - family.mean[:, arm]
        score = gap / np.sqrt(variance)
        log = -0.5 * (LOG_2PI + np.log(variance) + score**2)
        return log, special.ndtr(score), np.zeros_like(log)

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        return np.zeros(len(statistics))

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        family = self.family
        return draw_rewards(rng, pulls, means, np.asarray(family.noise_std))


def draw_rewards(
    rng: np.random.Generator, pulls: Array, means: Array, sigma: Array
) -> GaussianStatistics:
    """Draw the statistics of arms with these numbers of pulls, mean rewards and noise."""
    n, tried = np.maximum(pulls, 1), pulls > 0
    average = means + sigma / np.sqrt(n) * rng.standard_normal(means.shape)
    squares = sigma**2 * chi_squared(rng, n - 1)
    return GaussianStatistics(count=pulls, average=average * tried, squares=squares * tried)
