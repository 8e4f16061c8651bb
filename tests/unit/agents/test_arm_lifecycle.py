"""Arms come and go under live tasks: retired ones still count, new ones change nothing at first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from tests.contracts.problems import ARMS, SIZE, FamilyCase

kinds = pytest.mark.parametrize("name", ARMS)


def live_agent(name: str, n_tasks: int | None = None) -> mixts.MixTS:
    """An agent that has seen every arm, the first one most."""
    case = FamilyCase(name)
    prior = mixts.MixturePrior(
        case.prior.family, case.prior.weights, arm_names=["ash", "birch", "cedar", "date"]
    )
    agent = mixts.MixTS(prior, n_tasks, seed=1)
    actions, outcomes = case.history(3, 24)
    actions = np.where(np.arange(24) < SIZE, np.arange(24) % SIZE, actions // 2)
    tasks = None if n_tasks is None else np.arange(24) % n_tasks
    agent.update(actions, outcomes, tasks=tasks)
    return agent


def new_arms(name: str, n: int = 2) -> Any:
    """Parameters of new arms for each of the three components, of the old ones' kind."""
    arrays = {
        key: value[:, :n] + 0.25 if value.ndim > 1 else value
        for key, value in FamilyCase(name).prior.family.arrays().items()
    }
    family = FamilyCase(name).prior.family
    return type(family)(**arrays, **family.settings())


# -- retiring --------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("n_tasks", [None, 2])
def test_a_retired_arm_still_counts(name: str, n_tasks: int | None) -> None:
    """Weights, evidence and beliefs about the others: all as they were, to the bit."""
    agent = live_agent(name, n_tasks)
    belief = agent.belief
    before = [belief.weights, belief.log_evidence, belief.component_mean, belief.mean_rewards()]
    kept = belief.statistics
    agent.retire_arms([0, "cedar"])
    belief = agent.belief
    after = [belief.weights, belief.log_evidence, belief.component_mean, belief.mean_rewards()]
    for one, other in zip(after, before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert belief.statistics == kept
    assert agent.prior.arms.retired.tolist() == [True, False, True, False]


@kinds
def test_a_retired_arm_is_never_taken_again(name: str) -> None:
    agent = live_agent(name, 2)
    before = agent.action_probabilities()[0]
    assert np.all(before[:, [0, 2]] > 0)
    agent.retire_arms(["ash", "cedar"])
    tasks = np.arange(500) % 2
    assert set(agent.act(tasks=tasks)) == {1, 3}
    probabilities, _ = agent.action_probabilities()
    assert np.all(probabilities[:, [0, 2]] == 0)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    chosen, logged, _ = agent.act_with_probabilities(tasks=tasks[:50], floor=0.5)
    assert set(chosen) <= {1, 3}
    np.testing.assert_allclose(logged[:, [1, 3]], 0.5)


@kinds
def test_a_mask_is_on_top_of_retirement(name: str) -> None:
    agent = live_agent(name, 2)
    agent.retire_arms([0])
    mask = np.array([True, True, False, False])
    assert set(agent.act(tasks=np.zeros(100, int), mask=mask)) == {1}
    with pytest.raises(errors.MaskError, match="all that it allows are retired"):
        agent.act(mask=np.array([True, False, False, False]))
    with pytest.raises(errors.ParameterError, match="1 / 3"):
        agent.act_with_probabilities(floor=0.34)


@kinds
def test_late_feedback_of_a_retired_arm_is_learned_from(name: str) -> None:
    agent, twin = live_agent(name), live_agent(name)
    agent.retire_arms([0])
    for who in (agent, twin):
        who.update(0, 1.0)
    np.testing.assert_array_equal(agent.belief.weights, twin.belief.weights)
    assert agent.belief.statistics == twin.belief.statistics


@kinds
def test_retirement_is_kept(name: str, tmp_path: Any) -> None:
    """In files, in posteriors as priors, in what is selected, collapsed or has more arms."""
    agent = live_agent(name)
    agent.retire_arms(["birch"])
    prior = agent.prior
    assert "retired arms: birch" in repr(prior)
    prior.save(tmp_path / "prior")
    for other in (
        mixts.MixturePrior.load(tmp_path / "prior"),
        agent.belief.as_prior(),
        prior.select([0, 2]),
        prior.collapse(),
    ):
        assert other.arms.retired.tolist() == [False, True, False, False]
        assert 1 not in mixts.MixTS(other, 1, seed=0).act(tasks=np.zeros(200, int))
    more = prior.with_arms(new_arms(name), arm_names=["elm", "fir"])
    assert more.arms.retired.tolist() == [False, True, False, False, False, False]
    assert prior.retire_arms(["ash"]).arms.retired.tolist() == [True, True, False, False]
    assert prior.arms.retired.tolist() == [False, True, False, False]


@kinds
def test_every_agent_leaves_retired_arms_alone(name: str) -> None:
    prior = live_agent(name).prior.retire_arms(["ash", "birch"])
    tasks = np.zeros(300, int)
    oracle = mixts.Oracle(prior, 0, 1, seed=0)
    corral = mixts.CorralExp4(prior, gamma=0.5, n_tasks=1, seed=0)
    for agent in (oracle, corral):
        assert set(agent.act(tasks=tasks)) <= {2, 3}
        assert np.all(agent.action_probabilities()[0][:, :2] == 0)
        assert set(agent.act_with_probabilities(tasks=tasks[:20])[0]) <= {2, 3}


@pytest.mark.usefixtures("unchecked")
def test_arms_that_cannot_be_retired() -> None:
    agent = live_agent("bernoulli")
    before = agent.prior
    for wrong in ([4], [-1], ["oak"], [0.0], [True]):
        with pytest.raises(errors.ParameterError):
            agent.retire_arms(wrong)
    with pytest.raises(errors.ParameterError, match="at least one must remain"):
        agent.retire_arms([0, 1, 2, 3])
    assert agent.prior is before
    with pytest.raises(errors.ParameterError, match="has no arms"):
        FamilyCase("full").prior.retire_arms([0])


# -- new arms --------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("n_tasks", [None, 2])
def test_new_arms_change_nothing_until_they_are_observed(name: str, n_tasks: int | None) -> None:
    agent = live_agent(name, n_tasks)
    weights, means = agent.belief.weights, agent.belief.mean_rewards()
    agent.use_prior(agent.prior.with_arms(new_arms(name), arm_names=["elm", "fir"]))
    np.testing.assert_allclose(agent.belief.weights, weights, rtol=1e-12)
    assert agent.belief.mean_rewards().shape[-1] == SIZE + 2
    np.testing.assert_allclose(agent.belief.mean_rewards()[..., :SIZE], means, rtol=1e-12)
    if n_tasks is None:
        agent.update(SIZE + 1, 1.0)
    else:
        agent.update([SIZE + 1, SIZE], [1.0, 1.0])
    assert abs(agent.belief.weights - weights).max() > 1e-6
    fresh = agent.prior.condition(agent.belief.statistics)
    np.testing.assert_allclose(agent.belief.weights, fresh.weights, rtol=1e-9)


@kinds
def test_new_arms_are_believed_as_each_component_says(name: str) -> None:
    agent = live_agent(name)
    arms = new_arms(name)
    agent.use_prior(agent.prior.with_arms(arms, arm_names=["elm", "fir"]))
    expected = arms.mean_rewards(mixts.MixturePrior(arms).belief().component_mean)
    found = agent.prior.family.mean_rewards(agent.belief.component_mean)
    np.testing.assert_allclose(found[:, SIZE:], expected, rtol=1e-12)
    np.testing.assert_allclose(
        agent.belief.mean_rewards()[SIZE:], agent.belief.weights @ expected, rtol=1e-12
    )
    assert agent.prior.arm_names == ("ash", "birch", "cedar", "date", "elm", "fir")
    assert agent.prior.arms.index("fir") == SIZE + 1


@kinds
def test_a_new_arm_can_be_taken(name: str) -> None:
    """All the old ones retired, only new ones are left."""
    agent = live_agent(name, 1)
    agent.use_prior(agent.prior.with_arms(new_arms(name), arm_names=["elm", "fir"]))
    agent.retire_arms([0, 1, 2, 3])
    assert set(agent.act(tasks=np.zeros(500, int))) == {SIZE, SIZE + 1}


def test_new_arms_that_do_not_fit() -> None:
    prior = live_agent("gaussian").prior
    other = type(prior.family)(np.zeros((3, 1)), np.ones((3, 1)), 2.0)
    two = type(prior.family)(np.zeros((2, 1)), np.ones((2, 1)), prior.family.noise_std)
    for wrong, message in [
        (new_arms("poisson"), "kind and settings"),
        (other, "kind and settings"),
        (two, "each of the 3 components, got 2"),
    ]:
        with pytest.raises(errors.ParameterError, match=message):
            prior.with_arms(wrong, arm_names=["elm"])
    with pytest.raises(errors.ParameterError, match="has arm names"):
        prior.with_arms(new_arms("gaussian"))
    with pytest.raises(errors.ParameterError, match="distinct"):
        prior.with_arms(new_arms("gaussian"), arm_names=["elm", "ash"])
    with pytest.raises(errors.ParameterError, match="has no arm names"):
        FamilyCase("gaussian").prior.with_arms(new_arms("gaussian"), arm_names=["elm", "fir"])
    with pytest.raises(errors.ParameterError, match="only families of arms"):
        FamilyCase("full").prior.with_arms(new_arms("gaussian"))


def test_retired_arms_stay_retired_under_another_prior() -> None:
    """The new prior was made from one that knew nothing of the retirement."""
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(3))
    agent = mixts.MixTS(prior, seed=0)
    agent.retire_arms([0])
    agent.use_prior(prior.with_arms(mixts.BernoulliArms.uniform(1)))
    assert agent.prior.arms.retired.tolist() == [True, False, False, False]


def test_a_ragged_mask_beside_retired_arms_is_refused() -> None:
    agent = mixts.MixTS(mixts.MixturePrior(mixts.BernoulliArms.uniform(2)).retire_arms([0]))
    with pytest.raises(errors.MaskError):
        agent.act(mask=[[True], [True, False]])
