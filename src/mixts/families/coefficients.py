"""Families of coefficients: theta is normal given the component, and an action is a feature row."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, ParameterError
from mixts.families.base import Family
from mixts.families.choice import best_products, feature_sets
from mixts.families.linear_statistics import check_rows

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
    n_features: int
    """d."""

    @property
    def are_diagonal(self) -> bool:
        """Whether ``values`` are diagonals."""
        return self.values.shape[1] == self.n_features

    def matrices(self) -> Float[Array, "G d d"]:
        """Return the roots as lower triangles."""
        d = self.n_features
        if self.are_diagonal:
            return self.values[:, :, None] * np.eye(d)
        lower = np.zeros((len(self.values), d, d))
        columns, rows = np.triu_indices(d)
        lower[:, rows, columns] = self.values
        return lower

    @cached_property
    def packed(self) -> Float[Array, "G r"]:
        """The roots as packed triangles, also where they are diagonal."""
        if not self.are_diagonal:
            return self.values
        columns, rows = np.triu_indices(self.n_features)
        packed = np.zeros((len(self.values), len(rows)))
        packed[:, rows == columns] = self.values
        return packed


class CoefficientFamily(Family):
    """Coefficients theta with a mean and a covariance for each of L components.

    The first d parameters of a task are theta. A subclass says how rewards depend on a'theta, an
    increasing function of which is the mean reward of the feature row a.
    """

    array_names: ClassVar[tuple[str, ...]] = ("mean", "covariance")
    mean: Float[Array, "L d"]
    covariance: Array
    covariance_type: CovarianceType

    @cached_property
    def roots(self) -> Roots:
        """Roots of the covariances; learning makes many families that never need them."""
        return group_roots(self.covariance, self.covariance_type, *self.mean.shape)

    def _set_moments(
        self, mean: ArrayLike, covariance: ArrayLike, covariance_type: CovarianceType
    ) -> None:
        """Check and store the prior moments."""
        if covariance_type not in get_args(CovarianceType):
            raise ParameterError(
                f"covariance_type must be one of {get_args(CovarianceType)}, "
                f"got {covariance_type!r}"
            )
        self.mean = _checks.parameter_array(mean, "mean", 2)
        self.covariance_type = covariance_type
        n, d = self.mean.shape
        shape = {"full": (n, d, d), "tied": (d, d), "diag": (n, d), "spherical": (n,)}
        expected = shape[covariance_type]
        self.covariance = _checks.parameter_array(
            covariance, "covariance", len(expected), _checks.LARGEST_PARAMETER**2
        )
        if self.covariance.shape != expected:
            raise ParameterError(
                f"covariance of type {covariance_type!r} must have shape {expected} "
                f"(mean has shape {self.mean.shape}), got {self.covariance.shape}"
            )
        if covariance_type in ("full", "tied"):
            _checks.covariance_stack(self.covariance.reshape(-1, d, d), "covariance")
        else:
            _checks.positive(self.covariance, "covariance", zero=True)

    def check_learnable(self, actions: Float[Array, "K d"]) -> None:
        """Raise ``ActionError`` if a row of features is too large to learn from, or no number."""
        check_rows(actions, np.zeros(len(actions)))

    @abstractmethod
    def with_moments(
        self, mean: ArrayLike, covariance: ArrayLike, covariance_type: CovarianceType = "full"
    ) -> Self:
        """Return the family with other moments of theta and the same settings otherwise.

        Parameters
        ----------
        mean, covariance, covariance_type
            As for the constructor.

        Returns
        -------
        CoefficientFamily
            The family.
        """

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

    def settings(self) -> dict[str, Any]:
        return {"covariance_type": self.covariance_type}

    # -- other families of the same kind ------------------------------------------------------

    @property
    def common_arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("covariance",) if self.covariance_type == "tied" else ()

    def full_covariances(self) -> Float[Array, "L d d"]:
        """Return the covariances as matrices, for every covariance type."""
        n, d = self.mean.shape
        if self.covariance_type == "full":
            return self.covariance
        if self.covariance_type == "tied":
            return np.broadcast_to(self.covariance, (n, d, d))
        diagonal = self.covariance if self.covariance_type == "diag" else self.covariance[:, None]
        return diagonal[..., None] * np.eye(d)

    def mapped(self, matrix: Float[Array, "d d"]) -> Self:
        """Return the same prior for rows r of other coordinates, in which these are ``matrix @ r``.

        The product a'theta is the same in both: theta becomes ``matrix.T @ theta``.

        Parameters
        ----------
        matrix
            The matrix, (d, d).

        Returns
        -------
        CoefficientFamily
            The family in the other coordinates.
        """
        mean = self.mean @ matrix
        if self.covariance_type in ("diag", "spherical") and np.array_equal(
            matrix, np.diag(np.diagonal(matrix))
        ):
            variances = np.diagonal(self.full_covariances(), axis1=1, axis2=2)
            return self.with_moments(mean, variances * np.diagonal(matrix) ** 2, "diag")
        tied = self.covariance_type == "tied"
        covariance = matrix.T @ (self.covariance if tied else self.full_covariances()) @ matrix
        covariance = (covariance + np.swapaxes(covariance, -1, -2)) / 2
        return self.with_moments(mean, covariance, "tied" if tied else "full")

    # -- offsets --------------------------------------------------------------------------------

    @cached_property
    def has_offset(self) -> bool:
        """Whether the last coefficient is 1, without variance, under every component."""
        if self.n_features < 2:
            return False
        last = np.diagonal(self.full_covariances(), axis1=1, axis2=2)[:, -1]
        # The moments of a mixture are right to rounding.
        return bool((np.abs(self.mean[:, -1] - 1) < 1e-9).all() and (last < 1e-18).all())

    def with_offset(self) -> Self:
        mean = np.pad(self.mean, ((0, 0), (0, 1)), constant_values=1.0)
        covariance, kind = self.covariance, self.covariance_type
        if kind == "spherical":
            covariance = np.repeat(covariance[:, None], self.n_features, axis=1)
            kind = "diag"
        ends = [(0, int(kind == "tied" or axis > 0)) for axis in range(covariance.ndim)]
        return self.with_moments(mean, np.pad(covariance, ends), kind)

    def without_offset(self) -> Self:
        kind = self.covariance_type
        kept = [
            slice(None, -1 if kind == "tied" or axis > 0 else None)
            for axis in range(self.covariance.ndim)
        ]
        return self.with_moments(self.mean[:, :-1], self.covariance[tuple(kept)], kind)

    def learning_settings(self) -> dict[str, Any]:
        return {"offset": True} if self.has_offset else {}

    def collapse(self, weights: Float[Array, " L"]) -> Self:
        """Return one component with the mean and the covariance of the mixture: UniTS."""
        mean, covariance = self._mixed_moments(weights, self.full_covariances())
        return self.with_moments(mean[None], covariance[None])

    def _mixed_moments(self, weights: Float[Array, " L"], within: Array) -> tuple[Array, Array]:
        """Return mean (d,) and covariance (d, d) of the mixture; ``within`` (L, d, d) is theirs."""
        mean = weights @ self.mean
        gap = self.mean - mean
        covariance = np.tensordot(weights, within, axes=1) + (weights[:, None] * gap).T @ gap
        return mean, (covariance + covariance.T) / 2

    def broaden(self, weights: Float[Array, " L"], factor: float) -> Self:
        """Return the mixture's mean with ``factor`` times its covariance."""
        one = self.collapse(weights)
        return self.with_moments(one.mean, factor * one.covariance)

    def append(self, other: Family) -> Self:
        """Return these components followed by those of the other family.

        Covariances are full, unless both families have the same other type, each component with a
        covariance of its own.
        """
        self._check_same_kind(other)
        assert isinstance(other, CoefficientFamily)
        return self.with_moments(*self._joined_moments(other))

    def _joined_moments(self, other: CoefficientFamily) -> tuple[Array, Array, CovarianceType]:
        """Return means and covariances of both families, and the type of these covariances."""
        mean, kind = np.concatenate([self.mean, other.mean]), self.covariance_type
        if kind == other.covariance_type != "tied":
            return mean, np.concatenate([self.covariance, other.covariance]), kind
        both = [self.full_covariances(), other.full_covariances()]
        return mean, np.concatenate(both), "full"

    # -- moments and draws of the prior ---------------------------------------------------------

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

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw a theta from the prior of each given component."""
        x = rng.standard_normal((len(latent), self.n_features))
        return self.mean[latent] + self._apply_roots(latent, x)

    def _apply_roots(self, latent: Int[Array, " n"], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Return each row multiplied by the root of its component."""
        groups = self.roots.group_of[latent]
        if self.roots.are_diagonal:
            return self.roots.values[groups] * x
        # Unlike BLAS, einsum gives a row the same bits among any number of rows.
        product, matrices = np.empty_like(x), self.roots.matrices()
        for g in np.unique(groups):
            own = groups == g
            product[own] = np.einsum("ij,nj->ni", matrices[g], x[own])
        return product

    # -- actions --------------------------------------------------------------------------------

    def products(
        self, parameters: Float[Array, "... p"], actions: Array | None
    ) -> Float[Array, "... K"]:
        """Return a'theta for every action.

        Parameters
        ----------
        parameters
            Parameters, (..., p).
        actions
            One action set, (K, d), or one for each theta, (..., K, d).

        Returns
        -------
        array
            Products, (..., K).
        """
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
    return Roots(values, group_of, starts, members, d)


def _lower_root(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return a lower triangle C with C C' = matrix; the matrix may be singular."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0))
        return np.asarray(np.linalg.qr(root.T, mode="r")).T
