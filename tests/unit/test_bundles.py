"""Files of arrays that claim or unpack to more than there is memory: refused, not allocated."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _files
from mixts.errors import FormatError

PRIOR = mixts.MixturePrior(mixts.BernoulliArms([[3.0, 1.0]], [[1.0, 3.0]]))
LOADERS: dict[str, Callable[[Path], Any]] = {
    "prior": mixts.MixturePrior.load,
    "statistics": mixts.Statistics.load,
    "agent": mixts.MixTS.load,
}
HUGE = 10**12


def saved(kind: str, path: Path) -> Path:
    agent = mixts.MixTS(PRIOR, n_tasks=3, seed=1)
    {"prior": PRIOR, "statistics": agent.belief.statistics, "agent": agent}[kind].save(path)
    return path


def npy(shape: tuple[int, ...], data: bytes = bytes(16)) -> bytes:
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def replace_arrays(path: Path, body: bytes) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content if name == "header.json" else body)


@pytest.mark.parametrize("kind", LOADERS)
def test_a_huge_shape_in_a_small_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = saved(kind, tmp_path / "file.zip")
    replace_arrays(path, npy((HUGE, 2)))
    assert path.stat().st_size < 10_000
    with pytest.raises(FormatError, match=r"needs 16,000,000,000,000 bytes, and the file has 16"):
        LOADERS[kind](path)


@pytest.mark.parametrize("kind", LOADERS)
def test_a_zip_that_unpacks_to_more_than_there_is_memory_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_most_bytes", lambda: 2**20)
    path = saved(kind, tmp_path / "file.zip")
    LOADERS[kind](path)
    replace_arrays(path, npy((2**18,), bytes(2**21)))
    assert path.stat().st_size < 40_000
    with pytest.raises(FormatError, match=r"takes [\d,]+ bytes in memory, and at most 1,048,576"):
        LOADERS[kind](path)


def test_a_member_that_unpacks_to_more_than_it_says_is_refused(tmp_path: Path) -> None:
    path = saved("prior", tmp_path / "file.zip")
    replace_arrays(path, npy((2**18,), bytes(2**21)))
    body, size = path.read_bytes(), len(npy((2**18,), bytes(2**21)))
    path.write_bytes(body.replace(size.to_bytes(4, "little"), (144).to_bytes(4, "little")))
    with pytest.raises(FormatError, match="damaged"):
        mixts.MixturePrior.load(path)


@pytest.mark.parametrize("kind", LOADERS)
def test_a_file_larger_than_the_memory_is_not_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(kind, tmp_path / "file.json")
    monkeypatch.setattr(_files, "_most_bytes", lambda: 100)
    with pytest.raises(FormatError, match="is too large"):
        LOADERS[kind](path)


@pytest.mark.parametrize("shape", [[HUGE, 2], [HUGE, 0], [0, HUGE]])
@pytest.mark.parametrize("kind", LOADERS)
def test_a_huge_shape_in_json_is_refused(kind: str, shape: list[int], tmp_path: Path) -> None:
    path = saved(kind, tmp_path / "file.json")
    content = json.loads(path.read_text())
    for entry in content["arrays"].values():
        entry["shape"], entry["values"] = shape, []
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError):
        LOADERS[kind](path)


def test_an_agent_of_more_tasks_than_its_arrays_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    mixts.Exp4(np.eye(2), gamma=0.1, n_tasks=3, seed=1).save(path)
    content = json.loads(path.read_text())
    content["n_tasks"] = HUGE
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=f"{HUGE} tasks, but no array is as long"):
        mixts.Exp4.load(path)


def test_threads_that_write_one_path_publish_whole_files(tmp_path: Path) -> None:
    """Each has a temporary file of its own: none is moved while another thread writes it."""
    path, inside = tmp_path / "prior", threading.Barrier(2)
    first, second = [b"a" * 1000, b"b" * 1000]

    def write(content: bytes) -> None:
        with _files.replacing(path) as part, part.open("wb") as stream:
            stream.write(content[:500])
            stream.flush()
            inside.wait(timeout=60)
            stream.write(content[500:])

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write, content) for content in (first, second)]:
            done.result()
    assert path.read_bytes() in (first, second)
    assert list(tmp_path.iterdir()) == [path]


def test_a_class_of_the_same_name_does_not_replace_ours(tmp_path: Path) -> None:
    ours = mixts.MixTS

    class MixTS(ours):  # type: ignore[misc, valid-type]
        """A user's agent."""

    ours(PRIOR, seed=1).save(tmp_path / "ours")
    MixTS(PRIOR, seed=1).save(tmp_path / "theirs")
    assert type(mixts.Agent.load(tmp_path / "ours")) is ours
    assert type(mixts.Agent.load(tmp_path / "theirs")) is MixTS
