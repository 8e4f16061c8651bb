"""Coordinates of tasks with features: centred and scaled to learn in, and those of the logs.

Learning begins with a prior that is as broad for each feature as the data, and independent of the
others. A feature far from 0, such as a year, contradicts that: its coefficient and the intercept
depend on each other. In centred coordinates they do not.
"""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Float
from mixts.families import Statistics
from mixts.features import Features, NumberFeature
from mixts.prior import MixturePrior


def moments(
    space: Features, statistics: Statistics, *, centred: bool = True
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Return the mean and the spread of each number of the rows of these tasks.

    Without a constant in the rows, or if they must not be ``centred``, means are 0, and the spread
    is the root mean square. A feature that is always the same is not centred either: divided by a
    spread that is nothing but rounding, its coefficient and the intercept would be huge, and cancel
    each other. The spread of the intercept is 0.
    """
    squares, n = statistics.feature_squares, max(int(np.sum(statistics.n_observations)), 1)
    constant = space.constant if centred else None
    mean = np.zeros(space.n_numbers) if constant is None else constant @ squares / n
    size = np.sqrt(np.diagonal(squares) / n)
    variance = size**2 - mean**2
    constants = variance <= (1e-7 * size) ** 2  # below, it is lost in the rounding of squares
    mean[constants] = 0.0
    spread = np.where(constants, size, np.sqrt(np.maximum(variance, 0.0)))
    if space.intercept:
        mean[0] = spread[0] = 0.0
    return mean, spread


def scaling(
    space: Features, statistics: Statistics, *, centred: bool = True, scaled: bool = True
) -> Float[Array, "d d"]:
    """Return the matrix W by which ``W @ row`` has numbers around 0, divided by their spread.

    Levels stay as they are: each is 0 or 1.
    """
    mean, spread = moments(space, statistics, centred=centred)
    constant, matrix = space.constant, np.eye(space.n_numbers)
    for column, part in space.parts:
        j = part.start
        if isinstance(column, NumberFeature) and spread[j] > 0:
            if constant is not None and centred:
                matrix[j] -= constant * mean[j]
            matrix[j] /= spread[j] if scaled else 1.0
    return matrix


def mapped(statistics: Statistics, matrix: Float[Array, "d d"] | None) -> Statistics:
    """Return the statistics of rows ``matrix @ row``; None changes nothing."""
    return statistics if matrix is None else statistics.mapped(matrix)


def unmapped(prior: MixturePrior, matrix: Float[Array, "d d"] | None) -> MixturePrior:
    """Return a prior of rows ``matrix @ row`` as a prior of the rows; None changes nothing."""
    if matrix is None:
        return prior
    return prior.replace(family=prior.family.mapped(matrix), origin=prior.origin)
