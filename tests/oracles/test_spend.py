"""Spend arms against brute force: densities of scipy, integrals over p and mu, sums over levels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import mixts
from mixts.families.choice import draw_rows
from mixts.families.spend_marginal import (
    LEVELS,
    LIMITS,
    SpendMarginal,
    fit_levels,
    level_means,
    log_sum,
)

pytestmark = pytest.mark.usefixtures("program")

PARAMETERS = np.array([
    [0.7, 2.0, 1.0, 0.5, 1.5, 0.4],
    [2.0, 30.0, 3.0, 4.0, 6.0, 5.0],
    [40.0, 3.0, -1.0, 30.0, 50.0, 60.0],
    [1.0, 1.0, 0.0, 1.0, 2.0, 1.0],
])  # fmt: skip
"""alpha, beta, log_spend, strength, shape, scale of four arms."""

REWARDS: dict[int, Any] = {0: [0.0, 3.2, 0.0], 1: [12.0, 0.0, 25.0, 80.0], 2: [], 3: [0.0, 0.0]}


def family() -> mixts.SpendArms:
    return mixts.SpendArms(*PARAMETERS.T[:, None])


def history() -> tuple[Any, Any]:
    arms = np.concatenate([np.full(len(r), k) for k, r in REWARDS.items()]).astype(int)
    return arms, np.concatenate([np.asarray(r, float) for r in REWARDS.values()])


def prior_weights(shape: float, scale: float) -> Any:
    """Inverse gamma densities of scipy at the levels; d(sigma^2) is proportional to sigma^2."""
    density = stats.invgamma(shape, scale=scale).pdf(LEVELS) * LEVELS
    return density / density.sum()


@cache
def grid(k: int) -> tuple[Any, Any, list[tuple[Any, ...]]]:
    """Points and weights of p, and for each level its weight, sigma^2, points of mu and density.

    Weights and densities are those of the prior times the likelihood of arm k's rewards.
    """
    alpha, beta, log_spend, strength, shape, scale = PARAMETERS[k]
    rewards = np.array(REWARDS[k])
    spends = rewards[rewards > 0]
    n_misses = len(rewards) - len(spends)
    # Polynomials of p of degree 6 at most: two squared, and a power for each of four rewards.
    p, p_weight = special.roots_jacobi(6, beta - 1, alpha - 1)
    p, p_weight = (p + 1) / 2, p_weight / p_weight.sum()
    p_weight = p_weight * p ** len(spends) * (1 - p) ** n_misses
    levels = []
    for weight, variance in zip(prior_weights(shape, scale), LEVELS, strict=True):
        mu = np.linspace(-12, 12, 4001) * np.sqrt(variance / strength) + log_spend
        mu = mu + variance * (1 + 1 / strength) / 2  # where exp(2 mu) moves the mass
        density = stats.norm(log_spend, np.sqrt(variance / strength)).pdf(mu)
        for y in spends:
            density = density * stats.lognorm(np.sqrt(variance), scale=np.exp(mu)).pdf(y)
        levels.append((weight, variance, mu, density))
    return p[:, None], p_weight, levels


def integral(k: int, function: Any) -> float:
    """The integral of function(p, mu, sigma^2) times prior and likelihood of arm k's rewards."""
    p, p_weight, levels = grid(k)
    total = 0.0
    for weight, variance, mu, density in levels:
        values = function(p, mu, variance) * density
        total += weight * float(p_weight @ integrate.simpson(values, x=mu))
    return total


def mean_reward(p: Any, mu: Any, variance: float) -> Any:
    return p * np.exp(mu + variance / 2)


def test_the_evidence_is_a_density_of_the_rewards() -> None:
    belief = mixts.MixturePrior(family()).belief()
    belief.update(*history())
    expected = sum(np.log(integral(k, lambda p, mu, v: 1.0 + 0 * p * mu)) for k in range(4))
    assert belief.log_evidence == pytest.approx([expected], rel=1e-9)


def test_the_evidence_of_one_reward_is_one_in_all() -> None:
    """Probability of no purchase plus the integral of the density of a spend."""
    prior = mixts.MixturePrior(family().with_arms(family()))

    def density(log_y: float) -> float:
        belief = prior.belief()
        belief.update(1, np.exp(log_y))
        return float(np.exp(belief.log_evidence[0] + log_y))

    belief = prior.belief()
    belief.update(1, 0.0)
    found, _ = integrate.quad(density, -12, 20, limit=200)
    assert found + np.exp(belief.log_evidence[0]) == pytest.approx(1.0, rel=1e-7)


def test_posterior_moments() -> None:
    belief = mixts.MixturePrior(family()).belief()
    belief.update(*history())
    mean, covariance = belief.component_mean[0], belief.component_covariance[0]
    for k in range(4):
        laws = (mean_reward, lambda p, mu, v: p + 0 * mu, lambda p, mu, v: mu + 0 * p)
        norm = integral(k, lambda p, mu, v: 1.0 + 0 * p * mu)
        means = [integral(k, law) / norm for law in laws]
        np.testing.assert_allclose(mean[k::4], means, rtol=1e-8, atol=1e-12)
        for i, one in enumerate(laws):
            for j, two in enumerate(laws):
                both = integral(k, lambda p, mu, v, a=one, b=two: a(p, mu, v) * b(p, mu, v)) / norm
                found = covariance[k + 4 * i, k + 4 * j]
                assert found == pytest.approx(both - means[i] * means[j], rel=1e-7, abs=1e-9)


def test_a_wide_prior_of_the_variance_still_has_a_mean() -> None:
    wide = mixts.SpendArms([[1]], [[9]], [[3.0]], [[1.0]], [[0.1]], [[0.1]])
    assert np.isfinite(wide.parameter_means()).all()
    assert np.isfinite(wide.parameter_variances()).all()


# -- quantiles ------------------------------------------------------------------------------------


def reference_cdf(parameters: Any, value: float) -> float:
    """P(p exp(mu + sigma^2 / 2) <= value), by Gauss's rule over the quantiles of p, in pieces."""
    alpha, beta, log_spend, strength, shape, scale = parameters
    edges = np.concatenate([np.geomspace(1e-12, 0.1, 60), np.linspace(0.1, 0.9, 400)[1:]])
    edges = np.concatenate([[0.0], edges, 1 - np.geomspace(1e-12, 0.1, 60)[::-1][1:], [1.0]])
    x, w = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges) / 2
    u = (edges[:-1] + half)[:, None] + half[:, None] * x
    log_p = np.log(np.maximum(special.betaincinv(alpha, beta, u), 1e-300))
    total = 0.0
    for weight, variance in zip(prior_weights(shape, scale), LEVELS, strict=True):
        t = np.log(value) - log_spend - variance / 2
        inside = special.ndtr((t - log_p) / np.sqrt(variance / strength))
        total += weight * float(half @ (inside @ w))
    return total


EXTREMES = np.array([
    [0.3, 40.0, 0.0, 0.2, 1.0, 1.0],
    [500.0, 9000.0, 3.0, 500.0, 300.0, 150.0],
    [3.0, 50.0, 3.0, 2000.0, 1000.0, 300.0],
    [5000.0, 1.0, 3.0, 1.5, 2.0, 2.0],
])  # fmt: skip


@pytest.mark.parametrize("row", [*PARAMETERS, *EXTREMES], ids=str)
def test_distribution_function(row: Any) -> None:
    marginal = SpendMarginal(np.array(row)[:, None])
    values = np.concatenate([marginal.quantile(q) for q in (0.02, 0.3, 0.8, 0.995)])
    for value, q in zip(values, (0.02, 0.3, 0.8, 0.995), strict=True):
        assert float(marginal.cdf(np.array([value]))[0]) == pytest.approx(q, abs=1e-9)
        assert reference_cdf(row, float(value)) == pytest.approx(q, abs=2e-6)


def test_quantiles_of_mixtures() -> None:
    parameters = np.repeat(PARAMETERS.T[:, None, :, None], 2, axis=3)
    weights = np.array([[0.2, 0.3, 0.1, 0.4]])
    marginal = SpendMarginal(parameters)
    found = marginal.mixture_quantiles(weights, np.array([0.9]))
    expected = sum(
        w * reference_cdf(row, float(found[0, 0]))
        for w, row in zip(weights[0], PARAMETERS, strict=True)
    )
    assert expected == pytest.approx(0.9, abs=2e-6)


# -- levels ---------------------------------------------------------------------------------------


def test_level_means_and_their_inverse() -> None:
    shape, scale = np.array([0.5, 3.0, 40.0]), np.array([0.3, 3.0, 10.0])
    for i in range(3):
        weights = prior_weights(shape[i], scale[i])
        expected = [weights @ np.log(LEVELS), weights @ (1 / LEVELS), weights @ LEVELS]
        np.testing.assert_allclose(level_means(shape, scale)[:, i], expected, rtol=1e-10)
    logs, inverses, _ = level_means(shape, scale)
    found = fit_levels(np.ones(3), np.ones(3), logs, inverses)
    np.testing.assert_allclose(found, [shape, scale], rtol=1e-6)


def test_levels_at_the_limit_of_the_scale_reach_the_maximum() -> None:
    """Equal prices have the least variance: the scale is at its limit, and the shape must move."""
    logs, inverses, _ = level_means(np.array([4.0]), np.array([LIMITS[0]]))
    inverses = inverses + 0.2  # more than any scale above the limit explains

    def loss(pair: Any) -> float:
        return float((pair[0] * logs + pair[1] * inverses + log_sum(pair[:1], pair[1:]))[0])

    limits = [LIMITS] * 2
    best = optimize.minimize(loss, [1.0, 1.0], bounds=limits, tol=1e-12)
    found = np.array(fit_levels(np.ones(1), np.ones(1), logs, inverses))[:, 0]
    assert found[1] == LIMITS[0]
    assert loss(found) <= best.fun + 1e-9


# -- what policies ask ----------------------------------------------------------------------------


def agent(kind: Any = mixts.MixTS, **settings: Any) -> Any:
    rng = np.random.default_rng(3)
    prior = mixts.MixturePrior(
        mixts.SpendArms(
            rng.uniform(1, 5, (3, 4)), rng.uniform(3, 20, (3, 4)), rng.normal(3, 0.5, (3, 4)),
            rng.uniform(2, 9, (3, 4)), rng.uniform(3, 9, (3, 4)), rng.uniform(2, 5, (3, 4)),
        ),
        [0.5, 0.3, 0.2],
    )  # fmt: skip
    made = kind(prior, seed=1, **settings)
    made.update([0, 0, 1, 2, 3], [0.0, 25.0, 0.0, 14.0, 0.0])
    return made


def test_action_probabilities_are_shares_of_draws() -> None:
    one = agent(n_samples=4000)
    found, error = one.action_probabilities()
    assert found.sum() == pytest.approx(1.0)
    rng, n = np.random.default_rng(5), 40_000
    belief = one.belief
    latent = rng.choice(3, size=n, p=belief.weights)
    theta = belief.posterior.sample(rng, np.zeros(n, np.int64), latent)[:, :4]
    share = np.bincount(theta.argmax(axis=1), minlength=4) / n
    assert (error > 0).all()
    assert (error < 0.02).all()
    assert (np.abs(found - share) < 5 * np.hypot(error, np.sqrt(share / n))).all()
    again = [agent(n_samples=100).act_with_probabilities(mask=[True, True, False, False])]
    assert again[0][1][2:].tolist() == [0.0, 0.0]


def test_standard_errors_are_the_spread_of_estimates() -> None:
    one = agent(n_samples=200)
    found = np.array([one.action_probabilities() for _ in range(400)])
    spread = found[:, 0].std(axis=0)
    np.testing.assert_allclose(spread, np.sqrt((found[:, 1] ** 2).mean(axis=0)), rtol=0.2)


def test_estimates_after_more_rewards_keep_the_mean() -> None:
    belief = agent().belief
    rewards = belief.posterior.rewards(np.zeros(1, np.int64), belief.weights[None], None)
    rng, n = np.random.default_rng(6), 8_000
    spreads = []
    for more in (0, 1, 30, 100_000):
        latent = draw_rows(rng, np.repeat(rewards.weights, n, axis=0))[None]
        drawn = rewards.ahead(np.array([more]), rng, 0).draw_given(rng, latent)
        error = drawn[0].std(axis=0) / np.sqrt(n)
        assert (np.abs(drawn[0].mean(axis=0) - rewards.means()[0]) < 5 * error + 1e-10).all()
        spreads.append(np.quantile(drawn[0], 0.9, axis=0) - np.quantile(drawn[0], 0.1, axis=0))
    assert (np.diff(spreads, axis=0) >= 0).all()
    # With many more rewards, the estimate is the mean reward itself.
    exact = rewards.quantiles(np.array([0.9])) - rewards.quantiles(np.array([0.1]))
    np.testing.assert_allclose(spreads[-1], exact[0], rtol=0.05)


def test_expected_rewards_shrink_the_variance_and_hardly_move_the_mean() -> None:
    one = agent(mixts.Greedy)
    posterior, weights = one.belief.posterior, one.belief.weights[None]
    now = posterior.rewards(np.zeros(1, np.int64), weights, None)
    previous = now
    for n in (5, 500):
        later = now.expecting(np.array([[n, n, n, 0]]))
        np.testing.assert_allclose(later.means()[0, :3], now.means()[0, :3], rtol=0.3)
        assert (later.variances()[0, :3] < previous.variances()[0, :3]).all()
        previous = later
    alone = now.expecting(np.array([[0, 0, 0, 0]]))
    np.testing.assert_allclose(alone.means(), now.means(), rtol=1e-12)


@pytest.mark.parametrize("kind", [mixts.MixIDS, mixts.Greedy, mixts.BayesUCB, mixts.MixTS])
def test_every_policy_decides(kind: Any) -> None:
    for settings in ({}, {"horizon": 30}):
        if kind in (mixts.Greedy, mixts.BayesUCB) and settings:
            continue
        one = agent(kind, **settings)
        arm, probabilities, _ = one.act_with_probabilities(waiting=[1, 2, 2])
        assert probabilities[arm] > 0
        assert probabilities.sum() == pytest.approx(1.0)


# -- rewards --------------------------------------------------------------------------------------


def test_drawn_rewards_have_the_mean_and_the_purchases_of_their_arm() -> None:
    rng, n, one = np.random.default_rng(1), 400_000, family()
    theta = one.draw(rng, np.zeros(1, np.int64))
    for k in range(4):
        laws = one.reward_parameters(
            np.repeat(theta, n, axis=0), np.full(n, k), np.full(n, theta[0, k])
        )
        rewards = one.outcomes(rng, laws)
        error = rewards.std() / np.sqrt(n)
        assert abs(rewards.mean() - theta[0, k]) < 5 * error
        rate, mu = theta[0, k + 4], theta[0, k + 8]
        assert abs((rewards > 0).mean() - rate) < 5 * np.sqrt(rate * (1 - rate) / n)
        assert np.log(rewards[rewards > 0]).mean() == pytest.approx(mu, abs=0.02)


def test_equal_luck_gives_equal_purchases() -> None:
    """One uniform number a reward: a law with a higher rate buys whenever a lower one does."""
    laws = np.array([[1.0, 0.2, 1.0], [2.0, 0.5, 1.0]])
    draws = [
        family().outcomes(np.random.default_rng(2), np.repeat(law[None], 500, 0)) for law in laws
    ]
    assert (draws[1][draws[0] > 0] > 0).all()
