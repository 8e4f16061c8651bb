"""What priors predict of linear tasks: rotated rewards, one after the other, and the noise.

With the factor ``[A y] = Q [[R, z], [0, sqrt(rss)]]`` a task is d rewards ``z_j = R_j theta +
noise``, and the noise of the rest, rss. Under component s they are normal with mean ``R m_s`` and
covariance ``H_s H_s' = R C C' R' + sigma^2 I``, where ``C C'`` is the component's. The entries of
``H_s^-1 (z - R m_s)`` are what each reward says beyond the earlier ones, in standard deviations,
and the diagonal of H_s is those deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._typing import Array, Bool, Float, Int
from mixts.families import LinearGaussian, LinearStatistics, Statistics
from mixts.families._kernels.triangles import triangle
from mixts.learning.checking.arms import LOG_2PI, chi_squared, noise_part
from mixts.learning.checking.predictive import Part, Predictive
from mixts.prior import MixturePrior

BLOCK = 1 << 21
"""Numbers of factors at a time: tasks times components times the square of the features."""

LARGE = 1e8
"""Beyond this many times the noise, squares would lose more than half of the digits."""


@dataclass(frozen=True)
class Rotated:
    """Tasks' rotated rewards and their laws."""

    tasks: Int[Array, " m"]
    features: Float[Array, "m r d"]
    """R."""
    rewards: Float[Array, "m r"]
    """z."""
    real: Bool[Array, "m r"]
    """Which rows there are: a task with few observations has fewer than others."""
    location: Float[Array, "m L r"]
    """R m_s."""
    inverse: Float[Array, "m L r r"]
    """H_s^-1."""
    log_scale: Float[Array, "m L r"]
    """ln of the diagonal of H_s."""

    def innovations(self, rewards: Float[Array, "m r b"]) -> Float[Array, "m L r b"]:
        """H_s^-1 (z - R m_s) for b rotated rewards of each task."""
        return self.inverse @ (rewards[:, None] - self.location[..., None])


class LinearPredictive(Predictive):
    """Rotated rewards one after the other, then the noise of what is left."""

    def __init__(self, prior: MixturePrior, statistics: Statistics) -> None:
        assert isinstance(prior.family, LinearGaussian)
        assert isinstance(statistics, LinearStatistics)
        self.prior, self.family = prior, prior.family
        factor = statistics.array("factor")
        d = factor.shape[1] - 1
        self.count: Int[Array, " n"] = statistics.array("count")
        self.residual: Float[Array, " n"] = factor[:, d, d] ** 2
        self.real = _real_rows(factor[:, :d], self.count)
        self.spare: Int[Array, " n"] = np.maximum(self.count - self.real.sum(axis=1), 0)
        self.factor: Float[Array, "n d p"] = factor[:, :d] * self.real[..., None]

    def parts(self) -> Iterator[Part]:
        for rotated in self._blocks(np.arange(len(self.count))):
            innovation = rotated.innovations(rotated.rewards[..., None])[..., 0]
            for j in range(rotated.real.shape[1]):
                rows = np.flatnonzero(rotated.real[:, j])
                e, log_scale = innovation[rows, :, j], rotated.log_scale[rows, :, j]
                log = -0.5 * (LOG_2PI + e**2) - log_scale
                yield Part("rewards", rotated.tasks[rows], log, special.ndtr(e), np.zeros_like(e))
        yield noise_part(self.spare, self.residual / self.family.noise_std**2)

    def scores(self) -> Float[Array, " n"]:
        out = np.empty(len(self.count))
        for rotated in self._blocks(np.arange(len(out))):
            residual = self.residual[rotated.tasks, None]
            out[rotated.tasks] = self._score(rotated, rotated.rewards[..., None], residual)[:, 0]
        return out

    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        sigma, out, start = self.family.noise_std, np.empty((len(tasks), n)), 0
        for rotated in self._blocks(tasks):
            m, d = len(rotated.tasks), self.family.n_features
            step = max(1, BLOCK // rotated.location.size)
            for first in range(0, n, step):
                b = min(step, n - first)
                _, theta = self.prior.draw(rng, m * b)
                rewards = rotated.features @ np.swapaxes(theta.reshape(m, b, d), 1, 2)
                rewards += sigma * rng.standard_normal(rewards.shape)
                spare = np.repeat(self.spare[rotated.tasks, None], b, axis=1)
                residual = sigma**2 * chi_squared(rng, spare)
                score = self._score(rotated, rewards, residual)
                out[start : start + m, first : first + b] = score
            start += m
        return out

    def _score(
        self, rotated: Rotated, rewards: Float[Array, "m r b"], residual: Float[Array, "m b"]
    ) -> Float[Array, "m b"]:
        """The log evidence of rotated rewards and residuals."""
        real = rotated.real[:, None, :, None]
        log = -0.5 * (LOG_2PI + rotated.innovations(rewards) ** 2) - rotated.log_scale[..., None]
        given = (log * real).sum(axis=2)
        mixed = special.logsumexp(self.prior.log_weights[:, None] + given, axis=1)
        noise = self.family.noise_std**2
        rest = self.spare[rotated.tasks, None] * (LOG_2PI + np.log(noise)) + residual / noise
        return np.asarray(mixed - 0.5 * rest)

    def _blocks(self, tasks: Int[Array, " m"]) -> Iterator[Rotated]:
        n_components, d = self.family.mean.shape
        size = max(1, BLOCK // (n_components * d * d))
        root, group = _roots(self.family), self.family.roots.group_of
        for start in range(0, len(tasks), size):
            part = tasks[start : start + size]
            # Rows that none of these tasks has are left out.
            rows = np.flatnonzero(self.real[part].any(axis=0))
            factor = self.factor[part][:, rows]
            features = factor[..., :d]
            lower = _lower(features[:, None] @ root, self.family.noise_std)
            yield Rotated(
                part,
                features,
                factor[..., d],
                self.real[part][:, rows],
                np.einsum("mij,sj->msi", features, self.family.mean),
                np.linalg.inv(lower)[:, group],
                np.log(np.diagonal(lower, axis1=2, axis2=3))[:, group],
            )


def _lower(scaled: Float[Array, "m G r d"], noise_std: float) -> Float[Array, "m G r r"]:
    """H with H H' = B B' + sigma^2 I, for B = R C."""
    m, n_groups, r, d = scaled.shape
    noise = noise_std * np.eye(r)
    if (scaled**2).sum(axis=3).max(initial=0.0) < LARGE * noise_std**2:
        return np.linalg.cholesky(scaled @ np.swapaxes(scaled, 2, 3) + noise**2)
    below = np.broadcast_to(noise, (m, n_groups, r, r))
    stacked = np.concatenate([np.swapaxes(scaled, 2, 3), below], axis=2)
    upper = triangle(stacked.reshape(m * n_groups, d + r, r))
    return np.swapaxes(upper, 1, 2).reshape(m, n_groups, r, r)


def _real_rows(factor: Float[Array, "n d p"], count: Int[Array, " n"]) -> Bool[Array, "n d"]:
    """The rows of a factor that hold a reward: those that are not zero, never more than there are.

    Where rounding has left crumbs in the others, as sums of squares do, the largest are real.
    """
    size = np.linalg.norm(factor, axis=2)
    rank = np.argsort(np.argsort(-size, axis=1, kind="stable"), axis=1)
    return np.asarray((size > 0) & (rank < count[:, None]))


def _roots(family: LinearGaussian) -> Float[Array, "G d d"]:
    """The covariances' square roots, one for each group of components that share one."""
    d, values = family.n_features, family.roots.values
    if values.shape[1] == d and d > 1:
        return values[:, :, None] * np.eye(d)
    upper = np.zeros((len(values), d, d))
    upper[:, *np.triu_indices(d)] = values
    return np.swapaxes(upper, 1, 2)
