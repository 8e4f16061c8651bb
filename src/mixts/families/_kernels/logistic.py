"""Compiled loops of the logistic family: evidence with its error, posterior points, and draws.

A task's table has R distinct rows x with n trials and k successes each, and
``P(success | x) = logistic(x'theta)``. Given a component, ``theta = mean + C u`` with u standard
normal, and the log posterior of u is, up to the log evidence,
``-|u|^2 / 2 + sum_i [k_i eta_i - n_i softplus(eta_i)]``, ``eta = X theta``.

The evidence is an integral by importance sampling at fixed points. Its proposal is built in steps:

1. *Reduce.* If R < d, a rotation of u makes ``X C`` lower triangular. The coordinates beyond the
   first R keep their prior, and only r = min(R, d) coordinates v remain to integrate over.
2. *Mode.* Damped Newton steps find v_0; the Hessian ``H = I + F'WF = T T'``, where F is X C in the
   coordinates v, has eigenvalues >= 1. Coordinates y with ``v = v_0 + T^-T y`` have about the
   posterior N(0, I).
3. *Shape.* Coordinate by coordinate, ``y = centre + spread z + bend sqrt(1 + z^2)`` with z standard
   normal. The slopes at the far ends, spread - bend and spread + bend, differ where the posterior
   is skewed: a history without clicks has a long lower tail and a short upper tail. If a
   coordinate's third and fourth derivatives g and h are small, mean and skewness are those of the
   expansion around the mode: mean -g / 2, bend -g / 3. Otherwise each slope is the largest at
   which the log posterior drops, at some distance, as that of a normal density (Geweke 1989), and
   the highest density is at the mode. The other coordinates move the mean further, in first order
   by ``-1/2 sum_i g_i a_ij (|a_i|^2 - a_ij^2)`` with the rows' third derivatives and the rows a of
   ``A = F T^-T``.
4. *Points.* z are Sobol' points, each with its mirror image -z, in ``N_BLOCKS`` independent
   randomisations. The scatter of the blocks' means gives the standard error of the log evidence.
   The number of points is doubled until this error is below the tolerance, or until all points of
   the design are used.

Because y is measured from the mode, the log weight of a point needs neither k nor u: with
``e = A y`` and p, w the success probabilities and the weights n p (1 - p) at the mode,
``log posterior(y) - log posterior(0) = slack'y - |y|^2 / 2
+ sum_i [w_i e_i^2 / 2 + n_i p_i e_i - n_i (softplus(eta_i + e_i) - softplus(eta_i))]``.
``slack`` is the gradient that Newton's last step left, so the formula holds at any v_0.

Everything is a function of prior and table alone. Points lie on the last, contiguous axis, so that
loops over them vectorise; exp and log1p are polynomials, because the C library's do not vectorise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array

Plain = tuple[Any, ...]
"""The fields of the record that an argument is named after: see ``_kernels.linear``."""

_SUMS = {"reassoc", "contract", "nsz"}
_FUSED = {"contract", "nsz"}

N_BLOCKS = 8
"""Independent randomisations of the points."""
_PER_BLOCK = 8
_PAIRS = N_BLOCKS * _PER_BLOCK
CHUNK = 2 * _PAIRS
"""Points that are evaluated together: 8 pairs of each block. Tables of 20 coordinates and 128
points take 20 kB and stay in the fastest cache."""

_T_RATIO = 3.499 / 3.0
"""The 99.5 % quantile of Student's distribution with 7 degrees of freedom over 3: three reported
errors cover 99 %, although the scatter is estimated from 8 blocks."""

_SKEWED, _CURVED = 0.4, 0.2
"""Third and fourth derivatives, per cubed and fourth power of a deviation, from which drops are
measured: in ``python -m studies.logistic`` the weights vary most evenly so."""
_DROPS = (0.5, 1.0, 2.0, 4.0)
"""Distances from the mode, in Laplace's standard deviations, at which drops are measured."""
_N_DROPS = 2 * len(_DROPS)
_LEAST_DROP = 1e-10
"""Least drop at distance 1: a scale of at most 70,000 Laplace deviations."""
_LARGEST_MOVE = 0.7
"""Moves by the other coordinates are a first-order term: beyond 0.7 deviations it is not valid."""
_MEAN_SIZE = 1.3545308064813153
"""E sqrt(1 + z^2) for a standard normal z; its variance is 2 minus the square."""
_VAR_SIZE = 2.0 - _MEAN_SIZE * _MEAN_SIZE

_DECREMENT = 1e-6
"""Stop Newton's steps when the next one raises the log posterior by less than half of this, at
a distance of 1e-3 deviations. Only the proposal depends on it, not the weights."""
_N_STEPS = 200

_MIXING = (0.0, 0.6, 0.8, 0.9)
"""Correlations with the present point of the proposals of ``draw``, step by step: 0 mixes at once
if the weights are even, and the others move also where they are not."""
N_MOVES = len(_MIXING)

_LOG2E = 1.0 / math.log(2.0)
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
"""ln 2 in two parts, the first with 21 zero bits at its end: products with exponents are exact."""
_SHIFT = 1.5 * 2.0**52
"""Adding this rounds to an integer, which is then in the low bits of the sum."""
_ONE = 1023 << 52
"""The bits of 1.0: an exponent is stored plus 1023."""
_LOWEST = -708.0
"""exp of this is the smallest power that is not subnormal; it adds nothing to 1."""
_EXP = tuple(1.0 / math.factorial(k) for k in range(13))
"""Taylor's coefficients. Beyond them: (ln 2 / 2)^13 / 13! = 2e-16."""
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(9))
"""Taylor's coefficients of atanh(s) / s in s^2 <= 0.0295. Beyond them: 0.0295^9 / 19 = 9e-16."""
_FACTORS = 32
"""Factors between 1e-6 and 1e6 in a product before its logarithm: 1e192 does not overflow."""
_ROOT2 = math.sqrt(2.0)
_HALF_LN2 = 0.5 * math.log(2.0)


class Design(NamedTuple):
    """The prior, and the fixed points."""

    mean: Array
    """(L, d)."""
    root: Array
    """(G, d, d): lower roots C of the covariances; may be singular."""
    group_of: Array
    """(L,): each component's root."""
    points: Array
    """(3, d, N): see ``make_points``."""
    tolerance: float
    """Points are added until the error of the log evidence is below this."""


class Posterior(NamedTuple):
    """Posteriors of L components in S slots, one for each task.

    ``theta = location + direction y``. The first ``rank`` coordinates are
    ``y = centre + spread z + bend sqrt(1 + z^2)``, where z has density
    ``N(z; 0, I) exp(log_weight(z))`` up to a constant; the others are independent standard normals.
    """

    log_evidence: Array
    """(S, L): log p(history | s)."""
    error: Array
    """(S, L): standard error of the log evidence."""
    n_points: Array
    """(S, L) integers: points in use, a multiple of ``CHUNK``; 0 for a component not wanted."""
    rank: Array
    """(S,) integers: min(R, d)."""
    location: Array
    """(S, L, d): the mode, nearly."""
    direction: Array
    """(S, L, d, d)."""
    shape: Array
    """(S, L, 4, d): centre, spread, bend, slack."""
    log_weight: Array
    """(S, L, N): log weights of the points in use; the mean weight is the evidence over Laplace's
    approximation of it."""


class Tables(NamedTuple):
    """The histories of m tasks."""

    offsets: Array
    """(m + 1,): task i has the rows from offsets[i] to offsets[i + 1]."""
    rows: Array
    """(R, d)."""
    trials: Array
    """(R,) real."""
    successes: Array
    """(R,) real."""


class _Lines(NamedTuple):
    """One task's rows at the mode, (R,) each."""

    eta: Array
    """Linear predictors."""
    trials: Array
    """n."""
    successes: Array
    """k."""
    slope: Array
    """n p."""
    curvature: Array
    """n p (1 - p)."""
    level: Array
    """n softplus(eta)."""


class _Buffer(NamedTuple):
    """Temporary vectors (m,) for m points."""

    move: Array
    """A row's moves e."""
    power: Array
    """exp(-|eta + e|)."""
    scale: Array
    """The power of two in ``power``."""
    bits: Array
    """``scale`` as integers."""


def make_points(normals: Array) -> Array:
    """Return the tables (3, d, N) of blocks of standard normals (N_BLOCKS, n, d), N = 16 n.

    A chunk holds 8 points of each block, then their mirror images. The tables are z,
    sqrt(1 + z^2), and the sum of z^2 / 2 - log sqrt(1 + z^2) over the coordinates so far.
    """
    n_blocks, n, d = normals.shape
    if n_blocks != N_BLOCKS or n % _PER_BLOCK:
        raise ValueError(f"expected {N_BLOCKS} blocks of a multiple of {_PER_BLOCK} points")
    chunks = normals.reshape(n_blocks, n // _PER_BLOCK, _PER_BLOCK, d).transpose(3, 1, 0, 2)
    half = chunks.reshape(d, n // _PER_BLOCK, _PAIRS)
    z = np.concatenate([half, -half], axis=2).reshape(d, -1)
    size = np.sqrt(1.0 + z * z)
    return np.ascontiguousarray([z, size, np.cumsum(0.5 * z * z - np.log(size), axis=0)])


def new_posterior(n_slots: int, n_components: int, d: int, n_points: int) -> Posterior:
    """Allocate slots for up to this many points."""
    lead = (n_slots, n_components)
    return Posterior(
        np.zeros(lead),
        np.zeros(lead),
        np.zeros(lead, np.int64),
        np.zeros(n_slots, np.int64),
        np.zeros((*lead, d)),
        np.zeros((*lead, d, d)),
        np.zeros((*lead, 4, d)),
        np.zeros((*lead, n_points)),
    )


@compiled(fastmath=_FUSED)
def _exp(x: Array, buffer: _Buffer) -> None:
    """Replace x by exp(x) for x <= 0."""
    c, scale, bits = _EXP, buffer.scale, buffer.bits
    for i in range(len(x)):
        value = x[i] if x[i] > _LOWEST else _LOWEST
        shifted = value * _LOG2E + _SHIFT
        exponent = shifted - _SHIFT
        r = (value - exponent * _LN2_HIGH) - exponent * _LN2_LOW
        upper = c[8] + r * (c[9] + r * (c[10] + r * (c[11] + r * c[12])))
        lower = c[4] + r * (c[5] + r * (c[6] + r * (c[7] + r * upper)))
        x[i] = c[0] + r * (c[1] + r * (c[2] + r * (c[3] + r * lower)))
        scale[i] = shifted
    for i in range(len(x)):
        bits[i] = (bits[i] << 52) + _ONE
    for i in range(len(x)):
        x[i] *= scale[i]


@compiled(inline="always")
def _log1p(t: float) -> float:
    """Return log(1 + t) for 0 <= t <= 1, with its relative precision."""
    c = _ATANH
    far = t > _ROOT2 - 1.0
    # With 1 + t = c (1 + s) / (1 - s), c = 1 or sqrt(2): |s| < 0.172.
    s = (t - (_ROOT2 - 1.0 if far else 0.0)) / (t + (_ROOT2 + 1.0 if far else 2.0))
    q = s * s
    upper = c[4] + q * (c[5] + q * (c[6] + q * (c[7] + q * c[8])))
    series = c[0] + q * (c[1] + q * (c[2] + q * (c[3] + q * upper)))
    return (_HALF_LN2 if far else 0.0) + 2.0 * s * series


@compiled(fastmath=_FUSED)
def _multiply(coefficient: Array, y: Array, out: Array) -> None:
    """Set out to sum_j coefficient[j] y[j], over the coordinates of points (r, m)."""
    r = len(y)
    out[:] = 0.0
    for j in range(0, r - 3, 4):
        c0, c1 = coefficient[j], coefficient[j + 1]
        c2, c3 = coefficient[j + 2], coefficient[j + 3]
        y0, y1, y2, y3 = y[j], y[j + 1], y[j + 2], y[j + 3]
        for a in range(len(out)):
            out[a] += c0 * y0[a] + c1 * y1[a] + c2 * y2[a] + c3 * y3[a]
    for j in range(r - r % 4, r):
        c0, y0 = coefficient[j], y[j]
        for a in range(len(out)):
            out[a] += c0 * y0[a]


@compiled(fastmath=_FUSED)
def _add_lines(coefficient: Array, y: Array, lines: _Lines, buffer: _Buffer, total: Array) -> None:
    """Add all rows' parts of the log weights of points y (r, m), with e = coefficient (R, r) y."""
    move, power = buffer.move, buffer.power
    for i in range(len(lines.eta)):
        eta, n, level = lines.eta[i], lines.trials[i], lines.level[i]
        slope, half = lines.slope[i], 0.5 * lines.curvature[i]
        _multiply(coefficient[i], y, move)
        for a in range(len(move)):
            power[a] = -abs(eta + move[a])
        _exp(power, buffer)
        for a in range(len(move)):
            e = move[a]
            x = eta + e
            softplus = (x if x > 0.0 else 0.0) + _log1p(power[a])
            total[a] += e * (slope + half * e) + (level - n * softplus)


@compiled(fastmath=_FUSED)
def _warp(z: Array, size: Array, shape: Array, y: Array, total: Array) -> None:
    """Set points y (r, m) from z and size = sqrt(1 + z^2), and add all but the rows to total.

    ``total`` comes with the sum of z^2 / 2 - log(size).
    """
    r, m = len(y), len(total)
    product = np.ones(m)
    for j in range(r):
        centre, spread, bend, slack = shape[0, j], shape[1, j], shape[2, j], shape[3, j]
        zj, sj, yj = z[j], size[j], y[j]
        for a in range(m):
            value = centre + spread * zj[a] + bend * sj[a]
            yj[a] = value
            total[a] += value * (slack - 0.5 * value)
            product[a] *= spread * sj[a] + bend * zj[a]
        if j % _FACTORS == _FACTORS - 1 or j == r - 1:
            for a in range(m):
                total[a] += math.log(product[a])
                product[a] = 1.0


@compiled()
def _set_lines(lines: _Lines) -> float:
    """Set slope, curvature and level from eta; return the log likelihood."""
    total = 0.0
    for i in range(len(lines.eta)):
        eta, n = lines.eta[i], lines.trials[i]
        t = math.exp(-abs(eta))
        level = n * ((eta if eta > 0.0 else 0.0) + _log1p(t))
        lines.slope[i] = n * (1.0 if eta > 0.0 else t) / (1.0 + t)
        lines.curvature[i] = n * t / ((1.0 + t) * (1.0 + t))
        lines.level[i] = level
        total += lines.successes[i] * eta - level
    return total


@compiled()
def _lines_of(tables: Tables, i: int) -> _Lines:
    """Return task i's rows; only trials and successes are set."""
    first, last = tables.offsets[i], tables.offsets[i + 1]
    x, trials, successes = np.empty((4, last - first)), tables.trials, tables.successes
    return _Lines(x[0], trials[first:last], successes[first:last], x[1], x[2], x[3])


@compiled()
def _new_buffer(m: int) -> _Buffer:
    """Allocate the record."""
    x = np.empty((3, m))
    return _Buffer(x[0], x[1], x[2], x[2].view(np.int64))


@compiled(fastmath=_SUMS)
def _dot(x: Array, y: Array, n: int) -> float:
    """Return x'y over the first n entries."""
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@compiled(fastmath=_SUMS)
def _reflect(row: Array, first: int, vector: Array, scale: float) -> None:
    """Reflect a row's entries from ``first``: subtract scale (row'vector) vector."""
    total = 0.0
    for j in range(first, len(row)):
        total += row[j] * vector[j]
    total *= scale
    for j in range(first, len(row)):
        row[j] -= total * vector[j]


@compiled(inline="always", fastmath=_SUMS)
def _rotate(rows: Array, root: Array, turned: Array, block: Array) -> None:
    """Set turned (d, d) to C Q, and the columns, block (r, R), of X C Q.

    The rotation Q makes X C Q lower triangular if R < d, and is the identity otherwise.
    """
    n_rows, d = rows.shape
    line, vector = np.zeros((n_rows, d)), np.zeros(d)
    for j in range(d):
        for k in range(d):
            turned[j, k] = root[j, k]
    for i in range(n_rows):
        for j in range(d):
            x = rows[i, j]
            if x != 0.0:
                for k in range(j + 1):
                    line[i, k] += x * root[j, k]
    for i in range(n_rows if n_rows < d else 0):
        square = 0.0
        for j in range(i, d):
            vector[j] = line[i, j]
            square += vector[j] * vector[j]
        if square > 0.0:
            norm = math.copysign(math.sqrt(square), vector[i])
            vector[i] += norm
            scale = 1.0 / (norm * vector[i])
            for k in range(n_rows - i + d):
                row = line[i + k] if i + k < n_rows else turned[i + k - n_rows]
                _reflect(row, i, vector, scale)
    for j in range(len(block)):
        for i in range(n_rows):
            block[j, i] = line[i, j]


@compiled(fastmath=_SUMS)
def _factorise(block: Array, weight: Array, factor: Array) -> None:
    """Set factor to the lower triangle T of I + F'WF = T T', with the columns (r, R) of F."""
    n_rows, r = len(weight), len(factor)
    scaled = np.empty(n_rows)
    for j in range(r):
        line = block[j]
        for i in range(n_rows):
            scaled[i] = weight[i] * line[i]
        for k in range(j + 1):
            factor[j, k] = _dot(scaled, block[k], n_rows)
        for k in range(j):
            factor[j, k] = (factor[j, k] - _dot(factor[j], factor[k], k)) / factor[k, k]
        factor[j, j] = math.sqrt(1.0 + factor[j, j] - _dot(factor[j], factor[j], j))


@compiled(fastmath=_SUMS)
def _solve(factor: Array, x: Array) -> None:
    """Replace x by T^-1 x."""
    for j in range(len(factor)):
        x[j] = (x[j] - _dot(factor[j], x, j)) / factor[j, j]


@compiled(inline="always", fastmath=_SUMS)
def _climb(
    block: Array, start: Array, factor: Array, v: Array, slack: Array, lines: _Lines
) -> float:
    """Find the mode v from v = 0; return the log posterior there.

    Sets factor to T, slack to T^-1 gradient, and lines to the rows at v.
    """
    n_rows, r = len(start), len(v)
    step, old, n = np.zeros(r), np.zeros(r), 0
    length, before, decrement, value = 0.0, -np.inf, 0.0, 0.0
    while True:
        for j in range(r):
            v[j] = old[j] + length * step[j]
        _multiply(v, block, lines.eta)
        for i in range(n_rows):
            lines.eta[i] += start[i]
        value = _set_lines(lines) - 0.5 * _dot(v, v, r)
        # Armijo's condition, with a tenth of the slope.
        if value < before + 0.1 * length * decrement and length > 1e-9:
            length *= 0.5
            continue
        _factorise(block, lines.curvature, factor)
        for j in range(r):
            line, total = block[j], -v[j]
            for i in range(n_rows):
                total += (lines.successes[i] - lines.slope[i]) * line[i]
            slack[j] = total
        _solve(factor, slack)
        decrement = _dot(slack, slack, r)
        n += 1
        # Rounding of the log posterior hides smaller steps from the line search.
        if decrement <= _DECREMENT + 1e-14 * abs(value) or n > _N_STEPS:
            return value
        before, length = value, 1.0
        for j in range(r):
            old[j], step[j] = v[j], slack[j]
        for j in range(r - 1, -1, -1):
            step[j] /= factor[j, j]
            for k in range(j):
                step[k] -= factor[j, k] * step[j]


@compiled(inline="always", fastmath=_SUMS)
def _set_shape(coefficient: Array, lines: _Lines, buffer: _Buffer, shape: Array) -> None:
    """Set centre, spread and bend of each coordinate from the log posterior along it."""
    n_rows, r = coefficient.shape
    moments = np.zeros((3, r))
    move, third, fourth = moments[0], moments[1], moments[2]
    for i in range(n_rows):
        line, weight, square = coefficient[i], lines.curvature[i], 0.0
        for j in range(r):
            square += line[j] * line[j]
        # n p (1 - p) (1 - 2 p) and n p (1 - p) (1 - 6 p (1 - p))
        share = 1.0 / lines.trials[i] if lines.trials[i] > 0.0 else 0.0
        g = weight * (1.0 - 2.0 * lines.slope[i] * share)
        h = weight * (1.0 - 6.0 * weight * share)
        for j in range(r):
            own = line[j] * line[j]
            move[j] -= 0.5 * g * line[j] * (square - own)
            third[j] += g * line[j] * own
            fourth[j] += h * own * own
    total, y = np.zeros(CHUNK), np.zeros((r, CHUNK))
    first, last = 0, 0
    while last < r:
        n = 0
        while last < r and n < CHUNK:
            if abs(third[last]) > _SKEWED or abs(fourth[last]) > _CURVED:
                for h in range(_N_DROPS):
                    y[last, n + h] = _DROPS[h // 2] * (1.0 - 2.0 * (h % 2))
                n += _N_DROPS
            last += 1
        if n > 0:
            total[:] = 0.0
            _add_lines(coefficient, y, lines, buffer, total)
        n = 0
        for j in range(first, last):
            moved = min(max(move[j], -_LARGEST_MOVE), _LARGEST_MOVE)
            if abs(third[j]) > _SKEWED or abs(fourth[j]) > _CURVED:
                above, below = 0.0, 0.0
                for h in range(_N_DROPS):
                    far = y[j, n + h]
                    y[j, n + h] = 0.0
                    drop = far * (0.5 * far - shape[3, j]) - total[n + h]
                    scale = abs(far) / math.sqrt(2.0 * max(drop, _LEAST_DROP * far * far))
                    if h % 2 == 0:
                        above = max(above, scale)
                    else:
                        below = max(below, scale)
                n += _N_DROPS
                spread, bend = 0.5 * (above + below), 0.5 * (above - below)
                # The density is highest where z (spread + bend z / s) + bend / s^3 = 0. Steps
                # towards the fixed point are halved, and converge because |bend| < spread.
                z, s = 0.0, 1.0
                for _ in range(12):
                    z = 0.5 * (z - bend / (s * s * s * (spread + bend * z / s)))
                    s = math.sqrt(1.0 + z * z)
                shape[0, j] = moved - spread * z - bend * s
            else:
                bend = -third[j] / 3.0
                spread = math.sqrt(1.0 - bend * bend * _VAR_SIZE)
                shape[0, j] = moved - 0.5 * third[j] - bend * _MEAN_SIZE
            shape[1, j], shape[2, j] = spread, bend
        first = last


@compiled(fastmath=_SUMS)
def _weights(log_weight: Array, buffer: _Buffer, out: Array) -> float:
    """Set out to weights over the largest, n a multiple of ``CHUNK``; return the log of that."""
    top = -np.inf
    for i in range(len(log_weight)):
        top = max(top, log_weight[i])
    for first in range(0, len(log_weight), CHUNK):
        part = out[first : first + CHUNK]
        for i in range(CHUNK):
            part[i] = log_weight[first + i] - top
        _exp(part, buffer)
    return top


@compiled(fastmath=_SUMS)
def _average(top: float, weights: Array) -> tuple[float, float]:
    """Return the log mean weight of chunks of points, and its standard error.

    A weight that is much larger than the others says that there may be more of its like between
    the points. Its excess share is added to the error: where one point dominates, the blocks'
    scatter alone would be too optimistic.
    """
    n, blocks, total, scatter = len(weights), np.zeros(N_BLOCKS), 0.0, 0.0
    for i in range(n):
        blocks[i % _PAIRS // _PER_BLOCK] += weights[i]
    for b in range(N_BLOCKS):
        total += blocks[b]
    for b in range(N_BLOCKS):
        x = N_BLOCKS * blocks[b] / total - 1.0
        scatter += x * x
    excess = max(0.0, 1.0 / total - 1.0 / n)
    variance = _T_RATIO * _T_RATIO * scatter / (N_BLOCKS * (N_BLOCKS - 1))
    return top + math.log(total / n), math.sqrt(variance + excess * excess)


@compiled()
def _place(points: Array, first: int, shape: Array, y: Array, total: Array) -> None:
    """Set y (r, CHUNK) and ``_warp``'s part of the log weights of a chunk of the fixed points."""
    r = len(y)
    last = first + CHUNK
    for a in range(CHUNK):
        total[a] = points[2, r - 1, first + a]
    _warp(points[0, :, first:last], points[1, :, first:last], shape, y, total)


@compiled(inline="always")
def _integrate(
    coefficient: Array, lines: _Lines, buffer: _Buffer, shape: Array, design: Design, out: Array
) -> tuple[int, float, float]:
    """Set out to the log weights of as many points as needed; return n and ``_average``'s."""
    r, n_points = coefficient.shape[1], design.points.shape[2]
    y, weights, done, aim = np.empty((r, CHUNK)), np.empty(n_points), 0, CHUNK
    log_mean, error = 0.0, 0.0
    while aim <= n_points:
        while done < aim:
            total = out[done : done + CHUNK]
            _place(design.points, done, shape, y, total)
            _add_lines(coefficient, y, lines, buffer, total)
            done += CHUNK
        top = _weights(out[:done], buffer, weights[:done])
        log_mean, error = _average(top, weights[:done])
        if error <= design.tolerance:
            break
        aim = 2 * done
    return done, log_mean, error


@compiled(inline="always", fastmath=_SUMS)
def _condition_one(
    rows: Array,
    lines: _Lines,
    design: Design,
    s: int,
    at: int,
    turned: Array,
    block: Array,
    out: Posterior,
) -> None:
    """Set component s of slot ``at``, with C Q and the columns of X C Q of its group."""
    r, n_rows = block.shape
    d = len(turned)
    mean, shape, direction = design.mean[s], out.shape[at, s], out.direction[at, s]
    for j in range(d):
        out.location[at, s, j] = mean[j]
        for k in range(d):
            direction[j, k] = turned[j, k]
        shape[0, j], shape[1, j], shape[2, j], shape[3, j] = 0.0, 1.0, 0.0, 0.0
    if r == 0:
        out.n_points[at, s] = CHUNK
        out.log_weight[at, s, :CHUNK] = 0.0
        out.log_evidence[at, s] = out.error[at, s] = 0.0
        return
    start, v, slack, factor = np.empty(n_rows), np.zeros(r), np.empty(r), np.empty((r, r))
    coefficient, buffer = np.empty((n_rows, r)), _new_buffer(CHUNK)
    for i in range(n_rows):
        start[i] = _dot(rows[i], mean, d)
    value = _climb(block, start, factor, v, slack, lines)
    for j in range(r):
        shape[3, j] = slack[j]
        value -= math.log(factor[j, j])
    for i in range(n_rows + d):
        if i < n_rows:
            for j in range(r):
                coefficient[i, j] = block[j, i]
        else:
            out.location[at, s, i - n_rows] += _dot(turned[i - n_rows], v, r)
        _solve(factor, coefficient[i] if i < n_rows else direction[i - n_rows])
    _set_shape(coefficient, lines, buffer, shape)
    n, log_mean, error = _integrate(
        coefficient, lines, buffer, shape, design, out.log_weight[at, s]
    )
    out.n_points[at, s], out.log_evidence[at, s] = n, value + log_mean
    out.error[at, s] = error


@compiled()
def condition(tables: Plain, slots: Array, design: Plain, wanted: Array, out: Plain) -> None:
    """Set the posteriors of wanted components in the tasks' slots.

    ``tables`` are the fields of ``Tables`` with m tasks, ``slots`` (m,) their slots in the record
    ``out`` with the fields of ``Posterior``, and ``wanted`` (m, L) is boolean; the others' number
    of points becomes 0.
    """
    histories, plan, posterior = Tables(*tables), Design(*design), Posterior(*out)
    n_components, d = plan.mean.shape
    turned = np.empty((d, d))
    for i in range(len(slots)):
        rows = histories.rows[histories.offsets[i] : histories.offsets[i + 1]]
        lines, at = _lines_of(histories, i), slots[i]
        block, group = np.empty((min(len(rows), d), len(rows))), -1
        posterior.rank[at] = len(block)
        for g in range(len(plan.root)):
            for s in range(n_components):
                if plan.group_of[s] == g:
                    posterior.n_points[at, s] = 0
                    if wanted[i, s]:
                        if group != g:
                            _rotate(rows, plan.root[g], turned, block)
                            group = g
                        _condition_one(rows, lines, plan, s, at, turned, block, posterior)
