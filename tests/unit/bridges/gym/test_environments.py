from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import check_env

from mixts import _random
from mixts.bridges.gym import BanditEnv, MDPEnv, to_gymnasium
from mixts.environments import BanditEnvironment, Environment, MDPEnvironment, RiverSwim
from mixts.errors import ActionError, MissingExtraError, ParameterError
from mixts.families.tabular import TabularMDP
from mixts.prior import MixturePrior
from tests.unit.simulation.simulated_agents import ACTIONS, N_ARMS, changing, prior

pytestmark = pytest.mark.usefixtures("program")

N_ROUNDS = 7


def mdp_prior() -> MixturePrior:
    rng = np.random.default_rng(5)
    reward, transition = rng.gamma(1.0, size=(3, 4, 2, 2)), rng.gamma(1.0, size=(3, 4, 2, 4))
    return MixturePrior(TabularMDP(reward, transition, 6, [0.4, 0.3, 0.2, 0.1]))


ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "bernoulli": lambda: BanditEnvironment(prior("bernoulli")),
    "gaussian": lambda: BanditEnvironment(prior("gaussian")),
    "poisson": lambda: BanditEnvironment(prior("poisson")),
    "retired": lambda: BanditEnvironment(prior("gaussian").retire_arms([0, 2])),
    "linear": lambda: BanditEnvironment(prior("linear"), ACTIONS),
    "changing": lambda: BanditEnvironment(prior("linear"), changing),
    "mdp": lambda: MDPEnvironment(mdp_prior()),
    "river": RiverSwim,
    "left": lambda: RiverSwim(5, "left", horizon=8),
}
BANDITS = [name for name in ENVIRONMENTS if name not in ("mdp", "river", "left")]
MDPS = ["mdp", "river", "left"]

REGISTERED: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "river": ("mixts/RiverSwim-v0", dict),
    "right": (
        "mixts/RiverSwim-v0",
        lambda: {"n_states": 6, "current": "right", "horizon": 9, "strength": 5.0, "start": 2},
    ),
    "mdp": ("mixts/MDP-v0", lambda: {"prior": mdp_prior()}),
    "arms": ("mixts/Bandit-v0", lambda: {"prior": prior("poisson"), "n_rounds": N_ROUNDS}),
    "linear": (
        "mixts/Bandit-v0",
        lambda: {"prior": prior("linear"), "actions": changing, "n_rounds": N_ROUNDS},
    ),
    "any": ("mixts/Environment-v0", lambda: {"environment": RiverSwim(4)}),
}


def made(name: str) -> Any:
    settings = {"n_rounds": N_ROUNDS} if name in BANDITS else {}
    return to_gymnasium(ENVIRONMENTS[name](), **settings)


def play_out(env: Any, choose: Callable[[int], int]) -> list[tuple[Any, float, bool, dict]]:
    """Steps to the end of the episode that was begun; none terminates."""
    steps, done = [], False
    while not done:
        observation, reward, terminated, done, info = env.step(choose(len(steps)))
        assert terminated is False
        steps.append((observation, reward, done, info))
    return steps


def play_whole(env: Any) -> list[Any]:
    env.reset(seed=0)
    return play_out(env, lambda _: 0)


# -- what gymnasium asks ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_passes_gymnasiums_check(name: str) -> None:
    check_env(made(name))


@pytest.mark.parametrize("name", REGISTERED)
def test_registered_environments_pass_the_check_and_play_in_their_wrappers(name: str) -> None:
    identity, settings = REGISTERED[name]
    env = gymnasium.make(identity, **settings())
    check_env(env.unwrapped)
    wrappers = str(env)
    assert "OrderEnforcing<PassiveEnvChecker<" in wrappers
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    for episode in range(3):
        env.reset(seed=4 if episode == 0 else None)
        env.action_space.seed(episode)
        assert len(play_out(env, lambda _: env.action_space.sample())) == env.unwrapped.n_steps
    env.close()


def test_settings_reach_the_environment() -> None:
    identity, settings = REGISTERED["right"]
    env = gymnasium.make(identity, **settings())
    river = env.unwrapped.environment
    assert (river.n_states, river.current, river.horizon) == (6, "right", 9)
    assert (river.strength, river.start_state) == (5.0, 2)
    observation, info = env.reset(seed=0)
    assert (observation, info["latent"]) == (2, 1)
    assert env.spec is not None
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    np.testing.assert_array_equal(again.reset(seed=0)[1]["transitions"], info["transitions"])


def test_a_time_limit_may_be_shorter() -> None:
    env = gymnasium.make("mixts/RiverSwim-v0", max_episode_steps=3)
    env.reset(seed=0)
    assert len(play_out(env, lambda _: 0)) == 3


def test_an_environment_made_directly_knows_how_to_make_another() -> None:
    env = made("changing")
    other = env.spec.make()
    assert isinstance(other.unwrapped, BanditEnv)
    observation, info = env.reset(seed=8)
    again, same = other.reset(seed=8)
    np.testing.assert_array_equal(observation, again)
    np.testing.assert_array_equal(info["means"], same["means"])


def test_vectors_of_environments() -> None:
    env = gymnasium.make_vec("mixts/RiverSwim-v0", num_envs=3, horizon=5)
    _, info = env.reset(seed=1)
    tables = info["transitions"]
    assert tables.shape == (3, 10, 2, 10)
    assert not np.array_equal(tables[0], tables[1])
    for _ in range(6):
        _, _, _, truncated, info = env.step(np.zeros(3, int))
    assert not truncated.any()
    # The episode after the automatic reset is one more of the same MDPs.
    np.testing.assert_array_equal(info["transitions"], tables)


def test_an_id_can_name_the_module_that_registers_it() -> None:
    script = (
        "import gymnasium; assert 'mixts/RiverSwim-v0' not in gymnasium.registry;"
        "print(gymnasium.make('mixts.bridges.gym:mixts/RiverSwim-v0').observation_space)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout == "Discrete(10)\n"


def test_importing_again_registers_nothing_twice() -> None:
    before = {name: spec for name, spec in gymnasium.registry.items() if "mixts/" in name}
    importlib.reload(importlib.import_module("mixts.bridges.gym"))
    after = {name: spec for name, spec in gymnasium.registry.items() if "mixts/" in name}
    assert len(before) == 4
    assert all(after[name] is spec for name, spec in before.items())
    assert list(after) == list(before)


def test_without_gymnasium_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("mixts.bridges.gym")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixts\[gym\]'"):
        importlib.import_module("mixts.bridges.gym")


# -- the same problems as simulations have ----------------------------------------------------


def twin(environment: Any, seed: int) -> Any:
    """The problem that the environment draws after a reset with this seed."""
    rng, _ = seeding.np_random(seed)
    return environment.start(partial(_random.stream, int(rng.integers(2**63))), 1)


@pytest.mark.parametrize("name", MDPS)
def test_episodes_are_those_of_a_simulation(name: str) -> None:
    env, environment = made(name), ENVIRONMENTS[name]()
    environment.last_state = True
    problem = twin(environment, 11)
    mdp, rng = problem.mdps[0], np.random.default_rng(2)
    for episode in range(40):
        state, info = env.reset(seed=11 if episode == 0 else None)
        assert info["latent"] == problem.latent[0]
        np.testing.assert_array_equal(info["rewards"], mdp.rewards)
        np.testing.assert_array_equal(info["transitions"], mdp.transitions)
        policy = rng.integers(mdp.n_actions, size=(mdp.horizon, mdp.n_states))
        (expected,) = problem.play(policy[None]).feedback
        # Every third episode is given up: the next ones are the same nevertheless.
        for i in range(3 if episode % 3 == 0 else mdp.horizon):
            assert state == expected.states[0, i]
            np.testing.assert_array_equal(info["means"], mdp.rewards[state])
            state, reward, _, truncated, info = env.step(policy[i, state])
            assert reward == expected.rewards[0, i]
            assert truncated == (i == mdp.horizon - 1)
        assert state == expected.states[0, i + 1]


@pytest.mark.parametrize("name", BANDITS)
def test_rounds_are_those_of_a_simulation(name: str) -> None:
    env = made(name)
    problem = twin(env.environment, 11)
    rng = np.random.default_rng(2)
    for episode in range(4):
        seed, options = (11, None) if episode == 0 else (None, {"new_task": False})
        observation, info = env.reset(seed=seed, options=options)
        for i in range(N_ROUNDS):
            assert info["latent"] == problem.latent[0]
            offer = problem.next_round()
            expected = 0 if offer.actions is None else offer.actions.reshape(observation.shape)
            np.testing.assert_array_equal(observation, expected)
            action = int(rng.integers(env.action_space.n))
            outcome = problem.play(env.arms[[action]])
            assert outcome.values[0] == info["means"][action]
            assert outcome.best[0] == info["means"].max()
            observation, reward, _, truncated, info = env.step(action)
            assert reward == outcome.rewards[0]
            assert truncated == (i == N_ROUNDS - 1)
        problem.next_round()  # what was offered after the last round is not played


def test_retired_arms_are_no_actions() -> None:
    env = made("retired")
    assert env.action_space.n == N_ARMS - 2
    assert 0 not in env.arms
    assert 2 not in env.arms


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_truth_is_in_info_only_and_regret_nowhere(name: str) -> None:
    env = made(name)
    observation, info = env.reset(seed=3)
    tables = {"rewards", "transitions"} if name in MDPS else set()
    assert set(info) == {"latent", "means"} | tables
    if name not in ("linear", "changing"):
        assert isinstance(observation, int)
    observation, reward, *_, info = env.step(0)
    assert set(info) == {"latent", "means"}
    assert isinstance(reward, float)


def test_info_is_a_copy() -> None:
    env = made("mdp")
    _, info = env.reset(seed=3)
    _, later = env.reset()
    kept = {key: later[key].copy() for key in ("rewards", "transitions")}
    for value in (*info.values(), *later.values()):
        if isinstance(value, np.ndarray):
            value[...] = 0.0
    _, info = env.reset()
    for key in ("rewards", "transitions"):
        np.testing.assert_array_equal(info[key], kept[key])


# -- which task is played ---------------------------------------------------------------------


def task(env: Any, **arguments: Any) -> bytes:
    """Identifies the task that a reset leads to."""
    info = env.reset(**arguments)[1]
    return info["transitions" if isinstance(env, MDPEnv) else "means"].tobytes()


@pytest.mark.parametrize("name", ["mdp", "river", "left"])
def test_an_mdp_has_many_episodes(name: str) -> None:
    env = made(name)
    first = task(env, seed=1)
    assert task(env) == first
    assert task(env, options={"new_task": False}) == first
    second = task(env, options={"new_task": True})
    assert second != first
    assert task(env) == second
    assert task(env, seed=1) == first
    play_out(env, lambda _: 0)
    # Neither episodes nor what was done in them change the tasks to come.
    assert task(env, options={"new_task": True}) == second


@pytest.mark.parametrize("name", ["gaussian", "linear"])
def test_a_bandit_is_new_in_every_episode(name: str) -> None:
    env = made(name)
    first = task(env, seed=1)
    second = task(env)
    assert second != first
    assert task(env, options={"new_task": False}) == second
    assert task(env, seed=1) == first
    play_out(env, lambda _: 1)
    assert task(env) == second


@pytest.mark.parametrize("name", ["river", "gaussian"])
def test_without_a_task_there_is_none_to_keep(name: str) -> None:
    env = made(name)
    _, info = env.reset(options={"new_task": False})
    assert info["latent"] in (0, 1, 2)


def test_tasks_are_drawn_from_the_prior() -> None:
    env, fixed = made("river"), made("left")
    new = {"new_task": True}
    latent = np.array(
        [env.reset(seed=None if i else 2, options=new)[1]["latent"] for i in range(400)]
    )
    # Half of 400 draws, within four standard errors of 10.
    assert abs(latent.sum() - 200) < 40
    assert {fixed.reset(options=new)[1]["latent"] for _ in range(20)} == {0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"new_tasks": True}}, "the only option is new_task"),
        ({"options": {"new_task": "no"}}, "true or false"),
        ({"seed": 1, "options": {"new_task": False}}, "a seed begins with a new task"),
    ],
)
def test_strange_resets_are_refused(arguments: dict[str, Any], message: str) -> None:
    env = made("river")
    before = task(env, seed=1)
    with pytest.raises(ParameterError, match=message):
        env.reset(**arguments)
    assert task(env) == before


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "changing", "mdp"])
def test_actions_out_of_place_are_refused(name: str) -> None:
    env = made(name)
    with pytest.raises(ActionError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    for bad in (-1, int(env.action_space.n), 0.5, None):
        with pytest.raises(ActionError, match="expected an action of Discrete"):
            env.step(bad)
    assert len(play_out(env, lambda _: 0)) == env.n_steps
    with pytest.raises(ActionError, match="call reset"):
        env.step(0)


def growing(rng: np.random.Generator, n_tasks: int) -> Any:
    return rng.standard_normal((n_tasks, 2 + int(rng.integers(2)), ACTIONS.shape[1]))


def large(rng: np.random.Generator, n_tasks: int) -> Any:
    return rng.choice([1.0, 3e6], size=(n_tasks, 5, ACTIONS.shape[1]), p=[0.98, 0.02])


def test_action_sets_must_fit_a_constant_space() -> None:
    env = to_gymnasium(BanditEnvironment(prior("linear"), growing), n_rounds=50)
    with pytest.raises(ActionError, match=r"expected \d actions in every round, got \d; pad"):
        play_whole(env)
    env = to_gymnasium(BanditEnvironment(prior("linear"), large), n_rounds=50)
    with pytest.raises(ActionError, match=r"at most 1e\+06 in size, got 3e\+06; raise"):
        play_whole(env)
    constant = BanditEnvironment(prior("linear"), 3e6 * ACTIONS)
    with pytest.raises(ActionError, match="raise feature_bound"):
        to_gymnasium(constant, n_rounds=50)
    wide = to_gymnasium(env.environment, n_rounds=50, feature_bound=3e6)
    assert all(step[0] in wide.observation_space for step in play_whole(wide))


def test_settings_that_do_not_fit_are_refused(unchecked: None) -> None:
    with pytest.raises(ParameterError, match="a bandit needs n_rounds"):
        to_gymnasium(ENVIRONMENTS["gaussian"]())
    with pytest.raises(ParameterError, match="n_rounds must be a whole number"):
        to_gymnasium(ENVIRONMENTS["gaussian"](), n_rounds=0)
    with pytest.raises(ParameterError, match="feature_bound"):
        to_gymnasium(ENVIRONMENTS["linear"](), n_rounds=3, feature_bound=-1.0)
    with pytest.raises(ParameterError, match="need no settings, got n_rounds"):
        to_gymnasium(RiverSwim(), n_rounds=3)
    with pytest.raises(ParameterError, match="expected a BanditEnvironment or an MDPEnvironment"):
        to_gymnasium("CartPole-v1")
