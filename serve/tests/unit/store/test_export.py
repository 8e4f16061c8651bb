"""Decisions with their propensities in a Parquet or CSV file."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decider, Decision, DecisionStore
from mixts_serve.rules import DEFAULT_POLICY
from mixts_serve.store import export as module
from mixts_serve.store.export import Exported, export

import mixts
from mixts import errors
from mixts.logs import read_logs
from mixts.logs.decisions import DecisionLog, feature_column
from serve.tests.unit.sample_decisions import NAMES, OFFERS, arms, fill_arms, fill_linear

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def made(folder: Path) -> list[Decision]:
    return fill_arms(folder / "arms.db")


@pytest.fixture(scope="module")
def exported(folder: Path, made: list[Decision]) -> tuple[Exported, Path]:
    with DecisionStore(folder / "arms.db") as store:
        return export(store, folder / "arms.parquet"), folder / "arms.parquet"


def test_every_decision_is_a_row_as_it_was_made(
    exported: tuple[Exported, Path], made: list[Decision]
) -> None:
    done, path = exported
    rows = parquet.read_table(path).to_pylist()
    assert (done.n_rows, done.n_rewards) == (7, 5)
    for row, decision in zip(rows, made, strict=True):
        assert row["id"] == decision.id
        assert row["task"] == decision.task
        assert (row["action"], row["arm"]) == (decision.action, decision.arm)
        assert row["prior_version"] == decision.prior_version
        assert tuple(row["weights"]) == decision.weights
        assert row["pscore"] == decision.propensity == row["action_dist"][decision.action]
        assert sum(row["action_dist"]) == pytest.approx(1, abs=1e-12)
        assert row["n_actions"] == len(row["action_dist"])
        assert (row["rewarded_at"] is None) == (row["reward"] is None)
    assert [row["reward"] for row in rows] == [1, 0, None, 1, 0, 1, None]
    assert [row["late"] for row in rows] == [i == 3 for i in range(7)]
    assert [row["n_actions"] for row in rows] == [3, 3, 3, 3, 4, 4, 4]
    assert rows[1]["action_dist"][1] == 0  # masked
    assert min(rows[0]["action_dist"]) >= 0.1 - 1e-12  # drawn evenly


def test_times_are_in_utc_to_the_microsecond(
    exported: tuple[Exported, Path], folder: Path, made: list[Decision]
) -> None:
    table = parquet.read_table(exported[1])
    assert str(table.schema.field("timestamp").type) == "timestamp[us, tz=UTC]"
    with DecisionStore(folder / "arms.db") as store:
        history = {row.id: row for row in store.history("u1")}
    for row in table.to_pylist():
        if row["task"] == "u1":
            assert row["timestamp"].timestamp() == pytest.approx(history[row["id"]].at, abs=1e-6)
    assert "action_context" not in table.column_names


def test_the_file_says_what_it_is(exported: tuple[Exported, Path], folder: Path) -> None:
    about = DecisionLog(exported[1]).about
    assert about["format"] == "mixts/decisions"
    assert about["version"] == 1
    assert about["mixts"] == mixts.__version__
    assert about["store"] == str(folder / "arms.db")
    assert about["family"] == "bernoulli-arms"
    assert about["since"] is None
    assert about["priors"] == {
        "1": {"names": ["early", "late"], "arm_names": list(NAMES), "features": None},
        "2": {"names": None, "arm_names": [*NAMES, "music"], "features": None},
    }


def test_features_of_the_actions_that_were_offered(tmp_path: Path) -> None:
    made = fill_linear(tmp_path / "linear.db")
    with DecisionStore(tmp_path / "linear.db") as store:
        export(store, tmp_path / "linear.parquet")
    table = parquet.read_table(tmp_path / "linear.parquet")
    offered = dict(zip(table["id"].to_pylist(), table["action_context"].to_pylist(), strict=True))
    assert [offered[decision.id] for decision in made] == [offer.tolist() for offer in OFFERS]
    assert table["arm"].null_count == 3


def test_a_task_that_is_erased_during_an_export_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fill_linear(tmp_path / "linear.db")
    with DecisionStore(tmp_path / "linear.db") as store:
        read = store.backend.read

        def erase_and_read(*arguments: Any) -> list[Any]:
            store.backend.transact(lambda transaction: transaction.erase([made[1].task]))
            return read(*arguments)

        monkeypatch.setattr(store.backend, "read", erase_and_read)
        n = sum(one.task != made[1].task for one in made)
        assert export(store, tmp_path / "linear.parquet").n_rows == n


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({"_PAGE_ROWS": 3}, [3, 3, 1]),
        ({"_PAGE_BYTES": 9 * 8}, [3, 2, 2]),  # 3 + 3 + 3, 3 + 4 and 4 + 4 probabilities
        ({"_PAGE_BYTES": 1}, [1] * 7),
    ],
)
def test_pages_are_bounded_and_lose_nothing(
    exported: tuple[Exported, Path], folder: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], sizes: list[int],
) -> None:  # fmt: skip
    for name, limit in limits.items():
        monkeypatch.setattr(module, name, limit)
    with DecisionStore(folder / "arms.db") as store:
        done = export(store, tmp_path / "paged.parquet")
    file = parquet.ParquetFile(tmp_path / "paged.parquet")
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert groups == sizes
    assert file.read().equals(parquet.read_table(exported[1]))
    assert (done.n_rows, done.n_rewards) == (7, 5)


def test_a_table_that_lacks_a_column_is_refused(exported: tuple[Exported, Path]) -> None:
    table = parquet.read_table(exported[1])
    assert set(table["policy"].to_pylist()) == {DEFAULT_POLICY}
    with pytest.raises(errors.FormatError, match="has no column policy"):
        DecisionLog(table.drop_columns(["policy"]))


def test_a_failure_leaves_the_old_file(
    exported: tuple[Exported, Path], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.parquet").write_text("old")
    pages: list[Any] = []
    table = module._table

    def failing(*arguments: Any) -> Any:
        pages.append(arguments)
        if len(pages) == 2:
            raise OSError("the disk is full")
        return table(*arguments)

    monkeypatch.setattr(module, "_PAGE_ROWS", 3)
    monkeypatch.setattr(module, "_table", failing)
    with DecisionStore(folder / "arms.db") as store, pytest.raises(OSError, match="disk is full"):
        export(store, tmp_path / "out.parquet")
    assert (tmp_path / "out.parquet").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_export_and_writes_do_not_wait_for_each_other(
    exported: tuple[Exported, Path], folder: Path
) -> None:
    """A writer holds its lock all the while, and can commit afterwards."""
    with DecisionStore(folder / "arms.db") as writing, DecisionStore(folder / "arms.db") as store:
        with writing.backend.transaction() as transaction:
            assert export(store, folder / "beside.parquet").n_rows == 7
            assert transaction.shape() is not None
        writing.backend.probe()


def test_no_decisions_yet(tmp_path: Path) -> None:
    with DecisionStore(tmp_path / "new.db") as store:
        with pytest.raises(errors.StoreError, match="has no prior yet, and so no decisions"):
            export(store, tmp_path / "new.parquet")
        with Decider(arms(), store):
            done = export(store, tmp_path / "new.parquet")
    assert (done.n_rows, done.n_rewards) == (0, 0)
    table = parquet.read_table(tmp_path / "new.parquet")
    assert table.num_rows == 0
    assert json.loads(table.schema.metadata[b"mixts"])["family"] == "bernoulli-arms"


def test_a_prior_can_be_learned_from_it(exported: tuple[Exported, Path]) -> None:
    """The file is a log like any other."""
    logs = read_logs(exported[1], task="task", arm="arm", reward="reward")
    rows = [row for row in parquet.read_table(exported[1]).to_pylist() if row["reward"] is not None]
    assert logs.n_rows == 7
    assert logs.bad_rows.total == 2  # no reward
    successes, failures = np.zeros((2, len(logs.tasks), len(logs.arms or ())), int)
    for row in rows:
        place = logs.tasks.index(row["task"]), logs.arms.index(row["arm"])
        (successes if row["reward"] else failures)[place] += 1
    assert np.array_equal(logs.statistics.array("successes"), successes)
    assert np.array_equal(logs.statistics.array("failures"), failures)


@pytest.mark.parametrize("name", ["arms.csv", "arms.csv.gz"])
def test_csv_holds_the_same_rows(
    exported: tuple[Exported, Path], folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(module, "_PAGE_ROWS", 3)
    with DecisionStore(folder / "arms.db") as store:
        done = export(store, folder / name)
    assert done == exported[0]
    assert_same_rows(folder / name, exported[1])


def test_csv_of_features_and_money(tmp_path: Path) -> None:
    fill_linear(tmp_path / "linear.db")
    with DecisionStore(tmp_path / "linear.db") as store:
        with Decider(None, store, seed=1) as decider:
            decider.decide("rich", OFFERS[1], values=[1e-300, 0.1 + 0.2], costs=[0, 1 / 3])
        for name in ("linear.csv", "linear.parquet"):
            export(store, tmp_path / name)
    assert_same_rows(tmp_path / "linear.csv", tmp_path / "linear.parquet")


def assert_same_rows(text: Path, table: Path) -> None:
    """Compare each value of a CSV file with that of a Parquet file; lists are JSON text."""
    opened = gzip.open if text.suffix == ".gz" else open
    with opened(text, "rt", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wanted = parquet.read_table(table).to_pylist()
    assert len(rows) == len(wanted)
    read = {
        list: json.loads, bool: json.loads, float: float, int: int, str: str,
        datetime: datetime.fromisoformat,
    }  # fmt: skip
    for row, right in zip(rows, wanted, strict=True):
        assert row.keys() == right.keys()
        for name, value in right.items():
            assert (None if row[name] == "" else read[type(value)](row[name])) == value, name


def test_a_prior_can_be_learned_from_csv_as_from_parquet(
    exported: tuple[Exported, Path], folder: Path
) -> None:
    with DecisionStore(folder / "arms.db") as store:
        export(store, folder / "again.csv")
    columns = {"task": "task", "arm": "arm", "reward": "reward", "time": "timestamp"}
    right, found = (read_logs(path, **columns) for path in (exported[1], folder / "again.csv"))
    assert (found.tasks, found.arms, found.n_rows) == (right.tasks, right.arms, right.n_rows)
    assert found.bad_rows.total == right.bad_rows.total == 2
    assert found.times is not None
    assert right.times is not None
    assert found.times.first.tolist() == right.times.first.tolist()
    for name in ("successes", "failures"):
        assert np.array_equal(found.statistics.array(name), right.statistics.array(name))


RISKY = (
    '=HYPERLINK("http://example.com")', "@SUM(A1)", "+cmd|' /C calc'!A1", "-2+3+cmd", "=", "'=x",
    "''@x", "-5", "+1.5e3", "'-5", "plain", "'quoted'", "a=b",
)  # fmt: skip


def test_no_cell_of_csv_is_a_formula_and_names_are_read_as_they_were(tmp_path: Path) -> None:
    """A spreadsheet would run it. Numbers are no formulas, and stay as they are."""
    family = mixts.BernoulliArms.uniform(len(RISKY))
    prior = mixts.MixturePrior(family, arm_names=RISKY)
    with (
        DecisionStore(tmp_path / "decisions.db") as store,
        Decider(prior, store, seed=1) as decider,
    ):
        for name in RISKY:
            decider.reward(decider.decide(name, mask=[name]).id, 1)
        export(store, tmp_path / "log.csv")
        export(store, tmp_path / "log.parquet")
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    cells = {cell for row in rows for cell in row.values()}
    risky = {cell for cell in cells if cell[:1] in tuple("=+-@\t\r")}
    assert risky == {"-5", "+1.5e3"}
    columns = {"task": "task", "arm": "arm", "reward": "reward"}
    right, found = (read_logs(tmp_path / f"log.{kind}", **columns) for kind in ("parquet", "csv"))  # type: ignore[arg-type]
    assert set(found.arms) == set(found.tasks) == set(RISKY)
    assert (found.arms, found.tasks) == (right.arms, right.tasks)


def test_a_feature_whose_name_is_a_formula_has_another_column() -> None:
    assert feature_column("price") == "price"
    assert feature_column("=price") == "feature_=price"


@pytest.mark.parametrize("name", ["arms", "arms.json", "arms.csv.zip"])
def test_other_names_are_refused(folder: Path, made: list[Decision], name: str) -> None:
    with (
        DecisionStore(folder / "arms.db") as store,
        pytest.raises(errors.ParameterError, match=r"must end in \.parquet, \.csv or \.csv\.gz"),
    ):
        export(store, folder / name)
    assert not (folder / name).exists()


def test_bridges_say_that_they_read_parquet(folder: Path, made: list[Decision]) -> None:
    with DecisionStore(folder / "arms.db") as store:
        export(store, folder / "bridge.csv")
    with pytest.raises(errors.FormatError, match=r"is not a Parquet file as `mixts store export`"):
        DecisionLog(folder / "bridge.csv")


def test_pyarrow_is_asked_for(
    exported: tuple[Exported, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        DecisionStore(folder / "arms.db") as store,
        pytest.raises(errors.MissingExtraError, match=r"mixts\[table\]"),
    ):
        export(store, folder / "none.parquet")
