"""Points of integration of logistic posteriors, and the evidence of many tasks at them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mixts._typing import Array, Float
from mixts.families._kernels import logistic as kernels
from mixts.families._kernels.logistic import Design
from mixts.families.linear_bernoulli_statistics import LinearBernoulliStatistics

if TYPE_CHECKING:
    from mixts.families.linear_bernoulli import LinearBernoulli

Table = tuple[Array, Array, Array, Array]
"""The fields of ``_kernels.logistic.Tables``: offsets, rows, trials and successes."""

TOLERANCE = 0.02
"""Points are added until the standard error of the log evidence is below this."""

MOST_POINTS = 4096
"""Most points of integration for the evidence."""

KEPT_POINTS = 1024
"""Most points of the posteriors that decisions use, which are kept."""

_AT_ONCE = 64
"""Tasks of one compiled pass that keeps no posteriors."""


def logistic(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def task_bytes(n_components: int, n_features: int) -> int:
    """Return the memory of one task's posterior in bytes."""
    d = n_features
    return 8 * n_components * (KEPT_POINTS + d * d + 5 * d + 4)


def new_design(prior: LinearBernoulli) -> Design:
    """Return the moments of a prior with dense roots, and the fixed points of its dimension."""
    roots, points = prior.roots, fixed_points(prior.n_features)
    return Design(prior.mean.copy(), roots.matrices(), roots.group_of, points, TOLERANCE)


@lru_cache(maxsize=16)
def fixed_points(d: int) -> Float[Array, "d N"]:
    """Return the points of integration in d dimensions, the same in every process.

    Blocks are random shifts of a lattice ``k z / n mod 1``. Its generator z is chosen coordinate
    by coordinate to have the least worst-case error (Sloan and Reztsov), with weights that fall
    with the coordinate. In the order of reversed bits, each first half is a lattice, too.
    """
    from scipy import special  # takes as long to import as all of mixts

    n = MOST_POINTS // (2 * kernels.N_BLOCKS)
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
    shifts = np.random.default_rng(d).random((kernels.N_BLOCKS, 1, d))
    uniform = (np.outer(order, generator) / n + shifts) % 1
    return kernels.make_points(special.ndtri(np.clip(uniform, 1e-9, 1 - 1e-9)))


def evidence_of(
    design: Design, statistics: LinearBernoulliStatistics
) -> tuple[Float[Array, "n L"], Float[Array, "n L"]]:
    """Return the log evidence of each task, and its standard error."""
    n, (n_components, d) = len(statistics), design.mean.shape
    found = np.zeros((2, n, n_components))
    out = tuple(kernels.new_posterior(min(n, _AT_ONCE), n_components, d, MOST_POINTS))
    for start in range(0, n, _AT_ONCE):
        part = statistics[start : start + _AT_ONCE]
        own = part.tables
        offsets = np.append(0, np.cumsum(own.size))
        counts = own.trials.astype(float), own.successes.astype(float)
        slots, wanted = np.arange(len(part)), np.ones((len(part), n_components), bool)
        kernels.condition((offsets, own.rows, *counts), slots, tuple(design), wanted, out)
        found[:, start : start + len(part)] = out[0][: len(part)], out[1][: len(part)]
    return found[0], found[1]


def table_of(statistics: LinearBernoulliStatistics, task: int) -> Table:
    """Return the fields of ``_kernels.logistic.Tables`` for one task."""
    tables = statistics.tables
    start, size = int(tables.start[task]), int(tables.size[task])
    own = slice(start, start + size)
    counts = tables.trials[own].astype(float), tables.successes[own].astype(float)
    return np.array([0, size]), tables.rows[own], *counts
