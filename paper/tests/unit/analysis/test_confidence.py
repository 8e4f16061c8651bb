"""Recorded confidence sets, compared with an independent computation from the histories."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from mixts_paper.analysis.confidence import ConfidenceSets, EpisodeMeasure, follow_confidence_sets

import mixts
from mixts import _random, simulation
from mixts.environments import BanditEnvironment
from mixts.environments.base import Choices, Environment, Outcome, Problem
from mixts.environments.mdp import MDPEnvironment
from mixts.errors import ParameterError
from mixts.families import TabularMDP, Trajectory
from mixts.simulation import simulate
from paper.tests.unit.analysis.problems import WEIGHTS, gaussian, linear

N_ROUNDS, N_RUNS, BLOCK, SEED = 6, 5, 3, 18
HORIZON = 5


# -- problems -------------------------------------------------------------------------------------


def bernoulli() -> tuple[mixts.MixturePrior, Environment]:
    alpha = np.array([[8.0, 2.0, 2.0], [2.0, 6.0, 3.0], [1.0, 1.0, 1.5]])
    prior = mixts.MixturePrior(mixts.BernoulliArms(alpha, alpha[::-1]), WEIGHTS)
    return prior, BanditEnvironment(prior)


def tabular() -> tuple[mixts.MixturePrior, Environment]:
    """Three states of which one pays well; whether one stays there is anybody's guess."""
    rng = np.random.default_rng(5)
    pays = np.array([[3.0, 0.3], [0.5, 1.0], [0.2, 2.0]])
    reward = pays[:, None] * rng.uniform(0.7, 1.4, (3, 3, 2, 2))
    transition = rng.uniform(0.05, 0.2, (3, 3, 2, 3)) + 0.2 * np.eye(3)[:, None]
    prior = mixts.MixturePrior(TabularMDP(reward, transition, HORIZON, [0.6, 0.3, 0.1]), WEIGHTS)
    return prior, MDPEnvironment(prior)


PROBLEMS: dict[str, Callable[[], tuple[mixts.MixturePrior, Environment]]] = {
    "bernoulli": bernoulli,
    "gaussian": gaussian,
    "linear": linear,
    "tabular": tabular,
}


class Round(NamedTuple):
    """Events of one run in one round, and the history before it."""

    run: int
    t: int
    latent: int
    chosen: Any
    feedback: tuple[Any, ...]
    history: list[tuple[Any, ...]]


def play(name: str) -> Iterator[Round]:
    """The runs of ``simulate``, by hand: round after round, each with the history before it."""
    prior, environment = PROBLEMS[name]()
    for block, start in enumerate(range(0, N_RUNS, BLOCK)):
        n = min(BLOCK, N_RUNS - start)
        problem = environment.start(partial(_random.stream, SEED, "simulate", block), n)
        seed = _random.seed_sequence(SEED, "simulate", block, "agent", "MixTS")
        agent = mixts.MixTS(prior, n, seed)
        histories: list[list[tuple[Any, ...]]] = [[] for _ in range(n)]
        for t in range(N_ROUNDS):
            offer = problem.next_round()
            chosen = agent.act(offer.actions)
            feedback = problem.play(chosen).feedback
            for i in range(n):
                told = (
                    tuple(x[i] for x in feedback)
                    if name != "tabular"
                    else (feedback[0].states[i], feedback[0].actions[i], feedback[0].rewards[i])
                )
                latent = int(agent.last_latent[i])
                yield Round(start + i, t, latent, chosen[i], told, list(histories[i]))
                histories[i].append(told)
            agent.update(*feedback)


def followed(problem: str, **kwargs: Any) -> ConfidenceSets:
    prior, environment = PROBLEMS[problem]()
    return follow_confidence_sets(
        prior, environment, N_ROUNDS, N_RUNS, SEED, block_size=BLOCK, **kwargs
    )


# -- what is recorded, from histories --------------------------------------------------------------


def check_bandit(name: str, promise: Callable[[Round], tuple[float, float]], radius: float) -> None:
    sets = followed(name)
    n_checked = 0
    for row in play(name):
        mean, width = promise(row)
        where = row.run, row.t
        assert sets.sampled[where] == row.latent
        assert sets.excess[where] == pytest.approx(mean - row.feedback[1], rel=1e-9, abs=1e-12)
        assert sets.width[where] == pytest.approx(width, rel=1e-9)
        n_checked += 1
    assert n_checked == N_RUNS * N_ROUNDS
    assert len(np.unique(sets.sampled)) == 3
    assert (sets.error == 0).all()
    np.testing.assert_allclose(sets.radius, radius * np.sqrt(sets.counts))


def test_linear_bandit() -> None:
    """Sigma_t = (Sigma_0^-1 + V / sigma^2)^-1 and its mean, inverted as the paper writes them."""
    family = linear()[0].family
    assert isinstance(family, mixts.LinearGaussian)

    def promise(row: Round) -> tuple[float, float]:
        precision = np.linalg.inv(family.covariance[row.latent])
        moment = precision @ family.mean[row.latent]
        for features, reward in row.history:
            precision = precision + np.outer(features, features) / 0.25
            moment = moment + features * reward / 0.25
        covariance = np.linalg.inv(precision)
        a = row.feedback[0]
        norm = math.sqrt(a @ covariance @ a)
        return a @ covariance @ moment, math.sqrt(2 * 4 * math.log(4 * N_ROUNDS)) * norm

    check_bandit("linear", promise, 2 * 0.5 * math.sqrt(math.log(N_ROUNDS)))


def test_gaussian_arms_are_the_linear_bandit_of_unit_vectors() -> None:
    family = gaussian()[0].family
    assert isinstance(family, mixts.GaussianArms)

    def promise(row: Round) -> tuple[float, float]:
        arm = row.feedback[0]
        rewards = [reward for taken, reward in row.history if taken == arm]
        prior = 1 / family.variance[row.latent, arm]
        precision = prior + len(rewards) / 0.49
        mean = (prior * family.mean[row.latent, arm] + sum(rewards) / 0.49) / precision
        return mean, math.sqrt(2 * 3 * math.log(3 * N_ROUNDS) / precision)

    check_bandit("gaussian", promise, 2 * 0.7 * math.sqrt(math.log(N_ROUNDS)))
    linear_family = family.to_linear()
    prior = mixts.MixturePrior(linear_family, WEIGHTS)
    sets = follow_confidence_sets(prior, BanditEnvironment(prior, np.eye(3)), 4, 2, 0)
    first = math.sqrt(2 * 3 * math.log(3 * 4)) * np.sqrt(family.variance[sets.sampled[:, 0]])
    assert all(np.isclose(first, sets.width[:, :1]).any(axis=1))


def test_bernoulli_arms_are_an_mdp_of_one_state_and_one_step() -> None:
    family = bernoulli()[0].family
    assert isinstance(family, mixts.BernoulliArms)

    def promise(row: Round) -> tuple[float, float]:
        arm = row.feedback[0]
        rewards = [reward for taken, reward in row.history if taken == arm]
        a = family.alpha[row.latent, arm] + sum(rewards)
        total = a + family.beta[row.latent, arm] + len(rewards) - sum(rewards)
        return a / total, math.sqrt(2 * math.log(2 * 3 * N_ROUNDS) / (total + 1))

    check_bandit("bernoulli", promise, math.sqrt(math.log(N_ROUNDS)))


def value_of(rewards: Any, transitions: Any, initial: Any, policy: Any) -> Any:
    """V(pi) of many MDPs, by pushing the distribution of states forward."""
    states = np.arange(len(initial))
    reached = np.tile(initial, (len(rewards), 1))
    value = np.zeros(len(rewards))
    for step in policy:
        value += (reached * rewards[:, states, step]).sum(axis=1)
        reached = np.einsum("mx,mxy->my", reached, transitions[:, states, step])
    return value


def counts_after(family: TabularMDP, row: Round) -> tuple[Any, Any]:
    """The posterior's Beta and Dirichlet counts under the sampled state, step by step."""
    reward, transition = family.reward[row.latent].copy(), family.transition[row.latent].copy()
    for states, actions, rewards in row.history:
        for i, (a, r) in enumerate(zip(actions, rewards, strict=True)):
            x = states[i]
            reward[x, a, 0 if r else 1] += 1
            if i + 1 < len(states):
                transition[x, a, states[i + 1]] += 1
    return reward, transition


def draws(rng: np.random.Generator, reward: Any, transition: Any, n: int) -> tuple[Any, Any]:
    """Mean rewards and transitions of n MDPs with these counts, by numpy's own samplers."""
    rewards = rng.beta(reward[..., 0], reward[..., 1], (n, *reward.shape[:2]))
    rows = [[rng.dirichlet(counts, n) for counts in state] for state in transition]
    return rewards, np.moveaxis(np.array(rows), 2, 0)


def test_mdp_widths_and_returns() -> None:
    """h sum_i (c_t + phi_t)(X_i, A_i, s), and excess + return the mean value of some policy."""
    family = tabular()[0].family
    assert isinstance(family, TabularMDP)
    sets = followed("tabular", n_samples=4)
    for row in play("tabular"):
        reward, transition = counts_after(family, row)
        states, actions, rewards = row.feedback
        width = 0.0
        for x, a in zip(states[:HORIZON], actions, strict=True):
            c = 2 * math.log(2 * 3 * 2 * N_ROUNDS) / (reward[x, a].sum() + 1)
            phi = 4 * 3 * math.log(4 * 3 * 2 * N_ROUNDS) / (transition[x, a].sum() + 1)
            width += math.sqrt(c) + math.sqrt(phi)
        where = row.run, row.t
        assert sets.sampled[where] == row.latent
        assert sets.width[where] == pytest.approx(HORIZON * width, rel=1e-12)
        assert 0 <= sets.excess[where] + rewards.sum() <= HORIZON
        assert 0 < sets.error[where] < HORIZON
    np.testing.assert_allclose(sets.radius, np.sqrt(HORIZON * sets.counts * math.log(N_ROUNDS)))


def test_the_mean_value_is_over_posterior_mdps_not_of_the_mean_mdp() -> None:
    """Brute force: 5,000 MDPs from other samplers, valued forward instead of backward."""
    family = tabular()[0].family
    assert isinstance(family, TabularMDP)
    sets = followed("tabular", n_samples=5_000)
    rng, ours, naive = np.random.default_rng(3), [], []
    for row in play("tabular"):
        reward, transition = counts_after(family, row)
        values = value_of(*draws(rng, reward, transition, 5_000), family.initial, row.chosen)
        error = math.hypot(values.std() / math.sqrt(5_000), sets.error[row.run, row.t])
        mean = sets.excess[row.run, row.t] + row.feedback[2].sum()
        ours.append((mean - values.mean()) / error)
        of_mean = value_of(
            (reward[..., 0] / reward.sum(axis=-1))[None],
            (transition / transition.sum(axis=-1, keepdims=True))[None],
            family.initial,
            row.chosen,
        )
        naive.append((of_mean[0] - values.mean()) / error)
    # 30 deviations: none above 4.7 but with probability 1e-4.
    assert max(map(abs, ours)) < 4.7
    # Their squares sum to a chi-square of 30, but with probability 2e-4 between 10 and 70: the
    # standard errors are right, too.
    assert 10 < np.square(ours).sum() < 70
    # The value of the mean MDP would have been noticed at once.
    assert max(map(abs, naive)) > 10


def test_the_standard_error_is_that_of_the_samples() -> None:
    """Few samples, of many tasks that are alike: their spread is the error that is reported."""
    prior, _ = tabular()
    belief, latent = prior.belief(2000), np.zeros(2000, np.int64)
    policy = np.zeros((2000, HORIZON, 3), np.int64)
    measure = EpisodeMeasure(prior.family, N_ROUNDS, 8)
    means, errors = measure.mean_value(np.random.default_rng(1), belief, latent, policy)
    assert means.shape == errors.shape == (2000,)
    # A variance from 2,000 normal numbers has a relative standard error of 1/sqrt(1000).
    assert np.square(errors).mean() == pytest.approx(means.var(ddof=1), rel=4 / math.sqrt(1000))


def test_steps_that_do_not_count_have_no_width() -> None:
    prior, _ = tabular()
    measure, belief = EpisodeMeasure(prior.family, N_ROUNDS, 2), prior.belief(2)
    latent = np.array([0, 1])
    policy = np.zeros((2, HORIZON, 3), np.int64)

    def width(lengths: Any) -> Any:
        one = np.ones((2, HORIZON))
        episode = Trajectory(one.astype(int), np.zeros((2, HORIZON), int), one, lengths=lengths)
        outcome = Outcome((episode,), episode.returns, np.zeros(2), np.zeros(2))
        rng = np.random.default_rng(0)
        return measure(simulation.Round(rng, belief, latent, Choices(), policy, outcome))

    whole, part = width(None), width(np.array([1, HORIZON]))
    np.testing.assert_allclose(part["width"], whole["width"] * [1 / HORIZON, 1])
    np.testing.assert_allclose(whole["excess"] - part["excess"], [1 - HORIZON, 0])


# -- the diagnostic changes nothing ----------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_runs_are_those_of_simulate(name: str) -> None:
    prior, environment = PROBLEMS[name]()
    results = simulate({"MixTS": prior}, environment, N_ROUNDS, N_RUNS, SEED, block_size=BLOCK)
    for n_samples in (2, 50):
        sets = followed(name, n_samples=n_samples)
        np.testing.assert_array_equal(sets.results.regret["MixTS"], results.regret["MixTS"])
        np.testing.assert_array_equal(sets.results.reward["MixTS"], results.reward["MixTS"])
        np.testing.assert_array_equal(sets.latent, results.latent)


def test_samples_have_a_stream_of_their_own() -> None:
    """The same seed gives the same numbers; blocks do not share their draws."""
    one, same = followed("tabular"), followed("tabular")
    np.testing.assert_array_equal(one.excess, same.excess)
    prior, environment = tabular()
    sets = follow_confidence_sets(prior, environment, 1, 40, 0, block_size=1)
    assert len(np.unique(sets.error)) == 40


def test_before_the_first_round_every_state_is_in_the_set() -> None:
    sets = followed("gaussian")
    assert sets.contains(-1e6)[:, 0].all()
    one = follow_confidence_sets(*gaussian(), 1, 2, 0)
    assert (one.radius == 0).all()  # log 1: a single round proves nothing


# -- errors ----------------------------------------------------------------------------------------


class Nameless(Environment):
    """A bandit whose latent states are none of the prior's."""

    task_bytes = 8

    def __init__(self, latent: int) -> None:
        self._latent = latent

    def start(self, streams: Any, n_tasks: int) -> Problem:
        return NamelessProblem(np.full(n_tasks, self._latent))


class NamelessProblem(Problem):
    def __init__(self, latent: Any) -> None:
        self.latent = latent

    def next_round(self) -> Choices:
        return Choices()

    def play(self, chosen: Any) -> Outcome:
        zero = np.zeros(len(self.latent))
        return Outcome((chosen, zero), zero, zero, zero)


def test_poisson_arms_have_no_width() -> None:
    prior = mixts.MixturePrior(mixts.PoissonArms([[1.0, 2.0]], [[1.0, 1.0]]))
    with pytest.raises(ParameterError, match=r"no confidence width for PoissonArms\(.*LinearGau"):
        follow_confidence_sets(prior, BanditEnvironment(prior), 5, 5, 0)


@pytest.mark.parametrize("latent", [-1, 3])
def test_latent_states_must_be_the_priors(latent: int) -> None:
    prior, _ = gaussian()
    with pytest.raises(ParameterError, match=f"prior's components, 0 to 2, got {latent}"):
        follow_confidence_sets(prior, Nameless(latent), 5, 5, 0)
    assert follow_confidence_sets(prior, Nameless(2), 2, 2, 0).latent.tolist() == [2, 2]


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_named() -> None:
    prior, environment = gaussian()
    for arguments, message in [
        ((prior.family, environment, 5, 5, 0), "prior must be a MixturePrior, got GaussianArms"),
        ((prior, prior, 5, 5, 0), "environment must be .* got MixturePrior"),
        ((prior, environment, 0, 5, 0), "n_rounds must be .* got 0"),
        ((prior, environment, 5, 0.5, 0), "n_runs must be .* got 0.5"),
        ((prior, environment, 5, 5, -1), "seed must be .* got -1"),
    ]:
        with pytest.raises(ParameterError, match=message):
            follow_confidence_sets(*arguments)
    with pytest.raises(ParameterError, match=r"n_samples must be .* at least 2, got 1"):
        follow_confidence_sets(prior, environment, 5, 5, 0, n_samples=1)
