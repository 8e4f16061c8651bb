"""The thread that ends reward windows: in time, after failures, and not after the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mixts
from mixts.errors import ParameterError, StoreUnavailableError
from mixts.service import Decide, Decider, Reward
from mixts.service.clock import SteadyClock
from tests.contracts.stores import arms, linear

PATIENCE = 20.0
DELAY: dict[str, Any] = {"reward_window": 60.0, "default_reward": 0.0, "click_delay": 20.0}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixts.service.windows.POLL_SECONDS", 0.02)
    monkeypatch.setattr("mixts.service.windows.LOOK_SECONDS", 0.02)


@pytest.fixture
def store(tmp_path: Path) -> mixts.DecisionStore:
    return mixts.DecisionStore(tmp_path / "decisions.db")


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_silence_counts_by_itself(store: mixts.DecisionStore) -> None:
    with store, Decider(arms(), store, reward_window=0.05, default_reward=0.0) as decider:
        decider.decide_many([Decide(f"t{i}") for i in range(200)])
        wait_for(lambda: store.totals().defaults == 200)
        assert store.unrewarded().due == 0


def test_windows_of_an_earlier_service_end(store: mixts.DecisionStore) -> None:
    with store:
        with Decider(arms(), store, reward_window=0.5, default_reward=0.0) as decider:
            decider.decide("u")
        assert store.totals().defaults == 0
        with Decider(None, store):
            wait_for(lambda: store.totals().defaults == 1)


def test_a_store_that_fails_is_tried_again(
    store: mixts.DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter(range(5))
    transaction = store.backend.transaction

    def fail(*, wait: bool = True) -> object:
        if next(failures, None) is not None:
            raise StoreUnavailableError("the disk is full")
        return transaction(wait=wait)

    with store, Decider(arms(), store, reward_window=0.05, default_reward=0.0) as decider:
        decider.decide("u")
        monkeypatch.setattr(store.backend, "transaction", fail)
        wait_for(lambda: store.totals().defaults == 1)
    assert next(failures, None) is None


def test_a_closed_decider_has_no_thread(store: mixts.DecisionStore) -> None:
    with store:
        Decider(arms(), store, reward_window=0.05, default_reward=0.0).close()
        assert "mixts-windows" not in {thread.name for thread in threading.enumerate()}


def test_a_clock_that_jumps_ends_no_window(
    store: mixts.DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400 * 10**9
    offset = [0]
    clock = SteadyClock(wall=lambda: time.time_ns() + offset[0])
    monkeypatch.setattr("mixts.service.clock._CLOCK", clock)
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


def test_clicks_only_are_warned_about(store: mixts.DecisionStore) -> None:
    with store, Decider(arms(), store) as decider:
        assert decider.health().warning is None
        made = decider.decide_many([Decide(f"t{i % 9}") for i in range(500)])
        decider.reward_many([Reward(decision.id, 1.0) for decision in made[:220]])
        wait_for(lambda: decider.health().warning is not None)
        assert "every reward that came is 1" in (decider.health().warning or "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"default_reward": None}, "click_delay needs the default reward 0"),
        ({"default_reward": 1.0}, "click_delay needs the default reward 0"),
        ({"click_delay": 0.0}, "seconds above 0"),
        ({"click_delay": float("nan")}, "seconds above 0"),
    ],
)
def test_an_impossible_delay(
    store: mixts.DecisionStore, settings: dict[str, Any], message: str
) -> None:
    with store, pytest.raises(ParameterError, match=message):
        Decider(arms(), store, **{**DELAY, **settings})


def test_only_clicks_have_a_delay(store: mixts.DecisionStore) -> None:
    with store:
        with pytest.raises(ParameterError, match=r"needs Bernoulli arms.*leave the delay out"):
            Decider(linear(), store, **DELAY)
        Decider(linear(), store).close()
        with pytest.raises(ParameterError, match="Bernoulli arms"):
            Decider(None, store, **DELAY)
