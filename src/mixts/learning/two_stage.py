"""Learning in two stages: a point estimate of each past task, then a mixture of the estimates.

Models call these functions (:meth:`mixts.learning.models.Model.two_stage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np

from mixts import _checks
from mixts._typing import Array, Float, Int
from mixts.errors import MissingExtraError, ParameterError
from mixts.families import LinearGaussian, LinearStatistics
from mixts.families.linear import CovarianceType
from mixts.prior import MixturePrior

RIDGE = 1e-3
"""Default ridge of least squares, relative to the features' mean square. The fit hardly changes,
but features that nearly depend on each other have no fit without it."""

REGULARISATION = 1e-6
"""Added to the diagonals of covariances, relative to the mean variance of the estimates: a cluster
may have fewer members than there are dimensions."""

LEAST_TOTAL, MOST_TOTAL = 0.1, 1e4
"""Limits of the counts of a row, and of a Gamma shape: moments of few tasks justify no more
confidence, and no less."""


# -- estimates of linear tasks --------------------------------------------------------------------


def ridge_coefficients(
    features: Float[Array, "n d"], rewards: Float[Array, " n"], ridge: float = RIDGE
) -> Float[Array, " d"]:
    """Return argmin |y - A x|^2 + r m |x|^2, where m is the mean of the features' sums of squares.

    Parameters
    ----------
    features, rewards
        Observations of one task.
    ridge
        The ridge r.

    Returns
    -------
    array
        The coefficients x.
    """
    gram = features.T @ features
    gram[np.diag_indices_from(gram)] += ridge * np.trace(gram) / len(gram)
    return np.linalg.solve(gram, features.T @ rewards)


def ridge_estimates(statistics: LinearStatistics, ridge: float = RIDGE) -> Float[Array, "n d"]:
    """Return :func:`ridge_coefficients` of every task, from statistics."""
    gram, moment = np.array(statistics.gram), np.asarray(statistics.moment)
    d = gram.shape[1]
    added = ridge * np.trace(gram, axis1=1, axis2=2) / d
    # A task whose features are all zero gets coefficients of zero.
    added = np.where(added > 0, added, 1.0)
    gram[:, np.arange(d), np.arange(d)] += added[:, None]
    return np.asarray(np.linalg.solve(gram, moment[:, :, None])[:, :, 0])


def mixture_of_estimates(
    estimates: Float[Array, "n d"],
    n_components: int,
    noise_std: float,
    seed: int,
    covariance_type: CovarianceType = "full",
    *,
    weights: Literal["uniform", "fitted"] = "uniform",
) -> MixturePrior:
    """Fit a Gaussian mixture to the tasks' estimates  [paper: Sec. 6.2]. Needs scikit-learn.

    Parameters
    ----------
    estimates
        Coefficients of each task.
    n_components
        Number of components.
    noise_std
        Noise of rewards, for the prior.
    seed
        Seed of scikit-learn, 32 bits.
    covariance_type
        "full", "tied" or "diag".
    weights
        "uniform", as in the paper, or "fitted".

    Returns
    -------
    MixturePrior
        The mixture, as a prior of linear tasks.
    """
    given = _checks.real_array(estimates, "estimates", 2)
    n = _checks.count(n_components, "n_components")
    if len(given) < max(n, 2):
        raise ParameterError(f"{n} components need at least {max(n, 2)} tasks, got {len(given)}")
    fitted = _gaussian_mixture(n, covariance_type, seed)
    # scikit-learn adds an absolute number: in units of the estimates' scale it is relative.
    scale = _scale(given)
    with one_blas_thread():
        fitted.fit(given / scale)
    covariance = fitted.covariances_ * scale**2
    if covariance_type != "diag":
        covariance = (covariance + np.swapaxes(covariance, -1, -2)) / 2
    family = LinearGaussian(fitted.means_ * scale, covariance, noise_std, covariance_type)
    if weights == "uniform":
        return MixturePrior(family)
    return MixturePrior(family, fitted.weights_ / fitted.weights_.sum())


def gaussian_of_estimates(estimates: Float[Array, "n d"], noise_std: float) -> MixturePrior:
    """Return one Gaussian with the moments of the tasks' estimates  [paper: Sec. 6.2].

    Parameters
    ----------
    estimates
        Coefficients of each task.
    noise_std
        Noise of rewards, for the prior.

    Returns
    -------
    MixturePrior
        The prior of UniTS.
    """
    given = _checks.real_array(estimates, "estimates", 2)
    if len(given) < 2:
        raise ParameterError(f"a covariance needs at least two tasks, got {len(given)}")
    _scale(given)
    covariance = np.cov(given, rowvar=False).reshape(1, given.shape[1], given.shape[1])
    return MixturePrior(LinearGaussian(given.mean(axis=0)[None], covariance, noise_std))


def _scale(estimates: Float[Array, "n d"]) -> float:
    """Return the scale of differences between estimates; refuse estimates that are all equal."""
    scale = float(np.sqrt(estimates.var(axis=0).mean()))
    if scale <= 1e-9 * float(np.abs(estimates).max()):
        raise ParameterError("all estimates are equal: there is nothing to fit a mixture to")
    return scale


# -- groups of other tasks ------------------------------------------------------------------------


def group_tasks(points: Float[Array, "n p"], n_groups: int, seed: int) -> Int[Array, " n"]:
    """Divide tasks into groups by a Gaussian mixture of their points. Needs scikit-learn."""
    if len(np.unique(points, axis=0)) < max(n_groups, 2):
        raise ParameterError(
            f"{n_groups} groups need at least as many tasks that differ: ask for fewer components"
        )
    mixture = _gaussian_mixture(n_groups, "diag", seed)
    with one_blas_thread():
        return np.asarray(mixture.fit_predict(points), np.int64)


class Group(NamedTuple):
    """Moments of the tasks of one group, by column."""

    mean: Array
    seen: Array
    """Number of observations."""
    scatter: Array
    """sum n_i (y_i - mean)^2."""
    tasks: Array
    """Number of tasks with observations."""
    scale: Array
    """N - sum n_i^2 / N."""

    @classmethod
    def of(
        cls, averages: Float[Array, "n ..."], counts: Int[Array, "n ..."], inside: Array
    ) -> Group:
        """Compute the moments of the tasks that are inside, from averages and counts."""
        n, y = counts[inside].astype(float), averages[inside]
        total = n.sum(axis=0)
        safe = np.maximum(total, 1.0)
        mean = (n * y).sum(axis=0) / safe
        scatter = (n * (y - mean) ** 2).sum(axis=0)
        return cls(mean, total, scatter, (n > 0).sum(axis=0), total - (n**2).sum(axis=0) / safe)

    def shrunken(self, mean: Array) -> Array:
        """Return the mean with one more observation at ``mean``: nothing becomes impossible."""
        return np.asarray((self.seen * self.mean + mean) / (self.seen + 1))

    def variance(self, within: Array, *, shrinks: bool = False) -> Array:
        """Estimate the variance between tasks, at least zero.

        ``within`` is the variance of single observations. With n_i observations of average y_i,
        mean m and N in all, the scatter ``sum n_i (y_i - m)^2`` has the expectation
        ``(tasks - 1) within + variance (N - sum n_i^2 / N)``. Where observations are 0 or 1, the
        variance within a task is ``within`` minus the variance between tasks: it ``shrinks``.
        NaN where the data do not determine it, for example with a single task.
        """
        spare = np.maximum(self.tasks - 1, 0)
        scale = self.scale - spare if shrinks else self.scale
        excess = np.maximum(self.scatter - spare * within, 0.0)
        some = (scale > 1e-9 * self.seen) & (self.tasks > 1)
        return np.asarray(np.where(some, excess / np.where(some, scale, 1.0), np.nan))


# -- scikit-learn ---------------------------------------------------------------------------------


def _gaussian_mixture(n_components: int, covariance_type: str, seed: int) -> Any:
    try:
        from sklearn.mixture import GaussianMixture
    except ImportError as error:
        raise MissingExtraError(
            "fitting a mixture in two stages needs scikit-learn: pip install 'mixts[sklearn]'"
        ) from error
    return GaussianMixture(
        n_components, covariance_type=covariance_type, reg_covar=REGULARISATION, random_state=seed
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: sums in one order give the same numbers on any machine."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # comes with scikit-learn
        yield
        return
    with threadpool_limits(1):
        yield
