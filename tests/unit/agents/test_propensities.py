"""Action probabilities checked by hand, and the probabilities that are logged with a decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import mixts
from tests.contracts.problems import CASES, FamilyCase

pytestmark = pytest.mark.usefixtures("program")


def probabilities(family: Any, weights: Any = None, mask: Any = None) -> Any:
    prior = mixts.MixturePrior(family, weights=weights)
    found, errors = mixts.MixTS(prior, seed=0).action_probabilities(mask=mask)
    np.testing.assert_array_equal(errors, np.zeros_like(found))
    return found


# -- exact ones by hand ----------------------------------------------------------------------------


def test_two_gaussian_arms() -> None:
    """P(first is best) = Phi((m1 - m2) / sqrt(v1 + v2))."""
    for m, v in [((0.3, -0.2), (0.5, 0.1)), ((0.0, 5.0), (1.0, 1e-6)), ((0.0, 40.0), (1.0, 1.0))]:
        expected = special.ndtr((m[0] - m[1]) / np.sqrt(sum(v)))
        found = probabilities(mixts.GaussianArms([m], [v], 1.0))
        np.testing.assert_allclose(found, [expected, 1 - expected], atol=1e-9)


def test_two_bernoulli_arms() -> None:
    """Beta(2, 1) against Beta(1, 1): the first is larger with probability 2/3."""
    found = probabilities(mixts.BernoulliArms([[2.0, 1.0]], [[1.0, 1.0]]))
    np.testing.assert_allclose(found, [2 / 3, 1 / 3], atol=1e-9)


def test_two_poisson_arms() -> None:
    """Gamma(a, 1) / (Gamma(a, 1) + Gamma(b, 1)) is Beta(a, b)."""
    found = probabilities(mixts.PoissonArms([[3.0, 2.0]], [[2.0, 1.0]]))
    # X / 2 > Y with X ~ Gamma(3), Y ~ Gamma(2): X / (X + Y) > 2/3.
    expected = stats.beta(3, 2).sf(2 / 3)
    np.testing.assert_allclose(found, [expected, 1 - expected], atol=1e-9)


def test_equal_arms_are_equally_likely() -> None:
    for n in (2, 7, 40):
        found = probabilities(mixts.BernoulliArms.uniform(n))
        np.testing.assert_allclose(found, 1 / n, atol=1e-9)


def test_components_are_summed() -> None:
    """The mixture's probabilities are the weighted ones of its components, not of averages."""
    mean, variance = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 0.5], [0.1, 0.2]])
    parts = [probabilities(mixts.GaussianArms(mean[[s]], variance[[s]], 1.0)) for s in (0, 1)]
    both = probabilities(mixts.GaussianArms(mean, variance, 1.0), weights=[0.3, 0.7])
    np.testing.assert_allclose(both, 0.3 * parts[0] + 0.7 * parts[1], rtol=1e-9)


def test_a_mask_leaves_the_best_of_the_rest() -> None:
    """Not the old numbers rescaled: the smaller problem's own."""
    mean, variance = np.array([[1.0, 0.9, 0.0]]), np.array([[0.1, 1.0, 2.0]])
    masked = probabilities(
        mixts.GaussianArms(mean, variance, 1.0), mask=np.array([True, False, True])
    )
    alone = probabilities(mixts.GaussianArms(mean[:, [0, 2]], variance[:, [0, 2]], 1.0))
    np.testing.assert_allclose(masked, [alone[0], 0.0, alone[1]], atol=1e-9)
    whole = probabilities(mixts.GaussianArms(mean, variance, 1.0))
    assert abs(masked[0] - whole[0] / (whole[0] + whole[2])) > 0.01


def test_certain_arms() -> None:
    """Variance 0: the best certain arm is a threshold for the others; ties share."""
    mean, variance = [[0.0, 1.0, 1.0, 0.5]], [[0.0, 0.0, 0.0, 1.0]]
    above = special.ndtr(-0.5)
    found = probabilities(mixts.GaussianArms(mean, variance, 1.0))
    np.testing.assert_allclose(found, [0.0, (1 - above) / 2, (1 - above) / 2, above], atol=1e-9)
    none = np.zeros((1, 3))
    np.testing.assert_array_equal(
        probabilities(mixts.GaussianArms([[0.0, 2.0, 1.0]], none, 1.0)), [0.0, 1.0, 0.0]
    )


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_narrow_and_wide_arms(scale: float) -> None:
    """A needle beside a haystack: P(needle is best) is the haystack's distribution function."""
    family = mixts.GaussianArms([[0.3 * scale, 0.0]], [[1e-16 * scale**2, scale**2]], 1.0)
    expected = special.ndtr(0.3)
    np.testing.assert_allclose(probabilities(family), [expected, 1 - expected], atol=1e-7)


def test_sharp_counts() -> None:
    """A million observations: two needles close together, a third far below."""
    alpha = np.array([[500_000.0, 500_500.0, 300_000.0]])
    family = mixts.BernoulliArms(alpha, 1e6 - alpha)
    found = probabilities(family)
    sd = np.sqrt(0.25 / 1e6)
    expected = special.ndtr((0.5005 - 0.5) / sd / np.sqrt(2))
    # A beta distribution of a million is normal but for its skewness, some 1e-6 here.
    np.testing.assert_allclose(found, [1 - expected, expected, 0.0], atol=1e-5)


# -- linear ones -----------------------------------------------------------------------------------


def test_components_of_linear_families_are_summed_exactly() -> None:
    """Certain components: nothing is left to sample, so the weights are the answer."""
    mean = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.8]])
    family = mixts.LinearGaussian(mean, np.zeros(3), 1.0, covariance_type="spherical")
    prior = mixts.MixturePrior(family, weights=[0.123, 0.456, 0.421])
    agent = mixts.MixTS(prior, seed=0, n_samples=10)
    found, errors = agent.action_probabilities(np.eye(2))
    np.testing.assert_allclose(found, [0.123, 0.456 + 0.421], rtol=1e-12)
    np.testing.assert_array_equal(errors, 0.0)


def test_rare_components_have_samples_too() -> None:
    """A component of weight 1e-9 that alone likes an action: the estimate is never zero for it."""
    mean = np.array([[1.0, 0.0], [0.0, 1.0]])
    family = mixts.LinearGaussian(mean, np.zeros(2), 1.0, covariance_type="spherical")
    agent = mixts.MixTS(mixts.MixturePrior(family, weights=[1 - 1e-9, 1e-9]), seed=0, n_samples=10)
    np.testing.assert_allclose(agent.action_probabilities(np.eye(2))[0][1], 1e-9, rtol=1e-6)


def test_an_oracle_has_its_components_probabilities() -> None:
    case = FamilyCase("gaussian")
    oracle = mixts.Oracle(case.prior, 1, seed=0)
    oracle.update(*case.history(1, 10))
    alone = mixts.MixTS(case.prior.select([1]), seed=0)
    alone.use_prior(oracle.belief.as_prior().select([1]))
    np.testing.assert_allclose(
        oracle.action_probabilities()[0], alone.action_probabilities()[0], atol=1e-9
    )


# -- logging ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_floor_mixes_with_uniform(case: FamilyCase) -> None:
    """floor + (1 - K floor) p, also for what an estimate says of its error."""
    agents = [mixts.MixTS(case.prior, 3, seed=5, n_samples=40) for _ in range(2)]
    plain, floored = (
        agent.act_with_probabilities(case.actions, floor=floor)
        for agent, floor in zip(agents, (0.0, 0.08), strict=True)
    )
    room = 1 - case.n_actions * 0.08
    np.testing.assert_allclose(floored[1], 0.08 + room * plain[1], rtol=1e-12)
    np.testing.assert_allclose(floored[2], room * plain[2], rtol=1e-12)


def test_a_share_is_drawn_evenly_among_the_available_actions() -> None:
    """A floor for each decision: the share over the number of its available actions."""
    case = CASES[0]
    agents = [mixts.MixTS(case.prior, 3, seed=5) for _ in range(2)]
    mask = np.ones((3, case.n_actions), bool)
    mask[1, 0] = mask[2, :-1] = False
    plain, shared = (
        agent.decide(agent.offer(case.actions, mask=mask)._replace(explore=explore))
        for agent, explore in zip(agents, (0.0, 0.2), strict=True)
    )
    evenly = mask / mask.sum(axis=1, keepdims=True)
    wanted = 0.2 * evenly + 0.8 * plain.probabilities
    np.testing.assert_allclose(shared.probabilities, wanted, rtol=1e-12)
    assert shared.probabilities[2, -1] == pytest.approx(1.0)


@pytest.mark.parametrize("n", [1, 3, 7, 49, 103])
def test_all_decisions_may_be_drawn_evenly(n: int) -> None:
    agent = mixts.MixIDS(mixts.MixturePrior(mixts.BernoulliArms.uniform(n)), 1, seed=1)
    choice = agent.decide(agent.offer()._replace(explore=1.0))
    np.testing.assert_allclose(choice.probabilities, 1 / n, rtol=1e-12)


def test_an_impossible_action_is_not_drawn() -> None:
    """Probability zero means never, also at the ends of the range."""
    mean = np.array([[0.0, 5.0, 0.0, 5.0, 0.0]])
    prior = mixts.MixturePrior(mixts.GaussianArms(mean, np.zeros((1, 5)), 1.0))
    agent = mixts.MixTS(prior, 1, seed=0)
    chosen, logged, _ = agent.act_with_probabilities(tasks=np.zeros(500, int))
    assert set(chosen) == {1, 3}
    np.testing.assert_array_equal(logged[0], [0.0, 0.5, 0.0, 0.5, 0.0])
    assert agent.last_latent is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_probabilities_follow_the_belief(case: FamilyCase) -> None:
    """An action that was praised a hundred times is taken more often than before."""
    agent = mixts.MixTS(case.prior, seed=0, n_samples=2000)
    before, _ = agent.action_probabilities(case.actions)
    praised = case.actions[0] if case.linear else 0
    reward = 1.0 if case.prior.family.reward_range == (0.0, 1.0) else 40.0
    for _ in range(100):
        agent.update(praised, reward)
    after, _ = agent.action_probabilities(case.actions)
    assert before[0] < 0.9
    assert after[0] > before[0]
