"""Unknown noise: the variance of a task's rewards, inverse gamma given the component."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError

LEAST_DEGREES, MOST_DEGREES = 2.1, 1e4
"""Limits of degrees of freedom that are learned or matched. With 2 or less, mean rewards have no
variance; with 1e4, the noise of tasks differs by less than one percent."""

_NEWTON_STEPS = 50


class NoisyTasks:
    """Families whose tasks have a noise of their own, the last of a task's parameters."""

    def learning_settings(self) -> dict[str, Any]:
        return {"noise": "per-task"}

    def reward_laws(
        self, parameters: Float[Array, "n p"], arms: Int[Array, " n"], means: Float[Array, " n"]
    ) -> Float[Array, "n 2"]:
        """Return the mean reward of each action, and the noise of its task."""
        return np.stack([means, parameters[:, -1]], axis=1)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, "n 2"]) -> Float[Array, " n"]:
        """Draw a reward of each law: mean and noise."""
        mean, sigma = np.moveaxis(means, -1, 0)
        return np.asarray(mean + sigma * rng.standard_normal(mean.shape))


def noise_parameters(noise_std: Any, degrees: Any, n_components: int) -> tuple[Array, Array]:
    """Return checked arrays (L,) of the typical noise and of its degrees of freedom."""
    both = []
    for value, name in ((noise_std, "noise_std"), (degrees, "degrees")):
        given = _checks.numbers(value, f"{name} must be a number or an array", ParameterError)
        if given.shape not in ((), (n_components,)):
            raise ParameterError(
                f"{name} must be a number, or one for each of the {n_components} components, "
                f"got shape {given.shape}"
            )
        both.append(_checks.real_array(np.broadcast_to(given, (n_components,)), name, 1))
    for value in both[0]:
        _checks.positive_number(value, "noise_std")
    if not (both[1] > 2).all():
        raise ParameterError(
            f"degrees must be above 2, or mean rewards have no variance, got {both[1].min():g}"
        )
    return both[0], both[1]


def shown(values: Float[Array, " L"]) -> str:
    """Return the range of some numbers, for a ``repr``."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"


def draw_noise(rng: np.random.Generator, freedom: Array, unit: Array) -> Array:
    """Draw the noise sigma: unit / sigma^2 is chi-squared with these degrees of freedom."""
    return np.asarray(np.sqrt(0.5 * unit / rng.standard_gamma(0.5 * freedom)))


def noise_moments(freedom: Array, unit: Array) -> tuple[Array, Array]:
    """Return mean and variance of sigma.

    ``E[sigma] = sqrt(unit / 2) Gamma((v - 1) / 2) / Gamma(v / 2)`` and
    ``E[sigma^2] = unit / (v - 2)``.
    """
    from scipy import special  # takes as long to import as all of mixts

    mean = np.sqrt(unit / 2) / special.poch((freedom - 1) / 2, 0.5)
    square = unit / (freedom - 2)
    # With many degrees both terms are nearly the same: the series keeps the digits of the rest.
    near = unit / freedom * (1 / (2 * freedom) + 11 / (8 * freedom**2))
    return mean, np.where(freedom > 1e5, near, np.maximum(square - mean**2, 0.0))


def noise_quantile(freedom: Array, unit: Array, probability: float) -> Array:
    """Return a quantile of sigma."""
    from scipy import special

    return np.asarray(np.sqrt(0.5 * unit / special.gammainccinv(0.5 * freedom, probability)))


def match_noise(inverse: Array, log: Array) -> tuple[Array, Array]:
    """Return noise_std and degrees with these means of 1 / sigma^2 and of ln sigma^2.

    Among all inverse gamma distributions, this one is nearest to any distribution with these means
    (Kullback-Leibler). ``ln x - digamma(x) = ln E[1 / sigma^2] + E[ln sigma^2]``, with x = degrees
    / 2, is solved by Newton's method for ln x, in which the logarithm of the left side is nearly
    linear. The degrees keep their limits.
    """
    from scipy import special

    inverse, log = np.asarray(inverse, float), np.asarray(log, float)
    gap = np.maximum(np.log(inverse) + log, 1e-12)
    # Minka's approximation, which errs by a percent or two.
    x = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(_NEWTON_STEPS):
        value = np.log(x) - special.digamma(x)
        slope = 1 / x - special.polygamma(1, x)
        step = np.log(value / gap) * value / (x * slope)
        x = x * np.exp(np.clip(-step, -2, 2))
        # Beyond the largest degrees the difference on the left has few digits.
        if (np.abs(step) < 1e-10).all() or (x > MOST_DEGREES).all():
            break
    return np.sqrt(1 / inverse), np.clip(2 * x, LEAST_DEGREES, MOST_DEGREES)


def expected_noise(freedom: Array, unit: Array) -> tuple[Array, Array]:
    """Return the means of 1 / sigma^2 and of ln sigma^2."""
    from scipy import special

    return freedom / unit, np.log(unit / 2) - special.digamma(freedom / 2)


def pooled_noise(
    noise_std: Float[Array, " L"], degrees: Float[Array, " L"], weights: Float[Array, " L"]
) -> tuple[Float[Array, " 1"], Float[Array, " 1"]]:
    """Return the noise of a mixture as that of one component, by ``match_noise``."""
    if (noise_std == noise_std[0]).all() and (degrees == degrees[0]).all():
        return noise_std[:1], degrees[:1]
    inverse, log = expected_noise(degrees, degrees * noise_std**2)
    return match_noise(np.array([weights @ inverse]), np.array([weights @ log]))


# -- quadrature over the noise --------------------------------------------------------------------

_TAIL = 1e-9
"""Mass left out at either end of the nodes; where the noise is large, the share of E[sigma]."""


def noise_nodes(
    freedom: Float[Array, "..."], unit: Float[Array, "..."]
) -> tuple[Float[Array, "... G"], Float[Array, "... G"]]:
    """Return values of sigma^2 and their weights: a quadrature over the noise.

    With g = unit / (2 sigma^2), which is gamma of shape a = freedom / 2, the density of ln g is
    ``exp(a x - exp(x)) / Gamma(a)``: analytic, and falling at least exponentially. The trapezoid
    rule with steps h errs by about ``|Gamma(a + 2 pi i / h)| / Gamma(a)``, which is below 1e-8 for
    ``h = 1 / sqrt(a + 4)``.
    """
    from scipy import special

    shape = np.asarray(freedom, float) / 2
    low = np.log(special.gammaincinv(shape - 0.5, _TAIL))
    high = np.log(special.gammainccinv(shape, _TAIL))
    n = int(np.ceil(((high - low) * np.sqrt(shape + 4)).max(initial=1.0))) + 1
    x = low[..., None] + (high - low)[..., None] * (np.arange(n) / (n - 1))
    log_weight = shape[..., None] * (x - np.log(shape)[..., None])
    log_weight -= shape[..., None] * np.expm1(x - np.log(shape)[..., None])
    weight = np.exp(log_weight)
    weight /= weight.sum(axis=-1, keepdims=True)
    return np.asarray(0.5 * unit[..., None] * np.exp(-x)), weight
