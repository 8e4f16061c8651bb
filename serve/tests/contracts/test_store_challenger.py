"""The account of champion and challenger reads the log: windows, new arms, and all families."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore
from mixts_serve.challenger import Contest, ContestWatch, History, log_ratios, read_account
from mixts_serve.store.postgres import PostgresBackend

import mixts
from serve.tests.contracts.stores import ACTIONS, arms, decide_and_reward, linear, set_clock

START = 1_773_489_600
SILENCE = {"reward_window": 1800.0, "default_reward": 0.0}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all stores, in seconds."""
    now = [float(START)]
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    monkeypatch.setattr(PostgresBackend, "settle_us", 0)
    return now


def rival() -> mixts.MixturePrior:
    """The prior of most tests, with kinds that are less sure."""
    return arms(scale=0.3)


def by_hand(
    champion: mixts.MixturePrior,
    other: mixts.MixturePrior,
    histories: list[list[tuple[int, float]]],
) -> float:
    found = [
        History(np.array([arm for arm, _ in one]), np.array([value for _, value in one]))
        for one in histories
    ]
    return float(log_ratios(champion, other, found).sum())


def test_only_new_tasks_count(store: DecisionStore, clock: list[float]) -> None:
    with Decider(arms(), store, seed=1) as decider:
        decide_and_reward(decider, "old", [1, 0, 1])
        assert read_account(store) is None, "there is one version only"
        clock[0] += 1
        version = decider.upload_prior(rival())
        clock[0] += 1
        decide_and_reward(decider, "old", [1, 1])
        histories = []
        for task, values in (("a", [1.0, 0.0, 1.0]), ("b", [0.0, 0.0])):
            made = decide_and_reward(decider, task, values)
            histories.append([(m.action, v) for m, v in zip(made, values, strict=True)])
        decider.decide("waits")
        clock[0] += 1
        found = read_account(store)
        assert found is not None
        assert (found.contest.champion, found.contest.challenger, found.tasks) == (1, version, 2)
        assert found.log_evidence == pytest.approx(by_hand(arms(), rival(), histories), abs=1e-12)
        assert found.curve[0] == (0, 0.0)
        assert found.curve[-1] == (2, found.log_evidence)
        # The account goes on after the activation, with the same tasks.
        decider.activate_prior(version)
        assert read_account(store) == found
        # A new challenger has its own tasks.
        clock[0] += 1
        third = decider.upload_prior(arms(scale=2.0))
        assert read_account(store).contest == Contest(version, third, int(clock[0] * 1e6))  # type: ignore[union-attr]


def test_windows_that_are_open_hide_clicks(store: DecisionStore, clock: list[float]) -> None:
    rng = np.random.default_rng(3)
    histories: dict[str, list[tuple[int, float]]] = {}
    with Decider(arms(), store, policy="ts", seed=1, **SILENCE) as decider:  # type: ignore[arg-type]
        clock[0] += 1
        decider.upload_prior(rival())
        for _ in range(40):
            clock[0] += 60
            for one in decider.decide_many([Decide(f"task {i}") for i in range(6)]):
                assert isinstance(one, Decision)
                clicked = float(rng.random() < 0.4)
                histories.setdefault(one.task, []).append((one.action, clicked))
                if clicked:
                    decider.reward(one.id, 1.0)
            while decider.end_windows():
                pass
        found = read_account(store)
        assert found is not None
        # Final are the decisions of the minutes 1 to 9, whatever became of them.
        final = [history[:9] for history in histories.values()]
        assert found.tasks == 6
        assert found.log_evidence == pytest.approx(by_hand(arms(), rival(), final), abs=1e-12)


def test_a_decision_that_may_depend_on_an_open_reward_does_not_count(
    store: DecisionStore, clock: list[float]
) -> None:
    """The second decision has no window. It was made after the click of the first, whose has."""
    with Decider(arms(), store, seed=1, **SILENCE) as decider:  # type: ignore[arg-type]
        clock[0] += 1
        decider.upload_prior(rival())
        clock[0] += 1
        first = decide_and_reward(decider, "task", [1])
    clock[0] += 1
    with Decider(None, store, seed=2) as decider:
        second = decide_and_reward(decider, "task", [0])
        clock[0] += 1
        assert read_account(store).tasks == 0  # type: ignore[union-attr]
        clock[0] += 1800
        found = read_account(store)
        assert found is not None
        history = [(first[0].action, 1.0), (second[0].action, 0.0)]
        assert found.log_evidence == pytest.approx(by_hand(arms(), rival(), [history]), abs=1e-12)


def test_nothing_counts_after_an_arm_that_one_version_does_not_know(
    store: DecisionStore, clock: list[float]
) -> None:
    """What is decided later depends on its reward, of which the champion says nothing."""
    wider = rival().with_arms(mixts.BernoulliArms([[2.0], [2.0]], [[1.0], [1.0]]))
    values = [1.0, 0.0] * 10
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        clock[0] += 1
        version = decider.upload_prior(wider)
        clock[0] += 1
        known = [(decide_and_reward(decider, "task", [1])[0].action, 1.0)]
        decider.activate_prior(version)
        actions = []
        for value in values:
            clock[0] += 1
            actions.append(decide_and_reward(decider, "task", [value])[0].action)
        clock[0] += 1
        first = actions.index(3)
        assert min(actions[first:]) < 3, "known arms come again"
        known += list(zip(actions[:first], values[:first], strict=True))
        found = read_account(store)
        assert found is not None
        assert found.log_evidence == pytest.approx(by_hand(arms(), wider, [known]), abs=1e-12)


def test_the_watch_reads_what_the_command_reads(store: DecisionStore, clock: list[float]) -> None:
    with Decider(linear(), store, policy="ts", seed=1) as decider:
        clock[0] += 1
        decider.upload_prior(mixts.MixturePrior(linear().family, [0.9, 0.1]))
        clock[0] += 1
        for i in range(40):
            one = decider.decide(f"task {i}", actions=ACTIONS)
            decider.reward(one.id, 1.0)
        clock[0] += 1
        watch = ContestWatch(store, decider._load)
        n_pieces = 1
        while not watch.poll():
            n_pieces += 1
        assert n_pieces > 1
        assert watch.account == read_account(store)
        assert watch.account is not None
        assert watch.account.tasks == 40
        assert math.isfinite(watch.account.log_evidence)
