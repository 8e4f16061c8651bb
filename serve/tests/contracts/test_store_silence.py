"""Default rewards at the end of reward windows, and deferred decisions, in every store."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Receipt, Reward
from mixts_serve.periodic import WindowCloser
from mixts_serve.records import TaskEntry
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts import errors
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear, set_clock

SECOND = 1_000_000
WINDOW: dict[str, Any] = {"reward_window": 60.0, "default_reward": 0.0, "seed": 1}


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock, and no thread that ends windows: only ``Decider.end_windows`` does."""
    clock = Clock()
    set_clock(monkeypatch, clock)
    monkeypatch.setattr(WindowCloser, "start", lambda self: None)
    return clock


def belief_of(prior: mixts.MixturePrior, rewards: list[tuple[Decision, float]]) -> mixts.Belief:
    belief = prior.belief()
    for decision, value in rewards:
        belief.update(decision.action, value)
    return belief


def counts(store: DecisionStore) -> tuple[int, int, int, int, int]:
    found = store.totals()
    return found.decisions, found.rewards, found.late, found.defaults, found.deferred


# -- default rewards ------------------------------------------------------------------------------


def test_silence_is_a_reward_at_the_end_of_the_window(store: DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        clicked, silent = decider.decide("u"), decider.decide("u")
        decider.reward(clicked.id, 1.0)
        clock.wait(60)
        assert decider.end_windows() == 0  # the last moment of the window
        clock.wait(1e-6)
        assert decider.end_windows() == 1
        assert decider.end_windows() == 0
        state = decider.task("u")
    belief = belief_of(arms(), [(clicked, 1.0), (silent, 0.0)])
    assert state.weights == pytest.approx(belief.weights, abs=1e-12)
    assert (state.rewards, state.late, state.defaults) == (2, 0, 1)
    assert counts(store) == (2, 2, 0, 1, 0)
    rows = store.history("u")
    assert [(row.value, row.is_default, row.late) for row in rows] == [
        (1.0, False, False),
        (0.0, True, False),
    ]
    assert rows[1].rewarded_at == rows[1].due == 1060.0
    assert rebuild(store, write=False).differing == 0


def test_a_reward_after_the_default_is_late_and_kept_beside_it(
    store: DecisionStore, clock: Clock
) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        decision = decider.decide("u")
        clock.wait(61)
        decider.end_windows()
        before = decider.task("u")
        assert decider.reward(decision.id, 1.0) == Receipt(False, late=True)
        assert decider.reward(decision.id, 1.0) == Receipt(True, late=True)
        with pytest.raises(errors.ConflictError, match=r"has the reward 1\.0, which stays"):
            decider.reward(decision.id, 0.0)
        with pytest.raises(errors.ConflictError):
            decider.reward(decision.id, 0.5)
        after = decider.task("u")
    assert after.weights == before.weights
    assert (after.rewards, after.late, after.defaults) == (1, 1, 1)
    (row,) = store.history("u")
    assert (row.value, row.is_default, row.late_value) == (0.0, True, 1.0)
    found = rebuild(store, write=False)
    assert (found.differing, found.late, found.defaults, found.windows) == (0, 1, 1, 0)


def test_a_late_reward_before_the_default_was_written(opened: Opener, clock: Clock) -> None:
    """The belief depends on the times of the events, not on when the service was running."""
    with opened() as store, Decider(arms(), store, **WINDOW) as decider:
        decision = decider.decide("u")
    clock.wait(61)
    with opened() as store, Decider(None, store, **WINDOW) as decider:
        first, again = decider.reward_many([Reward(decision.id, 1.0)] * 2)
        assert (first, again) == (Receipt(False, late=True), Receipt(True, late=True))
        assert decider.end_windows() == 0
        state = decider.task("u")
        belief = belief_of(arms(), [(decision, 0.0)])
        assert state.weights == pytest.approx(belief.weights, abs=1e-12)
        assert counts(store) == (1, 1, 1, 1, 0)
        assert rebuild(store, write=False).differing == 0


@pytest.mark.usefixtures("unchecked")
def test_an_impossible_late_reward_changes_nothing(store: DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        decision = decider.decide("u")
        clock.wait(61)
        with pytest.raises(errors.OutcomeError):
            decider.reward(decision.id, 0.5)
        assert counts(store) == (1, 0, 0, 0, 0)
        assert decider.end_windows() == 1


def test_a_window_ends_once_in_two_deciders(address: str, clock: Clock) -> None:
    if not address.startswith("postgresql"):
        pytest.skip("a file has one decider")
    with DecisionStore(address) as one, DecisionStore(address) as two:
        with Decider(arms(), one, **WINDOW) as first, Decider(None, two, **WINDOW) as second:
            made = first.decide_many([Decide(f"t{i % 3}") for i in range(9)])
            clock.wait(61)
            due = one.due(clock.now, 100)
            assert first.end_windows() == 9
            # The other replica had found the same windows before they ended.
            second._closer._store.due = lambda now, limit: due  # type: ignore[method-assign]
            assert second.end_windows() == 0
            assert second.reward(made[0].id, 1.0) == Receipt(False, late=True)
        assert counts(one) == (9, 9, 1, 9, 0)
        assert rebuild(one, write=False).differing == 0


def test_many_windows_end_in_several_batches(
    store: DecisionStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixts_serve.periodic.WINDOW_BATCH", 4)
    with Decider(arms(), store, **WINDOW) as decider:
        decider.decide_many([Decide(f"t{i % 3}") for i in range(22)])
        clock.wait(61)
        before = decider.batches[0]
        assert decider.end_windows() == 22
        assert decider.batches[0] - before == 6
    assert rebuild(store, write=False).differing == 0


def test_settings_apply_to_new_decisions(opened: Opener, clock: Clock) -> None:
    with opened() as store, Decider(arms(), store, seed=1) as decider:
        forever = decider.decide("u")
    with opened() as store, Decider(None, store, **WINDOW) as decider:
        minute = decider.decide("u")
    with opened() as store:
        with Decider(None, store, reward_window=3600, default_reward=1.0, seed=1) as decider:
            hour = decider.decide("u")
            clock.wait(61)
            assert decider.end_windows() == 1
            assert decider.reward(minute.id, 1.0).late
            assert not decider.reward(forever.id, 1.0).late
            clock.wait(3600)
            assert decider.end_windows() == 1
            assert not decider.reward(decider.decide("u").id, 1.0).late
        values = [(row.value, row.is_default) for row in store.history("u")]
        assert values == [(1.0, False), (0.0, True), (1.0, True), (1.0, False)]
        assert store.history("u")[2].id == hour.id


def test_a_window_without_a_default_ends_in_silence(store: DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, reward_window=60, seed=1) as decider:
        first, second = decider.decide("u"), decider.decide("u")
        clock.wait(61)
        decider.decide("u")
        assert decider.end_windows() == 0
        found = store.unrewarded(clock.now / SECOND)
        assert (found.waiting, found.deferred, found.given_up, found.due) == (1, 0, 2, 0)
        assert decider.reward(first.id, 1.0) == Receipt(False, late=True)
        assert store.unrewarded(clock.now / SECOND).given_up == 1
    with Decider(None, store, seed=1) as decider:
        assert decider.reward(second.id, 1.0).late  # the window is that of the decision
    assert rebuild(store, write=False).windows == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"default_reward": 0.0}, "default_reward needs a reward_window"),
        ({"default_reward": 0.5, "reward_window": 1.0}, "must be a possible reward of"),
        ({"default_reward": float("nan"), "reward_window": 1.0}, "must be a finite number"),
        ({"reward_window": 0.0}, "reward_window must be seconds above 0"),
    ],
)
def test_impossible_settings(
    store: DecisionStore, settings: dict[str, float], message: str
) -> None:
    with pytest.raises(errors.ParameterError, match=message):
        Decider(arms(), store, **settings)
    Decider(arms(), store).close()
    with pytest.raises(errors.ParameterError, match=message):
        Decider(None, store, **settings)


# -- deferred decisions ---------------------------------------------------------------------------


def test_a_decision_that_was_never_shown_never_counts(store: DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        hidden, shown = decider.decide("u", defer=True), decider.decide("u", defer=True)
        assert (hidden.deferred, decider.decide("u").deferred) == (True, False)
        clock.wait(1000)
        assert decider.activate(shown.id) == Receipt(False)
        assert decider.activate(shown.id) == Receipt(True)
        assert decider.end_windows() == 1  # that of the decision which was not deferred
        found = store.unrewarded(clock.now / SECOND)
        assert (found.waiting, found.deferred, found.given_up, found.due) == (1, 1, 0, 0)
        clock.wait(61)
        assert store.unrewarded(clock.now / SECOND).due == 1
        assert decider.end_windows() == 1
        assert decider.task("u").deferred == 1
    assert counts(store) == (3, 2, 0, 2, 1)
    rows = store.history("u")
    assert [row.value for row in rows] == [None, 0.0, 0.0]
    assert [row.activated_at for row in rows] == [None, 2000.0, None]
    assert rebuild(store, write=False).differing == 0


def test_a_reward_activates(store: DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        decision = decider.decide("u", defer=True)
        clock.wait(1000)
        assert decider.reward(decision.id, 1.0) == Receipt(False)
        assert decider.activate(decision.id) == Receipt(True)
        clock.wait(1000)
        assert decider.end_windows() == 0
    (row,) = store.history("u")
    assert (row.value, row.activated_at, row.is_default) == (1.0, 2000.0, False)
    assert counts(store) == (1, 1, 0, 0, 0)
    found = rebuild(store, write=False)
    assert (found.differing, found.windows) == (0, 0)


def test_activations_in_one_batch(store: DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        deferred, plain = decider.decide("u", defer=True), decider.decide("u")
        results = decider.activate_many([deferred.id, deferred.id, plain.id, "0" * 32])
        assert results[:3] == [Receipt(False), Receipt(True), Receipt(True)]
        assert isinstance(results[3], errors.UnknownDecisionError)
        with pytest.raises(errors.UnknownDecisionError):
            decider.activate("nothing")


def test_a_key_stands_for_defer_as_well(store: DecisionStore) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        first = decider.decide("u", key="k", defer=True)
        again = decider.decide("u", key="k", defer=True)
        assert (again.id, again.repeated, again.deferred) == (first.id, True, True)
        with pytest.raises(errors.ConflictError, match="another defer"):
            decider.decide("u", key="k")


@pytest.mark.parametrize("policy", ["ids", "ts"])
def test_deferred_decisions_do_not_wait(store: DecisionStore, clock: Clock, policy: str) -> None:
    with Decider(arms(), store, policy=policy, horizon=9, **WINDOW) as decider:
        deferred = [decider.decide("u", defer=True) for _ in range(3)]
        shown = decider.decide("u")
        decider.activate(deferred[1].id)
        with store.backend.transaction() as transaction:
            (entry,), _ = transaction.lock_tasks(["u"], [], 0)
            waiting = transaction.find_waiting({entry.number: 9}, 100, clock.now, 2**61)
            ids = {d.seq: d.id.hex() for d in _logged(transaction, [*deferred, shown])}
            assert [ids[d.seq] for d in waiting] == [deferred[1].id, shown.id]
            assert (entry.decisions, entry.deferred) == (4, 2)


def _logged(transaction: Any, decisions: list[Decision]) -> list[Any]:
    return list(transaction.find_decisions([bytes.fromhex(d.id) for d in decisions]).values())


# -- the log and what is derived from it ----------------------------------------------------------


@pytest.mark.parametrize("prior", [arms(), linear()], ids=["arms", "linear"])
def test_a_rebuild_finds_everything_again(
    store: DecisionStore, clock: Clock, prior: mixts.MixturePrior
) -> None:
    offered = None if prior.family.n_arms else ACTIONS
    with Decider(prior, store, **WINDOW) as decider:
        for turn in range(4):
            made = decider.decide_many(
                [Decide(f"t{i % 3}", offered, defer=i % 4 == 0) for i in range(12)]
            )
            decider.reward_many([Reward(d.id, 1.0) for d in made[turn::5]])
            decider.activate_many([d.id for d in made[::8]])
            clock.wait(25)
            decider.end_windows()
        before = [decider.task(f"t{i}") for i in range(3)]
        windows = sorted(store.backend.query("SELECT * FROM open_windows"))
    assert windows
    assert rebuild(store, write=False).differing == 0
    with store.backend.transaction() as transaction:
        entries, _ = transaction.lock_tasks(["t0", "t1", "t2"], [], 0)
        wrong = [TaskEntry(e.number, e.name, e.first_at, e.last_at) for e in entries]
        transaction.save_tasks(wrong)
        transaction._execute("DELETE FROM open_windows")
        transaction._execute("INSERT INTO open_windows VALUES (1, 5, 1)")
    found = rebuild(store)
    assert (found.differing, found.windows) == (3, len(windows) + 1)
    assert sorted(store.backend.query("SELECT * FROM open_windows")) == windows
    with Decider(None, store, **WINDOW) as decider:
        assert [decider.task(f"t{i}") for i in range(3)] == before
    assert rebuild(store, write=False).windows == 0


def test_activity_counts_defaults(store: DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, **WINDOW) as decider:
        made = decider.decide_many([Decide("u")] * 3)
        clock.wait(61)
        decider.end_windows()
        decider.reward(made[0].id, 1.0)
    first, second = store.activity(0, 10)
    assert (first.decisions, first.rewards, first.defaults) == (3, 0, 0)
    assert (second.start, second.rewards, second.defaults, second.late) == (1060, 3, 3, 1)


@pytest.mark.parametrize("value", [1.0, 0.0])
def test_clicks_without_silence_are_recognised(store: DecisionStore, value: float) -> None:
    with Decider(arms(), store, seed=1) as decider:
        made = decider.decide_many([Decide(f"t{i % 7}") for i in range(500)])
        decider.reward_many([Reward(d.id, value) for d in made[:199]])
        assert store.only_value() is None
        decider.reward_many([Reward(d.id, value) for d in made[199:210]])
        assert store.only_value() == (1.0 if value else None)
        decider.reward(made[211].id, 1.0 - value)
        assert store.only_value() is None


# -- replicas whose clocks are wrong --------------------------------------------------------------

REPLICA = """
import json, sys, time
read, ahead = time.time_ns, int(sys.argv[2]) * 10**9
time.time_ns, time.time = lambda: read() + ahead, lambda: (read() + ahead) / 1e9
from mixts_serve import Decider, DecisionStore
with (
    DecisionStore(sys.argv[1]) as store,
    Decider(None, store, reward_window=60.0, default_reward=0.0) as decider,
):
    made = decider.decide("of the replica")
    decider.end_windows()
    print(json.dumps([made.id, store.totals().defaults, store.history(made.task)[0].at]))
    sys.stdout.flush()
    sys.stdin.read()
"""
"""Another process that writes to the same database, on a machine whose clock is wrong."""


@contextmanager
def replica(address: str, ahead: int) -> Iterator[list[Any]]:
    """Run a replica; yield its decision, the defaults that it wrote, and the decision's time."""
    with subprocess.Popen(
        [sys.executable, "-c", REPLICA, address, str(ahead)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
@pytest.mark.parametrize("ahead", [7200, -7200])
def test_a_replica_with_a_wrong_clock_ends_no_window(
    address: str, store: DecisionStore, ahead: int
) -> None:
    """The database has one clock for all replicas; before, each followed its own."""
    with Decider(arms(), store, **WINDOW) as decider:
        fresh = decider.decide("u")
        with replica(address, ahead) as (other, n_defaults, at):
            assert n_defaults == 0
            assert decider.end_windows() == 0
            assert at == pytest.approx(time.time(), abs=30)
            assert not decider.reward(fresh.id, 1.0).late
            assert not decider.reward(other, 1.0).late
    assert counts(store) == (2, 2, 0, 0, 0)
