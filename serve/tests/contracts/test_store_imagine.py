"""Imagined outcomes move beliefs and decisions as real ones would, and nothing is logged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mixts_serve import Decider, DecisionStore

from mixts import errors
from serve.tests.contracts.stores import ACTIONS, arms, linear

OUTCOMES = [(0, 1.0), (2, 0.0), (0, 1.0)]


@pytest.mark.parametrize(("prior", "actions"), [(arms(), None), (linear(), ACTIONS)])
def test_what_is_imagined_is_what_would_be(store: DecisionStore, prior: Any, actions: Any) -> None:
    with Decider(prior, store, policy="greedy", explore=0.3, seed=1) as decider:
        decider.reward(decider.decide("ada", actions).id, 1.0)
        rewards, before = store.totals(), decider.task("ada")
        now, then = decider.imagine("ada", OUTCOMES)
        assert (store.totals(), decider.task("ada")) == (rewards, before)
        assert now.weights == pytest.approx(before.weights)
        assert now.mean_rewards == pytest.approx(before.mean_rewards)
        assert decider.imagine("ada") == (now, now)
        for action, reward in OUTCOMES:
            mask = np.arange(3) == action
            decider.reward(decider.decide("ada", actions, mask=mask).id, reward)
        after = decider.task("ada")
        assert then.weights == pytest.approx(after.weights)
        assert then.mean_rewards == pytest.approx(after.mean_rewards)
        best = int(np.argmax(after.mean_rewards))
        assert then.probabilities == pytest.approx([0.8 if k == best else 0.1 for k in range(3)])


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ([(3, 1.0)], "action must be from 0 to 2, got 3"),
        ([(-1, 1.0)], "action must be from 0 to 2, got -1"),
        ([(0, 0.5)], "0 or 1"),
        ([(0, float("nan"))], "must be a finite number"),
        ([(0, 1.0)] * 21, "at most 20 outcomes are imagined together, got 21"),
    ],
)
def test_impossible_outcomes_are_refused(
    store: DecisionStore, outcomes: list[tuple[int, float]], message: str
) -> None:
    with Decider(arms(), store, seed=1) as decider:
        with pytest.raises(errors.UnknownTaskError):
            decider.imagine("ada", [(0, 1.0)])
        decider.decide("ada")
        with pytest.raises(errors.MixtsError, match=message):
            decider.imagine("ada", outcomes)


def test_an_arm_that_is_taken_once_has_no_next_decision(store: DecisionStore) -> None:
    prior = arms().replace(repeatable=False)
    with Decider(prior, store, seed=1) as decider:
        decider.decide("ada")
        now, then = decider.imagine("ada", [(1, 1.0)])
        assert (now.probabilities[1] > 0, then.probabilities[1]) == (True, 0.0)
        _, then = decider.imagine("ada", [(0, 1.0), (1, 1.0), (2, 0.0)])
        assert then.probabilities == ()
