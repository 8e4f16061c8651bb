"""The steps of the bounds that know the latent prior, over many runs; broken ones are noticed."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from mixts_paper.analysis import LatentCost, LatentCostObserver, measure_latent_cost
from mixts_paper.analysis.latent_cost import LatentCostRecorder

import mixts
from mixts.environments import BanditEnvironment
from mixts.simulation import Round

LIMIT = 4.0
"""Standard errors; a correct program exceeds it with probability 6e-5, at a seed not looked at."""
SEED = 11


def arms(width: float, weights: Any = None) -> mixts.MixturePrior:
    """The paper's bandit with fewer arms, and noise that does not settle a state at once."""
    mean = 0.1 + 0.8 * np.eye(6)
    return mixts.MixturePrior(mixts.GaussianArms(mean, np.full((6, 6), width**2), 0.4), weights)


def sphere(rng: np.random.Generator, n_tasks: int) -> Any:
    actions = rng.normal(size=(n_tasks, 6, 3))
    return actions / np.linalg.norm(actions, axis=-1, keepdims=True)


def tilted() -> mixts.MixturePrior:
    rng = np.random.default_rng(0)
    root = 0.3 * rng.normal(size=(4, 3, 3))
    mean = rng.normal(size=(4, 3))
    return mixts.MixturePrior(mixts.LinearGaussian(mean, root @ root.swapaxes(1, 2), 0.3))


def clicks() -> mixts.MixturePrior:
    table = 0.3 + 0.4 * np.eye(5)
    return mixts.MixturePrior(mixts.BernoulliArms(20 * table, 20 * (1 - table)))


STEEP = np.arange(1.0, 7) ** -2 / (np.arange(1.0, 7) ** -2).sum()
PROBLEMS = {
    "known": (arms(0.0), None, 40, 2000),
    "known, steep": (arms(0.0, STEEP), None, 40, 2000),
    "narrow": (arms(0.1), None, 40, 2000),
    "wide": (arms(0.5), None, 40, 2000),
    "linear": (tilted(), sphere, 15, 200),
    "clicks": (clicks(), None, 40, 1000),
}


def measure(name: str) -> LatentCost:
    prior, actions, n_rounds, n_runs = PROBLEMS[name]
    environment = BanditEnvironment(prior, actions)
    return measure_latent_cost(prior, environment, n_rounds, n_runs, SEED, block_size=n_runs)


@functools.cache
def measured(name: str) -> LatentCost:
    return measure(name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_step_holds(name: str) -> None:
    for step in measured(name).inequalities().values():
        if step.in_expectation:
            assert step.deviation < LIMIT, step
        else:
            assert step.share == 1, step


def test_the_first_round_attains_the_bound_on_squares() -> None:
    """Without width the state settles what is best, and Lemma 1 is an equality."""
    cost = measured("known")
    first = cost.identification[:, 0].mean() ** 2 / (5 * cost.between[:, 0].mean())
    assert first == pytest.approx(1, rel=1e-9)


class TrueForSampled(LatentCostRecorder):
    """Identification with the true state in the place of the sampled one."""

    def measure(self, round_: Round) -> Any:
        return super().measure(round_._replace(sampled=self._problem.latent))


class LaterBelief(LatentCostRecorder):
    """Weights of a belief that has seen the round's reward."""

    def measure(self, round_: Round) -> Any:
        later = round_.belief.prior.condition(round_.belief.statistics)
        later.update(*round_.outcome.feedback)
        return super().measure(round_._replace(belief=later))


@pytest.mark.parametrize("broken", [TrueForSampled, LaterBelief])
def test_a_wrong_measurement_is_noticed(
    broken: type[LatentCostRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LatentCostObserver, "recorder", broken)
    found = measure("narrow").inequalities()["parts"]
    assert found.deviation > LIMIT
    assert not found.holds
