"""Rows of JSON lines, Parquet and standard input, and the places from which reading goes on."""

from __future__ import annotations

import gzip
import io
import json
import queue
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from mixts_serve import Reward, sources
from mixts_serve.records import MadeDecision
from mixts_serve.sources import Note, Row, Source, StandardInput, opened
from pyarrow import parquet

from mixts.errors import ParameterError

LINES = [json.dumps({"id": f"{k:032x}", "value": k}) + "\n" for k in range(10)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 4)


def read(source: Source, note: Note | None = None) -> tuple[list[Row], Note]:
    """All rows after a note, and the note at the end."""
    parts = list(source.parts(note))
    assert all(len(part.rows) <= 4 for part in parts)
    return [row for part in parts for row in part.rows], source.note(parts[-1].end)


def ids(rows: list[Row]) -> list[int]:
    assert all(isinstance(row.record, Reward) for row in rows), [row.reason for row in rows]
    return [int(row.record.decision, 16) for row in rows if isinstance(row.record, Reward)]


def rewards(n: int, **columns: Any) -> pa.Table:
    return pa.table(
        {"id": [f"{k:032x}" for k in range(n)], "value": [float(k) for k in range(n)]} | columns
    )


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("chunk", [7, 100, 1 << 17])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_lines_go_on_from_any_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, chunk: int, n: int
) -> None:
    monkeypatch.setattr(sources, "_CHUNK", chunk)
    path = tmp_path / name
    content = "".join([*LINES[:3], "\r\n", *LINES[3:]]).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    source = opened(str(path))
    rows, end = read(source)
    assert ids(rows) == list(range(10))
    assert [row.number for row in rows] == [1, 2, 3, *range(5, 12)]
    assert (end.offset, end.line) == (len(content), 11)
    later, same = read(opened(str(path)), source.note(rows[n].start))
    assert ids(later) == list(range(n, 10))
    assert [row.start for row in later] == [row.start for row in rows[n:]]
    assert same == end
    assert read(opened(str(path)), end) == ([], end)


def test_a_last_line_counts_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = "".join(LINES[:2])
    for n in range(1, len(LINES[1]) - 1):
        path.write_text(whole[: -1 - n])
        source = opened(str(path))
        rows, note = read(source)
        assert ids(rows) == [0]
        assert "the last line is not complete" in source.remark
        path.write_text(whole)
        assert ids(read(opened(str(path)), note)[0]) == [1]
    path.write_text(whole[:-1])
    source = opened(str(path))
    rows, note = read(source)
    assert ids(rows) == [0, 1]
    assert not source.remark
    path.write_text("".join(LINES))
    rows, _ = read(opened(str(path)), note)
    assert ids(rows) == list(range(2, 10))
    assert rows[0].number == 3


@pytest.mark.parametrize(
    "other",
    [b"", b"".join(line.encode() for line in LINES[:2]), b"x" * 10_000],
    ids=["empty", "shorter", "replaced"],
)
def test_another_file_under_the_same_name_is_noticed(tmp_path: Path, other: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(LINES))
    _, note = read(opened(str(path)))
    path.write_bytes(other)
    with pytest.raises(ParameterError, match=r"is not the file that was read before.*--again"):
        read(opened(str(path)), note)


def test_a_packed_file_that_is_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress("".join(LINES).encode())[:-9])
    with pytest.raises(ParameterError, match=r"cannot be unpacked: .* Is it complete"):
        read(opened(str(path)))
    path.write_text("no gzip")
    with pytest.raises(ParameterError, match="cannot be unpacked"):
        read(opened(str(path)))


def test_a_file_that_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES[0].encode() + b"x" * 1_200_000)
    with pytest.raises(ParameterError, match="line 2 is longer than 1,000,000 bytes"):
        read(opened(str(path)))


@pytest.mark.parametrize("size", [999_999, 1_000_001, 1_200_000, 5_000_000])
def test_a_line_that_is_too_long_does_not_end_the_reading(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl"
    content = f"{LINES[0]}{'x' * size}\n{LINES[1]}{LINES[2]}".encode()
    path.write_bytes(content)
    source = opened(str(path))
    rows, end = read(source)
    reason = "longer than 1,000,000 bytes" if size > 1_000_000 else "not JSON"
    assert [reason in row.reason for row in rows] == [False, True, False, False]
    assert [row.number for row in rows] == [1, 2, 3, 4]
    assert len(rows[1].text) == min(size, 1_000_000)
    assert (end.offset, end.line) == (len(content), 4)
    later, same = read(source, source.note(rows[2].start))
    assert (ids(later), same) == (ids(rows[2:]), end)


def test_a_mark_of_the_byte_order_is_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(LINES), encoding="utf-8-sig")
    rows, end = read(opened(str(path)))
    assert ids(rows) == list(range(10))
    assert end.offset == path.stat().st_size


def test_rows_that_are_none() -> None:
    source = StandardInput("-")
    start = sources.Place(5, 6)
    for raw, kind, reason in (
        (b"{", "row", "not JSON"), (b"\xff", "row", "not JSON"),
        (b"[" * 100_000, "row", "not JSON"),
        (b"3", "row", "expected an object"), (b"{}", "reward", "missing required field `id`"),
        (b'{"id": "a", "value": NaN}', "row", "not JSON"),
        (b'{"task": "a"}', "decision", "missing required field"),
    ):  # fmt: skip
        row = Row.of(source, start, raw)
        assert (row.record, row.kind, row.number) == (None, kind, 7)
        assert reason in row.reason
        assert row.text == raw.decode(errors="replace")
    made = Row.of(source, start, b'{"task": "a", "id": "b", "action": "x"}').record
    assert made == MadeDecision("a", id="b", action="x")


def test_a_name_that_is_no_file(tmp_path: Path) -> None:
    for name in (tmp_path, tmp_path / "missing.jsonl"):
        with pytest.raises(ParameterError, match=r"is not a file: expected \.jsonl"):
            opened(str(name))


# -- standard input -------------------------------------------------------------------------------


class Pipe(io.RawIOBase):
    """A pipe whose writer pauses: ``read1`` waits for the next piece."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: queue.Queue[bytes | Exception] = queue.Queue()

    def read1(self, size: int = -1) -> bytes:
        piece = self.pieces.get()
        if isinstance(piece, Exception):
            raise piece
        return piece


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Pipe:
    pipe = Pipe()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=pipe))
    return pipe


def test_standard_input_waits_for_no_full_batch(pipe: Pipe) -> None:
    parts = opened("-").parts(None)
    assert next(parts).rows == []
    pipe.pieces.put((LINES[0] + LINES[1][:9]).encode())
    assert ids(next(parts).rows) == [0]
    pipe.pieces.put((LINES[1][9:] + LINES[2][:-1]).encode())
    assert ids(next(parts).rows) == [1]
    pipe.pieces.put(b"")
    last = next(parts)
    assert ids(last.rows) == [2]
    assert last.end.line == 2
    assert list(parts) == []


def test_standard_input_gives_others_a_turn(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandardInput, "pause", 0.001)
    parts = opened("-").parts(None)
    assert [next(parts).rows for _ in range(3)] == [[]] * 3
    pipe.pieces.put(LINES[0].encode())
    rows: list[Row] = []
    while not rows:
        rows = next(parts).rows
    assert ids(rows) == [0]
    pipe.pieces.put(OSError("broken"))
    with pytest.raises(OSError, match="broken"):
        list(parts)


# -- Parquet --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(10))
@pytest.mark.parametrize("size", [1, 3, 100])
def test_parquet_goes_on_from_any_row(tmp_path: Path, n: int, size: int) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(rewards(10), path, row_group_size=size)
    source = opened(str(path))
    rows, end = read(source)
    assert ids(rows) == list(range(10))
    assert [row.number for row in rows] == list(range(1, 11))
    later, same = read(opened(str(path)), source.note(rows[n].start))
    assert [row.start for row in later] == [row.start for row in rows[n:]]
    assert ids(later) == list(range(n, 10))
    assert same == end
    assert read(opened(str(path)), end) == ([], end)
    parquet.write_table(rewards(11), path)
    with pytest.raises(ParameterError, match="is not the file that was read before"):
        read(opened(str(path)), end)


def test_parquet_of_metrics_and_decisions(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    maps = pa.array([[("returned", 1.0)], None], pa.map_(pa.string(), pa.float64()))
    structs = pa.array([{"returned": 1.0, "seconds": None}, None])
    for metrics in (maps, structs):
        parquet.write_table(rewards(2, metrics=metrics), path)
        rows, _ = read(opened(str(path)))
        found = [row.record for row in rows]
        assert found == [Reward(f"{0:032x}", 0.0, {"returned": 1.0}), Reward(f"{1:032x}", 1.0)]
    offered = [[{"id": "x", "features": [1.0, 0.0]}]]
    table = {
        "id": ["a"],
        "task": ["t"],
        "action": [0],
        "probabilities": [[1.0]],
        "actions": offered,
    }
    parquet.write_table(pa.table(table), path)
    (row,) = read(opened(str(path)))[0]
    assert isinstance(row.record, MadeDecision)
    assert row.record.actions[0].features == [1.0, 0.0]
    assert json.loads(row.text)["task"] == "t"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": [1.0]}, "lacks the column 'id': rewards have the columns id, value, metrics"),
        ({"id": ["a"]}, "lacks the column 'value'"),
        ({"id": ["a"], "task": ["t"]}, "lacks the column 'action': decisions have"),
        ({"id": ["a"], "value": [1.0], "at": [1]}, "has 'at': rewards have"),
    ],
)
def test_wrong_columns_are_refused(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(ParameterError, match=message):
        read(opened(str(path)))


def test_parquet_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_text("{}")
    with pytest.raises(ParameterError, match="cannot be read as Parquet"):
        read(opened(str(path)))
