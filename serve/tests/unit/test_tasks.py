"""The kind of a task that the store keeps."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_serve.tasks import likeliest_kinds

import mixts

WEIGHTS = np.array([[0.4, 0.3, 0.3], [0.5, 0.1, 0.4], [0.9, 0.06, 0.04]])


def test_a_kind_is_as_likely_as_all_its_components() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms(np.ones((3, 2)), np.ones((3, 2))))
    assert likeliest_kinds(prior, WEIGHTS) == [(0, 0.4), (0, 0.5), (0, 0.9)]
    joined = prior.replace(kinds=["a", "b", "b"])
    # Components 1 and 2 together are more likely than component 0 in the first task.
    first, *others = likeliest_kinds(joined, WEIGHTS)
    assert first == (1, pytest.approx(0.6))
    assert others == [(0, 0.5), (0, 0.9)]
