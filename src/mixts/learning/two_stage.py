"""Two stages: a point estimate of each past task, then a mixture of the estimates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mixts import checks
from mixts.errors import MissingExtraError, ParameterError
from mixts.families import LinearGaussian
from mixts.mixture import MixturePrior
from mixts.typing import Array, Float

RIDGE = 1e-3
"""Of the linear models, relative to the features' mean square: the fit hardly notices it, but with
few observations and features that nearly depend on each other there is none without."""

REGULARISATION = 1e-6
"""Added to the covariances' diagonals, relative to the mean variance of the estimates: a cluster
has fewer members than there are dimensions, and its covariance is meant to be tight."""


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
) -> MixturePrior:
    """A Gaussian mixture with full covariances fitted to the tasks' estimates  [paper: Sec. 6.2].

    The weights of the latent states are uniform, as in the paper. Needs scikit-learn.
    """
    given = checks.real_array(estimates, "estimates", 2)
    n = checks.count(n_components, "n_components")
    if len(given) < max(n, 2):
        raise ParameterError(f"{n} components need at least {max(n, 2)} tasks, got {len(given)}")
    try:
        from sklearn.mixture import GaussianMixture
    except ImportError as error:
        raise MissingExtraError(
            "fitting a mixture needs scikit-learn: pip install 'mixts[paper]'"
        ) from error
    # scikit-learn adds an absolute number: in units of the estimates' scale it is relative.
    scale = float(np.sqrt(given.var(axis=0).mean()))
    if scale == 0:
        raise ParameterError("all estimates are equal: there is nothing to fit a mixture to")
    fitted = GaussianMixture(n, covariance_type="full", reg_covar=REGULARISATION, random_state=seed)
    with one_blas_thread():
        fitted.fit(given / scale)
    covariance = fitted.covariances_ * scale**2
    symmetric = (covariance + np.swapaxes(covariance, 1, 2)) / 2
    return MixturePrior(LinearGaussian(fitted.means_ * scale, symmetric, noise_std))


def gaussian_of_estimates(estimates: Float[Array, "n d"], noise_std: float) -> MixturePrior:
    """One Gaussian with the moments of the tasks' estimates: UniTS's prior  [paper: Sec. 6.2]."""
    given = checks.real_array(estimates, "estimates", 2)
    if len(given) < 2:
        raise ParameterError(f"a covariance needs at least two tasks, got {len(given)}")
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
