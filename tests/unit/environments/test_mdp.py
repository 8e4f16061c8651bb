"""MDPs drawn from a prior: episodes that follow the policy, exact regret, the same luck for all."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _random
from mixts.environments.mdp import play_episodes
from tests.unit.simulation.simulated_agents import prior as bandit_prior

pytestmark = pytest.mark.usefixtures("program")

N_STATES, N_ACTIONS, HORIZON = 4, 3, 6


def prior() -> mixts.MixturePrior:
    """Two components of unequal weight; some transitions and rewards are impossible."""
    rng = np.random.default_rng(1)
    reward = rng.uniform(0.2, 3.0, (2, N_STATES, N_ACTIONS, 2))
    transition = rng.uniform(0.2, 3.0, (2, N_STATES, N_ACTIONS, N_STATES))
    reward[:, 0, :, 0] = 0.0
    reward[0, 3, 1, 1] = 0.0
    transition[:, 1, :, 2] = 0.0
    transition[1, 0, 0] = [0.0, 0.0, 5.0, 0.0]
    family = mixts.TabularMDP(reward, transition, HORIZON, [0.5, 0.0, 0.25, 0.25])
    return mixts.MixturePrior(family, [0.25, 0.75])


PRIOR = prior()
ENVIRONMENT = mixts.MDPEnvironment(PRIOR)


def start(environment: Any, n: int, seed: int = 3) -> Any:
    return environment.start(partial(_random.stream, seed), n)


def random_policies(n: int, seed: int = 5) -> Any:
    return np.random.default_rng(seed).integers(N_ACTIONS, size=(n, HORIZON, N_STATES))


def value(mdp: mixts.MDP, policy: Any) -> float:
    """V(pi) forwards: the distribution of states from step to step, and what it earns."""
    share, total = np.array(mdp.initial), 0.0
    for i in range(mdp.horizon):
        after = np.zeros(mdp.n_states)
        for x in range(mdp.n_states):
            total += share[x] * mdp.rewards[x, policy[i, x]]
            after += share[x] * mdp.transitions[x, policy[i, x]]
        share = after
    return total


def best_value(mdp: mixts.MDP) -> float:
    """V(pi*), by value iteration over arrays."""
    after = np.zeros(mdp.n_states)
    for _ in range(mdp.horizon):
        after = (mdp.rewards + mdp.transitions @ after).max(axis=1)
    return float(mdp.initial @ after)


# -- problems --------------------------------------------------------------------------------------


def test_equal_streams_give_equal_problems_and_others_do_not() -> None:
    one, again, other = start(ENVIRONMENT, 8), start(ENVIRONMENT, 8), start(ENVIRONMENT, 8, seed=4)
    np.testing.assert_array_equal(one.mdps.parameters, again.mdps.parameters)
    np.testing.assert_array_equal(one.latent, again.latent)
    assert not np.array_equal(one.mdps.parameters, other.mdps.parameters)
    policy = random_policies(8)
    for _ in range(3):
        ours, theirs = one.play(policy).feedback[0], again.play(policy).feedback[0]
        np.testing.assert_array_equal(ours.states, theirs.states)
        np.testing.assert_array_equal(ours.rewards, theirs.rewards)


def test_tasks_are_drawn_from_the_prior() -> None:
    n = 8000
    tasks = start(ENVIRONMENT, n)
    assert abs(tasks.latent.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / n)
    for s in range(2):
        drawn = tasks.mdps.parameters[tasks.latent == s]
        belief = PRIOR.belief()
        mean, variance = belief.component_mean[s], np.diag(belief.component_covariance[s])
        error = np.sqrt(variance / len(drawn))
        assert np.all(abs(drawn.mean(axis=0) - mean) <= 4.5 * error + 1e-15)


# -- episodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("last_state", [False, True])
def test_episodes_follow_the_policy(last_state: bool) -> None:
    n = 200
    tasks = start(mixts.MDPEnvironment(PRIOR, last_state=last_state), n)
    policy, runs = random_policies(n), np.arange(n)
    assert tasks.next_round() == (None, None)
    for _ in range(5):
        outcome = tasks.play(policy)
        (episode,) = outcome.feedback
        assert episode.states.shape == (n, HORIZON + last_state)
        assert episode.lengths is None
        for i in range(HORIZON):
            x, a = episode.states[:, i], episode.actions[:, i]
            np.testing.assert_array_equal(a, policy[runs, i, x])
            chance = tasks.mdps.rewards[runs, x, a]
            assert np.all(episode.rewards[chance == 0, i] == 0)
            assert np.all(episode.rewards[chance == 1, i] == 1)
            if i + 1 < episode.states.shape[1]:
                assert np.all(tasks.mdps.transitions[runs, x, a, episode.states[:, i + 1]] > 0)
        assert np.all(ENVIRONMENT.family.initial[episode.states[:, 0]] > 0)
        assert set(np.unique(episode.rewards)) == {0.0, 1.0}
        np.testing.assert_array_equal(outcome.rewards, episode.rewards.sum(axis=1))


def test_episodes_have_the_law_of_their_mdp() -> None:
    """30,000 runs of one known MDP: where they are, and what they earn, at every step."""
    rng, n = np.random.default_rng(7), 30_000
    known = mixts.MDP(
        rng.random((N_STATES, N_ACTIONS)),
        rng.dirichlet(np.full(N_STATES, 0.5), (N_STATES, N_ACTIONS)), HORIZON, [0.1, 0.2, 0.3, 0.4],
    )  # fmt: skip
    # A prior worth 1e15 observations is certain to eight digits.
    certain = mixts.MixturePrior(mixts.TabularMDP.from_means(known, 1e15))
    tasks = start(mixts.MDPEnvironment(certain, last_state=True), n)
    policy = random_policies(1)[0]
    (episode,) = tasks.play(policy).feedback
    share, moves = known.initial, np.arange(N_STATES)
    for i in range(HORIZON + 1):
        counts = np.bincount(episode.states[:, i], minlength=N_STATES)
        # 28 shares and 6 rewards: 4.5 standard errors are exceeded with a probability of 2e-4.
        assert np.all(abs(counts / n - share) < 4.5 * np.sqrt(share * (1 - share) / n))
        if i < HORIZON:
            earned = share @ known.rewards[moves, policy[i]]
            gap = abs(episode.rewards[:, i].mean() - earned)
            assert gap < 4.5 * np.sqrt(earned * (1 - earned) / n)
            share = share @ known.transitions[moves, policy[i]]
    assert abs(episode.returns.mean() - value(known, policy)) < 4.5 * episode.returns.std() / n**0.5


def test_rounding_never_leads_where_nothing_leads() -> None:
    """Ten tenths are less than one in floats: the crumb goes to the last state that is possible."""
    n_states = 12
    row = np.r_[np.full(10, 0.1), 0.0, 0.0]
    assert np.cumsum(row)[-1] < 1
    highest = np.nextafter(1.0, 0.0)
    rows = np.tile(row, (1, n_states, 1, 1)).reshape(1, n_states, 1, n_states)
    mdps = mixts.MDP(np.zeros((1, n_states, 1)), rows, 2, row)
    policy, uniform = np.zeros((1, 2, n_states), int), np.full((1, 5), highest)
    episode = play_episodes(mdps, mdps.initial, policy, uniform)
    assert episode.states.tolist() == [[9, 9, 9]]
    assert episode.rewards.tolist() == [[0.0, 0.0]]


def test_agents_get_the_same_random_numbers() -> None:
    """Two policies see the same outcomes as long as they act alike, but not afterwards."""
    n = 300
    one, other = start(ENVIRONMENT, n), start(ENVIRONMENT, n)
    policy, late = random_policies(n), random_policies(n, seed=6)
    late[:, :3] = policy[:, :3]
    ours, theirs = one.play(policy).feedback[0], other.play(late).feedback[0]
    np.testing.assert_array_equal(ours.states[:, :4], theirs.states[:, :4])
    np.testing.assert_array_equal(ours.rewards[:, :3], theirs.rewards[:, :3])
    assert not np.array_equal(ours.states, theirs.states)
    again = one.play(policy).feedback[0], other.play(policy).feedback[0]
    np.testing.assert_array_equal(again[0].states, again[1].states)
    assert not np.array_equal(again[0].states, ours.states)


def test_values_are_exact() -> None:
    n = 40
    tasks, policy = start(ENVIRONMENT, n), random_policies(n)
    outcome = tasks.play(policy)
    expected = [value(mdp, chosen) for mdp, chosen in zip(tasks.mdps, policy, strict=True)]
    np.testing.assert_allclose(outcome.values, expected, rtol=1e-13)
    best = [best_value(mdp) for mdp in tasks.mdps]
    np.testing.assert_allclose(outcome.best, best, rtol=1e-13)
    np.testing.assert_array_equal(tasks.play(tasks.best_policy).values, outcome.best)
    shared = tasks.play(policy[0])
    np.testing.assert_array_equal(shared.values, tasks.mdps.value(policy[0]))


@pytest.mark.parametrize(
    "chosen",
    [
        np.zeros((5, HORIZON, N_STATES), int),
        np.zeros((1, HORIZON, N_STATES), int),
        np.zeros((6, N_STATES, HORIZON), int),
        np.zeros((6, HORIZON, N_STATES)),
        np.full((6, HORIZON, N_STATES), N_ACTIONS),
        np.full((6, HORIZON, N_STATES), -1),
        np.zeros(6, int),
        None,
        0,
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_invalid_choices_are_refused_before_anything_is_drawn(chosen: Any) -> None:
    tasks, untouched = start(ENVIRONMENT, 6), start(ENVIRONMENT, 6)
    with pytest.raises(mixts.errors.ActionError, match=r"policies of shape \(6, 6, 4\)"):
        tasks.play(chosen)
    good = random_policies(6)
    ours, theirs = tasks.play(good).feedback[0], untouched.play(good).feedback[0]
    np.testing.assert_array_equal(ours.states, theirs.states)
    np.testing.assert_array_equal(ours.rewards, theirs.rewards)


@pytest.mark.usefixtures("unchecked")
def test_environments_take_priors_of_their_own_kind() -> None:
    for wrong in (PRIOR.family, bandit_prior("bernoulli"), None):
        with pytest.raises(mixts.errors.ParameterError, match="MixturePrior of a TabularMDP"):
            mixts.MDPEnvironment(wrong)
    with pytest.raises(mixts.errors.ParameterError, match="MDP"):
        mixts.BanditEnvironment(PRIOR)
    assert "4 states" in repr(ENVIRONMENT)


# -- simulation ------------------------------------------------------------------------------------


class Recorder:
    """MixTS that records its policies and updates."""

    def __init__(self, n_tasks: int, seed: Any, kept: list[Any]) -> None:
        self.agent = mixts.MixTS(PRIOR, n_tasks, seed)
        self.history: list[tuple[Any, mixts.Trajectory]] = []
        kept.append(self.history)

    def act(self, actions: Any = None) -> Any:
        self.policy = self.agent.act(actions)
        return self.policy

    def update(self, trajectory: mixts.Trajectory) -> None:
        self.history.append((self.policy, trajectory))
        self.agent.update(trajectory)


def test_regret_is_the_gap_between_exact_values() -> None:
    """Played again by hand from the same streams, with values of our own."""
    kept: list[Any] = []
    results = mixts.simulate(
        {"MixTS": partial(Recorder, kept=kept)}, ENVIRONMENT, 6, 7, seed=11, block_size=3,
        executor=1,
    )  # fmt: skip
    assert [len(history[0][0]) for history in kept] == [3, 3, 1]
    for block, (first, history) in enumerate(zip([0, 3, 6], kept, strict=True)):
        n = len(history[0][0])
        latent, theta = PRIOR.draw(_random.stream(11, "simulate", block, "tasks"), n)
        mdps = PRIOR.family.mdp(theta)
        np.testing.assert_array_equal(results.latent[first : first + n], latent)
        for t, (policy, episode) in enumerate(history):
            for i in range(n):
                gap = best_value(mdps[i]) - value(mdps[i], policy[i])
                assert results.regret["MixTS"][first + i, t] == pytest.approx(gap, abs=1e-13)
            rewards = results.reward["MixTS"][first : first + n, t]
            np.testing.assert_array_equal(rewards, episode.rewards.sum(axis=1))


def agents() -> dict[str, Any]:
    flat = mixts.TabularMDP.uniform(N_STATES, N_ACTIONS, HORIZON, PRIOR.family.initial)
    return {
        "MixTS": PRIOR,
        "UniTS": partial(mixts.MixTS, PRIOR.collapse()),
        "PSRL": mixts.MixturePrior(flat),
        "Oracle": partial(mixts.Oracle, PRIOR),
    }


def simulated(executor: Any = 1, n_runs: int = 40, **how: Any) -> mixts.Results:
    chosen = how.pop("agents", agents())
    return mixts.simulate(
        chosen, ENVIRONMENT, 25, n_runs, seed=2, executor=executor, block_size=10, **how
    )


@pytest.fixture(scope="module")
def everybody() -> mixts.Results:
    """Results of one program for the tests of both, which give the same bits."""
    return simulated()


def test_every_agent_can_be_simulated(everybody: mixts.Results) -> None:
    results = everybody
    for name in agents():
        regret, reward = results.regret[name], results.reward[name]
        assert regret.shape == reward.shape == (40, 25)
        # The plan and its evaluation add the same numbers: rounding, and no more, may be below 0.
        assert regret.min() > -1e-13
        assert (regret > 1e-3).any()
        assert (regret == 0).any()
        assert np.all((reward == np.round(reward)) & (reward >= 0) & (reward <= HORIZON))
    # What knows more loses less: means over 40 runs of 25 episodes.
    total = {name: results.regret[name].sum(axis=1).mean() for name in agents()}
    assert total["MixTS"] < total["PSRL"]


def test_more_agents_and_more_runs_change_nothing(everybody: mixts.Results) -> None:
    alone = simulated(agents={"MixTS": PRIOR}, n_runs=30)
    np.testing.assert_array_equal(alone.regret["MixTS"], everybody.regret["MixTS"][:30])
    np.testing.assert_array_equal(alone.latent, everybody.latent[:30])
    twice = simulated(agents={"PSRL": agents()["PSRL"], "MixTS": PRIOR})
    np.testing.assert_array_equal(twice.reward["PSRL"], everybody.reward["PSRL"])


class Elsewhere(Executor):
    """Plays here what another process would get, and gives back what would come from there."""

    def submit(self, play: Any, *arguments: Any) -> Future[Any]:  # type: ignore[override]
        done: Future[Any] = Future()
        copied_play, copied = pickle.loads(pickle.dumps((play, arguments)))
        done.set_result(pickle.loads(pickle.dumps(copied_play(*copied))))
        return done


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(Elsewhere(), id="pickled"),
        pytest.param(2, marks=pytest.mark.slow, id="two processes"),
    ],
)
def test_one_worker_or_two_give_the_same_bits(
    everybody: mixts.Results, executor: Executor | int
) -> None:
    here, there = everybody, simulated(executor)
    assert here.latent.tobytes() == there.latent.tobytes()
    for name in agents():
        assert here.regret[name].tobytes() == there.regret[name].tobytes()
        assert here.reward[name].tobytes() == there.reward[name].tobytes()


def test_riverswim_is_learned() -> None:
    """MixTS knows the current within a few episodes; PSRL has to find everything out."""
    river = mixts.RiverSwim(6, horizon=12)
    flat = mixts.MixturePrior(mixts.TabularMDP.uniform(6, 2, 12, river.start_state))
    results = mixts.simulate(
        {"MixTS": river.prior, "PSRL": flat}, river, 40, 60, seed=0, executor=1
    )
    late = {name: results.regret[name][:, 20:].mean() for name in ("MixTS", "PSRL")}
    assert late["MixTS"] < 0.1 * late["PSRL"]


@pytest.mark.usefixtures("unchecked")
def test_agents_of_bandits_are_refused_with_a_note() -> None:
    spec = partial(mixts.MixTS, bandit_prior("bernoulli"))
    with pytest.raises(mixts.errors.ActionError, match="policies of shape") as caught:
        mixts.simulate({"arms": spec}, ENVIRONMENT, 2, 3, seed=0, executor=1)
    assert "agent 'arms'" in caught.value.__notes__[0]
