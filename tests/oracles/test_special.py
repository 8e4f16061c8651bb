"""Differences of log gamma functions, compared with mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

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
