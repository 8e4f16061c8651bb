"""A linear probe: multinomial logistic regression on standardised features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError

RIDGES = tuple(10.0 ** (exponent / 2) for exponent in range(0, -9, -1))
"""Strengths that are tried, from 1 down to 1e-4, until the held-out loss rises."""
HELD_OUT = 5
"""One image in so many of each class is held out."""
_ITERATIONS = 300
_LEAST_LOGIT = -60.0
"""Below the largest one."""


@dataclass(frozen=True)
class LinearProbe:
    """``logits = ((x - mean) / scale) @ weights + bias``, one for each class."""

    mean: Float[Array, " d"]
    scale: Float[Array, " d"]
    weights: Float[Array, "d k"]
    bias: Float[Array, " k"]
    ridge: float

    def logits(self, features: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """The log-probabilities of the classes, up to a number for each image."""
        return (features - self.mean) / self.scale @ self.weights + self.bias

    def loss(self, features: Float[Array, "n d"], labels: Int[Array, " n"]) -> float:
        """Mean negative log-likelihood."""
        logits = self.logits(features).astype(np.float64)
        chosen = logits[np.arange(len(labels)), labels]
        return float(np.mean(logsumexp(logits, axis=1) - chosen))

    def accuracy(self, features: Float[Array, "n d"], labels: Int[Array, " n"]) -> float:
        """The share of images whose largest logit is that of their class."""
        return float(np.mean(self.logits(features).argmax(axis=1) == labels))


def learn_probe(
    features: Float[Array, "n d"],
    labels: Int[Array, " n"],
    n_classes: int,
    ridges: Sequence[float] = RIDGES,
    moved: Callable[[int], None] = lambda done: None,
) -> LinearProbe:
    """Fitted to all images with the strength that does best on held-out ones of them.

    Strengths are tried from the first on, each beginning where the one before ended, until the loss
    on the held-out images rises. ``moved`` is called with the number of fits made, of
    ``len(ridges) + 1``.
    """
    held_out = held_out_images(labels)
    if not held_out.any():
        raise ParameterError("a probe needs at least two images of some class to choose its ridge")
    kept = features[~held_out], labels[~held_out]
    best: LinearProbe | None = None
    least = np.inf
    probe = None
    for tried, ridge in enumerate(ridges, 1):
        probe = fit_probe(*kept, n_classes, ridge, probe)
        moved(tried)
        loss = probe.loss(features[held_out], labels[held_out])
        if loss >= least:
            break
        best, least = probe, loss
    assert best is not None, "a loss is finite"
    probe = fit_probe(features, labels, n_classes, best.ridge, best)
    moved(len(ridges) + 1)
    return probe


def held_out_images(labels: Int[Array, " n"]) -> Array:
    """True for the second image of each class, and every fifth from there on.

    No chance is in it: the same images give the same probe.
    """
    held_out = np.zeros(len(labels), np.bool_)
    for label in np.unique(labels):
        held_out[np.flatnonzero(labels == label)[1::HELD_OUT]] = True
    return held_out


def fit_probe(
    features: Float[Array, "n d"],
    labels: Int[Array, " n"],
    n_classes: int,
    ridge: float,
    start: LinearProbe | None = None,
) -> LinearProbe:
    """The minimum of ``mean of -log p(label) + ridge / 2 ||weights||^2``, by L-BFGS.

    Features of one value only count nothing. ``start`` is where the search begins.
    """
    mean = features.mean(axis=0, dtype=np.float64).astype(features.dtype)
    scale = features.std(axis=0, dtype=np.float64).astype(features.dtype)
    scale[scale == 0] = 1
    inputs = (features - mean) / scale
    n, d = inputs.shape
    rows = np.arange(n)

    def objective(flat: Array) -> tuple[float, Array]:
        weights, bias = flat[:-n_classes].reshape(d, n_classes), flat[-n_classes:]
        # The products take the time, and in the features' precision half as much of it.
        logits = inputs @ weights.astype(inputs.dtype) + bias.astype(inputs.dtype)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[rows, labels].sum(dtype=np.float64)
        # Smaller ones, which no sum would notice, have products that are slow to compute with.
        probabilities = np.exp(np.maximum(logits, _LEAST_LOGIT, out=logits), out=logits)
        totals = probabilities.sum(axis=1, keepdims=True)
        loss = (np.log(totals).sum(dtype=np.float64) - chosen) / n
        probabilities /= totals
        probabilities[rows, labels] -= 1
        slope = inputs.T @ probabilities / n + ridge * weights
        slope_of_bias = probabilities.mean(axis=0, dtype=np.float64)
        value = loss + ridge / 2 * float(np.sum(weights**2))
        return value, np.concatenate([slope.ravel(), slope_of_bias])

    first = np.zeros(d * n_classes + n_classes)
    if start is not None:
        first = np.concatenate([start.weights.ravel(), start.bias]).astype(np.float64)
    options = {"maxiter": _ITERATIONS, "ftol": 1e-6, "gtol": 1e-5}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options).x
    weights = found[:-n_classes].reshape(d, n_classes).astype(features.dtype)
    return LinearProbe(mean, scale, weights, found[-n_classes:].astype(features.dtype), ridge)
