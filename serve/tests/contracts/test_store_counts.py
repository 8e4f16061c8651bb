"""Counts of arms, versions and policies over time: always those of the log."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.views import Earnings

from mixts.errors import ParameterError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear, set_clock

START = 1_773_489_600
"""2026-03-14 12:00 UTC, the begin of a day's twelfth hour."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all deciders, in seconds."""
    now = [float(START)]
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    return now


def decide(decider: Decider, n: int, **settings: bool) -> list[Decision]:
    made = decider.decide_many([Decide(f"task {i % 7}", **settings) for i in range(n)])
    assert all(isinstance(one, Decision) for one in made)
    return made  # type: ignore[return-value]


def test_arms_are_counted_in_the_span_of_their_decisions(
    store: DecisionStore, clock: list[float]
) -> None:
    rng = np.random.default_rng(1)
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        first = decide(decider, 40)
        clock[0] += 900
        second = decide(decider, 30)
        clock[0] += 86_400
        rewards = {one.id: float(rng.random() < 0.4) for one in (*first, *second[:10])}
        decider.reward_many([Reward(*item) for item in rewards.items()])
        decider.reward_many([Reward(*item) for item in rewards.items()])  # duplicates
    for arm, earned in store.arms(START, 600).items():
        own = [one for one in (*first, *second) if one.action == arm]
        values = [rewards[one.id] for one in own if one.id in rewards]
        assert earned == Earnings(
            decisions=len(own), rewards=len(values), reward_sum=sum(values),
            reward_squares=sum(v * v for v in values), counted=len(values),
        )  # fmt: skip
    later = store.arms(START + 600, 600)
    assert sum(earned.decisions for earned in later.values()) == 30
    assert sum(earned.rewards for earned in later.values()) == 10
    traffic = store.traffic(START, 600, [0])
    total = {row.start: row.decisions for row in traffic if row.arm is None}
    assert total == {START: 40, START + 600: 30}
    own_traffic = {row.start: row.decisions for row in traffic if row.arm == 0}
    assert own_traffic == {
        start: n
        for start, made in ((START, first), (START + 600, second))
        if (n := sum(one.action == 0 for one in made))
    }
    days = store.traffic(START - START % 86_400, 86_400, [])
    assert [(row.start, row.arm, row.decisions) for row in days] == [
        (START - START % 86_400, None, 70)
    ]
    with pytest.raises(ParameterError, match="a multiple of 600"):
        store.arms(START, 10)


def test_versions_and_policies_are_counted_apart(store: DecisionStore, clock: list[float]) -> None:
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        made = decide(decider, 5)
        clock[0] += 60
        decider.upload_prior(arms(scale=2.0), activate=True)
        decide(decider, 3)
        decider.reward(made[0].id, 1.0)
    clock[0] += 60
    with Decider(None, store, policy="greedy", seed=1) as decider:
        decide(decider, 2)
    found = [
        (row.version, row.policy, row.first_at - START, row.last_at - START, row.earned.decisions)
        for row in store.versions()
    ]
    assert found == [(1, "ts", 0, 0, 5), (2, "greedy", 120, 120, 2), (2, "ts", 60, 60, 3)]
    assert [row.earned.rewards for row in store.versions()] == [1, 0, 0]


def test_silence_is_counted_apart(store: DecisionStore, clock: list[float]) -> None:
    settings = {"reward_window": 60.0, "default_reward": 0.0}
    with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        made = decide(decider, 6)
        deferred = decide(decider, 3, defer=True)
        decider.activate(deferred[0].id)
        decider.reward(made[0].id, 1.0)
        clock[0] += 61
        while store.has_open_defaults():
            decider.end_windows()
        assert decider.reward(made[1].id, 1.0).late
    (row,) = store.versions()
    assert row.earned == Earnings(
        decisions=9, deferred=2, rewards=7, defaults=6, late=1, reward_sum=1.0, reward_squares=1.0,
        counted=7,
    )  # fmt: skip
    assert row.earned.unrewarded == 2
    assert rebuild(store, write=False).counts == 0


def test_rows_of_features_are_no_arms(store: DecisionStore, clock: list[float]) -> None:
    with Decider(linear(), store, policy="ts", seed=1) as decider:
        made = [decider.decide("a", ACTIONS) for _ in range(4)]
        decider.reward(made[0].id, 2.5)
    ((arm, earned),) = store.arms(START, 600).items()
    assert (arm, earned.decisions, earned.reward_squares) == (-1, 4, 6.25)


def test_replicas_count_together(opened: Opener, clock: list[float]) -> None:
    one, other = opened(), opened()
    with (
        Decider(arms(), one, policy="ts", seed=1) as first,
        Decider(None, other, policy="ts", seed=2) as second,
    ):
        made = [*decide(first, 10), *decide(second, 10)]
        second.reward_many([Reward(decision.id, 1.0) for decision in made])
    (row,) = one.versions()
    assert (row.earned.decisions, row.earned.rewards, row.earned.reward_sum) == (20, 20, 20.0)
    assert rebuild(one, write=False).counts == 0


def test_wrong_counts_are_found_and_made_again(store: DecisionStore, clock: list[float]) -> None:
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        made = decide(decider, 20)
        decider.reward_many([Reward(one.id, 1.0) for one in made[:11]])
    right = store.arms(START, 600)
    assert rebuild(store).counts == 0
    with store.backend.transaction() as transaction:
        transaction._execute("UPDATE counts SET rewards = rewards + 1 WHERE arm = 0")  # type: ignore[attr-defined]
    assert rebuild(store, write=False).counts == 2, "of ten minutes, and of a day"
    found = rebuild(store)
    assert (found.counts, found.differing) == (2, 0)
    assert store.arms(START, 600) == right
    assert rebuild(store).counts == 0


@pytest.mark.parametrize("mixed_up", [False, True])
def test_a_batch_may_reward_one_decision_and_make_another(
    store: DecisionStore, clock: list[float], mixed_up: bool
) -> None:
    """The reward counts at the earlier decision's time, the new decision at its own.

    A clock that was set back before a restart mixes up their order.
    """
    with Decider(arms(1), store, policy="ts", seed=1) as decider:
        (before,) = decide(decider, 1)
        clock[0] += -60 if mixed_up else 60
        future: Future[object] = Future()
        decider.submit([Reward(before.id, 1.0), Decide("another")], future.set_result)
        future.result()
    (row,) = store.versions()
    assert {row.first_at, row.last_at} == {START, clock[0]}
    found = rebuild(store, write=False)
    assert (found.counts, found.differing, found.windows) == (0, 0, 0)


def test_copies_of_a_store_under_load_are_sound(tmp_path: Path) -> None:
    """Copies by the two ways that the documentation names, six of six."""
    import apsw

    path, ended = tmp_path / "decisions.db", threading.Event()
    copies = [tmp_path / f"copy{i}.db" for i in range(6)]
    settings = {"reward_window": 0.05, "default_reward": 0.0}
    with (
        DecisionStore(path) as store,
        Decider(arms(2), store, policy="ts", seed=1, **settings) as decider,  # type: ignore[arg-type]
    ):

        def load() -> None:
            made: list[Decision] = []
            while not ended.is_set():
                future: Future[list[object]] = Future()
                rewards = [Reward(one.id, 1.0) for one in made[::2]]
                decides = [Decide(f"task {i}") for i in range(8)]
                decider.submit([*rewards, *decides], future.set_result)
                made = [one for one in future.result() if isinstance(one, Decision)]

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        while store.totals().rewards < 50:
            ended.wait(0.01)
        for k, copy in enumerate(copies):
            source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            if k % 2:
                source.execute("VACUUM INTO ?", (str(copy),))
            else:
                target = apsw.Connection(str(copy))
                with target.backup("main", source, "main") as backup:
                    backup.step()
                target.close()
            source.close()
            ended.wait(0.1)
        ended.set()
        for thread in threads:
            thread.join()
    for copy in copies:
        with DecisionStore(copy) as store:
            found = rebuild(store, write=False)
            assert found.decisions > 0
            assert (found.counts, found.differing, found.windows, found.damage) == (0, 0, 0, ())
