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
    """(10, K): scratch for vectors over the actions."""
    joint: Array
    """(4, K, K): scratch for sums over pairs of actions, zeros; empty if no information is wanted.
    The first two are those of a component, ``_fold`` adds them to the others."""


N_LINES = 10
_MIXTURE, _CENTER, _DEVIATION, _ABOVE, _BELOW = 0, 1, 2, 3, 4
"""Rows of ``Decisions.lines``: mean scores under the mixture and under a component (-inf where an
action is not available), and a pair's deviation from the latter, added and subtracted."""
_SUMS, _PAIR, _VOTES = 5, 7, 8
"""... votes of a component's pairs and their squares (5, 6); votes of a draw (7); probabilities of
being best and their squared errors (8, 9)."""


def new_scratch(d: int, n_actions: int, *, informed: bool) -> tuple[Array, Array, Array]:
    """Allocate ``columns``, ``lines`` and ``joint`` of ``Decisions``."""
    width = (n_actions + 15) // 16 * 16
    pairs = width if informed else 0
    return np.empty((2, d, width)), np.empty((N_LINES, width)), np.zeros((4, pairs, pairs))


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
def _join(c: Decisions, one: float, high: float, other: float, low: float) -> None:
    """Add a pair of draws to the component's sums of X_a - m_a where b, the row, is best.

    ``one`` and ``other`` are the votes of the actions with the scores ``high`` above and ``low``
    below.
    """
    mixture, above, below, joint = c.lines[_MIXTURE], c.lines[_ABOVE], c.lines[_BELOW], c.joint
    for b in range(len(mixture)):
        up = one if above[b] == high else 0.0
        down = other if below[b] == low else 0.0
        if up + down > 0.0:
            for a in range(len(mixture)):
                y = up * (above[a] - mixture[a]) + down * (below[a] - mixture[a])
                joint[0, b, a] += y
                joint[1, b, a] += y * y


@compiled(borrows=True)
def _count_pairs(c: Decisions, x: Array, lead: int, weight: float) -> float:
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
        if len(c.joint[0]) > 0:
            _join(c, one * weight / n, high, other * weight / n, low)
    return 0.5 * gain / n


@compiled(borrows=True)
def _fold(c: Decisions, n: int) -> None:
    """Add a component's sums over n pairs, and their squared errors, to those of the mixture."""
    joint = c.joint
    for b in range(joint.shape[1]):
        if c.lines[_SUMS, b] > 0.0:
            for a in range(joint.shape[1]):
                y = joint[0, b, a]
                joint[2, b, a] += y
                joint[3, b, a] += (n * joint[1, b, a] - y * y) / (n - 1)
                joint[0, b, a] = joint[1, b, a] = 0.0


@compiled(borrows=True)
def _explain(c: Decisions, information: Array) -> None:
    """Add sum_b P(b is best) (E[X_a | b is best] - m_a)^2 to information; empty sums and votes.

    The square of a sum exceeds that of its expectation by the sum's squared error, which is
    subtracted. An action that is best in one pair only says nothing about errors, and keeps its
    square.
    """
    joint, votes, errors = c.joint, c.lines[_VOTES], c.lines[_VOTES + 1]
    for b in range(joint.shape[1]):
        share, error = votes[b], errors[b]
        alone = share * share - error < 1e-9 * error
        for a in range(joint.shape[1]):
            if share > 0.0 and a < len(information):
                own = 0.0 if alone else joint[3, b, a]
                rest = share if alone else share - error / share
                information[a] += (joint[2, b, a] * joint[2, b, a] - own) / rest
            joint[2, b, a] = joint[3, b, a] = 0.0
    _clear(votes)
    _clear(errors)


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
def best_in_draws(decisions: Plain, x: Array, by_component: bool, out: Plain) -> int:
    """Count in pairs of draws how often each action is best, and average the largest score.

    ``x`` (pairs, d) holds standard normals for all decisions in order. Sets out, arrays (m, K) of
    zeros, to P(action is best), its squared standard error, E[max_b X_b] - E[X_a], and, unless
    the array is empty, the variance of X_a that the best action explains, or that component and
    best action explain; actions that are not available keep their zeros. Returns -1, or the first
    decision with scores that are not finite.
    """
    probability, error, regret, information = out
    c = Decisions(*decisions)
    first, informed = 0, len(information) > 0
    n_actions, center, mixture = c.mask.shape[1], c.lines[_CENTER], c.lines[_MIXTURE]
    for i in range(len(c.slot)):
        mask = c.mask[i]
        _load(c, i)
        lead, gain = _set_mixture(c, i), 0.0
        _clear(c.lines[_VOTES])
        _clear(c.lines[_VOTES + 1])
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
                gain += weight * _count_pairs(c, x[first : first + n], lead, weight)
                first += n
                for a in range(n_actions):
                    share, square = c.lines[_SUMS, a] / n, c.lines[_SUMS + 1, a] / n
                    squared_error = weight * weight * max(square - share * share, 0.0) / (n - 1)
                    c.lines[_VOTES, a] += weight * share
                    c.lines[_VOTES + 1, a] += squared_error
                    probability[i, a] += weight * share
                    error[i, a] += squared_error
                if informed:
                    _fold(c, n)
                if informed and by_component:
                    _explain(c, information[i])
        if informed and not by_component:
            _explain(c, information[i])
        check = gain
        for a in range(n_actions):
            if mask[a]:
                check += mixture[a]
                regret[i, a] = gain + (mixture[lead] - mixture[a])
            elif informed:
                information[i, a] = 0.0
        if not math.isfinite(check):
            return i
    return -1
