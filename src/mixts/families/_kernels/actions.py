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


@compiled(fastmath=_FUSED)
def _add_rows(x: Array, rows: Array, total: Array) -> None:
    """Add sum_i x[i] rows[i] to total, four rows in one pass."""
    n = len(x)
    for i in range(0, n - 3, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for a in range(len(total)):
            total[a] += x0 * r0[a] + x1 * r1[a] + x2 * r2[a] + x3 * r3[a]
    for i in range(n - n % 4, n):
        x0, r0 = x[i], rows[i]
        for a in range(len(total)):
            total[a] += x0 * r0[a]


@compiled()
def _by_column(rows: Array, mask: Array) -> Array:
    """Return the available actions by columns; the others, and those added, are zeros."""
    n_actions, d = rows.shape
    columns = np.zeros((d, (n_actions + 15) // 16 * 16))
    for a in range(n_actions):
        if mask[a]:
            for k in range(d):
                columns[k, a] = rows[a, k]
    return columns


@compiled()
def _project(root: Array, columns: Array, out: Array) -> None:
    """Compute out = C'A', (d, K)."""
    d, start = len(columns), 0
    out[:] = 0.0
    for k in range(d):
        _add_rows(root[start : start + d - k], columns[k:], out[k])
        start += d - k


@compiled()
def action_moments(decisions: Plain, out: Plain) -> None:
    """Set out, two arrays (m, L, K) of zeros, to means and variances of a'theta.

    Variances are left out if their array is empty.
    """
    mean, variance = out
    c = Decisions(*decisions)
    for i in range(len(c.slot)):
        columns = _by_column(c.sets[i % len(c.sets)], c.mask[i])
        projected, moments = np.empty(columns.shape), np.empty((2, columns.shape[1]))
        for g in range(len(c.starts) - 1):
            fresh = True
            for s in c.members[c.starts[g] : c.starts[g + 1]]:
                if c.pairs[i, s] == 0:
                    continue
                if fresh and len(variance) > 0:
                    _project(c.root[c.slot[i], g], columns, projected)
                    moments[1] = 0.0
                    for k in range(len(columns)):
                        for a in range(columns.shape[1]):
                            moments[1, a] += projected[k, a] * projected[k, a]
                    fresh = False
                moments[0] = 0.0
                _add_rows(c.mean[c.slot[i], s], columns, moments[0])
                for a in range(mean.shape[2]):
                    mean[i, s, a] = moments[0, a]
                    if len(variance) > 0:
                        variance[i, s, a] = moments[1, a]


@compiled(fastmath={"nnan", "nsz"})
def _largest(scores: Array) -> float:
    """Return the largest score."""
    top = -np.inf
    for a in range(len(scores)):
        top = max(top, scores[a])
    return top


@compiled()
def _ties(scores: Array, top: float) -> int:
    """Return how many actions have the largest score."""
    n = 0
    for a in range(len(scores)):
        n += scores[a] == top
    return n


class Tally(NamedTuple):
    """Sums over the draws of a decision, K rounded up."""

    mixture: Array
    """(K,): mean scores m_a under the mixture."""
    lead: int
    """The available action of the highest mean score."""
    center: Array
    """(K,): mean scores under one component; -inf where an action is not available."""
    sums: Array
    """(2, K): votes of the component's pairs, and their squares."""
    joint: Array
    """(2, K, K): sums of X_a - m_a over the component's pairs in which b, the row, is best, and of
    its squares; empty if no information is wanted."""


@compiled()
def _join(above: Array, below: Array, votes: Array, share: float, tally: Tally) -> None:
    """Add a pair of draws with this share of the weight to ``tally.joint``; votes (2, K)."""
    mixture, joint = tally.mixture, tally.joint
    for b in range(len(mixture)):
        one, other = share * votes[0, b], share * votes[1, b]
        if one + other > 0.0:
            for a in range(len(mixture)):
                y = one * (above[a] - mixture[a]) + other * (below[a] - mixture[a])
                joint[0, b, a] += y
                joint[1, b, a] += y * y


@compiled()
def _count_pairs(x: Array, rows: Array, weight: float, tally: Tally) -> float:
    """Let the pairs x (n, d) vote for their best actions; return the mean of max X - X_lead."""
    center, lead, sums = tally.center, tally.lead, tally.sums
    width, gain, votes = len(center), 0.0, np.empty((2, len(center)))
    deviation, above, below = np.empty(width), np.empty(width), np.empty(width)
    sums[:] = 0.0
    for r in range(len(x)):
        deviation[:] = 0.0
        _add_rows(x[r], rows, deviation)
        for a in range(width):
            above[a] = center[a] + deviation[a]
            below[a] = center[a] - deviation[a]
        high, low = _largest(above), _largest(below)
        gain += (high - above[lead]) + (low - below[lead])
        one, other = 0.5 / _ties(above, high), 0.5 / _ties(below, low)
        for a in range(width):
            votes[0, a] = one if above[a] == high else 0.0
            votes[1, a] = other if below[a] == low else 0.0
            vote = votes[0, a] + votes[1, a]
            sums[0, a] += vote
            sums[1, a] += vote * vote
        if len(tally.joint) > 0:
            _join(above, below, votes, weight / len(x), tally)
    return 0.5 * gain / len(x)


@compiled()
def _fold(n: int, tally: Tally, total: Array) -> None:
    """Add a component's sums over n pairs, and their squared errors, to total (2, K, K)."""
    joint = tally.joint
    for b in range(len(tally.mixture)):
        if tally.sums[0, b] > 0.0:
            for a in range(len(tally.mixture)):
                y = joint[0, b, a]
                total[0, b, a] += y
                total[1, b, a] += (n * joint[1, b, a] - y * y) / (n - 1)
                joint[0, b, a] = joint[1, b, a] = 0.0


@compiled()
def _explain(total: Array, votes: Array, information: Array) -> None:
    """Add sum_b P(b is best) (E[X_a | b is best] - m_a)^2 to information; empty total and votes.

    ``votes`` (2, K) are the probabilities and their squared errors. The square of a sum exceeds
    that of its expectation by the sum's squared error, which is subtracted. An action that is best
    in one pair only says nothing about errors, and keeps its square.
    """
    for b in range(len(information)):
        share, error = votes[0, b], votes[1, b]
        if share > 0.0:
            alone = share * share - error < 1e-9 * error
            rest = share if alone else share - error / share
            for a in range(len(information)):
                own = 0.0 if alone else total[1, b, a]
                information[a] += (total[0, b, a] * total[0, b, a] - own) / rest
    total[:] = 0.0
    votes[:] = 0.0


@compiled()
def _mixture_scores(c: Decisions, i: int, columns: Array) -> Array:
    """Return the mean scores of the actions of decision i under the mixture, (K,)."""
    mean, scores = np.zeros(len(columns)), np.zeros(columns.shape[1])
    for s in range(c.pairs.shape[1]):
        if c.pairs[i, s] > 0:
            for k in range(len(mean)):
                mean[k] += c.weights[i, s] * c.mean[c.slot[i], s, k]
    _add_rows(mean, columns, scores)
    return scores


@compiled()
def _lead(scores: Array, mask: Array) -> int:
    """Return the first available action of the highest score."""
    lead = -1
    for a in range(len(mask)):
        if mask[a] and (lead < 0 or scores[a] > scores[lead]):
            lead = a
    return lead


@compiled(nogil=True)
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
    for i in range(len(c.slot)):
        mask = c.mask[i]
        columns = _by_column(c.sets[i % len(c.sets)], mask)
        width, mixture, gain = columns.shape[1], _mixture_scores(c, i, columns), 0.0
        shape = (2, width, width) if informed else (0, 0, 0)
        center, sums, joint = np.empty(width), np.empty((2, width)), np.zeros(shape)
        tally = Tally(mixture, _lead(mixture, mask), center, sums, joint)
        projected, votes, total = np.empty(columns.shape), np.zeros((2, width)), np.zeros(shape)
        for g in range(len(c.starts) - 1):
            fresh = True
            for s in c.members[c.starts[g] : c.starts[g + 1]]:
                n, weight = c.pairs[i, s], c.weights[i, s]
                if n == 0:
                    continue
                if fresh:
                    _project(c.root[c.slot[i], g], columns, projected)
                    fresh = False
                center[:] = 0.0
                _add_rows(c.mean[c.slot[i], s], columns, center)
                for a in range(width):
                    if a >= len(mask) or not mask[a]:
                        center[a] = -np.inf
                gain += weight * _count_pairs(x[first : first + n], projected, weight, tally)
                first += n
                for a in range(len(mask)):
                    share, square = sums[0, a] / n, sums[1, a] / n
                    squared_error = weight**2 * max(square - share * share, 0.0) / (n - 1)
                    votes[0, a] += weight * share
                    votes[1, a] += squared_error
                    probability[i, a] += weight * share
                    error[i, a] += squared_error
                if informed:
                    _fold(n, tally, total)
                if informed and by_component:
                    _explain(total, votes, information[i])
        if informed and not by_component:
            _explain(total, votes, information[i])
        check = gain
        for a in range(len(mask)):
            if mask[a]:
                check += mixture[a]
                regret[i, a] = gain + (mixture[tally.lead] - mixture[a])
            elif informed:
                information[i, a] = 0.0
        if not math.isfinite(check):
            return i
    return -1
