"""The alarm of a wrong prior: false ones are rare, however often one looks; true ones come soon."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from mixts_serve.agreement import ALPHA, Bet, VersionWatch, log_factors, predict
from scipy import stats

import mixts
from mixts._typing import Array, Float
from mixts.agents import BeliefAgent

ACTIONS = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])


def shop() -> mixts.MixturePrior:
    mean = np.full((3, 8), 0.08)
    for kind, liked in zip(mean, ((0, 3), (1, 4), (2, 6)), strict=True):
        kind[list(liked)] = 0.45, 0.3
    return mixts.MixturePrior(mixts.BernoulliArms(12 * mean, 12 * (1 - mean)))


def gaussian() -> mixts.MixturePrior:
    family = mixts.GaussianArms([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]], np.ones((2, 3)), 1.0)
    return mixts.MixturePrior(family)


def student() -> mixts.MixturePrior:
    ones = np.ones((2, 2))
    return mixts.MixturePrior(
        mixts.StudentArms([[0.0, 1.0], [1.0, 0.0]], ones, [1.0, 1.0], [3.0, 3.0])
    )


def poisson() -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.PoissonArms([[2.0, 5.0], [5.0, 2.0]], [[2.0, 2.0]] * 2))


def linear() -> mixts.MixturePrior:
    return mixts.MixturePrior(
        mixts.LinearGaussian([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5], 0.5, "spherical")
    )


def highest_evidence(
    prior: mixts.MixturePrior,
    truth: mixts.MixturePrior,
    n_streams: int,
    n_tasks: int,
    n_rounds: int,
    actions: Float[Array, "K d"] | None = None,
    policy: Callable[..., BeliefAgent] = mixts.MixIDS,
) -> tuple[Array, Array]:
    """Watch streams of decisions after every reward.

    Return the highest evidence of each stream, and after how many rewards it first was
    1 / ALPHA (infinite: never).
    """
    rng, n = np.random.default_rng(1), n_streams * n_tasks
    _, parameters = truth.draw(rng, n)
    agent = policy(prior, n_tasks=n, seed=2)
    watches = [VersionWatch(prior.family.n_arms, prior.n_components) for _ in range(n_streams)]
    highest, first = np.zeros(n_streams), np.full(n_streams, np.inf)
    means = truth.family.mean_rewards(parameters, actions)
    for t in range(n_rounds):
        chosen = agent.act(actions)
        laws = truth.family.reward_parameters(parameters, chosen, means[np.arange(n), chosen])
        rewards = truth.family.outcomes(rng, laws)
        taken = chosen if actions is None else actions[chosen]
        bets = predict(agent.belief, taken, rewards, rng)
        agent.update(taken, rewards)
        for i in range(n):
            stream, task = divmod(i, n_tasks)
            watch = watches[stream]
            watch.add(bets[i])
            highest[stream] = max(highest[stream], watch.log_evidence)
            if watch.log_evidence >= -math.log(ALPHA):
                first[stream] = min(first[stream], t * n_tasks + task + 1)
    return highest, first


@pytest.mark.parametrize(
    ("make", "actions", "n_streams"),
    [
        (shop, None, 150),
        (linear, ACTIONS, 80),
        *(
            pytest.param(make, None, 80, marks=pytest.mark.slow)
            for make in (gaussian, student, poisson)
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_right_prior_seldom_raises_an_alarm(
    make: Callable[[], mixts.MixturePrior], actions: Array | None, n_streams: int
) -> None:
    prior = make()
    highest, _ = highest_evidence(prior, prior, n_streams, 10, 8, actions)
    for alpha in (0.1, ALPHA):
        n_false = int((highest >= -math.log(alpha)).sum())
        # A right test has more false alarms with a probability below 1e-3.
        assert n_false <= stats.binom.isf(1e-3, n_streams, alpha), (alpha, n_false / n_streams)
    assert highest.max() > 0, "the bettors do bet"


def test_a_wrong_prior_raises_the_alarm_within_some_dozens_of_decisions() -> None:
    """It expects 0.44 of the best arm, all arms earn 0.1 to 0.15, and the best gets all traffic."""
    prior = mixts.MixturePrior(mixts.BernoulliArms([[8.8, 3, 2]], [[11.2, 17, 18]]))
    truth = mixts.MixturePrior(
        mixts.BernoulliArms([[2e3, 3e3, 2e3]], [[18e3, 17e3, 18e3]])
    )  # nearly certain
    for n_tasks, n_rounds in ((150, 1), (15, 10)):
        _, first = highest_evidence(prior, truth, 40, n_tasks, n_rounds)
        assert np.median(first) <= 30
        assert first.max() <= 100


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_real_rewards_that_are_too_low_or_too_high_raise_the_alarm(shift: float) -> None:
    prior = gaussian()
    family = prior.family
    assert isinstance(family, mixts.GaussianArms)
    moved = mixts.GaussianArms(family.mean + shift, family.variance, family.noise_std)
    truth = mixts.MixturePrior(moved)
    _, first = highest_evidence(prior, truth, 20, 150, 1)
    assert np.median(first) <= 100


def test_bets_are_fair() -> None:
    """The mean factor is 1 for 0 and 1, at most 1 between them, and 1 for uniform ranks."""
    shares, one_kind = np.array([1.0, 0.3, 0.0]), np.ones(1)
    for m in (0.2, 0.7, 0.5):
        won, lost, half = (
            np.exp(log_factors(shares, Bet(value, m, None, None, one_kind)))
            for value in (1.0, 0.0, 0.5)
        )
        np.testing.assert_allclose(m * won + (1 - m) * lost, 1, rtol=1e-12)
        # Rewards of 0.5 and 1 with mean 0.7, and of 0 and 0.5 with mean 0.2.
        if m == 0.7:
            assert (0.6 * half + 0.4 * won <= 1 + 1e-12).all()
        if m == 0.2:
            assert (0.4 * half + 0.6 * lost <= 1 + 1e-12).all()
    nodes, weights = np.polynomial.legendre.leggauss(30)
    factors = [
        np.exp(log_factors(shares, Bet(rank, rank, rank, None, one_kind)))
        for rank in ((nodes + 1) / 2).tolist()
    ]
    np.testing.assert_allclose(np.tensordot(weights, factors, 1) / 2, 1, rtol=1e-12)
