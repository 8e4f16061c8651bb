"""Beliefs about clicks with features, by the public interface, against integrals by scipy."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import integrate

import mixts
from mixts import errors

pytestmark = pytest.mark.usefixtures("program")


def logistic(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def exact(prior: mixts.MixturePrior, rows: Any, clicks: Any, value: Any) -> Any:
    """E[value(theta) p(clicks | theta)] under each component of a prior of one feature."""
    family, found = prior.family, []
    for mean, variance in zip(family.mean[:, 0], family.full_covariances()[:, 0, 0], strict=True):
        deviation = np.sqrt(variance)

        def density(u: float, mean: float = mean, deviation: float = deviation) -> float:
            theta = mean + deviation * u
            chance = logistic(rows[:, 0] * theta)
            likelihood = np.prod(np.where(clicks == 1, chance, 1 - chance))
            return float(value(theta) * likelihood * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi))

        found.append(integrate.quad(density, -12, 12, epsabs=0, epsrel=1e-9, limit=400)[0])
    return np.array(found)


@pytest.mark.parametrize("deviation", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_evidence_weights_and_click_rates(deviation: float, rate: float) -> None:
    rng = np.random.default_rng(3)
    family = mixts.LinearBernoulli([[-3.0], [0.0], [1.0]], np.full(3, deviation**2), "spherical")
    prior = mixts.MixturePrior(family, [0.2, 0.5, 0.3])
    rows, clicks = rng.uniform(0.5, 2.0, (25, 1)), (rng.random(25) < rate).astype(float)
    belief = prior.belief()
    belief.update(rows, clicks)
    evidence = exact(prior, rows, clicks, lambda theta: 1.0)
    gap = np.abs(belief.log_evidence - np.log(evidence))
    assert np.all(gap < 4 * belief.evidence_error + 1e-9)
    assert np.all(belief.evidence_error < 0.05)
    weights = prior.weights * evidence
    weights /= weights.sum()
    np.testing.assert_allclose(belief.weights, weights, atol=2 * belief.evidence_error.max())
    offers = np.array([[0.5], [1.0], [2.0]])
    expected = sum(
        weights[:, None]
        * np.stack([
            exact(prior, rows, clicks, lambda theta, a=a: logistic(a * theta)) / evidence
            for a in offers[:, 0]
        ], axis=1)
    )  # fmt: skip
    # The click rate of the mean theta would be off by much more where theta is uncertain.
    np.testing.assert_allclose(belief.mean_rewards(offers), expected, atol=0.01)


def test_a_belief_is_a_function_of_prior_and_counts_to_the_bit() -> None:
    rng = np.random.default_rng(5)
    family = mixts.LinearBernoulli(rng.normal(size=(4, 3)), np.stack([np.eye(3)] * 4))
    prior = mixts.MixturePrior(family)
    rows = rng.integers(0, 3, (60, 3)).astype(float)
    clicks = (rng.random(60) < 0.3).astype(float)
    one_by_one, at_once = prior.belief(), prior.belief()
    for row, click in zip(rows, clicks, strict=True):
        one_by_one.update(row, click)
        one_by_one.working_weights(np.array([0]))
    order = rng.permutation(60)
    at_once.update(rows[order], clicks[order])
    for other in (at_once, prior.condition(one_by_one.statistics)):
        np.testing.assert_array_equal(one_by_one.log_evidence, other.log_evidence)
        np.testing.assert_array_equal(one_by_one.evidence_error, other.evidence_error)
        np.testing.assert_array_equal(one_by_one.mean, other.mean)
        drawn = [b.sample(np.random.default_rng(1))[1] for b in (one_by_one, other)]
        np.testing.assert_array_equal(*drawn)


def test_reading_moments_does_not_change_draws() -> None:
    family = mixts.LinearBernoulli([[-1.0, 2.0], [1.0, 0.0]], np.full(2, 9.0), "spherical")
    beliefs = [mixts.MixturePrior(family).belief() for _ in range(2)]
    for belief in beliefs:
        belief.update([[1.0, 0.5], [1.0, -0.5], [1.0, 2.0]], [0, 1, 1])
    beliefs[0].mean_rewards(np.eye(2))
    beliefs[0].covariance  # noqa: B018
    drawn = [belief.sample(np.random.default_rng(1))[1] for belief in beliefs]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("policy", [mixts.MixTS, mixts.MixIDS])
def test_copies_of_an_agent_that_has_decided_are_small_and_decide_alike(policy: Any) -> None:
    rng = np.random.default_rng(3)
    family = mixts.LinearBernoulli(rng.normal(size=(4, 5)), np.stack([np.eye(5)] * 4))
    agent = policy(mixts.MixturePrior(family), n_tasks=3, seed=1)
    offers = rng.normal(size=(6, 5))
    for _ in range(5):
        rows = agent.act(offers)
        agent.update(offers[rows], rng.integers(0, 2, 3))
    agent.act(offers)
    pickled = pickle.dumps(agent)
    assert len(pickled) < 20_000
    copies = [pickle.loads(pickled), copy.deepcopy(agent)]
    decisions = [agent.act(offers) for _ in range(20)]
    for other in copies:
        np.testing.assert_array_equal([other.act(offers) for _ in range(20)], decisions)


def test_components_that_fell_behind_sleep_and_their_evidence_is_still_right(program: str) -> None:
    family = mixts.LinearBernoulli([[-2.0], [2.0], [2.2]], np.full(3, 0.01), "spherical")
    belief = mixts.MixturePrior(family).belief()
    belief.update(np.ones((100, 1)), np.ones(100))
    belief.draw_latent(np.random.default_rng(0), np.array([0]))
    sleeps = np.isneginf(belief.posterior.relative_evidence[0]).tolist()
    assert sleeps == [program == "core", False, False]
    awake = mixts.MixturePrior(family.select([0])).condition(belief.statistics)
    assert belief.log_evidence[0] == awake.log_evidence[0]
    rng = np.random.default_rng(0)
    assert belief.sample_parameters(rng, 0) < 0.5  # also of one that sleeps


@pytest.mark.parametrize("deviation", [1.0, 10.0])
def test_separable_clicks_and_constant_columns_have_sound_answers(deviation: float) -> None:
    """Maximum likelihood has no finite answer for either."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(80), rng.normal(size=80), np.zeros(80), np.full(80, 3.0)])
    clicks = (rows[:, 1] > 0).astype(float)
    family = mixts.LinearBernoulli(np.zeros((1, 4)), [deviation**2], "spherical")
    belief = mixts.MixturePrior(family).belief()
    belief.update(rows, clicks)
    assert np.isfinite(belief.log_evidence).all()
    rates = belief.mean_rewards(np.array([[1.0, 2.0, 0, 3.0], [1.0, -2.0, 0, 3.0]]))
    assert rates[0] > 0.9
    assert rates[1] < 0.1
    # Nothing is known about a feature that was always 0.
    assert belief.covariance[2, 2] == pytest.approx(deviation**2, rel=0.1)


def exact_with_large_feature(mean: Any, rows: Any, clicks: Any) -> float:
    """Log evidence of N(mean, I) for two features, the first of which is large or 0 in each row.

    Given the second coefficient, the first is integrated in pieces: around the places where a row's
    log odds change their sign, and beyond.
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    total, sign = [], 2.0 * clicks - 1.0
    large = rows[:, 0] != 0
    step = 0.1
    for u in np.arange(-9.0, 9.0 + step / 2, step):
        odds = rows[:, 1] * (mean[1] + u)
        crossings = -odds[large] / rows[large, 0]
        width = 50.0 / np.abs(rows[large, 0]).min()
        low, high = crossings.min() - width, crossings.max() + width
        parts = []
        for start, end in ((mean[0] - 12.0, low), (low, high), (high, mean[0] + 12.0)):
            edges = np.linspace(start, max(start, end), 31)
            half = np.diff(edges)[:, None] / 2
            theta = (edges[:-1, None] + half * (1 + nodes)).ravel()
            fit = -np.logaddexp(0.0, -sign[:, None] * (rows[:, :1] * theta + odds[:, None]))
            density = fit.sum(axis=0) - 0.5 * (theta - mean[0]) ** 2
            parts.append(np.log((half * weights).ravel() + 1e-300) + density)
        total.append(np.logaddexp.reduce(np.concatenate(parts)) - 0.5 * u * u)
    return float(np.logaddexp.reduce(total) + np.log(step / (2 * np.pi)))


@pytest.mark.parametrize("scale", [1e3, 1e6, 1.7e9])
@pytest.mark.parametrize("n", [1, 3, 20])
def test_a_large_feature_beside_small_ones(scale: float, n: int) -> None:
    rng = np.random.default_rng([n, 4])
    prior = mixts.MixturePrior(
        mixts.LinearBernoulli([[-0.3, 0.3], [0.3, -0.3]], np.ones(2), "spherical")
    )
    for clicks in ((rng.random(n) < 0.5) / 1.0, np.ones(n)):
        rows = rng.standard_normal((n, 2))
        rows[:, 0] = scale * (1 + 3e-4 * rng.random(n))
        rows[1::5, 0] = 0.0
        belief = prior.belief()
        belief.update(rows, clicks)
        expected = np.array([exact_with_large_feature(m, rows, clicks) for m in prior.family.mean])
        assert np.all(belief.evidence_error < 0.03)
        assert np.all(np.abs(belief.log_evidence - expected) < 4 * belief.evidence_error)
        chances = np.exp(expected - np.logaddexp.reduce(expected))
        np.testing.assert_allclose(belief.working_weights(np.array([0]))[0], chances, atol=0.02)


def test_units_of_features_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    rows, clicks = rng.standard_normal((8, 3)), (rng.random(8) < 0.5) / 1.0
    mean, deviation = rng.standard_normal((2, 3)), np.ones((2, 3))
    found = []
    for c in (1.0, 2.0**30, 2.0**-30):
        units = np.array([c, 1.0, 1.0])
        family = mixts.LinearBernoulli(mean / units, (deviation / units) ** 2, "diag")
        belief = mixts.MixturePrior(family).belief()
        belief.update(rows * units, clicks)
        found.append((belief.log_evidence, belief.weights, belief.mean_rewards(rows * units)))
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_log_odds_beyond_double_precision_are_refused() -> None:
    prior = mixts.MixturePrior(mixts.LinearBernoulli.standard(2))
    agent = mixts.MixTS(prior, n_tasks=2, seed=1)
    agent.update([[1.0, 0.5], [1.0, 0.2]], [1, 0])
    before = agent.belief.weights, agent.belief.statistics.copy()
    milliseconds = [1.7e12, 1.0]
    with pytest.raises(errors.ActionError, match=r"feature 0 is 1.7e\+12 .* scale the feature"):
        agent.update([milliseconds, [1.0, 0.1]], [1, 0])
    np.testing.assert_array_equal(agent.belief.weights, before[0])
    assert agent.belief.statistics.encode() == before[1].encode()
    statistics = prior.family.empty_statistics(2)
    statistics.observe(np.array([1]), (np.array([milliseconds]), np.ones(1)))
    with pytest.raises(errors.StatisticsError, match="from observed features"):
        prior.condition(statistics)


def test_a_task_with_a_large_feature_leaves_the_others_of_its_batch_alone() -> None:
    prior = mixts.MixturePrior(
        mixts.LinearBernoulli([[0.5, -0.3], [-0.3, 0.5]], np.ones(2), "spherical")
    )
    healthy = [[1.0, 0.5], [1.0, -0.5]]
    offers = np.array([[[1.7e9, 1.0], [1.7e9 + 60, -1.0]], healthy, healthy])
    for kind in (mixts.MixTS, mixts.MixIDS, mixts.Greedy, mixts.BayesUCB):
        agent = kind(prior, n_tasks=3, seed=1)
        for click in (1, 0, 1):
            chosen, law, _ = agent.act_with_probabilities(offers)
            agent.update(offers[range(3), chosen], [click, 1, 0])
            np.testing.assert_allclose(law.sum(axis=1), 1.0)
        assert np.isfinite(agent.belief.weights).all()
        assert np.isfinite(agent.belief.mean).all()
