"""Recorded costs of finding the latent state, compared with a computation from the histories."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from mixts_paper.analysis import (
    Inequality,
    LatentCost,
    LatentCostObserver,
    measure_latent_cost,
)

import mixts
from mixts.environments import BanditEnvironment
from mixts.errors import ParameterError
from mixts.simulation import Observer, Round, RoundRecorder, simulate

N, RUNS, SEED = 9, 6, 4
MEAN = np.array([[1.0, 0.0, 0.2], [0.0, 0.8, 0.2], [-0.5, 0.1, 0.9]])
VARIANCE = np.array([[0.2, 0.1, 0.5], [0.1, 0.4, 0.1], [0.6, 0.05, 0.2]])
NOISE, WEIGHTS = 0.7, np.array([0.5, 0.3, 0.2])
PAIRS = ((0, 1), (0, 2), (1, 2))


def gaussian(variance: Any = VARIANCE) -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.GaussianArms(MEAN, variance, NOISE), WEIGHTS)


class History(RoundRecorder):
    def measure(self, round_: Round) -> Any:
        return {"arm": round_.chosen, "reward": round_.outcome.rewards, "state": round_.sampled}


class HistoryObserver(Observer):
    def start(self, agent: Any, problem: Any) -> History:
        return History()


def replay(arms: Any, rewards: Any) -> tuple[Any, Any, Any]:
    """Weights, means and variances of all states before a round, by Bayes' rule in one batch."""
    mean, variance, logs = np.empty_like(MEAN), np.empty_like(MEAN), np.log(WEIGHTS)
    for s, a in np.ndindex(*MEAN.shape):
        y = rewards[arms == a]
        precision = 1 / VARIANCE[s, a] + len(y) / NOISE**2
        variance[s, a] = 1 / precision
        mean[s, a] = (MEAN[s, a] / VARIANCE[s, a] + y.sum() / NOISE**2) / precision
        covariance = NOISE**2 * np.eye(len(y)) + VARIANCE[s, a]
        gap = y - MEAN[s, a]
        logs[s] -= 0.5 * (np.linalg.slogdet(covariance)[1] + gap @ np.linalg.solve(covariance, gap))
    weights = np.exp(logs - logs.max())
    return weights / weights.sum(), mean, variance


def test_all_sums_from_histories() -> None:
    prior = gaussian()
    environment = BanditEnvironment(prior)
    cost = measure_latent_cost(prior, environment, N, RUNS, SEED)
    watched = simulate(
        {"MixTS": prior}, environment, N, RUNS, SEED, observe=HistoryObserver()
    ).observed["MixTS"]
    assert (cost.sampled == watched["state"]).all()
    for run in range(RUNS):
        arms, rewards, states = (watched[key][run] for key in ("arm", "reward", "state"))
        pairs, variances, gaps = np.zeros((3, 3)), np.zeros(3), []
        for t in range(N):
            weights, mean, variance = replay(arms[:t], rewards[:t])
            m, u = mean[:, arms[t]], variance[:, arms[t]]
            mixed = weights @ m
            expected = {
                "identification": m[states[t]] - mixed,
                "excess": m[states[t]] - rewards[t],
                "within": weights @ u,
                "between": weights @ (m - mixed) ** 2,
                "roots": sum(
                    math.sqrt(weights[s] * weights[r]) for s, r in ((0, 1), (0, 2), (1, 2))
                ),
                "products": sum(weights[s] * weights[r] for s, r in ((0, 1), (0, 2), (1, 2))),
            }
            for name, value in expected.items():
                assert getattr(cost, name)[run, t] == pytest.approx(value, abs=1e-10), name
            pairs += np.outer(weights, weights)
            variances += u
            gaps.append(np.ptp(m))
        np.testing.assert_allclose(cost.pairs[run], pairs, rtol=1e-9)
        np.testing.assert_allclose(cost.variances[run], variances, rtol=1e-9)
        assert cost.mean_range[run] == pytest.approx(max(gaps))
        after = replay(arms, rewards)[0]
        np.testing.assert_allclose(cost.final_weights[run], after, rtol=1e-9)
        expected_information = (after * np.log(after)).sum() - (WEIGHTS * np.log(WEIGHTS)).sum()
        assert cost.information[run] == pytest.approx(expected_information)
        pulls = np.bincount(arms, minlength=3)
        gain = 0.5 * np.log1p(pulls * VARIANCE / NOISE**2).sum(axis=1)
        np.testing.assert_allclose(cost.gain[run], gain, rtol=1e-9)


def test_the_learning_part_is_that_of_the_belief() -> None:
    """In the first round it is E[max_a theta_a - E[theta_A* | S]] under the prior, by draws."""
    prior = gaussian()
    cost = measure_latent_cost(prior, BanditEnvironment(prior), 1, 4000, SEED, block_size=4000)
    latent, theta = prior.draw(np.random.default_rng(0), 100_000)
    best = theta.argmax(axis=1)
    expected = (theta.max(axis=1) - MEAN[latent, best]).mean()
    mean, error = cost.total("learning")
    assert abs(mean - expected) < 4 * error


def test_steps_of_arms() -> None:
    equal = gaussian(np.full_like(MEAN, 0.04))
    cost = measure_latent_cost(equal, BanditEnvironment(equal), N, RUNS, SEED)
    steps = cost.inequalities()
    assert {"confidence", "mean range", "count bound", "between 3", "narrow"} <= set(steps)
    assert "pairs" not in steps
    assert cost.rank == 3
    assert cost.largest_ratio >= 0
    # Unequal covariances: nothing that needs a common one.
    other = measure_latent_cost(gaussian(), BanditEnvironment(gaussian()), N, RUNS, SEED)
    left_out = set(steps) - set(other.inequalities())
    assert left_out == {
        "between by information", "between 2", "between 3", "confidence", "mean range",
        "count bound", "narrow",
    }  # fmt: skip


def test_steps_of_known_models() -> None:
    known = gaussian(np.zeros_like(MEAN))
    steps = measure_latent_cost(known, BanditEnvironment(known), N, RUNS, SEED).inequalities()
    assert {"pairs", "shrinking", "known models"} <= set(steps)
    assert steps["pairs"].left.shape == (RUNS, 3)


def sets(rng: np.random.Generator, n_tasks: int) -> Any:
    return rng.normal(size=(n_tasks, 5, 2))


def test_changing_action_sets_and_clicks() -> None:
    family = mixts.LinearGaussian(np.eye(2), np.stack([np.eye(2), np.diag([0.1, 2])]), 0.5)
    prior = mixts.MixturePrior(family)
    cost = measure_latent_cost(prior, BanditEnvironment(prior, sets), N, RUNS, SEED)
    assert not cost.fixed.any()
    assert cost.rank == 2
    assert (cost.n_actions == 5).all()
    assert cost.kappa.min() > 1
    assert {"gain", "within", "total", "between 1"} <= set(cost.inequalities())
    fixed = BanditEnvironment(prior, np.eye(2))
    assert measure_latent_cost(prior, fixed, N, RUNS, SEED).fixed.all()
    clicks = mixts.MixturePrior(mixts.BernoulliArms([[5, 2], [2, 5]], [[2, 5], [5, 2]]))
    steps = measure_latent_cost(clicks, BanditEnvironment(clicks), N, RUNS, SEED).inequalities()
    assert {"information", "between by information", "entropy"} <= set(steps)
    assert "gain" not in steps


def test_it_is_picklable_and_says_what_it_is() -> None:
    prior = gaussian()
    assert pickle.loads(pickle.dumps(LatentCostObserver(prior)))
    cost = measure_latent_cost(prior, BanditEnvironment(prior), N, RUNS, SEED)
    assert repr(cost).startswith("LatentCost of 6 runs of 9 rounds, seed 4\n  regret: ")
    with pytest.raises(ParameterError, match="arms or features"):
        LatentCostObserver(mixts.RiverSwim().prior)


def test_cost_from_results() -> None:
    prior = gaussian()
    cost = measure_latent_cost(prior, BanditEnvironment(prior), N, RUNS, SEED)
    again = LatentCost.of(prior, cost.results)
    assert (again.regret == cost.regret).all()


# -- inequalities with several cases --------------------------------------------------------------


def claim(left: Any, right: Any, **options: bool) -> Inequality:
    return Inequality(
        "left <= right", "here", np.asarray(left, float), np.asarray(right, float), **options
    )


def test_every_case_must_hold_in_expectation() -> None:
    rng = np.random.default_rng(0)
    left = rng.normal(size=(400, 50))
    good = claim(left, 0.0, in_expectation=True)
    assert 2 < good.deviation < 4
    assert good.holds, "one of fifty may be off by more than two standard errors"
    left[:, 7] += 0.5
    assert not claim(left, 0.0, in_expectation=True).holds
    assert claim(left[:, 7], 0.0, in_expectation=True).deviation > 5


def test_equalities_are_two_sided() -> None:
    left = np.random.default_rng(0).normal(size=400)
    assert claim(left, 0.0, in_expectation=True, equality=True).holds
    low = claim(left - 1, 0.0, in_expectation=True, equality=True)
    assert not low.holds
    assert low.deviation > 10
    assert claim(left - 1, 0.0, in_expectation=True).holds


def test_sides_that_do_not_vary() -> None:
    assert claim(np.full(5, 1.0), 1.0, in_expectation=True).deviation == 0
    assert claim(np.full(5, 2.0), 1.0, in_expectation=True).deviation == math.inf
    assert not claim(np.full(5, 2.0), 1.0, in_expectation=True).holds
    assert claim(np.full(5, 0.5), 1.0, in_expectation=True).deviation == -math.inf
