"""Actions that are taken at most once in a task: masks, policies, files, environments."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.agents import POLICIES
from mixts.simulation import simulate

pytestmark = pytest.mark.usefixtures("program")

RNG = np.random.default_rng(21)
ARMS = {
    "bernoulli": mixts.BernoulliArms(*RNG.uniform(0.5, 6, (2, 3, 5))),
    "gaussian": mixts.GaussianArms(RNG.normal(size=(3, 5)), RNG.uniform(0.1, 4, (3, 5)), 0.5),
    "poisson": mixts.PoissonArms(*RNG.uniform(0.5, 6, (2, 3, 5))),
    "student": mixts.StudentArms(RNG.normal(size=(3, 5)), RNG.uniform(0.1, 4, (3, 5)), 0.5, 5.0),
    "spend": mixts.SpendArms(
        *RNG.uniform(1, 5, (2, 3, 5)), RNG.normal(size=(3, 5)), *RNG.uniform(1, 5, (2, 3, 5)),
        RNG.uniform(0.5, 2, (3, 5)),
    ),
}  # fmt: skip
families = pytest.mark.parametrize("family", ARMS.values(), ids=ARMS)
policies = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
WEIGHTS = [0.5, 0.3, 0.2]


def once(family: Any, weights: Any = WEIGHTS) -> mixts.MixturePrior:
    return mixts.MixturePrior(family, weights, repeatable=False)


# -- masks ----------------------------------------------------------------------------------------


@families
@policies
def test_every_arm_is_taken_once_and_then_none_is_left(family: Any, policy: Any) -> None:
    agent = policy(once(family), n_tasks=4, seed=1)
    taken = []
    for _ in range(5):
        taken.append(agent.act())
        agent.update(taken[-1], np.ones(4))
    np.testing.assert_array_equal(np.sort(np.array(taken), axis=0).T, np.tile(np.arange(5), (4, 1)))
    with pytest.raises(errors.MaskError, match="decision 0 has no arm left: its task took"):
        agent.act()
    again = policy.resume(agent.prior, agent.belief.statistics, 1, repeatable=True)
    assert again.act().shape == (4,)


@policies
def test_arms_that_wait_for_their_rewards_are_masked(policy: Any) -> None:
    agent = policy(once(ARMS["bernoulli"]), n_tasks=2, seed=1)
    agent.update([3], [1], tasks=[1])
    probabilities, _ = agent.action_probabilities(
        waiting=([0, 2, 4], [0, 0, 1]), mask=[True, True, True, True, True]
    )
    assert (probabilities[0][[0, 2]] == 0).all()
    assert (probabilities[1][[3, 4]] == 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    with pytest.raises(errors.MaskError, match="decision 1 has no arm left"):
        agent.act(mask=[[True] * 5, [k == 3 for k in range(5)]])


@policies
def test_rankings_values_and_horizons_know_it_too(policy: Any) -> None:
    settings = {} if policy is mixts.Greedy else {"horizon": 3}
    agent = policy(once(ARMS["gaussian"]), seed=1, **settings)
    agent.update([0, 1], [1.0, 1.0])
    ranked, included, _ = agent.act_with_probabilities(top=2, values=[1, 1, 2, 1, -1])
    assert set(ranked.tolist()) <= {2, 3, 4}
    np.testing.assert_allclose(included.sum(), 2)
    with pytest.raises(errors.ActionError, match="top is 4"):
        agent.act(top=4)
    agent.update(2, 0.0)  # the horizon is over: the last decision is greedy
    greedy = mixts.Greedy.resume(agent.prior, agent.belief.statistics, 1)
    if policy is not mixts.BayesUCB:
        np.testing.assert_array_equal(
            agent.action_probabilities()[0], greedy.action_probabilities()[0]
        )


# -- what is explored -----------------------------------------------------------------------------


@families
@policies
def test_without_kinds_every_policy_is_greedy(family: Any, policy: Any) -> None:
    """One component: no arm says anything about another, to the last digit."""
    one = once(family.select(np.array([1])), None)
    agent, greedy = (kind(one, n_tasks=3, seed=1) for kind in (policy, mixts.Greedy))
    for _ in range(4):
        law = agent.action_probabilities()[0]
        np.testing.assert_array_equal(law, greedy.action_probabilities()[0])
        arms = law.argmax(axis=1)
        for either in (agent, greedy):
            either.update(arms, np.ones(3))
    assert (mixts.MixIDS(one).terms()[1] == 0).all()


def test_information_is_at_most_the_entropy_of_the_kind() -> None:
    apart = mixts.GaussianArms([[-50.0, 0.0], [50.0, 0.1]], np.full((2, 2), 0.1), 0.1)
    _, information = mixts.MixIDS(once(apart, [0.9, 0.1]), seed=1).terms()
    assert information[0] == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))
    assert information[1] < information[0]


def test_thompson_sampling_draws_a_kind_and_takes_its_best_arm() -> None:
    prior = once(ARMS["gaussian"])
    best = prior.family.parameter_means().argmax(axis=1)
    expected = np.bincount(best, WEIGHTS, minlength=5)
    agent = mixts.MixTS(prior, seed=1)
    np.testing.assert_allclose(agent.action_probabilities()[0], expected, atol=1e-12)
    taken = mixts.MixTS(prior, n_tasks=4000, seed=1)
    arms = taken.act()
    np.testing.assert_array_equal(arms, best[taken.last_latent])
    assert np.abs(np.bincount(arms, minlength=5) / 4000 - expected).max() < 0.04


# -- interfaces -----------------------------------------------------------------------------------


@policies
def test_files_and_new_priors_keep_it(policy: Any, tmp_path: Path) -> None:
    prior = once(ARMS["bernoulli"])
    prior.save(tmp_path / "prior.json")
    read = mixts.MixturePrior.load(tmp_path / "prior.json")
    assert not read.repeatable
    assert not read.collapse().retire_arms([1]).select([0]).repeatable
    assert "at most once" in repr(read)
    agent = policy(mixts.MixturePrior(ARMS["bernoulli"]), n_tasks=3, seed=1, repeatable=False)
    agent.update(agent.act(), np.ones(3))
    agent.save(tmp_path / "agent.json")
    again = mixts.Agent.load(tmp_path / "agent.json")
    assert isinstance(again, mixts.agents.BeliefAgent)
    assert not again.repeatable
    np.testing.assert_array_equal(again.act(), agent.act())
    by_prior = policy(mixts.MixturePrior(ARMS["bernoulli"]), seed=1)
    assert by_prior.repeatable
    by_prior.use_prior(prior)
    assert not by_prior.repeatable


@pytest.mark.usefixtures("unchecked")
def test_bad_input() -> None:
    mdp = mixts.TabularMDP.uniform(2, 2, 2)
    with pytest.raises(errors.ParameterError, match="taken again and again"):
        mixts.MixturePrior(mdp, repeatable=False)
    with pytest.raises(errors.ParameterError, match="taken again and again"):
        mixts.MixTS(mixts.MixturePrior(mdp), repeatable=False)
    header, arrays = once(ARMS["bernoulli"]).bundle()
    header["repeatable"] = "no"
    with pytest.raises(errors.FormatError, match="repeatable must be True or False, got 'no'"):
        mixts.MixturePrior.from_bundle(header, arrays)
    settings: dict[str, Any] = {"repeatable": "no"}
    with pytest.raises(errors.ParameterError, match="repeatable must be True, False or None"):
        mixts.Greedy(once(ARMS["bernoulli"]), **settings)


def test_an_environment_offers_what_was_not_taken() -> None:
    prior = once(ARMS["bernoulli"])
    agents = {"ts": prior, "greedy": partial(mixts.Greedy, prior, repeatable=True)}
    played = simulate(agents, mixts.BanditEnvironment(prior), 5, 30, 1, engine=1)
    # In the last round one arm is left, so nobody can do better.
    np.testing.assert_allclose(played.regret["ts"][:, -1], 0.0, atol=1e-12)
    assert (played.regret["greedy"] >= 0).all()
    with pytest.raises(errors.ActionError, match="play fewer rounds"):
        simulate(agents, mixts.BanditEnvironment(prior), 6, 3, 1, engine=1)
