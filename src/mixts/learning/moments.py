"""Priors from moments: how much tasks of a group differ beyond what chance alone would do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts.families import Family, GaussianArms, PoissonArms
from mixts.learning.models import Model
from mixts.learning.models.counts import CountsModel
from mixts.learning.models.gaussian import GaussianModel
from mixts.learning.models.poisson import PoissonModel
from mixts.typing import Array, Float, Int

LEAST_TOTAL, MOST_TOTAL = 0.1, 1e4
"""Of the counts of a row; a shape has the same limits. Moments of few tasks are no reason to be
surer, or less sure, than that."""


@dataclass(frozen=True)
class Moments:
    """Averages of each task's columns, and on how many observations each rests."""

    model: Model

    @classmethod
    def of(cls, model: Model) -> Moments:
        return cls(model)

    def family(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> Family:
        """The prior of each group; what a group never saw is taken from the pooled prior."""
        model = self.model
        if isinstance(model, CountsModel):
            return _counts_family(model, groups, n_groups, pooled)
        if isinstance(model, PoissonModel):
            return _poisson_family(model, groups, n_groups, pooled)
        assert isinstance(model, GaussianModel)
        return _gaussian_family(model, groups, n_groups, pooled)


def between(
    averages: Float[Array, "n ..."], counts: Int[Array, "n ..."], inside: Array
) -> tuple[Array, Array, Array, Array]:
    """Of one group: mean, observed scatter, its tasks, and the scale of the variance.

    With n_i observations of average y_i, mean m and N in all, the scatter ``sum n_i (y_i - m)^2``
    has the expectation ``(tasks - 1) within + v (N - sum n_i^2 / N)``.
    """
    n, y = counts[inside].astype(float), averages[inside]
    total = n.sum(axis=0)
    safe = np.maximum(total, 1.0)
    mean = (n * y).sum(axis=0) / safe
    scatter = (n * (y - mean) ** 2).sum(axis=0)
    tasks = (n > 0).sum(axis=0)
    scale = total - (n**2).sum(axis=0) / safe
    return mean, scatter, tasks, scale


def _variance(scatter: Array, tasks: Array, scale: Array, within: Array) -> Array:
    """The variance between tasks, at least zero."""
    excess = scatter - np.maximum(tasks - 1, 0) * within
    return np.asarray(np.maximum(excess, 0.0) / np.where(scale > 0, scale, 1.0))


def _counts_family(
    model: CountsModel, groups: Array, n_groups: int, pooled: Family | None
) -> Family:
    parts = []
    priors = model._counts(model.centre if pooled is None else pooled)
    for seen, prior, rows in zip(model._seen(), priors, model._rows, strict=True):
        totals = seen.sum(axis=2, keepdims=True)
        shares = seen / np.maximum(totals, 1)
        counts = np.broadcast_to(totals, seen.shape)
        made = []
        for g in range(n_groups):
            mean, scatter, tasks, scale = between(shares, counts, groups == g)
            # Of what a group never saw, a little is possible everywhere.
            own = totals[groups == g].sum(axis=0)
            mean = (own * mean + prior[0] / prior[0].sum(axis=1, keepdims=True)) / (own + 1)
            variance = _variance(scatter, tasks, scale, mean * (1 - mean)).sum(axis=1)
            spread = (mean * (1 - mean)).sum(axis=1)
            # A row with a single possible outcome has no spread, and any total will do.
            ratio = spread / np.where(spread > 0, np.maximum(variance, 1e-12 * spread), 1.0)
            total = np.clip(ratio - 1, LEAST_TOTAL, MOST_TOTAL)
            row = np.where(own > 0, mean * total[:, None], prior[0])
            made.append(np.where(rows.possible, row, 0.0))
        parts.append(np.stack(made))
    return model._family(tuple(parts))


def _poisson_family(
    model: PoissonModel, groups: Array, n_groups: int, pooled: Family | None
) -> PoissonArms:
    prior = model.centre if pooled is None else pooled
    assert isinstance(prior, PoissonArms)
    shapes, rates = [], []
    count, total = model._count, model._total
    averages = total / np.maximum(count, 1)
    for g in range(n_groups):
        mean, scatter, tasks, scale = between(averages, count, groups == g)
        own = count[groups == g].sum(axis=0)
        mean = (own * mean + prior.shape[0] / prior.rate[0]) / (own + 1)
        variance = _variance(scatter, tasks, scale, mean)
        shape = mean**2 / np.maximum(variance, mean**2 / MOST_TOTAL)
        shape = np.maximum(shape, LEAST_TOTAL)
        shapes.append(np.where(own > 0, shape, prior.shape[0]))
        rates.append(np.where(own > 0, shape / mean, prior.rate[0]))
    return PoissonArms(np.stack(shapes), np.stack(rates))


def _gaussian_family(
    model: GaussianModel, groups: Array, n_groups: int, pooled: Family | None
) -> GaussianArms:
    prior = model.centre if pooled is None else pooled
    assert isinstance(prior, GaussianArms)
    means, variances = [], []
    noise = prior.noise_std**2
    for g in range(n_groups):
        mean, scatter, tasks, scale = between(model._average, model._count, groups == g)
        variance = _variance(scatter, tasks, scale, np.full(len(mean), noise))
        own = model._count[groups == g].sum(axis=0)
        # An arm of which tasks do not differ is known no better than its average.
        variance = np.maximum(variance, noise / np.maximum(own, 1))
        means.append(np.where(own > 0, mean, prior.mean[0]))
        variances.append(np.where(own > 0, variance, prior.variance[0]))
    return GaussianArms(np.stack(means), np.stack(variances), prior.noise_std)
