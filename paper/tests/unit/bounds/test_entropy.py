"""Bounds in the entropy of the latent prior: worked numbers, limits and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mixts_paper.bounds import (
    bounded_entropy_bound,
    effective_states,
    entropy,
    entropy_terms,
    theorem1_terms,
)
from scipy import integrate, stats

from mixts.errors import ParameterError, WeightsError
from paper.tests.unit.bounds.paper_setting import (
    K,
    N,
    arm_entropies,
    covariances,
    means,
    terms,
    uniform,
    zipf,
)

EXACT = 1e-5
"""Worked numbers have six or more digits."""


def test_entropies() -> None:
    assert entropy(uniform()) == pytest.approx(3.401197, rel=EXACT)
    assert effective_states(uniform()) == pytest.approx(30)
    assert entropy(zipf(2)) == pytest.approx(1.460992, rel=EXACT)
    assert effective_states(zipf(2)) == pytest.approx(9.899774, rel=EXACT)
    assert entropy([1.0]) == 0 == entropy([0.0, 1.0])
    assert math.copysign(1, entropy([1.0])) == 1
    assert effective_states([1.0, 0.0]) == 1


@pytest.mark.parametrize("weights", [[0.5, 0.6], [[1.0]], [], [-0.5, 1.5]])
def test_weights_must_be_a_distribution(weights: list[float]) -> None:
    with pytest.raises(WeightsError):
        entropy(weights)


def test_best_arm_entropy_is_that_of_the_integral() -> None:
    """Arms of different widths, by a quadrature of scipy."""
    mean, std = np.array([0.2, 0.5, 0.4]), np.array([0.3, 0.1, 0.2])

    def chance(a: int) -> float:
        others = [b for b in range(3) if b != a]

        def density(x: float) -> float:
            below = [stats.norm.cdf(x, mean[b], std[b]) for b in others]
            return float(stats.norm.pdf(x, mean[a], std[a]) * np.prod(below))

        return float(integrate.quad(density, -2, 3, points=list(mean), epsabs=1e-12)[0])

    p = np.array([chance(a) for a in range(3)])
    expected = -(p * np.log(p)).sum()
    assert arm_entropies(mean[None], std[None])[0] == pytest.approx(expected, rel=1e-8)
    assert arm_entropies(np.array([[0.1, 0.2]]), 0.0).tolist() == [0.0]


def test_without_width() -> None:
    t = terms(0.0)
    assert t.learning == 0
    assert t.identification == pytest.approx(141.1171, rel=EXACT)
    assert t.best_arm == pytest.approx(186.2585, rel=EXACT)
    assert t.bound == t.identification < t.joint


def test_a_narrow_prior() -> None:
    plain, t = terms(0.05, with_arms=False), terms(0.05)
    assert plain.information == pytest.approx([33.5039] * K, rel=EXACT)
    assert plain.within == pytest.approx([0.745078] * K, rel=EXACT)
    assert plain.total == pytest.approx(1.431768, rel=EXACT)
    assert plain.between == pytest.approx((0.761691, 0.703697, 1.173413), rel=EXACT)
    assert t.identification == pytest.approx(142.8538, rel=EXACT)
    # The learning term is no part of the joint root: the best arm is known given the state.
    assert t.joint == pytest.approx(t.identification * math.sqrt(30 / 29), rel=1e-9)
    assert t.joint == pytest.approx(145.2959, rel=EXACT)
    assert t.best_arm == pytest.approx(187.6230, rel=EXACT)
    assert plain.best_arm == math.inf


@pytest.mark.parametrize(
    ("width", "h", "learning", "joint", "best_arm"),
    [(0.15, 0.0206338, 6.34319, None, None), (0.2, 0.303802, 30.1895, 172.2643, None),
     (0.5, 2.82839, 210.054, 340.2080, 292.7630)],
)  # fmt: skip
def test_wider_priors(
    width: float, h: float, learning: float, joint: float | None, best_arm: float | None
) -> None:
    t = terms(width)
    assert arm_entropies(means(), width) == pytest.approx([h] * K, rel=EXACT)
    assert t.learning == pytest.approx(learning, rel=EXACT)
    if joint is not None:
        assert t.joint == pytest.approx(joint, rel=EXACT)
    if best_arm is not None:
        assert t.bound == t.best_arm == pytest.approx(best_arm, rel=EXACT)


@pytest.mark.parametrize("width", [1e-4, 0.01, 0.05, 0.2, 0.5, 10.0, 1e4])
def test_the_learning_term_is_far_below_term_1(width: float) -> None:
    term = theorem1_terms(N, K, K, 0.1, 1.0, width**2).learning
    assert term > 6 * math.sqrt(math.log(K * N) / 2) * terms(width, with_arms=False).learning


def test_few_states() -> None:
    assert terms(0.05, uniform(2)).identification == pytest.approx(15.46402, rel=EXACT)
    assert terms(0.05, uniform(1)).identification == 0


def test_unequal_and_singular_covariances() -> None:
    t = entropy_terms(
        200, [0.7, 0.3], [[0, 0], [1, -1]], [[[2, 2], [2, 2]], [[0, 0], [0, 1]]], 0.2, 1.0, 3,
        mean_range=1.0,
    )  # fmt: skip
    assert t.information == pytest.approx([9.210440, 7.824446], rel=EXACT)
    assert t.within == pytest.approx([4.736835, 1.625956], rel=EXACT)
    assert np.dot([0.7, 0.3], t.within) == pytest.approx(3.803571, rel=EXACT)
    assert t.between == pytest.approx((3.568869,), rel=EXACT), "(C) fails"
    assert t.total == pytest.approx(4.272441, rel=EXACT)
    assert t.learning == pytest.approx(39.00549, rel=EXACT)
    assert t.identification == pytest.approx(26.71655, rel=EXACT)
    assert t.bound == t.joint == pytest.approx(41.33977, rel=EXACT)


def test_a_common_tilted_covariance_does_not_qualify() -> None:
    """It may carry a posterior mean farther than the prior's; a diagonal one needs unit vectors."""
    mean = [[0.0, 0.0], [1.0, 0.0]]

    def forms(covariance: object, mean_range: float | None) -> int:
        both = np.broadcast_to(np.asarray(covariance, float), (2, 2, 2))
        arguments = (50, [0.5, 0.5], mean, both, 0.1, 1.0, 2, None, mean_range)
        return len(entropy_terms(*arguments).between)

    assert forms([[1, 0.5], [0.5, 1]], 1.0) == 1
    assert forms([[1, 0], [0, 2]], 1.0) == 3
    assert forms([[1, 0], [0, 2]], None) == 1
    assert forms([[1, 0], [0, 1]], None) == 3


def test_posterior_means_under_a_tilted_covariance_leave_the_range() -> None:
    """Why: b = (I + V Sigma / sigma^2)^-1 a can be longer than a, unless Sigma is isotropic."""
    rng = np.random.default_rng(3)
    tilted = np.array([[1.0, 0.95], [0.95, 1.0]])
    longest = {"tilted": 0.0, "isotropic": 0.0}
    for _ in range(200):
        rows = rng.normal(size=(3, 2))
        for name, covariance in (("tilted", tilted), ("isotropic", np.eye(2))):
            b = np.linalg.solve(np.eye(2) + rows.T @ rows @ covariance / 0.01, [1.0, 0.0])
            longest[name] = max(longest[name], float(np.linalg.norm(b)))
    assert longest["tilted"] > 1.2
    assert longest["isotropic"] <= 1


def test_rewards_between_0_and_1() -> None:
    log10 = np.log(10)
    assert bounded_entropy_bound(N, uniform(10), 10, log10) == pytest.approx(107.2983, rel=EXACT)
    assert bounded_entropy_bound(N, uniform(10), 10, 0.0) == pytest.approx(101.7921, rel=EXACT)
    assert bounded_entropy_bound(N, [1.0], 10, 0.0) == 0
    # Policies: only their states count, and returns are up to h.
    episodes = bounded_entropy_bound(N, uniform(2), None, 0.0, 20.0)
    assert episodes == pytest.approx(20 * math.sqrt(N * math.log(2) / 2))
    assert bounded_entropy_bound(N, uniform(2), None, 0.1) == math.inf


def test_a_curve_has_the_numbers_of_its_points() -> None:
    rounds = np.array([10.0, 1000.0])
    arguments = (uniform(), means(), covariances(0.2), 0.1, 1.0, K, arm_entropies(means(), 0.2))
    curve = entropy_terms(rounds, *arguments, mean_range=0.8).bound
    each = [entropy_terms(n, *arguments, mean_range=0.8).bound for n in (10, 1000)]
    assert curve.tolist() == each
    bounded = bounded_entropy_bound(rounds, uniform(), K, 0.5)
    assert bounded.tolist() == [bounded_entropy_bound(n, uniform(), K, 0.5) for n in (10, 1000)]


def test_permuting_states_changes_nothing() -> None:
    order = np.random.default_rng(0).permutation(K)
    p = zipf(1)
    arguments = (covariances(0.2), 0.1, 1.0, K, arm_entropies(means(), 0.2), 0.8)
    straight = entropy_terms(N, p, means(), *arguments)
    permuted = entropy_terms(N, p[order], means()[order], *arguments)
    assert permuted.identification == pytest.approx(straight.identification, rel=1e-12)
    assert permuted.bound == pytest.approx(straight.bound, rel=1e-12)


def test_an_impossible_state_costs_nothing() -> None:
    p = np.append(uniform(4), 0.0)
    with_it = entropy_terms(N, p, means(5), covariances(0.1, 5), 0.1, 1.0, K, mean_range=0.8)
    without = entropy_terms(N, p[:4], means(4), covariances(0.1, 4), 0.1, 1.0, K, mean_range=0.8)
    assert with_it.identification == pytest.approx(without.identification, rel=1e-12)


@pytest.mark.parametrize(
    "changed",
    [
        {"prior_means": means(3)},
        {"covariances": covariances(0.1, 3)},
        {"best_action_entropy": [0.1, 0.2]},
        {"best_action_entropy": -1.0},
        {"noise_std": 0.0},
        {"n_actions": 0},
        {"mean_range": -1.0},
        {"n": 0},
    ],
)
def test_refusals(changed: dict[str, object]) -> None:
    good = {
        "n": 10, "weights": uniform(4), "prior_means": means(4),
        "covariances": covariances(0.1, 4), "noise_std": 0.1, "kappa": 1.0, "n_actions": K,
        "best_action_entropy": 0.5, "mean_range": 0.8,
    }  # fmt: skip
    assert entropy_terms(**good).bound > 0  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        entropy_terms(**{**good, **changed})  # type: ignore[arg-type]
