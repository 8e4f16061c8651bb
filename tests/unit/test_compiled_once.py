"""Loops are compiled for one kind of array: however a user's arrays lie in memory, they serve."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts.families._kernels import arms, choice, linear

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


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_arm_updates(dtype: type) -> None:
    belief = mixts.MixturePrior(mixts.BernoulliArms.uniform(2)).belief()
    belief.update(0, 1)
    before = len(arms.observe_bernoulli.signatures)
    pulled = TABLE[:, 0].astype(dtype)
    for index, rewards in zip(ways(pulled), ways(TABLE[:, 2]), strict=True):
        belief.update(index, rewards)
    assert len(arms.observe_bernoulli.signatures) == before


def test_masked_decisions() -> None:
    agent = mixts.MixTS(mixts.MixturePrior(mixts.BernoulliArms.uniform(3)), n_tasks=2, seed=0)
    agent.act(mask=[True, False, True])
    before = len(choice.draw_best_arms.signatures)
    agent.act(mask=np.array([[True, False, True], [False, True, True]]))
    agent.act(tasks=[1], mask=[False, True, True])
    assert len(choice.draw_best_arms.signatures) == before
