"""Limits of numbers, means with standard errors, normalised weights, places that do not touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, Float

LARGEST = 1e75
"""Real rewards and features beyond this are refused: products of four must not overflow."""

LARGEST_COUNT = 2.0**53
"""Beyond this, a float no longer holds every whole number."""

LARGEST_TOTAL = 2.0**62
"""Sums of counts beyond this are refused: 64-bit integers must not overflow."""

LOG_2PI = math.log(2 * math.pi)


class Estimate(NamedTuple):
    """A mean over runs or tasks and its standard error (NaN for a single run)."""

    mean: Any
    error: Any


def estimate(values: Float[Array, "n ..."]) -> Estimate:
    """Return the mean over the first axis (runs or tasks) and its standard error.

    Parameters
    ----------
    values
        One value for each run or task, on the first axis.

    Returns
    -------
    Estimate
        Mean and standard error; the error of a single value is NaN.
    """
    n = len(values)
    mean = values.mean(axis=0) if n else np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(mean.shape, np.nan)
    return Estimate(mean, error) if mean.ndim else Estimate(float(mean), float(error))


def softmax(logs: Float[Array, "... L"]) -> Float[Array, "... L"]:
    """Return each row's weights, normalised, from their logarithms up to a constant.

    ``scipy.special.softmax`` accepts any array and takes several times as long.
    """
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights)


def spread(
    positions: Sequence[float],
    sizes: Sequence[float],
    low: float = -float("inf"),
    high: float = float("inf"),
) -> list[float]:
    """Move labels apart, as little as needed so that none touch.

    Minimises the sum of squared moves, keeping the order of the positions.

    Parameters
    ----------
    positions
        Wanted middles of the labels.
    sizes
        Sizes of the labels.
    low, high
        Bounds of the labels; labels that do not fit between them are centred.

    Returns
    -------
    The middles of the labels.
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    # Minus the sizes of all labels before it, each position must be at least the one before it.
    # This is isotonic regression: pool neighbours that violate the order.
    offsets, offset = [], 0.0
    for i in order:
        offsets.append(offset + sizes[i] / 2)
        offset += sizes[i]
    pools: list[tuple[float, int]] = []
    for i, before in zip(order, offsets, strict=True):
        value, count = positions[i] - before, 1
        while pools and pools[-1][0] > value:
            other, n = pools.pop()
            value, count = (other * n + value * count) / (n + count), n + count
        pools.append((value, count))
    starts = [value for value, count in pools for _ in range(count)]
    highest = high - offset
    if highest < low:
        low = highest = (low + highest) / 2
    moved = list(positions)
    for i, start, before in zip(order, starts, offsets, strict=True):
        moved[i] = min(max(start, low), highest) + before
    return moved
