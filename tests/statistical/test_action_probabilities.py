"""Action probabilities against the frequencies of 100,000 decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from tests.statistical import settings
from tests.statistical.laws import best_action_law
from tests.statistical.standard_errors import assert_within, of_frequency, of_mean, quotient

N = 100_000
ZEROS = np.zeros(N, int)
ARMS = {
    "bernoulli": settings.bernoulli(),
    "gaussian": settings.gaussian(),
    "poisson": settings.poisson(),
}
LINEAR = settings.linear(0.3, noise_std=1.5)
ACTIONS = np.random.default_rng(30).normal(size=(3, 4))


def learned(agent: Any, setting: settings.Setting, n: int = 9) -> Any:
    """The agent after some rounds of one task, played at random."""
    rng = np.random.default_rng(31)
    theta = setting.draw(rng, np.array([0]))[0]
    linear = setting.n_features is not None
    actions = rng.normal(size=(n, 4)) if linear else rng.integers(4, size=n)
    means = actions @ theta if linear else theta[actions]
    agent.update(actions, setting.reward(rng, means), tasks=np.zeros(n, int))
    return agent


def counted(chosen: Any, n_actions: int) -> Any:
    return np.bincount(chosen, minlength=n_actions)


MASKS = [None, np.array([True, False, True, True])]


@pytest.mark.parametrize("kind", ARMS)
@pytest.mark.parametrize("mask", MASKS, ids=["all", "masked"])
@pytest.mark.parametrize("which", ["MixTS", "UniTS", "Oracle"])
def test_arms(kind: str, mask: Any, which: str) -> None:
    """By quadrature: exact, so that only the frequencies have an error."""
    prior = ARMS[kind].prior
    agent = {
        "MixTS": lambda: mixts.MixTS(prior, 1, seed=2),
        "UniTS": lambda: mixts.MixTS(prior.collapse(), 1, seed=2),
        "Oracle": lambda: mixts.Oracle(prior, 2, 1, seed=2),
    }[which]()
    learned(agent, ARMS[kind])
    probabilities, errors = agent.action_probabilities(mask=mask)
    assert np.all(errors == 0)
    chosen = agent.act(tasks=ZEROS, mask=mask)
    assert_within(of_frequency(counted(chosen, 4), N, probabilities[0]))


@pytest.mark.parametrize("kind", ARMS)
def test_arms_against_other_quadrature(kind: str) -> None:
    agent = learned(mixts.MixTS(ARMS[kind].prior, 1, seed=2), ARMS[kind])
    belief = agent.prior.condition(agent.belief.statistics[0])
    expected = best_action_law(belief).sum(axis=0)
    np.testing.assert_allclose(agent.action_probabilities()[0][0], expected, atol=1e-8)


@pytest.mark.parametrize("kind", ARMS)
def test_logged_arms(kind: str) -> None:
    """Drawn from the very vector that is returned, the floor included."""
    agent = learned(mixts.MixTS(ARMS[kind].prior, 1, seed=2), ARMS[kind])
    bare = agent.action_probabilities()[0][0]
    n = 400
    chosen, logged, _ = agent.act_with_probabilities(tasks=np.zeros(n, int), floor=0.1)
    np.testing.assert_allclose(logged, np.tile(0.1 + 0.6 * bare, (n, 1)), rtol=1e-12)
    assert_within(of_frequency(counted(chosen, 4), n, logged[0]))


# -- linear: an unbiased estimate ------------------------------------------------------------------

FEW = 20
"""Samples behind an estimate: so few that a bias would show."""


def linear_agent(n_samples: int = FEW) -> mixts.MixTS:
    return learned(mixts.MixTS(LINEAR.prior, 1, seed=3, n_samples=n_samples), LINEAR)


def linear_law(agent: mixts.MixTS) -> Any:
    return best_action_law(agent.prior.condition(agent.belief.statistics[0]), ACTIONS).sum(axis=0)


def test_linear_frequencies() -> None:
    agent = linear_agent()
    chosen = agent.act(ACTIONS, tasks=ZEROS)
    assert_within(of_frequency(counted(chosen, 3), N, linear_law(agent)))


def test_linear_estimates_are_unbiased_and_know_their_error() -> None:
    agent = linear_agent()
    estimates, errors = agent.action_probabilities(ACTIONS, tasks=np.zeros(4000, int))
    assert_within(of_mean(estimates, linear_law(agent)))
    # Squared errors are unbiased for the variance of the estimates.
    spread = (estimates - linear_law(agent)) ** 2
    assert_within(of_mean(spread - errors**2))
    assert np.all(errors.mean(axis=0) > 0.01)


def test_more_samples_make_smaller_errors() -> None:
    agent = linear_agent(n_samples=4000)
    estimates, errors = agent.action_probabilities(ACTIONS, tasks=np.zeros(20, int))
    assert errors.max() < 0.01
    assert_within(quotient(estimates - linear_law(agent), errors))


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_logged_linear_actions_follow_thompson_sampling(floor: float) -> None:
    """Over the draws behind the numbers the law is the agent's; given them, it is the numbers'."""
    agent, n = linear_agent(), 5000
    chosen, logged, errors = agent.act_with_probabilities(
        ACTIONS, tasks=np.zeros(n, int), floor=floor
    )
    law = floor + (1 - 3 * floor) * linear_law(agent)
    assert_within(of_frequency(counted(chosen, 3), n, law))
    taken = chosen[:, None] == np.arange(3)
    variance = (logged * (1 - logged)).sum(axis=0)
    assert_within(quotient((taken - logged).sum(axis=0), np.sqrt(variance)))
    # The numbers are different each time, and actions go with their own.
    high = logged > np.median(logged, axis=0)
    for part in (high, ~high):
        gap = np.where(part, taken - logged, 0.0).sum(axis=0)
        deviation = np.sqrt(np.where(part, logged * (1 - logged), 0.0).sum(axis=0))
        assert_within(quotient(gap, deviation))
    assert errors.max() > 0.01


# -- the voting agents -----------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["Exp4", "CorralExp4"])
@pytest.mark.parametrize("linear", [False, True], ids=["arms", "linear"])
def test_votes(which: str, linear: bool) -> None:
    setting = LINEAR if linear else ARMS["bernoulli"]
    experts = setting.prior.belief().component_mean
    agent: Any = (
        mixts.Exp4(experts, gamma=0.2, n_tasks=1, seed=4)
        if which == "Exp4"
        else mixts.CorralExp4(setting.prior, gamma=0.2, n_tasks=1, seed=4)
    )
    actions = ACTIONS if linear else None
    for _ in range(5):
        chosen = agent.act(actions)
        agent.update(chosen if actions is None else ACTIONS[chosen], [0.7 if linear else 1.0])
    probabilities, errors = agent.action_probabilities(actions)
    assert np.all(errors == 0)
    chosen = agent.act(actions, tasks=ZEROS)
    assert_within(of_frequency(counted(chosen, probabilities.shape[1]), N, probabilities[0]))
    chosen, logged, _ = agent.act_with_probabilities(actions, tasks=ZEROS, floor=0.05)
    assert_within(of_frequency(counted(chosen, probabilities.shape[1]), N, logged[0]))
