"""Bounds for known models, narrow components and counts: worked numbers, limits and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mixts_paper.bounds import (
    bernoulli_affinity,
    count_bound,
    effective_states,
    gaussian_affinity,
    known_mdps,
    known_models,
    narrow_terms,
    of,
    one_sided_bound,
)
from mixts_paper.bounds.models import best_policies, episode_affinity

import mixts
from mixts.errors import ParameterError
from paper.tests.unit.bounds.paper_setting import NOISE, K, N, means, narrow, uniform, zipf

EXACT = 1e-5
"""Worked numbers have six or more digits."""
LOOSE = 1e-4
"""Those of narrow components are given less exactly."""

ONE_ARM_KNOWN = np.array([[0.5, 0.1], [0.5, 0.9]])


def of_paper(weights: Any) -> float:
    table = means(len(weights))
    return known_models(weights, table, gaussian_affinity(table, NOISE))


# -- known models ---------------------------------------------------------------------------------


def test_the_papers_bandit() -> None:
    assert of_paper(uniform()) == pytest.approx(11.603893, rel=EXACT)
    assert of_paper(zipf(2)) == pytest.approx(3.561104, rel=EXACT)
    assert of_paper(uniform(1)) == 0
    # The corollary, for one gap and one affinity.
    closed = 0.4 * (effective_states(zipf(1)) - 1) / -math.expm1(-0.08 / NOISE**2)
    assert of_paper(zipf(1)) == pytest.approx(closed, rel=1e-12)


def test_other_arms() -> None:
    table = np.array([[1, 0, 0.5], [0.2, 0.9, 0.1], [0.4, 0.3, 0.8]])
    found = known_models([0.2, 0.3, 0.5], table, gaussian_affinity(table, 0.5))
    assert found == pytest.approx(3.691474, rel=EXACT)
    order = [2, 0, 1]
    permuted = table[order]
    again = known_models([0.5, 0.2, 0.3], permuted, gaussian_affinity(permuted, 0.5))
    assert again == pytest.approx(found, rel=1e-12)
    clicks = 0.3 + 0.4 * np.eye(10)
    found = known_models(uniform(10), clicks, bernoulli_affinity(clicks))
    assert found == pytest.approx(21.560795, rel=EXACT)


def test_affinities_are_those_of_the_laws() -> None:
    p, q = 0.2, 0.7
    rho = bernoulli_affinity([[p, 0.0, 1.0], [q, 1.0, 1.0]])
    assert rho[0, 1] == pytest.approx([math.sqrt(p * q) + math.sqrt(0.8 * 0.3), 0, 1])
    y = np.linspace(-10, 12, 20001)
    laws = [np.exp(-((y - m) ** 2) / (2 * 0.81)) / math.sqrt(2 * math.pi * 0.81) for m in (0.5, 2)]
    integral = np.sqrt(laws[0] * laws[1]).sum() * (y[1] - y[0])
    assert gaussian_affinity([[0.5], [2.0]], 0.9)[0, 1, 0] == pytest.approx(integral, rel=1e-9)


def test_a_pair_that_only_one_action_tells_apart() -> None:
    rho = gaussian_affinity(ONE_ARM_KNOWN, 0.5)
    assert known_models([0.5, 0.5], ONE_ARM_KNOWN, rho) == math.inf
    closed = known_models([0.5, 0.5], ONE_ARM_KNOWN, rho, 1000)
    assert closed == pytest.approx(14.11346, rel=EXACT)


def test_few_rounds_cost_no_more_than_each_round() -> None:
    assert one_sided_bound(5, 0.2, 0.8, 0.9) == 1
    assert one_sided_bound(1e6, 0.2, 0.8, 0.0) == pytest.approx(2e5)


def test_a_state_of_vanishing_probability_costs_nothing() -> None:
    without = of_paper(uniform(4))
    for tiny, close in ((1e-6, 1e-2), (1e-12, 1e-5)):
        p = np.append(uniform(4) * (1 - tiny), tiny)
        assert of_paper(p) == pytest.approx(without, rel=close)
        counted = count_bound(N, p, NOISE, 1.0, 0.0, 0.8, 0.001)
        assert counted == pytest.approx(
            count_bound(N, p[:4] / p[:4].sum(), NOISE, 1, 0, 0.8, 0.001), rel=close
        )
    assert of_paper(np.append(uniform(4), 0.0)) == pytest.approx(without, rel=1e-12)


def test_copies_of_a_state_make_the_bound_worse() -> None:
    table = means(3)
    copied = table[[0, 0, 1, 2]]
    split = known_models([1 / 6, 1 / 6, 1 / 3, 1 / 3], copied, gaussian_affinity(copied, 0.1))
    assert split > of_paper(uniform(3))
    assert effective_states([1 / 6, 1 / 6, 1 / 3, 1 / 3]) > 3


def test_tied_actions_are_averaged() -> None:
    """State 0 has two best arms, of which only the second tells it from state 1."""
    table = np.array([[0.8, 0.8, 0.1], [0.8, 0.2, 0.9]])
    rho = gaussian_affinity(table, 0.3)
    alpha = (0 + 1 - rho[0, 1, 1]) / 2
    beta = 1 - rho[0, 1, 2]
    gap = (0.8 - 0.1) + (0.9 - (0.8 + 0.2) / 2)
    expected = gap * 0.5 / (2 * math.sqrt(alpha * beta))
    assert known_models([0.5, 0.5], table, rho) == pytest.approx(expected, rel=1e-12)


def test_means_that_hardly_differ_keep_their_digits() -> None:
    """1 - rho of means 1e-9 apart is 1.25e-19, which 1 - rho would round to 0."""
    prior = mixts.MixturePrior(
        mixts.GaussianArms([[1e-9, 0.0], [0.0, 1e-9]], np.zeros((2, 2)), 1.0)
    )
    found = of(prior, 1000)["known models"]
    assert found == pytest.approx(2e-9 * 0.5 / (2 * 1.25e-19), rel=1e-9)


@pytest.mark.parametrize(
    ("table", "rho"),
    [
        (np.eye(3), np.ones((3, 3, 3))),
        (np.eye(2), np.ones((2, 2))),
        (np.eye(2), np.full((2, 2, 2), 2.0)),
    ],
)
def test_refusals(table: Any, rho: Any) -> None:
    with pytest.raises(ParameterError):
        known_models([0.5, 0.5], table, rho)
    with pytest.raises(ParameterError):
        bernoulli_affinity([[1.5]])


# -- MDPs -----------------------------------------------------------------------------------------


def river() -> mixts.MDP:
    swim = mixts.RiverSwim()
    return mixts.MDP.stack([swim.mean_mdp(current) for current in ("left", "right")])


def test_river_swim() -> None:
    mdps = river()
    policies = best_policies(mdps)
    apart = [episode_affinity(mdps[s], mdps[1 - s], policies[s]) for s in (0, 1)]
    assert sorted(apart) == pytest.approx([4.3230e-10, 8.6315e-10], rel=1e-3)
    plans = mdps.plan().policy
    gap = sum(mdps[s].value(plans[s]) - mdps[s].value(plans[1 - s]) for s in (0, 1))
    assert gap == pytest.approx(5.968299, rel=EXACT)
    assert known_mdps([0.5, 0.5], mdps) == pytest.approx(1.492075, rel=EXACT)
    with pytest.raises(ParameterError, match="batch of 3 MDPs"):
        known_mdps(uniform(3), mdps)


def test_the_affinity_of_episodes_by_enumeration() -> None:
    """Two states, two actions, two steps: the sum of roots over all episodes, ties at random."""
    rng = np.random.default_rng(5)
    rewards = rng.random((2, 2, 2))
    rewards[:, 0] = 0.5  # a tie
    transitions = rng.dirichlet(np.ones(2), size=(2, 2, 2))
    transitions[:, 0, 1] = transitions[:, 0, 0]
    mdps = mixts.MDP(rewards, transitions, 2, [0.3, 0.7])
    policy = best_policies(mdps)[0]
    assert (policy[:, 0] == 0.5).all()
    total = 0.0
    for x1, a1, r1, x2, a2, r2, x3 in np.ndindex(2, 2, 2, 2, 2, 2, 2):
        laws = []
        for s in (0, 1):
            chance = np.where(
                [r1, r2], rewards[s, [x1, x2], [a1, a2]], 1 - rewards[s, [x1, x2], [a1, a2]]
            )
            laws.append(chance.prod() * transitions[s, x1, a1, x2] * transitions[s, x2, a2, x3])
        total += (
            [0.3, 0.7][x1] * policy[0, x1, a1] * policy[1, x2, a2] * math.sqrt(laws[0] * laws[1])
        )
    assert episode_affinity(mdps[0], mdps[1], policy) == pytest.approx(total, rel=1e-12)


# -- narrow components ----------------------------------------------------------------------------


def test_narrow_components() -> None:
    found = narrow(N, uniform(), means(), 0.05, NOISE).bound
    assert found == pytest.approx(11.619306, rel=EXACT)
    t = narrow(N, uniform(), means(), 0.1, NOISE)
    assert t == pytest.approx((0.0723158, 12.545827, 0.000357680), rel=LOOSE)
    assert t.bound == pytest.approx(12.61850, rel=LOOSE)
    assert narrow(N, uniform(), means(), 0.15, NOISE).bound == pytest.approx(161.7497, rel=LOOSE)
    assert narrow(N, uniform(2), means(2), 0.05, NOISE).bound == pytest.approx(0.4006657, rel=EXACT)
    assert narrow(N, zipf(2), means(), 0.05, NOISE).bound == pytest.approx(3.565835, rel=EXACT)
    assert narrow_terms(N, [1.0], means(1), 0.05, NOISE, learning=0.0).bound == 0


def test_two_states_with_one_best_arm() -> None:
    table = [[1, 0, 0.3], [1.6, 0.1, 0.2], [0, 1, 0.5]]
    t = narrow(300, [0.3, 0.3, 0.4], table, 0.08, 0.5)
    assert t.pairs == pytest.approx(1.844550, rel=LOOSE)
    assert t.slips == pytest.approx(0.00190026, rel=LOOSE)
    order = [2, 0, 1]
    again = narrow(300, [0.4, 0.3, 0.3], np.array(table)[order], 0.08, 0.5)
    assert again == pytest.approx(t, rel=1e-12)


@pytest.mark.parametrize("width", [0.0, 1e-6])
def test_without_width_it_is_the_bound_for_known_models(width: float) -> None:
    t = narrow(N, zipf(1), means(), width, NOISE)
    assert t.pairs == pytest.approx(of_paper(zipf(1)), rel=1e-6)
    assert t.learning + t.slips < 1e-12


def test_many_rounds_and_arms_that_do_not_tell() -> None:
    long = narrow(10**6, uniform(), means(), 0.05, NOISE).bound
    assert long == pytest.approx(11.62, abs=5e-3)
    # One of the two arms does not tell the states apart: a round costs at most half the sum.
    t = narrow(100, [0.5, 0.5], ONE_ARM_KNOWN, 0.01, 0.5)
    assert t.pairs == pytest.approx(0.5 * 100 / 2 * 0.8)
    with pytest.raises(ParameterError):
        narrow_terms(N, uniform(2), means(3), 0.05, NOISE, 0.0)


# -- counts ---------------------------------------------------------------------------------------


def test_counts() -> None:
    def bound(weights: Any, variance: float, delta: float | None = 0.001) -> Any:
        return count_bound(N, weights, NOISE, 1.0, variance, 0.8, delta)

    assert bound(uniform(), 0.0) == pytest.approx(100.4170, rel=EXACT)
    assert bound(uniform(), 0.0, None) == pytest.approx(96.419, rel=1e-3)
    assert bound(uniform(), 0.05**2) == pytest.approx(109.3423, rel=EXACT)
    assert (zipf(2) * N < 1).sum() == 6
    assert bound(zipf(2), 0.05**2) == pytest.approx(76.09164, rel=EXACT)
    assert bound([1.0], 0.05**2, None) == 0
    order = np.random.default_rng(0).permutation(K)
    assert bound(zipf(1)[order], 0.0) == pytest.approx(bound(zipf(1), 0.0), rel=1e-12)


def test_a_curve_of_counts() -> None:
    rounds = np.array([10.0, 1000.0])
    curve = count_bound(rounds, uniform(), NOISE, 1.0, 0.01, 0.8)
    each = [count_bound(n, uniform(), NOISE, 1.0, 0.01, 0.8) for n in (10, 1000)]
    assert curve.tolist() == pytest.approx(each, rel=1e-12)
    with pytest.raises(ParameterError, match="delta"):
        count_bound(10, uniform(), NOISE, 1.0, 0.01, 0.8, 1.0)
