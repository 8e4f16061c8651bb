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
4. *Points.* z are lattice points, each with its mirror image -z, in ``N_BLOCKS`` independent
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
from mixts.families._kernels.roots import SUMS as _SUMS
from mixts.families._kernels.roots import dot

Plain = tuple[Any, ...]
"""The fields of the record that an argument is named after: see ``_kernels.linear``."""

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
"""Third and fourth derivatives, in powers of a deviation, from which drops are measured. The terms
that the expansion leaves out are of order g^2 and h. Of thresholds 0.2, 0.4, 0.6, 0.8 and 0.2, 0.6
these gave the most even weights on simulated histories of clicks."""
_DROPS = (0.5, 1.0, 2.0, 4.0)
"""Distances from the mode, in Laplace's standard deviations, at which drops are measured."""
_N_DROPS = 2 * len(_DROPS)
_FAR_DROP = 2.0
"""Drop up to which distances beyond 4 are tried. With a feature of 1e9 the mode is at an edge where
the curvature is a million times that of the prior beyond it, and 4 deviations are next to nothing.
"""
_FARTHEST = 1e8
_LEAST_DROP = 1e-14
"""Least drop at distance 1: a scale of at most 7 million Laplace deviations."""
_LARGEST_MOVE = 0.7
"""Moves by the other coordinates are a first-order term: beyond 0.7 deviations it is not valid."""
_MEAN_SIZE = 1.3545308064813153
"""E sqrt(1 + z^2) for a standard normal z; its variance is 2 minus the square."""
_VAR_SIZE = 2.0 - _MEAN_SIZE * _MEAN_SIZE

_DECREMENT = 1e-6
"""Stop Newton's steps when the next one raises the log posterior by less than half of this, at
a distance of 1e-3 deviations. Only the proposal depends on it, not the weights."""
_N_STEPS = 200
_STEEP, _COOLING = 64.0, 8.0
"""Log odds under the prior from which the search begins with a curve so flat that these are 1, and
the factor between one curve and the next: at once, Newton's steps get lost at log odds of 1e6."""
_CANCELLED = 1e-6
"""Least share of a pivot that may be left by a subtraction, before rotations replace it."""

_MIXING = (0.0, 0.6, 0.8, 0.9)
"""Correlations with the present point of the proposals of ``draw``, step by step: 0 mixes at once
if the weights are even, and the others move also where they are not."""
N_MOVES = len(_MIXING)
_LARGE_ERROR = 0.05
"""Error of the log evidence up to which differences to the proposal's moments are estimated: the
weights of few points then are so even that a matrix of such sums is positive definite."""

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
"""Factors between 1e-7 and 1e7 in a product before its logarithm: 1e224 does not overflow."""
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
    """(d, N): standard normals, see ``make_points``."""
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
    """Temporary vectors for up to ``CHUNK`` points."""

    move: Array
    """A row's moves e."""
    power: Array
    """exp(-|eta + e|)."""
    scale: Array
    """The power of two in ``power``."""
    bits: Array
    """``scale`` as integers."""


class _Space(NamedTuple):
    """Temporary arrays for the search of a task's modes, R rows of rank r."""

    turned: Array
    """(d, d): C Q."""
    line: Array
    """(R, d): X C Q."""
    block: Array
    """(r, R): the columns of the same that remain."""
    factor: Array
    """(r, r): T."""
    steps: Array
    """(4, d): the mode v, T^-1 gradient, Newton's step, and the point before it."""
    rows: Array
    """(6, R): eta, slope, curvature and level of ``_Lines``, eta at v = 0, and one more."""


def make_points(normals: Array) -> Array:
    """Return the points (d, N) of blocks of standard normals (N_BLOCKS, n, d), N = 16 n.

    A chunk holds 8 points of each block, then their mirror images; n is 8 times a power of two.
    """
    n_blocks, n, d = normals.shape
    chunks = normals.reshape(n_blocks, n // _PER_BLOCK, _PER_BLOCK, d).transpose(3, 1, 0, 2)
    half = chunks.reshape(d, n // _PER_BLOCK, n_blocks * _PER_BLOCK)
    return np.concatenate([half, -half], axis=2).reshape(d, -1)


def _new_buffer() -> Plain:
    """Return the fields of ``_Buffer``."""
    x, bits = np.empty((2, CHUNK)), np.empty(CHUNK, np.int64)
    return x[0], x[1], bits.view(float), bits


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


@compiled(borrows=True, fastmath=_FUSED)
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


@compiled(borrows=True)
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


@compiled(borrows=True, fastmath=_FUSED)
def _multiply(coefficient: Array, y: Array, out: Array) -> None:
    """Set out to sum_j coefficient[j] y[j], over the coordinates of points (r, m)."""
    r = len(y)
    for a in range(len(out)):
        out[a] = 0.0
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


@compiled(borrows=True, fastmath=_FUSED)
def _add_lines(coefficient: Array, y: Array, lines: _Lines, buffer: _Buffer, total: Array) -> None:
    """Add all rows' parts of the log weights of points y (r, m), with e = coefficient (R, r) y."""
    move, power = buffer.move[: len(total)], buffer.power[: len(total)]
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


@compiled(borrows=True, fastmath=_FUSED)
def _warp(z: Array, first: int, shape: Array, y: Array, total: Array, product: Array) -> None:
    """Set points y (r, m) from z, and total to log weights but for rows; ``product`` is (m,)."""
    r, m = len(y), len(total)
    for a in range(m):
        total[a], product[a] = 0.0, 1.0
    for j in range(r):
        centre, spread, bend, slack = shape[0, j], shape[1, j], shape[2, j], shape[3, j]
        zj, yj = z[j, first:], y[j]
        for a in range(m):
            size = math.sqrt(1.0 + zj[a] * zj[a])
            value = centre + spread * zj[a] + bend * size
            yj[a] = value
            total[a] += 0.5 * zj[a] * zj[a] + value * (slack - 0.5 * value)
            product[a] *= spread + bend * zj[a] / size
        if j % _FACTORS == _FACTORS - 1 or j == r - 1:
            for a in range(m):
                total[a] += math.log(product[a])
                product[a] = 1.0


@compiled(borrows=True)
def _set_lines(lines: _Lines, heat: float) -> float:
    """Set slope, curvature and level from eta; return the log likelihood.

    With a heat above 1 the curve is flatter: P(success) = logistic(eta / heat), and logarithms are
    multiplied by it.
    """
    total = 0.0
    for i in range(len(lines.eta)):
        eta, n = lines.eta[i], lines.trials[i]
        t = math.exp(-abs(eta) / heat)
        level = n * ((eta if eta > 0.0 else 0.0) + heat * _log1p(t))
        lines.slope[i] = n * (1.0 if eta > 0.0 else t) / (1.0 + t)
        lines.curvature[i] = n * t / ((1.0 + t) * (1.0 + t)) / heat
        lines.level[i] = level
        total += lines.successes[i] * eta - level
    return total


@compiled(borrows=True, fastmath=_SUMS)
def _reflect(row: Array, first: int, vector: Array, scale: float) -> None:
    """Reflect a row's entries from ``first``: subtract scale (row'vector) vector."""
    total = 0.0
    for j in range(first, len(row)):
        total += row[j] * vector[j]
    total *= scale
    for j in range(first, len(row)):
        row[j] -= total * vector[j]


@compiled(borrows=True, fastmath=_SUMS)
def _rotate(rows: Array, root: Array, space: _Space) -> None:
    """Set turned to C Q, and line and block to X C Q.

    The rotation Q makes X C Q lower triangular if R < d, and is the identity otherwise.
    """
    n_rows, d = rows.shape
    turned, line, vector, block = space.turned, space.line, space.steps[0], space.block
    for j in range(d):
        for k in range(d):
            turned[j, k] = root[j, k]
    for i in range(n_rows):
        for k in range(d):
            line[i, k] = 0.0
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


@compiled(borrows=True, fastmath=_SUMS)
def _turn_rows_in(block: Array, weight: Array, row: Array, factor: Array) -> None:
    """Do what ``_factorise`` does by rotations, without squares; ``row`` (r,) is temporary."""
    n_rows, r = len(weight), len(factor)
    for j in range(r):
        for k in range(j + 1):
            factor[j, k] = 1.0 if j == k else 0.0
    for i in range(n_rows):
        root = math.sqrt(weight[i])
        for j in range(r):
            row[j] = root * block[j, i]
        for j in range(r):
            old, x = factor[j, j], row[j]
            new = math.sqrt(old * old + x * x)
            c, s = old / new, x / new
            factor[j, j] = new
            for k in range(j + 1, r):
                f, x = factor[k, j], row[k]
                factor[k, j] = c * f + s * x
                row[k] = c * x - s * f


@compiled(borrows=True, fastmath=_SUMS)
def _factorise(block: Array, weight: Array, scaled: Array, row: Array, factor: Array) -> None:
    """Set factor to the lower triangle T of I + F'WF = T T', with the columns (r, R) of F.

    ``scaled`` (R,) and ``row`` (r,) are temporary vectors.
    """
    n_rows, r = len(weight), len(factor)
    for j in range(r):
        line = block[j]
        for i in range(n_rows):
            scaled[i] = weight[i] * line[i]
        for k in range(j + 1):
            factor[j, k] = dot(scaled, block[k], n_rows)
        for k in range(j):
            factor[j, k] = (factor[j, k] - dot(factor[j], factor[k], k)) / factor[k, k]
        square = 1.0 + factor[j, j]
        rest = square - dot(factor[j], factor[j], j)
        if not rest > _CANCELLED * square:
            _turn_rows_in(block, weight, row, factor)
            return
        factor[j, j] = math.sqrt(rest)


@compiled(borrows=True, fastmath=_SUMS)
def _solve(factor: Array, x: Array) -> None:
    """Replace x by T^-1 x."""
    for j in range(len(factor)):
        x[j] = (x[j] - dot(factor[j], x, j)) / factor[j, j]


@compiled(borrows=True, fastmath=_SUMS)
def _slack(space: _Space, lines: _Lines) -> float:
    """Set factor to T and slack to T^-1 gradient at v with its lines; return |slack|^2."""
    block, v, slack = space.block, space.steps[0], space.steps[1]
    r, n_rows = block.shape
    _factorise(block, lines.curvature, space.rows[5], slack, space.factor)
    for j in range(r):
        line, total = block[j], -v[j]
        for i in range(n_rows):
            total += (lines.successes[i] - lines.slope[i]) * line[i]
        slack[j] = total
    _solve(space.factor, slack)
    return dot(slack, slack, r)


@compiled(borrows=True, fastmath=_SUMS)
def _climb(space: _Space, lines: _Lines) -> tuple[float, bool]:
    """Find the mode v, where lines are the rows at v = 0; return the log posterior there.

    Sets factor to T, slack to T^-1 gradient, and lines to the rows at v. Where log odds may be
    large, the mode of a flatter curve is found first, and is where the search on a steeper one
    begins; the second result says so.
    """
    block, factor, start = space.block, space.factor, space.rows[4]
    v, slack, step, old = space.steps[0], space.steps[1], space.steps[2], space.steps[3]
    (r, n_rows), n, largest = block.shape, 0, 0.0
    for i in range(n_rows):
        start[i] = lines.eta[i]
        size = abs(start[i])
        for j in range(r):
            size += abs(block[j, i])
        largest = max(largest, size)
    heat = largest if largest > _STEEP else 1.0
    for j in range(r):
        old[j], step[j] = 0.0, 0.0
    length, before, decrement, value = 0.0, -np.inf, 0.0, 0.0
    while True:
        for j in range(r):
            v[j] = old[j] + length * step[j]
        _multiply(v, block, lines.eta)
        for i in range(n_rows):
            lines.eta[i] += start[i]
        value = _set_lines(lines, heat) - 0.5 * dot(v, v, r)
        # Armijo's condition, with a tenth of the slope.
        if value < before + 0.1 * length * decrement and length > 1e-9:
            length *= 0.5
            continue
        decrement = _slack(space, lines)
        n += 1
        # Rounding of the log posterior hides smaller steps from the line search.
        enough = _DECREMENT if heat == 1.0 else 0.1 * heat
        if decrement <= enough + 1e-14 * abs(value) or n > _N_STEPS:
            if heat == 1.0:
                return value, largest > _STEEP
            heat, n = max(1.0, heat / _COOLING), 0
            before, length = -np.inf, 0.0
            for j in range(r):
                old[j] = v[j]
            continue
        before, length = value, 1.0
        for j in range(r):
            old[j], step[j] = v[j], slack[j]
        for j in range(r - 1, -1, -1):
            step[j] /= factor[j, j]
            for k in range(j):
                step[k] -= factor[j, k] * step[j]


@compiled(borrows=True)
def _drop(coefficient: Array, lines: _Lines, slack: float, j: int, far: float) -> float:
    """Return by how much the log posterior falls from the mode to ``far`` along a coordinate."""
    drop = far * (0.5 * far - slack)
    for i in range(len(lines.eta)):
        eta, e = lines.eta[i], coefficient[i, j] * far
        x = eta + e
        softplus = (x if x > 0.0 else 0.0) + _log1p(math.exp(-abs(x)))
        rise = e * (lines.slope[i] + 0.5 * lines.curvature[i] * e)
        drop -= rise + (lines.level[i] - lines.trials[i] * softplus)
    return drop


@compiled(borrows=True, fastmath=_SUMS)
def _set_shape(
    coefficient: Array, lines: _Lines, buffer: _Buffer, y: Array, total: Array, moments: Array,
    shape: Array,
) -> None:  # fmt: skip
    """Set centre, spread and bend of each coordinate from the log posterior along it.

    Temporary arrays: y (r, CHUNK), total (CHUNK,), moments (3, d).
    """
    n_rows, r = coefficient.shape
    for j in range(shape.shape[1]):
        shape[0, j], shape[1, j], shape[2, j] = 0.0, 1.0, 0.0
        moments[0, j] = moments[1, j] = moments[2, j] = 0.0
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
    for j in range(r):
        for a in range(CHUNK):
            y[j, a] = 0.0
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
            for a in range(CHUNK):
                total[a] = 0.0
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
                    if h >= _N_DROPS - 2:
                        while drop < _FAR_DROP and abs(far) < _FARTHEST:
                            far *= 2.0
                            drop = _drop(coefficient, lines, shape[3, j], j, far)
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


@compiled(borrows=True, fastmath=_SUMS)
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


@compiled(borrows=True, fastmath=_SUMS)
def _average(top: float, weights: Array, blocks: Array) -> tuple[float, float]:
    """Return the log mean weight of chunks of points, and its standard error.

    The variance is the scatter of the blocks' means, and the variance that n / 2 independent pairs
    of equal weights would have, divided by the number of chunks. With 8 points a block, evenly
    spread points may gain nothing, and the scatter of 8 blocks may be small by chance, above all
    if few points in the tails matter; without this term the doubling would stop just there.

    If weights have a tail of index k, the largest of n is about n^k times the mean and errors fall
    as n^(k - 1) instead of n^(-1/2). So the error is multiplied by n^(k - 1/2), which is sqrt(n)
    times the largest share, where that is above 1. ``blocks`` is a temporary vector.
    """
    n, total, scatter, squares = len(weights), 0.0, 0.0, 0.0
    for b in range(N_BLOCKS):
        blocks[b] = 0.0
    for i in range(n):
        blocks[i % _PAIRS // _PER_BLOCK] += weights[i]
        squares += weights[i] * weights[i]
    for b in range(N_BLOCKS):
        total += blocks[b]
    for b in range(N_BLOCKS):
        x = N_BLOCKS * blocks[b] / total - 1.0
        scatter += x * x
    plain = max(0.0, squares / (total * total) - 1.0 / n)
    variance = _T_RATIO * _T_RATIO * scatter / (N_BLOCKS * (N_BLOCKS - 1))
    variance += 2.0 * plain * CHUNK / n
    tail = max(1.0, math.sqrt(n) / total)
    return top + math.log(total / n), tail * math.sqrt(variance)


@compiled(borrows=True, fastmath=_SUMS)
def _set_eta(rows: Array, location: Array, lines: _Lines) -> float:
    """Set a task's rows at theta = location; return the log likelihood."""
    for k in range(len(rows)):
        lines.eta[k] = dot(rows[k], location, len(location))
    return _set_lines(lines, 1.0)


@compiled(borrows=True)
def _find_mode(
    rows: Array, plan: Design, s: int, space: _Space, lines: _Lines, out: Posterior, at: int
) -> None:
    """Set location, direction and slack of one component, and log evidence to Laplace's."""
    d, r, mean, turned = plan.mean.shape[1], len(space.factor), plan.mean[s], space.turned
    _set_eta(rows, mean, lines)
    value, steep = _climb(space, lines)
    for k in range(d):
        location = mean[k]
        for j in range(r):
            location += turned[k, j] * space.steps[0, j]
        out.location[at, s, k] = location
    if steep:
        # The rounding of a location times a large feature moves eta. T must belong to the eta that
        # log weights use, or what is left of y^2 and curvature e^2, both large, is not a weight.
        v = space.steps[0]
        value = _set_eta(rows, out.location[at, s], lines) - 0.5 * dot(v, v, r)
        _slack(space, lines)
    for j in range(r):
        value -= math.log(space.factor[j, j])
        out.shape[at, s, 3, j] = space.steps[1, j]
    out.log_evidence[at, s] = value
    for k in range(d):
        direction = out.direction[at, s, k]
        for j in range(d):
            direction[j] = turned[k, j]
        _solve(space.factor, direction)


@compiled()
def find_modes(tables: Plain, slots: Array, design: Plain, wanted: Array, out: Plain) -> None:
    """Set all but shapes and weights, and log evidence to Laplace's; see ``condition``."""
    histories, plan, posterior = Tables(*tables), Design(*design), Posterior(*out)
    n_components, d = plan.mean.shape
    turned, steps = np.empty((d, d)), np.empty((4, d))
    for i in range(len(slots)):
        first, last, group = histories.offsets[i], histories.offsets[i + 1], -1
        n, r = last - first, min(last - first, d)
        x, rows = np.empty((6, n)), histories.rows[first:last]
        trials, successes = histories.trials[first:last], histories.successes[first:last]
        lines = _Lines(x[0], trials, successes, x[1], x[2], x[3])
        space = _Space(turned, np.empty((n, d)), np.empty((r, n)), np.empty((r, r)), steps, x)
        posterior.rank[slots[i]] = r
        for g in range(len(plan.root)):
            for s in range(n_components):
                if plan.group_of[s] == g and wanted[i, s]:
                    if group != g:
                        _rotate(rows, plan.root[g], space)
                        group = g
                    _find_mode(rows, plan, s, space, lines, posterior, slots[i])


@compiled(borrows=True)
def _integrate(
    rows: Array, lines: _Lines, plan: Design, s: int, out: Posterior, at: int, coefficient: Array,
    y: Array, buffer: _Buffer, work: Array, weights: Array,
) -> None:  # fmt: skip
    """Set shape and weights of one component, and log evidence with its error.

    Temporary arrays: coefficient (R, r), y (r, CHUNK), work (3, d), weights (N,).
    """
    shape, log_weight, direction = out.shape[at, s], out.log_weight[at, s], out.direction[at, s]
    n_points, aim = plan.points.shape[1], CHUNK
    done, error = aim - CHUNK, 0.0
    _set_eta(rows, out.location[at, s], lines)
    for k in range(len(rows)):
        line = coefficient[k]
        for j in range(len(line)):
            line[j] = 0.0
        for h in range(len(direction)):
            x, heads = rows[k, h], direction[h]
            for j in range(len(line)):
                line[j] += x * heads[j]
    _set_shape(coefficient, lines, buffer, y, weights[:CHUNK], work, shape)
    while aim <= n_points:
        while done < aim:
            total = log_weight[done : done + CHUNK]
            _warp(plan.points, done, shape, y, total, buffer.power)
            _add_lines(coefficient, y, lines, buffer, total)
            done += CHUNK
        top = _weights(log_weight[:done], buffer, weights)
        log_mean, error = _average(top, weights[:done], buffer.power)
        if error <= plan.tolerance or 2 * done > n_points:
            out.log_evidence[at, s] += log_mean
            break
        aim = 2 * done
    out.n_points[at, s], out.error[at, s] = done, error


@compiled()
def integrate(
    tables: Plain, slots: Array, design: Plain, wanted: Array, out: Plain, buffer: Plain
) -> None:
    """Set shapes and weights, and log evidence with its error; see ``condition``."""
    histories, plan, posterior, space = (
        Tables(*tables), Design(*design), Posterior(*out), _Buffer(*buffer),
    )  # fmt: skip
    d, n_points = plan.points.shape
    work, weights = np.empty((3, d)), np.empty(n_points)
    for i in range(len(slots)):
        first, last, r = histories.offsets[i], histories.offsets[i + 1], posterior.rank[slots[i]]
        x, rows = np.empty((4, last - first)), histories.rows[first:last]
        trials, successes = histories.trials[first:last], histories.successes[first:last]
        lines = _Lines(x[0], trials, successes, x[1], x[2], x[3])
        coefficient, y = np.empty((last - first, r)), np.empty((r, CHUNK))
        for s in range(len(plan.mean)):
            if wanted[i, s]:
                _integrate(
                    rows, lines, plan, s, posterior, slots[i], coefficient, y, space, work, weights
                )


def condition(tables: Plain, slots: Array, design: Plain, wanted: Array, out: Plain) -> None:
    """Set the posteriors of wanted components in the tasks' slots.

    ``tables`` are the fields of ``Tables`` with m tasks, ``slots`` (m,) their slots in the record
    ``out`` with the fields of ``Posterior``, and ``wanted`` (m, L) is boolean; the others stay as
    they are. The work is two compiled functions, because they compile faster so.
    """
    find_modes(tables, slots, design, wanted, out)
    integrate(tables, slots, design, wanted, out, _new_buffer())


class _Moves(NamedTuple):
    """Temporary arrays of m draws from a posterior of rank r."""

    z: Array
    """(r, m): the present points."""
    new: Array
    """(r, m): the proposed points."""
    y: Array
    """(r, m): the same in the coordinates y."""
    delta: Array
    """(d, m): ... and as distances of theta from the location."""
    present: Array
    """(m,): log weights of the present points."""
    total: Array
    """(m,): log weights of the proposed points."""


@compiled(borrows=True)
def _start(
    points: Array, log_weight: Array, weights: Array, uniforms: Array, moves: _Moves
) -> None:
    """Start each draw at a fixed point, chosen by its weight.

    ``weights`` (n,) are relative to the largest; they are overwritten by their sums.
    """
    n, z = len(log_weight), moves.z
    for i in range(1, n):
        weights[i] += weights[i - 1]
    for a in range(len(uniforms)):
        low, high, aim = 0, n - 1, uniforms[a, 0] * weights[n - 1]
        while low < high:
            middle = (low + high) // 2
            if weights[middle] > aim:
                high = middle
            else:
                low = middle + 1
        moves.present[a] = log_weight[low]
        for j in range(len(z)):
            z[j, a] = points[j, low]


@compiled(borrows=True)
def _draw_batch(
    rows: Array, lines: _Lines, posterior: Plain, moves: _Moves, buffer: _Buffer, random: Plain,
    theta: Array,
) -> int:  # fmt: skip
    """Move draws from their starts, and set theta (m, d); return how many moves were accepted.

    ``posterior`` are location, direction and shape of one component, ``random`` normals and
    uniforms.
    """
    (location, direction, shape), (normals, uniforms) = posterior, random
    (r, m), (d, total), accepted = moves.z.shape, (len(location), moves.total), 0
    for t in range(N_MOVES + 1 if r > 0 else 0):
        # The last round only sets y.
        keep = _MIXING[t] if t < N_MOVES else 1.0
        fresh = math.sqrt(1.0 - keep * keep)
        for j in range(r):
            for a in range(m):
                moves.new[j, a] = keep * moves.z[j, a]
                if t < N_MOVES:
                    moves.new[j, a] += fresh * normals[a, 1 + t, j]
        # Not a literal 0, for which numba would compile the loop once more.
        _warp(moves.new, 0 * m, shape, moves.y, total, buffer.power)
        if t == N_MOVES:
            break
        for k in range(d):
            _multiply(direction[k], moves.y, moves.delta[k])
        _add_lines(rows, moves.delta, lines, buffer, total)
        for a in range(m):
            if math.log(uniforms[a, 1 + t]) < total[a] - moves.present[a]:
                accepted += 1
                moves.present[a] = total[a]
                for j in range(r):
                    moves.z[j, a] = moves.new[j, a]
    for a in range(m):
        for k in range(d):
            value = location[k]
            for j in range(r):
                value += direction[k, j] * moves.y[j, a]
            for j in range(r, d):
                value += direction[k, j] * normals[a, 0, j]
            theta[a, k] = value
    return accepted


@compiled()
def draw_all(
    tables: Plain, design: Plain, posterior: Plain, which: Array, random: Plain, buffer: Plain,
    theta: Array,
) -> int:  # fmt: skip
    """See ``draw``."""
    histories, plan, out, space = (
        Tables(*tables), Design(*design), Posterior(*posterior), _Buffer(*buffer),
    )  # fmt: skip
    normals, uniforms = random
    (d, n_points), n, first, accepted = plan.points.shape, len(which), 0, 0
    weights = np.empty(n_points)
    while first < n:
        i, at, s = which[first, 0], which[first, 1], which[first, 2]
        last = first + 1
        while last < n and last - first < CHUNK:
            if which[last, 0] != i or which[last, 1] != at or which[last, 2] != s:
                break
            last += 1
        begin, end, location = histories.offsets[i], histories.offsets[i + 1], out.location[at, s]
        m, r = last - first, out.rank[at]
        x, rows = np.empty((4, end - begin)), histories.rows[begin:end]
        trials, successes = histories.trials[begin:end], histories.successes[begin:end]
        lines = _Lines(x[0], trials, successes, x[1], x[2], x[3])
        _set_eta(rows, location, lines)
        moves = _Moves(
            np.empty((r, m)), np.empty((r, m)), np.empty((r, m)), np.empty((d, m)), np.empty(m),
            np.empty(m),
        )  # fmt: skip
        if r > 0:
            log_weight = out.log_weight[at, s, : out.n_points[at, s]]
            _weights(log_weight, space, weights)
            _start(plan.points, log_weight, weights, uniforms[first:last], moves)
        accepted += _draw_batch(
            rows, lines, (location, out.direction[at, s], out.shape[at, s]), moves, space,
            (normals[first:last], uniforms[first:last]), theta[first:last],
        )  # fmt: skip
        first = last
    return accepted


def draw(
    tables: Plain, design: Plain, posterior: Plain, which: Array, random: Plain, theta: Array
) -> int:
    """Set theta (n, d) to draws from posteriors; return how many moves were accepted.

    ``which`` (n, 3) are the tasks of the draws, their slots, and components; equal neighbours are
    drawn together. ``random`` are standard normals (n, 1 + N_MOVES, d) and uniforms
    (n, 1 + N_MOVES) above 0. A draw starts at a fixed point, chosen by weight. Then it makes
    ``N_MOVES`` Metropolis moves ``z -> c z + sqrt(1 - c^2) normal``, which leave N(0, I)
    unchanged, so that they are accepted with the ratio of weights: the exact posterior is
    invariant, and the error of the fixed points contracts.
    """
    return int(draw_all(tables, design, posterior, which, random, _new_buffer(), theta))


def parameter_moments(design: Design, posterior: Posterior, at: int, s: int) -> tuple[Array, Array]:
    """Return mean (d,) and covariance (d, d) of theta of component s in a slot.

    The moments of the proposal are known, so the points need to estimate only the difference that
    the weights make: sums have weights ``w - 1 / n``. Where the error of the evidence is above
    ``_LARGE_ERROR``, such sums may be no covariance, and plain weighted sums are used.
    """
    r, direction = posterior.rank[at], posterior.direction[at, s]
    weight, share, centre, variance, y = _weighted(design, posterior, at, s)
    second, mean = np.eye(len(direction)), posterior.location[at, s] + direction[:, :r] @ centre
    move = y @ (weight - share)
    second[:r, :r] = (y * (weight - share)) @ y.T - np.outer(move, move)
    if share > 0.0:
        second[range(r), range(r)] += variance
    return mean + direction[:, :r] @ move, direction @ second @ direction.T


def _weighted(
    design: Design, posterior: Posterior, at: int, s: int
) -> tuple[Array, float, Array, Array, Array]:
    """Return the points' shares of the weight, and what to subtract from them, 1 / n or 0; mean
    and variance (r,) of the proposal's coordinates, and the points' distances (r, n) from the mean.
    """
    r, n = posterior.rank[at], posterior.n_points[at, s]
    centre, spread, bend = posterior.shape[at, s, :3, :r]
    log_weight, z = posterior.log_weight[at, s, :n], design.points[:r, :n]
    weight = np.exp(log_weight - log_weight.max())
    y = spread[:, None] * z + bend[:, None] * (np.sqrt(1.0 + z * z) - _MEAN_SIZE)
    share = 1.0 / n if posterior.error[at, s] < _LARGE_ERROR else 0.0
    variance = spread**2 + bend**2 * _VAR_SIZE
    return weight / weight.sum(), share, centre + bend * _MEAN_SIZE, variance, y


def action_moments(
    design: Design, posterior: Posterior, at: int, s: int, actions: Array
) -> tuple[Array, Array, Array, Array]:
    """Return mean and variance of logistic(a'theta), and of a'theta, (K,) each, for actions (K, d).

    Coordinates beyond the rank are one more normal coordinate of the points. The mean of
    logistic(a'theta) is corrected by the proposal's known mean of the second-order expansion, with
    the coefficient of a regression (a control variate).
    """
    r = posterior.rank[at]
    weight, share, centre, variance, y = _weighted(design, posterior, at, s)
    n, h = len(weight), actions @ posterior.direction[at, s]
    middle = actions @ posterior.location[at, s] + h[:, :r] @ centre
    within, beyond = h[:, :r] ** 2 @ variance, (h[:, r:] ** 2).sum(axis=1)
    e = h[:, :r] @ y
    move = e @ (weight - share)
    spread = (e * e) @ (weight - share) - move * move + (within if share > 0.0 else 0.0)
    x = e + np.sqrt(beyond)[:, None] * design.points[min(r, len(design.points) - 1), :n]
    rate = 1.0 / (1.0 + np.exp(-np.clip(middle[:, None] + x, -700.0, 700.0)))
    mean = rate @ weight
    off = (rate - mean[:, None]) * weight
    deviation = np.maximum((off * (rate - mean[:, None])).sum(axis=1), 0.0)
    if share > 0.0:
        # logistic'' / (2 logistic') = (1 - 2 p) / 2 at the middle
        control = x * (1.0 - 0.5 * np.tanh(0.5 * middle)[:, None] * x)
        known = -0.5 * np.tanh(0.5 * middle) * (within + beyond)
        excess = control.mean(axis=1) - known
        square = np.maximum(control.var(axis=1), 1e-300)
        mean = mean - (off * control).sum(axis=1) / square * excess
    return np.clip(mean, 0.0, 1.0), deviation, middle + move, np.maximum(spread, 0.0) + beyond
