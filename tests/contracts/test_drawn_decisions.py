"""Priced decisions and rankings of every family come from one mechanism: draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import mixts
from mixts.agents import Choice, Offer
from tests.contracts.problems import SIZE, FamilyCase
from tests.statistical.standard_errors import FALSE_ALARM, assert_within, quotient

pytestmark = pytest.mark.usefixtures("program")

FAMILIES = (
    "bernoulli", "gaussian", "poisson", "student", "spend", "full", "student full", "logistic",
)  # fmt: skip
N = 500
families = pytest.mark.parametrize("name", FAMILIES)
SLOWER = ("student", "spend", "student full")
"""Families whose plain decisions take long, where others notice the same."""


def informed(name: str) -> tuple[mixts.MixTS, Any]:
    """Return an agent with a history, and what to offer."""
    case = FamilyCase(name)
    rng = np.random.default_rng(1)
    agent = mixts.MixTS(case.prior, n_tasks=1, seed=2, n_samples=200)
    actions, outcomes = case.history(1, 6)
    agent.update(actions, outcomes, tasks=np.zeros(6, int))
    return agent, rng.normal(size=(SIZE, SIZE)) if case.linear else None


def frequencies(actions: Any) -> Any:
    """Return how often each action is taken, or is among those ranked."""
    return (actions.reshape(len(actions), -1)[:, :, None] == np.arange(SIZE)).any(axis=1).mean(0)


def chi_square(counts: Any, expected: Any) -> float:
    """Return the p-value of counts; actions expected less than five times are one."""
    rare = expected < 5
    counts, expected = (np.append(x[~rare], x[rare].sum()) for x in (counts, expected))
    used = expected > 0
    return float(stats.chisquare(counts[used], expected[used] * counts.sum() / expected.sum())[1])


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOWER else n for n in FAMILIES],
)
def test_neutral_prices_are_plain_decisions(name: str) -> None:
    agent, offered = informed(name)
    ones, tasks = np.ones(SIZE), np.zeros(N, int)
    # The mean of many estimates: a single one may miss a rare action, and its error with it.
    many = np.zeros(100, int)
    plain, errors = agent.action_probabilities(offered, many)
    found, own = agent.action_probabilities(offered, many, values=ones)
    error = np.sqrt(((errors**2).mean(axis=0) + (own**2).mean(axis=0)) / len(many))
    plain = plain.mean(axis=0)
    assert_within(quotient(found.mean(axis=0) - plain, error))
    for how in ({}, {"values": ones}, {"top": 1}):
        taken = agent.act(offered, tasks, **how).reshape(-1)
        spread = np.sqrt(plain * (1 - plain) / N + error**2)
        assert_within(quotient(frequencies(taken) - plain, spread))


@families
def test_the_logged_propensity_is_that_of_the_draw(name: str) -> None:
    """Actions of one vector, drawn again and again, have its probabilities."""
    agent, offered = informed(name)
    rng = np.random.default_rng(3)
    values, costs = rng.uniform(0.5, 1.5, SIZE), rng.uniform(0.0, 0.2, SIZE)
    tasks = np.zeros(N, int)
    choice = agent.decide(agent.offer(offered, tasks, values=values, costs=costs))
    # Each row has its own draws: the sums of independent hits have the sum of their vectors.
    hits = np.bincount(choice.actions, minlength=SIZE)
    assert chi_square(hits, choice.probabilities.sum(axis=0)) > FALSE_ALARM
    taken = agent.act(offered, tasks, values=values, costs=costs)
    law = choice.probabilities.mean(axis=0)
    spread = np.sqrt((law * (1 - law) + choice.probabilities.var(axis=0)) / N)
    assert_within(quotient(frequencies(taken) - law, spread))
    assert (choice.probabilities[np.arange(N), choice.actions] > 0).all()


@families
@pytest.mark.parametrize("floor", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_the_logged_inclusion_is_that_of_the_ranking(name: str, floor: float) -> None:
    agent, offered = informed(name)
    costs = np.random.default_rng(4).uniform(0.0, 0.2, SIZE)
    choice = agent.decide(agent.offer(offered, np.zeros(N, int), floor=floor, costs=costs, top=2))
    ranked, law, errors = choice
    assert ranked.shape == (N, 2)
    assert (ranked[:, 0] != ranked[:, 1]).all()
    np.testing.assert_allclose(law.sum(axis=1), 2.0)
    spread = np.sqrt((law * (1 - law)).sum(axis=0)) / N
    assert_within(quotient(frequencies(ranked) - law.mean(axis=0), spread))
    # The errors say how much the vectors of different draws differ.
    np.testing.assert_allclose(
        law.std(axis=0), np.sqrt((errors**2).mean(axis=0)), rtol=0.15, atol=0.002
    )


def test_an_offer_made_in_steps_decides_alike() -> None:
    agent, offered = informed("full")
    again, _ = informed("full")
    prior, one, values = agent.prior, np.zeros(1, np.int64), [1.0, 2.0, 0.5, 1.5]
    whole = agent.offer(offered, [0, 0], mask=[True, True, False, True], floor=0.1, values=values)
    step = Offer.of(prior, one, offered, [True, True, False, True])
    step = step.with_money(prior, values, None).with_top(prior, None).with_limits(0.1)
    joined = Offer.join([step, step], tasks=np.zeros(2, np.int64))
    first, second = agent.decide(whole), again.decide(joined)
    assert isinstance(first, Choice)
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (first.probabilities[:, 2] == 0).all()
    assert (first.probabilities[:, [0, 1, 3]] >= 0.1).all()


def test_offers_with_and_without_masks_join() -> None:
    prior, one = FamilyCase("bernoulli").prior, np.zeros(1, np.int64)
    some, every = Offer.of(prior, one, None, [True, False, True, True]), Offer.of(prior, one)
    assert every.mask is None
    joined = Offer.join([some, every], tasks=np.array([4, 7]))
    np.testing.assert_array_equal(joined.available, [[True, False, True, True], [True] * SIZE])
    np.testing.assert_array_equal(joined.tasks, [4, 7])
    assert joined.actions is None
    assert joined.money is None
