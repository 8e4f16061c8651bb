"""Linear-Gaussian rewards: a'theta plus known Gaussian noise, a Gaussian prior on theta."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, ParameterError
from mixts.families._kernels.roots import apply_root
from mixts.families._linear_posterior import LinearPosterior, task_bytes
from mixts.families.base import Family
from mixts.families.choice import best_products, feature_sets
from mixts.families.linear_statistics import LinearStatistics
from mixts.families.statistics import Statistics

CovarianceType = Literal["full", "tied", "diag", "spherical"]


@dataclass(frozen=True)
class Roots:
    """Square roots of the prior covariances, one for each group of components that share one."""

    values: Float[Array, "G r"]
    """Lower triangles, packed column by column (r = d (d + 1) / 2), or diagonals (r = d)."""
    group_of: Int[Array, " L"]
    """Group of each component."""
    starts: Int[Array, " G1"]
    """Start of each group in ``members``, and the end of the last group (G + 1 entries)."""
    members: Int[Array, " L"]
    """Components, group by group."""


class LinearFamily(Family):
    """Rewards a'theta + noise, with a location and a covariance of theta for L components.

    The first d parameters of a task are theta.
    """

    statistics_type: ClassVar[type[Statistics]] = LinearStatistics
    covariance_type: CovarianceType
    mean: Float[Array, "L d"]
    covariance: Array
    roots: Roots
    """Roots of the covariances in units in which the noise is ``unit_noise``."""
    unit_noise: float
    noise_law: tuple[Array, Array] = (np.empty(0), np.empty(0))
    """Degrees of freedom and unit of an unknown noise variance; empty: the noise is known."""

    def _set_moments(self, mean: ArrayLike, covariance: ArrayLike, kind: CovarianceType) -> None:
        """Check and set ``mean``, ``covariance`` and ``covariance_type``."""
        if kind not in get_args(CovarianceType):
            raise ParameterError(
                f"covariance_type must be one of {get_args(CovarianceType)}, got {kind!r}"
            )
        self.mean = _checks.real_array(mean, "mean", 2)
        self.covariance_type = kind
        n, d = self.mean.shape
        shape = {"full": (n, d, d), "tied": (d, d), "diag": (n, d), "spherical": (n,)}
        expected = shape[kind]
        self.covariance = _checks.real_array(covariance, "covariance", len(expected))
        if self.covariance.shape != expected:
            raise ParameterError(
                f"covariance of type {kind!r} must have shape {expected} "
                f"(mean has shape {self.mean.shape}), got {self.covariance.shape}"
            )
        if kind in ("full", "tied"):
            _checks.covariance_stack(self.covariance.reshape(-1, d, d), "covariance")
        else:
            _checks.positive(self.covariance, "covariance", zero=True)

    @property
    def n_components(self) -> int:
        """Number of components, L."""
        return self.mean.shape[0]

    @property
    def n_features(self) -> int:
        """Dimension of theta, d."""
        return self.mean.shape[1]

    @property
    def statistics_shape(self) -> tuple[int, ...]:
        """Shape of the statistics of a task: (n_features,)."""
        return (self.n_features,)

    @property
    def task_bytes(self) -> int:
        """Memory for the roots and means of one task, in bytes."""
        return task_bytes(len(self.roots.values), self.n_components, self.n_features)

    def full_covariances(self) -> Float[Array, "L d d"]:
        """Return the covariances as matrices, for every covariance type."""
        n, d = self.mean.shape
        if self.covariance_type == "full":
            return self.covariance
        if self.covariance_type == "tied":
            return np.broadcast_to(self.covariance, (n, d, d))
        diagonal = self.covariance if self.covariance_type == "diag" else self.covariance[:, None]
        return diagonal[..., None] * np.eye(d)

    def _mapped_moments(self, matrix: Float[Array, "d d"]) -> tuple[Array, Array, CovarianceType]:
        """Return mean and covariance of ``matrix.T @ theta``, and the type of the covariance."""
        mean = self.mean @ matrix
        if self.covariance_type in ("diag", "spherical") and np.array_equal(
            matrix, np.diag(np.diagonal(matrix))
        ):
            variances = np.diagonal(self.full_covariances(), axis1=1, axis2=2)
            return mean, variances * np.diagonal(matrix) ** 2, "diag"
        tied = self.covariance_type == "tied"
        covariance = matrix.T @ (self.covariance if tied else self.full_covariances()) @ matrix
        covariance = (covariance + np.swapaxes(covariance, -1, -2)) / 2
        return mean, covariance, "tied" if tied else "full"

    def _joined_moments(self, other: LinearFamily) -> tuple[Array, Array, CovarianceType]:
        """Return means and covariances of both families, and the type of these covariances."""
        mean, kind = np.concatenate([self.mean, other.mean]), self.covariance_type
        if kind == other.covariance_type != "tied":
            return mean, np.concatenate([self.covariance, other.covariance]), kind
        both = [self.full_covariances(), other.full_covariances()]
        return mean, np.concatenate(both), "full"

    def _mixed_moments(self, weights: Float[Array, " L"], within: Array) -> tuple[Array, Array]:
        """Return mean (d,) and covariance (d, d) of the mixture; ``within`` (L, d, d) is theirs."""
        mean = weights @ self.mean
        gap = self.mean - mean
        covariance = np.tensordot(weights, within, axes=1) + (weights[:, None] * gap).T @ gap
        return mean, (covariance + covariance.T) / 2

    def _apply_roots(self, latent: Int[Array, " n"], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Multiply each row by the root of its component, in place."""
        for row, s in enumerate(latent):
            apply_root(self.roots.values[self.roots.group_of[s]], x[row])
        return x

    def _reward_moments(self, statistics: Statistics, actions: Array) -> tuple[Array, Array]:
        every = np.arange(len(statistics))
        uniform = np.full(self.n_components, -np.log(self.n_components))
        posterior = self.posterior(statistics, uniform)
        d = self.n_features
        mean = actions @ np.swapaxes(posterior.component_means(every)[..., :d], 1, 2)
        # One product for each task and component: (n, 1, m, d) with (n, L, d, d).
        product = actions[:, None] @ posterior.component_covariances(every)[..., :d, :d]
        variance = (product * actions[:, None]).sum(axis=3)
        # Rounding may leave the variance of an exactly known direction below zero.
        return mean, np.swapaxes(np.maximum(variance, 0), 1, 2)

    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> LinearPosterior:
        """Return the posteriors of all tasks given their statistics."""
        self.check_statistics(statistics)
        return LinearPosterior(self, statistics, log_weights, allow_dormant=allow_dormant)

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return a'theta for every action; ``actions`` is one set (K, d), or one for each theta."""
        if actions is None:
            raise ActionError(
                f"{type(self).__name__} needs actions of shape (K, {self.n_features}), got None"
            )
        theta = parameters[..., : self.n_features]
        if actions.ndim == 2:
            return theta @ actions.T
        return np.asarray((actions @ theta[..., None])[..., 0])

    def best_action(
        self,
        rng: np.random.Generator,
        parameters: Float[Array, "m p"],
        actions: Array | None = None,
        mask: Bool[Array, "m K"] | None = None,
    ) -> Int[Array, " m"]:
        """Return argmax_a a'theta; one compiled loop scores and compares the actions."""
        assert actions is not None
        return best_products(rng, parameters, actions, mask)

    def action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Return checked action sets, (K, d) for all decisions or (n_rows, K, d), and K."""
        return feature_sets(actions, self.n_features, n_rows)


class LinearGaussian(LinearFamily):
    """Rewards a'theta + N(0, noise_std^2) with theta ~ N(mean, covariance), for L components.

    Posteriors are exact for every component  [paper: Sec. 4.2].

    Parameters
    ----------
    mean
        Prior means, (L, d).
    covariance
        Prior covariances: (L, d, d) for the type "full", (d, d) for "tied", or variances, (L, d)
        for "diag" and (L,) for "spherical". A singular covariance is allowed: the component knows
        some direction of theta exactly.
    noise_std
        Standard deviation of the noise.
    covariance_type
        Form of ``covariance``.
    """

    kind: ClassVar[str] = "linear-gaussian"

    def __init__(
        self,
        mean: ArrayLike,
        covariance: ArrayLike,
        noise_std: float,
        covariance_type: CovarianceType = "full",
    ) -> None:
        self._set_moments(mean, covariance, covariance_type)
        self.noise_std: float = _checks.positive_number(noise_std, "noise_std")
        self.roots = group_roots(self.covariance, covariance_type, *self.mean.shape)

    @classmethod
    def standard(cls, n_features: int, noise_std: float) -> Self:
        """Return one component N(0, I), the uninformative prior of TS  [paper: Sec. 6.2].

        Parameters
        ----------
        n_features
            Dimension d of theta.
        noise_std
            Standard deviation of the noise.
        """
        d = _checks.count(n_features, "n_features")
        return cls(np.zeros((1, d)), np.ones(1), noise_std, covariance_type="spherical")

    def __repr__(self) -> str:
        return (
            f"LinearGaussian({self.n_components} components, {self.n_features} features, "
            f"noise_std={self.noise_std!r}, covariance_type={self.covariance_type!r})"
        )

    def arrays(self) -> dict[str, Array]:
        return {"mean": self.mean, "covariance": self.covariance}

    def settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std, "covariance_type": self.covariance_type}

    def learning_settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std}

    def select(self, components: ArrayLike) -> Self:
        """Return the family of these components; a tied covariance stays tied."""
        index = np.asarray(components)
        covariance = self.covariance if self.covariance_type == "tied" else self.covariance[index]
        return type(self)(self.mean[index], covariance, **self.settings())

    @property
    def unit_noise(self) -> float:  # type: ignore[override]
        """Noise of rewards, ``noise_std``: roots are those of the covariances."""
        return self.noise_std

    @property
    def max_prior_variance(self) -> float:
        """Largest eigenvalue of any component's covariance, lambda_0,max  [paper: Thm 1]."""
        if self.covariance_type in ("full", "tied"):
            d = self.n_features
            return float(np.linalg.eigvalsh(self.covariance.reshape(-1, d, d)).max())
        return float(self.covariance.max())

    def mapped(self, matrix: Float[Array, "d d"]) -> LinearGaussian:
        """Return the same prior for rows r of other coordinates, in which these are ``matrix @ r``.

        Rewards are a'theta in both: theta becomes ``matrix.T @ theta``.
        """
        mean, covariance, kind = self._mapped_moments(matrix)
        return LinearGaussian(mean, covariance, self.noise_std, kind)

    def collapse(self, weights: Float[Array, " L"]) -> LinearGaussian:
        """Return one component with the mean and the covariance of the mixture: UniTS."""
        mean, covariance = self._mixed_moments(weights, self.full_covariances())
        return LinearGaussian(mean[None], covariance[None], self.noise_std)

    def broaden(self, weights: Float[Array, " L"], factor: float) -> LinearGaussian:
        """Return the mixture's mean with ``factor`` times its covariance."""
        one = self.collapse(weights)
        return LinearGaussian(one.mean, factor * one.covariance, one.noise_std)

    def append(self, other: Family) -> LinearGaussian:
        """Return these components followed by those of the other family.

        Covariances are full, unless both families have the same other type, each component with a
        covariance of its own.
        """
        self._check_same_kind(other)
        assert isinstance(other, LinearGaussian)
        mean, covariance, kind = self._joined_moments(other)
        return LinearGaussian(mean, covariance, self.noise_std, kind)

    def parameter_means(self) -> Float[Array, "L p"]:
        """Return the prior mean of theta under each component."""
        return self.mean

    def parameter_variances(self) -> Float[Array, "L p"]:
        """Return the prior variance of every entry of theta under each component."""
        return np.diagonal(self.full_covariances(), axis1=1, axis2=2)

    def parameter_quantiles(self, probability: float) -> Float[Array, "L p"]:
        """Return a prior quantile of every entry of theta under each component."""
        spread = np.sqrt(self.parameter_variances())
        return np.asarray(self.mean + NormalDist().inv_cdf(probability) * spread)

    def to_linear(self) -> LinearGaussian:
        """Return this family."""
        return self

    def log_determinant_ratios(self, statistics: Statistics) -> Float[Array, "n L"]:
        """Return ln det(I + Sigma_0 V / sigma^2), without inverting a covariance."""
        assert isinstance(statistics, LinearStatistics)
        gram = np.swapaxes(statistics.array("factor")[:, :-1, :-1], 1, 2)
        gram = gram @ np.swapaxes(gram, 1, 2)
        learned = self.full_covariances() @ (gram[:, None] / self.noise_std**2)
        return np.linalg.slogdet(np.eye(self.n_features) + learned).logabsdet

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw a theta from the prior of each given component."""
        x = rng.standard_normal((len(latent), self.n_features))
        return self.mean[latent] + self._apply_roots(latent, x)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return means + self.noise_std * rng.standard_normal(means.shape)


def group_roots(covariance: Array, kind: str, n: int, d: int) -> Roots:
    """Return the roots of the distinct covariances; components with equal ones share a root."""
    if kind == "tied":
        distinct, group_of = covariance[None], np.zeros(n, np.int64)
    else:
        distinct, inverse = np.unique(covariance.reshape(n, -1), axis=0, return_inverse=True)
        group_of = inverse.reshape(-1).astype(np.int64)
    if kind in ("full", "tied"):
        triangle = np.triu_indices(d)
        matrices = distinct.reshape(-1, d, d)
        values = np.stack([_lower_root(matrix).T[triangle] for matrix in matrices])
    else:
        values = np.sqrt(np.broadcast_to(distinct, (len(distinct), d)))
    members = np.argsort(group_of, kind="stable").astype(np.int64)
    starts = np.searchsorted(group_of[members], np.arange(len(values) + 1)).astype(np.int64)
    return Roots(values, group_of, starts, members)


def _lower_root(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return a lower triangle C with C C' = matrix; the matrix may be singular."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0))
        return np.asarray(np.linalg.qr(root.T, mode="r")).T
