"""P(an arm is among the best k of independent ones), on a scale that may differ from arm to arm.

``P(a is among the best k) = integral of P(fewer than k others are above t) dF_a(t)``. This
quadrature needs distribution functions only: in each cell, polynomials through Chebyshev points
stand for them. For the best arm alone, compiled loops are faster (``quadrature``).

Each cell is checked by itself, in two ways. The probabilities of all arms in it must add up to the
change of E[number of arms above, at most k] from edge to edge, which is known exactly. But this sum
hardly notices a polynomial that misses its distribution function, because the errors of the arms
cancel. So the last coefficients of every polynomial must be small, too. A cell that fails is
halved, so that kinks, poles of densities and narrow peaks are found without knowing them.

Arms of no variance are points: steps between cells, whose probabilities are added at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.families.quadrature import MeanDistribution, Money

_N = 16
"""Degree of the polynomials: with it, a normal distribution function over two standard deviations
is right to 1e-13."""

_TOLERANCE = 1e-11
"""Largest error of a cell by either check: a hundred cells stay far below what is reported."""

_NOTABLE = 1e-8
"""Larger differences in all are reported as the error of the result."""

_N_HALVINGS = 60
"""Enough to reach the pole of any density that is no pole of the distribution function, too."""

_NARROW = 1e-15
"""Cells are not halved when they are as narrow as doubles allow, relative to their place."""

_TAIL = 1e-16
"""Probability that is left out at either end of an arm, and weight of a component left out."""

_N_EDGES = 32
"""Most edges at which the ends of arms divide the range before cells are halved."""

_AT_ONCE = 1_000_000
"""Numbers in one array."""


def _rule(n: int) -> tuple[Array, Array, Array]:
    """Return n + 1 points on [0, 1], the sums that give integrals of f dg, and the last terms.

    With f and g at the points, ``f @ sums @ g`` is the integral of f dg, and ``last @ f`` are the
    last two coefficients of the series of f.
    """
    chebyshev = np.polynomial.chebyshev
    x = -np.cos(np.pi * np.arange(n + 1) / n)
    series = np.linalg.inv(chebyshev.chebvander(x, n))
    terms = np.eye(n + 1)
    slope = np.stack([chebyshev.chebval(x, chebyshev.chebder(c)) for c in terms], axis=1)
    whole = np.array([chebyshev.chebval(1.0, chebyshev.chebint(c, lbnd=-1)) for c in terms])
    return (x + 1) / 2, (whole @ series)[:, None] * (slope @ series), series[-2:]


_POINTS, _SUMS, _LAST = _rule(_N)


@runtime_checkable
class Distribution(Protocol):
    """What a ranking needs to know of distributions (..., K): see ``Marginal``."""

    def select(self, *index: Array) -> Distribution: ...
    def expand(self, axis: int) -> Distribution: ...
    def mean(self) -> Array: ...
    def quantile(self, probability: float | Array) -> Array: ...
    def cdf(self, value: Array) -> Array: ...


@dataclass(frozen=True)
class Utilities:
    """Distributions of utilities, value * mean - cost; the values and costs have the same shape."""

    means: MeanDistribution
    values: Array
    costs: Array

    @classmethod
    def of(cls, means: MeanDistribution, money: Money) -> Utilities:
        """Return the utilities of means (m, L, K)."""
        shape = means.mean().shape
        return cls(means, *(np.broadcast_to(x[:, None], shape) for x in money))

    def select(self, *index: Array) -> Utilities:
        return Utilities(self.means.select(*index), self.values[index], self.costs[index])

    def expand(self, axis: int) -> Utilities:
        values, costs = np.expand_dims(self.values, axis), np.expand_dims(self.costs, axis)
        return Utilities(self.means.expand(axis), values, costs)

    def mean(self) -> Array:
        return self.values * self.means.mean() - self.costs

    def quantile(self, probability: float | Array) -> Array:
        level = np.where(self.values < 0, 1.0 - probability, probability)
        return self.values * self.means.quantile(level) - self.costs

    def cdf(self, value: Array) -> Array:
        """Return P(utility <= value); no value may be zero, because such an arm is a point."""
        place = (value + self.costs) / self.values
        below = self.means.cdf(np.clip(place, self.means.lowest, self.means.highest))
        return np.where(self.values < 0, 1.0 - below, below)


class _Cells(NamedTuple):
    """Cells of several pairs of a decision and a component."""

    pair: Int[Array, " n"]
    low: Float[Array, " n"]
    high: Float[Array, " n"]

    @property
    def points(self) -> Float[Array, "n i"]:
        """Chebyshev points of each cell."""
        return self.low[:, None] + (self.high - self.low)[:, None] * _POINTS

    @property
    def narrow(self) -> Bool[Array, " n"]:
        """Cells that have no room for more points."""
        place = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.asarray(self.high - self.low <= _NARROW * place)

    def halves(self) -> _Cells:
        """Return both halves of each cell."""
        middle = 0.5 * (self.low + self.high)
        low, high = np.append(self.low, middle), np.append(middle, self.high)
        return _Cells(np.append(self.pair, self.pair), low, high)


def rank_arms(
    arms: Distribution, weights: Float[Array, "m L"], mask: Bool[Array, "m K"], k: int = 1
) -> tuple[Float[Array, "m K"], Float[Array, " m"]]:
    """Compute P(arm is among the best k) under each mixture.

    Parameters
    ----------
    arms
        Distributions of the arms' means or utilities, (m, L, K).
    weights
        Weights of the components for each of m decisions.
    mask
        Available arms of each decision, at least k.
    k
        Length of the ranking.

    Returns
    -------
    chances, errors
        Points that are equal share their chances. An error of 0 stands for at most 1e-8 per
        component.
    """
    found, error = np.zeros(mask.shape), np.zeros(len(mask))
    rows, latent = np.nonzero(weights > _TAIL)
    size = max(1, _AT_ONCE // (mask.shape[1] * (_N + 1) * _N_EDGES))
    for start in range(0, len(rows), size):
        part = rows[start : start + size], latent[start : start + size]
        share = weights[part]
        chance, gap = _Pairs(arms, *part, mask[part[0]], k).integrate()
        np.add.at(found, part[0], share[:, None] * chance)
        np.add.at(error, part[0], share * np.where(gap > _NOTABLE, gap, 0.0))
    return np.minimum(found * (k / found.sum(axis=1, keepdims=True)), 1.0), error


class _Pairs:
    """The arms of P pairs of a decision and a component."""

    def __init__(
        self,
        arms: Distribution,
        rows: Int[Array, " P"],
        latent: Int[Array, " P"],
        mask: Bool[Array, "P K"],
        k: int,
    ) -> None:
        self.arms, self.rows, self.latent, self.mask, self.k = arms, rows, latent, mask, k
        own = arms.select(rows, latent)
        low, high = own.quantile(_TAIL), own.quantile(1.0 - _TAIL)
        self.sure = mask & ~(low < high)
        low = np.where(self.sure, own.mean(), low)
        self.low = np.where(mask, low, -np.inf)
        self.high = np.where(mask, np.where(self.sure, low, high), -np.inf)
        # Below the k-th highest of the lower ends, no arm is among the best k.
        self.start = -np.partition(-self.low, k - 1, axis=1)[:, k - 1]
        self.end = np.maximum(self.high.max(axis=1), self.start)

    def _first_cells(self) -> _Cells:
        """Divide each range at the ends of arms, and at all points."""
        start, end = self.start[:, None], self.end[:, None]
        ends = np.sort(np.clip(np.hstack([self.low, self.high, start, end]), start, end), axis=1)
        if ends.shape[1] > _N_EDGES:
            ends = ends[:, np.linspace(0, ends.shape[1] - 1, _N_EDGES).round().astype(int)]
        if self.sure.any():
            points = np.clip(np.where(self.sure, self.low, start), start, end)
            ends = np.sort(np.hstack([ends, points]), axis=1)
        low, high = ends[:, :-1], ends[:, 1:]
        pair, column = np.nonzero(low < high)
        return _Cells(pair, low[pair, column], high[pair, column])

    def below(
        self, pair: Int[Array, " n"], t: Float[Array, "n i"], low: Array, high: Array
    ) -> Float[Array, "n K i"]:
        """Return the distribution functions at t, all between ``low`` and ``high``."""
        far = self.mask[pair] & (self.low[pair] >= high[:, None])
        found = np.repeat(np.where(far, 0.0, 1.0)[:, :, None], t.shape[1], axis=2)
        near = self.mask[pair] & ~self.sure[pair] & ~far & (self.high[pair] > low[:, None])
        cell, arm = np.nonzero(near)
        own = self.arms.select(self.rows[pair[cell]], self.latent[pair[cell]], arm)
        found[cell, arm] = own.expand(1).cdf(t[cell])
        return found

    def integrate(self) -> tuple[Array, Array]:
        """Return chances and their errors."""
        n, n_arms = self.mask.shape
        chance, gap = np.zeros((n, n_arms)), np.zeros(n)
        cells, size = self._first_cells(), max(1, _AT_ONCE // (n_arms * (_N + 1) * self.k))
        for level in range(_N_HALVINGS + 1):
            failed = np.zeros(len(cells.pair), bool)
            for first in range(0, len(failed), size):
                some = _Cells(*(array[first : first + size] for array in cells))
                wins, off = self._cell(some)
                bad = off > _TOLERANCE
                # In a cell that fails and cannot be halved, any arm may be the best.
                off = np.where(bad, off + np.abs(wins.sum(axis=(1, 2))), off)
                bad &= ~some.narrow & (level < _N_HALVINGS)
                failed[first : first + size] = bad
                good = ~bad
                np.add.at(chance, some.pair[good], wins[good].sum(axis=2))
                np.add.at(gap, some.pair[good], off[good])
            if not failed.any():
                break
            cells = _Cells(*(array[failed] for array in cells)).halves()
        points, shares = self._points()
        np.add.at(chance, points, shares)
        return np.maximum(chance, 0.0), gap

    def _cell(self, cells: _Cells) -> tuple[Array, Array]:
        """Integrate over each cell.

        Returns the parts of the chances at the points, and how far a chance or their sum is off.
        """
        below = self.below(cells.pair, cells.points, cells.low, cells.high)
        others, expected = _fewer_above(below, self.k)
        wins = others * (below @ _SUMS.T)
        off = np.abs(wins.sum(axis=(1, 2)) - (expected[:, 0] - expected[:, -1]))
        # The integral of f dg errs by the error of f times the change of g, and by the error of g
        # times the change of f.
        rough = _roughness(below) * _change(others) + _roughness(others) * _change(below)
        return wins, np.maximum(off, rough.max(axis=1))

    def _points(self) -> tuple[tuple[Array, Array], Array]:
        """Return the arms without variance, (pair, arm), and P(arm is among the best k)."""
        pair, arm = np.nonzero(self.sure)
        at, points, level = self.low[pair, arm], self.sure[pair], self.low[pair]
        equal = points & (level == at[:, None])
        below = self.below(pair, at[:, None], at, at)
        below = np.where(points[:, :, None], (level <= at[:, None])[:, :, None], below)
        n_above = _counts(below, self.k)[:, :, 0]
        # Equal points take the places that are left in random order.
        room = np.minimum((self.k - np.arange(self.k)) / equal.sum(axis=1)[:, None], 1.0)
        return (pair, arm), (n_above * room).sum(axis=1)


def _roughness(f: Float[Array, "n K i"]) -> Float[Array, "n K"]:
    """Return the size of the last coefficients of functions at the points of cells."""
    return np.abs(f @ _LAST.T).sum(axis=2)


def _change(f: Float[Array, "n K i"]) -> Float[Array, "n K"]:
    """Return how much increasing functions change from edge to edge."""
    return np.abs(f[:, :, -1] - f[:, :, 0])


def _counts(below: Float[Array, "n K i"], k: int) -> Float[Array, "n k i"]:
    """Return the distribution of the number of arms above, cut off at k."""
    return _add_arms(below, k)[-1]


def _add_arms(below: Float[Array, "n K i"], k: int) -> list[Array]:
    """Return the same for no arm, the first arm, the first two and so on (a Poisson binomial)."""
    n, n_arms, size = below.shape
    counts = np.zeros((n, k, size))
    counts[:, 0] = 1.0
    found = [counts]
    for a in range(n_arms):
        under = below[:, a, None]
        counts = counts * under
        counts[:, 1:] += found[-1][:, :-1] * (1.0 - under)
        found.append(counts)
    return found


def _fewer_above(below: Float[Array, "n K i"], k: int) -> tuple[Array, Array]:
    """Return P(fewer than k others are above) for each arm, and E[number above, at most k]."""
    if k == 1:
        ones = np.ones_like(below[:, :1])
        before = np.cumprod(np.concatenate([ones, below], axis=1), axis=1)
        after = np.cumprod(np.concatenate([ones, below[:, :0:-1]], axis=1), axis=1)[:, ::-1]
        return before[:, :-1] * after, 1.0 - before[:, -1]
    first, last = _add_arms(below, k), _add_arms(below[:, ::-1], k)
    others = np.empty_like(below)
    for a in range(below.shape[1]):
        at_most = np.cumsum(last[below.shape[1] - 1 - a], axis=1)[:, ::-1]
        others[:, a] = (first[a] * at_most).sum(axis=1)
    return others, k - np.cumsum(first[-1], axis=1).sum(axis=1)
