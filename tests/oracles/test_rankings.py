"""P(an action is among the best k by utility), from draws, against plain integrals by scipy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from mixts.families.bernoulli import BetaMarginal
from mixts.families.choice import Draws, Strata
from mixts.families.marginals import Marginal, Money, NormalMarginal
from mixts.families.poisson import GammaMarginal
from mixts.families.rewards import IndependentRewards
from tests.statistical.standard_errors import assert_within, of_mean, quotient

pytestmark = pytest.mark.usefixtures("program")

MARGINALS = {
    "beta": (BetaMarginal, stats.beta),
    "gamma": (GammaMarginal, lambda a, b: stats.gamma(a, scale=1 / b)),
    "normal": (lambda p: NormalMarginal(p, 0.7), lambda a, b: stats.norm(a, np.sqrt(b))),
}
kinds = pytest.mark.parametrize("kind", MARGINALS)

VALUES, COSTS = np.array([1.0, 2.5, -1.0, 0.4]), np.array([0.2, 1.0, -0.9, 0.0])
WEIGHTS = np.array([[0.004, 0.996]])
"""The first component has two draws of hundreds, and still counts with its weight."""
MASK = np.ones((1, 4), bool)


def priced(kind: str, seed: int, n_rows: int = 1) -> tuple[Any, Any]:
    """Return parameters (2, L, K) and the belief about the utilities of four arms, n times."""
    parameters = np.random.default_rng(seed).uniform(1.5, 6.0, (2, 1, 2, 4))
    marginal: Marginal = MARGINALS[kind][0](np.repeat(parameters, n_rows, axis=1))
    money = Money(np.tile(VALUES, (n_rows, 1)), np.tile(COSTS, (n_rows, 1)))
    weights = np.repeat(WEIGHTS, n_rows, axis=0)
    return parameters[:, 0], IndependentRewards(weights, marginal).priced(money)


def utilities(kind: str, parameters: Any, values: Any, costs: Any) -> list[Any]:
    """Distribution function, density and ends of each arm's utility."""

    def one(a: float, b: float, value: float, cost: float) -> Any:
        mean = MARGINALS[kind][1](a, b)
        ends = sorted(value * mean.ppf(q) - cost for q in (1e-13, 1 - 1e-13))
        middle = sorted(value * mean.ppf(q) - cost for q in (1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999))

        def cdf(t: Any) -> Any:
            x = (t + cost) / value
            return mean.cdf(x) if value > 0 else mean.sf(x)

        return cdf, lambda t: mean.pdf((t + cost) / value) / abs(value), [*ends, *middle]

    return [one(*each) for each in zip(*parameters, values, costs, strict=True)]


def integral(function: Any, cuts: Any) -> float:
    """Integrate by 50 points between each two cuts, where the function is smooth."""
    return sum(
        integrate.fixed_quad(function, low, high, n=50)[0] for low, high in itertools.pairwise(cuts)
    )


def inclusion_by_scipy(arms: list[Any], k: int) -> Any:
    """By enumeration of the arms that are above."""
    found = np.zeros(len(arms))
    cuts = np.unique([t for _, _, points in arms for t in points])
    for a, (_, density, points) in enumerate(arms):
        others = [cdf for b, (cdf, _, _) in enumerate(arms) if b != a]

        def integrand(t: Any, density: Any = density, others: Any = others) -> Any:
            below = [cdf(t) for cdf in others]
            few = 0.0
            for above in itertools.product([False, True], repeat=len(below)):
                if sum(above) < k:
                    terms = (1 - f if up else f for f, up in zip(below, above, strict=True))
                    few += np.prod(list(terms), axis=0)
            return density(t) * few

        inside = cuts[(cuts >= min(points)) & (cuts <= max(points))]
        found[a] = integral(integrand, inside)
    return found


def exact_inclusion(kind: str, parameters: Any, k: int) -> Any:
    """Sum the components' probabilities by scipy."""
    each = [
        inclusion_by_scipy(utilities(kind, parameters[:, s], VALUES, COSTS), k) for s in range(2)
    ]
    return WEIGHTS[0] @ np.array(each)


@kinds
@pytest.mark.parametrize("k", [pytest.param(1, marks=pytest.mark.slow), 2, 3])
def test_inclusion_is_that_of_scipy(kind: str, k: int) -> None:
    """Estimates of few draws are unbiased, and their standard errors are right."""
    n = 3000
    parameters, rewards = priced(kind, k, n)
    expected, rng = exact_inclusion(kind, parameters, k), np.random.default_rng(k)
    found, errors = rewards.draws(rng, 60).inclusion(np.repeat(MASK, n, axis=0), k)
    np.testing.assert_allclose(found.sum(axis=1), k)
    assert_within(of_mean(found, expected))
    assert_within(of_mean((found - expected) ** 2 - errors**2))


@kinds
def test_the_gain_of_the_best_utility_is_that_of_scipy(kind: str) -> None:
    n = 3000
    parameters, rewards = priced(kind, 4, n)
    best = np.zeros(2)
    for s in range(2):
        arms = utilities(kind, parameters[:, s], VALUES, COSTS)
        cuts = np.unique([t for _, _, points in arms for t in points])
        best[s] = cuts[0] + integral(
            lambda t, arms=arms: 1 - np.prod([cdf(t) for cdf, _, _ in arms], axis=0), cuts
        )
    expected = WEIGHTS[0] @ best - rewards.means()[0, 1]
    rng, lead, mask = np.random.default_rng(5), np.full(n, 1), np.repeat(MASK, n, axis=0)
    assert_within(of_mean(rewards.draws(rng, 60).gains(mask, lead), expected))


@kinds
@pytest.mark.parametrize("k", [None, 2])
def test_the_ranking_is_one_of_the_draws(kind: str, k: int | None) -> None:
    """Given the draws, the actions of a ranking are as likely as the probabilities say."""
    _, rewards = priced(kind, 6)
    rng = np.random.default_rng(7)
    drawn = rewards.draws(rng, 20)
    every = Draws(
        Strata(
            np.repeat(drawn.strata.weights, 20_000, 0), np.repeat(drawn.strata.counts, 20_000, 0)
        ),
        np.repeat(drawn.values, 20_000, 0),
    )
    mask = np.repeat(MASK, 20_000, 0)
    ranked, chance, _ = every.ranking(rng, mask, k or 1)
    hits = (ranked[:, :, None] == np.arange(4)).any(axis=1)
    assert_within(
        quotient((hits - chance).mean(axis=0), np.sqrt(chance * (1 - chance) / 20_000)[0])
    )
    rankings = {tuple(row) for row in np.argsort(-drawn.values[0])[:, : k or 1].tolist()}
    assert {tuple(row) for row in ranked.tolist()} <= rankings


def test_strata_depend_on_weights_alone() -> None:
    strata = Strata.of(np.array([[0.7, 0.3, 0.0], [1e-14, 0.5, 0.5]]), 10, 1e-12)
    np.testing.assert_array_equal(strata.counts, [[9, 5, 0], [0, 7, 7]])
    np.testing.assert_array_equal(strata.latent[0], [0] * 9 + [1] * 5)
    np.testing.assert_allclose(strata.shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(strata.shares[0], [0.7 / 9] * 9 + [0.3 / 5] * 5)
    assert Strata.of(np.empty((0, 3)), 10, 1e-12).latent.shape == (0, 0)


def test_quantiles_and_variances_of_draws_count_the_weights() -> None:
    values = np.array([[[1.0], [2.0], [10.0], [20.0], [30.0], [40.0]]])
    drawn = Draws(Strata(np.array([[0.9, 0.1]]), np.array([[2, 4]])), values)
    levels = [0.4, 0.45, 0.5, 0.9, 0.92, 0.95, 0.99]
    found = [drawn.quantiles(np.array([level]))[0, 0] for level in levels]
    assert found == [1.0, 1.0, 2.0, 2.0, 10.0, 20.0, 40.0]
    each = np.repeat([1.0, 2.0, 10.0, 20.0, 30.0, 40.0], [18, 18, 1, 1, 1, 1])
    np.testing.assert_allclose(drawn.variances(), [[each.var()]])


@kinds
def test_terms_of_utilities_are_those_of_draws(kind: str) -> None:
    rng = np.random.default_rng(5)
    marginal: Marginal = MARGINALS[kind][0](rng.uniform(1.5, 8.0, (2, 1, 2, 4)))
    money = Money(np.array([[1.0, 2.0, -0.5, 0.0]]), np.array([[0.1, 0.8, -0.6, -0.3]]))
    weights, mask = np.array([[0.3, 0.7]]), np.ones((1, 4), bool)
    rewards = IndependentRewards(weights, marginal).priced(money)
    regret, information = rewards.regrets(rng, mask, 400_000), rewards.variances()
    n = 400_000
    latent = (rng.random(n) > 0.3).astype(int)
    drawn = money.of(rewards.draw(rng, np.zeros(n, int), latent)[None])[0]
    # Both sides are sampled, and both gains are.
    gaps = drawn.max(axis=1, keepdims=True) - drawn
    assert_within(quotient(gaps.mean(axis=0) - regret[0], gaps.std(axis=0) * np.sqrt(2 / n)))
    np.testing.assert_allclose(information[0], drawn.var(axis=0), rtol=0.02, atol=1e-12)


# -- points ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_arms_without_variance_share_their_places(k: int) -> None:
    """Two certain arms and one without a value are equal."""
    parameters = np.array([[0.3, 0.3, 0.5, 0.1, 9.0], [0.0, 0.0, 0.2, 0.3, 0.4]])[:, None, None]
    money = Money(np.array([[1.0, 1.0, 1.0, 1.0, 0.0]]), np.array([[0.0, 0.0, 0.1, 0.0, -0.3]]))
    rewards = IndependentRewards(np.ones((1, 1)), NormalMarginal(parameters, 1.0)).priced(money)
    found, _ = rewards.draws(np.random.default_rng(3), 1000).inclusion(np.ones((1, 5), bool), k)
    np.testing.assert_allclose(found.sum(), k, rtol=1e-12)
    np.testing.assert_allclose(found[0, [1, 4]], found[0, 0], rtol=1e-12)


def test_only_certain_arms() -> None:
    money = Money(np.zeros((1, 3)), np.array([[3.0, 1.0, 2.0]]))
    marginal = BetaMarginal(np.full((2, 1, 1, 3), 2.0))
    rewards = IndependentRewards(np.ones((1, 1)), marginal).priced(money)
    mask, rng = np.ones((1, 3), bool), np.random.default_rng(0)
    included, errors = rewards.draws(rng, 2).inclusion(mask, 2)
    np.testing.assert_array_equal(included, [[0.0, 1.0, 1.0]])
    assert not errors.any()
    np.testing.assert_allclose(rewards.regrets(rng, mask, 2), [[2.0, 0.0, 1.0]])
    np.testing.assert_array_equal(rewards.variances(), 0.0)


def test_everything_is_included_when_all_are_shown() -> None:
    marginal = GammaMarginal(np.array([[2.0, 5.0, 0.7], [1.0, 3.0, 0.5]])[:, None, None])
    rewards = IndependentRewards(np.ones((1, 1)), marginal)
    mask = np.array([[True, False, True]])
    ranked, found, _ = rewards.draws(np.random.default_rng(0), 50).ranking(
        np.random.default_rng(1), mask, 2
    )
    np.testing.assert_array_equal(found, [[1.0, 0.0, 1.0]])
    assert sorted(ranked[0]) == [0, 2]
