"""The probability that an arm is the best of independent ones, by quadrature.

``P(a is best) = integral of f_a(x) prod_{b != a} F_b(x) dx``, in a coordinate where each marginal
is smooth (the logit of a Beta variable, the logarithm of a Gamma variable). Gauss-Legendre nodes
between quantiles of the arms that matter; the probabilities of all arms must sum to one, which
measures the error, and cells are halved until they do.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mixts.typing import Array, Bool, Float

TOLERANCE = 1e-10
"""How far the probabilities of one component may be from summing to one."""

_NOTABLE = 1e-8
"""A sum further from one is reported: with counts of 1e8 the distribution functions err by 1e-9."""

_TAIL = 1e-15
"""Mass that may be cut off on either side of a marginal."""

_LEVELS = np.array([_TAIL, 1e-8, 1e-4, 0.02, 0.15, 0.5])
_LEVELS = np.concatenate([_LEVELS, 1 - _LEVELS[-2::-1]])
_SPARE = np.concatenate([1 - _LEVELS[:5], [0.5], _LEVELS[4::-1]])
"""One minus each level, without rounding."""

_N_NODES = 12
_N_HALVINGS = 6
_NEGLIGIBLE = 1e-16
"""A component of less weight changes no probability that a double can hold beside one."""


@dataclass(frozen=True)
class Marginal(ABC):
    """Distributions of the arms' means: two parameters each, (2, ..., K)."""

    parameters: Array

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Array:
        """One independent draw of each."""

    @abstractmethod
    def mean(self) -> Array:
        """The expectations."""

    @abstractmethod
    def variance(self) -> Array:
        """The variances; 0 is a certain mean."""

    def select(self, index: Any) -> Self:
        """Some of the distributions."""
        where = index if isinstance(index, tuple) else (index,)
        return replace(self, parameters=self.parameters[:, *where])

    @abstractmethod
    def coordinate(self, level: Array, spare: Array) -> Array:
        """The quantile at ``level`` = 1 - ``spare`` in the smooth coordinate."""

    @abstractmethod
    def density(self, t: Array) -> Array:
        """The density in the smooth coordinate."""

    @abstractmethod
    def cdf(self, t: Array) -> Array:
        """The distribution function in the smooth coordinate."""


def best_arm_probabilities(
    marginal: Marginal, weights: Float[Array, " L"], mask: Bool[Array, " K"]
) -> tuple[Float[Array, " K"], float]:
    """P(arm is best) under the mixture, among the arms of the mask, and how far off at most.

    The error is 0 where every component's probabilities sum to one, as far as the distribution
    functions of very sharp marginals can be trusted.
    """
    result = np.zeros(len(mask))
    arms = np.flatnonzero(mask)
    error = 0.0
    for s in np.flatnonzero(weights > _NEGLIGIBLE):
        share = _one_component(marginal.select((s, arms)))
        result[arms] += weights[s] * share
        gap = abs(float(share.sum()) - 1)
        error += weights[s] * gap if gap > _NOTABLE else 0.0
    return result / result.sum(), error


def _one_component(arms: Marginal) -> Float[Array, " K"]:
    certain = arms.variance() == 0
    if not certain.any():
        return _continuous(arms, -np.inf)[0]
    # The best of the certain arms is a threshold for the others; ties share it.
    value = np.where(certain, arms.mean(), -np.inf)
    best = value == value.max()
    result = np.zeros(len(certain))
    if certain.all():
        return best / best.sum()
    result[~certain], below = _continuous(arms.select(~certain), float(value.max()))
    result[best] = below / best.sum()
    return result


def _continuous(arms: Marginal, threshold: float) -> tuple[Float[Array, " K"], float]:
    """P(arm is best and above the threshold), and P(all arms are below it)."""
    points = arms.coordinate(_LEVELS[:, None], _SPARE[:, None])
    start = max(float(points[0].max()), threshold)
    result = np.zeros(points.shape[1])
    rivals = np.flatnonzero(points[-1] > start)
    below = float(np.prod(arms.cdf(np.array(threshold)))) if np.isfinite(threshold) else 0.0
    if not len(rivals):
        return result, 1.0
    if len(rivals) == 1 and not np.isfinite(threshold):
        result[rivals] = 1.0
        return result, 0.0
    arms, points = arms.select(rivals), points[:, rivals]
    edges = _edges(points, start)
    for _ in range(_N_HALVINGS):
        share = _integrate(arms, edges)
        if abs(share.sum() + below - 1) < TOLERANCE:
            break
        edges = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))
    result[rivals] = share
    return result, below


def _edges(points: Float[Array, "q K"], start: float) -> Float[Array, " e"]:
    """Quantiles of all rivals above the start, thinned to about the width of the narrowest."""
    finish = float(points[-1].max())
    inner = np.unique(points[(points > start) & (points < finish)])
    narrowest = float((points[7] - points[3]).min()) / 8
    kept = [start]
    for point in inner:
        if point - kept[-1] > narrowest:
            kept.append(float(point))
    return np.array([*kept, finish])


def _integrate(arms: Marginal, edges: Float[Array, " e"]) -> Float[Array, " K"]:
    nodes, node_weights = _gauss_legendre()
    half = (edges[1:] - edges[:-1]) / 2
    t = ((edges[1:] + edges[:-1]) / 2)[:, None] + half[:, None] * nodes
    w = (half[:, None] * node_weights).ravel()
    t = t.reshape(-1, 1)
    # A floor keeps the quotient of the product by one factor defined where both vanish.
    log_cdf = np.log(np.maximum(arms.cdf(t), 1e-300))
    others = log_cdf.sum(axis=1, keepdims=True) - log_cdf
    return np.asarray(w @ (arms.density(t) * np.exp(others)))


@functools.cache
def _gauss_legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    return nodes, weights
