"""The paper's experiments: their settings and their analyses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from mixts_paper.bounds import theorem1
from mixts_paper.experiments import Setting, all_experiments
from mixts_paper.experiments.base import chosen
from mixts_paper.experiments.paper._synthetic import (
    N_COMPONENTS,
    N_FEATURES,
    NOISE,
    arms_prior,
    bound_terms,
    synthetic_prior,
)
from mixts_paper.experiments.paper.images import TUNED, agents_of, priors_of
from mixts_paper.experiments.paper.latent_prior import expected_regret, latent_weights
from mixts_paper.experiments.paper.riverswim import agents_of as riverswim_agents
from mixts_paper.experiments.verdicts import at_most, equal, exceeds, greatly, not_worse, weakest

from mixts.environments import RiverSwim
from mixts.errors import ParameterError
from mixts.simulation import Estimate

PAPER = {
    "paper/width": (200, 1000),
    "paper/components": (200, 1000),
    "paper/images": (100, 500),
    "paper/riverswim": (500, 1000),
}
"""Runs and rounds, as Section 6 has them."""


def setting(id: str) -> Setting:
    scale = all_experiments()[id].scale
    return Setting(scale.n_runs, scale.n_rounds, 1)


def test_every_experiment_of_the_paper_is_there_at_its_own_scale() -> None:
    known = all_experiments()
    for id, (n_runs, n_rounds) in PAPER.items():
        assert (known[id].scale.n_runs, known[id].scale.n_rounds) == (n_runs, n_rounds)
        assert known[id].id == id
    assert list(known)[:2] == ["paper/width", "paper/components"]


def test_groups_and_names_choose() -> None:
    assert list(chosen(["paper/riverswim", "paper/width"])) == ["paper/width", "paper/riverswim"]
    assert chosen(["paper"]).keys() == {id for id in all_experiments() if id.startswith("paper/")}
    assert chosen(["beyond/"]).keys() == {
        id for id in all_experiments() if id.startswith("beyond/")
    }
    assert list(chosen([])) == [*chosen(["paper"]), *chosen(["beyond"])]
    assert list(chosen(["mixts_paper.studies"])) == ["studies/movielens"]
    assert list(chosen(["mixts_paper.studies.movielens"])) == ["studies/movielens"]
    for name, message in (
        ("mixts_paper.studies.nowhere", "no module 'mixts_paper.studies.nowhere'"),
        ("mixts_paper.studies.cifar100", "has no EXPERIMENT"),
    ):
        with pytest.raises(ParameterError, match=message):
            chosen([name])
    with pytest.raises(ParameterError, match="there are: paper/width"):
        chosen(["pap"])


def test_the_synthetic_prior_is_the_papers() -> None:
    family = synthetic_prior(4, 0.2).family
    assert family.mean.shape == (4, 30)
    for s in range(4):
        assert family.mean[s, s] == 0.9
        assert np.delete(family.mean[s], s).tolist() == [0.1] * 29
    np.testing.assert_allclose(family.full_covariances()[2], 0.04 * np.eye(30))
    assert family.noise_std == NOISE == 0.1
    arms = arms_prior(4, 0.2).family
    np.testing.assert_array_equal(arms.mean, family.mean)
    np.testing.assert_allclose(arms.variance, 0.04)


def test_the_bounds_width_is_a_variance() -> None:
    expected = theorem1(1000, N_FEATURES, N_COMPONENTS, NOISE, 1.0, 0.05**2)
    assert bound_terms(1000, N_COMPONENTS, 0.05, "statement").bound == expected


@pytest.mark.parametrize(
    ("id", "values"),
    [
        ("paper/width", [0, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5]),
        ("paper/components", [1, 2, 5, 10, 15, 20, 25, 30, 1]),
    ],
)
def test_sweeps_have_a_part_for_each_point(id: str, values: list[float]) -> None:
    parts = all_experiments()[id].parts(setting(id), lambda name, make: make())
    assert [float(re.split("[=,]", name)[1]) for name in parts] == values
    for name, part in parts.items():
        simulation = part.simulation
        assert (simulation.n_runs, simulation.n_rounds) == (200, 1000)
        family = simulation.environment.prior.family
        if id == "paper/width":
            width = float(name.partition("=")[2])
            assert family.max_prior_variance == pytest.approx(width**2)
            assert family.n_components == 30
        else:
            assert family.n_components == int(re.split("[=,]", name)[1])
            width = 0.3 if "width" in name else 0.05
            assert family.max_prior_variance == pytest.approx(width**2)


def test_zipfs_law() -> None:
    np.testing.assert_allclose(latent_weights(0.0), 1 / 30)
    weights = latent_weights(2.0)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights[0] / weights[[1, 2, 3]], [4, 9, 16])


def test_riverswim_compares_with_psrl_of_both_kinds() -> None:
    agents = riverswim_agents(RiverSwim())
    flat, told = agents["PSRL"].family, agents["PSRL, neighbours"].family
    assert flat.n_components == told.n_components == 1
    np.testing.assert_array_equal(flat.reward, 1.0)
    np.testing.assert_array_equal(flat.transition, 1.0)
    allowed = told.transition[0] > 0
    assert (told.transition[0][allowed] == 1).all()
    states = np.arange(10)
    near = np.abs(states[:, None] - states) <= 1
    for action in range(2):
        assert not (allowed[:, action] & ~near).any()


def test_the_image_agents_are_the_papers() -> None:
    rng = np.random.default_rng(0)
    covariance = np.broadcast_to(0.01 * np.eye(3), (4, 3, 3))
    arrays = {
        "mean": rng.normal(size=(4, 3)), "covariance": covariance,
        "unimodal_mean": rng.normal(size=(1, 3)), "unimodal_covariance": covariance[:1],
    }  # fmt: skip
    prior, one = priors_of(arrays)
    agents = agents_of(prior, one)
    assert list(agents)[:5] == ["MixTS", "UniTS", "TS", "Exp4", "CorralExp4"]
    assert list(agents)[5:] == [*TUNED["Exp4"], *TUNED["CorralExp4"]]
    np.testing.assert_array_equal(agents["TS"].family.mean, np.zeros((1, 3)))
    np.testing.assert_array_equal(agents["TS"].family.full_covariances()[0], np.eye(3))
    assert agents["TS"].family.noise_std == agents["MixTS"].family.noise_std == 0.5
    np.testing.assert_array_equal(agents["Exp4"].args[0], prior.family.mean)
    for name in list(agents)[3:]:
        agents[name](
            n_tasks=2, seed=0, **({"n_rounds": 10} if name in ("Exp4", "CorralExp4") else {})
        )


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [
        (1.0, 0.4, "holds"),
        (1.0, 0.6, "undecided"),
        (-1.0, 0.6, "undecided"),
        (-1.0, 0.1, "does not hold"),
        (0.0, 0.0, "does not hold"),
        (1e-9, 0.0, "holds"),
        (1.0, np.nan, "undecided"),
    ],
)
def test_near_a_threshold_nothing_is_decided(mean: float, error: float, verdict: str) -> None:
    assert exceeds(Estimate(mean, error)) == verdict
    assert exceeds(Estimate(mean + 7, error), 7.0) == verdict
    direction = "direction only" if verdict == "does not hold" else verdict
    assert greatly(Estimate(mean + 7, error), 7.0) == direction
    if error:
        assert at_most(Estimate(-mean, error), 0.0) == verdict


def test_at_most_and_not_worse() -> None:
    assert at_most(Estimate(1.0, 0.0), 1.0) == "holds"
    assert at_most(Estimate(1.1, 0.0), 1.0) == "does not hold"
    assert not_worse(Estimate(-0.1, 0.06)) == "holds"
    assert not_worse(Estimate(-0.1, 0.04)) == "does not hold"


def test_equal_is_within_three_errors() -> None:
    assert equal(Estimate(-0.29, 0.1)) == "holds"
    assert equal(Estimate(0.31, 0.1)) == "does not hold"
    assert equal(Estimate(0.0, 0.0)) == "holds"
    assert equal(Estimate(1e-3, 0.0)) == "does not hold"


def test_the_weakest_verdict_counts() -> None:
    assert weakest("holds", "direction only") == "direction only"
    assert weakest("holds", "undecided", "direction only") == "undecided"
    assert weakest("does not hold", "holds", "undecided") == "does not hold"
    assert weakest("holds") == "holds"


def test_states_are_tried_in_the_order_of_their_weights() -> None:
    """Against a simulation of sampling without replacement."""
    weights = latent_weights(1.5)
    rng = np.random.default_rng(0)
    n = 4000
    # The order of Exp(1) / p is that of sampling without replacement.
    times = rng.exponential(size=(n, 30)) / weights
    truth = rng.choice(30, size=n, p=weights)
    before = (times < times[np.arange(n), truth][:, None]).sum(axis=1)
    regret = 0.8 * before
    expected = expected_regret(weights)
    assert abs(regret.mean() - expected) < 4 * regret.std() / np.sqrt(n)
    assert expected_regret(latent_weights(0.0)) == pytest.approx(0.8 * 29 / 2)
