"""Gaussian arms: rewards with known Gaussian noise, a Gaussian prior on each arm's mean."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._numbers import LARGEST
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.families.arms import ArmFamily, ArmStatistics, count_moments, merge_moments
from mixts.families.linear import LinearGaussian
from mixts.families.marginals import NormalMarginal
from mixts.families.statistics import Statistics, stored


class GaussianStatistics(ArmStatistics):
    """Count, average and sum of squared deviations of each arm, (tasks, arms).

    Histories merge by Chan's formula, see ``arms.merge_moments``.
    """

    kind: ClassVar[str] = "gaussian-arms"
    fields: ClassVar[dict[str, Any]] = {"count": np.int64, "average": float, "squares": float}
    support: ClassVar[str] = f"numbers between -{LARGEST:g} and {LARGEST:g}"
    core_count: ClassVar[str] = "count_gaussian"

    count = stored("count", "Number of observations of each arm.")
    average = stored("average", "Average reward of each arm; 0 without observations.")
    squares = stored("squares", "Sum of squared deviations from the average, M2.")

    def accepts(self, rewards: Float[Array, " m"]) -> Bool[Array, " m"]:
        return np.asarray(np.abs(rewards) <= LARGEST)

    def count_rewards(self, at: tuple[Array, Array], rewards: Float[Array, " m"]) -> None:
        count_moments(self.stored, at, rewards)

    def _merge(self, other: Self) -> dict[str, Array]:
        return dict(zip(self.fields, merge_moments(self.stored, other.stored), strict=True))


class GaussianArms(ArmFamily):
    """Family of K arms with Gaussian rewards and normal priors on their means, for L components.

    A reward is N(mean of the arm, sigma^2), and the mean of an arm is N(m, v): sigma is
    ``noise_std``, m is ``mean`` and v is ``variance``. Components are conjugate  [paper: Sec. 3].
    With n rewards of average y and sum of squared deviations M2, these are for an arm:

    *Log evidence*; ``evidence_constant`` has the first line, which all components share::

        -n/2 ln(2 pi sigma^2) - M2 / (2 sigma^2)
        - ln(1 + n v / sigma^2) / 2 - n (y - m)^2 / (2 (sigma^2 + n v))

    *Posterior of the mean reward*: normal with this mean and variance::

        m + n v (y - m) / (sigma^2 + n v)
        v sigma^2 / (sigma^2 + n v)

    Parameters
    ----------
    mean
        Prior mean of each arm's mean reward under each component, (L, K).
    variance
        Prior variance, (L, K); 0 for an arm that the component knows exactly.
    noise_std
        Standard deviation of the rewards around the arm's mean, above 0.

    Examples
    --------
    >>> import mixts
    >>> variance = [[0.1, 0.1], [0.1, 0.1]]
    >>> family = mixts.GaussianArms([[1.0, 0.0], [0.0, 1.0]], variance, noise_std=0.5)
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([0, 1], [0.9, 0.2])
    >>> belief.weights.round(3)
    array([0.881, 0.119])
    >>> belief.mean_rewards().round(3)
    array([0.886, 0.142])
    """

    kind: ClassVar[str] = "gaussian-arms"
    array_names: ClassVar[tuple[str, ...]] = ("mean", "variance")
    statistics_type: ClassVar[type[ArmStatistics]] = GaussianStatistics
    core_class: ClassVar[str] = "GaussianArms"

    def __init__(self, mean: ArrayLike, variance: ArrayLike, noise_std: float) -> None:
        self.mean: Float[Array, "L K"] = _checks.parameter_array(mean, "mean", 2)
        self.variance: Float[Array, "L K"] = _checks.parameter_array(
            variance, "variance", 2, _checks.LARGEST_PARAMETER**2
        )
        _checks.same_shape(self.mean, self.variance, "mean and variance")
        _checks.positive(self.variance, "variance", zero=True)
        self.noise_std: float = _checks.positive_number(noise_std, "noise_std")

    @property
    def core_parameters(self) -> tuple[tuple[Array, ...], tuple[Any, ...]]:
        return (self.mean, self.variance), (self.noise_std**2,)

    def relative_evidence(self, statistics: GaussianStatistics) -> Float[Array, "n L"]:
        """Return the log evidence without the terms of n and M2 alone."""
        n, average = (statistics.array(name)[:, None] for name in ("count", "average"))
        noise, v = self.noise_std**2, self.variance
        each = np.log1p(n * v / noise) + n * (average - self.mean) ** 2 / (noise + n * v)
        return np.asarray(-0.5 * each.sum(axis=2))

    def posterior_parameters(
        self, statistics: GaussianStatistics, tasks: Int[Array, "..."], latent: Int[Array, "..."]
    ) -> Float[Array, "2 ... K"]:
        """Return each arm's posterior mean and variance."""
        count, average, _ = statistics.stored
        m, v, noise = self.mean[latent], self.variance[latent], self.noise_std**2
        weight = count[tasks] * v
        total = noise + weight
        return np.stack([m + weight * (average[tasks] - m) / total, v * noise / total])

    def settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std}

    def learning_settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std}

    def to_linear(self) -> LinearGaussian:
        """Return the same prior with unit vectors as features.

        Its ``collapse`` keeps the correlation between arms.
        """
        return LinearGaussian(self.mean, self.variance, self.noise_std, covariance_type="diag")

    def marginal(self, parameters: Float[Array, "2 ... K"]) -> NormalMarginal:
        return NormalMarginal(parameters, self.noise_std**2)

    def evidence_constant(self, statistics: Statistics) -> Float[Array, " n"]:
        noise = self.noise_std**2
        count = statistics.array("count").sum(axis=1)
        squares = statistics.array("squares").sum(axis=1)
        return np.asarray(-0.5 * (count * np.log(2 * np.pi * noise) + squares / noise))

    @classmethod
    def match(cls, mean: Array, variance: Array, settings: dict[str, Any]) -> Self:
        return cls(mean, variance, **settings)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return means + self.noise_std * rng.standard_normal(means.shape)
