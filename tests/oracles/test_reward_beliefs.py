"""Beliefs about mean rewards against scipy's integrals, exact sums and large samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import mixts
from mixts.families.base import Waiting
from mixts.families.bernoulli import BetaMarginal
from mixts.families.choice import draw_rows
from mixts.families.marginals import Marginal, NormalMarginal
from mixts.families.poisson import GammaMarginal
from mixts.families.rewards import IndependentRewards, RewardBelief

pytestmark = pytest.mark.usefixtures("program")

NOISE = 0.7


@dataclass(frozen=True)
class Form:
    """A family of marginals and the distribution of scipy that it equals."""

    make: Callable[[Any], Marginal]
    scipy: Callable[[Any, Any], Any]
    parameters: Callable[[np.random.Generator, tuple[int, ...]], Any]


FORMS = {
    "beta": Form(BetaMarginal, stats.beta, lambda rng, shape: rng.uniform(0.4, 20.0, (2, *shape))),
    "gamma": Form(
        GammaMarginal,
        lambda a, b: stats.gamma(a, scale=1 / b),
        lambda rng, shape: rng.uniform(0.4, 20.0, (2, *shape)),
    ),
    "normal": Form(
        lambda p: NormalMarginal(p, NOISE),
        lambda a, b: stats.norm(a, np.sqrt(b)),
        lambda rng, shape: np.stack([rng.normal(size=shape), rng.uniform(0.05, 2.0, shape)]),
    ),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def belief(form: Form, rng: np.random.Generator, m: int, n: int, k: int) -> IndependentRewards:
    weights = rng.dirichlet(np.ones(n), m)
    return IndependentRewards(weights, form.make(form.parameters(rng, (m, n, k))))


def best_by_scipy(form: Form, parameters: Any) -> float:
    """E[max] of one component: from the highest lower end, the integral of one minus a product."""
    arms = form.scipy(*parameters)
    low, high = float(arms.ppf(1e-15).max()), float(arms.isf(1e-15).max())
    cuts = np.unique(np.concatenate([[low, high], np.clip(arms.ppf(0.5), low, high)]))
    above = sum(
        integrate.quad(lambda t: 1 - arms.cdf(t).prod(), a, b, epsabs=1e-13, limit=200)[0]
        for a, b in itertools.pairwise(cuts)
    )
    return low + above


# -- the best mean --------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize("n", [1, 3])
def test_expected_regrets_are_those_of_scipy(form: Form, n: int) -> None:
    rng = np.random.default_rng(n)
    rewards = belief(form, rng, 3, n, 4)
    mask = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0]], bool)
    found = rewards.regrets(rng, mask, 2)
    for r in range(3):
        parameters = rewards.marginal.parameters[:, r]
        best = sum(
            w * best_by_scipy(form, parameters[:, s][:, mask[r]])
            for s, w in enumerate(rewards.weights[r])
        )
        mean = rewards.weights[r] @ form.scipy(*parameters).mean()
        np.testing.assert_allclose(found[r], best - mean, atol=1e-9)
    # A single available arm has no regret.
    assert abs(found[2, 2]) < 1e-12


@forms
def test_equal_arms_have_equal_regrets(form: Form) -> None:
    rng = np.random.default_rng(0)
    one = form.parameters(rng, (1, 1, 1))
    rewards = IndependentRewards(np.ones((1, 1)), form.make(np.repeat(one, 3, axis=3)))
    found = rewards.regrets(rng, np.ones((1, 3), bool), 2)[0]
    assert found[0] == found[1] == found[2]
    assert found[0] > 0


@pytest.mark.parametrize(
    ("form", "parameters"),
    [
        (FORMS["beta"], [[1e6, 5.0], [10.0, 1e5]]),
        (FORMS["gamma"], [[1e6, 5.0], [10.0, 1e5]]),
        (FORMS["normal"], [[50.0, 0.0], [0.1, 0.2]]),
        (FORMS["normal"], [[50.0, 0.0], [0.0, 0.2]]),
    ],
)
def test_an_arm_that_is_surely_best_has_no_regret(form: Form, parameters: Any) -> None:
    marginal = form.make(np.array(parameters)[:, None, None])
    rewards = IndependentRewards(np.ones((1, 1)), marginal)
    found = rewards.regrets(np.random.default_rng(0), np.ones((1, 2), bool), 2)
    scale = float(marginal.mean().max())
    assert abs(found[0, 0]) < 1e-12 * scale
    assert found[0, 1] == pytest.approx(scale - marginal.mean()[0, 0, 1], rel=1e-12)


def test_certain_arms_bound_the_best_mean() -> None:
    """Normal arms of variance zero: E[max(c, X)] has a closed form."""
    parameters = np.array([[0.3, -1.0, 0.2], [0.0, 0.0, 0.5]])[:, None, None]
    rewards = IndependentRewards(np.ones((1, 1)), NormalMarginal(parameters, NOISE))
    sd = math.sqrt(0.5)
    z = (0.2 - 0.3) / sd
    best = 0.3 + sd * (z * stats.norm.cdf(z) + stats.norm.pdf(z))
    found = rewards.regrets(np.random.default_rng(0), np.ones((1, 3), bool), 2)[0]
    np.testing.assert_allclose(found, best - parameters[0, 0, 0], atol=1e-12)


# -- moments and quantiles ------------------------------------------------------------------------


def draw(rewards: RewardBelief, rng: np.random.Generator, n: int) -> Any:
    """Draw what each decision maximises n times: a component by its weight, then mean rewards."""
    latent = draw_rows(rng, np.repeat(rewards.weights, n, axis=0))
    return rewards.draw_given(rng, latent.reshape(-1, n))


@forms
def test_moments_are_those_of_a_large_sample(form: Form) -> None:
    rng = np.random.default_rng(4)
    rewards = belief(form, rng, 1, 3, 2)
    drawn = draw(rewards, rng, 400_000)
    error = drawn[0].std(axis=0) / math.sqrt(400_000)
    assert (np.abs(drawn[0].mean(axis=0) - rewards.means()[0]) < 5 * error).all()
    squares = (drawn[0] - rewards.means()[0]) ** 2
    error = squares.std(axis=0) / math.sqrt(400_000)
    assert (np.abs(squares.mean(axis=0) - rewards.variances()[0]) < 5 * error).all()


@forms
@pytest.mark.parametrize("n", [1, 4])
def test_quantiles_of_the_mixture_are_roots_of_its_distribution(form: Form, n: int) -> None:
    rng = np.random.default_rng(n)
    rewards = belief(form, rng, 5, n, 3)
    rewards.weights[0] = np.eye(n)[0]
    level = np.array([0.5, 0.1, 0.9, 0.99, 0.9999])
    found = rewards.quantiles(level)
    for r in range(5):
        arms = form.scipy(*rewards.marginal.parameters[:, r])
        for k in range(3):

            def excess(x: float, r: int = r, k: int = k, arms: Any = arms) -> float:
                return float(rewards.weights[r] @ arms.cdf(x)[:, k]) - level[r]

            ends = arms.ppf(level[r])[:, k]
            width = np.ptp(ends) + 1e-3
            exact = optimize.brentq(excess, ends.min() - width, ends.max() + width, xtol=1e-14)
            assert found[r, k] == pytest.approx(exact, abs=1e-9)


# -- looking ahead --------------------------------------------------------------------------------


@forms
def test_observing_in_the_marginal_is_updating_the_belief(form: Form) -> None:
    """Parameters and relative evidence agree with those of the family's own update."""
    rng = np.random.default_rng(6)
    first, second = form.parameters(rng, (2, 3))
    family: Any = {
        "beta": lambda: mixts.BernoulliArms(first, second),
        "gamma": lambda: mixts.PoissonArms(first, second),
        "normal": lambda: mixts.GaussianArms(first, second, math.sqrt(NOISE)),
    }[next(name for name, f in FORMS.items() if f is form)]()
    prior = mixts.MixturePrior(family)
    counts = np.array([2, 0, 3])
    outcomes = [1.0, 0.0, 1.0, 1.0, 0.0]
    belief = prior.belief()
    belief.update([0, 0, 2, 2, 2], outcomes)
    average = np.array([0.5, 0.3, 2 / 3])
    start = form.make(np.stack([first, second]))
    after, log_evidence = start.observe(average[None], counts[None])
    np.testing.assert_allclose(after.mean(), belief.component_mean, rtol=1e-12)
    gap = belief.log_evidence[0] - belief.log_evidence[1]
    assert log_evidence.sum(axis=1)[0] - log_evidence.sum(axis=1)[1] == pytest.approx(gap)
    # No observation changes nothing.
    np.testing.assert_array_equal(log_evidence[:, 1], 0.0)


@forms
def test_estimates_are_means_at_once_and_mean_rewards_in_the_end(form: Form) -> None:
    rng = np.random.default_rng(7)
    rewards = belief(form, rng, 3, 2, 3)
    now = draw(rewards.ahead(np.zeros(3, np.int64), rng, 0), rng, 50)
    np.testing.assert_array_equal(now, np.broadcast_to(rewards.means()[:, None], now.shape))
    for n in (1, 7, 1000):
        drawn = draw(rewards.ahead(np.full(3, n), rng, 0), rng, 20_000)
        error = drawn.std(axis=1) / math.sqrt(20_000)
        assert (np.abs(drawn.mean(axis=1) - rewards.means()) < 5 * error).all()
    late = rewards.ahead(np.full(3, 10**6), rng, 20_000)
    np.testing.assert_allclose(late.variances(), rewards.variances(), rtol=0.1)


def test_estimates_of_bernoulli_arms_have_the_exact_law() -> None:
    """Three more rewards of an arm have four possible sums: their estimates and probabilities."""
    rng = np.random.default_rng(8)
    rewards = belief(FORMS["beta"], rng, 1, 2, 1)
    (a, b), w = rewards.marginal.parameters[:, 0, :, 0], rewards.weights[0]
    n, size = 3, 200_000
    drawn = draw(rewards.ahead(np.array([n]), rng, 0), rng, size)
    sums = np.arange(n + 1)
    chance = np.array([stats.betabinom(n, x, y).pmf(sums) for x, y in zip(a, b, strict=True)])
    after = w[:, None] * chance
    estimate = (after / after.sum(axis=0) * (a[:, None] + sums) / (a + b + n)[:, None]).sum(axis=0)
    found, counts = np.unique(drawn.round(12), return_counts=True)
    np.testing.assert_allclose(found, np.sort(estimate), rtol=1e-9)
    expected = after.sum(axis=0)[np.argsort(estimate)]
    error = np.sqrt(expected * (1 - expected) / size)
    assert (np.abs(counts / size - expected) < 5 * error).all()


# -- waiting decisions ----------------------------------------------------------------------------


@forms
def test_expected_rewards_keep_one_components_means_and_shrink_its_variances(form: Form) -> None:
    rng = np.random.default_rng(9)
    before = belief(form, rng, 2, 1, 3)
    counts = np.array([[0, 2, 0], [1, 0, 5]])
    after = before.expecting(counts)
    np.testing.assert_allclose(after.means(), before.means(), rtol=1e-12)
    assert (after.variances()[counts > 0] < before.variances()[counts > 0]).all()
    others = counts == 0
    np.testing.assert_allclose(after.variances()[others], before.variances()[others], rtol=1e-14)


def test_waiting_decisions_of_real_rewards_are_observed_at_their_means() -> None:
    """Gaussian arms and linear rewards: the belief after an update with the expected reward."""
    rng = np.random.default_rng(10)
    arms = mixts.MixturePrior(
        mixts.GaussianArms(rng.normal(size=(2, 3)), rng.uniform(0.1, 1, (2, 3)), 0.5)
    )
    linear = mixts.MixturePrior(
        mixts.LinearGaussian(rng.normal(size=(2, 3)), rng.uniform(0.1, 1, (2, 3)), 0.5, "diag")
    )
    rows = np.eye(3)
    for prior, actions, sets in ((arms, np.array([1, 1]), None), (linear, rows[[1, 1]], rows)):
        agent, twin = mixts.Greedy(prior, 2), mixts.Greedy(prior, 2)
        first = rows[2] if sets is not None else 2
        for a in (agent, twin):
            a.update([first], [1.0], tasks=[0])
        expected = agent.belief.mean_rewards(sets)[0, 1]
        twin.update(actions, [expected, expected], tasks=[0, 0])
        index = np.arange(2)
        weights = agent.belief.working_weights(index)
        waiting = Waiting(np.zeros(2, np.int64), actions)
        found = agent.belief.posterior.rewards(index, weights, sets, waiting)
        np.testing.assert_allclose(found.weights, twin.belief.weights, rtol=1e-9)
        np.testing.assert_allclose(found.means(), twin.belief.mean_rewards(sets), rtol=1e-9)
