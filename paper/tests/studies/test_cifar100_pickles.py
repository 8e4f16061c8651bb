"""A pickle is a program: these are read as data, or refused, and never run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_paper.studies.cifar100.pickles import read_pickle

from mixts import errors
from paper.tests.studies.cifar100_archives import DIALECTS, dumps

PIXELS = np.arange(12, dtype=np.uint8).reshape(3, 4)
dialects = pytest.mark.parametrize("dialect", DIALECTS)


@dialects
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_such_a_file_holds(dialect: str, order: Any) -> None:
    pixels = np.asarray(PIXELS, order=order)
    value = {b"data": pixels, b"fine_labels": [0, 99, 300, 70_000], b"batch_label": b"x" * 300}
    found = read_pickle(dumps(value, dialect), "train")
    assert list(found) == ["data", "fine_labels", "batch_label"]
    np.testing.assert_array_equal(found["data"], PIXELS)
    assert found["data"].dtype == np.uint8
    assert found["fine_labels"] == [0, 99, 300, 70_000]
    assert found["batch_label"] == b"x" * 300


class Calls:
    """Its pickle calls a function when it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


@dialects
def test_a_pickle_runs_nothing(dialect: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for hostile in (
        Calls(os.system, f"touch {trace}"),
        Calls(eval, f"open({str(trace)!r}, 'w')"),
        Calls(exec, f"open({str(trace)!r}, 'w')"),
        Calls(getattr, "text", "upper"),
        Calls(np.save, str(trace), 1),
        Calls(np.load, str(trace)),
        Calls(open, str(trace), "w"),
    ):
        content = dumps({b"data": hostile}, dialect)
        with pytest.raises(errors.FormatError, match=r"train: the pickle asks for \w+"):
            read_pickle(content, "train")
    assert not trace.exists()
    assert not trace.with_suffix(".npy").exists()


@dialects
@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1, "x"], [None, os]], dtype=object)[:, :1], "'O8', expected u1"),
        (np.zeros((2, 3072), np.float32), "'f4', expected u1"),
        (np.zeros(3, np.int64), "'i8', expected u1"),
        (np.array(["text"]), "'U4', expected u1"),
        (np.zeros(2, [("a", np.uint8)]), "'V1', expected u1"),
        (np.zeros(2, np.uint8)[0], r"asks for numpy\.(_core|core)\.multiarray\.scalar"),
    ],
)
def test_arrays_of_bytes_only(dialect: str, array: Any, message: str) -> None:
    with pytest.raises(errors.FormatError, match=message):
        read_pickle(dumps({b"data": array}, dialect), "train")


class Plain:
    """An instance of a class, any class."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"data": Plain()}, protocol=2), "uses NEWOBJ"),
        (pickle.dumps({"data": PIXELS}, protocol=0), "uses DICT"),
        (pickle.dumps({"data": {1, 2}}, protocol=4), "uses EMPTY_SET"),
        (b"\x80\x02\x82\x01.", "uses EXT1"),
        (b"\x80\x02Pname\n.", "uses PERSID"),
        (b"(ios\nsystem\nS'true'\no.", "uses INST"),
        # Memory for four thousand million entries, asked for in seven bytes.
        (b"\x80\x02}r\xff\xff\xff\xff.", "memo index 4294967295"),
        (b"\x80\x02cnumpy\ndtype\n}X\x01\x00\x00\x00aK\x01sb.", "tries to change a function"),
        (b"\x80\x02cnumpy\nndarray\n).", "must hold a dictionary"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "not callable"),
        (b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.", "asks for os.system"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.", "as 'hex'"),
        (b"\x80\x02]K\x01a.", "must hold a dictionary"),
        (b"\x80\x02}K\x01K\x02s.", "must hold a dictionary"),
        (b"", "pickle"),
        (b"no pickle at all", "pickle"),
        (bytes(range(256)), "pickle"),
    ],
)
def test_what_such_a_file_does_not_need(content: bytes, message: str) -> None:
    with pytest.raises(errors.FormatError, match=message):
        read_pickle(content, "train")


@pytest.mark.parametrize("shape", ["(3, 5)", "(3, -4)", "(True, 12)", "[3, 4]", "12", "('3', 4)"])
def test_a_shape_that_does_not_fit_the_bytes(shape: str) -> None:
    class Lies:
        def __reduce__(self) -> Any:
            function, arguments, state = PIXELS.__reduce__()
            return function, arguments, (state[0], eval(shape), *state[2:])

    with pytest.raises(errors.FormatError, match="it is damaged"):
        read_pickle(dumps({b"data": Lies()}), "train")


@dialects
def test_half_a_file_is_no_file(dialect: str) -> None:
    content = dumps({b"data": PIXELS, b"fine_labels": [1, 2, 3]}, dialect)
    for length in range(len(content)):
        with pytest.raises(errors.FormatError, match="train"):
            read_pickle(content[:length], "train")


def test_turned_bytes_are_refused_or_read_as_other_values(tmp_path: Path) -> None:
    """One byte after another: whatever comes, it is a dictionary of plain values or an error."""
    content = dumps({b"data": PIXELS, b"fine_labels": [1, 2, 3]})
    for place in range(len(content)):
        for turn in (0x01, 0x20, 0x55, 0xFF):
            broken = content[:place] + bytes([content[place] ^ turn]) + content[place + 1 :]
            try:
                found = read_pickle(broken, "train")
            except errors.FormatError:
                continue
            assert all(isinstance(key, str) for key in found)
