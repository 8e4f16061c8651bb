from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _random
from mixts.environments import BanditEnvironment
from mixts.errors import ActionError, MissingExtraError, OutcomeError, ParameterError
from mixts.simulation import Results, simulate
from tests.unit.simulation.simulated_agents import (
    ACTIONS,
    N_ARMS,
    N_FEATURES,
    Failing,
    FixedArm,
    changing,
    prior,
)

GAUSSIAN = prior("gaussian")
ENVIRONMENT = BanditEnvironment(GAUSSIAN)
ENVIRONMENTS = {
    "bernoulli": lambda: BanditEnvironment(prior("bernoulli")),
    "gaussian": lambda: BanditEnvironment(GAUSSIAN),
    "poisson": lambda: BanditEnvironment(prior("poisson")),
    "linear": lambda: BanditEnvironment(prior("linear"), ACTIONS),
    "changing": lambda: BanditEnvironment(prior("linear"), changing),
}


def experts(environment: BanditEnvironment) -> np.ndarray:
    width = N_ARMS if environment.actions is None else N_FEATURES
    return np.arange(2.0 * width).reshape(2, width) / 10


def equal(one: Results, other: Results, names: list[str], runs: slice = slice(None)) -> bool:
    return all(
        np.array_equal(one.regret[name][runs], other.regret[name][runs])
        and np.array_equal(one.reward[name][runs], other.reward[name][runs])
        for name in names
    )


# -- what is counted ------------------------------------------------------------------------------


def test_regret_and_reward_are_those_of_the_sampled_problems() -> None:
    """Played again by hand from the same streams: block by block, round by round."""
    agents: list[FixedArm] = []

    def make(n_tasks: int, seed: Any) -> FixedArm:
        agents.append(FixedArm(2, n_tasks, seed))
        return agents[-1]

    results = simulate({"two": make}, ENVIRONMENT, 5, 7, seed=11, block_size=3, executor=1)
    assert [agent.n_tasks for agent in agents] == [3, 3, 1]
    for block, (start, agent) in enumerate(zip([0, 3, 6], agents, strict=True)):
        runs = slice(start, start + agent.n_tasks)
        streams = partial(_random.stream, 11, "simulate", block)
        latent, means = GAUSSIAN.draw(streams("tasks"), agent.n_tasks)
        noise = 0.5 * streams("rewards").standard_normal((5, agent.n_tasks))
        np.testing.assert_array_equal(results.latent[runs], latent)
        gap = means.max(axis=1) - means[:, 2]
        np.testing.assert_array_equal(results.regret["two"][runs], np.tile(gap, (5, 1)).T)
        np.testing.assert_allclose(results.reward["two"][runs], (means[:, 2] + noise).T)
        assert all((actions == 2).all() for actions, _ in agent.history)
        told = np.array([outcomes for _, outcomes in agent.history])
        np.testing.assert_array_equal(results.reward["two"][runs], told.T)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_family_and_every_agent_can_be_simulated(name: str) -> None:
    environment = ENVIRONMENTS[name]()
    agents = {
        "MixTS": environment.prior,
        "UniTS": partial(mixts.MixTS, environment.prior.collapse()),
        "Oracle": partial(mixts.Oracle, environment.prior),
        "Exp4": partial(mixts.Exp4, experts(environment)),
        "CorralExp4": partial(mixts.CorralExp4, environment.prior, gamma=0.1),
    }
    results = simulate(agents, environment, 12, 30, seed=1, executor=1)
    assert results.agents == list(agents)
    assert results.latent.shape == (30,)
    for agent in agents:
        regret, reward = results.regret[agent], results.reward[agent]
        assert regret.shape == reward.shape == (30, 12)
        assert (regret >= 0).all()
        # Somebody errs somewhere, and nobody always.
        assert (regret > 0).any()
        assert (regret == 0).any()
        if name == "bernoulli":
            assert set(np.unique(reward)) == {0.0, 1.0}
        if name == "poisson":
            assert (reward == np.round(reward)).all()
            assert reward.max() > 1


def test_agents_get_the_same_problems_and_random_numbers() -> None:
    environment = ENVIRONMENTS["changing"]()
    agents = {
        "one": partial(FixedArm, 1),
        "MixTS": environment.prior,
        "again": partial(FixedArm, 1),
        "other": partial(FixedArm, 2),
    }
    results = simulate(agents, environment, 6, 10, seed=5, block_size=4, executor=1)
    np.testing.assert_array_equal(results.regret["one"], results.regret["again"])
    np.testing.assert_array_equal(results.reward["one"], results.reward["again"])
    assert not np.array_equal(results.regret["one"], results.regret["other"])
    # With the same noise, rewards differ by as much as regrets do.
    np.testing.assert_allclose(
        results.reward["one"] - results.reward["other"],
        results.regret["other"] - results.regret["one"],
        atol=1e-12,
    )


def test_agents_have_streams_of_their_own_and_blocks_too() -> None:
    results = simulate(
        {"a": GAUSSIAN, "b": GAUSSIAN}, ENVIRONMENT, 20, 40, seed=5, block_size=20, executor=1
    )
    assert not np.array_equal(results.regret["a"], results.regret["b"])
    assert not np.array_equal(results.regret["a"][:20], results.regret["a"][20:])
    assert not np.array_equal(results.latent[:20], results.latent[20:])


# -- what the numbers depend on -------------------------------------------------------------------


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    play = partial(simulate, {"MixTS": GAUSSIAN}, ENVIRONMENT, 10, 8, executor=1)
    assert equal(play(seed=1), play(seed=1), ["MixTS"])
    assert not equal(play(seed=1), play(seed=2), ["MixTS"])


def test_more_agents_and_more_runs_change_nothing_for_those_there_were() -> None:
    play = partial(simulate, environment=ENVIRONMENT, n_rounds=10, seed=1, block_size=4, executor=1)
    few = play({"MixTS": GAUSSIAN}, n_runs=8)
    assert equal(few, play({"TS": GAUSSIAN.collapse(), "MixTS": GAUSSIAN}, n_runs=8), ["MixTS"])
    assert equal(few, play({"MixTS": GAUSSIAN}, n_runs=10), ["MixTS"], slice(8))


def test_the_block_size_follows_from_the_problem() -> None:
    def size(environment: BanditEnvironment) -> int:
        agents = {"fixed": partial(FixedArm, 0)}
        return simulate(agents, environment, 1, 1, seed=0).settings["block_size"]

    def linear(n: int) -> BanditEnvironment:
        covariance = np.eye(n) * np.arange(1, n + 1)[:, None, None]
        family = mixts.LinearGaussian(np.zeros((n, n)), covariance, 0.5)
        return BanditEnvironment(mixts.MixturePrior(family), np.eye(n))

    assert size(ENVIRONMENT) == 50
    assert 8 <= size(linear(30)) <= 64
    assert size(linear(100)) == 1
    agents = {"fixed": partial(FixedArm, 0)}
    given = simulate(agents, ENVIRONMENT, 1, 1, seed=0, block_size=7)
    assert given.settings["block_size"] == 7
    assert given.settings["seed"] == 0
    assert "GaussianArms" in given.settings["environment"]


# -- specs ----------------------------------------------------------------------------------------


def make_mixts(n_tasks: int, seed: Any) -> mixts.MixTS:
    return mixts.MixTS(GAUSSIAN, n_tasks=n_tasks, seed=seed)


def make_anything(**keywords: Any) -> mixts.MixTS:
    return mixts.MixTS(GAUSSIAN, **keywords)


class BoundMixTS(mixts.MixTS):
    def __init__(self, n_tasks: int, seed: Any) -> None:
        super().__init__(GAUSSIAN, n_tasks, seed)


@pytest.mark.parametrize(
    "spec",
    [
        partial(mixts.MixTS, GAUSSIAN),
        partial(mixts.MixTS, prior=GAUSSIAN, n_samples=7),
        make_mixts,
        make_anything,
        BoundMixTS,
        lambda *, seed, n_tasks: mixts.MixTS(GAUSSIAN, n_tasks, seed),
    ],
)
def test_all_kinds_of_specs_mean_the_same(spec: Any) -> None:
    play = partial(simulate, environment=ENVIRONMENT, n_rounds=6, n_runs=5, seed=2, executor=1)
    assert equal(play({"x": GAUSSIAN}), play({"x": spec}), ["x"])


def test_specs_get_the_keywords_they_accept() -> None:
    given: list[dict[str, Any]] = []

    def make(n_tasks: int, seed: Any, n_rounds: int, latent: Any, other: int = 5) -> FixedArm:
        given.append({"n_tasks": n_tasks, "n_rounds": n_rounds, "latent": latent, "other": other})
        assert isinstance(seed, np.random.SeedSequence)
        return FixedArm(0, n_tasks, seed)

    results = simulate({"x": make}, ENVIRONMENT, 6, 5, seed=2, block_size=3, executor=1)
    assert [(k["n_tasks"], k["n_rounds"], k["other"]) for k in given] == [(3, 6, 5), (2, 6, 5)]
    np.testing.assert_array_equal(np.concatenate([k["latent"] for k in given]), results.latent)
    given.clear()
    simulate({"x": partial(make, n_rounds=99)}, ENVIRONMENT, 6, 1, seed=2, executor=1)
    assert given[0]["n_rounds"] == 99


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (mixts.MixTS(GAUSSIAN, n_tasks=3), r"MixTS that exists already.*functools\.partial\(MixTS"),
        (FixedArm(0, 1, None), "FixedArm that exists already"),
        (3, "must be a MixturePrior, or something to call .* got int"),
        (GAUSSIAN.family, "got GaussianArms"),
        (mixts.MixTS, "needs prior, which simulate does not know"),
        (partial(mixts.MixTS, GAUSSIAN, 3), "does not accept 'n_tasks'"),
        (partial(mixts.MixTS, GAUSSIAN, n_tasks=3), "binds 'n_tasks'"),
        (partial(mixts.MixTS, GAUSSIAN, seed=3), "binds 'seed'"),
        (lambda n_tasks: None, "does not accept 'seed'"),
        (lambda n_tasks, /, seed: None, "does not accept 'n_tasks'"),
        (lambda n_tasks, seed: "agent", "must make an agent with act and update, got 'agent'"),
    ],
)
def test_specs_that_cannot_be_used_are_refused(spec: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        simulate({"x": spec}, ENVIRONMENT, 3, 2, seed=0)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_rounds": 0}, "n_rounds must be a whole number, at least 1, got 0"),
        ({"n_rounds": 2.5}, "n_rounds must be a whole number"),
        ({"n_runs": 0}, "n_runs must be a whole number, at least 1, got 0"),
        ({"n_runs": True}, "n_runs must be a whole number"),
        ({"seed": None}, "seed must be a non-negative integer"),
        ({"seed": -1}, "seed must be a non-negative integer"),
        ({"block_size": 0}, "block_size must be a whole number"),
        ({"engine": 0}, "engine must be None"),
        ({"engine": True}, "engine must be None"),
        ({"executor": "processes"}, "engine must be None"),
        ({"environment": GAUSSIAN}, "environment must be a mixts Environment.*MixturePrior"),
        ({"agents": {}}, "agents must be a dictionary"),
        ({"agents": GAUSSIAN}, "agents must be a dictionary"),
        ({"agents": {3: GAUSSIAN}}, "named by non-empty strings, got 3"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    good = {"agents": {"x": GAUSSIAN}, "environment": ENVIRONMENT, "n_rounds": 2, "n_runs": 2}
    with pytest.raises(ParameterError, match=message):
        simulate(**{**good, "seed": 0, **change})


def test_an_error_says_which_agent_and_when() -> None:
    agents = {"fine": GAUSSIAN, "broken": partial(Failing, 0)}
    with pytest.raises(OutcomeError, match="enough") as caught:
        simulate(agents, ENVIRONMENT, 5, 4, seed=0, block_size=2, executor=1)
    assert caught.value.__notes__ == ["(agent 'broken', block 0 of 2 runs, round 2)"]
    with pytest.raises(ActionError, match="one of 4 actions for each of 2 tasks") as refused:
        simulate({"x": partial(FixedArm, 9)}, ENVIRONMENT, 5, 2, seed=0, executor=1)
    assert "agent 'x'" in refused.value.__notes__[0]


def test_retired_arms_are_never_played() -> None:
    environment = BanditEnvironment(GAUSSIAN.retire_arms([0, 2]))
    agents = {"MixTS": environment.prior, "Exp4": partial(mixts.Exp4, experts(environment))}
    results = simulate(agents, environment, 30, 20, seed=0, executor=1)
    assert all((results.regret[name] >= 0).all() for name in agents)
    with pytest.raises(ActionError, match="not available"):
        simulate({"x": partial(FixedArm, 0)}, environment, 2, 2, seed=0, executor=1)


# -- progress -------------------------------------------------------------------------------------


def test_progress_is_shown_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    play = partial(simulate, {"x": GAUSSIAN}, ENVIRONMENT, 47, 5, seed=0, executor=1, block_size=2)
    quiet = play()
    assert capsys.readouterr() == ("", "")
    shown = play(progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "100%" in err
    assert equal(quiet, shown, ["x"])


def test_progress_without_rich_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixts\[progress\]'"):
        simulate({"x": GAUSSIAN}, ENVIRONMENT, 2, 2, seed=0, progress=True)


def test_a_prior_is_played_with_the_policy() -> None:
    environment = mixts.BanditEnvironment(GAUSSIAN)
    how = {"n_rounds": 5, "n_runs": 4, "seed": 3}
    for name, kind in mixts.agents.POLICIES.items():
        by_name = mixts.simulate({"it": GAUSSIAN}, environment, policy=name, **how)
        spelled = mixts.simulate({"it": partial(kind, GAUSSIAN)}, environment, **how)
        np.testing.assert_array_equal(by_name.reward["it"], spelled.reward["it"])
    with pytest.raises(ParameterError, match="policy must be one of ids, ts, greedy, ucb"):
        mixts.simulate({"it": GAUSSIAN}, environment, policy="best", **how)
