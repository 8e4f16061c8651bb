"""Student arms: Gaussian rewards whose noise differs between tasks, and is unknown."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.families._kernels.arms import evidence_student, observe_student
from mixts.families.arms import ArmFamily, ArmPosterior, ArmStatistics, Arrays, by_arm
from mixts.families.base import Posterior
from mixts.families.gaussian import GaussianStatistics
from mixts.families.noise import (
    NoisyTasks,
    StudentArmRewards,
    StudentMarginal,
    noise_moments,
    noise_parameters,
    noise_quantile,
    pooled_noise,
    shown,
)


def gather_student(tasks: Array, latent: Array, counts: Arrays, prior: Arrays, out: Array) -> None:
    """Write location, spread, freedom and unit of every arm for pairs of task and component."""
    count, average, squares = (array[tasks] for array in counts)
    mean, ratio = (parameter.T[latent] for parameter in prior[:2])
    degrees, units = (parameter[latent] for parameter in prior[2:])
    gap, wide = average - mean, 1.0 + count * ratio
    out[0], out[1] = mean + count * ratio * gap / wide, ratio / wide
    out[2] = (degrees + count.sum(axis=1))[:, None]
    out[3] = (units + (squares + count * gap * gap / wide).sum(axis=1))[:, None]


class StudentPosterior(ArmPosterior):
    """Posteriors of Student arms; parameters are mean rewards and sigma."""

    rewards_type: ClassVar[Any] = StudentArmRewards

    @cached_property
    def _misfit(self) -> Float[Array, "n L"]:
        """Squared misfit of each task's rewards, in units of the noise."""
        return np.zeros((len(self.statistics), self.prior.n_components))

    def _sums(self) -> Any:
        return self._evidence, self._misfit

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw sigma, then the mean rewards given sigma, of the component of each task."""
        means, sigma = self.prior.marginals(self.statistics, tasks, latent).sample_both(rng)
        return np.concatenate([means, sigma[:, None]], axis=1)

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return the means of mean rewards and sigma given history and component."""
        found = self._marginals(tasks)
        sigma, _ = noise_moments(found.freedom[..., :1], found.unit[..., :1])
        return np.concatenate([found.mean(), sigma], axis=2)

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return the covariance of mean rewards and sigma: arms are uncorrelated."""
        found = self._marginals(tasks)
        _, square = noise_moments(found.freedom[..., :1], found.unit[..., :1])
        variance = np.concatenate([found.variance(), square], axis=2)
        return variance[..., None] * np.eye(variance.shape[2])

    def add_tasks(self, n: int) -> None:
        """Append tasks without observations."""
        self._misfit = np.pad(self._misfit, ((0, n), (0, 0)))
        super().add_tasks(n)


class StudentArms(NoisyTasks, ArmFamily):
    """Family of K arms with Gaussian rewards whose noise is unknown, for L components.

    A reward is N(mean of the arm, sigma^2). A task has one noise sigma, which all its arms share.
    sigma^2 is inverse gamma with shape ``degrees / 2`` and scale ``degrees noise_std^2 / 2``:
    ``noise_std`` is typical, and it is worth ``degrees`` rewards. Given sigma, the mean of an arm
    is N(mean, (sigma / noise_std)^2 variance), and arms are independent. With many degrees this
    is :class:`GaussianArms`.

    With n_k rewards of average y_k and squared deviations M_k of arm k, n in all, the log evidence
    is ``ln Gamma((v + n) / 2) - ln Gamma(v / 2) - n/2 ln(pi u) - sum_k ln(1 + n_k r_k) / 2 -
    (v + n) / 2 ln(1 + S / u)``, where v is ``degrees``, u is ``degrees noise_std^2``, r_k is
    ``variance / noise_std^2`` of the arm, and S is ``sum_k M_k + n_k (y_k - m_k)^2 / (1 + n_k
    r_k)``.

    The parameters of a task are the mean rewards of the arms, then sigma.

    Parameters
    ----------
    mean
        Prior mean of each arm's mean reward under each component, (L, K).
    variance
        Squared scale of each arm's mean reward, (L, K); 0 for an arm that the component knows
        exactly. Its variance is ``degrees / (degrees - 2)`` times as large.
    noise_std
        Typical noise: a number, or one for each component. 1 / noise_std^2 is the mean of
        1 / sigma^2.
    degrees
        Degrees of freedom, above 2: a number, or one for each component. The standard deviation of
        ln sigma is about ``1 / sqrt(2 degrees)``.

    Examples
    --------
    >>> import mixts
    >>> variance = [[0.1, 0.1], [0.1, 0.1]]
    >>> family = mixts.StudentArms([[1.0, 0.0], [0.0, 1.0]], variance, noise_std=0.5, degrees=6)
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([0, 1], [0.9, 0.2])
    >>> belief.weights.round(3)
    array([0.881, 0.119])
    """

    kind: ClassVar[str] = "student-arms"
    array_names: ClassVar[tuple[str, ...]] = ("mean", "variance", "noise_std", "degrees")
    statistics_type: ClassVar[type[ArmStatistics]] = GaussianStatistics
    posterior_type: ClassVar[type[Posterior]] = StudentPosterior
    arm_parameters: ClassVar[int] = 4
    gather_loop = staticmethod(gather_student)
    observe_loop = staticmethod(observe_student)
    evidence_loop = staticmethod(evidence_student)

    def __init__(
        self, mean: ArrayLike, variance: ArrayLike, noise_std: ArrayLike, degrees: ArrayLike
    ) -> None:
        self.mean: Float[Array, "L K"] = _checks.parameter_array(mean, "mean", 2)
        self.variance: Float[Array, "L K"] = _checks.parameter_array(
            variance, "variance", 2, _checks.LARGEST_PARAMETER**2
        )
        _checks.same_shape(self.mean, self.variance, "mean and variance")
        _checks.positive(self.variance, "variance", zero=True)
        self.noise_std: Float[Array, " L"]  # type: ignore[assignment]
        self.noise_std, self.degrees = noise_parameters(noise_std, degrees, len(self.mean))
        self.noise_prior = self.degrees, self.degrees * self.noise_std**2
        ratio = self.variance / self.noise_std[:, None] ** 2
        self._loop = (by_arm(self.mean), by_arm(ratio), *(np.array(x) for x in self.noise_prior))

    @property
    def task_bytes(self) -> int:
        return 16 * self.n_components

    def __repr__(self) -> str:
        return (
            f"StudentArms({self.n_components} components, {self.n_arms} arms, "
            f"noise_std {shown(self.noise_std)}, degrees {shown(self.degrees)})"
        )

    def marginal(self, parameters: Float[Array, "4 ... K"]) -> StudentMarginal:
        return StudentMarginal(parameters)

    # -- moments ----------------------------------------------------------------------------------

    def parameter_means(self) -> Float[Array, "L p"]:
        """Return the prior means of mean rewards and sigma under each component."""
        return np.column_stack([self.mean, noise_moments(*self.noise_prior)[0]])

    def parameter_variances(self) -> Float[Array, "L p"]:
        """Return the prior variances of mean rewards and sigma."""
        return np.column_stack([self._prior().variance(), noise_moments(*self.noise_prior)[1]])

    def parameter_quantiles(self, probability: float) -> Float[Array, "L p"]:
        """Return a prior quantile of mean rewards and sigma."""
        sigma = noise_quantile(*self.noise_prior, probability)
        return np.column_stack([self._prior().quantile(probability), sigma])

    def collapse(self, weights: Float[Array, " L"]) -> Self:
        """Keep each arm's marginal mean and variance; the correlation between arms is lost.

        The noise has the mixture's means of 1 / sigma^2 and ln sigma^2, with at least 2.1 degrees
        of freedom.
        """
        prior, w = self._prior(), weights[:, None]
        mean = (w * prior.mean()).sum(axis=0, keepdims=True)
        square = prior.variance() + (prior.mean() - mean) ** 2
        noise_std, degrees = pooled_noise(self.noise_std, self.degrees, weights)
        settings = {"noise_std": noise_std, "degrees": degrees}
        return self.match(mean, (w * square).sum(axis=0, keepdims=True), settings)

    def broaden(self, weights: Float[Array, " L"], factor: float) -> Self:
        """Return the mixture's means with ``factor`` times its variances, and its noise."""
        one = self.collapse(weights)
        return type(self)(one.mean, factor * one.variance, one.noise_std, one.degrees)

    @classmethod
    def match(cls, mean: Array, variance: Array, settings: dict[str, Any]) -> Self:
        """Return arms with these moments and the noise of the settings."""
        degrees = np.asarray(settings["degrees"], float)
        return cls(mean, variance * (1 - 2 / degrees[..., None]), settings["noise_std"], degrees)

    def like(self, mean: Float[Array, "L k"], variance: Float[Array, "L k"]) -> Self:
        """Return arms with these moments and the noise of these components."""
        return self.match(mean, variance, {"noise_std": self.noise_std, "degrees": self.degrees})

    @classmethod
    def from_parameters(cls, parameters: Float[Array, "4 L K"], settings: dict[str, Any]) -> Self:
        location, spread, freedom, unit = parameters
        noise = unit / freedom
        return cls(location, spread * noise, np.sqrt(noise[:, 0]), freedom[:, 0])

    # -- acting and simulating --------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw mean rewards and sigma from the prior of each given component."""
        found = self.prior_marginal(latent)
        assert isinstance(found, StudentMarginal)
        return np.column_stack(found.sample_both(rng))

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return the first K parameters."""
        return np.asarray(parameters[..., : self.n_arms])
