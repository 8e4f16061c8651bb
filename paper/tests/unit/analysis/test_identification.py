from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mixts_paper.analysis.identification import Identification, identify

import mixts
from mixts import errors
from tests.unit.simulation.simulated_agents import ACTIONS, changing, prior

N_ROUNDS = 12


def environment(name: str) -> mixts.BanditEnvironment:
    return mixts.BanditEnvironment(prior(name), ACTIONS if name == "linear" else None)


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "poisson", "linear"])
def test_it_is_a_run_of_simulate(name: str) -> None:
    followed = identify(prior(name), environment(name), N_ROUNDS, seed=5, run=2)
    results = mixts.simulate(
        {"MixTS": prior(name)}, environment(name), N_ROUNDS, 3, seed=5, executor=1, block_size=1
    )
    np.testing.assert_array_equal(followed.rewards, results.reward["MixTS"][2])
    np.testing.assert_array_equal(followed.regret, results.regret["MixTS"][2])
    assert followed.latent == results.latent[2]
    np.testing.assert_allclose(
        followed.regret, followed.truth.max() - followed.truth[followed.actions], atol=1e-15
    )


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "linear"])
def test_entry_t_is_believed_after_t_rounds(name: str) -> None:
    followed = identify(prior(name), environment(name), N_ROUNDS, seed=5)
    rows = ACTIONS if name == "linear" else np.eye(len(followed.truth))
    for t in (0, 1, 7, N_ROUNDS):
        belief = prior(name).belief()
        if t:
            taken = followed.actions[:t]
            belief.update(ACTIONS[taken] if name == "linear" else taken, followed.rewards[:t])
        np.testing.assert_allclose(followed.weights[t], belief.weights, rtol=1e-9)
        np.testing.assert_allclose(followed.means[t], rows @ belief.mean, rtol=1e-9)
        variances = np.diagonal(rows @ belief.covariance @ rows.T)
        np.testing.assert_allclose(followed.deviations[t] ** 2, variances, rtol=1e-9)


def test_the_priors_moments_by_hand() -> None:
    followed = identify(prior("gaussian"), environment("gaussian"), 1, seed=0)
    # Means 0 and 1 with weights 1/4 and 3/4: 3/16 between components, and 0.3 within.
    np.testing.assert_allclose(followed.weights[0], [0.25, 0.75])
    np.testing.assert_allclose(followed.means[0], 0.75)
    np.testing.assert_allclose(followed.deviations[0], np.sqrt(0.3 + 3 / 16))


def test_names_are_kept() -> None:
    family = mixts.BernoulliArms([[9.0, 1.0], [1.0, 9.0]], [[1.0, 9.0], [9.0, 1.0]])
    named = mixts.MixturePrior(family, names=["left", "right"], arm_names=["a", "b"])
    followed = identify(named, mixts.BanditEnvironment(named), 40, seed=0)
    assert followed.names == ("left", "right")
    assert followed.action_names == ("a", "b")
    first, second, third = repr(followed).splitlines()
    name = named.names[followed.latent] if named.names else ""
    assert first == f"Identification of latent state {followed.latent} ({name}) of 2 in 40 rounds"
    assert f"from round {followed.identified()} on" in second
    assert third == f"  regret {followed.regret.sum():.2f}"


@pytest.fixture
def by_hand() -> Identification:
    weights = np.array([0.5, 0.995, 0.9, 0.995, 1.0])
    moments, rounds = np.zeros((5, 1)), np.zeros(4, np.int64)
    return Identification(
        0, np.zeros(1), np.stack([weights, 1 - weights], axis=1), moments, moments,
        rounds, rounds, np.zeros(4), np.zeros(4),
    )  # fmt: skip


def test_when_the_state_is_known_for_good(by_hand: Identification) -> None:
    assert by_hand.identified() == 3
    assert by_hand.identified(0.4) == 0
    assert by_hand.identified(0.995) == 4
    assert by_hand.identified(1.0) is None
    other = replace(by_hand, latent=1)
    assert other.identified() is None
    assert "never for good" in repr(other)


def test_what_cannot_be_followed() -> None:
    linear = prior("linear")
    moving = mixts.BanditEnvironment(linear, changing)
    with pytest.raises(errors.ParameterError, match="one constant action set"):
        identify(linear, moving, 3, seed=0)
    with pytest.raises(errors.ParameterError, match="of the environment's actions"):
        identify(linear, environment("gaussian"), 3, seed=0)
    with pytest.raises(errors.ParameterError, match="run must be a whole number, at least 0"):
        identify(linear, environment("linear"), 3, seed=0, run=-1)
    one = mixts.MixturePrior(mixts.GaussianArms(np.zeros((1, 4)), np.ones((1, 4)), 0.5))
    whole = prior("gaussian"), environment("gaussian")
    run = next(run for run in range(20) if identify(*whole, 1, seed=0, run=run).latent == 1)
    with pytest.raises(errors.ParameterError, match="components, 0 to 0, got 1"):
        identify(one, environment("gaussian"), 1, seed=0, run=run)


@pytest.mark.usefixtures("unchecked")
def test_arguments_of_the_wrong_kind() -> None:
    river = mixts.RiverSwim(4, horizon=4)
    with pytest.raises(errors.ParameterError, match="must be a BanditEnvironment"):
        identify(river.prior, river, 3, seed=0)  # type: ignore[arg-type]
    with pytest.raises(errors.ParameterError, match="must be a MixturePrior"):
        identify(prior("gaussian").family, environment("gaussian"), 3, seed=0)  # type: ignore[arg-type]
