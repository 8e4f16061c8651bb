"""Compiled loops that compare actions under linear posteriors: their moments, and draws.

An action set is stored by columns, (d, K), so that the innermost loops run over actions: equal
actions then get equal scores, to the last bit, and share the votes of a draw. K is rounded up to a
multiple of 16, because loops over such a length have no slow remainder.

Draws come in pairs, ``theta = mean + C x`` and ``mean - C x`` with x standard normal. The root is
applied to the actions, once for all draws: the scores are ``A mean + A C x`` and
``A mean - A C x``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array

Plain = tuple[Any, ...]
"""The fields of ``Decisions``: see ``_kernels.linear``."""

_FUSED = {"contract"}
"""Products and sums may be fused, but not reordered: every action has the same rounding."""


class Decisions(NamedTuple):
    """The m decisions of one call among K actions, and the posteriors in S slots behind them."""

    sets: Array
    """(m, K, d), or (1, K, d): the same actions for all."""
    mask: Array
    """(m, K): the available actions."""
    weights: Array
    """(m, L): P_t(s)."""
    pairs: Array
    """(m, L): pairs of draws for each component; 0 leaves the component out."""
    slot: Array
    """(m,): slot of the task."""
    mean: Array
    """(S, L, d): ``Slots.mean``, no repeats waiting."""
    root: Array
    """(S, G, d (d + 1) / 2): ``Slots.root``, no repeats waiting."""
    starts: Array
    """(G + 1,): ``Prior.starts``."""
    members: Array
    """(L,): ``Prior.members``."""
    columns: Array
    """(2, d, K), K rounded up: scratch for the actions A by columns, and for C'A'."""
    lines: Array
    """(7, K): scratch for vectors over the actions."""


N_LINES = 7
_MIXTURE, _CENTER, _DEVIATION, _ABOVE, _BELOW = 0, 1, 2, 3, 4
"""Rows of ``Decisions.lines``: mean scores under the mixture and under a component (-inf where an
action is not available), and a pair's deviation from the latter, added and subtracted."""
_SUMS = 5
"""... votes of a component's pairs and their squares (5, 6)."""


def new_scratch(d: int, n_actions: int) -> tuple[Array, Array]:
    """Allocate ``columns`` and ``lines`` of ``Decisions``."""
    width = (n_actions + 15) // 16 * 16
    return np.empty((2, d, width)), np.empty((N_LINES, width))


@compiled(borrows=True)
def _clear(line: Array) -> None:
    """Set a vector to zero."""
    for a in range(len(line)):
        line[a] = 0.0


@compiled(borrows=True, fastmath=_FUSED)
def _set_rows(x: Array, rows: Array, total: Array) -> None:
    """Set total to sum_i x[i] rows[i], four rows in one pass."""
    n = len(x)
    _clear(total)
    for i in range(0, n - 3, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for a in range(len(total)):
            total[a] += x0 * r0[a] + x1 * r1[a] + x2 * r2[a] + x3 * r3[a]
    for i in range(n - n % 4, n):
        x0, r0 = x[i], rows[i]
        for a in range(len(total)):
            total[a] += x0 * r0[a]


@compiled(borrows=True)
def _load(c: Decisions, i: int) -> None:
    """Store the available actions by columns; the others, and those added, are zeros."""
    rows, columns = c.sets[i % len(c.sets)], c.columns[0]
    n_actions, d = rows.shape
    for k in range(d):
        line = columns[k]
        for a in range(len(line)):
            line[a] = rows[a, k] if a < n_actions and c.mask[i, a] else 0.0


@compiled(borrows=True)
def _project(c: Decisions, i: int, g: int) -> None:
    """Compute C'A' of group g, (d, K)."""
    root, columns, projected = c.root[c.slot[i], g], c.columns[0], c.columns[1]
    d, start = len(columns), 0
    for k in range(d):
        _set_rows(root[start : start + d - k], columns[k:], projected[k])
        start += d - k


@compiled(borrows=True)
def action_moments(decisions: Plain, out: Plain) -> None:
    """Set out, two arrays (m, L, K) of zeros, to means and variances of a'theta.

    Variances are left out if their array is empty.
    """
    mean, variance = out
    c = Decisions(*decisions)
    center, spread = c.lines[_CENTER], c.lines[_DEVIATION]
    for i in range(len(c.slot)):
        _load(c, i)
        for g in range(len(c.starts) - 1):
            fresh = len(variance) > 0
            for j in range(c.starts[g], c.starts[g + 1]):
                s = c.members[j]
                if c.pairs[i, s] == 0:
                    continue
                if fresh:
                    _project(c, i, g)
                    _clear(spread)
                    for k in range(c.columns.shape[1]):
                        row = c.columns[1, k]
                        for a in range(len(spread)):
                            spread[a] += row[a] * row[a]
                    fresh = False
                _set_rows(c.mean[c.slot[i], s], c.columns[0], center)
                for a in range(mean.shape[2]):
                    mean[i, s, a] = center[a]
                    if len(variance) > 0:
                        variance[i, s, a] = spread[a]


@compiled(borrows=True, fastmath={"nnan", "nsz"})
def _largest(scores: Array) -> float:
    """Return the largest score."""
    top = -np.inf
    for a in range(len(scores)):
        top = max(top, scores[a])
    return top


@compiled(borrows=True)
def _share(scores: Array, top: float) -> float:
    """Return the vote of each action that has the largest score: half a vote for all of them."""
    n = 0
    for a in range(len(scores)):
        n += scores[a] == top
    return 0.5 / n


@compiled(borrows=True)
def _count_pairs(c: Decisions, x: Array, lead: int) -> float:
    """Let the n pairs x of a component vote for their best actions; return E[max X - X_lead]."""
    center, deviation, above, below = (
        c.lines[_CENTER], c.lines[_DEVIATION], c.lines[_ABOVE], c.lines[_BELOW],
    )  # fmt: skip
    votes, squares, gain, n = c.lines[_SUMS], c.lines[_SUMS + 1], 0.0, len(x)
    _clear(votes)
    _clear(squares)
    for r in range(n):
        _set_rows(x[r], c.columns[1], deviation)
        for a in range(len(center)):
            above[a] = center[a] + deviation[a]
            below[a] = center[a] - deviation[a]
        high, low = _largest(above), _largest(below)
        gain += (high - above[lead]) + (low - below[lead])
        one, other = _share(above, high), _share(below, low)
        for a in range(len(center)):
            vote = (one if above[a] == high else 0.0) + (other if below[a] == low else 0.0)
            votes[a] += vote
            squares[a] += vote * vote
    return 0.5 * gain / n


@compiled(borrows=True)
def _set_mixture(c: Decisions, i: int) -> int:
    """Set the mean scores of the actions of decision i; return the available one of the highest."""
    scores, columns, mean = c.lines[_MIXTURE], c.columns[0], c.mean[c.slot[i]]
    _clear(scores)
    for k in range(len(columns)):
        line, entry = columns[k], 0.0
        for s in range(len(mean)):
            if c.pairs[i, s] > 0:
                entry += c.weights[i, s] * mean[s, k]
        for a in range(len(scores)):
            scores[a] += entry * line[a]
    lead = -1
    for a in range(c.mask.shape[1]):
        if c.mask[i, a] and (lead < 0 or scores[a] > scores[lead]):
            lead = a
    return lead


@compiled(borrows=True, nogil=True)
def best_in_draws(decisions: Plain, x: Array, out: Array) -> int:
    """Count in pairs of draws how often each action is best, and average the largest score.

    ``x`` (pairs, d) holds standard normals for all decisions in order. Sets out (3, m, K),
    zeros, to P(action is best), its squared standard error, and E[max_b X_b] - E[X_a]; actions that
    are not available keep their zeros. Returns -1, or the first decision with scores that are not
    finite.
    """
    probability, error, regret = out
    c = Decisions(*decisions)
    first, n_actions, center, mixture = 0, c.mask.shape[1], c.lines[_CENTER], c.lines[_MIXTURE]
    for i in range(len(c.slot)):
        mask = c.mask[i]
        _load(c, i)
        lead, gain = _set_mixture(c, i), 0.0
        for g in range(len(c.starts) - 1):
            fresh = True
            for j in range(c.starts[g], c.starts[g + 1]):
                s = c.members[j]
                n, weight = c.pairs[i, s], c.weights[i, s]
                if n == 0:
                    continue
                if fresh:
                    _project(c, i, g)
                    fresh = False
                _set_rows(c.mean[c.slot[i], s], c.columns[0], center)
                for a in range(len(center)):
                    if a >= n_actions or not mask[a]:
                        center[a] = -np.inf
                gain += weight * _count_pairs(c, x[first : first + n], lead)
                first += n
                for a in range(n_actions):
                    share, square = c.lines[_SUMS, a] / n, c.lines[_SUMS + 1, a] / n
                    probability[i, a] += weight * share
                    error[i, a] += weight * weight * max(square - share * share, 0.0) / (n - 1)
        check = gain
        for a in range(n_actions):
            if mask[a]:
                check += mixture[a]
                regret[i, a] = gain + (mixture[lead] - mixture[a])
        if not math.isfinite(check):
            return i
    return -1
