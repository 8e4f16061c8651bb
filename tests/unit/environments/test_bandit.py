from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mixts import _random
from mixts.environments import BanditEnvironment
from mixts.errors import ActionError, ParameterError
from tests.unit.simulation.simulated_agents import ACTIONS, N_ARMS, N_FEATURES, changing, prior

ENVIRONMENTS = {
    "bernoulli": lambda: BanditEnvironment(prior("bernoulli")),
    "gaussian": lambda: BanditEnvironment(prior("gaussian")),
    "poisson": lambda: BanditEnvironment(prior("poisson")),
    "linear": lambda: BanditEnvironment(prior("linear"), ACTIONS),
    "changing": lambda: BanditEnvironment(prior("linear"), changing),
}


def start(environment: BanditEnvironment, n_tasks: int, seed: int = 3):
    return environment.start(partial(_random.stream, seed), n_tasks)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_values_are_the_true_means_and_best_is_their_maximum(name: str) -> None:
    problem = start(ENVIRONMENTS[name](), 6)
    for _ in range(3):
        actions, mask = problem.next_round()
        assert mask is None
        if actions is None:
            means = problem.parameters
        else:
            sets = np.broadcast_to(actions, (6, 5, N_FEATURES))
            means = np.array([x @ theta for x, theta in zip(sets, problem.parameters, strict=True)])
        chosen = np.arange(6) % means.shape[1]
        outcome = problem.play(chosen)
        np.testing.assert_allclose(outcome.values, means[np.arange(6), chosen], rtol=1e-14)
        np.testing.assert_allclose(outcome.best, means.max(axis=1), rtol=1e-14)
        taken, rewards = outcome.feedback
        assert rewards is outcome.rewards
        expected = chosen if actions is None else sets[np.arange(6), chosen]
        np.testing.assert_array_equal(taken, expected)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_equal_streams_give_equal_problems_and_noise_for_any_choices(name: str) -> None:
    environment = ENVIRONMENTS[name]()
    one, other = start(environment, 50), start(environment, 50)
    np.testing.assert_array_equal(one.latent, other.latent)
    np.testing.assert_array_equal(one.parameters, other.parameters)
    for chosen, elsewhere in [(0, 2), (1, 1), (3, 0), (2, 2)]:
        mine, theirs = one.next_round(), other.next_round()
        np.testing.assert_equal(mine.actions, theirs.actions)
        first = one.play(np.full(50, chosen)).rewards
        second = other.play(np.full(50, elsewhere)).rewards
        assert np.array_equal(first, second) == (chosen == elsewhere)
    different = start(environment, 50, seed=4)
    assert not np.array_equal(one.parameters, different.parameters)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_tasks_come_from_the_prior_and_rewards_have_the_right_means(name: str) -> None:
    n = 20_000
    problem = start(ENVIRONMENTS[name](), n)
    share = problem.latent.mean()
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / n)
    problem.next_round()
    outcome = problem.play(np.arange(n) % N_ARMS)
    noise = outcome.rewards - outcome.values
    assert 0 < abs(noise.mean()) < 4 * noise.std() / np.sqrt(n)


def test_a_changing_action_set_changes_and_may_change_its_size() -> None:
    sizes = iter([2, 5, 3])
    environment = BanditEnvironment(
        prior("linear"), lambda rng, n: rng.normal(size=(n, next(sizes), N_FEATURES))
    )
    problem = start(environment, 4)
    shapes = []
    for _ in range(3):
        actions, _ = problem.next_round()
        shapes.append(actions.shape)
        problem.play(np.full(4, actions.shape[1] - 1))
    assert shapes == [(4, 2, 3), (4, 5, 3), (4, 3, 3)]


def test_retired_arms_are_masked_and_never_best() -> None:
    problem = start(BanditEnvironment(prior("gaussian").retire_arms([1, 2])), 100)
    actions, mask = problem.next_round()
    assert actions is None
    np.testing.assert_array_equal(mask, np.tile([True, False, False, True], (100, 1)))
    outcome = problem.play(np.zeros(100, int))
    np.testing.assert_array_equal(outcome.best, problem.parameters[:, [0, 3]].max(axis=1))
    assert (outcome.best < problem.parameters.max(axis=1)).any()
    with pytest.raises(ActionError, match=r"action 2 in run 99, which .* not available"):
        problem.play(np.r_[np.zeros(99, int), 2])


@pytest.mark.parametrize(
    "chosen",
    [
        np.zeros(5, int),
        np.zeros((6, 1), int),
        np.zeros(6),
        np.array([0, 0, -1, 0, 0, 0]),
        np.array([0, 0, N_ARMS, 0, 0, 0]),
        None,
        3,
    ],
)
def test_invalid_choices_are_refused_before_anything_is_drawn(chosen: object) -> None:
    problem, untouched = start(ENVIRONMENTS["gaussian"](), 6), start(ENVIRONMENTS["gaussian"](), 6)
    with pytest.raises(ActionError, match=r"one of 4 actions for each of 6 tasks"):
        problem.play(chosen)
    good = np.zeros(6, int)
    np.testing.assert_array_equal(problem.play(good).rewards, untouched.play(good).rewards)


@pytest.mark.usefixtures("unchecked")
def test_constructor_refuses_what_does_not_fit() -> None:
    linear, arms = prior("linear"), prior("bernoulli")
    with pytest.raises(ParameterError, match="prior must be a MixturePrior, got BernoulliArms"):
        BanditEnvironment(arms.family)
    with pytest.raises(ParameterError, match="fixed arms: leave actions out"):
        BanditEnvironment(arms, ACTIONS)
    with pytest.raises(ParameterError, match="fixed arms: leave actions out"):
        BanditEnvironment(arms, changing)
    with pytest.raises(ParameterError, match=r"actions do not fit.*\(K, 3\)"):
        BanditEnvironment(linear)
    with pytest.raises(ParameterError, match=r"actions do not fit.*\(K, 3\)"):
        BanditEnvironment(linear, np.ones((5, 4)))
    with pytest.raises(ParameterError, match="finite"):
        BanditEnvironment(linear, np.full((5, 3), np.nan))
    with pytest.raises(ParameterError, match="given as a function"):
        BanditEnvironment(linear, np.ones((1, 5, 3)))


def test_the_action_set_is_a_copy() -> None:
    actions = ACTIONS.copy()
    environment = BanditEnvironment(prior("linear"), actions)
    actions[:] = 0
    np.testing.assert_array_equal(environment.actions, ACTIONS)


def test_a_function_that_gives_bad_action_sets_is_refused() -> None:
    def wrong_shape(rng: np.random.Generator, n_tasks: int) -> np.ndarray:
        return np.ones((n_tasks + 1, 2, N_FEATURES))

    def infinite(rng: np.random.Generator, n_tasks: int) -> np.ndarray:
        return np.full((n_tasks, 2, N_FEATURES), np.inf)

    for source, message in [(wrong_shape, r"\(6, K, 3\)"), (infinite, "finite features")]:
        problem = start(BanditEnvironment(prior("linear"), source), 6)
        with pytest.raises(ActionError, match=message):
            problem.next_round()


def test_repr_says_what_it_is() -> None:
    assert "4 arms" in repr(ENVIRONMENTS["bernoulli"]())
    assert repr(ENVIRONMENTS["linear"]()).endswith(", 5 actions)")
    assert repr(ENVIRONMENTS["changing"]()).endswith(", actions by changing)")
