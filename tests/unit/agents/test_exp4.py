"""Exp4's bookkeeping: votes, waiting decisions and weights."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts import errors

EXPERTS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])


def test_probabilities_with_ties_are_exact() -> None:
    """An expert with two best actions shares its vote: nothing is left to chance."""
    agent = mixts.Exp4(EXPERTS, gamma=0.3, seed=0)
    expected = 0.7 * np.array([0.5, 0.25, 0.25]) + 0.1
    for _ in range(5):
        probabilities, error = agent.action_probabilities()
        np.testing.assert_allclose(probabilities, expected, rtol=1e-14)
        assert not error.any()


def test_the_standard_update() -> None:
    agent = mixts.Exp4(EXPERTS, gamma=0.3, eta=0.2, seed=1)
    chosen, probabilities, _ = agent.act_with_probabilities()
    agent.update(chosen, 0.8)
    vote = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])[chosen]
    gain = 0.2 * 0.8 / probabilities[chosen] * vote
    np.testing.assert_allclose(agent.weights, np.exp(gain) / np.exp(gain).sum(), rtol=1e-12)


def test_theory_defaults() -> None:
    """gamma = min(1, sqrt(K ln L / ((e - 1) n))), eta = gamma / K."""
    agent = mixts.Exp4(EXPERTS, n_rounds=100, seed=1)
    gamma = np.sqrt(3 * np.log(2) / ((np.e - 1) * 100))
    probabilities, _ = agent.action_probabilities()
    expected = (1 - gamma) * np.array([0.5, 0.25, 0.25]) + gamma / 3
    np.testing.assert_allclose(probabilities, expected, rtol=1e-12)
    chosen = agent.act()
    agent.update(chosen, 1.0)
    vote = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])[chosen]
    gain = gamma / 3 / expected[chosen] * vote
    np.testing.assert_allclose(agent.weights, np.exp(gain) / np.exp(gain).sum(), rtol=1e-12)


def test_each_task_waits_for_its_own_kind_of_feedback() -> None:
    agent = mixts.Exp4(np.eye(2), gamma=0.5, n_tasks=2, seed=0)
    actions = 2 * np.eye(2)
    row = agent.act(actions, tasks=[0])
    arm = agent.act(tasks=[1])
    agent.update(actions[row], [1.0], tasks=[0])
    agent.update(arm, [1.0], tasks=[1])
    with pytest.raises(errors.FeedbackError, match="act first"):
        agent.update(arm, [1.0], tasks=[1])


def test_weights_stay_numbers() -> None:
    agent = mixts.Exp4(np.eye(2), gamma=0.1, eta=1.0, seed=0)
    for _ in range(200):
        agent.update(agent.act(), 1e70)
        assert np.isfinite(agent.weights).all()
    chosen = agent.act()
    with pytest.raises(errors.OutcomeError, match="finite numbers"):
        agent.update(chosen, 1e100)
