"""Every bit of the log's content counts: rows have checksums, checked on demand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward
from mixts_serve.store import sqlite
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.tables import TABLES, Table

from mixts.cli import main
from mixts.errors import StoreError
from serve.tests.contracts.stores import arms, linear

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with rows in every table, and values that databases may store as others."""
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    settings = {"reward_window": 1e-6, "default_reward": -0.0}
    with DecisionStore(path) as store, Decider(arms(), store, seed=1, **settings) as decider:
        made = decider.decide_many(
            [Decide(f"task {i}", key=f"key {i}", defer=i % 3 == 0) for i in range(30)]
        )
        decider.end_windows()
        decider.activate_many([decision.id for decision in made[:9:3]])
        decider.reward_many([Reward(decision.id, 1, {"seen": 2.0}) for decision in made[1:9]])
        decider.decide("task 1", top=2, values=[1, 2, 3])
    with DecisionStore(path) as store, Decider(None, store) as decider:
        made = [decider.decide(f"task {i % 10}") for i in range(60)]
        for number, decision in enumerate(made):
            decider.reward(decision.id, [-0.0, 1, True, np.float64(1.0)][number % 4])
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "decisions.db"))


def damages(path: Path) -> list[str]:
    with DecisionStore(path) as store:
        return list(store.backend.check())


NUMBERED = {table.name: table for table in TABLES if isinstance(table.key, str)}
"""Tables whose rows have checksums, by name."""

ELSEWHERE = {"action_sets", "bases", "removed"}
"""Tables that stay empty here."""

OTHERS = {
    **dict.fromkeys(("family", "name", "policy", "key", "side", "reason"), "'other'"),
    **dict.fromkeys(("digest", "body", "statistics", "id", "weights", "request"), "x'00'"),
    **dict.fromkeys(("slate", "probabilities", "money"), "x'00'"),
    "propensity": "propensity / 2",
}
"""Another value for a column that has no numbers, or not all of them."""


def change(path: Path, sql: str) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(sql)


def test_what_was_written_agrees_with_its_checksums(path: Path) -> None:
    with DecisionStore(path) as store:
        for name in NUMBERED:
            ((n,),) = store.backend.query(f"SELECT COUNT(*) FROM {name}")
            assert n > 0 or name in ELSEWHERE
        assert rebuild(store, write=False).damage == ()
    assert damages(path) == []


def test_actions_with_features(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    with DecisionStore(path) as store, Decider(linear(), store) as decider:
        for i in range(3):
            offered = [{"id": "a", "features": [1.0, i]}, {"id": "b", "features": [0.0, 1.0]}]
            decider.reward(decider.decide("t", offered).id, 0.5)
    assert damages(path) == []
    change(path, "UPDATE action_sets SET ids = replace(ids, 'a', 'c') WHERE number = 2")
    assert damages(path) == ["row 2 of action_sets differs from its checksum"]


@pytest.mark.parametrize("table", [name for name in NUMBERED if name not in ELSEWHERE])
def test_each_column_of_each_table_counts(table: str, path: Path) -> None:
    for column in NUMBERED[table].columns:
        copy = Path(shutil.copy(path, path.with_name("copy.db")))
        other = OTHERS.get(column, f"COALESCE({column}, 0) + 1000")
        change(copy, f"UPDATE {table} SET {column} = {other} WHERE rowid = 1")
        found = damages(copy)
        assert found == [f"row 1 of {table} differs from its checksum"], column


@pytest.mark.parametrize("at_a_time", [1_000, 5])
def test_a_missing_row_is_noticed(
    at_a_time: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_CHECKED_ROWS", at_a_time)
    change(path, "DELETE FROM rewards WHERE seq IN (7, 8)")
    assert damages(path) == ["rows 7 to 8 of rewards are missing"]


def test_erased_rows_are_no_damage_and_lost_ones_are(path: Path) -> None:
    with DecisionStore(path) as store, Decider(None, store) as decider:
        for name in ("task 3", "task 29"):
            decider.erase(name)
    assert damages(path) == []
    change(path, "DELETE FROM rewards WHERE seq = (SELECT MIN(seq) FROM rewards)")
    (found,) = damages(path)
    n = int(found.split()[0])
    assert found == f"{n} rows of rewards are missing, of which {n - 1} were erased or archived"
    change(path, "UPDATE removed SET n = n + 1 WHERE name = 'rewards'")
    assert any("of removed differs from its checksum" in each for each in damages(path))


def test_rows_that_are_erased_during_a_check_are_no_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = sqlite._wrong_rows
    with DecisionStore(path) as store, DecisionStore(path) as other:

        def erase_and_find(execute: sqlite.Execute, table: Table) -> Iterator[Any]:
            if table.name == "decisions":
                other.backend.transact(lambda transaction: transaction.erase(["task 3"]))
            return find(execute, table)

        monkeypatch.setattr(sqlite, "_wrong_rows", erase_and_find)
        assert list(store.backend.check()) == []


def test_a_number_that_became_large_is_noticed(path: Path) -> None:
    change(path, f"UPDATE rewards SET seq = {2**60} WHERE seq = 5")
    found = damages(path)
    assert "rows 5 to 5 of rewards are missing" in found
    assert f"row {2**60} of rewards differs from its checksum" in found


def test_a_row_that_its_index_does_not_find_is_noticed(path: Path) -> None:
    body = path.read_bytes()
    with DecisionStore(path) as store:
        ((id,),) = store.backend.query("SELECT id FROM decisions WHERE seq = 40")
    places = [i for i in range(len(body)) if body.startswith(id, i)]
    assert len(places) == 2  # in the table and in the index
    for place in places:
        copy = path.with_name("copy.db")
        copy.write_bytes(body[: place + 9] + bytes([body[place + 9] ^ 1]) + body[place + 10 :])
        assert any(found.startswith("row 40 of decisions ") for found in damages(copy))


def test_a_damaged_text_is_noticed(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(body.replace(b"key 17", b"key\xff17"))
    found = damages(path)
    assert "row 18 of decisions has a damaged text" in found
    assert not any(each.startswith("row 19 of decisions") for each in found)


# -- flipped bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["decisions", "sqlite_autoindex_decisions_1"])
def test_no_flipped_bit_in_a_decision_passes_the_check(
    table: str, made: Path, tmp_path: Path
) -> None:
    body = made.read_bytes()
    with closing(apsw.Connection(str(made))) as connection:
        leaves = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,)
        ).fetchall()
        log = connection.execute("SELECT group_concat(hex(id)) FROM decisions").get
    pages = {number: body[(number - 1) * 4096 : number * 4096] for (number,) in leaves}
    ids = [bytes.fromhex(id) for id in log.split(",")]
    length = 100 if table == "decisions" else 16
    rng = np.random.default_rng(3)
    path = tmp_path / "decisions.db"
    found = 0
    for id in ids[::7]:
        for number, page in pages.items():
            if id in page:
                found += 1
                place = (number - 1) * 4096 + page.index(id) + int(rng.integers(length))
                bit = 1 << int(rng.integers(8))
                path.write_bytes(body[:place] + bytes([body[place] ^ bit]) + body[place + 1 :])
                assert main(["store", "check", str(path)]) in (1, 2), place
    assert found > 10


def test_a_flipped_bit_in_the_definition_of_a_table_is_noticed(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(body.replace(b"REFERENCES tasks", b"REFERENCES tasky"))
    assert "the definition of table decisions is not that of this version" in damages(path)


def test_a_rebuild_does_not_learn_from_damaged_rows(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(path, "UPDATE rewards SET value = 1 - value WHERE seq = 12")
    assert main(["store", "check", str(path)]) == 1
    assert "damaged: row 12 of rewards differs from its checksum" in capsys.readouterr().out
    with DecisionStore(path) as store, pytest.raises(StoreError, match="row 12 of rewards"):
        rebuild(store)
