"""Two stages: a point estimate of each past task, then a mixture of the estimates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from mixts import _checks, _random
from mixts._typing import Array, Float, Int
from mixts.errors import MissingExtraError, ParameterError
from mixts.families import LinearGaussian
from mixts.families.linear import CovarianceType
from mixts.learning.models import Model, MomentModel
from mixts.learning.models.linear import RIDGE, LinearModel, ridge_estimates
from mixts.prior import MixturePrior

REGULARISATION = 1e-6
"""Added to the covariances' diagonals, relative to the mean variance of the estimates: a cluster
has fewer members than there are dimensions, and its covariance is meant to be tight."""


def two_stage(model: Model, n_components: int, seed: int) -> tuple[MixturePrior, MixturePrior]:
    """The mixture of the tasks' estimates, and one component of all of them: UniTS's prior.

    Linear tasks: least squares with a small ridge, and a Gaussian mixture of the coefficients
    [paper: Sec. 6.2]. Others: groups of shrunken task means, and in each group the distribution
    that has the group's moments; an arm or pair that no task of a group has seen gets the
    distribution of all tasks. Needs scikit-learn.
    """
    # scikit-learn takes 32 bits.
    state = int(_random.seed_sequence(seed, "learn", "two-stage").generate_state(1)[0])
    if isinstance(model, LinearModel):
        estimates = ridge_estimates(model.statistics)
        noise = model.centre.noise_std
        mixture = mixture_of_estimates(
            estimates, n_components, noise, state, model.covariance_type, weights="fitted"
        )
        return mixture, gaussian_of_estimates(estimates, noise)
    if not isinstance(model, MomentModel):
        raise ParameterError(f"two stages are not known for {model.statistics!r}")
    pooled = model.match(np.zeros(model.n_tasks, np.int64), 1)
    if n_components == 1:
        return MixturePrior(pooled), MixturePrior(pooled)
    groups = _groups(model.points(pooled), n_components, state)
    sizes = np.bincount(groups, minlength=n_components) + 1.0 / n_components
    family = model.match(groups, n_components, pooled)
    return MixturePrior(family, sizes / sizes.sum()), MixturePrior(pooled)


def _groups(points: Float[Array, "n p"], n_components: int, state: int) -> Int[Array, " n"]:
    if len(np.unique(points, axis=0)) < max(n_components, 2):
        raise ParameterError(
            f"{n_components} groups need at least as many tasks that differ: ask for fewer "
            "components"
        )
    mixture = _gaussian_mixture(n_components, "diag", state)
    with one_blas_thread():
        return np.asarray(mixture.fit_predict(points), np.int64)


def ridge_coefficients(
    features: Float[Array, "n d"], rewards: Float[Array, " n"], ridge: float = RIDGE
) -> Float[Array, " d"]:
    """argmin |y - A x|^2 + r m |x|^2, where m is the mean of the features' sums of squares."""
    gram = features.T @ features
    gram[np.diag_indices_from(gram)] += ridge * np.trace(gram) / len(gram)
    return np.linalg.solve(gram, features.T @ rewards)


def mixture_of_estimates(
    estimates: Float[Array, "n d"],
    n_components: int,
    noise_std: float,
    seed: int,
    covariance_type: CovarianceType = "full",
    *,
    weights: Literal["uniform", "fitted"] = "uniform",
) -> MixturePrior:
    """A Gaussian mixture fitted to the tasks' estimates  [paper: Sec. 6.2].

    The weights of the latent states are uniform, as in the paper, unless ``weights="fitted"``.
    Needs scikit-learn.
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


def _scale(estimates: Float[Array, "n d"]) -> float:
    """How much estimates differ; not at all, but for rounding, is refused."""
    scale = float(np.sqrt(estimates.var(axis=0).mean()))
    if scale <= 1e-9 * float(np.abs(estimates).max()):
        raise ParameterError("all estimates are equal: there is nothing to fit a mixture to")
    return scale


def _gaussian_mixture(n_components: int, covariance_type: str, seed: int) -> Any:
    try:
        from sklearn.mixture import GaussianMixture
    except ImportError as error:
        raise MissingExtraError(
            "fitting a mixture in two stages needs scikit-learn: pip install 'mixts[paper]'"
        ) from error
    return GaussianMixture(
        n_components, covariance_type=covariance_type, reg_covar=REGULARISATION, random_state=seed
    )


def gaussian_of_estimates(estimates: Float[Array, "n d"], noise_std: float) -> MixturePrior:
    """One Gaussian with the moments of the tasks' estimates: UniTS's prior  [paper: Sec. 6.2]."""
    given = _checks.real_array(estimates, "estimates", 2)
    if len(given) < 2:
        raise ParameterError(f"a covariance needs at least two tasks, got {len(given)}")
    _scale(given)
    covariance = np.cov(given, rowvar=False).reshape(1, given.shape[1], given.shape[1])
    return MixturePrior(LinearGaussian(given.mean(axis=0)[None], covariance, noise_std))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Sums in one order: the same numbers however many processors there are."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # comes with scikit-learn
        yield
        return
    with threadpool_limits(1):
        yield
