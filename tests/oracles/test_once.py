"""Actions that are taken at most once: both terms of MixIDS against enumeration of all rewards."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import special

import mixts

pytestmark = pytest.mark.usefixtures("program")

K = 4
WEIGHTS = np.array([0.5, 0.3, 0.2])


def entropy(p: Any) -> float:
    return float(special.entr(p).sum())


def enumerated(chances: Any, joint: Any) -> tuple[Any, Any]:
    """Regret and information from P(S), P(Y | S) over all vectors Y of one reward each.

    ``chances`` (L,) and ``joint`` (L, 2, ..., 2): nothing is assumed about how rewards depend.
    """
    n = joint.ndim - 1
    both = chances.reshape(-1, *[1] * n) * joint
    known, information = np.empty((n, *both.shape)), np.empty(n)
    for a in range(n):
        others = both.sum(axis=a + 1, keepdims=True)
        hit = np.take(both, [1], axis=a + 1)
        known[a] = np.broadcast_to(hit / others, both.shape)  # E[Y_a | S, the others' rewards]
        alone = both.sum(axis=tuple(i for i in range(n + 1) if i != a + 1))
        information[a] = entropy(alone) + entropy(others) - entropy(both)
    means = np.array([np.take(both, 1, axis=a + 1).sum() for a in range(n)])
    return (both * known.max(axis=0)).sum() - means, information


def test_arms_by_enumeration() -> None:
    rng = np.random.default_rng(1)
    alpha, beta = rng.uniform(0.3, 4, (2, 3, K))
    prior = mixts.MixturePrior(mixts.BernoulliArms(alpha, beta), WEIGHTS, repeatable=False)
    agent = mixts.MixIDS(prior, seed=1)
    rates = agent.belief.component_mean
    joint = np.zeros((3, *[2] * K))
    for s, y in itertools.product(range(3), itertools.product((0, 1), repeat=K)):
        joint[(s, *y)] = np.prod(np.where(np.array(y) == 1, rates[s], 1 - rates[s]))
    regret, information = enumerated(WEIGHTS, joint)
    found = agent.terms()
    np.testing.assert_allclose(found[0], regret, atol=1e-13)
    np.testing.assert_allclose(found[1], information, atol=1e-13)


def test_arms_that_were_taken_are_left_out() -> None:
    """After a reward of arm 1, the terms are those of the other arms under the new weights."""
    rng = np.random.default_rng(2)
    alpha, beta = rng.uniform(0.3, 4, (2, 3, K))
    agent = mixts.MixIDS(mixts.MixturePrior(mixts.BernoulliArms(alpha, beta), WEIGHTS), seed=1,
                         repeatable=False)  # fmt: skip
    agent.update(1, 1)
    rates = (alpha / (alpha + beta))[:, [0, 2, 3]]
    weights = WEIGHTS * alpha[:, 1] / (alpha + beta)[:, 1]
    weights /= weights.sum()
    joint = np.einsum("sa,sb,sc->sabc", *np.moveaxis(np.stack([1 - rates, rates], 2), 1, 0))
    regret, information = enumerated(weights, joint)
    found = agent.terms()
    assert np.isnan(found[0][1])
    np.testing.assert_allclose(found[0][[0, 2, 3]], regret, atol=1e-13)
    np.testing.assert_allclose(found[1][[0, 2, 3]], information, atol=1e-13)


# -- rows of features -----------------------------------------------------------------------------


def linear_case(seed: int, d: int) -> tuple[Any, Any, float]:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(3, d, d)) / np.sqrt(d)
    return rng.normal(size=(3, d)), roots @ np.swapaxes(roots, 1, 2), 0.8


def by_conditioning(a: int, gram: Any, noise: float) -> tuple[Any, float]:
    """Regression of Y_a on the other rows' rewards, and the variance of Y_a that is left."""
    covariance = gram + noise**2 * np.eye(len(gram))
    others = np.delete(np.arange(len(gram)), a)
    slope = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, a])
    return slope, float(covariance[a, a] - slope @ covariance[others, a])


@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("student", [False, True])
def test_rows_by_conditioning(d: int, student: bool) -> None:
    """More rows than features, and fewer; a masked row teaches nothing."""
    mean, covariance, noise = linear_case(3, d)
    rows = np.random.default_rng(4).normal(size=(K + 1, d))
    family = (
        mixts.LinearStudent(mean, covariance, noise, 9.0)
        if student
        else mixts.LinearGaussian(mean, covariance, noise)
    )
    prior = mixts.MixturePrior(family, WEIGHTS, repeatable=False)
    agent = mixts.MixIDS(prior, seed=1, n_samples=100_000)
    agent.update(rows[[4, 0]], [0.3, -0.7])
    mask = np.arange(K + 1) < K
    found = agent.terms(rows, mask=mask)
    belief, rng, on_offer = agent.belief, np.random.default_rng(5), rows[:K]
    posterior = belief.posterior
    means = posterior.component_means(np.array([0]))[0][:, :d]
    covariances = posterior.component_covariances(np.array([0]))[0][:, :d, :d]
    n = 200_000
    best, within, predictive = np.zeros(3), np.zeros((3, K)), np.zeros((3, K))
    for s in range(3):
        # Given the component, covariances are those in units of the typical noise.
        square = noise**2
        if student:
            freedom, unit = (law[0, s] for law in posterior._all_noise(np.array([0])))
            square = unit / (freedom - 2)
        gram = on_offer @ covariances[s] @ on_offer.T
        sigma = np.sqrt(square)
        truth = rng.multivariate_normal(np.zeros(K), gram, n)
        reward = truth + sigma * rng.standard_normal((n, K))
        known = np.empty((n, K))
        for a in range(K):
            slope, left = by_conditioning(a, gram, sigma)
            known[:, a] = np.delete(reward, a, axis=1) @ slope
            predictive[s, a] = gram[a, a] + square
            within[s, a] = 0.5 * np.log(predictive[s, a] / left)
        if student:  # heavier tails: everything is multiplied by a drawn noise
            scale = np.sqrt(unit / (2 * rng.standard_gamma(0.5 * freedom, n)) / square)
            known = known * scale[:, None]
        best[s] = (known + on_offer @ means[s]).max(axis=1).mean()
    weights = belief.weights
    level = means @ on_offer.T
    regret = weights @ best - weights @ level
    np.testing.assert_allclose(found[0][:K], regret, atol=0.02)
    spread = weights @ (predictive + (level - weights @ level) ** 2)
    through_latent = 0.5 * np.log(spread) - weights @ (0.5 * np.log(predictive))
    most = entropy(weights)
    expected = np.minimum(through_latent, most) + weights @ within
    np.testing.assert_allclose(found[1][:K], expected, rtol=1e-9)


def test_roots_are_those_of_the_covariances() -> None:
    for kind in ("full", "tied"):
        mean, covariance, noise = linear_case(6, 4)
        own = covariance[0] if kind == "tied" else covariance
        agent = mixts.MixIDS(
            mixts.MixturePrior(mixts.LinearGaussian(mean, own, noise, kind), WEIGHTS), n_tasks=2
        )
        agent.update(np.random.default_rng(7).normal(size=(5, 4)), np.ones(5), [0, 1, 1, 1, 0])
        tasks = np.array([1, 0, 1])
        roots = agent.belief.posterior.component_roots(tasks)
        expected = agent.belief.posterior.component_covariances(tasks)
        np.testing.assert_allclose(np.swapaxes(roots, 2, 3) @ roots, expected, atol=1e-12)


def test_one_hot_rows_are_arms() -> None:
    rng = np.random.default_rng(8)
    mean, variance = rng.normal(size=(3, K)), rng.uniform(0.2, 3, (3, K))
    arms = mixts.GaussianArms(mean, variance, 0.6)
    rows = mixts.LinearGaussian(mean, variance, 0.6, "diag")
    one, other = (mixts.MixturePrior(f, WEIGHTS, repeatable=False) for f in (arms, rows))
    regret, information = mixts.MixIDS(one, seed=1).terms()
    # Components are drawn as often as their weights say: the weights are tenths.
    found = mixts.MixIDS(other, seed=1, n_samples=1000).terms(np.eye(K))
    np.testing.assert_allclose(found[0], regret, atol=1e-9)
    np.testing.assert_allclose(found[1], information, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_clicks_by_enumeration(seed: int) -> None:
    """Clicks of rows depend on each other, so the terms are approximate; all vectors of clicks."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=(2, 2)), rng.uniform(0.2, 1.0, (2, 2))
    prior = mixts.MixturePrior(
        mixts.LinearBernoulli(mean, variance, "diag"), [0.6, 0.4], repeatable=False
    )
    rows = rng.normal(size=(K, 2))
    x, w = np.polynomial.hermite_e.hermegauss(40)
    joint = np.zeros((2, *[2] * K))
    for s in range(2):
        theta = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2) * np.sqrt(variance[s]) + mean[s]
        share = np.outer(w, w).reshape(-1) / w.sum() ** 2
        rate = special.expit(theta @ rows.T)
        for y in itertools.product((0, 1), repeat=K):
            joint[(s, *y)] = share @ np.where(np.array(y) == 1, rate, 1 - rate).prod(axis=1)
    regret, information = enumerated(np.array([0.6, 0.4]), joint)
    found = mixts.MixIDS(prior, seed=1, n_samples=20_000).terms(rows)
    np.testing.assert_allclose(found[0], regret, atol=0.02)
    np.testing.assert_allclose(found[1], information, rtol=0.15, atol=0.003)
