"""Mean rewards under a reward window: those of decisions that are final agree with the truth."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward
from mixts_serve.dashboard import overview_page, task_page
from mixts_serve.store.rebuild import rebuild

from serve.tests.contracts.stores import arms, set_clock

START = 1_773_489_600
"""2026-03-14 12:00 UTC."""
TRUTH = 0.37
WINDOW = 1800.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all stores, in seconds."""
    now = [float(START)]
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    return now


def run(
    decider: Decider,
    clock: list[float],
    minutes: int,
    n: int = 40,
    *,
    defer: bool = False,
) -> dict[str, list[float]]:
    """Decide every minute; clicks come at once, zeros never. Return all outcomes by task."""
    rng = np.random.default_rng(5)
    truth: dict[str, list[float]] = {}
    for _ in range(minutes):
        clock[0] += 60
        made = decider.decide_many([Decide(f"task {i}", defer=defer) for i in range(n)])
        if defer:
            clock[0] += 20
            decider.activate_many([one.id for one in made if isinstance(one, Decision)])
        outcomes = (rng.random(n) < TRUTH).astype(float)
        for one, value in zip(made, outcomes, strict=True):
            assert isinstance(one, Decision)
            truth.setdefault(one.task, []).append(value)
        decider.reward_many(
            [Reward(one.id, 1.0) for one, value in zip(made, outcomes, strict=True) if value]  # type: ignore[union-attr]
        )
        while decider.end_windows():
            pass
    return truth


def mean_on(page: str, place: str) -> float:
    found = re.search(place + r"\D*?(\d\.\d+)", re.sub("<[^>]*>", " ", page))
    assert found is not None, place
    return float(found[1])


def test_the_page_agrees_with_the_truth(store: DecisionStore, clock: list[float]) -> None:
    settings = {"reward_window": WINDOW, "default_reward": 0.0}
    with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        truth = run(decider, clock, 50)
        now = clock[0]
        final = store.final_until(now)
        assert final == now - WINDOW
        # Decisions at the minutes 1 to 19: that of the minute 20 ends its window just now.
        right = sum(sum(values[:19]) for values in truth.values())
        n_final = 40 * 19
        by_arm = list(store.arms(START, 600, final).values())
        for earned in (by_arm, [row.earned for row in store.versions(final)]):
            assert sum(one.counted for one in earned) == n_final
            assert sum(one.reward_sum for one in earned) == right
            assert sum(one.decisions for one in earned) == 40 * 50
        for size in (30, 600, 7200):
            spans = store.earnings(START, size, final)
            assert sum(span.rewards for span in spans) == n_final
            assert sum(span.reward_sum for span in spans) == right
        assert [span.rewards for span in store.earnings(START, 600, final)] == [9 * 40, 10 * 40]
        error = math.sqrt(TRUTH * (1 - TRUTH) / n_final)
        page = overview_page(decider, store, now=now)
        for place in ("Mean reward", "Mean of all:"):
            assert mean_on(page, place) == pytest.approx(right / n_final, abs=6e-4)
            assert mean_on(page, place) == pytest.approx(TRUTH, abs=3 * error)
        assert "12:20" in page, "says which decisions are final"
        own = sum(row.reward_sum for row in store.actions("task 3", 100, final))
        assert own == sum(truth["task 3"][:19])
        assert task_page(decider, store, "task 3", now=now)


def test_a_pause_of_the_service_makes_no_decision_final(
    store: DecisionStore, clock: list[float]
) -> None:
    settings = {"reward_window": 60.0, "default_reward": 0.0}
    with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        decider._closer.close()
        decider.reward(decider.decide("a").id, 1.0)
        clock[0] += 1
        decider.decide("b")
        assert store.final_until(START + 60.0) == START
        assert store.final_until(START + 10_000.0) == START + 1, "the zero is not written yet"


def test_deferred_decisions_are_final_after_their_own_windows(
    store: DecisionStore, clock: list[float]
) -> None:
    settings = {"reward_window": WINDOW, "default_reward": 0.0}
    with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        truth = run(decider, clock, 40, 10, defer=True)
    final = store.final_until(clock[0])
    assert final == clock[0] - WINDOW - 20
    (row,) = store.versions(final)
    # A round takes 80 s, and its decisions are made 20 s before its end.
    n = sum(60 + 80 * i < final - START for i in range(40))
    assert row.earned.counted == 10 * n
    assert row.earned.reward_sum == sum(sum(values[:n]) for values in truth.values())
    assert rebuild(store, write=False).counts == 0


def test_without_default_rewards_every_decision_is_final(
    store: DecisionStore, clock: list[float]
) -> None:
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        decider.reward(decider.decide("a").id, 1.0)
        assert store.final_until(clock[0]) == math.inf
        (row,) = store.versions()
        assert (row.earned.counted, row.earned.mean) == (1, 1.0)
    # Windows of a service with other settings still end.
    settings = {"reward_window": 60.0, "default_reward": 0.0}
    with Decider(None, store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        decider.decide("a")
    with Decider(None, store, policy="ts", seed=1) as decider:
        decider.reward(decider.decide("a").id, 1.0)
        assert store.final_until(clock[0] + 30) == clock[0] - 30
        clock[0] += 61
        decider.end_windows()
        assert store.final_until(clock[0]) == math.inf


def test_older_decisions_keep_the_longer_window_of_their_time(
    store: DecisionStore, clock: list[float]
) -> None:
    """Ten hours were shortened to six, five hours ago."""
    for hours in (10, 6):
        settings = {"reward_window": 3600.0 * hours, "default_reward": 0.0}
        with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
            for _ in range(5):
                clock[0] += 3600
                made = [decider.decide(f"task {i}") for i in range(5)]
                decider.reward(made[0].id, 1.0)
    assert store.final_until(clock[0] + 3600) == START + 3600.0
    (row,) = store.versions(store.final_until(clock[0] + 1800))
    assert row.earned.counted == 0, "only the clicks are known"
