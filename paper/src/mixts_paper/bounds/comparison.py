"""Bounds of earlier work beside Theorem 1, and bounds compared with measured regret.

**Earlier bounds.** Sec. 4.3 gives orders only, without constants and logarithms:

- Hong et al. (2020), "Latent Bandits Revisited", with the same algorithm: c' n + sqrt(L n), where
  c' is proportional to the prior's largest width sqrt(lambda). It is linear in n because it
  does not use what is learned about the parameters.
- Abeille and Lazaric (2017), for LinTS: d^(3/2) sqrt(n). It is frequentist: it holds whatever the
  parameters are, and no prior helps it.

For the first bound, this paper's own proof supplies comparable constants. The norms of the
posterior, which the last step of App. A sums up, are held at the prior's, each at most
kappa sqrt(lambda); all else stays as in Theorem 1:

    F sqrt(d log(dn)) kappa sqrt(lambda) n + 2 sigma sqrt(L n log n) + c_2,

with the F = 6 of the statement, or the F = 4 and the c_2 of the appendix. So the first terms of the
two bounds differ in nothing but sigma sqrt(c_1 n d) against kappa sqrt(lambda) n, and where they
cross depends neither on F nor on the logarithms.

For the second bound there is no constant: it is a shape over n and d.

A slip of the discussion: not c_1 but its root, and so Term 1, scales with the width sqrt(lambda).

**Shapes.** Bounds are far above the regret, so they are scaled before the comparison, as in the
paper's figures. Whether they then agree follows from a rule with numbers in it, :data:`RULE`,
which was written before there were results to apply it to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts.errors import ParameterError
from mixts.extend import Array, ArrayLike, Float, checks
from mixts.pages import Verdict
from mixts_paper.bounds.lemmas import prior_width
from mixts_paper.bounds.theorems import Form, at_least_zero, checked_rounds, plain, theorem1_terms

TOLERANCE = 0.15
"""Largest relative error of a scaled bound that has the shape: a larger difference between a curve
and a bound is visible in a figure."""

FLAT_SHARE = 0.5
"""Largest error of a bound that has the shape, as a share of the error of the best constant.
Otherwise, where the regret hardly moves, any bound that hardly moves would have its shape."""

SAME_ORDER = 0.9
"""Least rank correlation of a bound that has the shape: of ten points, a few neighbours may change
places."""

SAME_DIRECTION = 0.5
"""Least rank correlation of a bound that has the direction."""

N_ERRORS = 2.0
"""Standard errors up to which two numbers do not count as different."""

_ROUNDING = 1e-9
"""Relative difference below which bounds count as equal."""

RULE = f"""\
The bound is scaled by the one factor c that minimises the sum of squares of regret - c bound over \
the points of the sweep. Relative error: the root mean square of regret - c bound, divided by that \
of the regret. Regret or scaled bound moves if its two ends differ by more than {N_ERRORS:g} \
standard errors of the difference of the regrets there.
Holds: the relative error is at most {TOLERANCE:.0%}, and either it is also at most \
{FLAT_SHARE:g} times that of the best constant, with a rank correlation of at least \
{SAME_ORDER:g}, or there is nothing to be seen: neither moves, and the root mean square of regret \
- c bound is at most {N_ERRORS:g} times that of the standard errors.
Undecided: the rank correlation is at least {SAME_ORDER:g}, and the relative error is within \
{N_ERRORS:g} standard errors of its limit.
Direction only: otherwise, if the regret moves, the bound differs between the ends in the same \
direction, and the rank correlation is at least {SAME_DIRECTION:g}.
Does not hold: otherwise."""


@dataclass(frozen=True, repr=False)
class ShapeComparison:
    """Regret and bound over a sweep; made by :func:`compare_shapes`.

    Attributes
    ----------
    regret : (p,) array
        Regret at the points of the sweep, in order.
    bound : (p,) array
        Bound at the same points.
    errors : (p,) array or None
        Standard errors of the regret; None: any difference counts.
    scale : float
        c, the factor with which the bound comes closest to the regret.
    relative_error : float
        Root mean square of regret - c bound, divided by that of the regret.
    flat_error : float
        The same for the best constant in place of the bound: how much there is to explain.
    rank_correlation : float
        Spearman's; NaN where regret or bound is constant.
    linear_correlation : float
        Pearson's; NaN where regret or bound is constant.
    verdict : str
        Verdict by :data:`RULE`: "holds", "direction only", "undecided" or "does not hold".

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> comparison = bounds.compare_shapes(regret=[3.0, 4.1, 4.9], bound=[30, 40, 50])
    >>> comparison.verdict, round(comparison.scale, 2)
    ('holds', 0.1)
    """

    regret: Float[Array, " p"]
    bound: Float[Array, " p"]
    errors: Float[Array, " p"] | None
    scale: float
    relative_error: float
    flat_error: float
    rank_correlation: float
    linear_correlation: float
    verdict: Verdict

    @property
    def regret_growth(self) -> float:
        """Last regret / first; infinite where the first is 0."""
        return _growth(self.regret)

    @property
    def bound_growth(self) -> float:
        """Last bound / first."""
        return _growth(self.bound)

    def __repr__(self) -> str:
        first, last = (
            f"regret {self.regret[i]:.4g}"
            + (f" ± {self.errors[i]:.2g}" if self.errors is not None else "")
            + f", bound {self.bound[i]:.4g}"
            for i in (0, -1)
        )
        return (
            f"ShapeComparison of regret and bound at {len(self.regret)} points\n"
            f"  first point: {first}\n"
            f"  last point: {last}\n"
            f"  growth factors: regret {self.regret_growth:.3g}, bound {self.bound_growth:.3g}\n"
            f"  best scale: {self.scale:.4g} (1/{1 / self.scale:.4g}), relative error "
            f"{self.relative_error:.1%} (of a constant: {self.flat_error:.1%})\n"
            f"  correlation: rank {self.rank_correlation:.3f}, linear "
            f"{self.linear_correlation:.3f}\n"
            f"  shape: {self.verdict}"
        )


def compare_shapes(
    regret: ArrayLike, bound: ArrayLike, errors: ArrayLike | None = None
) -> ShapeComparison:
    """Compare regret with a bound over the points of a sweep, in the sweep's order.

    Parameters
    ----------
    regret
        Regret at each point; 0 is allowed, but not everywhere.
    bound
        The bound at each point, above 0.
    errors
        Standard errors of the regret.

    Returns
    -------
    ShapeComparison
        Scale, errors, correlations and the verdict by :data:`RULE`.

    Notes
    -----
    The rule:

    - The bound is scaled by c = sum(regret bound) / sum(bound^2), which minimises the sum of
      squares of regret - c bound. The relative error is the root mean square of the
      difference, divided by that of the regret.
    - Regret or scaled bound moves if its two ends differ by more than 2 standard errors of the
      difference of the regrets there.
    - "holds": the relative error is at most 15 %; besides, it is at most half of that of the best
      constant and the rank correlation is at least 0.9, or neither moves and the
      difference is at most twice the root mean square of the errors.
    - "undecided": the rank correlation is at least 0.9, and the relative error is within 2 standard
      errors of its limit.
    - "direction only": otherwise, if the regret moves, the bound's ends differ in the same
      direction, and the rank correlation is at least 0.5.
    - "does not hold": otherwise.

    Every point counts the same in the scale. Weights from the errors would let the points with the
    smallest regret decide, because they have the smallest errors; and the difference between
    regret and bound is not noise, for which weights would be right, but the object of study.
    Heavy tails make it worse: a sample that misses the rare long runs has a small mean and a small
    error at once. Errors say only whether the regret moved at all.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bounds.compare_shapes([3.0, 4.1, 4.9], [30, 40, 50], errors=[0.1, 0.1, 0.1])
    ShapeComparison of regret and bound at 3 points
      first point: regret 3 ± 0.1, bound 30
      last point: regret 4.9 ± 0.1, bound 50
      growth factors: regret 1.63, bound 1.67
      best scale: 0.0998 (1/10.02), relative error 2.0% (of a constant: 19.1%)
      correlation: rank 1.000, linear 0.996
      shape: holds
    """
    given = {} if errors is None else {"errors": errors}
    r, b, *rest = _columns(regret=regret, bound=bound, **given)
    e = rest[0] if rest else None
    # Only shapes count: rescale, lest squares overflow or vanish.
    r_unit, b_unit = r.max(), b.max()
    x, y = b / b_unit, r / r_unit
    scale = float(x @ y / (x @ x))
    level = _rms(y)
    relative_error, flat_error = _rms(y - scale * x) / level, _rms(y - y.mean()) / level
    rank, linear = _correlations(y, x)
    noise = np.zeros_like(y) if e is None else e / r_unit
    margin, margin_error = _margin(y, x), _margin_error(y, x, noise)
    verdict: Verdict = "does not hold"
    if _nothing_to_see(y, scale * x, noise):
        verdict = "holds"
    elif rank >= SAME_ORDER and abs(margin) < N_ERRORS * margin_error:
        verdict = "undecided"
    elif rank >= SAME_ORDER and margin <= 0:
        verdict = "holds"
    elif _same_direction(y, x, noise) and rank >= SAME_DIRECTION:
        verdict = "direction only"
    return ShapeComparison(
        r, b, e, scale * float(r_unit / b_unit), relative_error, flat_error, rank, linear, verdict
    )


def _margin(y: Float[Array, " p"], x: Float[Array, " p"]) -> float:
    """Return the relative error minus the largest one that has the shape."""
    level, scale = _rms(y), float(x @ y / (x @ x))
    flat_error = _rms(y - y.mean()) / level
    return _rms(y - scale * x) / level - min(TOLERANCE, FLAT_SHARE * flat_error)


def _margin_error(y: Float[Array, " p"], x: Float[Array, " p"], noise: Float[Array, " p"]) -> float:
    """Return the standard error of the margin, to first order in the errors of the regret."""
    changes = [
        (_margin(y + step, x) - _margin(y - step, x)) / 2 for step in np.diag(noise) if step.any()
    ]
    return math.hypot(*changes)


def _nothing_to_see(
    regret: Float[Array, " p"], scaled: Float[Array, " p"], noise: Float[Array, " p"]
) -> bool:
    """Return whether neither moves, and the errors explain the difference."""
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
    """Return the least visible difference between the regrets at the two ends."""
    return N_ERRORS * math.hypot(noise[0], noise[-1])


def _correlations(y: Float[Array, " p"], x: Float[Array, " p"]) -> tuple[float, float]:
    """Return Spearman's and Pearson's correlation; NaN where one side is constant."""
    from scipy import stats  # takes long to import, and is rarely needed

    if min(np.ptp(x), np.ptp(y)) <= _ROUNDING:
        return math.nan, math.nan
    return float(stats.spearmanr(y, x).statistic), float(stats.pearsonr(y, x).statistic)


def _rms(values: Float[Array, " p"]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _growth(values: Float[Array, " p"]) -> float:
    if values[0] == 0:
        return math.inf if values[-1] > 0 else math.nan
    return float(values[-1] / values[0])


def _columns(**given: ArrayLike) -> list[Float[Array, " p"]]:
    """Return the columns of a sweep, checked."""
    columns = []
    for name, value in given.items():
        least = "above 0" if name == "bound" else "at least 0"
        expected = f"{name} must be a finite number, {least}, for each point of a sweep"
        array = checks.numbers(value, expected, ParameterError)
        if array.ndim != 1 or len(array) < 2:
            raise ParameterError(f"{expected}, at least 2 of them, got shape {array.shape}")
        good = np.isfinite(array) & (array > 0 if name == "bound" else array >= 0)
        if not good.all():
            at = int(np.argmin(good))
            raise ParameterError(f"{expected}, got {array[at]} at point {at}")
        columns.append(array)
    lengths = {name: len(array) for name, array in zip(given, columns, strict=True)}
    if len(set(lengths.values())) != 1:
        raise ParameterError(f"regret, bound and errors must have the same points, got {lengths}")
    if not (columns[0] > 0).any():
        raise ParameterError("the regret is 0 at every point: it has no shape to compare")
    return columns


# -- earlier bounds -------------------------------------------------------------------------------

_SMALLEST_RATIO = 1e-8
"""Below this ratio the crossing is 2 d to 8 digits, and solving for it would lose as many."""


def linear_bound(
    n: ArrayLike,
    d: int,
    n_components: int,
    noise_std: float,
    kappa: float,
    max_prior_variance: float,
    form: Form = "statement",
) -> Any:
    """Return c' n + 2 sigma sqrt(L n log n), for posteriors that never sharpen  [paper: Sec. 4.3].

    Compare it with :func:`theorem1` of the same ``form``: c' is 3 sqrt(2) times the prior's
    width, kappa sqrt(2 lambda d log(dn)), in the statement, and 2 sqrt(2) times that width in the
    appendix. The module derives these constants; they are not those of the earlier paper.

    Parameters
    ----------
    n, d, n_components, noise_std, kappa, max_prior_variance
        As for :func:`theorem1`.
    form
        Constants of the "statement" or of the "appendix".

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> sizes = {"d": 2, "n_components": 5}
    >>> scales = {"noise_std": 0.5, "kappa": 1, "max_prior_variance": 0.1}
    >>> linear = bounds.linear_bound(1000, **sizes, **scales)
    >>> round(linear), round(bounds.theorem1(1000, **sizes, **scales))
    (7584, 1611)
    """
    terms = theorem1_terms(n, d, n_components, noise_std, kappa, max_prior_variance, form)
    times = 3 * np.sqrt(2) if form == "statement" else 2 * np.sqrt(2)
    rate = times * prior_width(n, d, kappa, max_prior_variance)
    return plain(rate * checked_rounds(n) + terms.identification + terms.constant)


def lints_order(n: ArrayLike, d: int) -> Any:
    """Return d^(3/2) sqrt(n), the order of LinTS's frequentist regret  [paper: Sec. 4.3].

    It has neither constant nor logarithms: compare shapes, not levels. Theorem 1 is of a smaller
    order where c_1 < d and sqrt(L) < d^(3/2).

    Parameters
    ----------
    n, d
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The order.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bounds.lints_order(n=100, d=4)
    80.0
    """
    return plain(checks.count(d, "d") ** 1.5 * np.sqrt(checked_rounds(n)))


def crossing(d: int, noise_std: float, kappa: float, max_prior_variance: float) -> float:
    """Return the n from which Theorem 1 is below :func:`linear_bound` of the same form.

    The first terms are equal where c_1 d = kappa^2 lambda n / sigma^2, that is, with
    r = kappa^2 lambda / sigma^2 and x = r n / d, where (1 + r) log(1 + x) = x. That is at n = 2 d
    for a tight prior, and grows like d log r with a wide one. Without prior variance there is
    nothing to learn, and both bounds are Term 2.

    Parameters
    ----------
    d, noise_std, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float
        The number of rounds; NaN if ``max_prior_variance`` is 0.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.crossing(d=2, noise_std=0.5, kappa=1, max_prior_variance=0.1), 1)
    4.5
    """
    d = checks.count(d, "d")
    sigma = checks.positive_number(noise_std, "noise_std")
    k = checks.positive_number(kappa, "kappa")
    ratio = (k / sigma) ** 2 * at_least_zero(max_prior_variance, "max_prior_variance")
    if ratio == 0:
        return float("nan")
    if ratio < _SMALLEST_RATIO:
        return 2.0 * d

    from scipy import optimize  # takes long to import, and is rarely needed

    def gap(log_x: float) -> float:
        x = np.exp(log_x)
        return float(np.log1p(ratio) + np.log(np.log1p(x)) - log_x)

    # log(1 + x) > x / (1 + x / 2) puts the root above 2 r, and log(1 + x) <= 2 log(1 + r) + 2 for
    # the x of the upper end puts it below.
    low, high = np.log(2 * ratio), np.log(2 * (1 + ratio) * (np.log1p(ratio) + 1))
    return float(np.exp(optimize.brentq(gap, low, high, xtol=1e-14)) * d / ratio)
