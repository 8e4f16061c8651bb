"""Properties of single agents: special cases, numbers checked by hand, changes of live tasks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _program
from tests.contracts.problems import CASES, SIZE, FamilyCase

families = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
E = math.e


def rounds(case: FamilyCase, agent: Any, n: int, seed: int = 3) -> list[int]:
    """Decisions of one task, rewarded the same whatever is done."""
    _, outcomes = case.history(seed, n)
    chosen = []
    for outcome in outcomes:
        action = agent.act(case.actions)
        agent.update(action if case.actions is None else case.actions[action], outcome)
        chosen.append(action)
    return chosen


# -- MixTS and what it becomes ---------------------------------------------------------------------


@families
def test_an_oracle_is_ts_with_its_component(case: FamilyCase) -> None:
    """Its posterior is the component's, whatever the others think of the history."""
    oracle = mixts.Oracle(case.prior, 2, seed=7)
    rounds(case, oracle, 15)
    alone = case.prior.select([2]).condition(oracle.belief.statistics)
    np.testing.assert_allclose(oracle.belief.component_mean[2], alone.mean, rtol=1e-9)
    oracle.act(case.actions)
    assert oracle.last_latent == 2


def test_an_oracle_knows_each_tasks_state() -> None:
    prior = FamilyCase("gaussian").prior
    oracle = mixts.Oracle(prior, [2, 0, 1], n_tasks=3, seed=7)
    oracle.act()
    assert oracle.last_latent.tolist() == [2, 0, 1]
    oracle.act(tasks=[1, 1, 0])
    assert oracle.last_latent.tolist() == [0, 0, 2]
    with pytest.raises(mixts.errors.ParameterError, match="make a new one"):
        oracle.add_tasks(1)
    with pytest.raises(mixts.errors.ParameterError):
        oracle.use_prior(prior.select([0, 1]))
    assert oracle.act().shape == (3,)


FAR = mixts.MixturePrior(
    mixts.LinearGaussian([[0.0, 0.0], [9.0, 9.0]], [0.1, 0.2], 0.1, covariance_type="spherical")
)
"""Rewards of zero exclude the second component at once."""


def assert_sampled_exactly(belief: mixts.Belief, rng: np.random.Generator) -> None:
    """Draws of the second component have the mean that the statistics say."""
    fresh = FAR.condition(belief.statistics)
    sample = np.array([belief.sample_parameters(rng, 1) for _ in range(1000)])
    error = np.sqrt(np.diag(fresh.component_covariance[1]) / 1000)
    assert np.all(abs(sample.mean(axis=0) - fresh.component_mean[1]) < 5 * error)


def test_the_true_component_of_an_oracle_is_never_dormant() -> None:
    """The true state may have weight zero."""
    oracle, rng = mixts.Oracle(FAR, 1, seed=0), np.random.default_rng(1)
    for row in rng.normal(size=(30, 2)):
        oracle.update(row, 0.0)
    assert oracle.belief.weights[1] < 1e-50
    assert_sampled_exactly(oracle.belief, rng)


def test_a_dormant_component_is_sampled_from_its_posterior() -> None:
    """The parameters of a dormant component are also drawn from its posterior."""
    belief, rng = FAR.belief(), np.random.default_rng(1)
    for row in rng.normal(size=(30, 2)):
        belief.update(row, 0.0)
    if _program.core is not None:  # no component is dormant in the plain program
        assert belief.working_weights(np.zeros(1, int))[0, 1] == 0
    assert_sampled_exactly(belief, rng)


def test_decisions_of_the_same_tasks_differ() -> None:
    """Every call has random numbers of its own: with nine equal arms, a ninth agrees by chance."""
    prior = mixts.MixturePrior(mixts.GaussianArms(np.zeros((1, 9)), np.ones((1, 9)), 1.0))
    agent = mixts.MixTS(prior, n_tasks=2000, seed=1)
    assert 100 < np.sum(agent.act() == agent.act()) < 400


def test_the_last_latent_state_is_shown() -> None:
    prior = FamilyCase("bernoulli").prior
    agent = mixts.MixTS(prior, seed=0)
    assert agent.last_latent is None
    agent.act()
    assert type(agent.last_latent) is int
    agent.act_with_probabilities()
    assert agent.last_latent is None
    many = mixts.MixTS(prior, 5, seed=0)
    many.act(tasks=[1, 1])
    assert many.last_latent.shape == (2,)


@families
def test_ties_are_broken_at_random(case: FamilyCase) -> None:
    """All actions the same: each is taken as often as any other."""
    if case.linear:
        agent, actions = mixts.MixTS(case.prior, 1, seed=0), np.ones((4, SIZE))
    else:
        certain = mixts.GaussianArms(np.ones((1, 4)), np.zeros((1, 4)), 1.0)
        agent, actions = mixts.MixTS(mixts.MixturePrior(certain), 1, seed=0), None
    counts = np.bincount(agent.act(actions, tasks=np.zeros(2000, int)), minlength=4)
    # Multinomial: 5 standard deviations of sqrt(2000 * 3/16) = 19.
    assert np.all(abs(counts - 500) < 97)
    masked = agent.act(actions, tasks=np.zeros(200, int), mask=np.array([True, False, True, False]))
    assert set(masked) == {0, 2}
    probabilities, _ = agent.action_probabilities(actions)
    np.testing.assert_allclose(probabilities, 0.25)


@families
def test_a_better_prior_under_live_tasks(case: FamilyCase) -> None:
    agent = mixts.MixTS(case.prior, 3, seed=0)
    actions, outcomes = case.history(4, 12)
    agent.update(actions, outcomes, tasks=np.arange(12) % 3)
    kept = agent.belief.statistics
    other = case.prior.select([1, 1, 0])
    agent.use_prior(other)
    assert agent.prior is other
    assert agent.belief.statistics == kept
    expected = other.condition(kept).weights
    np.testing.assert_allclose(agent.belief.weights, expected, rtol=1e-12)
    agent.update(*case.history(5, 3))
    assert kept.n_observations.sum() == 12
    assert agent.belief.statistics.n_observations.sum() == 15


def test_a_prior_that_does_not_fit_is_refused() -> None:
    agent = mixts.MixTS(FamilyCase("bernoulli").prior, seed=0)
    before = agent.prior
    fewer = mixts.MixturePrior(mixts.BernoulliArms.uniform(SIZE - 1))
    for wrong in (fewer, FamilyCase("poisson").prior, FamilyCase("full").prior):
        with pytest.raises(mixts.errors.StatisticsError):
            agent.use_prior(wrong)
    assert agent.prior is before


@families
def test_live_tasks_keep_arriving(case: FamilyCase) -> None:
    agent = mixts.MixTS(case.prior, 1, seed=0)
    assert agent.add_tasks(2).tolist() == [1, 2]
    assert agent.n_tasks == 3
    assert agent.act(case.actions).shape == (3,)
    agent.update(*case.history(5, 3))
    with pytest.raises(mixts.errors.ParameterError, match="n_tasks"):
        mixts.MixTS(case.prior, seed=0).add_tasks(1)


# -- Exp4 ------------------------------------------------------------------------------------------

EXPERTS = np.array([[0.9, 0.1, 0.2], [0.1, 0.8, 0.2], [0.3, 0.7, 0.1]])


def test_votes_are_mixed_with_uniform() -> None:
    """Experts 1 and 2 vote for arm 1: p = (1 - gamma) (1/3, 2/3, 0) + gamma / 3."""
    agent = mixts.Exp4(EXPERTS, gamma=0.3, seed=0)
    expected = 0.7 * np.array([1 / 3, 2 / 3, 0.0]) + 0.1
    probabilities, errors = agent.action_probabilities()
    np.testing.assert_allclose(probabilities, expected, rtol=1e-15)
    np.testing.assert_array_equal(errors, 0.0)


@pytest.mark.parametrize("eta", [None, 0.05])
def test_weights_follow_importance_weighted_rewards(eta: float | None) -> None:
    """exp(eta y / p) for the experts who voted for what was taken; eta = gamma / K by default."""
    agent = mixts.Exp4(EXPERTS, gamma=0.3, eta=eta, seed=0)
    votes, logs = np.array([0, 1, 1]), np.zeros(3)
    rate = 0.1 if eta is None else eta
    for reward in (1.0, 0.5, 0.0, 0.25):
        weights = np.exp(logs) / np.exp(logs).sum()
        share = np.bincount(votes, weights, minlength=3)
        p = 0.7 * share + 0.1
        chosen, logged, _ = agent.act_with_probabilities()
        np.testing.assert_allclose(logged, p, rtol=1e-12)
        agent.update(chosen, reward)
        logs += (votes == chosen) * rate * reward / p[chosen]
        np.testing.assert_allclose(agent.weights, np.exp(logs) / np.exp(logs).sum(), rtol=1e-12)


def test_losses_are_what_an_action_fails_to_earn() -> None:
    """exp(-eta (1 - y) / p) for the experts who voted for what was taken."""
    agent = mixts.Exp4(EXPERTS, gamma=0.0, eta=0.4, seed=0, estimates="losses")
    votes, logs = np.array([0, 1, 1]), np.zeros(3)
    for reward in (1.0, 0.5, 0.0, 0.25):
        weights = np.exp(logs) / np.exp(logs).sum()
        p = np.bincount(votes, weights, minlength=3)
        chosen, logged, _ = agent.act_with_probabilities()
        np.testing.assert_allclose(logged, p, rtol=1e-12)
        agent.update(chosen, reward)
        logs -= (votes == chosen) * 0.4 * (1 - reward) / p[chosen]
        np.testing.assert_allclose(agent.weights, np.exp(logs) / np.exp(logs).sum(), rtol=1e-12)


def test_unknown_estimates_are_refused(unchecked: None) -> None:
    with pytest.raises(mixts.errors.ParameterError, match="'rewards' or 'losses', got 'regrets'"):
        mixts.Exp4(EXPERTS, gamma=0.1, estimates="regrets")


def test_a_floor_is_part_of_the_propensity() -> None:
    """The reward is divided by the probability with which the action was taken."""
    agent = mixts.Exp4(EXPERTS, gamma=0.3, seed=0)
    chosen, logged, _ = agent.act_with_probabilities(floor=0.3)
    agent.update(chosen, 1.0)
    votes = np.array([0, 1, 1])
    weights = np.exp((votes == chosen) * 0.1 / logged[chosen])
    np.testing.assert_allclose(agent.weights, weights / weights.sum(), rtol=1e-12)


def test_the_theorys_defaults() -> None:
    """gamma = min(1, sqrt(K ln L / ((e - 1) n))), K the number of available actions."""
    agent = mixts.Exp4(EXPERTS, n_rounds=1000, seed=0)
    gamma = math.sqrt(3 * math.log(3) / ((E - 1) * 1000))
    expected = (1 - gamma) * np.array([1 / 3, 2 / 3, 0.0]) + gamma / 3
    np.testing.assert_allclose(agent.action_probabilities()[0], expected, rtol=1e-12)
    two = np.array([True, True, False])
    gamma = math.sqrt(2 * math.log(3) / ((E - 1) * 1000))
    expected = (1 - gamma) * np.array([1 / 3, 2 / 3, 0.0]) + np.array([gamma, gamma, 0.0]) / 2
    np.testing.assert_allclose(agent.action_probabilities(mask=two)[0], expected, rtol=1e-12)
    short = mixts.Exp4(EXPERTS, n_rounds=1, seed=0)
    np.testing.assert_allclose(short.action_probabilities()[0], 1 / 3, rtol=1e-12)
    lonely = mixts.Exp4(EXPERTS[:1], n_rounds=100, seed=0)
    np.testing.assert_array_equal(lonely.action_probabilities()[0], [1.0, 0.0, 0.0])


def test_gamma_zero_takes_only_votes() -> None:
    agent = mixts.Exp4(EXPERTS, gamma=0.0, eta=0.1, n_tasks=1, seed=0)
    assert set(agent.act(tasks=np.zeros(300, int))) == {0, 1}


def test_feedback_goes_step_by_step() -> None:
    agent = mixts.Exp4(EXPERTS, gamma=0.3, n_tasks=2, seed=0)
    with pytest.raises(mixts.errors.FeedbackError, match="act first"):
        agent.update([0, 0], [1.0, 1.0])
    chosen = agent.act()
    other = (chosen + 1) % 3
    with pytest.raises(mixts.errors.FeedbackError, match="must name the actions that were taken"):
        agent.update(other, [1.0, 1.0])
    agent.update(chosen, [1.0, 1.0])
    with pytest.raises(mixts.errors.FeedbackError, match="act first"):
        agent.update(chosen, [1.0, 1.0])
    agent.act(tasks=[1])
    with pytest.raises(mixts.errors.FeedbackError, match="task 0"):
        agent.update(chosen, [1.0, 1.0])


def test_looking_at_probabilities_does_not_disturb_a_pending_decision() -> None:
    ours, twin = (mixts.Exp4(EXPERTS, gamma=0.3, seed=0) for _ in range(2))
    for agent in (ours, twin):
        chosen = agent.act()
        if agent is ours:
            agent.action_probabilities(mask=np.array([False, True, True]))
        agent.update(chosen, 1.0)
    np.testing.assert_array_equal(ours.weights, twin.weights)


# -- CorralExp4 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bernoulli", "full"])
def test_experts_follow_their_posterior_means(name: str) -> None:
    case = FamilyCase(name)
    agent = mixts.CorralExp4(case.prior, gamma=0.3, seed=0)
    rng = np.random.default_rng(2)
    for _ in range(8):
        chosen = agent.act(case.actions)
        row = chosen if case.actions is None else case.actions[chosen]
        agent.update(row, float(rng.integers(2)))
    fresh = case.prior.condition(agent.belief.statistics)
    assert fresh.statistics.n_observations == 8
    means = fresh.component_mean
    scores = means if case.actions is None else means @ case.actions.T
    share = np.bincount(scores.argmax(axis=1), agent.weights, minlength=case.n_actions)
    expected = 0.7 * share + 0.3 / case.n_actions
    np.testing.assert_allclose(agent.action_probabilities(case.actions)[0], expected, rtol=1e-12)


def test_components_may_refuse_an_outcome() -> None:
    agent = mixts.CorralExp4(FamilyCase("bernoulli").prior, gamma=0.3, seed=0)
    chosen = agent.act()
    with pytest.raises(mixts.errors.OutcomeError, match=r"0 or 1, got 0\.5"):
        agent.update(chosen, 0.5)
    np.testing.assert_allclose(agent.weights, 1 / 3)
    assert agent.belief.statistics.n_observations == 0
    agent.update(chosen, 1.0)
    assert agent.belief.statistics.n_observations == 1


def test_no_expert_is_dormant() -> None:
    """A component that is as good as excluded still votes with its up-to-date mean."""
    agent, actions = mixts.CorralExp4(FAR, gamma=0.5, seed=0), np.eye(2)
    for _ in range(40):
        chosen = agent.act(actions)
        agent.update(actions[chosen], float(chosen))
    assert agent.belief.weights[1] < 1e-50
    exact = FAR.condition(agent.belief.statistics).component_mean
    np.testing.assert_allclose(agent.belief.component_mean, exact, atol=1e-9)
    assert exact[1].argmax() == 1
