"""Shapes of regret and bound: numbers by hand, the rule at its edges, and what has no shape."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from mixts_paper.bounds import comparison
from mixts_paper.bounds.comparison import RULE, compare_shapes
from scipy import stats

from mixts.errors import ParameterError

# -- numbers ---------------------------------------------------------------------------------------


def test_a_multiple_has_the_shape() -> None:
    shape = compare_shapes([1.0, 2.0, 4.0], [30.0, 60.0, 120.0])
    assert shape.scale == pytest.approx(1 / 30, rel=1e-14)
    assert shape.relative_error == pytest.approx(0, abs=1e-14)
    assert shape.regret_growth == shape.bound_growth == 4
    assert shape.rank_correlation == pytest.approx(1)
    assert shape.linear_correlation == pytest.approx(1)
    assert shape.verdict == "holds"


def test_numbers_by_hand() -> None:
    """regret (3, 4) and bound (1, 1): c = 3.5, and 0.5 is left on both sides of (3.5, 3.5)."""
    shape = compare_shapes([3.0, 4.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0])
    assert shape.scale == pytest.approx(3.5)
    assert shape.relative_error == pytest.approx(0.5 / math.sqrt(12.5))
    assert shape.flat_error == pytest.approx(shape.relative_error)
    assert shape.regret_growth == pytest.approx(4 / 3)
    assert shape.bound_growth == 1
    assert math.isnan(shape.rank_correlation)
    assert math.isnan(shape.linear_correlation)


def test_the_scale_is_least_squares_and_the_error_an_angle() -> None:
    """The relative error is the sine of the angle between the two as vectors."""
    rng = np.random.default_rng(4)
    regret, bound = rng.uniform(1, 9, 7), rng.uniform(100, 900, 7)
    shape = compare_shapes(regret, bound)
    assert shape.scale == pytest.approx(np.linalg.lstsq(bound[:, None], regret)[0][0])
    cosine = regret @ bound / np.linalg.norm(regret) / np.linalg.norm(bound)
    assert shape.relative_error == pytest.approx(math.sqrt(1 - cosine**2))
    assert shape.linear_correlation == pytest.approx(np.corrcoef(regret, bound)[0, 1])
    ranks = np.corrcoef(stats.rankdata(regret), stats.rankdata(bound))[0, 1]
    assert shape.rank_correlation == pytest.approx(ranks)


def test_units_do_not_matter() -> None:
    """Not even those in which squares would overflow or vanish."""
    regret, bound = np.array([1.0, 2.0, 5.0]), np.array([2.0, 3.0, 11.0])
    errors = np.array([0.1, 0.2, 0.1])
    plain = compare_shapes(regret, bound, errors)
    for a, b in [(1e-150, 1e150), (1e150, 1e-150), (30.0, 1.0)]:
        scaled = compare_shapes(a * regret, b * bound, a * errors)
        assert scaled.relative_error == pytest.approx(plain.relative_error)
        assert scaled.flat_error == pytest.approx(plain.flat_error)
        assert scaled.rank_correlation == plain.rank_correlation
        assert scaled.verdict == plain.verdict
        if (a, b) == (30.0, 1.0):
            assert scaled.scale == pytest.approx(30 * plain.scale)


def test_a_first_regret_of_zero_grows_without_end() -> None:
    """The first point of the sweep over latent states: with one there is nothing to find."""
    shape = compare_shapes([0.0, 2.0, 4.0], [1.0, 2.0, 3.0])
    assert shape.regret_growth == math.inf
    assert "regret inf" in str(shape)
    assert math.isnan(compare_shapes([0.0, 1.0, 0.0], [1.0, 1.0, 1.0]).regret_growth)


# -- the rule --------------------------------------------------------------------------------------

RAMP = np.linspace(1, 2, 6)
RISE = np.arange(6) / 5


def with_error(error: float) -> Any:
    """A bound that is steeper than RAMP and misses it by this relative error."""
    off = RISE - 0.5
    off -= (off @ RAMP) / (RAMP @ RAMP) * RAMP
    off *= math.tan(math.asin(error)) * np.linalg.norm(RAMP) / np.linalg.norm(off)
    return RAMP + off


SMALL = np.full(6, 0.01)
CASES: dict[str, tuple[Any, Any, Any, str]] = {
    "a multiple": (RAMP, 7 * RAMP, None, "holds"),
    "falling together": (RAMP[::-1], 7 * RAMP[::-1], SMALL, "holds"),
    "near enough": (RAMP, with_error(0.1), None, "holds"),
    "too far for half of a constant's": (RAMP, with_error(0.13), None, "direction only"),
    "all flat": (np.ones(6), np.full(6, 9.0), None, "holds"),
    "flat but for noise": (1 + 0.01 * np.cos(np.arange(6)), np.full(6, 9.0), SMALL, "holds"),
    "flat, and a bound that hardly moves": (np.ones(6), 9 + 0.2 * RISE, SMALL, "holds"),
    "flat, and a bound that moves": (np.ones(6), RAMP, SMALL, "does not hold"),
    "a hump that the ends hide": (1 + 0.1 * np.sin(np.pi * RISE), RAMP**0, SMALL, "does not hold"),
    "the bound is constant": (1 + 0.2 * RISE, np.full(6, 9.0), SMALL, "does not hold"),
    "a small move, a bound that hardly moves": (1 + 0.2 * RISE, 9 + RISE / 9, SMALL,
                                                "direction only"),
    "a small move that the noise hides": (1 + 0.025 * RISE, RAMP, SMALL, "does not hold"),
    "the same without errors": (1 + 0.025 * RISE, RAMP, None, "direction only"),
    "growth against almost none": (30 * RISE, 9 + RISE, SMALL, "direction only"),
    "against each other": (RAMP, RAMP[::-1], SMALL, "does not hold"),
    "up by its ends alone": ([1.0, 9, 8, 7, 6, 1.5], [1.0, 2, 3, 4, 5, 6], None, "does not hold"),
    "another order": ([1.0, 1.2, 1.1, 1.4, 1.3, 1.6], [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], None,
                      "direction only"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_rule(case: str) -> None:
    regret, bound, errors, verdict = CASES[case]
    assert compare_shapes(regret, bound, errors).verdict == verdict


def test_the_examples_are_what_they_are_called() -> None:
    for error in (0.1, 0.13):
        shape = compare_shapes(RAMP, with_error(error))
        assert shape.relative_error == pytest.approx(error)
        assert shape.rank_correlation == pytest.approx(1)
    # Half of what a constant is off by: between the two.
    assert 0.1 < shape.flat_error / 2 < 0.13
    order = compare_shapes(*CASES["another order"][:2])
    assert order.relative_error < min(comparison.TOLERANCE, order.flat_error / 2)
    assert 0.5 < order.rank_correlation < 0.9


def test_the_tolerance_is_for_large_growth() -> None:
    """Where a constant is far off, 15 % is what counts."""
    regret, off = np.array([1.0, 2, 4, 8, 16, 32]), np.array([0, 0, 0, 0, 1.0, -0.5])
    off *= np.linalg.norm(regret) / np.linalg.norm(off)
    near, far = (
        compare_shapes(regret, regret + 0.1 * off),
        compare_shapes(regret, regret + 0.2 * off),
    )
    assert near.relative_error < 0.15 < far.relative_error < far.flat_error / 2
    assert near.rank_correlation == far.rank_correlation == pytest.approx(1)
    assert (near.verdict, far.verdict) == ("holds", "direction only")


def test_errors_say_whether_the_regret_moved() -> None:
    """Two standard errors of the difference: 2 sqrt(3^2 + 4^2) = 10."""
    bound = [1.0, 5.0, 25.0]
    for last, verdict in [(109.0, "does not hold"), (111.0, "direction only")]:
        assert compare_shapes([100.0, 105.0, last], bound, [3.0, 1.0, 4.0]).verdict == verdict


def test_the_rule_is_written_with_its_numbers() -> None:
    for text in ("at most 15%", "0.5 times", "at least 0.9", "at least 0.5", "2 standard errors"):
        assert text in RULE
    documented = compare_shapes.__doc__ or ""
    for number in ("15 %", "half", "at least 0.9", "at least 0.5", "2 standard"):
        assert number in documented
    for verdict in ("Holds:", "Direction only:", "Does not hold:"):
        assert len(re.findall(f"^{verdict}", RULE, re.MULTILINE)) == 1


def test_what_is_printed() -> None:
    shape = compare_shapes([10.5, 10.1, 14.6, 31.6], [1076.0, 3145, 9137, 24260], [0.3, 0.3, 1, 3])
    assert str(shape).splitlines() == [
        "ShapeComparison of regret and bound at 4 points",
        "  first point: regret 10.5 ± 0.3, bound 1076",
        "  last point: regret 31.6 ± 3, bound 2.426e+04",
        "  growth factors: regret 3.01, bound 22.5",
        "  best scale: 0.001381 (1/724.3), relative error 29.3% (of a constant: 46.5%)",
        "  correlation: rank 0.800, linear 0.988",
        "  shape: direction only",
    ]
    assert "first point: regret 1, bound 3\n" in str(compare_shapes([1.0, 2.0], [3.0, 4.0]))


# -- errors ----------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, str]] = {
    "one point": (([1.0], [1.0]), r"at least 2 of them, got shape \(1,\)"),
    "no point": (([], []), "at least 2 of them, got shape"),
    "a number": ((1.0, 2.0), r"regret must be .* got shape \(\)"),
    "a table": (([[1.0, 2.0]], [1.0, 2.0]), r"regret must be .* got shape \(1, 2\)"),
    "unknown regret": (([1.0, math.nan], [1.0, 2.0]), "regret must be .* got nan at point 1"),
    "negative regret": (([-1.0, 2.0], [1.0, 2.0]), "regret must be .* got -1.0 at point 0"),
    "no regret": (([0.0, 0.0], [1.0, 2.0]), "the regret is 0 at every point"),
    "infinite bound": (([1.0, 2.0], [1.0, math.inf]), "bound must be .* got inf at point 1"),
    "no bound": (
        ([1.0, 2.0], [0.0, 2.0]),
        r"bound must be a finite number, above 0, .* got 0.0 at point 0",
    ),
    "lengths": (([1.0, 2.0], [1.0, 2.0, 3.0]), "same points, got {'regret': 2, 'bound': 3}"),
    "few errors": (([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 1.0]), "same points.*'errors': 2"),
    "unknown errors": (([1.0, 2.0], [1.0, 2.0], [math.nan, 1.0]), "errors must be .* got nan"),
    "words": ((["a", "b"], [1.0, 2.0]), "regret must be .* got type"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", BAD)
def test_what_has_no_shape_is_refused(case: str) -> None:
    given, message = BAD[case]
    with pytest.raises(ParameterError, match=message):
        compare_shapes(*given)


@pytest.mark.parametrize("error", [0.145, 0.155])
def test_near_its_limit_the_relative_error_decides_nothing(error: float) -> None:
    """On either side of 15 %: small errors of the regret decide, large ones do not."""
    regret = np.linspace(1.0, 4.0, 8)
    wave = np.where(np.arange(8) % 2, 1.0, -1.0)
    bound = regret + error * np.sqrt(np.mean(regret**2)) * wave
    exact = compare_shapes(regret, bound, np.full(8, 1e-6))
    assert exact.rank_correlation >= 0.9
    assert exact.verdict == ("holds" if exact.relative_error <= 0.15 else "direction only")
    assert compare_shapes(regret, bound, np.full(8, 0.2)).verdict == "undecided"
