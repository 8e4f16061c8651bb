"""The references against each other and against scipy, before anything is measured with them."""

from __future__ import annotations

from decimal import Decimal

import mpmath
import numpy as np
import pytest
from scipy import stats

from tests.oracles import references
from tests.oracles.references import Reference, exact

THIRTY_DIGITS = Decimal("1e-30")


def gaussian_case(seed: int, n: int) -> tuple:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    rows = rng.normal(size=(n, 3))
    return rng.normal(size=3), root @ root.T, 0.3, rows, rng.normal(size=n)


def test_the_whole_history_is_the_multivariate_normal_density() -> None:
    mean, covariance, noise_std, rows, rewards = gaussian_case(1, 12)
    law = stats.multivariate_normal(rows @ mean, rows @ covariance @ rows.T + 0.09 * np.eye(12))
    answer = references.whole_history(mean, covariance, noise_std, rows, rewards)
    assert float(answer.log_evidence) == pytest.approx(law.logpdf(rewards), rel=1e-10)


def test_sequential_predictives_multiply_to_the_whole_history() -> None:
    case = gaussian_case(2, references.WHOLE_HISTORY)
    one, other = references.whole_history(*case), references.kalman(*case)
    for name in Reference.__dataclass_fields__:
        assert np.all(abs(getattr(one, name) - getattr(other, name)) < THIRTY_DIGITS)


def test_the_gaussian_posterior_is_least_squares_with_a_ridge() -> None:
    mean, covariance, noise_std, rows, rewards = gaussian_case(3, 20)
    answer = references.kalman(mean, covariance, noise_std, rows, rewards)
    precision = np.linalg.inv(covariance) + rows.T @ rows / noise_std**2
    target = np.linalg.solve(covariance, mean) + rows.T @ rewards / noise_std**2
    np.testing.assert_allclose(answer.mean.astype(float), np.linalg.solve(precision, target))
    np.testing.assert_allclose(answer.covariance.astype(float), np.linalg.inv(precision))


def test_urn_fractions_are_the_ratio_of_beta_functions() -> None:
    rewards = [1, 0, 0, 1, 1, 1, 0, 1]
    fraction = references.urn(0.7, 2.5, rewards)
    evidence, mean, _ = references.bernoulli_arm(0.7, 2.5, rewards)
    with mpmath.workdps(40):
        log_fraction = mpmath.log(mpmath.mpf(fraction.numerator) / fraction.denominator)
    assert abs(evidence - Decimal(mpmath.nstr(log_fraction, 40))) < THIRTY_DIGITS
    following = references.urn(0.7, 2.5, [*rewards, 1]) / fraction
    assert float(mean) == pytest.approx(float(following), rel=1e-15)


def test_counts_against_scipy() -> None:
    rewards = np.array([3, 0, 7, 2])
    evidence, mean, variance = references.poisson_arm(2.5, 0.5, rewards)
    grid = stats.gamma(2.5, scale=2.0)
    direct = grid.expect(lambda x: np.prod(stats.poisson.pmf(rewards[:, None], x), axis=0)[0])
    assert float(evidence) == pytest.approx(np.log(direct), rel=1e-7)
    posterior = stats.gamma(2.5 + 12, scale=1 / 4.5)
    assert (float(mean), float(variance)) == pytest.approx(posterior.stats("mv"), rel=1e-12)
    _, mean, variance = references.bernoulli_arm(2.0, 3.0, [1, 1, 0])
    assert (float(mean), float(variance)) == pytest.approx(stats.beta(4, 4).stats("mv"), rel=1e-12)


def test_exact_keeps_every_bit() -> None:
    values = np.array([0.1, 1e-300, 1e300, -1 / 3])
    assert [float(v) for v in exact(values)] == values.tolist()
    assert exact(0.1)[()] != Decimal("0.1")


def test_mixture_moments_are_those_of_the_law_of_total_variance() -> None:
    pieces = [
        Reference(Decimal(0), exact([0.0, 1.0]), exact(np.eye(2))),
        Reference(Decimal(2).ln(), exact([3.0, 1.0]), exact(2 * np.eye(2))),
    ]
    answer = references.mixture([0.5, 0.5], pieces)  # posterior weights 1/3 and 2/3
    np.testing.assert_allclose(answer.weights.astype(float), [1 / 3, 2 / 3])
    np.testing.assert_allclose(answer.mean.astype(float), [2.0, 1.0])
    np.testing.assert_allclose(answer.covariance.astype(float), np.diag([5 / 3 + 2.0, 5 / 3]))
