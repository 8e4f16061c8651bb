"""Moments of rows of Dirichlet counts, and one row that keeps those of a mixture.

A Beta distribution is a row of two, so that rewards and transitions share all of this.
"""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Float

LEAST_TOTAL = 0.01
"""Of a collapsed row: components that are certain of different things would leave no count."""


def row_means(counts: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """E[p] of each row."""
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def row_variances(counts: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """Var[p] of each entry, m (1 - m) / (total + 1)."""
    mean = row_means(counts)
    return np.asarray(mean * (1 - mean) / (counts.sum(axis=-1, keepdims=True) + 1))


def row_covariances(counts: Float[Array, "... k"]) -> Float[Array, "... k k"]:
    """Cov[p] of each row, (diag m - m m') / (total + 1)."""
    mean = row_means(counts)
    outer = mean[..., :, None] * mean[..., None, :]
    diagonal = mean[..., :, None] * np.eye(counts.shape[-1])
    return np.asarray((diagonal - outer) / (counts.sum(axis=-1)[..., None, None] + 1))


def collapse_rows(counts: Float[Array, "L ..."], weights: Float[Array, " L"]) -> Array:
    """One row for the mixture of each row's L distributions, (1, ...).

    It keeps the mean m, and with v the entries' variances under the mixture its total count is
    ``sum m (1 - m) / sum v - 1``: for two entries that is the Beta distribution of the same
    variance. A row that is certain, and of the same thing in all components, stays certain.
    """
    share = weights.reshape(-1, *[1] * (counts.ndim - 1))
    each = row_means(counts)
    mean = (share * each).sum(axis=0, keepdims=True)
    # Where all components agree the mean is theirs to the bit: no entry gets a crumb of weight.
    alike = (np.where(share > 0, each, each[np.argmax(weights)]) == each[np.argmax(weights)]).all(0)
    mean = np.where(alike, each[np.argmax(weights)], mean)
    between = (share * (each - mean) ** 2).sum(axis=0, keepdims=True)
    variance = (share * row_variances(counts)).sum(axis=0, keepdims=True) + between
    spread = (mean * (1 - mean)).sum(axis=-1, keepdims=True)
    noise = variance.sum(axis=-1, keepdims=True)
    usual = (share * counts.sum(axis=-1, keepdims=True)).sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.where(noise > 0, np.maximum(spread / noise - 1, LEAST_TOTAL), usual)
    return np.asarray(mean * total)
