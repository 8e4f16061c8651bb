"""Features of logs: which columns are text, their levels, and rows that do not depend on pieces."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mixts
from mixts.errors import ParameterError
from mixts.logs import files, levels, read_logs

COLUMNS = {"task": "user", "reward": "spent"}


def write(path: Path, rows: list[list[Any]], header: str = "user price brand spent") -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(), *rows])
    return path


def shop(path: Path, n_rows: int = 60) -> Path:
    rng = np.random.default_rng(4)
    brands = ["item 10", "item 2", "bolt"]
    rows = [
        [f"u{i % 5}", round(rng.uniform(1, 9), 2), brands[rng.integers(3)], round(rng.normal(), 3)]
        for i in range(n_rows)
    ]
    return write(path, rows)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return shop(tmp_path / "log.csv")


def test_text_becomes_levels_beside_numbers(log: Path) -> None:
    logs = read_logs(log, **COLUMNS, features=["price", "brand"], intercept=True)
    brand = mixts.LevelFeature("brand", ("bolt", "item 2", "item 10"), reference="bolt")
    assert logs.space == mixts.Features(["price", brand], intercept=True)
    assert logs.features == ("intercept", "price", "brand=item 2", "brand=item 10")
    # The statistics are those of the rows that the features make of the file.
    with log.open() as file:
        found = list(csv.DictReader(file))
    belief = mixts.MixturePrior(mixts.LinearGaussian.standard(4, 1.0)).belief(5)
    described = [{"price": float(row["price"]), "brand": row["brand"]} for row in found]
    tasks = [int(row["user"][1:]) for row in found]
    belief.update(logs.space.rows(described), [float(row["spent"]) for row in found], tasks)
    for name in logs.statistics.fields:
        one, other = logs.statistics.array(name), belief.statistics.array(name)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_without_a_constant_the_first_text_keeps_all_levels(tmp_path: Path) -> None:
    rows = [[f"u{i % 3}", "ab"[i % 2], "xyz"[i % 3], i] for i in range(12)]
    log = write(tmp_path / "log.csv", rows, "user size colour spent")
    logs = read_logs(log, **COLUMNS, features=["size", "colour"])
    assert logs.features == ("size=a", "size=b", "colour=y", "colour=z")


@pytest.mark.parametrize("batch_rows", [7, 1000])
@pytest.mark.parametrize("engine", [None, "processes"])
def test_batches_pieces_and_processes_give_the_same_bits(
    log: Path,
    tmp_path: Path,
    monkeypatch: Any,
    request: pytest.FixtureRequest,
    batch_rows: int,
    engine: str | None,
) -> None:
    arguments: Any = {**COLUMNS, "features": ["price", "brand"], "intercept": True}
    monkeypatch.setattr(files, "PIECE_BYTES", 300)
    expected = read_logs([log, shop(tmp_path / "more.csv", 9)], **arguments)
    found = read_logs(
        [log, tmp_path / "more.csv"],
        **arguments,
        batch_rows=batch_rows,
        engine=engine and request.getfixturevalue(engine),
    )
    assert found.space == expected.space
    for name in expected.statistics.fields:
        one, other = expected.statistics.array(name), found.statistics.array(name)
        # Other batches rotate the same rows in the same order: the same bits.
        np.testing.assert_array_equal(one, other)


def test_columns_of_numbers_with_some_faults_stay_numbers(tmp_path: Path) -> None:
    rows = [["u", 1, "a", 1], ["u", 2, "b", 2], ["u", "?", "a", 3]]
    logs = read_logs(write(tmp_path / "log.csv", rows), **COLUMNS, features=["price"])
    assert logs.space == mixts.Features(["price"])
    assert dict(logs.bad_rows.counts) == {"feature 'price' is not a number": 1}


def test_a_few_numbers_beside_a_text_are_levels(tmp_path: Path) -> None:
    """A column such as 20, 30, 50plus lost all rows of its text."""
    ages = ["20", "30", "40", "50plus"]
    rows = [[f"u{i % 7}", ages[i % 4 if i % 5 else 0], "a", i % 3] for i in range(400)]
    log = write(tmp_path / "log.csv", rows, "user age brand spent")
    logs = read_logs(log, **COLUMNS, features=["age"], intercept=True)
    assert logs.features == ("intercept", "age=30", "age=40", "age=50plus")
    assert logs.bad_rows.total == 0
    # Clients may send the numbers as numbers: 30, 30.0 and "30" are one level, as in files.
    assert logs.space is not None
    described = [{"age": 30}, {"age": 30.0}, {"age": "30"}, {"age": "50plus"}]
    expected = [[1, 1, 0, 0]] * 3 + [[1, 0, 0, 1]]
    np.testing.assert_array_equal(logs.space.rows(described), expected)


@pytest.mark.parametrize("marker", ["NA", "n/a", "null", "None", "-", "?", " ", "nan"])
def test_a_sign_of_a_missing_value_makes_no_levels(tmp_path: Path, marker: str) -> None:
    rows = [["u", marker if i == 5 else 20 + 10 * (i % 3), "a", i % 3] for i in range(30)]
    log = write(tmp_path / "log.csv", rows, "user age brand spent")
    logs = read_logs(log, **COLUMNS, features=["age"])
    assert logs.features == ("age",)
    assert logs.bad_rows.total == 1


def test_many_numbers_beside_a_text_stay_numbers(tmp_path: Path) -> None:
    rows = [["u", "free" if i == 5 else i, "a", i % 3] for i in range(60)]
    logs = read_logs(write(tmp_path / "log.csv", rows), **COLUMNS, features=["price"])
    assert logs.features == ("price",)
    assert dict(logs.bad_rows.counts) == {"feature 'price' is not a number": 1}


def test_numbers_are_text_on_request_and_in_parquet_by_their_type(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "user": ["u", "v", "u", "v"],
            "zip": [8001, 8002, 8001, 8004],
            "brand": pa.array(["a", "b", "a", "b"]).dictionary_encode(),
            "spent": [1.0, 2.0, 3.0, 4.0],
        }
    )
    path = tmp_path / "log.parquet"
    parquet.write_table(table, path)
    logs = read_logs(path, **COLUMNS, features=["zip", "brand"], text=["zip"])
    assert logs.features == ("zip=8001", "zip=8002", "zip=8004", "brand=b")
    assert read_logs(path, **COLUMNS, features=["zip"]).features == ("zip",)


@pytest.mark.parametrize("kind", [np.array, pd.Index, iter])
def test_names_come_as_an_array_an_index_or_one_by_one(log: Path, kind: Any) -> None:
    expected = read_logs(log, **COLUMNS, features=["price", "brand"])
    logs = read_logs(log, **COLUMNS, features=kind(["price", "brand"]), text=kind(["brand"]))
    assert logs.features == expected.features
    assert logs.statistics == expected.statistics


def test_known_features_are_used_as_they_are(log: Path) -> None:
    brand = mixts.LevelFeature("brand", ("item 2", "bolt"), reference="bolt")
    features = mixts.Features([brand, mixts.NumberFeature("price", 5.0, 2.0)], intercept=True)
    logs = read_logs(log, **COLUMNS, features=features)
    assert logs.space == features
    (reason,) = logs.bad_rows.counts
    assert reason == "feature 'brand' has an unknown level"
    assert "(item 10)" in str(logs.bad_rows)


def test_many_levels_are_refused_or_become_one(tmp_path: Path, monkeypatch: Any) -> None:
    rows = [[f"u{i % 4}", i, f"b{i % 60}" if i < 300 else "b7", i % 5] for i in range(360)]
    log = write(tmp_path / "log.csv", rows)
    with pytest.raises(ParameterError, match=r"'brand' is text with 60 levels.* at most 50"):
        read_logs(log, **COLUMNS, features=["brand"])
    logs = read_logs(log, **COLUMNS, features=["brand"], top_levels=2)
    assert logs.features == ("brand=b0", "brand=b7", "brand=other")
    assert logs.space is not None
    np.testing.assert_array_equal(logs.space.row({"brand": "new"}), [0, 0, 1])
    monkeypatch.setattr(levels, "_MOST_COUNTED", 55)
    with pytest.raises(ParameterError, match="more than 55 levels"):
        read_logs(log, **COLUMNS, features=["brand"], top_levels=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ["price"], "text": ("brand",)}, r"features \(price\), got \['brand'\]"),
        ({"features": ("price", "price")}, r"columns, at least one, got \['price', 'price'\]"),
        ({"features": ["price"], "text": "price"}, "text must be a list"),
        ({"features": ["price"], "top_levels": 0}, "top_levels must be a whole number"),
        ({"features": mixts.Features(["price"]), "intercept": True}, "intercept is a part of"),
        ({"features": mixts.Features(["price"]), "text": ["price"]}, "they are known already"),
    ],
)
def test_wrong_arguments_are_refused(log: Path, arguments: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        read_logs(log, **COLUMNS, **arguments)


def test_text_that_never_changes_is_refused(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", [["u", 1, "acme", 1], ["u", 2, "acme", 2]])
    with pytest.raises(ParameterError, match="only the level 'acme': leave it out"):
        read_logs(log, **COLUMNS, features=["brand"])


def test_the_range_of_numbers_is_learned(log: Path, tmp_path: Path, monkeypatch: Any) -> None:
    with log.open() as file:
        prices = [float(row["price"]) for row in csv.DictReader(file)]
    monkeypatch.setattr(files, "PIECE_BYTES", 300)
    logs = read_logs(log, **COLUMNS, features=["price", "brand"], batch_rows=7)
    assert logs.space is not None
    assert logs.space.columns[0].learned == (min(prices), max(prices))
    # The features of an earlier prior keep what it has learned from, in their own units.
    scaled = mixts.Features([mixts.NumberFeature("price", 5.0, 2.0, (-3.0, 4.0))])
    again = read_logs(log, **COLUMNS, features=scaled).space
    assert again is not None
    assert again.columns[0].learned == (-3.0, pytest.approx(max(prices)))
    assert again == scaled
