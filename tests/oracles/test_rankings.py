"""P(an arm is among the best k by utility) against the compiled quadrature, scipy and draws."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from mixts.families.bernoulli import BetaMarginal
from mixts.families.poisson import GammaMarginal
from mixts.families.quadrature import (
    Marginal,
    Money,
    NormalMarginal,
    best_arm_probabilities,
    expected_best,
    explain_best,
)
from mixts.families.ranking import Utilities, rank_arms
from mixts.families.rewards import IndependentRewards
from tests.statistical.standard_errors import assert_within, of_frequency, of_mean

MARGINALS = {
    "beta": (BetaMarginal, stats.beta),
    "gamma": (GammaMarginal, lambda a, b: stats.gamma(a, scale=1 / b)),
    "normal": (lambda p: NormalMarginal(p, 0.7), lambda a, b: stats.norm(a, np.sqrt(b))),
}
kinds = pytest.mark.parametrize("kind", MARGINALS)


def drawn_marginal(kind: str, rng: np.random.Generator, shape: tuple[int, ...], low: float) -> Any:
    return MARGINALS[kind][0](rng.uniform(low, 20.0, (2, *shape)))


def mixture(rng: np.random.Generator, m: int, n: int) -> Any:
    return rng.dirichlet(np.ones(n), m)


def priced(marginal: Marginal, values: Any, costs: Any) -> tuple[Money, Utilities]:
    money = Money(np.asarray(values, float), np.asarray(costs, float))
    return money, Utilities.of(marginal, money)


# -- with equal values: the quadrature of means ---------------------------------------------------


@kinds
@pytest.mark.parametrize("low", [0.4, 2.0])
@pytest.mark.parametrize("value", [1.0, 3.5])
def test_equal_prices_change_no_ranking(kind: str, low: float, value: float) -> None:
    """value * theta - cost is best where theta is: all three quadratures say the same."""
    rng = np.random.default_rng(1)
    marginal, weights = drawn_marginal(kind, rng, (4, 3, 5), low), mixture(rng, 4, 3)
    mask = rng.random((4, 5)) < 0.7
    mask[:, 0] = True
    chance, _ = best_arm_probabilities(marginal, weights, mask)
    best, explained = explain_best(marginal, weights, mask)
    money, utilities = priced(marginal, np.full((4, 5), value), np.full((4, 5), 0.3))
    for found, error in (
        rank_arms(utilities, weights, mask),
        best_arm_probabilities(marginal, weights, mask, money),
    ):
        np.testing.assert_allclose(found, chance, atol=1e-11)
        np.testing.assert_array_equal(error, 0.0)
    found_best, found_explained = explain_best(marginal, weights, mask, money)
    np.testing.assert_allclose(found_best, value * best - 0.3, rtol=1e-9)
    np.testing.assert_allclose(found_explained, value**2 * explained, rtol=1e-6, atol=1e-9)


@kinds
@pytest.mark.parametrize("n", [1e5, 1e8])
def test_sharp_arms(kind: str, n: float) -> None:
    rng = np.random.default_rng(2)
    near = n + rng.uniform(0.0, 2.0 * np.sqrt(n), (2, 2, 2, 4))
    marginal = MARGINALS[kind][0](near)
    weights, mask = mixture(rng, 2, 2), np.ones((2, 4), bool)
    money, _ = priced(marginal, np.full((2, 4), 0.7), np.full((2, 4), 1.0))
    chance, _ = best_arm_probabilities(marginal, weights, mask)
    found, error = best_arm_probabilities(marginal, weights, mask, money)
    np.testing.assert_allclose(found, chance, atol=1e-9)
    np.testing.assert_array_equal(error, 0.0)
    if n < 1e6:
        np.testing.assert_allclose(rank_arms(marginal, weights, mask)[0], chance, atol=1e-9)


# -- with values and costs of their own: a rule for poles at the ends of arms ----------------------


def tanh_sinh(n: int) -> Any:
    """Return distances of nodes from both ends of [0, 1], down to 1e-45, and weights."""
    t, step = np.linspace(-4.2, 4.2, n, retstep=True)
    left = 1 / (1 + np.exp(-np.pi * np.sinh(t)))
    right = 1 / (1 + np.exp(np.pi * np.sinh(t)))
    return left, right, step * np.pi * np.cosh(t) * left * right


def at_distances(
    kind: str, parameters: Any, value: float, cost: float, t: Any, u: Any, v: Any
) -> Any:
    """Return P(utility <= t) and its density; u and v are the distances from both of its ends."""
    a, b = parameters
    x, y = (u / value, v / value) if value > 0 else (v / -value, u / -value)
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind == "beta":
            x, y = np.clip(x, 0.0, 1.0), np.clip(y, 0.0, 1.0)
            below, above = special.betainc(a, b, x), special.betainc(b, a, y)
            density = x ** (a - 1) * y ** (b - 1) / special.beta(a, b)
        elif kind == "gamma":
            x = np.maximum(x, 0.0)
            below, above = special.gammainc(a, b * x), special.gammaincc(a, b * x)
            density = b * stats.gamma.pdf(b * x, a)
        else:
            x = (t + cost) / value
            below, above = stats.norm.cdf(x, a, np.sqrt(b)), stats.norm.sf(x, a, np.sqrt(b))
            density = stats.norm.pdf(x, a, np.sqrt(b))
    inside = (u > 0) & (v > 0)
    return below if value > 0 else above, np.where(inside, density / abs(value), 0.0)


def inclusion_by_tanh_sinh(kind: str, parameters: Any, money: Any, k: int) -> Any:
    """Return P(arm is among the best k), in pieces between the ends and some quantiles of arms."""
    values, costs = money
    ends = {"beta": (0.0, 1.0), "gamma": (0.0, np.inf), "normal": (-np.inf, np.inf)}[kind]
    low, high = np.sort(np.outer(ends, values) - costs, axis=0)
    marginal: Any = MARGINALS[kind][1](*parameters)
    some = marginal.ppf(np.array([1e-17, 0.01, 0.5, 0.99])[:, None]), marginal.isf(1e-17)[None]
    cuts = np.vstack([low, high, np.vstack(some) * values - costs])
    start = np.sort(np.where(np.isfinite(low), low, cuts[2:].min(axis=0)))[-k]
    edges = np.unique(cuts[np.isfinite(cuts) & (cuts >= start)])
    first, last = edges[:-1, None], edges[1:, None]
    left, right, weights = tanh_sinh(101)
    t = first + (last - first) * left
    both = [
        at_distances(kind, parameters[:, a], values[a], costs[a], t,
                     (first - low[a]) + (last - first) * left,
                     (high[a] - last) + (last - first) * right)
        for a in range(len(values))
    ]  # fmt: skip
    found = np.zeros(len(values))
    for a, (_, density) in enumerate(both):
        n_above = [np.ones_like(t)] + [np.zeros_like(t)] * (k - 1)
        for below, _ in both[:a] + both[a + 1 :]:
            shifted = [np.zeros_like(t), *n_above[:-1]]
            n_above = [n * below + m * (1 - below) for n, m in zip(n_above, shifted, strict=True)]
        found[a] = np.sum(sum(n_above) * density * weights * (last - first))
    return found


@kinds
@pytest.mark.parametrize(("n_arms", "low"), [(2, 0.3), (6, 0.4), (6, 2.0), (40, 1.0)])
def test_both_quadratures_of_utilities_are_exact(kind: str, n_arms: int, low: float) -> None:
    """One needs densities, the other distribution functions: poles, losses, constants, masks."""
    rng = np.random.default_rng(n_arms)
    shape = (8, n_arms)
    marginal, weights = drawn_marginal(kind, rng, (8, 2, n_arms), low), mixture(rng, 8, 2)
    values, costs = rng.uniform(-1.0, 3.0, shape), rng.uniform(-1.0, 1.0, shape)
    values[0] = np.abs(values[0])
    values[1] = -np.abs(values[1])
    values[2:4, 0] = 0.0
    values[3, 1], costs[3, 1] = 0.0, costs[3, 0]
    values[4], costs[4] = values[4, 0], costs[4, 0]
    mask = rng.random(shape) < 0.8
    mask[:, :2] = True
    money, utilities = priced(marginal, values, costs)
    chance, error = best_arm_probabilities(marginal, weights, mask, money)
    expected, bound = rank_arms(utilities, weights, mask)
    assert (np.abs(chance - expected).max(axis=1) <= 1e-9 + bound).all()
    np.testing.assert_array_equal(error, 0.0)
    assert (chance[~mask] == 0).all()
    among, _ = rank_arms(utilities, weights, mask, 2)
    for row in [6] if n_arms == 40 else [0, 1, 5, 6, 7]:
        shown = mask[row]
        of = np.array([values[row, shown], costs[row, shown]])
        parts = marginal.parameters[:, row].swapaxes(0, 1)
        exact, exact_among = (
            sum(
                w * inclusion_by_tanh_sinh(kind, p[:, shown], of, k)
                for w, p in zip(weights[row], parts, strict=True)
            )
            for k in (1, 2)
        )
        np.testing.assert_allclose(chance[row, shown], exact, atol=1e-11)
        np.testing.assert_allclose(expected[row, shown], exact, atol=1e-10)
        np.testing.assert_allclose(among[row, shown], exact_among, atol=1e-10)


# -- ... and plain integrals by scipy -------------------------------------------------------------


def utilities(kind: str, parameters: Any, values: Any, costs: Any) -> list[Any]:
    """Distribution function, density and ends of each arm's utility."""

    def one(a: float, b: float, value: float, cost: float) -> Any:
        mean = MARGINALS[kind][1](a, b)
        ends = sorted(value * mean.ppf(q) - cost for q in (1e-13, 1 - 1e-13))
        middle = sorted(value * mean.ppf(q) - cost for q in (1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999))

        def cdf(t: float) -> float:
            x = (t + cost) / value
            return float(mean.cdf(x) if value > 0 else mean.sf(x))

        return cdf, lambda t: float(mean.pdf((t + cost) / value) / abs(value)), [*ends, *middle]

    return [one(*each) for each in zip(*parameters, values, costs, strict=True)]


def inclusion_by_scipy(arms: list[Any], k: int) -> Any:
    """By enumeration of the arms that are above."""
    found = np.zeros(len(arms))
    cuts = np.unique([t for _, _, points in arms for t in points])
    for a, (_, density, points) in enumerate(arms):
        others = [cdf for b, (cdf, _, _) in enumerate(arms) if b != a]

        def integrand(t: float, density: Any = density, others: Any = others) -> float:
            below = [cdf(t) for cdf in others]
            few = 0.0
            for above in itertools.product([False, True], repeat=len(below)):
                if sum(above) < k:
                    terms = (1 - f if up else f for f, up in zip(below, above, strict=True))
                    few += float(np.prod(list(terms)))
            return density(t) * few

        inside = cuts[(cuts >= min(points)) & (cuts <= max(points))]
        found[a] = sum(
            integrate.quad(integrand, low, high, epsabs=1e-11, limit=100)[0]
            for low, high in itertools.pairwise(inside)
        )
    return found


@kinds
@pytest.mark.parametrize("k", [1, 2, 3])
def test_inclusion_is_that_of_scipy(kind: str, k: int) -> None:
    rng = np.random.default_rng(k)
    parameters = rng.uniform(1.5, 6.0, (2, 1, 1, 4))
    values, costs = np.array([1.0, 2.5, -1.0, 0.4]), np.array([0.2, 1.0, -0.9, 0.0])
    marginal: Marginal = MARGINALS[kind][0](parameters)
    money, both = priced(marginal, values[None], costs[None])
    weights, mask = np.ones((1, 1)), np.ones((1, 4), bool)
    expected = inclusion_by_scipy(utilities(kind, parameters[:, 0, 0], values, costs), k)
    found = [rank_arms(both, weights, mask, k)]
    if k == 1:
        found.append(best_arm_probabilities(marginal, weights, mask, money))
    for chance, error in found:
        np.testing.assert_allclose(chance[0], expected, atol=1e-8)
        assert error[0] == 0


@kinds
def test_the_best_utility_is_that_of_scipy(kind: str) -> None:
    rng = np.random.default_rng(4)
    parameters = rng.uniform(1.5, 6.0, (2, 1, 1, 4))
    values, costs = np.array([1.0, 2.5, -1.0, 0.4]), np.array([0.2, 1.0, -0.9, 0.0])
    arms = utilities(kind, parameters[:, 0, 0], values, costs)
    cuts = np.unique([t for _, _, points in arms for t in points])
    above = sum(
        integrate.quad(lambda t: 1 - np.prod([cdf(t) for cdf, _, _ in arms]), a, b, epsabs=1e-12)[0]
        for a, b in itertools.pairwise(cuts)
    )
    money, _ = priced(MARGINALS[kind][0](parameters), values[None], costs[None])
    marginal: Marginal = MARGINALS[kind][0](parameters)
    found = expected_best(marginal, np.ones((1, 1)), np.ones((1, 4), bool), money)
    assert found[0] == pytest.approx(cuts[0] + above, abs=1e-9)


def test_the_best_of_many_arms_is_that_of_gauss() -> None:
    """Many upper ends lie where some arm is surely better: the quadrature starts above them."""
    rng = np.random.default_rng(6)
    n_arms = 400
    # Whole numbers b: before its upper end (1 - x)^(b - 1) is a polynomial, exact for Gauss's rule.
    a, b = rng.uniform(1.0, 2.0, n_arms), rng.integers(2, 5, n_arms).astype(float)
    values, costs = rng.uniform(0.5, 2.0, n_arms), rng.uniform(0.0, 0.3, n_arms)

    def means(t: Any) -> Any:
        return np.minimum((np.asarray(t)[..., None] + costs) / values, 1.0)

    def log_below(t: Any) -> Any:
        return np.log(special.betainc(a, b, means(t))).sum(axis=-1)

    low, high = 0.0, (values - costs).max()
    while high - low > 1e-3:  # below it, all arms lie with probability e^-45 at most
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_below(middle) < -45.0 else (low, middle)
    ends = values - costs
    assert (ends < low).mean() > 0.2
    cells = np.unique([low, *np.linspace(low, ends.max(), 40), *ends[ends > low]])
    nodes, rule = np.polynomial.legendre.leggauss(16)
    half = 0.5 * np.diff(cells)[:, None]
    t, rule = cells[:-1, None] + half * (nodes + 1.0), half * rule
    densities = stats.beta.pdf(means(t), a, b) / values / special.betainc(a, b, means(t))
    expected = np.einsum("ij,ij,ijk->k", rule, np.exp(log_below(t)), densities)
    marginal = BetaMarginal(np.array([a, b])[:, None, None])
    money, _ = priced(marginal, values[None], costs[None])
    mask = np.ones((1, n_arms), bool)
    chance, error = best_arm_probabilities(marginal, np.ones((1, 1)), mask, money)
    np.testing.assert_allclose(chance[0], expected, atol=1e-10)
    assert error[0] == 0


@kinds
@pytest.mark.parametrize("measure", ["variance", "best-action", "latent-and-best-action"])
def test_terms_of_utilities_are_those_of_draws(kind: str, measure: str) -> None:
    rng = np.random.default_rng(5)
    marginal: Marginal = MARGINALS[kind][0](rng.uniform(1.5, 8.0, (2, 1, 2, 4)))
    money = Money(np.array([[1.0, 2.0, -0.5, 0.0]]), np.array([[0.1, 0.8, -0.6, -0.3]]))
    weights, mask = np.array([[0.3, 0.7]]), np.ones((1, 4), bool)
    rewards = IndependentRewards(weights, marginal).priced(money)
    regret, information = rewards.terms(rng, mask, measure, 2)
    n = 400_000
    latent = (rng.random(n) > 0.3).astype(int)
    drawn = money.of(rewards.draw(rng, np.zeros(n, int), latent)[None])[0]
    best = drawn.argmax(axis=1)
    assert_within(of_mean(drawn.max(axis=1, keepdims=True) - drawn, regret[0]))
    if measure == "variance":
        np.testing.assert_allclose(information[0], drawn.var(axis=0), rtol=0.02, atol=1e-12)
        return
    groups = best if measure == "best-action" else best + 4 * latent
    explained = np.zeros(4)
    for g in np.unique(groups):
        own = drawn[groups == g]
        explained += len(own) / n * (own.mean(axis=0) - drawn.mean(axis=0)) ** 2
    np.testing.assert_allclose(information[0], explained, rtol=0.03, atol=2e-4)


# -- points ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_arms_without_variance_share_their_places(k: int) -> None:
    """Two certain arms are equal, one has no value: frequencies of rankings with random ties."""
    parameters = np.array([[0.3, 0.3, 0.5, 0.1, 9.0], [0.0, 0.0, 0.2, 0.3, 0.4]])[:, None, None]
    money = Money(np.array([[1.0, 1.0, 1.0, 1.0, 0.0]]), np.array([[0.0, 0.0, 0.1, 0.0, -0.3]]))
    rewards = IndependentRewards(np.ones((1, 1)), NormalMarginal(parameters, 1.0)).priced(money)
    found = rewards.inclusion(np.ones((1, 5), bool), k)
    assert found is not None
    rng, n = np.random.default_rng(3), 100_000
    drawn = rewards.draw(rng, np.zeros(n, int), np.zeros(n, int))[None]
    _, shares = rewards.draw_rankings(rng, np.ones((1, 5), bool), k, drawn)
    assert_within(of_frequency(shares[0] * n, n, found[0][0]))
    np.testing.assert_allclose(found[0].sum(), k, rtol=1e-12)
    np.testing.assert_allclose(found[0][0, 0], found[0][0, 1], rtol=1e-12)
    np.testing.assert_allclose(found[0][0, 0], found[0][0, 4], rtol=1e-12)


def test_only_certain_arms() -> None:
    money = Money(np.zeros((1, 3)), np.array([[3.0, 1.0, 2.0]]))
    marginal = BetaMarginal(np.full((2, 1, 1, 3), 2.0))
    rewards = IndependentRewards(np.ones((1, 1)), marginal).priced(money)
    mask = np.ones((1, 3), bool)
    included = rewards.inclusion(mask, 2)
    assert included is not None
    np.testing.assert_allclose(included[0], [[0.0, 1.0, 1.0]], atol=1e-15)
    regret, information = rewards.terms(np.random.default_rng(0), mask, "best-action", 2)
    np.testing.assert_allclose(regret, [[2.0, 0.0, 1.0]])
    np.testing.assert_allclose(information, 0.0, atol=1e-15)


def test_an_error_is_reported_where_doubles_end() -> None:
    """Masses next to the upper end of Beta(0.05, 0.05) have no digits left."""
    marginal = BetaMarginal(np.full((2, 1, 1, 3), 0.03) * np.array([1.0, 2.0, 3.0]))
    found, error = rank_arms(marginal, np.ones((1, 1)), np.ones((1, 3), bool))
    exact, _ = best_arm_probabilities(marginal, np.ones((1, 1)), np.ones((1, 3), bool))
    assert np.abs(found - exact).max() <= error[0]


def test_everything_is_included_when_all_are_shown() -> None:
    marginal = GammaMarginal(np.array([[2.0, 5.0, 0.7], [1.0, 3.0, 0.5]])[:, None, None])
    mask = np.array([[True, False, True]])
    found, _ = rank_arms(marginal, np.ones((1, 1)), mask, 2)
    np.testing.assert_allclose(found, [[1.0, 0.0, 1.0]], atol=1e-12)
