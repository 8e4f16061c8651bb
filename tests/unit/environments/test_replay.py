"""Logged rewards as a bandit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mixts
from mixts import _random
from mixts.environments import ReplayBandit
from mixts.errors import ActionError, ParameterError

TASKS = np.array([1, 0, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1])  # of 3, 6 and 3 items
FEATURES = np.arange(12.0)[:, None]  # which tell what item it is
REWARDS = np.linspace(-1, 1, 12)


def bandit(n_actions: int = 3) -> ReplayBandit:
    return ReplayBandit(FEATURES, REWARDS, TASKS, n_actions)


def start(environment: ReplayBandit, n: int, seed: int = 0):
    return environment.start(partial(_random.stream, seed), n)


def test_runs_are_the_tasks_in_random_order() -> None:
    orders = [start(bandit(), 3, seed).latent for seed in range(20)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    many = start(bandit(), 8).latent
    assert sorted(many[:3]) == sorted(many[3:6]) == [0, 1, 2]
    assert len(set(many[6:])) == 2


def test_offers_what_the_task_has_and_was_not_taken() -> None:
    problem = start(bandit(), 3)
    taken: list[set[int]] = [set(), set(), set()]
    for _ in range(3):
        sets, mask = problem.next_round()
        for run, task in enumerate(problem.latent):
            reach = slice(None) if mask is None else mask[run]
            offered = sets[run, reach, 0].astype(int)
            left = set(np.flatnonzero(task == TASKS)) - taken[run]
            assert len(offered) == min(3, len(left))
            assert set(offered) <= left
        outcome = problem.play(np.zeros(3, int))
        items = sets[:, 0, 0].astype(int)
        np.testing.assert_array_equal(outcome.feedback[0][:, 0], items)
        np.testing.assert_array_equal(outcome.rewards, REWARDS[items])
        np.testing.assert_array_equal(outcome.values, outcome.rewards)
        available = REWARDS[sets[:, :, 0].astype(int)]
        if mask is not None:
            available = np.where(mask, available, -np.inf)
        np.testing.assert_array_equal(outcome.best, available.max(axis=1))
        for run in range(3):
            taken[run].add(int(items[run]))
    # Tasks of three items have none left.
    with pytest.raises(ActionError, match="has 3 items, and all were taken: play fewer rounds"):
        problem.next_round()


def test_what_is_not_on_offer_cannot_be_chosen() -> None:
    problem = start(bandit(n_actions=5), 3)
    _, mask = problem.next_round()
    assert mask is not None
    np.testing.assert_array_equal(
        mask.sum(axis=1), np.minimum(5, np.bincount(TASKS))[problem.latent]
    )
    with pytest.raises(ActionError, match=r"act chose action 4 in run .* not available"):
        problem.play(np.full(3, 4))
    with pytest.raises(ActionError, match="one of 5 actions for each of 3 tasks"):
        problem.play(np.full(3, 5))
    # What was refused took nothing.
    problem.play(np.zeros(3, int))
    _, mask = problem.next_round()
    np.testing.assert_array_equal(
        mask.sum(axis=1), np.minimum(5, np.bincount(TASKS) - 1)[problem.latent]
    )


def test_every_item_is_offered_as_often() -> None:
    environment = ReplayBandit(np.arange(8.0)[:, None], np.zeros(8), np.zeros(8, int), 3)
    n = 4000
    offered = start(environment, n).next_round().actions[:, :, 0].astype(int)
    assert all(len(set(row)) == 3 for row in offered[:50])
    share = np.bincount(offered.ravel(), minlength=8) / n
    assert np.abs(share - 3 / 8).max() < 4 * np.sqrt(3 / 8 * 5 / 8 / n)
    # And in every slot.
    first = np.bincount(offered[:, 0], minlength=8) / n
    assert np.abs(first - 1 / 8).max() < 4 * np.sqrt(1 / 8 * 7 / 8 / n)


def test_offers_differ_by_what_was_taken_only() -> None:
    """Both are the lowest ranks of what is left: A and B differ in at most |A - B| + |B - A|."""
    environment = ReplayBandit(np.arange(30.0)[:, None], np.zeros(30), np.zeros(30, int), 6)
    problems = [start(environment, 40), start(environment, 40)]
    taken: list[list[set[float]]] = [[set() for _ in range(40)] for _ in problems]
    for _ in range(3):
        offers = [problem.next_round().actions[:, :, 0] for problem in problems]
        for run in range(40):
            mine, theirs = (list(offer[run]) for offer in offers)
            n_different = len(taken[0][run] ^ taken[1][run])
            assert len(set(mine) - set(theirs)) <= n_different
            common = set(mine) & set(theirs)
            assert [x for x in mine if x in common] == [x for x in theirs if x in common]
        for which, chosen in enumerate((0, 5)):
            problems[which].play(np.full(40, chosen))
            for run in range(40):
                taken[which][run].add(offers[which][run, chosen])


def test_a_simulation_plays_each_task_once() -> None:
    rng = np.random.default_rng(1)
    tasks = np.repeat(np.arange(6), 12)
    features = rng.standard_normal((72, 2))
    environment = ReplayBandit(features, features @ [1.0, -1.0], tasks, 4)
    prior = mixts.MixturePrior(mixts.LinearGaussian.standard(2, 0.1))
    results = mixts.simulate({"TS": prior}, environment, 10, 12, 3, block_size=6)
    assert sorted(results.latent[:6]) == sorted(results.latent[6:]) == list(range(6))
    assert (results.regret["TS"] >= 0).all()
    # Rewards are linear and almost without noise: it soon knows them.
    assert results.regret["TS"][:, 5:].mean() < 0.2 * results.regret["TS"][:, 0].mean()
    assert "72 items of 6 tasks, 2 features, 4 a round" in repr(environment)


def test_items_are_dealt_to_rounds() -> None:
    """Every item is offered in one round at most, whatever was chosen; all places are as likely."""
    tasks = np.repeat([0, 1], [9, 4])
    environment = ReplayBandit(np.arange(13.0)[:, None], np.arange(13.0), tasks, 3, n_rounds=2)
    assert environment.n_dealt(np.array([0, 1])).tolist() == [3, 2]
    n = 3000
    first, second = start(environment, n), start(environment, n)
    seen = []
    for choice in (0, 1):
        offers = [problem.next_round() for problem in (first, second)]
        np.testing.assert_array_equal(offers[0].actions, offers[1].actions)
        mask = offers[0].mask
        assert mask is not None
        assert (mask.sum(axis=1) == np.where(first.latent == 0, 3, 2)).all()
        seen.append(np.where(mask, offers[0].actions[:, :, 0], -1))
        first.play(np.zeros(n, int))
        second.play(np.full(n, choice))
    for run in range(50):
        items = np.concatenate([part[run][part[run] >= 0] for part in seen])
        assert len(set(items)) == len(items) == (6 if first.latent[run] == 0 else 4)
    long = seen[0][first.latent == 0].astype(int)
    share = np.bincount(long.ravel(), minlength=9) / len(long)
    assert np.abs(share - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(long))
    with pytest.raises(ActionError, match="all were taken: play fewer rounds"):
        first.next_round()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FEATURES, REWARDS[:5], TASKS), "rewards must be 12 numbers, .* got 5"),
        ((FEATURES, REWARDS, TASKS[:5]), "tasks must be 12 integers from 0"),
        ((FEATURES, REWARDS, TASKS - 1), "tasks must be 12 integers from 0"),
        ((FEATURES, REWARDS, TASKS.astype(float)), "of type float64"),
        ((FEATURES, REWARDS, 2 * TASKS), "every task from 0 to 4 needs an item, 1 has none"),
        ((FEATURES, REWARDS * np.inf, TASKS), "rewards must be finite"),
        ((FEATURES[:, 0], REWARDS, TASKS), "features must have 2 axes"),
        ((FEATURES, REWARDS, TASKS, 2, 6), "every task needs at least 6 items, .* task 0 has"),
        ((FEATURES, REWARDS, TASKS, 0), "n_actions must be a whole number, at least 1"),
    ],
)
def test_bad_logs(arguments: tuple, message: str) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(ParameterError, match=message):
        ReplayBandit(*arguments)
