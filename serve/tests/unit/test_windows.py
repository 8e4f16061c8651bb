"""The thread that ends reward windows: in time, after failures, and not after the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward
from mixts_serve.store.sqlite import SteadyClock

from mixts.errors import StoreUnavailableError
from serve.tests.contracts.stores import arms

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixts_serve.periodic.POLL_SECONDS", 0.02)
    monkeypatch.setattr("mixts_serve.periodic.LOOK_SECONDS", 0.02)


@pytest.fixture
def store(tmp_path: Path) -> DecisionStore:
    return DecisionStore(tmp_path / "decisions.db")


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_silence_counts_by_itself(store: DecisionStore) -> None:
    with store, Decider(arms(), store, reward_window=0.05, default_reward=0.0) as decider:
        decider.decide_many([Decide(f"t{i}") for i in range(200)])
        wait_for(lambda: store.totals().defaults == 200)
        assert store.unrewarded().due == 0


def test_windows_of_an_earlier_service_end(store: DecisionStore) -> None:
    with store:
        with Decider(arms(), store, reward_window=0.5, default_reward=0.0) as decider:
            decider.decide("u")
        assert store.totals().defaults == 0
        with Decider(None, store):
            wait_for(lambda: store.totals().defaults == 1)


def test_a_store_that_fails_is_tried_again(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter(range(5))
    transaction = store.backend.transaction

    def fail(wait: bool) -> object:
        if next(failures, None) is not None:
            raise StoreUnavailableError("the disk is full")
        return transaction(wait)

    with store, Decider(arms(), store, reward_window=0.05, default_reward=0.0) as decider:
        decider.decide("u")
        monkeypatch.setattr(store.backend, "transaction", fail)
        wait_for(lambda: store.totals().defaults == 1)
    assert next(failures, None) is None


def test_a_closed_decider_has_no_thread(store: DecisionStore) -> None:
    with store:
        Decider(arms(), store, reward_window=0.05, default_reward=0.0).close()
        assert "mixts-windows" not in {thread.name for thread in threading.enumerate()}


def test_a_clock_that_jumps_ends_no_window(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400 * 10**9
    offset = [0]
    clock = SteadyClock(wall=lambda: time.time_ns() + offset[0])
    monkeypatch.setattr("mixts_serve.store.sqlite._CLOCK", clock)
    with store, Decider(arms(), store, reward_window=1800, default_reward=0.0) as decider:
        decision = decider.decide("u")
        for jump in (day, -day):
            offset[0] = jump
            time.sleep(0.2)
            assert decider.end_windows() == 0
            decider.decide("u")
        assert not decider.reward(decision.id, 1.0).late
        times = [row.at for row in store.history("u")]
        assert times == sorted(times)
        assert store.totals().rewards == 1


def test_clicks_only_are_warned_about(store: DecisionStore) -> None:
    with store, Decider(arms(), store) as decider:
        assert decider.health().warning is None
        made = decider.decide_many([Decide(f"t{i % 9}") for i in range(500)])
        decider.reward_many([Reward(decision.id, 1.0) for decision in made[:220]])
        wait_for(lambda: decider.health().warning is not None)
        assert "every reward that came is 1" in (decider.health().warning or "")
