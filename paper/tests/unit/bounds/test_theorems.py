"""Both theorems term by term, by other arithmetic, and the widths of the proofs."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from mixts_paper.bounds import (
    feature_width,
    reward_width,
    theorem1,
    theorem1_terms,
    theorem2,
    theorem2_terms,
    transition_width,
)

import mixts
from mixts.errors import ParameterError

PAPER = {
    "n_states": 10,
    "n_actions": 2,
    "horizon": 20,
    "n_components": 2,
    "min_pseudo_count": 30.0,
}
"""RiverSwim: Sec. 6.3, at the default strength of its prior."""


def statement(n: int, x: int, a: int, h: int, L: int, least: float) -> Any:
    """The display of the theorem, in fifty digits, without c_2."""
    c1 = mpmath.log(1 + mpmath.mpf(h) * n / (2 * x * a * mpmath.mpf(least)))
    first = 6 * x * mpmath.sqrt(h**3) * mpmath.sqrt(c1 * a * n * mpmath.log(4 * x * a * n))
    return first + mpmath.sqrt(mpmath.mpf(L) * h * n * mpmath.log(n))


def appendix(n: int, x: int, a: int, h: int, L: int, least: float) -> Any:
    """The last display of App. B."""
    inner = mpmath.log(1 + mpmath.mpf(n) * h / (2 * x * a * mpmath.mpf(least)))
    first = 4 * x * h * mpmath.sqrt(2 * a * n * h * mpmath.log(4 * x * a * n) * inner)
    return first + 2 * x * a * h**2 + mpmath.sqrt(L * n * h * mpmath.log(n)) + 3 * L * h


PROBLEMS = [
    (1, 1, 1, 1, 1, 1.0),
    (1000, 10, 2, 20, 2, 30.0),
    (50, 3, 4, 7, 5, 0.25),
    (10**9, 40, 3, 100, 30, 1e-6),
    (7, 2, 5, 3, 11, 1e9),
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_both_forms_are_the_papers(problem: tuple[Any, ...]) -> None:
    with mpmath.workdps(50):
        expected = float(statement(*problem)), float(appendix(*problem))
    got = theorem2(*problem), theorem2(*problem, form="appendix")
    assert got == pytest.approx(expected, rel=1e-14)
    assert all(type(value) is float for value in got)


def test_at_the_papers_setting_it_is_far_above_what_can_be_lost() -> None:
    """1.3 million against n h = 20,000."""
    assert theorem2(1000, **PAPER) == pytest.approx(1_367_065, abs=1)
    assert theorem2(1000, **PAPER, form="appendix") == pytest.approx(1_305_031, abs=1)


@pytest.mark.parametrize("form", ["statement", "appendix"])
def test_the_terms_add_up_and_each_is_what_it_says(form: Any) -> None:
    terms = theorem2_terms(1000, **PAPER, form=form)
    assert terms.bound == theorem2(1000, **PAPER, form=form)
    assert terms.bound == terms.learning + terms.identification + terms.constant
    assert terms.c1 == pytest.approx(math.log(1 + 20_000 / 1200), rel=1e-14)
    assert terms.identification == pytest.approx(math.sqrt(40_000 * math.log(1000)), rel=1e-14)
    assert terms.constant == (0.0 if form == "statement" else 2 * 20 * 400 + 3 * 2 * 20)


def test_the_forms_differ_in_one_factor_and_the_constant() -> None:
    stated, proved = (theorem2_terms(77, **PAPER, form=f) for f in ("statement", "appendix"))
    assert stated.learning / proved.learning == pytest.approx(6 / (4 * math.sqrt(2)), rel=1e-14)
    assert stated[0] == proved[0]
    assert stated.identification == proved.identification


def test_a_curve_is_its_points() -> None:
    n = np.array([[1, 10, 100], [2, 20, 200]])
    curve = theorem2_terms(n, **PAPER, form="appendix")
    assert curve.learning.shape == curve.identification.shape == n.shape
    points = [[theorem2(int(k), **PAPER, form="appendix") for k in row] for row in n]
    np.testing.assert_allclose(curve.bound, points, rtol=1e-15)
    assert theorem2([5.0], **PAPER).shape == (1,)


def test_a_tight_prior_leaves_the_second_term() -> None:
    tight = theorem2_terms(1000, **{**PAPER, "min_pseudo_count": 1e60})
    assert tight.learning < 1e-20
    assert tight.bound == pytest.approx(tight.identification)


BAD = {
    "n zero": ({"n": 0}, "n must be .* at least 1, got 0"),
    "n in a curve": ({"n": [3, -2]}, r"n must be .* at least 1, got \[-2\.\]"),
    "n unknown": ({"n": math.nan}, "n must be .* got nan"),
    "n infinite": ({"n": math.inf}, "n must be .* got inf"),
    "n truth": ({"n": True}, "n must be .* got True"),
    "n a word": ({"n": "ten"}, "n must be .* got type"),
    "no states": ({"n_states": 0}, "n_states must be a whole number, at least 1, got 0"),
    "half an action": ({"n_actions": 1.5}, "n_actions must be a whole number.* got 1.5"),
    "horizon": ({"horizon": -1}, "horizon must be .* got -1"),
    "components": ({"n_components": None}, "n_components must be .* got None"),
    "pseudo-count zero": ({"min_pseudo_count": 0.0}, "min_pseudo_count must be .* got 0.0"),
    "pseudo-count unknown": ({"min_pseudo_count": math.nan}, "min_pseudo_count must be .* got nan"),
    "form": ({"form": "proof"}, 'form must be "statement" or "appendix", got \'proof\''),
    "form unhashable": ({"form": ["appendix"]}, "form must be .* got"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("change", BAD)
def test_bad_arguments_are_named(change: str) -> None:
    arguments, message = BAD[change]
    with pytest.raises(ParameterError, match=message):
        theorem2(**{"n": 10, **PAPER, **arguments})


# -- theorem 1 ------------------------------------------------------------------------------------

SYNTHETIC = {"d": 30, "n_components": 30, "noise_std": 0.1, "kappa": 1.0}
"""The synthetic bandit: Sec. 6.1."""


def linear_statement(n: int, d: int, L: int, sigma: float, kappa: float, variance: float) -> Any:
    """Eq. 5, in fifty digits, without c_2."""
    ratio = mpmath.mpf(kappa) ** 2 * mpmath.mpf(variance) / mpmath.mpf(sigma) ** 2
    c1 = (1 + ratio) * mpmath.log(1 + ratio * n / d)
    first = 6 * mpmath.mpf(sigma) * d * mpmath.sqrt(c1 * n * mpmath.log(d * n))
    return first + 2 * mpmath.mpf(sigma) * mpmath.sqrt(L * n * mpmath.log(n))


def linear_appendix(n: int, d: int, L: int, sigma: float, kappa: float, variance: float) -> Any:
    """The last display of App. A."""
    s2, k2 = mpmath.mpf(sigma) ** 2, mpmath.mpf(kappa) ** 2
    v = mpmath.mpf(variance)
    growth = mpmath.log(1 + n * k2 * v / (s2 * d))
    first = 4 * d * mpmath.sqrt(s2 * (1 + k2 * v / s2) * n * mpmath.log(d * n) * growth)
    second = 2 * mpmath.sqrt(s2 * L * n * mpmath.log(n))
    rest = 3 * L * mpmath.sqrt(2 * k2 * v * d * mpmath.log(d * n))
    return first + second + rest + 2 * mpmath.sqrt(k2 * v * d / (2 * mpmath.pi)) + 4 * L * kappa


@pytest.mark.parametrize(
    "problem",
    [
        (1, 1, 1, 1.0, 1.0, 1.0),
        (1000, 30, 30, 0.1, 1.0, 0.0025),
        (50, 3, 5, 2.0, 0.5, 1e-9),
        (10**9, 100, 100, 0.5, 7.0, 1e6),
    ],
)
def test_both_forms_of_theorem_1_are_the_papers(problem: tuple[Any, ...]) -> None:
    with mpmath.workdps(50):
        expected = float(linear_statement(*problem)), float(linear_appendix(*problem))
    got = theorem1(*problem), theorem1(*problem, form="appendix")
    assert got == pytest.approx(expected, rel=1e-14)
    assert all(type(value) is float for value in got)


def test_with_a_certain_prior_only_the_latent_state_is_to_be_found() -> None:
    stated = theorem1_terms(1000, **SYNTHETIC, max_prior_variance=0)
    assert stated.c1 == stated.learning == stated.constant == 0
    assert stated.bound == pytest.approx(0.2 * math.sqrt(30_000 * math.log(1000)))
    proved = theorem1_terms(1000, **SYNTHETIC, max_prior_variance=0, form="appendix")
    assert proved.constant == 4 * 30


def test_a_curve_of_theorem_1_is_its_points() -> None:
    n = np.array([1, 10, 1000])
    for form in ("statement", "appendix"):
        curve = theorem1_terms(n, **SYNTHETIC, max_prior_variance=0.01, form=form)
        points = [theorem1(int(k), **SYNTHETIC, max_prior_variance=0.01, form=form) for k in n]
        np.testing.assert_allclose(curve.bound, points, rtol=1e-15)
        assert all(np.shape(part) == (3,) for part in curve)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_the_largest_prior_variance(kind: Any) -> None:
    """Of whichever component and direction has it."""
    root = np.random.default_rng(0).normal(size=(3, 3))
    full = np.stack([np.diag([1.0, 2.0, 0.5]), root @ root.T])
    covariance = {
        "full": full,
        "tied": full[1],
        "diag": [[1.0, 2.0, 0.5], [3.0, 0.1, 0.1]],
        "spherical": [0.5, 4.0],
    }[kind]
    family = mixts.LinearGaussian(np.zeros((2, 3)), covariance, 1.0, covariance_type=kind)
    largest = max(np.linalg.norm(one, 2) for one in family.full_covariances())
    assert family.max_prior_variance == pytest.approx(largest, rel=1e-12)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0}, "n must be"),
        ({"d": 2.5}, "d must be a whole number"),
        ({"n_components": 0}, "n_components must be"),
        ({"noise_std": 0}, "noise_std must be"),
        ({"kappa": -1}, "kappa must be"),
        ({"max_prior_variance": -1e-3}, "max_prior_variance must be .* at least 0, got -0.001"),
        ({"max_prior_variance": math.nan}, "max_prior_variance must be .* got nan"),
        ({"max_prior_variance": [1.0]}, r"max_prior_variance must be .* got \[1.0\]"),
        ({"form": "proof"}, "form must be"),
    ],
)
def test_bad_arguments_of_theorem_1_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        theorem1(**{"n": 10, **SYNTHETIC, "max_prior_variance": 0.01, **change})


# -- widths ---------------------------------------------------------------------------------------


def test_widths_are_the_papers() -> None:
    """By hand: d = 3 and n = 40; |X| = 5, |A| = 2 and n = 100."""
    norm, totals = np.array([0.0, 0.5]), np.array([3.0, 0.0, 99.0])
    expected = [0.0, 0.5 * math.sqrt(6 * math.log(120))]
    np.testing.assert_allclose(feature_width(norm, 3, 40), expected)
    c = [math.sqrt(2 * math.log(2000) / (k + 1)) for k in totals]
    np.testing.assert_allclose(reward_width(totals, 5, 2, 100), c)
    phi = [math.sqrt(20 * math.log(4000) / (k + 1)) for k in totals]
    np.testing.assert_allclose(transition_width(totals, 5, 2, 100), phi)
