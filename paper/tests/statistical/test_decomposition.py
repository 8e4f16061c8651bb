"""Eq. 1 over many runs: both parts sum to the regret within errors, and broken ones do not.

Given the history, the true best action with the true state and the action taken with the state
sampled have one law. So the mean of mu_t(A_t, S_t) - mu_t(A_t*, S_*) is 0 in every round, and what
is left of the identity in a simulation, divided by its standard error, is a standard normal number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mixts_paper.analysis import Decomposition, DecompositionObserver, decompose_regret
from mixts_paper.analysis.decomposition import PartsRecorder

import mixts
from mixts.environments import BanditEnvironment
from mixts.extend import estimate
from mixts.simulation import Round
from tests.statistical import settings
from tests.statistical.standard_errors import assert_within, of_mean

LIMIT = 4.0
"""Standard errors; a correct program exceeds it with probability 6e-5, at a seed not looked at."""


def synthetic() -> mixts.MixturePrior:
    """The paper's synthetic bandit, smaller and with a width at which arms change places."""
    means = 0.1 + 0.8 * np.eye(8)
    return mixts.MixturePrior(mixts.GaussianArms(means, np.full((8, 8), 0.3**2), 0.1))


def problem(name: str) -> tuple[mixts.MixturePrior, BanditEnvironment, int, int]:
    """Prior, environment, rounds and runs; in one block, as checks of shapes cost most per call."""
    if name == "synthetic":
        prior = synthetic()
        return prior, BanditEnvironment(prior), 60, 2000
    setting = getattr(settings, name)()
    actions = setting.action_sets if setting.n_features else None
    environment = BanditEnvironment(setting.prior, actions)
    return (setting.prior, environment, *((8, 300) if name == "linear" else (12, 4000)))


NAMES = ["gaussian", "linear", "synthetic"]


def decompose(name: str, prior: mixts.MixturePrior | None = None) -> Decomposition:
    ours, environment, n_rounds, n_runs = problem(name)
    return decompose_regret(prior or ours, environment, n_rounds, n_runs, 41, block_size=n_runs)


@functools.cache
def decomposed(name: str) -> Decomposition:
    return decompose(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_sum_to_the_regret(name: str) -> None:
    """In all, and round by round."""
    measured = decomposed(name)
    assert abs(measured.deviation) < LIMIT
    assert_within(of_mean(measured.gap))
    # The identity is of expectations: in single runs the sides differ.
    assert np.abs(measured.gap.sum(axis=1)).mean() > 0.1 * measured.total("regret").mean


@pytest.mark.parametrize("name", NAMES)
def test_widths_have_one_expectation(name: str) -> None:
    measured = decomposed(name)
    gap = estimate((measured.width - measured.best_width).sum(axis=1))
    assert abs(gap.mean) < LIMIT * gap.error
    assert_within(of_mean(measured.norm - measured.best_norm))


def when_true(measured: Decomposition) -> Any:
    """The second part of rounds in which the true state was sampled, else 0."""
    return np.where(measured.sampled == measured.latent[:, None], measured.second, 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_true_state_promises_what_is_true(name: str) -> None:
    """Given the history and S_t = S_*, mu_t(A_t, S_t) is the mean of mu_*(A_t).

    Eq. 1 does not ask for it: any function of the history would do in the place of mu_t.
    """
    assert_within(of_mean(when_true(decomposed(name))))


@pytest.mark.parametrize("name", NAMES)
def test_both_parts_are_there(name: str) -> None:
    """Neither expectation is 0 in these problems: the test of the sum is one of both."""
    measured = decomposed(name)
    for part in ("first", "second"):
        mean, error = measured.total(part)
        assert mean > LIMIT * error


class SampledForTrue(PartsRecorder):
    """The first part with S_t in the place of S_*."""

    def measure(self, round_: Round) -> Any:
        truth = self._problem.latent
        self._problem.latent = round_.sampled
        parts = super().measure(round_)
        self._problem.latent = truth
        return parts


class TrueForSampled(PartsRecorder):
    """The second part with S_* in the place of S_t."""

    def measure(self, round_: Round) -> Any:
        return super().measure(round_._replace(sampled=self._problem.latent))


class PriorMeans(PartsRecorder):
    """Both parts with the means of the prior, from which nothing is learned."""

    def measure(self, round_: Round) -> Any:
        belief = round_.belief
        empty = belief.prior.belief(belief.n_tasks)
        return super().measure(round_._replace(belief=empty))


@pytest.mark.parametrize("broken", [SampledForTrue, TrueForSampled])
@pytest.mark.parametrize("name", ["gaussian", "synthetic"])
def test_a_wrong_state_is_noticed(
    name: str, broken: Callable[..., PartsRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DecompositionObserver, "recorder", broken)
    assert abs(decompose(name).deviation) > 2 * LIMIT


def test_means_that_learn_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by Eq. 1, which they satisfy, but by what comes."""
    monkeypatch.setattr(DecompositionObserver, "recorder", PriorMeans)
    measured = decompose("gaussian")
    assert abs(measured.deviation) < LIMIT
    assert abs(of_mean(when_true(measured))).max() > 2 * LIMIT


def test_the_law_is_that_of_the_prior_in_use() -> None:
    """An agent whose weights of the components are wrong has another law than the truth."""
    ours, *_ = problem("gaussian")
    other = mixts.MixturePrior(ours.family, weights=[0.05, 0.05, 0.9])
    assert abs(decompose("gaussian", other).deviation) > 2 * LIMIT


@pytest.mark.parametrize("name", NAMES)
def test_the_steps_that_follow_hold(name: str) -> None:
    steps = decomposed(name).inequalities()
    for step in set(steps) - {"maxima", "trace"}:
        assert steps[step].holds, step
        assert steps[step].tightness <= 1 + 1e-9


def one_direction(rng: np.random.Generator, n_tasks: int) -> Any:
    """A single action in each round, one of the two unit vectors."""
    return np.eye(2)[rng.integers(2, size=(n_tasks, 1))]


def test_two_steps_need_not_hold() -> None:
    """Each component wide in a direction of its own, and nearly certain in the other."""
    family = mixts.LinearGaussian(
        np.zeros((2, 2)), [[1.0, 1e-6], [1e-6, 1.0]], 10.0, covariance_type="diag"
    )
    prior = mixts.MixturePrior(family)
    measured = decompose_regret(prior, BanditEnvironment(prior, one_direction), 20, 40, 5)
    steps = measured.inequalities()
    # About ten rounds of norm 1 in each direction: 20 against sqrt(20 * 10) = 14.
    assert steps["maxima"].share < 0.05
    assert steps["trace"].share < 0.05
    assert all(steps[name].holds for name in set(steps) - {"maxima", "trace"})
