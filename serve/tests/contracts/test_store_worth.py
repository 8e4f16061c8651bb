"""The lift of the service, as every store tells it: sums over tasks of what is final."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore
from mixts_serve.lift import Lift
from mixts_serve.records import MetaEntry, Reward
from mixts_serve.store.base import TRIAL_KEY
from mixts_serve.trials import CANARY, CONTROL, TREATED, Holdback, HoldbackTimes
from mixts_serve.worth import Contrast, WorthWatch, compare_rewards, read_worth

import mixts
from serve.tests.contracts.stores import arms, set_clock

START = 1_700_000_000_000_000
MINUTE = 60_000_000


@pytest.fixture(autouse=True)
def clock(store: DecisionStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The store's clock; the key of its trials is known."""
    with store.backend.transaction() as transaction:
        transaction._set(MetaEntry(TRIAL_KEY, bytes(16).hex()))
    now = [START]
    set_clock(monkeypatch, lambda: now[0])
    return now


def shop(
    decider: Decider, n_tasks: int, rng: np.random.Generator, rates: tuple[float, float]
) -> list[tuple[Decision, float, float]]:
    """Decide for tasks up to three times; return decisions, clicks and the metric of clicks.

    Clicks depend on the arm only, at two rates.
    """
    found = []
    for k in range(3):
        names = [f"visitor {i}" for i in range(n_tasks) if i % 3 >= k]
        made = decider.decide_many([Decide(name) for name in names])
        for one in made:
            assert isinstance(one, Decision)
            click = float(rng.random() < rates[one.action == 0])
            found.append((one, click, click * float(rng.random() < 0.5)))
    sent = [Reward(one.id, y, {"returned": m} if m else None) for one, y, m in found]
    assert not any(isinstance(r, mixts.errors.MixtsError) for r in decider.reward_many(sent))
    return found


def test_sums_are_those_of_the_tasks(store: DecisionStore) -> None:
    rng = np.random.default_rng(1)
    with Decider(arms(), store, seed=1) as decider:
        shop(decider, 20, rng, (0.5, 0.5))  # no trial is on: these do not count
    assert read_worth(store) is None
    with Decider(None, store, holdback=0.3, seed=2) as decider:
        made = shop(decider, 120, rng, (0.2, 0.6))
        assert decider.worth() is None  # not read yet
    worth = read_worth(store)
    assert worth is not None
    assert (worth.baseline, worth.share, worth.until) == ("bestseller", 0.3, math.inf)
    side = dict(
        store.backend.query(
            "SELECT t.name, MAX(d.side) FROM decisions d JOIN tasks t ON t.number = d.task "
            "GROUP BY t.name"
        )
    )
    check_sums(worth.rewards, [(one.task, y) for one, y, _ in made], side)
    check_sums(worth.metrics["returned"], [(one.task, m) for one, _, m in made], side)


def check_sums(found: Lift, values: list[tuple[str, float]], side: dict[str, str]) -> None:
    """Compare the sums of both sides with those of plain Python."""
    for name, sums in ((CONTROL, found.control), (TREATED, found.treated)):
        by_task = defaultdict(list)
        for task, value in values:
            if side[task] == name:
                by_task[task].append(value)
        n = np.array([len(own) for own in by_task.values()])
        y = np.array([sum(own) for own in by_task.values()])
        of_decisions, of_tasks = (y - y.sum() / n.sum() * n) ** 2, (y - y.mean()) ** 2
        expected = (
            len(n), n.sum(), y.sum(), abs(y).sum(), of_decisions.sum(), (of_decisions**2).sum(),
            of_tasks.sum(), (of_tasks**2).sum(),
        )  # fmt: skip
        assert [getattr(sums, f) for f in sums.__struct_fields__] == pytest.approx(expected)


def test_clicks_do_not_count_before_the_zeros_of_the_same_time(
    store: DecisionStore, clock: list[int]
) -> None:
    options = {"holdback": 0.5, "reward_window": 600.0, "default_reward": 0.0}
    with Decider(arms(), store, **options) as decider:  # type: ignore[arg-type]
        old = decider.decide_many([Decide(f"old {i}") for i in range(40)])
        clock[0] += 9 * MINUTE
        new = decider.decide_many([Decide(f"new {i}") for i in range(40)])
        for one in (old[0], new[0]):
            assert isinstance(one, Decision)
            decider.reward(one.id, 1.0)
        clock[0] += 2 * MINUTE
        decider.end_windows()
        worth = read_worth(store)
        assert worth is not None
        sums = worth.rewards.control, worth.rewards.treated
        assert sum(side.decisions for side in sums) == 40
        assert sum(side.total for side in sums) == 1
        assert START / 1e6 < worth.until <= START / 1e6 + 60
        clock[0] += 10 * MINUTE
        decider.end_windows()
        later = read_worth(store)
    assert later is not None
    sums = later.rewards.control, later.rewards.treated
    assert sum(side.decisions for side in sums) == 80


def test_a_better_service_has_a_lift_and_shuffled_sides_have_none(store: DecisionStore) -> None:
    rng = np.random.default_rng(3)
    with Decider(arms(), store, holdback=0.4, baseline="uniform", seed=3) as decider:
        shop(decider, 900, rng, (0.1, 0.9))
    better = read_worth(store)
    assert better is not None
    assert better.rewards.per_decision is not None
    assert better.rewards.per_decision.direction == 1
    with store.backend.transaction() as transaction:
        transaction._execute(
            "UPDATE decisions SET side = CASE WHEN task % 5 < 2 THEN 'control' ELSE 'treated' END"
        )
    shuffled = read_worth(store)
    assert shuffled is not None
    assert shuffled.rewards.per_decision is not None
    assert shuffled.rewards.per_decision.interval is not None
    assert shuffled.rewards.per_decision.direction == 0


def test_a_service_that_is_no_better_has_no_lift(store: DecisionStore) -> None:
    rng = np.random.default_rng(4)
    with Decider(arms(), store, holdback=0.4, baseline="uniform", seed=3) as decider:
        shop(decider, 900, rng, (0.4, 0.4))
    worth = read_worth(store)
    assert worth is not None
    assert worth.warnings == ()
    for one in (worth.rewards.per_decision, worth.rewards.per_task):
        assert one is not None
        assert one.interval is not None
        assert one.direction == 0


@pytest.mark.parametrize(
    "then", [{"holdback": 0.1}, {"holdback": 0.5, "baseline": "uniform"}], ids=["share", "baseline"]
)
def test_a_holdback_that_is_changed_begins_a_new_comparison(
    store: DecisionStore, clock: list[int], then: dict[str, Any]
) -> None:
    """Rewards fall for everybody. Of a larger share, more held back tasks are of the good time."""
    rng = np.random.default_rng(8)
    with Decider(arms(), store, holdback=0.5, seed=8) as decider:
        shop(decider, 900, rng, (0.6, 0.6))
        first = read_worth(store)
    clock[0] += MINUTE
    with Decider(None, store, **then) as decider:
        made = shop(decider, 900, rng, (0.2, 0.2))
        clock[0] += MINUTE
        worth = read_worth(store)
    assert first is not None
    assert worth is not None
    assert worth.since == (START + MINUTE) / 1e6
    assert worth.rewards.control.decisions + worth.rewards.treated.decisions == len(made)
    assert worth.rewards.per_decision is not None
    assert worth.rewards.per_decision.direction == 0
    assert worth.warnings == ()  # the tasks of the other share are no mismatch


def test_a_restart_goes_on_with_the_comparison_and_the_end_of_the_holdback_ends_it(
    store: DecisionStore, clock: list[int]
) -> None:
    rng = np.random.default_rng(9)
    with Decider(arms(), store):
        assert read_worth(store) is None
    for n in (30, 60):
        with Decider(None, store, holdback=0.5, seed=9) as decider:
            shop(decider, n, rng, (0.5, 0.5))
            clock[0] += MINUTE
    before = read_worth(store)
    assert before is not None
    assert (before.since, before.share) == (START / 1e6, 0.5)
    with Decider(None, store, seed=9) as decider:
        version = decider.upload_prior(arms(scale=2.0))
        decider.start_canary(version, 0.5)  # its tasks and the others are on sides, too
        shop(decider, 90, rng, (0.9, 0.9))
        clock[0] += MINUTE
        after = read_worth(store)
    assert after is not None
    assert after.rewards == before.rewards
    assert after.ended == (START + 2 * MINUTE) / 1e6
    with Decider(None, store, holdback=0.5):
        again = read_worth(store)  # it goes on
        assert again is not None
        assert (again.rewards, again.ended) == (before.rewards, None)


def test_what_makes_the_comparison_doubtful_is_said(store: DecisionStore) -> None:
    with Decider(arms(), store, holdback=0.3, seed=5) as decider:
        made = decider.decide_many([Decide(f"visitor {i}") for i in range(1200)])
        control = {
            bytes(id).hex()
            for (id,) in store.backend.query("SELECT id FROM decisions WHERE side = 'control'")
        }
        sent = [
            Reward(one.id, float(i % 2))
            for i, one in enumerate(made)
            if isinstance(one, Decision) and (one.id not in control or i % 4)
        ]
        decider.reward_many(sent)
        with store.backend.transaction() as transaction:
            HoldbackTimes.note(transaction, Holdback(0.2))
        worth = read_worth(store)
    assert worth is not None
    mismatch, rewards = worth.warnings
    assert f"{len(control)} of 1,200 tasks are held back" in mismatch
    assert "not 20.00%" in mismatch
    assert "100.0% of the others" in rewards


def test_any_two_sides_of_tasks_born_since_a_time_are_compared(
    store: DecisionStore, clock: list[int]
) -> None:
    with Decider(arms(), store, holdback=0.2, seed=6) as decider:
        shop(decider, 30, np.random.default_rng(6), (0.5, 0.5))
        clock[0] += MINUTE
        version = decider.upload_prior(arms(scale=2.0))
        decider.start_canary(version, 0.5)
        made = decider.decide_many([Decide(f"new {i}") for i in range(60)])
        decider.reward_many([Reward(one.id, 1.0) for one in made if isinstance(one, Decision)])
    contrast = Contrast(((clock[0], None),), TREATED, (CANARY,), only_new=True)
    found = compare_rewards(store, contrast, math.inf)
    sides = dict(store.backend.query("SELECT side, COUNT(*) FROM decisions WHERE at >= ? "
                                     "GROUP BY side", (clock[0],)))  # fmt: skip
    assert (found.control.tasks, found.treated.tasks) == (sides[TREATED], sides[CANARY])
    whole = read_worth(store)
    assert whole is not None
    assert whole.rewards.treated.tasks > sides[TREATED] + sides[CANARY]


def test_the_watch_reads_only_while_tasks_are_held_back(store: DecisionStore) -> None:
    watch = WorthWatch(store)
    with Decider(arms(), store, seed=7) as decider:
        decider.decide("a")
        assert watch.work() >= watch.pause()
        assert watch.worth is None
    with Decider(None, store, holdback=0.5, seed=7) as decider:
        shop(decider, 30, np.random.default_rng(7), (0.5, 0.5))
    watch.work()
    assert watch.worth == read_worth(store)
