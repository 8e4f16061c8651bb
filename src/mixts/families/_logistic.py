"""Posteriors of logistic models given one component: evidence with its error, points, and draws.

A task's table has R distinct rows x with n trials and k successes each, and
``P(success | x) = logistic(x'theta)``. Given a component, ``theta = mean + C u`` with u standard
normal, and the log posterior of u is, up to a constant::

    l(u) = -|u|^2 / 2 + sum_i [k_i eta_i - n_i softplus(eta_i)],  eta = X theta

The evidence, (2 pi)^(-d/2) times the integral of exp(l), comes from importance sampling at fixed
points. Its proposal is built in steps:

1. *Reduce.* If R < d, a rotation of u makes ``X C`` lower triangular. The coordinates beyond the
   first R keep their prior, and only r = min(R, d) coordinates v remain to integrate over.
2. *Mode.* Damped Newton steps find v_0; the Hessian ``H = I + F'WF = T T'``, where F is X C in the
   coordinates v, has eigenvalues >= 1. Coordinates y with ``v = v_0 + T^-T y`` have about the
   posterior N(0, I).
3. *Shape.* Coordinate by coordinate, ``y = centre + spread z + bend sqrt(1 + z^2)`` with z standard
   normal. The slopes at the far ends, spread - bend and spread + bend, differ where the posterior
   is skewed: a history without clicks has a long lower tail and a short upper tail. If a
   coordinate's third and fourth derivatives g and h of minus the log posterior are small, the mean
   is that of the expansion around the mode, -g / 2, and the bend is -g / 3, which makes 0.57 of
   the expansion's skewness -g. Otherwise each slope is the largest at
   which the log posterior drops, at some distance, as that of a normal density (Geweke 1989), and
   the highest density is at the mode. The other coordinates move the mean further, in first order
   by ``-1/2 sum_i g_i a_ij (|a_i|^2 - a_ij^2)`` with the rows' third derivatives and the rows a of
   ``A = F T^-T``.
4. *Points.* z are lattice points, each with its mirror image -z, in ``N_BLOCKS`` independent
   randomisations. The scatter of the blocks' means gives the standard error of the log evidence.
   The number of points is doubled until this error is below the tolerance, or until there are as
   many as allowed.

The log weight of z has the posterior, and the density of y under the proposal::

    log posterior(y) - log posterior(0) + |z|^2 / 2 + sum ln(spread + bend z / sqrt(1 + z^2))

So the density of the proposal is ``q(y) = N(z; 0, I) / prod (spread + bend z / sqrt(1 + z^2))``.
Because y is measured from the mode, it needs neither k nor u: with ``e = A y`` and p, w the success
probabilities and the weights n p (1 - p) at the mode::

    log posterior(y) - log posterior(0) = slack'y - |y|^2 / 2
        + sum_i [w_i e_i^2 / 2 + n_i p_i e_i - n_i (softplus(eta_i + e_i) - softplus(eta_i))]

``slack`` is the gradient that Newton's last step left, so the formula holds at any v_0.

Everything is a function of prior and table alone. The compiled core, ``src/core/logistic.hpp``,
takes the same steps at the same points: evidence differs by rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _program
from mixts._typing import Array, Bool, Float, Int

N_BLOCKS = 8
"""Independent randomisations of the points."""
_PER_BLOCK = 8
CHUNK = 2 * N_BLOCKS * _PER_BLOCK
"""Points that are added at a time: 8 points of each block, and their mirror images."""
MOST_POINTS = 4096
"""Most points of integration for the evidence."""
TOLERANCE = 0.02
"""Points are added until the standard error of the log evidence is below this."""

_T_RATIO = 3.499 / 3.0
"""The 99.5 % quantile of Student's distribution with 7 degrees of freedom over 3: three reported
errors cover 99 %, although the scatter is estimated from 8 blocks."""

_SKEWED, _CURVED = 0.4, 0.2
"""Third and fourth derivatives, in powers of a deviation, from which drops are measured. The terms
that the expansion leaves out are of order g^2 and h. Of thresholds 0.2, 0.4, 0.6, 0.8 and 0.2, 0.6
these gave the most even weights on simulated histories of clicks."""
_DROPS = np.array([0.5, 1.0, 2.0, 4.0])
"""Distances from the mode, in Laplace's standard deviations, at which drops are measured."""
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

_DECREMENT = 1e-8
"""Stop when the next Newton step would raise the log posterior by less than half of this: the mode
is then within 1e-4 deviations. Laplace's evidence changes by as little, the integral by less."""
_N_STEPS = 200
_STEEP, _HOTTEST, _COOLING = 64.0, 1e16, 8.0
"""If log odds under the prior can exceed ``_STEEP``, Newton's steps could get lost, as they do at
1e6. The search then begins with the flatter curve logistic(eta / heat), on which log odds are at
most 1, and divides the heat by ``_COOLING`` until it is 1. The heat is at most ``_HOTTEST``:
doubles do not resolve larger log odds, and an infinite heat would never cool."""
_CANCELLED = 1e-6
"""Least share of a pivot that may be left by a subtraction, before a QR factorisation without
squares replaces Cholesky's."""

_MIXING = (0.0, 0.6, 0.8, 0.9)
"""Correlation of each proposal of ``draw`` with the present point. The first, 0, forgets that
point, but is rarely accepted if weights are uneven; the others take smaller steps."""
N_MOVES = len(_MIXING)
_LARGE_ERROR = 0.05
"""Error of the log evidence below which only differences to the proposal's moments are estimated:
weights are then so even that the estimated covariance is positive definite, even of few points."""
_BLOCK_TASKS = 64
"""Tasks that a thread of the core computes at a time."""
_AT_ONCE = 1 << 20
"""Largest number of entries in a temporary array of rows by points."""

Table = tuple[Array, Array, Array]
"""Rows (R, d) of a task, with their trials and successes (R,), all of them real numbers."""


# -- the prior and its points ---------------------------------------------------------------------


class Points:
    """Fixed points of integration z, (d, N): standard normals in the order of ``make_points``."""

    def __init__(self, z: Float[Array, "d N"]) -> None:
        self.z = np.ascontiguousarray(z)

    @cached_property
    def compiled(self) -> Any:
        """The same points in the core."""
        return _program.core.LogisticPoints(self.z)


@dataclass(frozen=True)
class Design:
    """The prior, and the fixed points."""

    mean: Float[Array, "L d"]
    root: Float[Array, "G d d"]
    """Lower roots C of the covariances; may be singular."""
    group_of: Int[Array, " L"]
    """Each component's root."""
    points: Points

    @cached_property
    def compiled(self) -> Any:
        """The same design in the core."""
        root = np.ascontiguousarray(self.root)
        arrays = np.ascontiguousarray(self.mean), root, np.asarray(self.group_of, np.int64)
        return _program.core.LogisticDesign(*arrays, self.points.compiled)


def make_points(normals: Float[Array, "blocks n d"]) -> Points:
    """Return the points (d, N) of blocks of standard normals, N = 16 n.

    A chunk holds 8 points of each block, then their mirror images; n is 8 times a power of two.
    """
    n_blocks, n, d = normals.shape
    chunks = normals.reshape(n_blocks, n // _PER_BLOCK, _PER_BLOCK, d).transpose(3, 1, 0, 2)
    half = chunks.reshape(d, n // _PER_BLOCK, n_blocks * _PER_BLOCK)
    return Points(np.concatenate([half, -half], axis=2).reshape(d, -1))


@lru_cache(maxsize=16)
def fixed_points(d: int) -> Points:
    """Return the points of integration in d dimensions, the same in every process.

    Blocks are random shifts of a lattice ``k z / n mod 1``. Its generator z is chosen coordinate
    by coordinate to have the least worst-case error (Sloan and Reztsov), with weights that fall
    with the coordinate. In the order of reversed bits, each first half is a lattice, too.
    """
    n = MOST_POINTS // (2 * N_BLOCKS)
    order = np.zeros(1, np.int64)
    while len(order) < n:
        order = np.concatenate([2 * order, 2 * order + 1])
    odd, places, error, generator = np.arange(1, n, 2), np.arange(n), np.ones(n), []
    for j in range(d):
        x = np.outer(odd, places) % n / n
        factors = 1 + (2 * math.pi) ** 2 / (j + 1) * (x * x - x + 1 / 6)
        best = int((factors @ error).argmin())
        error *= factors[best]
        generator.append(int(odd[best]))
    shifts = np.random.default_rng(d).random((N_BLOCKS, 1, d))
    uniform = np.clip((np.outer(order, generator) / n + shifts) % 1, 1e-9, 1 - 1e-9)
    # Not scipy's: loading it would take most of the time of a first decision.
    normals = np.array(list(map(NormalDist().inv_cdf, uniform.ravel().tolist())))
    return make_points(normals.reshape(uniform.shape))


# -- the mode -------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """Rows at a value of theta, (R,) each."""

    eta: Array
    """Linear predictors."""
    trials: Array
    slope: Array
    """n p."""
    curvature: Array
    """n p (1 - p)."""
    level: Array
    """n softplus(eta)."""

    def rise(self, move: Float[Array, "R m"]) -> Float[Array, " m"]:
        """Return by how much log likelihoods exceed their second-order expansion, for moves e."""
        eta, trials, slope, curvature, level = (x[:, None] for x in self)
        quadratic = move * (slope + 0.5 * curvature * move)
        return (quadratic + (level - trials * np.logaddexp(0.0, eta + move))).sum(axis=0)


def lines_at(eta: Float[Array, " R"], trials: Float[Array, " R"], heat: float = 1.0) -> Lines:
    """Return the rows at their linear predictors.

    With a heat above 1 the curve is flatter: P(success) = logistic(eta / heat), and logarithms are
    multiplied by it.
    """
    cool = eta / heat
    p, q = scipy.special.expit(cool), scipy.special.expit(-cool)
    level = trials * heat * np.logaddexp(0.0, cool)
    return Lines(eta, trials, trials * p, trials * p * q / heat, level)


def rotated(
    rows: Float[Array, "R d"], root: Float[Array, "d d"]
) -> tuple[Float[Array, "d d"], Float[Array, "R r"]]:
    """Return C Q, and the first r columns of X C Q, for the rotation Q that reduces coordinates.

    Q makes X C Q lower triangular with a positive diagonal if R < d, else it is the identity.
    """
    block = rows @ root
    if len(block) >= len(root):
        return root, block
    q, upper = np.linalg.qr(block.T, mode="complete")
    q[:, : len(rows)] *= np.where(np.diagonal(upper) < 0, -1.0, 1.0)
    return root @ q, (block @ q)[:, : len(rows)]


def factorise(block: Float[Array, "R r"], weight: Float[Array, " R"]) -> Float[Array, "r r"]:
    """Return the lower triangle T of I + F'WF = T T'."""
    r = block.shape[1]
    square = np.eye(r) + (block * weight[:, None]).T @ block
    try:
        factor = np.linalg.cholesky(square)
        if (np.diagonal(factor) ** 2 > _CANCELLED * np.diagonal(square)).all():
            return np.asarray(factor)
    except np.linalg.LinAlgError:
        pass
    stacked = np.concatenate([np.eye(r), np.sqrt(weight)[:, None] * block])
    upper = np.asarray(np.linalg.qr(stacked, mode="r"))
    return np.asarray((upper * np.where(np.diagonal(upper) < 0, -1.0, 1.0)[:, None]).T)


class Summit(NamedTuple):
    """The mode of the log posterior."""

    v: Array
    """(r,): where it is."""
    value: float
    """The log posterior there, not normalised."""
    factor: Array
    """(r, r): T."""
    slack: Array
    """(r,): T^-1 gradient."""
    steep: bool
    """Whether log odds may be large."""


def newton(block: Array, lines: Lines, successes: Array, v: Array) -> tuple[Array, Array]:
    """Return T and T^-1 gradient at v."""
    factor = factorise(block, lines.curvature)
    gradient = block.T @ (successes - lines.slope) - v
    return factor, scipy.linalg.solve_triangular(factor, gradient, lower=True)


def climb(
    start: Float[Array, " R"], block: Float[Array, "R r"], trials: Array, successes: Array
) -> Summit:
    """Find the mode v by damped Newton steps; ``start`` are the linear predictors at v = 0.

    Where log odds may be large, it finds the mode of a flatter curve first, and begins there on the
    next steeper one.
    """
    largest = float((np.abs(start) + np.abs(block).sum(axis=1)).max(initial=0.0))
    heat = min(largest, _HOTTEST) if largest > _STEEP else 1.0
    v = old = step = np.zeros(block.shape[1])
    length, before, decrement, n = 0.0, -np.inf, 0.0, 0
    while True:
        v = old + length * step
        lines = lines_at(start + block @ v, trials, heat)
        value = float(successes @ lines.eta - lines.level.sum() - 0.5 * v @ v)
        # Armijo's condition, with a tenth of the slope.
        if value < before + 0.1 * length * decrement and length > 1e-9:
            length *= 0.5
            continue
        factor, slack = newton(block, lines, successes, v)
        decrement, n = float(slack @ slack), n + 1
        # Rounding of the log posterior hides smaller steps from the line search.
        enough = _DECREMENT if heat == 1.0 else 0.1 * heat
        if decrement > enough + 1e-14 * abs(value) and n <= _N_STEPS:
            before, length, old = value, 1.0, v
            step = scipy.linalg.solve_triangular(factor, slack, lower=True, trans="T")
        elif heat > 1.0:
            heat, n, before, length, old = max(1.0, heat / _COOLING), 0, -np.inf, 0.0, v
        else:
            return Summit(v, value, factor, slack, largest > _STEEP)


# -- shape and weights ----------------------------------------------------------------------------


def _measured(column: Float[Array, " R"], lines: Lines, slack: float) -> tuple[float, float, float]:
    """Return centre, spread and bend of a coordinate from drops of the log posterior along it."""

    def drops(far: Array) -> Array:
        return far * (0.5 * far - slack) - lines.rise(np.outer(column, far))

    ends = []
    for side in (1.0, -1.0):
        far = side * _DROPS
        drop = drops(far)
        while drop[-1] < _FAR_DROP and abs(far[-1]) < _FARTHEST:
            far[-1] *= 2.0
            drop[-1] = drops(far[-1:])[0]
        scale = np.abs(far) / np.sqrt(2.0 * np.maximum(drop, _LEAST_DROP * far * far))
        ends.append(float(scale.max()))
    spread, bend = 0.5 * (ends[0] + ends[1]), 0.5 * (ends[0] - ends[1])
    # The density is highest where z (spread + bend z / s) + bend / s^3 = 0. Steps towards the fixed
    # point are halved, and converge because |bend| < spread.
    z, s = 0.0, 1.0
    for _ in range(12):
        z = 0.5 * (z - bend / (s * s * s * (spread + bend * z / s)))
        s = math.sqrt(1.0 + z * z)
    return -spread * z - bend * s, spread, bend


def derivatives(
    coefficient: Float[Array, "R r"], lines: Lines
) -> tuple[Float[Array, " r"], Float[Array, " r"], Bool[Array, " r"]]:
    """Return first-order moves of the mean, third derivatives, and which coordinates are skewed."""
    share = 1.0 / np.maximum(lines.trials, 1e-300)
    g = lines.curvature * (1.0 - 2.0 * lines.slope * share)
    h = lines.curvature * (1.0 - 6.0 * lines.curvature * share)
    own = coefficient**2
    third, fourth = (g[:, None] * coefficient * own).sum(axis=0), h @ own**2
    move = -0.5 * (g[:, None] * coefficient * (own.sum(axis=1)[:, None] - own)).sum(axis=0)
    return move, third, (np.abs(third) > _SKEWED) | (np.abs(fourth) > _CURVED)


def shape_of(
    coefficient: Float[Array, "R r"], lines: Lines, slack: Float[Array, " r"]
) -> Float[Array, "3 r"]:
    """Return centre, spread and bend of each coordinate from the log posterior along it."""
    move, third, skewed = derivatives(coefficient, lines)
    bend = -third / 3.0
    spread = np.sqrt(np.maximum(1.0 - bend * bend * _VAR_SIZE, 0.0))
    shape = np.stack([-0.5 * third - bend * _MEAN_SIZE, spread, bend])
    for j in np.flatnonzero(skewed):
        shape[:, j] = _measured(coefficient[:, j], lines, slack[j])
    shape[0] += np.clip(move, -_LARGEST_MOVE, _LARGEST_MOVE)
    return shape


def warp(z: Float[Array, "r m"], shape: Float[Array, "4 r"]) -> tuple[Array, Array]:
    """Return points y of standard normal z, and their log weights but for the rows' parts."""
    centre, spread, bend, slack = shape[:, :, None]
    size = np.sqrt(1.0 + z * z)
    y = centre + spread * z + bend * size
    total = 0.5 * z * z + y * (slack - 0.5 * y) + np.log(spread + bend * z / size)
    return y, total.sum(axis=0)


def average(log_weight: Float[Array, " n"]) -> tuple[float, float]:
    """Return the log mean weight of chunks of points, and its standard error.

    The variance is the scatter of the blocks' means, and the variance that n / 2 independent pairs
    of equal weights would have, divided by the number of chunks. With 8 points a block, evenly
    spread points may gain nothing, and the scatter of 8 blocks may be small by chance, above all
    if few points in the tails matter; without this term the doubling would stop just there.

    If weights have a tail of index k, the largest of n is about n^k times the mean and errors fall
    as n^(k - 1) instead of n^(-1/2). So the error is multiplied by n^(k - 1/2), which is sqrt(n)
    times the largest share, where that is above 1.
    """
    n, top = len(log_weight), float(log_weight.max())
    weights = np.exp(log_weight - top)
    blocks = weights.reshape(-1, N_BLOCKS, _PER_BLOCK).sum(axis=(0, 2))
    total = float(blocks.sum())
    scatter = float(((N_BLOCKS * blocks / total - 1.0) ** 2).sum())
    plain = max(0.0, float(weights @ weights) / total**2 - 1.0 / n)
    variance = _T_RATIO**2 * scatter / (N_BLOCKS * (N_BLOCKS - 1)) + 2.0 * plain * CHUNK / n
    tail = max(1.0, math.sqrt(n) / total)
    return top + math.log(total / n), tail * math.sqrt(variance)


def weighted_points(
    posterior: Any, z: Float[Array, "d N"], s: int
) -> tuple[Array, float, Array, Array, Array]:
    """Return weights, the even weight, and the proposal's mean, variance and deviations.

    Weights of the n used points sum to 1. The even weight, to subtract from each, is 1 / n, or 0 if
    the error of the evidence is large. Mean and variance are those of the proposal's coordinates,
    (r,); deviations are the points' distances from that mean, (r, n).
    """
    r, n = posterior.rank, posterior.n_used[s]
    centre, spread, bend = posterior.shape[s, :3, :r]
    log_weight, z = posterior.log_weight[s, :n], z[:r, :n]
    weight = np.exp(log_weight - log_weight.max())
    y = spread[:, None] * z + bend[:, None] * (np.sqrt(1.0 + z * z) - _MEAN_SIZE)
    even = 1.0 / n if average(log_weight)[1] < _LARGE_ERROR else 0.0
    variance = spread**2 + bend**2 * _VAR_SIZE
    return weight / weight.sum(), even, centre + bend * _MEAN_SIZE, variance, y


# -- posteriors of a task -------------------------------------------------------------------------


class PointPosterior:
    """Posteriors of L components of one task, as weighted points.

    ``theta = location + direction y``. The first ``rank`` coordinates are
    ``y = centre + spread z + bend sqrt(1 + z^2)``, where z has density
    ``N(z; 0, I) exp(log_weight(z))`` up to a constant; the others are independent standard normals.

    Parameters
    ----------
    design
        The prior and the points.
    capacity
        Most points whose log weights are kept.
    """

    def __init__(self, design: Design, capacity: int) -> None:
        n, d = design.mean.shape
        self.design = design
        self.rank = 0
        """min(R, d)."""
        self.laplace = np.zeros(n)
        """Laplace's log evidence: the log posterior at the mode, not normalised, minus ln det T."""
        self.log_evidence = np.zeros(n)
        """log p(history | s): Laplace's, plus the log mean weight once points are integrated."""
        self.error = np.zeros(n)
        """Standard error of the log evidence."""
        self.n_points = np.zeros(n, np.int64)
        """Points behind the evidence, from which draws start; a multiple of ``CHUNK``."""
        self.n_known = np.zeros(n, np.int64)
        """Points whose log weights are known: at least as many."""
        self.n_used = np.zeros(n, np.int64)
        """Points behind moments: those that were asked for, whatever else is known."""
        self.location = np.zeros((n, d))
        """The modes, nearly."""
        self.direction = np.zeros((n, d, d))
        self.shape = np.zeros((n, 4, d))
        """Centre, spread, bend, slack."""
        self.log_weight = np.zeros((n, capacity))
        """Log weights of the known points; the mean weight is the evidence over Laplace's."""

    def find_modes(
        self, rows: Array, trials: Array, successes: Array, wanted: Bool[Array, " L"]
    ) -> None:
        """Set locations, directions and Laplace's evidence of the wanted components."""
        self.rank = r = min(rows.shape)
        for s in np.flatnonzero(wanted):
            turned, block = rotated(rows, self.design.root[self.design.group_of[s]])
            mean = self.design.mean[s]
            top = climb(rows @ mean, block, trials, successes)
            location, value = mean + turned[:, :r] @ top.v, top.value
            factor, slack = top.factor, top.slack
            if top.steep:
                # A log weight is a small difference between y^2 and curvature e^2, both large, so T
                # must belong to the same eta; and rounding of a location times a large feature
                # moves eta.
                lines = lines_at(rows @ location, trials)
                value = float(successes @ lines.eta - lines.level.sum() - 0.5 * top.v @ top.v)
                factor, slack = newton(block, lines, successes, top.v)
            self.location[s] = location
            self.direction[s] = turned
            heads = scipy.linalg.solve_triangular(factor, turned[:, :r].T, lower=True)
            self.direction[s, :, :r] = heads.T
            self.shape[s, 3, :r] = slack
            self.laplace[s] = value - np.log(np.diagonal(factor)).sum()
            self.log_evidence[s], self.error[s] = self.laplace[s], 0.0
            self.n_points[s] = self.n_known[s] = self.n_used[s] = 0

    def is_nearly_normal(self, rows: Array, trials: Array, s: int) -> bool:
        """Return whether no coordinate is skewed: Laplace's evidence is then nearly right."""
        lines = lines_at(rows @ self.location[s], trials)
        return not derivatives(rows @ self.direction[s, :, : self.rank], lines)[2].any()

    def weigh(
        self, rows: Array, trials: Array, successes: Array, n_points: Int[Array, " L"]
    ) -> None:
        """Let moments use so many points of each component, or those of its evidence if more.

        ``successes`` are not needed here; the core's method has the same arguments.
        """
        self._weigh(rows, trials, n_points)
        self.n_used[:] = np.where(n_points > 0, np.maximum(n_points, self.n_points), 0)

    def _weigh(self, rows: Array, trials: Array, n_points: Int[Array, " L"]) -> None:
        """Make the log weights of so many points of each component known."""
        r = self.rank
        for s in np.flatnonzero(self.n_known < n_points):
            lines = lines_at(rows @ self.location[s], trials)
            coefficient = rows @ self.direction[s, :, :r]
            if self.n_known[s] == 0:
                slack = self.shape[s, 3, :r]
                self.shape[s, :3] = np.array([0.0, 1.0, 0.0])[:, None]
                self.shape[s, :3, :r] = shape_of(coefficient, lines, slack)
            size = CHUNK * max(1, _AT_ONCE // (CHUNK * max(len(rows), 1)))
            for first in range(int(self.n_known[s]), int(n_points[s]), size):
                part = slice(first, min(first + size, int(n_points[s])))
                y, total = warp(self.design.points.z[:r, part], self.shape[s, :, :r])
                self.log_weight[s, part] = total + lines.rise(coefficient @ y)
            self.n_known[s] = n_points[s]

    def integrate(
        self, rows: Array, trials: Array, successes: Array, wanted: Bool[Array, " L"],
        tolerance: float, most: int,
    ) -> None:  # fmt: skip
        """Set the log evidence of wanted components with its error, after ``find_modes``.

        It is Laplace's value plus the log mean weight. Points are doubled until the error is below
        the tolerance, or until there are ``most``.
        """
        for s in np.flatnonzero(wanted):
            n = CHUNK
            while True:
                only = np.zeros_like(self.n_known)
                only[s] = n
                self._weigh(rows, trials, only)
                log_mean, self.error[s] = average(self.log_weight[s, :n])
                self.log_evidence[s] = self.laplace[s] + log_mean
                self.n_points[s] = self.n_used[s] = n
                if self.error[s] <= tolerance or 2 * n > most:
                    break
                n *= 2

    def draw(
        self, rows: Array, trials: Array, successes: Array, latent: Int[Array, " n"],
        rng: np.random.Generator, theta: Float[Array, "n d"], tolerance: float, most: int,
    ) -> int:  # fmt: skip
        """Set theta to draws from the components ``latent``; return how many moves were accepted.

        Components without points get them first, as from ``find_modes`` and ``integrate``.

        A draw starts at a fixed point, chosen by weight. Then it makes ``N_MOVES`` Metropolis moves
        ``z -> c z + sqrt(1 - c^2) normal``, which leave N(0, I) unchanged, so that they are
        accepted with the ratio of weights: the exact posterior is invariant, and the error of the
        fixed points contracts.
        """
        r, accepted = min(rows.shape), 0
        lacking = np.isin(np.arange(len(self.n_points)), latent) & (self.n_points == 0)
        self.find_modes(rows, trials, successes, lacking)
        self.integrate(rows, trials, successes, lacking, tolerance, most)
        for s in np.unique(latent):
            own = np.flatnonzero(latent == s)
            lines = lines_at(rows @ self.location[s], trials)
            coefficient, shape = rows @ self.direction[s, :, :r], self.shape[s, :, :r]
            log_weight = self.log_weight[s, : self.n_points[s]]
            weight = np.exp(log_weight - log_weight.max())
            start = rng.choice(len(weight), len(own), p=weight / weight.sum())
            z, present = self.design.points.z[:r, start], log_weight[start]
            for keep in _MIXING if r else ():
                fresh = math.sqrt(1.0 - keep * keep)
                new = keep * z + fresh * rng.standard_normal(z.shape)
                y, total = warp(new, shape)
                total += lines.rise(coefficient @ y)
                moves = np.log(1.0 - rng.random(len(own))) < total - present
                z, present = np.where(moves, new, z), np.where(moves, total, present)
                accepted += int(moves.sum())
            beyond = rng.standard_normal((theta.shape[1] - r, len(own)))
            y = np.concatenate([warp(z, shape)[0], beyond])
            theta[own] = self.location[s] + (self.direction[s] @ y).T
        return accepted

    # -- moments ------------------------------------------------------------------------------

    def parameter_moments(
        self, s: int, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> None:
        """Set mean and covariance of theta given component s.

        The moments of the proposal are known, so the points need to estimate only the difference
        that the weights make: sums have weights ``w - 1 / n``. Where the error of the evidence is
        above ``_LARGE_ERROR``, such sums may be no covariance, and plain weighted sums are used.
        """
        r, direction = self.rank, self.direction[s]
        weight, even, centre, variance, y = weighted_points(self, self.design.points.z, s)
        move = y @ (weight - even)
        second = np.eye(len(direction))
        second[:r, :r] = (y * (weight - even)) @ y.T - np.outer(move, move)
        if even > 0.0:
            second[range(r), range(r)] += variance
        mean[:] = self.location[s] + direction[:, :r] @ (centre + move)
        covariance[:] = direction @ second @ direction.T

    def action_moments(self, actions: Float[Array, "K d"], out: Float[Array, "4 L K"]) -> None:
        """Set mean and variance of logistic(a'theta), then of a'theta, for actions a.

        Zeros for components without known points. Coordinates beyond the rank are one more normal
        coordinate of the points. The mean of logistic(a'theta) is corrected by the proposal's known
        mean of the second-order expansion, with the coefficient of a regression (a control
        variate).
        """
        out[:] = 0.0
        for s in np.flatnonzero(self.n_used).tolist():
            out[:, s] = self._action_moments(s, actions)

    def _action_moments(self, s: int, actions: Array) -> tuple[Array, Array, Array, Array]:
        r = self.rank
        weight, even, centre, variance, y = weighted_points(self, self.design.points.z, s)
        n, h = len(weight), actions @ self.direction[s]
        middle = actions @ self.location[s] + h[:, :r] @ centre
        within, beyond = h[:, :r] ** 2 @ variance, (h[:, r:] ** 2).sum(axis=1)
        e = h[:, :r] @ y
        move = e @ (weight - even)
        spread = (e * e) @ (weight - even) - move * move + (within if even > 0.0 else 0.0)
        z = self.design.points.z
        x = e + np.sqrt(beyond)[:, None] * z[min(r, len(z) - 1), :n]
        rate = scipy.special.expit(middle[:, None] + x)
        mean = rate @ weight
        off = (rate - mean[:, None]) * weight
        deviation = np.maximum((off * (rate - mean[:, None])).sum(axis=1), 0.0)
        if even > 0.0:
            # logistic'' / (2 logistic') = (1 - 2 p) / 2 at the middle
            control = x * (1.0 - 0.5 * np.tanh(0.5 * middle)[:, None] * x)
            known = -0.5 * np.tanh(0.5 * middle) * (within + beyond)
            excess = control.mean(axis=1) - known
            square = np.maximum(control.var(axis=1), 1e-300)
            mean = mean - (off * control).sum(axis=1) / square * excess
        return np.clip(mean, 0.0, 1.0), deviation, middle + move, np.maximum(spread, 0.0) + beyond

    def gains(
        self, actions: Float[Array, "K d"], mask: Bool[Array, " K"], lead: int,
        out: Float[Array, " L"],
    ) -> None:  # fmt: skip
        """Set E[max_b p_b - p_lead] given each component, p the click rates of available actions.

        Zeros for components without known points. Coordinates beyond the rank are further
        coordinates of the points.
        """
        out[:] = 0.0
        for s in np.flatnonzero(self.n_used).tolist():
            z = self.design.points.z
            weight, _, centre, _, y = weighted_points(self, z, s)
            y = np.concatenate([centre[:, None] + y, z[self.rank :, : len(weight)]])
            e = actions @ (self.location[s][:, None] + self.direction[s] @ y)
            gain = scipy.special.expit(e[mask].max(axis=0)) - scipy.special.expit(e[lead])
            out[s] = weight @ gain


def new_posterior(design: Design, capacity: int) -> Any:
    """Return a ``PointPosterior`` of one task, or the core's, which has the same methods."""
    if _program.core is not None:
        return _program.core.LogisticPosterior(design.compiled, capacity)
    return PointPosterior(design, capacity)


# -- many tasks -----------------------------------------------------------------------------------


class ClickTasks(NamedTuple):
    """Tables of tasks, one after the other."""

    offsets: Array
    """(n + 1,): the first row of each task, and the end."""
    rows: Array
    """(N, d)."""
    trials: Array
    """(N,) real numbers."""
    successes: Array
    """(N,) real numbers."""

    def part(self, first: int, last: int) -> ClickTasks:
        """Return the tasks from ``first`` up to ``last``."""
        rows = slice(self.offsets[first], self.offsets[last])
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return ClickTasks(offsets, self.rows[rows], self.trials[rows], self.successes[rows])


class Moments(NamedTuple):
    """Log evidence of tasks with its error, (n, L), and moments of theta given each component."""

    log_evidence: Array
    error: Array
    mean: Array
    """(n, L, d); no tasks if moments are not wanted."""
    covariance: Array
    """(n, L, d, d)."""


def posterior_moments(
    design: Design,
    tasks: ClickTasks,
    most_points: int = MOST_POINTS,
    *,
    moments: bool = True,
    wanted: Bool[Array, "n L"] | None = None,
    start: Float[Array, "n L d"] | None = None,
) -> Moments:
    """Return the log evidence of all tasks and components, and moments of theta if wanted.

    Without points they are Laplace's: the mode, and the inverse of the Hessian there. Pairs of a
    task and a component that are not wanted have no evidence, and their component's mean. A start
    near the modes shortens the core's search for them, and changes what it finds by as little as
    ``_DECREMENT`` allows.
    """
    (n_components, d), n = design.mean.shape, len(tasks.offsets) - 1
    wanted = np.ones((n, n_components), bool) if wanted is None else wanted
    lead = (n if moments else 0, n_components)
    evidence, error = np.zeros((2, n, n_components))
    mean = np.tile(design.mean, (lead[0], 1, 1))
    found = Moments(evidence, error, mean, np.zeros((*lead, d, d)))
    if _program.core is not None:
        from mixts.engines._workers import in_threads  # not needed for decisions

        start = mean[:0] if start is None else start

        def work(first: int, last: int) -> None:
            given, *part = (x[first:last] for x in (wanted, start, *found))
            _program.core.logistic_moments(
                design.compiled, *tasks.part(first, last), TOLERANCE, most_points, given, *part
            )

        in_threads(work, n, _BLOCK_TASKS)
        return found
    posterior = PointPosterior(design, max(most_points, CHUNK))
    for i in range(n):
        own = tasks.part(i, i + 1)
        table = own.rows, own.trials, own.successes
        posterior.find_modes(*table, wanted[i])
        if most_points:
            posterior.integrate(*table, wanted[i], TOLERANCE, most_points)
        for s in np.flatnonzero(wanted[i]).tolist():
            found.log_evidence[i, s], found.error[i, s] = (
                posterior.log_evidence[s],
                posterior.error[s],
            )
            if not moments:
                continue
            if most_points:
                posterior.parameter_moments(s, found.mean[i, s], found.covariance[i, s])
            else:
                found.mean[i, s] = posterior.location[s]
                found.covariance[i, s] = posterior.direction[s] @ posterior.direction[s].T
    return found
