"""P(an arm is among the best k of independent ones), on a scale that may differ from arm to arm.

``P(a is among the best k) = integral of P(fewer than k others are above t) dF_a(t)``. The compiled
quadrature of the best arm needs one coordinate in which all densities are smooth. Utilities
``value * mean - cost`` have none, so that this quadrature needs distribution functions only: in
each cell, polynomials through Chebyshev points stand for them.

Each cell is checked by itself. The probabilities of all arms in it must add up to the change of
E[number of arms above, at most k] from edge to edge, which is known exactly. A cell that fails is
halved, so that kinks, poles of densities and narrow peaks are found without knowing them.

Arms of no variance are points: steps between cells, whose probabilities are added at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.families.quadrature import MeanDistribution

_N = 16
"""Degree of the polynomials: with it, a normal distribution function over two standard deviations
is right to 1e-13."""

_TOLERANCE = 1e-12
"""Largest difference between both sides of the check of a cell."""

_ROUGH = 1e-15
"""Largest estimate of the error of an integral. Where a density has a pole, the true error is some
thousand times as large."""

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
    """Return n + 1 points on [0, 1], the sums that give integrals of f dg, and running integrals.

    With f and g at the points, ``f @ sums @ g`` is the integral of f dg, and ``running @ f`` are
    the integrals of f from each point to the right end.
    """
    chebyshev = np.polynomial.chebyshev
    x = -np.cos(np.pi * np.arange(n + 1) / n)
    series = np.linalg.inv(chebyshev.chebvander(x, n))
    terms = np.eye(n + 1)
    slope = np.stack([chebyshev.chebval(x, chebyshev.chebder(c)) for c in terms], axis=1)
    area = np.stack([chebyshev.chebval(x, chebyshev.chebint(c, lbnd=1)) for c in terms], axis=1)
    running = -0.5 * area @ series
    return (x + 1) / 2, 2 * running[0][:, None] * (slope @ series), running


_POINTS, _SUMS, _RUNNING = _rule(_N)
_WEIGHTS = _RUNNING[0]
_COARSE = _rule(_N // 2)[2][0]
"""Weights of the rule with every second point."""


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


class Ranking(NamedTuple):
    """What is known about m decisions among K arms."""

    chance: Float[Array, "m K"]
    """P(arm is among the best k); points that are equal share it."""
    error: Float[Array, " m"]
    """Error of the chances: 0 where the checks hold."""
    best: Float[Array, " m"]
    """E[highest mean]."""
    explained: Float[Array, "2 m K"]
    """Variance of an arm's mean that the best arm explains; that the component and the best arm
    explain. Zeros unless they were wanted."""


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
    arms: Distribution,
    weights: Float[Array, "m L"],
    mask: Bool[Array, "m K"],
    k: int = 1,
    *,
    wants_best: bool = False,
    explain: bool = False,
) -> Ranking:
    """Compute P(arm is among the best k) under each mixture, and what else is wanted.

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
    wants_best
        Whether E[highest mean] has to be right to nine digits, too.
    explain
        Whether to compute what the best arm says about the others' means; only for k = 1.
    """
    found = Ranking(
        np.zeros(mask.shape), np.zeros(len(mask)), np.zeros(len(mask)), np.zeros((2, *mask.shape))
    )
    joint = np.zeros((len(mask), mask.shape[1], mask.shape[1]) if explain else (0, 0, 0))
    rows, latent = np.nonzero(weights > _TAIL)
    size = max(1, _AT_ONCE // (mask.shape[1] * (_N + 1) * _N_EDGES))
    for start in range(0, len(rows), size):
        part = rows[start : start + size], latent[start : start + size]
        share = weights[part]
        pairs = _Pairs(arms, *part, mask[part[0]], k)
        chance, gap, best, given = pairs.integrate(wants_best=wants_best, explain=explain)
        np.add.at(found.chance, part[0], share[:, None] * chance)
        np.add.at(found.error, part[0], share * np.where(gap > _NOTABLE, gap, 0.0))
        np.add.at(found.best, part[0], share * best)
        if explain:
            center = np.einsum("ml,mlk->mk", weights, arms.mean())[part[0]]
            given = given - center[:, :, None] * chance[:, None]
            np.add.at(found.explained[1], part[0], share[:, None] * _squares(given, chance))
            np.add.at(joint, part[0], share[:, None, None] * given)
    total = found.chance.sum(axis=1, keepdims=True)
    chance = np.minimum(found.chance * (k / total), 1.0)
    if explain:
        found.explained[0][:] = _squares(joint, found.chance)
    return found._replace(chance=chance, explained=np.where(mask, found.explained, 0.0))


def _squares(given: Float[Array, "n K K"], chance: Float[Array, "n K"]) -> Float[Array, "n K"]:
    """Return sum_b E[mean of a; b is best]^2 / P(b is best)."""
    some = np.maximum(chance, np.finfo(float).tiny)[:, None]
    return np.asarray(np.where(chance[:, None] > 0, given * given / some, 0.0).sum(axis=2))


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
        self.mean = own.mean()
        low, high = own.quantile(_TAIL), own.quantile(1.0 - _TAIL)
        self.sure = mask & ~(low < high)
        low = np.where(self.sure, self.mean, low)
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

    def integrate(self, *, wants_best: bool, explain: bool) -> tuple[Array, Array, Array, Array]:
        """Return chances, their errors, E[highest mean], and E[mean of a; b is best]."""
        n, n_arms = self.mask.shape
        chance, gap, best = np.zeros((n, n_arms)), np.zeros(n), self.start.copy()
        kept: list[tuple[Array, ...]] = []
        cells, size = self._first_cells(), max(1, _AT_ONCE // (n_arms * (_N + 1) * self.k))
        for level in range(_N_HALVINGS + 1):
            failed = np.zeros(len(cells.pair), bool)
            for first in range(0, len(failed), size):
                some = _Cells(*(array[first : first + size] for array in cells))
                below, wins, above, off = self._cell(some)
                bad = off > _TOLERANCE
                if wants_best:
                    bad |= self._is_rough(some, above)
                # In a cell that fails and cannot be halved, any arm may be the best.
                off = np.where(off > _TOLERANCE, off + np.abs(wins.sum(axis=(1, 2))), off)
                bad &= ~some.narrow & (level < _N_HALVINGS)
                failed[first : first + size] = bad
                good = ~bad
                pair, width = some.pair[good], (some.high - some.low)[good]
                np.add.at(chance, pair, wins[good].sum(axis=2))
                np.add.at(best, pair, width * (above[good] @ _WEIGHTS))
                np.add.at(gap, pair, off[good])
                if explain:
                    kept.append((*(array[good] for array in (*some, below, wins)),))
            if not failed.any():
                break
            cells = _Cells(*(array[failed] for array in cells)).halves()
        points, shares = self._points()
        np.add.at(chance, points, shares)
        given = self._given(kept, points, shares) if explain else np.zeros((n, 0, 0))
        return np.maximum(chance, 0.0), gap, best, given

    def _cell(self, cells: _Cells) -> tuple[Array, Array, Array, Array]:
        """Integrate over each cell.

        Returns the distribution functions (n, K, points), the parts of the chances at the points,
        P(the highest mean is above a point), and how far the sum of the chances is off.
        """
        below = self.below(cells.pair, cells.points, cells.low, cells.high)
        others, expected = _fewer_above(below, self.k)
        wins = others * (below @ _SUMS.T)
        off = np.abs(wins.sum(axis=(1, 2)) - (expected[:, 0] - expected[:, -1]))
        return below, wins, expected if self.k == 1 else 1.0 - below.prod(axis=1), off

    def _is_rough(self, cells: _Cells, above: Float[Array, "n i"]) -> Bool[Array, " n"]:
        """Return where the integral of ``above`` may be wrong.

        The error of a rule for a smooth function is about the square of that of the rule with every
        second point.
        """
        error = (above @ _WEIGHTS - above[:, ::2] @ _COARSE) ** 2
        share = (cells.high - cells.low) / (self.end - self.start)[cells.pair]
        return np.asarray(error * share > _ROUGH)

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

    def _given(
        self, kept: list[tuple[Array, ...]], points: tuple[Array, Array], shares: Array
    ) -> Float[Array, "P K K"]:
        """Return E[mean of a; b is best] of each pair, (P, a, b).

        E[mean of a; it is below t] is its mean minus ``t (1 - F) + integral of 1 - F above t``.
        """
        n, n_arms = self.mask.shape
        given, every = np.zeros((n, n_arms, n_arms)), np.arange(n_arms)
        joined = [np.concatenate(arrays) for arrays in zip(*kept, strict=True)] if kept else None
        for p in range(n):
            pair, arm = points[0] == p, points[1][points[0] == p]
            at, lower, area = self.low[p, arm], np.zeros(0), np.zeros((0, n_arms))
            if joined is not None:
                own = np.flatnonzero(joined[0] == p)
                own = own[np.argsort(joined[1][own])]
                cells = _Cells(*(array[own] for array in joined[:3]))
                below, wins = joined[3][own], joined[4][own]
                lower, width = cells.low, (cells.high - cells.low)[:, None, None]
                part = width * ((1.0 - below) @ _RUNNING.T)
                area = part[:, :, 0].copy()
                part[:-1] += np.cumsum(area[:0:-1], axis=0)[::-1, :, None]
                t = cells.points[:, None]
                here = _mean_below(self.mean[p][:, None], t, below, part)
                given[p] += np.einsum("nai,nbi->ab", here, wins)
                given[p][every, every] += ((t - here) * wins).sum(axis=(0, 2))
            rest = (lower[None] >= at[:, None]).astype(float) @ area
            below = self.below(np.full(len(at), p), at[:, None], at, at)[:, :, 0]
            below = np.where(self.sure[p], self.low[p] <= at[:, None], below)
            here = _mean_below(self.mean[p], at[:, None], below, rest)
            here[np.arange(len(at)), arm] = at
            np.add.at(given[p].T, arm, shares[pair][:, None] * here)
        return given


def _mean_below(mean: Array, t: Array, below: Array, rest: Array) -> Array:
    """Return E[mean | below t], where ``rest`` is the integral of 1 - F above t."""
    moment = mean - t * (1.0 - below) - rest
    # Where an arm is hardly ever below t, it does not matter: no other arm is best there.
    return np.where(below > 1e-14, moment / np.maximum(below, 1e-14), t)


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
