"""Whether a bound has the shape of the regret it bounds, over a sweep of some parameter.

Bounds are far above what is lost, so they are scaled before they are compared, as the paper's
figures do. Whether they then agree is said by a rule with numbers in it, :data:`RULE`, which was
written before there were results to apply it to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float
from mixts.errors import ParameterError

Verdict = Literal["holds", "direction only", "undecided", "does not hold"]
"""``undecided``: the estimate is within two standard errors of the threshold."""

TOLERANCE = 0.15
"""The largest relative error of a scaled bound that has the shape: a curve and a bound that differ
by more are seen to differ in a figure."""

FLAT_SHARE = 0.5
"""A bound that has the shape is off by at most this part of what a constant is off by. Otherwise,
where the regret hardly moves, any bound that hardly moves would have its shape."""

SAME_ORDER = 0.9
"""The least rank correlation of a bound that has the shape: of ten points a few neighbours may have
changed places."""

SAME_DIRECTION = 0.5
"""The least rank correlation of a bound that has the direction."""

N_ERRORS = 2.0
"""What differs by no more than so many standard errors is not seen to differ."""

_ROUNDING = 1e-9
"""Bounds that differ by less, relatively, are equal."""

RULE = f"""\
The bound is scaled by the one factor c that minimises the sum of squares of regret - c bound over \
the points of the sweep. Relative error: the root mean square of regret - c bound, divided by that \
of the regret. Regret or scaled bound moves if its two ends differ by more than {N_ERRORS:g} \
standard errors of the difference of the regrets there.
Holds: the relative error is at most {TOLERANCE:.0%}, and either it is also at most \
{FLAT_SHARE:g} times that of the best constant, with a rank correlation of at least \
{SAME_ORDER:g}, or there is nothing to be seen: neither moves, and the root mean square of regret \
- c bound is at most {N_ERRORS:g} times that of the standard errors.
Direction only: otherwise, if the regret moves, the bound differs between the ends in the same \
direction, and the rank correlation is at least {SAME_DIRECTION:g}.
Does not hold: otherwise."""


@dataclass(frozen=True, repr=False)
class ShapeComparison:
    """Regret and bound over a sweep; made by :func:`compare_shapes`."""

    regret: Float[Array, " p"]
    """At the points of the sweep, in order."""
    bound: Float[Array, " p"]
    errors: Float[Array, " p"] | None
    """Standard errors of the regret; without them any difference counts."""
    scale: float
    """c: the factor by which the bound comes nearest to the regret."""
    relative_error: float
    """Root mean square of regret - c bound, divided by that of the regret."""
    flat_error: float
    """The same of the best constant in place of the bound: how much there is to explain."""
    rank_correlation: float
    """Spearman's; NaN where regret or bound is constant."""
    linear_correlation: float
    """Pearson's; NaN where regret or bound is constant."""
    verdict: Verdict
    """By :data:`RULE`."""

    @property
    def regret_growth(self) -> float:
        """Last regret / first; infinite where the first is 0."""
        return _growth(self.regret)

    @property
    def bound_growth(self) -> float:
        """Last bound / first."""
        return _growth(self.bound)

    @property
    def lines(self) -> list[str]:
        """What is to be printed, without the rule."""
        first, last = (
            f"regret {self.regret[i]:.4g}"
            + (f" ± {self.errors[i]:.2g}" if self.errors is not None else "")
            + f", bound {self.bound[i]:.4g}"
            for i in (0, -1)
        )
        return [
            f"first point: {first}",
            f"last point: {last}",
            f"growth factors: regret {self.regret_growth:.3g}, bound {self.bound_growth:.3g}",
            f"best scale: {self.scale:.4g} (1/{1 / self.scale:.4g}), relative error "
            f"{self.relative_error:.1%} (of a constant: {self.flat_error:.1%})",
            f"correlation: rank {self.rank_correlation:.3f}, linear {self.linear_correlation:.3f}",
            f"shape: {self.verdict}",
        ]

    def __repr__(self) -> str:
        head = f"ShapeComparison of regret and bound at {len(self.regret)} points"
        return "\n  ".join([head, *self.lines])


def compare_shapes(
    regret: ArrayLike, bound: ArrayLike, errors: ArrayLike | None = None
) -> ShapeComparison:
    """Compare regret with a bound over the points of a sweep, in the sweep's order.

    ``errors`` are standard errors of the regret. The verdict follows this rule (:data:`RULE`):

    - The bound is scaled by c = sum(regret bound) / sum(bound^2), which minimises the sum of
      squares of regret - c bound. The relative error is the root mean square of what is left,
      divided by that of the regret.
    - Regret or scaled bound moves if its two ends differ by more than 2 standard errors of the
      difference of the regrets there.
    - "holds": the relative error is at most 15 %; besides, it is at most half of that of the best
      constant and the rank correlation is at least 0.9, or neither moves and what is left is at
      most twice the root mean square of the errors.
    - "direction only": otherwise, if the regret moves, the bound's ends differ in the same
      direction, and the rank correlation is at least 0.5.
    - "does not hold": otherwise.

    Every point counts the same in the scale. Weights from the errors would let the points with the
    smallest regret decide, which have the smallest errors; and what is left between regret and
    bound is not noise, for which weights would be right, but the difference that is asked about.
    Heavy tails make it worse: a sample that misses the rare long runs has a small mean and a small
    error at once. Errors say only whether the regret moved at all.

    A regret of 0 is allowed, but not everywhere; bounds are above 0.
    """
    r, b = _column(regret, "regret"), _column(bound, "bound")
    e = None if errors is None else _column(errors, "errors")
    _check(r, b, e)
    # Only their shapes count: units that make squares overflow or vanish must not.
    r_unit, b_unit = r.max(), b.max()
    x, y = b / b_unit, r / r_unit
    scale = float(x @ y / (x @ x))
    level = _rms(y)
    relative_error, flat_error = _rms(y - scale * x) / level, _rms(y - y.mean()) / level
    rank, linear = _correlations(y, x)
    noise = np.zeros_like(y) if e is None else e / r_unit
    verdict: Verdict = "does not hold"
    if _same_shape(relative_error, flat_error, rank) or _nothing_to_see(y, scale * x, noise):
        verdict = "holds"
    elif _same_direction(y, x, noise) and rank >= SAME_DIRECTION:
        verdict = "direction only"
    return ShapeComparison(
        r, b, e, scale * float(r_unit / b_unit), relative_error, flat_error, rank, linear, verdict
    )


def _same_shape(relative_error: float, flat_error: float, rank: float) -> bool:
    near = relative_error <= min(TOLERANCE, FLAT_SHARE * flat_error)
    return near and rank >= SAME_ORDER


def _nothing_to_see(
    regret: Float[Array, " p"], scaled: Float[Array, " p"], noise: Float[Array, " p"]
) -> bool:
    """Neither of them moves, and the errors explain what is left."""
    left, level = _rms(regret - scaled), _rms(regret)
    still = all(abs(x[-1] - x[0]) <= _visible(noise) + _ROUNDING for x in (regret, scaled))
    return still and left <= min(TOLERANCE * level, N_ERRORS * _rms(noise) + _ROUNDING)


def _same_direction(
    regret: Float[Array, " p"], bound: Float[Array, " p"], noise: Float[Array, " p"]
) -> bool:
    change, predicted = regret[-1] - regret[0], bound[-1] - bound[0]
    moves = abs(change) > _visible(noise) and abs(predicted) > _ROUNDING
    return bool(moves and (change > 0) == (predicted > 0))


def _visible(noise: Float[Array, " p"]) -> float:
    """What the difference of the regrets at the two ends must exceed."""
    return N_ERRORS * math.hypot(noise[0], noise[-1])


def _correlations(y: Float[Array, " p"], x: Float[Array, " p"]) -> tuple[float, float]:
    """Spearman's and Pearson's; both unknown where one side is constant."""
    from scipy import stats  # takes long to import, and not everybody compares

    if min(np.ptp(x), np.ptp(y)) <= _ROUNDING:
        return math.nan, math.nan
    return float(stats.spearmanr(y, x).statistic), float(stats.pearsonr(y, x).statistic)


def _rms(values: Float[Array, " p"]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _growth(values: Float[Array, " p"]) -> float:
    if values[0] == 0:
        return math.inf if values[-1] > 0 else math.nan
    return float(values[-1] / values[0])


def _column(value: Any, name: str) -> Float[Array, " p"]:
    expected = f"{name} must be a finite number, at least 0, for each point of a sweep"
    array = _checks.numbers(value, expected, ParameterError)
    if array.ndim != 1:
        raise ParameterError(f"{expected}, got shape {array.shape}")
    if len(array) < 2:
        raise ParameterError(f"{name} must have at least 2 points to have a shape, got {array}")
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        at = int(np.argmin(good))
        raise ParameterError(f"{expected}, got {array[at]} at point {at}")
    return array


def _check(regret: Array, bound: Array, errors: Array | None) -> None:
    given = {"regret": regret, "bound": bound, **({} if errors is None else {"errors": errors})}
    lengths = {name: len(array) for name, array in given.items()}
    if len(set(lengths.values())) != 1:
        raise ParameterError(f"regret, bound and errors must have the same points, got {lengths}")
    if not (bound > 0).all():
        at = int(np.argmin(bound > 0))
        raise ParameterError(f"the bound must be above 0, got {bound[at]} at point {at}")
    if not (regret > 0).any():
        raise ParameterError("the regret is 0 at every point: it has no shape to compare")
