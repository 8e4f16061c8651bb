"""Student arms: Gaussian rewards whose noise differs between tasks, and is unknown."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.families.arms import ArmFamily, ArmPosterior, ArmStatistics
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
from mixts.families.special import whole_evidence


class StudentPosterior(ArmPosterior):
    """Posteriors of Student arms; parameters are mean rewards and sigma."""

    rewards_type: ClassVar[Any] = StudentArmRewards

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


class StudentArms(NoisyTasks, ArmFamily):
    """Family of K arms with Gaussian rewards whose noise is unknown, for L components.

    A reward is N(mean of the arm, sigma^2). A task has one noise sigma, which all its arms share.
    sigma^2 is inverse gamma with shape ``degrees / 2`` and scale ``degrees noise_std^2 / 2``.
    ``noise_std`` is a typical value; this prior counts as much as ``degrees`` rewards. Given sigma,
    the mean of an arm is N(mean, (sigma / noise_std)^2 variance), and arms are independent. With
    many degrees this is :class:`GaussianArms`.

    Components are conjugate  [paper: Sec. 3]. Let nu be ``degrees``, u ``degrees noise_std^2``, and
    m_k and r_k ``mean`` and ``variance / noise_std^2`` of arm k. With n_k rewards of average y_k
    and squared deviations M_k, n in all, these are for a task:

    *Log evidence*::

        ln Gamma((nu + n) / 2) - ln Gamma(nu / 2) - n/2 ln(pi u)
        - sum_k ln(1 + n_k r_k) / 2 - (nu + n) / 2 ln(1 + S / u)

        S = sum_k [M_k + n_k (y_k - m_k)^2 / (1 + n_k r_k)]

    *Posterior*: sigma^2 is inverse gamma with shape (nu + n) / 2 and scale (u + S) / 2. Given
    sigma, the mean of arm k is normal with this mean and variance::

        m_k + n_k r_k (y_k - m_k) / (1 + n_k r_k)
        sigma^2 r_k / (1 + n_k r_k)

    *Mean reward of arm k*, without sigma: Student with nu + n degrees of freedom, this mean, and
    the variance ``(u + S) / (nu + n - 2) r_k / (1 + n_k r_k)``, see ``noise.StudentMarginal``.

    The statistics are n_k, y_k and M_k, as for Gaussian arms. Histories merge by Chan's formula
    (``arms.merge_moments``).

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
    core_class: ClassVar[str] = "StudentArms"

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
        self.ratio: Float[Array, "L K"] = self.variance / self.noise_std[:, None] ** 2
        """Prior variances of the means in units of the noise variance, r."""

    @property
    def task_bytes(self) -> int:
        return 16 * self.n_components

    def __repr__(self) -> str:
        return (
            f"StudentArms({self.n_components} components, {self.n_arms} arms, "
            f"noise_std {shown(self.noise_std)}, degrees {shown(self.degrees)})"
        )

    # -- the posterior ----------------------------------------------------------------------------

    @property
    def core_parameters(self) -> tuple[tuple[Array, ...], tuple[Any, ...]]:
        return (self.mean, self.ratio), self.noise_prior

    def misfit(self, statistics: GaussianStatistics) -> Float[Array, "n L"]:
        """Return S, the squared misfit of each task's rewards for sigma = 1.

        Parameters
        ----------
        statistics
            Statistics of n tasks.

        Returns
        -------
        array
            Squared misfits, (n, L).
        """
        n, average, squares = (array[:, None] for array in statistics.stored)
        each = squares + n * (average - self.mean) ** 2 / (1 + n * self.ratio)
        return np.asarray(each.sum(axis=2))

    def relative_evidence(self, statistics: GaussianStatistics) -> Float[Array, "n L"]:
        """Return the log evidence, see the class, with all its terms."""
        count = statistics.array("count")
        determinant = np.log1p(count[:, None] * self.ratio).sum(axis=2)
        n, misfit = count.sum(axis=1)[:, None], self.misfit(statistics)
        return np.asarray(whole_evidence(*self.noise_prior, n, misfit) - 0.5 * determinant)

    def posterior_parameters(
        self, statistics: GaussianStatistics, tasks: Int[Array, "..."], latent: Int[Array, "..."]
    ) -> Float[Array, "4 ... K"]:
        """Return location, spread r / (1 + n r), freedom nu + n and unit u + S of every arm."""
        n, average, squares = (array[tasks] for array in statistics.stored)
        mean, ratio = self.mean[latent], self.ratio[latent]
        degrees, unit = (parameter[latent] for parameter in self.noise_prior)
        gap, wide = average - mean, 1 + n * ratio
        freedom = degrees + n.sum(axis=-1)
        unit = unit + (squares + n * gap * gap / wide).sum(axis=-1)
        location, noise = mean + n * ratio * gap / wide, (freedom[..., None], unit[..., None])
        return np.stack(np.broadcast_arrays(location, ratio / wide, *noise))

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
