"""Linear rewards with unknown noise: theta is Gaussian given the noise variance of the task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts._typing import Array, ArrayLike, Float, Int
from mixts.families._linear_rewards import ProductRewards
from mixts.families.base import Family, Posterior
from mixts.families.coefficients import CovarianceType, Roots, group_roots
from mixts.families.linear import LinearFamily, LinearPosterior
from mixts.families.noise import (
    NoisyTasks,
    StudentMarginal,
    StudentRewards,
    draw_noise,
    noise_moments,
    noise_parameters,
    noise_quantile,
    pooled_noise,
    shown,
)
from mixts.families.rewards import RewardBelief
from mixts.families.special import whole_evidence
from mixts.families.statistics import Statistics


class LinearStudentPosterior(LinearPosterior):
    """Posteriors with unknown noise: means and relative roots do not depend on it.

    ``solve`` runs with sigma = 1 and C C' = covariance / noise_std^2. Given the history, sigma^2 of
    a component is inverse gamma with shape ``freedom / 2`` and scale ``unit / 2``, where
    ``freedom = degrees + n`` and ``unit = degrees noise_std^2 + misfit``.
    """

    prior: LinearStudent

    def noise_posterior(self, tasks: Array, latent: Array) -> tuple[Array, Array]:
        """Return freedom and unit of the noise for tasks and components, which broadcast."""
        degrees, unit = self.prior.noise_prior
        freedom = degrees[latent] + self.statistics.array("count")[tasks]
        return freedom, unit[latent] + self.misfit(tasks, latent)

    def _all_noise(self, tasks: Int[Array, " m"]) -> tuple[Array, Array]:
        return self.noise_posterior(tasks[:, None], np.arange(self.prior.n_components))

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw sigma, then theta given sigma, of the component of each task.

        ``unit / sigma^2`` is chi-squared with ``freedom`` degrees, and theta is
        ``mean + sigma root x`` with x standard normal.
        """
        sigma = draw_noise(rng, *self.noise_posterior(tasks, latent))
        x = sigma[:, None] * rng.standard_normal((len(tasks), self.prior.n_features))
        return np.column_stack([self._place(tasks, latent, x), sigma])

    def _draw_steps(
        self, rng: np.random.Generator, task: int, s: int, n: int
    ) -> Float[Array, "n d"]:
        """Draw n vectors x, each times its own noise."""
        sigma = draw_noise(rng, *self.noise_posterior(np.full(n, task), np.full(n, s)))
        return sigma[:, None] * rng.standard_normal((n, self.prior.n_features))

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return the means of theta and sigma given history and component."""
        sigma, _ = noise_moments(*self._all_noise(tasks))
        return np.concatenate([self._means(tasks), sigma[..., None]], axis=2)

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return the covariance of theta and sigma, which are uncorrelated."""
        n, d = self.prior.n_components, self.prior.n_features
        freedom, unit = self._all_noise(tasks)
        own = super().component_covariances(tasks)
        covariances = np.zeros((len(tasks), n, d + 1, d + 1))
        covariances[..., :d, :d] = own * (unit / (freedom - 2))[..., None, None]
        covariances[..., d, d] = noise_moments(freedom, unit)[1]
        return covariances

    def family(self, task: int) -> LinearStudent:
        """Return the posterior of one task as a prior."""
        mean, root = (part[0] for part in self._every(np.array([task])))
        freedom, unit = self._all_noise(np.array([task]))
        noise = unit[0] / freedom[0]
        covariance = root @ np.swapaxes(root, 1, 2)
        covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2 * noise[:, None, None]
        return LinearStudent(mean, covariance, np.sqrt(noise), freedom[0])

    def _rewards(
        self, tasks: Int[Array, " m"], weights: Float[Array, "m L"], actions: Array
    ) -> RewardBelief:
        return LinearStudentRewards(self, tasks, weights, actions)

    def _expect(
        self, statistics: Statistics, tasks: Int[Array, " w"], observed: tuple[Array, ...]
    ) -> None:
        """Count expected rewards for theta, but not for the noise: they do not scatter."""
        before = statistics.array("count").copy()
        statistics.observe(tasks, observed)
        statistics.array("count")[:] = before


@dataclass(frozen=True)
class LinearStudentRewards(ProductRewards, StudentRewards):
    """Mean rewards a'theta with unknown noise."""

    posterior: LinearStudentPosterior

    @cached_property
    def marginal(self) -> StudentMarginal:
        """Student distributions with ``freedom`` degrees and location a'mean.

        The squared scale is ``|root'a|^2 unit / freedom``.
        """
        moments = self.posterior.action_moments(self.tasks, self.actions)
        noise = self.posterior._all_noise(self.tasks)
        shape = moments.shape[1:]
        both = [np.broadcast_to(part[..., None], shape) for part in noise]
        return StudentMarginal(np.stack([*moments, *both]))

    def draw_both(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> tuple[Float[Array, "n K"], Float[Array, " n"]]:
        parameters = self.posterior.sample(rng, self.tasks[rows], latent)
        return self._means_of(parameters, rows), parameters[:, -1]

    def placed(
        self, rng: np.random.Generator, x: Array, left: Array, rows: Array, latent: Array
    ) -> Float[Array, "n K"]:
        own = self.marginal.select(rows, latent)
        sigma = draw_noise(rng, own.freedom[:, 0], own.unit[:, 0])
        return own.location + sigma[:, None] * x


# -- the family ----------------------------------------------------------------------------------


class LinearStudent(NoisyTasks, LinearFamily):
    """Family of linear rewards whose Gaussian noise is unknown, for L components.

    A reward of features a is a'theta + N(0, sigma^2); each task has its own noise sigma. sigma^2 is
    inverse gamma with shape ``degrees / 2`` and scale ``degrees noise_std^2 / 2``. ``noise_std`` is
    a typical value; this prior counts as much as ``degrees`` rewards. Given sigma, theta is
    N(mean, (sigma / noise_std)^2 covariance). So theta is a Student variable with ``degrees``
    degrees of freedom, location ``mean`` and scale matrix ``covariance``; with many degrees this
    is :class:`LinearGaussian`.

    Components are conjugate  [paper: Sec. 3]. Let nu be ``degrees``, u ``degrees noise_std^2`` and
    C C' covariance / noise_std^2. With n rewards y of the feature rows A, these are for a task and
    a component:

    *Log evidence*::

        ln Gamma((nu + n) / 2) - ln Gamma(nu / 2) - n/2 ln(pi u)
        - ln det M / 2 - (nu + n) / 2 ln(1 + S / u)

        M = I + C'A'A C
        S = least of |y - A (mean + C x)|^2 + |x|^2 over all x

    *Posterior*: sigma^2 is inverse gamma with shape (nu + n) / 2 and scale (u + S) / 2. Given
    sigma, theta is normal with the mean m and covariance::

        m = mean + C M^-1 C'A'(y - A mean)
        sigma^2 C M^-1 C'

    *Mean reward a'theta*, without sigma: Student with f = nu + n degrees of freedom, location a'm
    and squared scale ``a'C M^-1 C'a (u + S) / f``. Its variance has f - 2 in place of f.

    The statistics are n and the triangle R of ``[A y] = Q R``. Histories merge by a QR
    factorisation of both triangles, stacked (``linear_statistics.LinearStatistics``).

    The parameters of a task are theta, then sigma.

    Parameters
    ----------
    mean
        Prior means, (L, d).
    covariance
        Scale matrices, as the covariances of :class:`LinearGaussian`. The covariance of theta is
        ``degrees / (degrees - 2)`` times as large.
    noise_std
        Typical noise: a number, or one for each component. 1 / noise_std^2 is the mean of
        1 / sigma^2.
    degrees
        Degrees of freedom, above 2: a number, or one for each component. The standard deviation of
        ln sigma is about ``1 / sqrt(2 degrees)``.
    covariance_type
        Form of ``covariance``.

    Examples
    --------
    >>> import mixts
    >>> means, variances = [[1.0, 0.0], [0.0, 1.0]], [0.1, 0.1]
    >>> family = mixts.LinearStudent(means, variances, 0.5, degrees=6, covariance_type="spherical")
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([[0.9, 0.1], [0.2, 0.8]], [1.1, 0.3])
    >>> belief.weights.round(3)
    array([0.878, 0.122])
    """

    kind: ClassVar[str] = "linear-student"
    array_names: ClassVar[tuple[str, ...]] = ("mean", "covariance", "noise_std", "degrees")
    posterior_type: ClassVar[type[Posterior]] = LinearStudentPosterior
    unit_noise = 1.0

    def __init__(
        self,
        mean: ArrayLike,
        covariance: ArrayLike,
        noise_std: ArrayLike,
        degrees: ArrayLike,
        covariance_type: CovarianceType = "full",
    ) -> None:
        self._set_moments(mean, covariance, covariance_type)
        n = len(self.mean)
        self.noise_std: Float[Array, " L"]  # type: ignore[assignment]
        self.noise_std, self.degrees = noise_parameters(noise_std, degrees, n)
        self.noise_prior = self.degrees, self.degrees * self.noise_std**2

    @cached_property
    def roots(self) -> Roots:
        """Roots of the covariances in units of the noise variance."""
        (n, d), kind = self.mean.shape, self.covariance_type
        form, scale = self.covariance, self.noise_std**2
        if kind == "tied" and (self.noise_std == self.noise_std[0]).all():
            return group_roots(form / scale[0], kind, n, d)
        if kind == "tied":
            form, kind = np.broadcast_to(form, (n, d, d)), "full"
        by_component = scale.reshape(-1, *[1] * (form.ndim - 1))
        return group_roots(form / by_component, kind, n, d)

    def log_density(
        self, latent: Int[Array, " m"], count: Int[Array, " m"], misfit: Float[Array, " m"]
    ) -> Float[Array, " m"]:
        """Return the log density of rewards whose noise is unknown, from their misfit S."""
        degrees, unit = self.noise_prior
        return whole_evidence(degrees[latent], unit[latent], count, misfit)

    def __repr__(self) -> str:
        return (
            f"LinearStudent({self.n_components} components, {self.n_features} features, "
            f"noise_std {shown(self.noise_std)}, degrees {shown(self.degrees)}, "
            f"covariance_type={self.covariance_type!r})"
        )

    def append(self, other: Family) -> LinearStudent:
        """Return these components followed by those of the other family."""
        self._check_same_kind(other)
        assert isinstance(other, LinearStudent)
        mean, covariance, kind = self._joined_moments(other)
        noise_std = np.concatenate([self.noise_std, other.noise_std])
        degrees = np.concatenate([self.degrees, other.degrees])
        return LinearStudent(mean, covariance, noise_std, degrees, kind)

    def with_moments(
        self, mean: ArrayLike, covariance: ArrayLike, covariance_type: CovarianceType = "full"
    ) -> LinearStudent:
        return LinearStudent(mean, covariance, self.noise_std, self.degrees, covariance_type)

    # -- moments ----------------------------------------------------------------------------------

    @property
    def _widening(self) -> Float[Array, " L"]:
        """Factor between the scale matrix and the covariance of theta."""
        return np.asarray(self.degrees / (self.degrees - 2))

    def collapse(self, weights: Float[Array, " L"]) -> LinearStudent:
        """Return one component with the mixture's mean and covariance of theta.

        Its noise has the mixture's means of 1 / sigma^2 and ln sigma^2, with at least 2.1 degrees
        of freedom.
        """
        within = self._widening[:, None, None] * self.full_covariances()
        mean, covariance = self._mixed_moments(weights, within)
        noise_std, degrees = pooled_noise(self.noise_std, self.degrees, weights)
        return LinearStudent(
            mean[None], (covariance * (1 - 2 / degrees[0]))[None], noise_std, degrees
        )

    def broaden(self, weights: Float[Array, " L"], factor: float) -> LinearStudent:
        """Return the mixture's mean with ``factor`` times its covariance, and its noise."""
        one = self.collapse(weights)
        return LinearStudent(one.mean, factor * one.covariance, one.noise_std, one.degrees)

    def parameter_means(self) -> Float[Array, "L p"]:
        """Return the prior means of theta and sigma under each component."""
        return np.column_stack([self.mean, noise_moments(*self.noise_prior)[0]])

    def parameter_variances(self) -> Float[Array, "L p"]:
        """Return the prior variances of every entry of theta, and of sigma."""
        diagonal = np.diagonal(self.full_covariances(), axis1=1, axis2=2)
        own = self._widening[:, None] * diagonal
        return np.column_stack([own, noise_moments(*self.noise_prior)[1]])

    def parameter_quantiles(self, probability: float) -> Float[Array, "L p"]:
        """Return a prior quantile of every entry of theta, and of sigma."""
        scale = np.sqrt(np.diagonal(self.full_covariances(), axis1=1, axis2=2))
        theta = self.mean + scipy.special.stdtrit(self.degrees, probability)[:, None] * scale
        return np.column_stack([theta, noise_quantile(*self.noise_prior, probability)])

    # -- acting and simulating --------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw theta and sigma from the prior of each given component."""
        degrees, unit = self.noise_prior
        sigma = draw_noise(rng, degrees[latent], unit[latent])
        x = sigma[:, None] * rng.standard_normal((len(latent), self.n_features))
        return np.column_stack([self.mean[latent] + self._apply_roots(latent, x), sigma])
