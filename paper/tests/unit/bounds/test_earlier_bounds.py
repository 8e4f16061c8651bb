"""The bounds beside Theorem 1, and the steps of its proof, by other arithmetic and brute force."""

from __future__ import annotations

import inspect
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from mixts_paper.bounds import (
    crossing,
    feature_width,
    linear_bound,
    lints_order,
    theorem1,
    theorem1_terms,
)
from mixts_paper.bounds.lemmas import (
    first_part_bound,
    log_determinant_bound,
    norm_series_bound,
    norm_sum_bound,
    prior_width,
    round_bound,
    second_part_bound,
    trace_bound,
    width_sum_bound,
)

from mixts.errors import ParameterError

SYNTHETIC = {"d": 30, "noise_std": 0.1, "kappa": 1.0, "max_prior_variance": 0.0025}
"""The synthetic bandit of Sec. 6.1 at width 0.05."""

# -- earlier work ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        (1, 1, 1, 1.0, 1.0, 1.0),
        (1000, 30, 30, 0.1, 1.0, 0.0025),
        (50, 3, 5, 2.0, 0.5, 1e-9),
        (10**9, 100, 100, 0.5, 7.0, 1e6),
        (10, 4, 3, 0.5, 1.0, 0.0),
    ],
)
def test_the_linear_bound_holds_the_norms_at_the_priors(problem: tuple[Any, ...]) -> None:
    """F sqrt(d log(dn)) kappa sqrt(lambda) n in the place of Theorem 1's first term."""
    n, d, _, _, kappa, variance = problem
    with mpmath.workdps(50):
        norm = mpmath.mpf(kappa) * mpmath.sqrt(mpmath.mpf(variance))
        per_norm = float(mpmath.sqrt(d * mpmath.log(d * n)) * norm * n)
    for form, factor in [("statement", 6.0), ("appendix", 4.0)]:
        terms = theorem1_terms(*problem, form=form)
        expected = factor * per_norm + terms.identification + terms.constant
        assert linear_bound(*problem, form=form) == pytest.approx(expected, rel=1e-13)
    assert prior_width(n, d, kappa, variance) * n == pytest.approx(math.sqrt(2) * per_norm)
    assert type(linear_bound(*problem)) is float


def test_no_width_is_larger_than_the_priors() -> None:
    norm = np.array([1.3 * math.sqrt(0.7)])
    assert feature_width(norm, 4, 50) == pytest.approx(prior_width(50, 4, 1.3, 0.7))


def test_it_is_linear_and_theorem_1_is_not() -> None:
    """Per round, at ever longer horizons: one stays (but for its logarithm), one goes to 0."""
    n = np.array([10**4, 10**6, 10**8])
    linear = linear_bound(n, n_components=30, **SYNTHETIC) / n
    ours = theorem1(n, n_components=30, **SYNTHETIC) / n
    assert (np.diff(linear) > -0.02 * linear[0]).all()
    assert (ours[1:] < 0.2 * ours[:-1]).all()


@pytest.mark.parametrize("variance", [1e-7, 1e-4, 0.0025, 0.01, 0.25, 100.0])
@pytest.mark.parametrize("form", ["statement", "appendix"])
def test_they_cross_where_it_says(variance: float, form: Any) -> None:
    d, sigma, kappa = 30, 0.1, 1.5
    at = crossing(d, sigma, kappa, variance)
    n = np.array([0.99 * at, at, 1.01 * at])
    problem = (d, 12, sigma, kappa, variance)
    gap = theorem1(n, *problem, form=form) - linear_bound(n, *problem, form=form)
    assert gap[0] > 0 > gap[2]
    assert gap[1] == pytest.approx(0, abs=1e-9 * linear_bound(at, *problem, form=form))


def test_tight_priors_cross_at_twice_the_dimension() -> None:
    for variance in (1e-9, 1e-10, 1e-11, 1e-30):
        assert crossing(7, 0.1, 1.0, variance) == pytest.approx(14, rel=1e-6)
    assert math.isnan(crossing(7, 0.1, 1.0, 0.0))
    # The width of the paper's second sweep: some sixty rounds of a thousand.
    assert 2 * 30 < crossing(**SYNTHETIC) < 70


def test_the_order_of_lints() -> None:
    assert lints_order(100, 9) == pytest.approx(27 * 10)
    np.testing.assert_allclose(lints_order([1, 4], 4), [8, 16])


# -- the steps of the proof ------------------------------------------------------------------------


def test_the_steps_by_hand() -> None:
    """d = 4, sigma = 0.5, kappa = 2, lambda = 0.3, n = 10: kappa^2 lambda / sigma^2 = 4.8."""
    n, size = 10, (4, 0.5, 2.0, 0.3)
    determinant = 4 * math.log(1 + 10 * 4.8 / 4)
    assert log_determinant_bound(n, *size) == pytest.approx(determinant)
    norms = math.sqrt(0.25 * 5.8 * n * determinant)
    assert norm_sum_bound(n, *size) == pytest.approx(norms)
    assert width_sum_bound(n, *size) == pytest.approx(math.sqrt(8 * math.log(40)) * norms)
    most = math.sqrt(2 * 4 * 0.3 * 4 * math.log(40)) + 2
    assert round_bound(n, 4, 2.0, 0.3) == pytest.approx(most)
    first = 17 + math.sqrt(4 * 0.3 * 4 / (2 * math.pi))
    assert first_part_bound(17.0, 4, 2.0, 0.3) == pytest.approx(first)
    second = math.sqrt(2) * 17 + 2 * 0.5 * math.sqrt(3 * n * math.log(n)) + 9 * most
    assert second_part_bound(17.0, n, 4, 3, 0.5, 2.0, 0.3) == pytest.approx(second)
    assert norm_series_bound(2.0, 0.5, 2.0, 0.3) == pytest.approx(0.25 * 5.8 * 2)
    assert trace_bound(n, 4, 0.5, 2.0, 8.0) == pytest.approx(4 * math.log(1 + 10 * 4 / 0.25 / 8))
    assert trace_bound(n, 4, 0.5, 2.0, math.inf) == 0


def test_the_steps_lead_to_the_end_of_the_proof() -> None:
    """2 + sqrt(2) in front of Term 1, where the appendix has 4; the constants are its own."""
    n, L = 1000, 30
    d, sigma, kappa, variance = SYNTHETIC.values()
    widths = width_sum_bound(n, d, sigma, kappa, variance)
    outside = kappa * math.sqrt(variance * d / (2 * math.pi)) + kappa
    total = (
        first_part_bound(widths, d, kappa, variance)
        + second_part_bound(widths, n, d, L, sigma, kappa, variance)
        + outside
    )
    terms = theorem1_terms(n, d, L, sigma, kappa, variance, form="appendix")
    ours = (2 + math.sqrt(2)) / 4 * terms.learning + terms.identification + terms.constant
    # The appendix's 4 L kappa has room for the kappa of L = 1.
    assert total == pytest.approx(ours - (L - 1) * kappa, rel=1e-12)
    assert total < terms.bound
    assert theorem1_terms(n, d, L, sigma, kappa, variance).learning == pytest.approx(
        3 * math.sqrt(2) * widths
    )


def posterior(covariance: Any, features: Any, sigma: float) -> tuple[list[float], float]:
    """||A_t||^2 round by round and the log of the determinants' ratio, inverted as printed."""
    precision = np.linalg.inv(covariance)
    start, norms = np.linalg.slogdet(precision).logabsdet, []
    for a in features:
        norms.append(float(a @ np.linalg.inv(precision) @ a))
        precision = precision + np.outer(a, a) / sigma**2
    return norms, float(np.linalg.slogdet(precision).logabsdet - start)


@pytest.mark.parametrize("seed", range(8))
def test_the_steps_that_follow_hold_whatever_is_played(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n, sigma = 4, int(rng.integers(1, 60)), float(rng.uniform(0.05, 3))
    root = rng.normal(size=(d, d)) * rng.uniform(0.01, 2, d)
    covariance = root @ root.T
    features = rng.normal(size=(n, d)) * rng.uniform(0.1, 2)
    kappa = float(np.linalg.norm(features, axis=1).max())
    largest = float(np.linalg.eigvalsh(covariance).max())
    squares, ratio = posterior(covariance, features, sigma)
    assert sum(squares) <= norm_series_bound(ratio, sigma, kappa, largest)
    assert ratio <= log_determinant_bound(n, d, sigma, kappa, largest)
    assert sum(map(math.sqrt, squares)) <= norm_sum_bound(n, d, sigma, kappa, largest)
    isotropic, even = posterior(largest * np.eye(d), features, sigma)
    assert (np.array(squares) <= np.array(isotropic) * (1 + 1e-9)).all()
    bound = trace_bound(n, d, sigma, kappa, d / largest)
    assert even <= bound == pytest.approx(log_determinant_bound(n, d, sigma, kappa, largest))


def test_lemma_2_is_tight_where_little_is_learned() -> None:
    """x <= (1 + C) log(1 + x) is an equation at 0: one round of a tight prior."""
    squares, ratio = posterior(1e-6 * np.eye(2), np.eye(2)[:1], 1.0)
    assert squares[0] == pytest.approx(norm_series_bound(ratio, 1.0, 1.0, 1e-6), rel=1e-5)
    # A smaller C would not do: at x = C the tangent from 0 is (1 + C) log(1 + C) / C.
    wide, ratio = posterior(1e4 * np.eye(2), np.eye(2)[:1], 1.0)
    assert wide[0] > 0.1 * norm_series_bound(ratio, 1.0, 1.0, 1e4)


def test_the_step_with_the_trace_fails_for_an_uneven_prior() -> None:
    """One direction nearly known: its precision fills the trace, and nothing seems learned."""
    covariance = np.diag([1.0, 1e-4])
    _, ratio = posterior(covariance, np.tile([1.0, 0.0], (10, 1)), 1.0)
    assert ratio == pytest.approx(math.log(11))
    trace = float(np.trace(np.linalg.inv(covariance)))
    assert trace_bound(10, 2, 1.0, 1.0, trace) < 0.01 * ratio
    assert ratio <= log_determinant_bound(10, 2, 1.0, 1.0, 1.0)


def test_the_step_with_the_maxima_fails_for_components_with_directions_of_their_own() -> None:
    """Two components, each wide where the other is not; both directions are played."""
    features = np.tile(np.eye(2), (5, 1))
    norms = np.array([posterior(np.diag(v), features, 10.0)[0] for v in ([1, 1e-6], [1e-6, 1])])
    maxima, root = np.sqrt(norms.max(axis=0)).sum(), math.sqrt(10 * norms.sum(axis=1).max())
    assert maxima > 1.3 * root
    assert maxima <= norm_sum_bound(10, 2, 10.0, 1.0, 1.0)


def test_curves_are_their_points() -> None:
    n = np.array([[1, 10], [100, 1000]])
    for bound in (log_determinant_bound, norm_sum_bound, width_sum_bound):
        points = [[bound(int(k), **SYNTHETIC) for k in row] for row in n]
        np.testing.assert_allclose(bound(n, **SYNTHETIC), points, rtol=1e-14)
        assert type(points[0][0]) is float
    points = [[linear_bound(int(k), n_components=5, **SYNTHETIC) for k in row] for row in n]
    np.testing.assert_allclose(linear_bound(n, n_components=5, **SYNTHETIC), points, rtol=1e-14)
    states = norm_series_bound([[1.0, 2.0]], 0.5, 2.0, [0.1, 0.2])
    np.testing.assert_allclose(states, [[0.65, 2.1]])


# -- errors ----------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "n": (linear_bound, {"n": 0}, "n must be .* at least 1, got 0"),
    "d": (linear_bound, {"d": 0}, "d must be a whole number"),
    "components": (linear_bound, {"n_components": 0.5}, "n_components must be"),
    "noise": (linear_bound, {"noise_std": 0.0}, "noise_std must be"),
    "kappa": (linear_bound, {"kappa": -1.0}, "kappa must be"),
    "variance": (linear_bound, {"max_prior_variance": -1.0}, "max_prior_variance must be"),
    "form": (linear_bound, {"form": "proof"}, "form must be .* got 'proof'"),
    "unhashable": (linear_bound, {"form": ["width"]}, "form must be"),
    "order": (lints_order, {"n": [3, 0]}, "n must be"),
    "crossing": (crossing, {"noise_std": -0.1}, "noise_std must be"),
}  # fmt: skip
GOOD = {"n": 10, "n_components": 3, **SYNTHETIC}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case: str) -> None:
    bound, change, message = BAD[case]
    arguments = {name: GOOD[name] for name in inspect.signature(bound).parameters if name in GOOD}
    assert math.isfinite(bound(**arguments))
    with pytest.raises(ParameterError, match=message):
        bound(**{**arguments, **change})
