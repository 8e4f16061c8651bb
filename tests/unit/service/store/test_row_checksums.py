"""Every bit of the log's content counts: rows have checksums, checked in pieces."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest

from mixts.cli import main
from mixts.errors import StoreError
from mixts.service import Decide, Decider, DecisionStore, Reward, checker
from mixts.service.http.app import Service
from mixts.service.store import _sqlite_file, _sqlite_rows
from mixts.service.store.rebuild import rebuild
from tests.assets.make_decisions import arms, linear
from tests.unit.service.http.calls import get
from tests.unit.service.store.faulty_store import wait_until

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with rows in every table, and values that databases may store as others."""
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    settings = {"reward_window": 1e-6, "default_reward": -0.0}
    with DecisionStore(path) as store, Decider(arms(1.0), store, seed=1, **settings) as decider:
        made = decider.decide_many(
            [Decide(f"task {i}", key=f"key {i}", defer=i % 3 == 0) for i in range(30)]
        )
        decider.end_windows()
        decider.activate_many([decision.id for decision in made[:9:3]])
        decider.reward_many([Reward(decision.id, 1) for decision in made[1:9]])
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
        return [found for piece in store.backend.check() for found in piece]


OTHERS = {
    **dict.fromkeys(("family", "name", "policy", "key"), "'other'"),
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
        for table in _sqlite_rows.TABLES:
            ((n,),) = store.backend.query(f"SELECT COUNT(*) FROM {table}")
            assert n > 0 or table == "action_sets"
        assert rebuild(store, write=False).damage == ()
    assert damages(path) == []


def test_actions_with_features(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    with DecisionStore(path) as store, Decider(linear(1.0), store) as decider:
        for i in range(3):
            offered = [{"id": "a", "features": [1.0, i]}, {"id": "b", "features": [0.0, 1.0]}]
            decider.reward(decider.decide("t", offered).id, 0.5)
    assert damages(path) == []
    change(path, "UPDATE action_sets SET ids = replace(ids, 'a', 'c') WHERE number = 2")
    assert damages(path) == ["row 2 of action_sets differs from its checksum"]


@pytest.mark.parametrize("table", [name for name in _sqlite_rows.TABLES if name != "action_sets"])
def test_each_column_of_each_table_counts(table: str, path: Path) -> None:
    columns = _sqlite_rows.TABLES[table].columns[1:]
    for column in columns:
        copy = Path(shutil.copy(path, path.with_name("copy.db")))
        other = OTHERS.get(column, f"COALESCE({column}, 0) + 1000")
        change(copy, f"UPDATE {table} SET {column} = {other} WHERE rowid = 1")
        found = damages(copy)
        assert found == [f"row 1 of {table} differs from its checksum"], column


def test_a_missing_row_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A check that begins between both rows finds one gap before its start and one after it.
    monkeypatch.setattr("mixts.service.store.sqlite.random.randint", lambda low, high: low)
    change(path, "DELETE FROM rewards WHERE seq IN (5, 6)")
    assert damages(path) == ["rows 5 to 6 of rewards are missing"]


def test_a_row_that_its_index_does_not_find_is_noticed(path: Path) -> None:
    body = path.read_bytes()
    with DecisionStore(path) as store:
        ((id,),) = store.backend.query("SELECT id FROM decisions WHERE seq = 40")
    places = [i for i in range(len(body)) if body.startswith(id, i)]
    assert len(places) == 2  # in the table and in the index
    for place in places:
        copy = path.with_name("copy.db")
        copy.write_bytes(body[: place + 9] + bytes([body[place + 9] ^ 1]) + body[place + 10 :])
        assert len(damages(copy)) == 1


def test_a_damaged_text_is_noticed(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(body.replace(b"key 17", b"key\xff17"))
    assert "row 18 of decisions has a damaged text" in damages(path)


def test_a_check_of_any_size_is_made_of_short_pieces(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_rows, "PIECE_SECONDS", 0.0)
    with DecisionStore(path) as store:
        totals = store.totals()
        n_rows = totals.decisions + totals.rewards + totals.tasks
        assert sum(1 for _ in store.backend.check()) > 0.5 * n_rows


def test_old_rows_get_checksums(tmp_path: Path) -> None:
    asset = Path(__file__).parents[3] / "assets" / "decisions-arms-v6.db"
    path = Path(shutil.copy(asset, tmp_path / "decisions.db"))
    assert damages(path) == []
    change(path, "UPDATE rewards SET value = 1 - value WHERE seq = 2")
    assert damages(path) == ["row 2 of rewards differs from its checksum"]


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
                assert main(["store", "rebuild", str(path), "--check"]) in (1, 2), place
    assert found > 10


def test_a_flipped_bit_in_the_definition_of_a_table_is_noticed(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(
        body.replace(b"policy TEXT NOT NULL DEFAULT 'ts'", b"policy TEXT NOT NULL DEFAULT 'us'")
    )
    with DecisionStore(path) as store:
        (found,) = [found for piece in store.backend.check(full=True) for found in piece]
    assert found == "the definition of table decisions is not that of this version"


def test_a_rebuild_does_not_learn_from_damaged_rows(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(path, "UPDATE rewards SET value = 1 - value WHERE seq = 12")
    assert main(["store", "rebuild", str(path), "--check"]) == 1
    assert "damaged: row 12 of rewards differs from its checksum" in capsys.readouterr().out
    with DecisionStore(path) as store, pytest.raises(StoreError, match="row 12 of rewards"):
        rebuild(store)


def test_a_running_service_says_that_its_store_is_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checker, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(_sqlite_file, "CHECKED_BYTES", 0)  # as if it were large
    change(path, "UPDATE decisions SET action = 1 - action % 2 WHERE seq = 30")
    with DecisionStore(path) as store, Decider(None, store) as decider:
        assert wait_until(lambda: decider.health().n_checks > 0)
        health = decider.health()
        assert (health.writable, health.n_damages) == (True, 1)
        with closing(Service(decider, store)) as service:
            ready = get(service, "/readyz")
            assert ready.status == 200
            assert "row 30 of decisions differs from its checksum" in ready.json["warning"]
            assert "bring the store back from a copy" in ready.json["warning"]
            text = get(service, "/metrics").body.decode()
        assert "mixts_store_damages 1.0" in text
        assert "mixts_only_clicks 0.0" in text
    assert "is damaged: row 30 of decisions" in caplog.text
