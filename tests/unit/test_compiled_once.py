"""Loops are compiled for one kind of array: however a user's arrays lie in memory, they serve."""

from __future__ import annotations

import numpy as np

import mixts
from mixts.families._kernels import linear

TABLE = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.5, 0.0]])


def ways(column: np.ndarray) -> list[np.ndarray]:
    """The same numbers plain, strided and read-only."""
    strided = np.repeat(column, 2, axis=0)[::2]
    fixed = column.copy()
    fixed.flags.writeable = False
    return [column.copy(), strided, fixed]


def test_linear_updates() -> None:
    prior = mixts.MixturePrior(mixts.LinearGaussian.standard(2, 0.5))
    belief = prior.belief()
    belief.update([1.0, 0.0], 0.5)
    before = len(linear.observe.signatures)
    for features, rewards in zip(ways(TABLE[:, :2]), ways(TABLE[:, 2]), strict=True):
        belief.update(features, rewards)
    belief.update(TABLE[:, :2], TABLE[:, 2])
    belief.update(np.asfortranarray(TABLE[:, :2]), TABLE[:, 2].astype(np.float32))
    assert len(linear.observe.signatures) == before
