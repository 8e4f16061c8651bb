"""Old decisions move to files; what they taught stays, and every decision is in one place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Erased, Reward, refit
from mixts_serve.snapshot import day_of
from mixts_serve.store import archive as archives
from mixts_serve.store.archive import Archived, archive, erase
from mixts_serve.store.base import Transaction
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import Rebuilt, rebuild

import mixts
from mixts.errors import ParameterError, StoreError, UnknownDecisionError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear, set_clock

parquet = pytest.importorskip("pyarrow.parquet")

DAY = 86_400.0
START = 1_773_489_600.0
WINDOW = {"reward_window": 3600.0, "default_reward": 0.0}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all deciders, in seconds."""
    now = [START]
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    return now


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FILE_DECISIONS", 7)


def live(store: DecisionStore, clock: list[float], days: int, prior: Any = None) -> list[str]:
    """Make decisions of all kinds each day, with rewards that come within two days or never."""
    rng, ids = np.random.default_rng(1), []
    offered = None if prior is None else ACTIONS
    with Decider(prior or arms(), store, seed=1, policy="ts", **WINDOW) as decider:
        waiting: list[str] = []
        for day in range(days):
            clock[0] = START + day * DAY
            made = decider.decide_many(
                [Decide(f"user {rng.integers(4)}", offered, defer=k == 3) for k in range(5)]
            )
            new = [one.id for one in made]
            ids += new
            decider.activate(new[3])
            late, waiting = waiting, new[2:]
            clock[0] += 60
            told = [*new[:2], *late[:1]]
            values = (rng.random(3) < 0.5) + (0.1 * rng.normal(size=3) if prior else 0.0)
            decider.reward_many([Reward(*pair) for pair in zip(told, values, strict=False)])
            decider.reward_many([Reward(new[0], metrics={"returned": 1.0})])
            clock[0] += 7200
            decider.end_windows()
    return ids


def files_of(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob("*.parquet"))
    return [row for path in paths for row in parquet.read_table(path).to_pylist()]


def checked(store: DecisionStore) -> Rebuilt:
    found = rebuild(store, write=False)
    assert (found.n_differences, found.damage) == (0, ())
    return found


def everything(store: DecisionStore, folder: Path) -> list[dict[str, Any]]:
    """Rows of the files and of an export, by id."""
    export(store, folder / "rest.parquet")
    rest = parquet.read_table(folder / "rest.parquet").to_pylist()
    (folder / "rest.parquet").unlink()
    return sorted(files_of(folder) + rest, key=lambda row: row["id"])


@pytest.mark.parametrize("prior", [None, linear()], ids=["arms", "features"])
def test_what_was_learned_stays(
    store: DecisionStore, tmp_path: Path, clock: list[float], prior: Any
) -> None:
    live(store, clock, 12, prior)
    before, totals, rows = checked(store), store.totals(), everything(store, tmp_path)
    tasks, earned = store.tasks(), store.versions()
    done = archive(store, tmp_path, 5 * DAY)
    assert 30 <= done.decisions <= 36
    assert done.files >= 5
    assert everything(store, tmp_path) == rows, "each decision is in one place"
    assert max(row["timestamp"].timestamp() for row in files_of(tmp_path)) < clock[0] - 5 * DAY
    assert (store.tasks(), store.totals(), store.versions()) == (tasks, totals, earned)
    found = checked(store)
    assert (found.tasks, found.decisions) == (before.tasks, before.decisions)
    assert (found.archived_tasks, found.archived_decisions) == (4, done.decisions)
    assert archive(store, tmp_path, 5 * DAY) == Archived(0, 0), "again"
    with Decider(None, store, **WINDOW) as decider:
        decider.decide("user 1", None if prior is None else ACTIONS)
    assert archive(store, tmp_path, 1e-3).decisions >= 20
    checked(store)
    with store.backend.transaction() as transaction:
        transaction._execute("UPDATE counts SET rewards = rewards + 1 WHERE span < 1000000000")
    assert rebuild(store).counts > 0
    assert sum(row.earned.decisions for row in store.versions()) == totals.decisions + 1
    assert earned[0] in store.versions()


def test_open_windows_stay_and_archived_decisions_are_closed(
    store: DecisionStore, tmp_path: Path, clock: list[float]
) -> None:
    with Decider(arms(), store, seed=1, reward_window=10 * DAY, default_reward=0.0) as decider:
        is_open, told = decider.decide("a").id, decider.decide("a").id
        decider.reward(told, 1.0)
        clock[0] += 5 * DAY
        assert archive(store, tmp_path, DAY).decisions == 1
        assert [row["id"] for row in files_of(tmp_path)] == [told]
        assert not decider.reward(is_open, 1.0).late
        with pytest.raises(UnknownDecisionError):
            decider.reward(told, 1.0)
    checked(store)


def test_a_reward_that_came_after_a_later_decisions_waits_for_it(
    store: DecisionStore, tmp_path: Path, clock: list[float]
) -> None:
    """Otherwise the sums of a linear task would depend on what is archived, in their last bits."""
    with Decider(linear(), store, seed=1) as decider:
        slow = decider.decide("a", ACTIONS).id
        clock[0] += 5 * DAY
        quick = decider.decide("a", ACTIONS).id
        for id, value in ((quick, 0.1), (slow, 0.7)):
            decider.reward(id, value)
        assert archive(store, tmp_path, DAY).decisions == 0
        clock[0] += 5 * DAY
        assert archive(store, tmp_path, DAY).decisions == 2
    checked(store)


def test_a_file_whose_rows_were_not_deleted_is_written_again(
    store: DecisionStore, tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    live(store, clock, 6)
    rows = everything(store, tmp_path)

    def stop(folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archives, "sync", stop)
        with pytest.raises(KeyboardInterrupt):
            archive(store, tmp_path, DAY)
    # Seven decisions, but for those of the second day whose reward came before one that stays.
    assert 5 <= len(files_of(tmp_path)) <= 7
    assert checked(store).archived_tasks == 0
    archive(store, tmp_path, DAY)
    assert everything(store, tmp_path) == rows


def test_refits_go_on_to_leave_out_days_that_are_older_than_the_archive_keeps(
    store: DecisionStore, tmp_path: Path, clock: list[float]
) -> None:
    live(store, clock, 12)
    sick = str(day_of(int((START + 2 * DAY) * 1e6)))
    refit(store, exclude=[sick], root_tasks=10)
    n = store.totals().decisions
    moved = archive(store, tmp_path, DAY).decisions
    assert 0 < moved < n - 5
    days = {row["timestamp"].date() for row in files_of(tmp_path)}
    assert len(days) > 2
    assert sick not in map(str, days)
    checked(store)
    with Decider(None, store, seed=2) as decider:
        decider.reward(decider.decide("user 1").id, 1.0)
    assert refit(store).excluded == (sick,)
    refit(store, exclude=["none"])
    assert archive(store, tmp_path, DAY).decisions > 5
    checked(store)


def test_a_restored_copy_moves_its_decisions_once(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "archive").mkdir()
    with DecisionStore(tmp_path / "decisions.db") as store:
        live(store, clock, 12)
        rows = everything(store, tmp_path)
        archive(store, folder, 9 * DAY)
        store.backend.backup(tmp_path / "copy.db")
        assert archive(store, folder, 5 * DAY).files > 2
    monkeypatch.setattr(archives, "FILE_DECISIONS", 100)
    with DecisionStore(tmp_path / "copy.db") as store:
        assert archive(store, folder, 6 * DAY).files <= 2
        assert everything(store, folder) == rows, "nothing is lost, and nothing is twice"


def test_a_file_of_a_killed_run_has_no_erased_name(
    store: DecisionStore, clock: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(store, clock, 1)
    clock[0] = START + 30 * DAY
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "archive", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            archive(store, tmp_path, 10 * DAY)
    assert {row["task"] for row in files_of(tmp_path)}
    erase(store, [f"user {k}" for k in range(4)])
    assert archive(store, tmp_path, 10 * DAY) == Archived(0, 0)
    assert not files_of(tmp_path)


def test_a_name_is_erased_from_the_files_too(
    opened: Opener, tmp_path: Path, clock: list[float]
) -> None:
    store, name = opened(), "user 1"
    live(store, clock, 8)
    archive(store, tmp_path, 3 * DAY)
    all_rows, totals = everything(store, tmp_path), store.totals()
    n = sum(row["task"] == name for row in all_rows)
    n_archived = sum(row["task"] == name for row in files_of(tmp_path))
    assert 0 < n_archived < n
    (tmp_path / ".decisions-0-1.parquet.1-2-3.part").write_bytes(b"of a run that was killed")
    first = erase(store, [name, "nobody"])
    assert (first.tasks, first.decisions, first.unknown) == (1, n - n_archived, 1)
    assert first.archived == n_archived
    assert store.totals().decisions == totals.decisions - n
    checked(store)
    assert erase(store, [name], tmp_path) == Erased(0, n_archived, 1)
    assert erase(store, [name], tmp_path) == Erased(unknown=1)
    assert everything(store, tmp_path) == [row for row in all_rows if row["task"] != name]
    assert all(name.encode() not in path.read_bytes() for path in tmp_path.glob("*.parquet"))
    assert list(tmp_path.glob(".*part")) == []
    archive(store, tmp_path, DAY)
    checked(store)


def test_refusals(store: DecisionStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no prior yet"):
        archive(store, tmp_path, DAY)
    once = mixts.MixturePrior(mixts.BernoulliArms.uniform(3), repeatable=False)
    with Decider(once, store), pytest.raises(ParameterError, match="each arm at most once"):
        archive(store, tmp_path, DAY)
    with Decider(arms(), store):
        with pytest.raises(ParameterError, match="is not a folder: make it first"):
            archive(store, tmp_path / "none", DAY)
        with pytest.raises(ParameterError, match="above 0 seconds, got 0"):
            archive(store, tmp_path, 0)
        with (
            archives._locked(tmp_path),
            pytest.raises(ParameterError, match="another process archives"),
        ):
            archive(store, tmp_path, DAY)


def test_an_erasure_that_cannot_reach_the_files_erases_nothing(
    store: DecisionStore, tmp_path: Path
) -> None:
    with Decider(arms(), store) as decider:
        decider.decide("ada")
        with pytest.raises(ParameterError, match="is not a folder"):
            erase(store, ["ada"], tmp_path / "none")
        assert decider.task("ada").decisions == 1


def test_the_watch_predicts_from_what_archived_rewards_taught(
    store: DecisionStore, tmp_path: Path, clock: list[float]
) -> None:
    """A task that all bets know well surprises nobody when only its last rewards are in the log."""
    family = mixts.BernoulliArms([[0.1]], [[0.1]])
    with Decider(mixts.MixturePrior(family), store, seed=1) as decider:
        for _ in range(40):
            decider.reward(decider.decide("a").id, 1.0)
            clock[0] += 60
        archive(store, tmp_path, 600)
        for _ in range(2):
            clock[0] += DAY
            while decider._watch.poll():
                pass
        found = decider.agreements()
    assert found is not None
    assert found.whole.expected > 0.95
    assert json.dumps(found.alarm) == "false"
