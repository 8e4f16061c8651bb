"""The lemmas of both appendices: independent checks of both sides, and counterexamples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mixts_paper.analysis.confidence import follow_confidence_sets
from mixts_paper.bounds import reward_width, theorem2_terms, transition_width
from mixts_paper.bounds.lemmas import (
    episode_width_sum_bound,
    first_part_bound,
    gaussian_tail_bound,
    pseudo_count_variance,
    second_part_bound,
    value_difference_bound,
)
from scipy import special

import mixts
from mixts.environments.mdp import MDPEnvironment, RiverSwim
from mixts.families import TabularMDP

# -- Lemma 1 ---------------------------------------------------------------------------------------

EPSILONS = np.linspace(0, 12, 241)


def chi_tail(d: int, epsilon: Any) -> Any:
    """E r 1{r >= epsilon}, the integral of r over the density of the chi distribution."""
    mean = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
    return mean * special.gammaincc((d + 1) / 2, epsilon**2 / 2)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 30, 100])
def test_lemma_1_holds_with_a_factor_2(d: int) -> None:
    printed = gaussian_tail_bound(d, EPSILONS)
    assert (chi_tail(d, EPSILONS) <= 2 * printed * (1 + 1e-12)).all()
    # Where the proof uses it, it is sqrt(d / (2 pi)) / n.
    use = gaussian_tail_bound(d, math.sqrt(2 * d * math.log(d * 50)))
    assert use == pytest.approx(math.sqrt(d / (2 * math.pi)) / 50, rel=1e-12)


def test_lemma_1_as_printed() -> None:
    """Of one dimension it is half the left side, which a factor below 2 would not mend."""
    np.testing.assert_allclose(chi_tail(1, EPSILONS), 2 * gaussian_tail_bound(1, EPSILONS))
    two = chi_tail(2, EPSILONS) / gaussian_tail_bound(2, EPSILONS)
    assert two.max() == pytest.approx(1.157, abs=5e-4)
    assert EPSILONS[two > 1].max() == pytest.approx(1.5)
    for d in range(3, 40):
        assert (chi_tail(d, EPSILONS) < gaussian_tail_bound(d, EPSILONS)).all()


def test_the_chi_integral_is_the_mean_of_norms() -> None:
    norms = np.linalg.norm(np.random.default_rng(1).normal(size=(100_000, 3)), axis=1)
    tail = np.where(norms >= 1.5, norms, 0)
    assert abs(tail.mean() - chi_tail(3, 1.5)) < 4 * tail.std() / math.sqrt(100_000)


# -- the ends of Steps 1 and 3 ---------------------------------------------------------------------


def test_without_width_only_the_latent_state_is_paid_for() -> None:
    """Both sums of widths are 0, and so is the first part; M is what a prior mean can be worth."""
    n, d, L, sigma, kappa = 1000, 30, 7, 0.1, 1.5
    assert first_part_bound(0.0, d, kappa, 0.0) == 0
    search = 2 * sigma * math.sqrt(L * n * math.log(n))
    found = second_part_bound(0.0, n, d, L, sigma, kappa, 0.0)
    assert found == pytest.approx(search + 3 * L * kappa)


# -- Lemma 4 ---------------------------------------------------------------------------------------

COUNTS = np.array([0.05, 0.5, 1.0, 3.0, 10.0, 40.0])
SLOPES = np.array([-60.0, -5.0, -0.1, 0.1, 1.0, 5.0, 20.0, 60.0])


def log_mgf(alpha: Any, beta: Any, u: Any) -> Any:
    """log E exp(u (X - E X)) for X ~ Beta(alpha, beta): Kummer's function."""
    return np.log(special.hyp1f1(alpha, alpha + beta, u)) - u * alpha / (alpha + beta)


def test_lemma_4_for_every_beta() -> None:
    alpha, beta, u = np.meshgrid(COUNTS, COUNTS, SLOPES)
    bound = u**2 / 2 * pseudo_count_variance(alpha + beta)
    assert (log_mgf(alpha, beta, u) <= bound * (1 + 1e-9)).all()


def test_lemma_4_could_not_be_smaller() -> None:
    """Of equal counts it is the variance, which is what the mean square of small slopes needs."""
    variance = pseudo_count_variance(2 * COUNTS)
    np.testing.assert_allclose(variance, COUNTS**2 / (2 * COUNTS) ** 2 / (2 * COUNTS + 1))
    assert (log_mgf(COUNTS, COUNTS, 0.1) > 0.99 * 0.1**2 / 2 * variance).all()


def test_lemma_4_is_for_the_entries_of_a_dirichlet_vector() -> None:
    """An entry is a Beta. In the direction (1, -1) / sqrt(2) of two equal counts it is not enough.

    (X_1 - X_2) / sqrt(2) is sqrt(2) X_1 and a constant: twice the variance of an entry.
    """
    counts = np.array([2.0, 2.0])
    allowed = pseudo_count_variance(counts.sum())
    covariance = (np.diag(counts) / 4 - np.outer(counts, counts) / 16) / (counts.sum() + 1)
    assert covariance[0, 0] == pytest.approx(allowed)
    assert np.linalg.eigvalsh(covariance)[-1] == pytest.approx(2 * allowed)


# -- Lemma 5 ---------------------------------------------------------------------------------------


def random_mdps(rng: np.random.Generator, n: int, X: int, A: int, h: int) -> tuple[Any, Any]:
    """Pairs of MDPs, some far apart and some near."""
    near = rng.uniform(0, 1, n) ** 3
    rewards = rng.beta(0.3, 0.3, (2, n, X, A))
    rows = rng.dirichlet(np.full(X, 0.3), (2, n, X, A))
    rewards[1] += near[:, None, None] * (rewards[0] - rewards[1])
    rows[1] += near[:, None, None, None] * (rows[0] - rows[1])
    initial = rng.dirichlet(np.ones(X))
    return tuple(mixts.MDP(rewards[k], rows[k], h, initial) for k in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize("size", [(1, 2, 3), (2, 2, 1), (3, 2, 4), (5, 3, 8)])
def test_lemma_5_with_its_plus_sign(size: tuple[int, int, int]) -> None:
    """Any two MDPs and any policy; the best of either, too, which are the proof's."""
    rng = np.random.default_rng(size)
    X, A, h = size
    one, other = random_mdps(rng, 500, *size)
    for policy in (rng.integers(A, size=(500, h, X)), one.plan().policy, other.plan().policy):
        for a, b in ((one, other), (other, one)):
            gap = a.value(policy) - b.value(policy)
            assert (gap <= value_difference_bound(a, b, policy) + 1e-12).all()
    equal = mixts.MDP(other.rewards, one.transitions, h, one.initial)
    # Where only rewards differ it is an equation.
    gap = one.value(policy) - equal.value(policy)
    np.testing.assert_allclose(value_difference_bound(one, equal, policy), gap, atol=1e-12)


def test_lemma_5_by_hand() -> None:
    """One step of reward 0.2 in M' and 0.5 in M, one state; then a move that is sure in M' only."""
    rewards, rows = np.array([[0.2], [0.4]]), np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    other = mixts.MDP(rewards, rows, 2, 0)
    mdp = mixts.MDP([[0.5], [0.4]], [[[0.5, 0.5]], [[0.0, 1.0]]], 2, 0)
    policy = np.zeros((2, 2), int)
    assert value_difference_bound(other, mdp, policy) == pytest.approx(0.2 - 0.5 + 2 * 1.0)
    assert other.value(policy) - mdp.value(policy) == pytest.approx(0.6 - (0.5 + 0.45))


def test_lemma_5_as_printed() -> None:
    """R' - R h ||T' - T|| where everything pays 1 everywhere: the values are equal."""
    rewards, h = np.ones((2, 1)), 3
    one, other = (mixts.MDP(rewards, [[row], [row]], h, 0) for row in ([1.0, 0.0], [0.0, 1.0]))
    policy = np.zeros((h, 2), int)
    printed = h * (1 - 1 * h * 2)
    assert one.value(policy) - other.value(policy) == 0 > printed
    assert value_difference_bound(one, other, policy) == pytest.approx(h * h * 2)


# -- Lemma 6 ---------------------------------------------------------------------------------------


def test_lemma_6_by_hand() -> None:
    """X = 3, A = 2, h = 5, n = 7, Lambda = 4."""
    root = math.sqrt(2 * 7 * 5 * math.log(4 * 6 * 7) * math.log(1 + 35 / 48))
    for form, factor in [("statement", 4), ("appendix", 4 * math.sqrt(2))]:
        bound = episode_width_sum_bound(7, 3, 2, 5, 4.0, form)  # type: ignore[arg-type]
        assert bound == pytest.approx(factor * 3 * 5 * root + 6 * 25)
    curve = episode_width_sum_bound([7, 70], 3, 2, 5, 4.0)
    assert curve[0] == pytest.approx(episode_width_sum_bound(7, 3, 2, 5, 4.0))
    # The theorem's appendix has the second form once, without sqrt(2) in Step 4.
    terms = theorem2_terms(7, 3, 2, 5, 1, 4.0, form="appendix")
    whole = episode_width_sum_bound(7, 3, 2, 5, 4.0, "appendix")
    assert whole == pytest.approx(terms.learning + 6 * 25)


def test_lemma_6_holds_in_riverswim() -> None:
    """Every pair has 30 pseudo-counts, whatever the current: all states have the same widths."""
    river = RiverSwim()
    family = river.prior.family
    assert isinstance(family, TabularMDP)
    assert family.min_pseudo_count == pytest.approx(30)
    n = 100
    sets = follow_confidence_sets(river.prior, river, n, 10, 1, n_samples=2, block_size=10)
    total = sets.width.sum(axis=1)
    bound = episode_width_sum_bound(n, 10, 2, 20, 30.0)
    # Not for nothing: about half the bound is reached, and all of it if widths never shrank.
    assert 0.3 * bound < total.min() <= total.max() < bound
    assert n * sets.width[:, 0].min() > bound


def test_lemma_6_fails_where_one_pair_is_visited_a_hundred_times_an_episode() -> None:
    """One state, one action, one count: the first episode's widths are 2.5 and not 1."""
    reward, transition = np.full((1, 1, 1, 2), 0.5), np.ones((1, 1, 1, 1))
    prior = mixts.MixturePrior(TabularMDP(reward, transition, 100, 0))
    sets = follow_confidence_sets(prior, MDPEnvironment(prior), 1, 1, 1, n_samples=2)
    one = np.ones(1)
    by_hand = 100 * 100 * (reward_width(one, 1, 1, 1) + transition_width(one, 1, 1, 1))
    assert sets.width[0, 0] == pytest.approx(by_hand[0])
    for form in ("statement", "appendix"):
        assert sets.width.sum() > episode_width_sum_bound(1, 1, 1, 100, 1.0, form)  # type: ignore[arg-type]
