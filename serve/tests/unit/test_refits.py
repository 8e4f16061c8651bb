"""Which tasks compare a refit with the prior in force."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_serve.refits import Learning
from mixts_serve.snapshot import Snapshot

import mixts
from mixts.families import BernoulliStatistics
from mixts.origin import Origin


@pytest.mark.parametrize(
    ("last_refit", "in_force", "n_compared"),
    [
        (480, 480, 120),
        (480, 300, 120),
        (590, 300, 100),
        (590, 590, 10),
        (590, 560, 40),
        (0, 0, 120),
    ],
)
def test_few_tasks_since_a_refusal_are_joined_by_earlier_ones(
    last_refit: int, in_force: int, n_compared: int
) -> None:
    rng = np.random.default_rng(1)
    tasks = BernoulliStatistics(
        successes=rng.integers(1, 4, (600, 2)), failures=rng.integers(1, 4, (600, 2))
    )
    order = np.arange(600)
    prior = mixts.MixturePrior(
        mixts.BernoulliArms([[3.0, 3.0]], [[3.0, 3.0]]), origin=Origin(9.0, np.full((1, 2), 9.0))
    )
    snapshot = Snapshot(tasks, order + 1, order, 0, 0)
    found = Learning(prior, prior, snapshot, last_refit, in_force).learned()
    assert f" {n_compared} held-out tasks" in found.verdict
