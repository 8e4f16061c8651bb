"""The compiled loop that folds rows of features into the triangles of many tasks."""

from __future__ import annotations

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.linear import fold


@compiled()
def fold_rows(tasks: Array, features: Array, rewards: Array, count: Array, factor: Array) -> None:
    """Each row [a', y] into the triangle of its task, in the order of the rows."""
    m, d = features.shape
    row = np.empty(d + 1)
    for i in range(m):
        row[:d] = features[i]
        row[d] = rewards[i]
        fold(factor[tasks[i]], row)
        count[tasks[i]] += 1
