"""Differences of log gamma functions and densities of rewards, without subtracting large numbers.

ln Gamma(x) of 1e8 observations is above 1e9 and has no digit left after the seventh decimal, but
the evidence is a difference of such numbers. So the differences are written out here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _program
from mixts._numbers import LOG_2PI
from mixts._typing import Array

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
"""Stirling's series of ln Gamma. From x = 10 on, the first neglected term is below 2e-14."""
_LARGE = 10.0


def stirling_rest(x: Any) -> Array:
    """Return ln Gamma(x) - ((x - 1/2) ln x - x + ln(2 pi) / 2), for x > 0."""
    x = np.asarray(x, float)
    small, large = np.minimum(x, _LARGE), np.maximum(x, _LARGE)
    series = np.polynomial.polynomial.polyval(1 / (large * large), _STIRLING) / large
    exact = scipy.special.gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * LOG_2PI
    return np.where(x < _LARGE, exact, series)


def log_rising(a: Any, n: Any) -> Array:
    """Return ln Gamma(a + n) - ln Gamma(a), the log of a (a + 1) ... (a + n - 1) for whole n.

    This is Stirling's formula of both, subtracted by hand, with R = ``stirling_rest``::

        (a - 1/2) ln(1 + n / a) + n (ln(a + n) - 1) + R(a + n) - R(a)

    Parameters
    ----------
    a
        Numbers above 0.
    n
        Numbers of at least 0, which broadcast with ``a``.

    Returns
    -------
    array
        The logarithms, right to 14 digits.
    """
    if (core := _program.core) is not None:
        a, n = np.broadcast_arrays(np.asarray(a, float), np.asarray(n, float))
        out = np.empty(a.shape)
        core.log_rising(a.ravel(), n.ravel(), out.reshape(-1))
        return out
    end = a + n
    head = (a - 0.5) * np.log1p(n / a) + n * (np.log(end) - 1.0)
    return np.asarray(head + stirling_rest(end) - stirling_rest(a))


def beta_evidence(a: Any, b: Any, won: Any, lost: Any) -> Array:
    """Return ln B(a + won, b + lost) - ln B(a, b), for parameters above 0 and counts from 0 on."""
    risen = log_rising(a, won) + log_rising(b, lost)
    return np.asarray(risen - log_rising(a + b, won + lost))


def draw_log_gamma(rng: np.random.Generator, shape: Array) -> Array:
    """Draw ln G of gamma variables, which never underflow, however small their shapes.

    ``ln G(a) = ln G(a + 1) + ln U / a`` for uniform U; -ln U is exponential.
    """
    return np.asarray(
        np.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential(shape.shape) / shape
    )


# -- unknown noise --------------------------------------------------------------------------------
#
# The noise variance of a task is inverse gamma: degrees / 2 is its shape and unit / 2 its scale,
# unit = degrees * noise_std^2. After n rewards, whose squared misfit is S if the noise is 1, it is
# inverse gamma with degrees + n and unit + S.


def whole_evidence(degrees: Any, unit: Any, n: Any, misfit: Any) -> Array:
    """Return the log density of n rewards with this misfit S, without their determinant.

    With nu ``degrees`` and u ``unit``, it is::

        ln Gamma((nu + n) / 2) - ln Gamma(nu / 2) - n/2 ln(pi u) - (nu + n) / 2 ln(1 + S / u)
    """
    spread = n * np.log(np.pi * unit) + (degrees + n) * np.log1p(misfit / unit)
    return np.asarray(log_rising(0.5 * degrees, 0.5 * n) - 0.5 * spread)
