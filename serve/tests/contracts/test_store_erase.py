"""An erased task is gone: from the store's files and exports, and from all counts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Erased, Reward
from mixts_serve.store.base import ERASED_START
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.tables import TABLES

from mixts.errors import ParameterError, UnknownDecisionError, UnknownTaskError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear

SILENCE = {"reward_window": 1e-6, "default_reward": 0.0}
SECRET = "ada-lovelace-1815"


def fill(store: DecisionStore, names: list[str]) -> dict[str, list[str]]:
    """Make all kinds of rows for each name; return the ids of its decisions."""
    ids: dict[str, list[str]] = {name: [] for name in names}
    with Decider(arms(), store, seed=1, policy="ts", **SILENCE) as decider:
        for k in range(3):
            made = decider.decide_many(
                [Decide(name, key=f"{name}/{k}", defer=k == 1) for name in names]
            )
            for one in made:
                ids[one.task].append(one.id)
            decider.activate_many([one.id for one in made[::2]])
        decider.end_windows()
        decider.reward_many([Reward(ids[name][0], 1.0) for name in names])  # late
    with Decider(None, store, seed=2) as decider:
        for name in names:
            shown = decider.decide(name, top=2, values=[1.0, 2.0, 3.0])
            decider.reward(shown.id, 1.0)
            ids[name] += [each.id for each in shown.shown]
    return ids


def is_sound(store: DecisionStore) -> bool:
    found = rebuild(store, write=False)
    return not (found.n_differences or found.damage)


def sums(store: DecisionStore) -> list[int]:
    """Decisions in the log, in the counts of each span, and in the activity."""
    (logged,), *others = (
        store.backend.query(sql)[0]
        for sql in (
            "SELECT COUNT(*) FROM decisions",
            "SELECT CAST(SUM(decisions) AS BIGINT) FROM counts WHERE span > 1000000000",
            "SELECT CAST(SUM(decisions) AS BIGINT) FROM counts WHERE span < 1000000000",
            "SELECT CAST(SUM(decisions) AS BIGINT) FROM activity",
        )
    )
    return [logged, *(n for (n,) in others)]


def test_an_erased_task_leaves_the_store_as_if_it_had_not_been(opened: Opener) -> None:
    store, others = opened(), [f"user {i}" for i in range(5)]
    ids = fill(store, [SECRET, *others])
    before = {name: store.task(name) for name in others}
    totals, watched = store.totals(), opened()
    assert watched.totals() == totals
    with Decider(None, store) as decider:
        assert decider.erase(SECRET) == Erased(1, 5)
        for call in (decider.task, decider.posterior):
            with pytest.raises(UnknownTaskError):
                call(SECRET)
        with pytest.raises(UnknownDecisionError):
            decider.reward(ids[SECRET][0], 1.0)
        assert decider.erase(SECRET) == Erased(unknown=1), "again"
    assert [store.task(name) for name in others] == list(before.values())
    assert store.history(SECRET) == store.tasks(SECRET) == []
    left = store.totals()
    assert (left.tasks, left.decisions) == (5, totals.decisions - 5)
    assert left.rewards == totals.rewards * 5 // 6
    assert watched.totals() == left
    assert sums(store) == [25] * 4
    assert is_sound(store)
    assert all(span.start * 1e6 < ERASED_START for span in store.activity(0.0, 10))
    with Decider(None, store) as decider:
        decider.reward(decider.decide(SECRET).id, 1.0)
        assert decider.task(SECRET).decisions == 1, "a new task"
    assert is_sound(store)


def test_everything_may_be_erased(store: DecisionStore) -> None:
    fill(store, ["a", "b"])
    with Decider(None, store) as decider:
        for name in "ab":
            decider.erase(name)
        assert is_sound(store)
        assert store.totals().decisions == 0
        assert store.arms(0.0, 86_400) == {}
        assert store.versions() == store.traffic(0.0, 86_400, [0]) == []
        for table in ("tasks", "decisions", "rewards", "late_rewards", "activated", "open_windows"):
            assert store.backend.value(f"SELECT COUNT(*) FROM {table}") == 0, table
        made = decider.decide("c")
        assert store.backend.value("SELECT MIN(seq) FROM decisions") == 11, "no number comes twice"
        assert store.history("c")[0].id == made.id
    assert is_sound(store)


def test_actions_that_others_were_offered_too_stay(store: DecisionStore) -> None:
    own = [[0.25, 0.75], [0.5, 0.5]]
    with Decider(linear(), store, seed=1) as decider:
        for task, actions in (("a", ACTIONS), ("b", ACTIONS), ("a", own), ("a", own)):
            decider.reward(decider.decide(task, actions).id, 0.5)
        decider.erase("a")
        assert store.backend.value("SELECT COUNT(*) FROM action_sets") == 1
        assert is_sound(store)
        decider.decide("c", own)  # stored again, under a new number
        assert store.last_offer("c").number == 3  # type: ignore[union-attr]
        decider.erase("b")
    assert is_sound(store)


def test_a_name_is_checked(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        with pytest.raises(ParameterError, match="task must have 1 to 256 characters"):
            decider.erase("")
        assert decider.erase("nobody") == Erased(unknown=1)


def test_decisions_in_flight_come_before_or_after(opened: Opener) -> None:
    """Two replicas decide and reward while a third erases: nothing fails, and all adds up."""
    names = [f"user {i}" for i in range(4)]
    with Decider(arms(), opened(), seed=1) as first:
        first.decide_many([Decide(name) for name in names])
        replicas, troubles = [first], []
        if first.store.backend.database == "PostgreSQL":
            replicas.append(Decider(None, opened(), seed=2))
        ended = threading.Event()

        def load(decider: Decider) -> None:
            rng = np.random.default_rng(3)
            while not ended.is_set():
                try:
                    made = decider.decide(names[rng.integers(4)])
                    decider.reward(made.id, 1.0)
                except UnknownDecisionError:
                    pass  # erased in between
                except Exception as error:
                    troubles.append(error)

        threads = [threading.Thread(target=load, args=(each,)) for each in replicas * 2]
        for thread in threads:
            thread.start()
        erased = sum(replicas[-1].erase(names[k % 4]).tasks for k in range(12))
        ended.set()
        for thread in threads:
            thread.join()
        for other in replicas[1:]:
            other.close()
        assert troubles == []
        assert erased > 4
        assert len(set(sums(first.store))) == 1
    assert is_sound(opened())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_table_has_the_name(table: object, opened: Opener) -> None:
    store = opened()
    fill(store, [SECRET, "other"])
    with Decider(None, store) as decider:
        decider.erase(SECRET)
    for row in store.backend.query(f"SELECT * FROM {table.name}"):  # type: ignore[attr-defined]
        assert SECRET not in str(row)


def test_no_byte_of_the_file_has_the_name(tmp_path: Path) -> None:
    """SQLite leaves copies of rows behind when it splits a page: among thousands, some."""
    path, rng = tmp_path / "decisions.db", np.random.default_rng(1)
    names = [f"{SECRET}-{rng.integers(10**9):09d}" for _ in range(1_000)]
    with DecisionStore(path) as store, Decider(arms(8), store, seed=1, policy="ts") as decider:
        for part in range(0, 1_000, 50):
            made = decider.decide_many([Decide(n, key=f"{n}/1") for n in names[part : part + 50]])
            decider.reward_many([Reward(one.id, 1.0) for one in made])  # type: ignore[union-attr]
        gone, kept = names[::2], names[1]
        store.backend.transact(lambda transaction: transaction.erase(gone))
        assert store.backend.purge()
        files = sorted(tmp_path.iterdir())
        assert [file.name[12:] for file in files] == ["", "-shm", "-wal"]
        content = b"".join(file.read_bytes() for file in files)
        assert kept.encode() in content
        assert [name for name in gone if name.encode() in content] == []
        decider.decide(kept)  # the file works
        assert is_sound(store)


def test_a_read_that_goes_on_delays_overwriting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixts_serve.store._sqlite_log.PURGE_MS", 1)
    with DecisionStore(tmp_path / "decisions.db") as store:
        fill(store, [SECRET])
        reader = store.backend.scan("SELECT name FROM tasks")
        next(reader)
        with Decider(None, store) as decider:
            assert not decider.erase(SECRET).overwritten
            reader.close()  # type: ignore[attr-defined]
            assert decider.erase(SECRET) == Erased(unknown=1)
        for file in tmp_path.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file
