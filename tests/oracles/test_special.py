"""Differences of log gamma functions, compared with mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from mixts.families.noise import noise_moments
from mixts.families.special import beta_evidence, log_rising

pytestmark = pytest.mark.usefixtures("program")

RNG = np.random.default_rng(7)
START = 10 ** RNG.uniform(-3, 3, 300)
WHOLE = RNG.integers(0, 10**8, 300) // 10 ** RNG.integers(0, 9, 300)
REAL = 10 ** RNG.uniform(-3, 8, 300)


def exact_rising(a: float, n: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        return mpmath.loggamma(mpmath.mpf(a) + mpmath.mpf(n)) - mpmath.loggamma(a)


@pytest.mark.parametrize("n", [WHOLE, REAL], ids=["whole", "real"])
def test_rising_factorials(n: np.ndarray) -> None:
    exact = [float(exact_rising(*pair)) for pair in zip(START, n.astype(float), strict=True)]
    np.testing.assert_allclose(log_rising(START, n), exact, rtol=3e-14, atol=3e-14)


def test_evidence_of_expected_rewards_is_small_between_large_numbers() -> None:
    a, b, won, lost = 2.5, 4.0, 0.3, 0.7
    exact = float(exact_rising(a, won) + exact_rising(b, lost) - exact_rising(a + b, won + lost))
    assert beta_evidence(a, b, won, lost) == pytest.approx(exact, rel=1e-13)
    assert beta_evidence(1e9 * a, 1e9 * b, won, lost) == pytest.approx(
        won * np.log(a / (a + b)) + lost * np.log(b / (a + b)), rel=1e-7
    )


def test_moments_of_the_noise() -> None:
    freedom, unit = np.array([2.5, 100.0, 9e4, 1.1e5, 1e9]), 3.0
    with mpmath.workdps(40):
        half = [mpmath.mpf(f) / 2 for f in freedom]
        mean = [mpmath.sqrt(unit / 2) * mpmath.gammaprod([a - 0.5], [a]) for a in half]
        variance = [unit / (2 * a - 2) - m**2 for a, m in zip(half, mean, strict=True)]
    found = noise_moments(freedom, np.full(5, unit))
    np.testing.assert_allclose(found[0], [float(x) for x in mean], rtol=1e-12)
    # Below 1e5 degrees the difference of two moments loses a factor 2 freedom of a double's
    # precision; beyond, the series leaves out about 10 / freedom^2.
    np.testing.assert_allclose(found[1], [float(x) for x in variance], rtol=1e-9)
