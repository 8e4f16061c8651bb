"""Assumptions of the proofs of the confidence sets, and properties of the sets, in many runs.

Given the history and that the sampled latent state is the true one, the promised mean is the mean
of what comes: the excess is a martingale difference. For Gaussian rewards its variance is known,
too, and both hold only for the belief of before the round's update.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from mixts_paper.analysis.confidence import ConfidenceSets, EpisodeMeasure, follow_confidence_sets

import mixts
from mixts.environments import BanditEnvironment
from mixts.environments.mdp import MDPEnvironment, RiverSwim
from mixts.families import TabularMDP
from tests.statistical import settings
from tests.statistical.standard_errors import assert_within, limit, of_mean

N_ROUNDS = 12


def sticky() -> mixts.MixturePrior:
    """A state that pays, and one without return; how long one stays is anyone's guess."""
    reward = np.array([[[9.0, 1.0], [8.0, 2.0]], [[1.0, 9.0], [1.0, 9.0]]])
    transition = np.full((2, 2, 2, 2), 0.15)
    transition[:, 1] = [0.0, 1.0]
    both = np.stack([reward, reward[:, ::-1] * [0.3, 2.0]])
    return mixts.MixturePrior(TabularMDP(both, transition, 8, [1.0, 0.0]), [0.6, 0.4])


def follow(name: str) -> ConfidenceSets:
    # In one block: the checks of shapes while tests run cost most per call.
    if name == "mdp":
        prior, n_runs = sticky(), 3000
        environment: Any = MDPEnvironment(prior)
    else:
        setting = getattr(settings, name)()
        prior, n_runs = setting.prior, 800 if name == "linear" else 4000
        environment = BanditEnvironment(prior, setting.action_sets if setting.n_features else None)
    return follow_confidence_sets(
        prior, environment, N_ROUNDS, n_runs, 31, n_samples=8, block_size=n_runs
    )


@functools.cache
def followed(name: str) -> ConfidenceSets:
    return follow(name)


BANDITS = ["bernoulli", "gaussian", "linear"]


def truly_sampled(sets: ConfidenceSets) -> Any:
    return sets.sampled == sets.latent[:, None]


@pytest.mark.parametrize("name", [*BANDITS, "mdp"])
def test_the_true_state_promises_what_comes(name: str) -> None:
    """In every round, and in the sum that G_t is made of."""
    sets = followed(name)
    assert_within(of_mean(np.where(truly_sampled(sets), sets.excess, 0)))
    truth = np.take_along_axis(sets.gap(0.0)[:, -1], sets.latent[:, None], axis=1)
    assert_within(of_mean(truth))


@pytest.mark.parametrize("name", BANDITS)
def test_wrong_states_promise_too_much(name: str) -> None:
    """They are sampled for what they promise: G_t grows, which is what the sets look at."""
    sets = followed(name)
    wrong = np.where(truly_sampled(sets), 0, sets.excess).sum(axis=1)
    assert of_mean(wrong) > limit(len(BANDITS))


@pytest.mark.parametrize("name", ["gaussian", "linear"])
def test_gaussian_widths_have_the_predictive_variance(name: str) -> None:
    setting, sets = getattr(settings, name)(), followed(name)
    d = 4  # arms, or features
    norm = sets.width / math.sqrt(2 * d * math.log(d * N_ROUNDS))
    variance = setting.family.noise_std**2 + norm**2
    assert_within(of_mean(np.where(truly_sampled(sets), sets.excess**2 / variance - 1, 0)))


def test_the_value_of_the_mean_mdp_promises_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same test, with the value of the mean MDP in place of the mean value, goes red."""

    def of_mean_mdp(self: Any, rng: Any, belief: Any, latent: Any, policy: Any) -> Any:
        means = belief.component_mean[np.arange(len(latent)), latent]
        return belief.prior.family.mdp(means).value(policy), np.zeros(len(latent))

    monkeypatch.setattr(EpisodeMeasure, "mean_value", of_mean_mdp)
    sets = follow("mdp")
    deviations = of_mean(np.where(truly_sampled(sets), sets.excess, 0))
    assert abs(deviations).max() > 2 * limit(N_ROUNDS)


# -- what the sets do ------------------------------------------------------------------------------


def synthetic(width: float, n: int = 30) -> mixts.MixturePrior:
    """The paper's synthetic bandit as Gaussian arms."""
    means, variances = 0.1 + 0.8 * np.eye(n), np.full((n, n), width**2)
    return mixts.MixturePrior(mixts.GaussianArms(means, variances, 0.1))


@pytest.mark.parametrize("width", [0.05, 0.5])
def test_at_the_proofs_eta_nothing_is_excluded_in_the_synthetic_bandit(width: float) -> None:
    prior, n = synthetic(width), 120
    sets = follow_confidence_sets(prior, BanditEnvironment(prior), n, 50, 1, block_size=50)
    assert not sets.excluded().any()
    if width == 0.05:
        # An arm that promises 0.9 and gives 0.1, once, against its width and the radius: the worst
        # of some hundred such rounds has a noise of more than 0 and less than 5 deviations.
        scale = math.sqrt(60 * math.log(30 * n)) * width
        low = (0.8 - 0.2 * math.sqrt(math.log(n))) / scale
        assert low < sets.exclusion.eta < low + 5 * math.hypot(0.1, width) / scale
        assert sets.miss.eta < 0
    else:
        assert 0 < sets.miss.eta < sets.exclusion.eta < math.sqrt(2)


def test_a_tight_prior_lets_the_proofs_eta_exclude_and_not_miss() -> None:
    """Width 0.01: after one round eta sigma + radius = 0.32 + 0.46, and the gap is 0.8 ± 0.1."""
    prior = synthetic(0.01)
    sets = follow_confidence_sets(prior, BanditEnvironment(prior), 200, 50, 1, block_size=50)
    assert sets.excluded().any()
    assert not sets.missed().any()


def test_in_riverswim_not_even_without_widths() -> None:
    """The other current promises a few units once or twice; the radius alone is 9.6 sqrt(N)."""
    river = RiverSwim()
    sets = follow_confidence_sets(river.prior, river, 100, 50, 1, n_samples=8, block_size=50)
    assert not sets.excluded().any()
    assert sets.exclusion.eta < 0
    table = sets.sweep([math.sqrt(2), 0.0, -0.1])
    np.testing.assert_array_equal(table["excluded"], [0, 0, 1])
    np.testing.assert_array_equal(table["missed"], [0, 0, 1])
    np.testing.assert_array_equal(table["size"][:2], 2)


def test_long_episodes_of_false_promises_are_excluded() -> None:
    """One state, two levers, a hundred pulls: the wrong lever promises 95 and gives 5."""
    pays = np.array([[[0.95, 0.05]], [[0.05, 0.95]]])
    reward = 30 * np.stack([pays, 1 - pays], axis=-1)
    prior = mixts.MixturePrior(TabularMDP(reward, np.full((2, 1, 2, 1), 30.0), 100, 0))
    sets = follow_confidence_sets(prior, MDPEnvironment(prior), 20, 100, 1, n_samples=8)
    wrong = sets.sampled[:, 0] != sets.latent
    assert 20 < wrong.sum() < 80
    # 1e-3 of a first width of 13,000 is 13; the radius is 17, a false promise 90, and what the true
    # state promises is wrong by 6 for the noise and for the prior's own spread.
    np.testing.assert_array_equal(sets.excluded(1e-3).any(axis=1), wrong)
    assert not sets.missed(1e-3).any()
    assert not sets.excluded().any()
    assert sets.exclusion.eta == pytest.approx((90 - 17.3) / 13_400, rel=0.1)
