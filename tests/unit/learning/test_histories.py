"""Raw histories are reduced to statistics: guessed, or as a prior says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.learning import learn
from mixts.learning.histories import statistics_of as reduced
from tests.oracles.learning_references import HORIZON, case_of, statistics_of, true_prior

# -- guessed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "full"])
def test_raw_histories_are_their_statistics(kind: str) -> None:
    case = case_of(kind, n_tasks=10)
    tasks = [*case.tasks, case.tasks[0]]
    expected = statistics_of(tasks, true_prior(kind))
    found = reduced([(actions.tolist(), rewards.tolist()) for actions, rewards in tasks])
    assert type(found) is type(expected)
    for name in expected.fields:
        np.testing.assert_allclose(found.array(name), expected.array(name), rtol=1e-12, atol=1e-12)
    assert reduced(expected) is expected


def test_raw_histories_may_be_empty() -> None:
    found = reduced([([0, 2], [1.0, 0.0]), ([], []), ([1], [1.0])])
    np.testing.assert_array_equal(found.n_observations, [2, 0, 1])


def test_raw_trajectories_are_their_statistics() -> None:
    rng = np.random.default_rng(11)
    prior = mixts.MixturePrior(mixts.TabularMDP.uniform(3, 2, HORIZON))
    belief = prior.belief(3)
    episodes = []
    for task in range(3):
        states = rng.integers(3, size=(2, HORIZON + 1))
        states[0, 0], actions = 2, rng.integers(2, size=(2, HORIZON))
        actions[0, 0] = 1
        rewards = rng.integers(2, size=(2, HORIZON)).astype(float)
        lengths = np.array([HORIZON, 2])
        episodes.append(mixts.Trajectory(states, actions, rewards, lengths))
        belief.update(episodes[-1], np.full(2, task))
    found = reduced(episodes)
    for name in belief.statistics.fields:
        np.testing.assert_array_equal(found.array(name), belief.statistics.array(name))
    assert learn(episodes, 1, horizon=HORIZON).prior.n_components == 1


def test_padding_of_episodes_counts_for_nothing() -> None:
    """Episodes that ended early are padded with anything, also with numbers of no state."""
    short = mixts.Trajectory([[0, 1, 77]], [[1, 0, 55]], [[1.0, 0.0, 0.0]], [2])
    assert reduced([short]).shape == (2, 2)


def test_a_list_of_statistics_is_all_their_tasks() -> None:
    whole = case_of("bernoulli", n_tasks=12).statistics
    parts = [whole[:5], whole[5], whole[6:]]
    assert reduced(parts) == whole
    one, other = (mixts.learn_prior(given, 1).family for given in (parts, whole))
    np.testing.assert_array_equal(one.alpha, other.alpha)
    with pytest.raises(errors.StatisticsError, match="expected BernoulliStatistics"):
        reduced([whole, case_of("gaussian", n_tasks=3).statistics])


# -- as a prior says -----------------------------------------------------------------------------

FOUR_ARMS = np.array([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]])
FAMILIES: dict[str, Any] = {
    "bernoulli": mixts.BernoulliArms(FOUR_ARMS, FOUR_ARMS),
    "gaussian": mixts.GaussianArms(FOUR_ARMS, FOUR_ARMS, 1.0),
    "poisson": mixts.PoissonArms(FOUR_ARMS, FOUR_ARMS),
    "linear": mixts.LinearGaussian.standard(2, 1.0),
    "tabular": mixts.TabularMDP.uniform(4, 3, 2),
}
CLICKS = [([0, 1, 1], [1, 0, 1]), ([], []), ([2], [0])]
EPISODES = [mixts.Trajectory([0, 1, 0], [0, 1], [0.0, 1.0])]


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "poisson"])
def test_clicks_are_what_the_family_makes_of_them(name: str) -> None:
    """Of three arms the guess would be three, and Bernoulli."""
    family = FAMILIES[name]
    found = reduced(CLICKS, family)
    belief = mixts.MixturePrior(family).belief(3)
    belief.update([0, 1, 1, 2], [1, 0, 1, 0], tasks=[0, 0, 0, 2])
    assert found == belief.statistics
    assert found.shape == (4,)


def test_episodes_have_the_states_of_the_family() -> None:
    assert reduced(EPISODES).shape == (2, 2)
    found = reduced(EPISODES, FAMILIES["tabular"])
    assert found.shape == (4, 3)
    assert found.n_observations.tolist() == [2]
    # What the family rules out is a task all the same: a check calls it impossible.
    stays = np.eye(2)[None, :, None].repeat(2, axis=2)
    never = mixts.TabularMDP(np.ones((1, 2, 2, 2)), stays, 2, [1.0, 0.0])
    check = mixts.check_prior(mixts.MixturePrior(never), EPISODES, seed=0, n_draws=9)
    assert check.surprise.impossible.tolist() == [0]


def test_no_history_at_all() -> None:
    assert reduced([([], []), ([], [])], FAMILIES["gaussian"]).n_observations.tolist() == [0, 0]


def test_a_check_and_an_estimator_read_histories_alike() -> None:
    from mixts.bridges.sklearn import MixturePriorEstimator

    prior = mixts.MixturePrior(FAMILIES["bernoulli"])
    found = mixts.check_prior(prior, CLICKS, seed=0, n_draws=9)
    expected = mixts.check_prior(prior, reduced(CLICKS, prior.family), seed=0, n_draws=9)
    assert str(found) == str(expected)
    past = [([0, 1, 2, 3], [1, 0, 0, 1]), ([3, 2], [0, 1]), ([3, 3], [1, 1])]
    estimator = MixturePriorEstimator(1).fit(past)
    statistics = reduced(CLICKS, estimator.prior_.family)
    assert estimator.score(CLICKS) == estimator.score(statistics)
    assert estimator.predict(CLICKS).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "tasks", "message"),
    [
        ("bernoulli", [([0], [1]), ([1, 4], [0, 1])], "task 1 has arm 4, .* from 0 to 3"),
        ("bernoulli", [([-1], [1])], "task 0 has arm -1"),
        ("bernoulli", [([0], [0.5])], "rewards of Bernoulli arms must be 0 or 1"),
        ("bernoulli", [([[0.5, 1.0]], [1])], "must be arm indices"),
        ("bernoulli", EPISODES, "needs pairs of arrays, got Trajectory"),
        ("linear", [([[1.0, 2.0, 3.0]], [1.0])], r"\(m, 2\) with m outcomes"),
        ("tabular", CLICKS, "needs a mixts.Trajectory of every task"),
        ("tabular", [mixts.Trajectory([0, 4], [0], [0.0])], "task 0 has state 4, .* from 0 to 3"),
        ("tabular", [mixts.Trajectory([0, 1], [3], [0.0])], "task 0 has action 3, .* from 0 to 2"),
    ],
)
def test_what_does_not_fit_the_prior(name: str, tasks: Any, message: str) -> None:
    with pytest.raises(errors.MixtsError, match=message):
        reduced(tasks, FAMILIES[name])
