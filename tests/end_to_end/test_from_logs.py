"""The page "Learn from logs", as a reader follows it: its files, its commands, what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import mixts
from mixts.engines.dask import DaskEngine
from mixts.logs import pieces, read_logs
from tests.end_to_end.test_documents import ROOT, fenced_blocks

PAGE = ROOT / "docs" / "how-to" / "learn-from-logs.md"
MIXTS = "import sys; from mixts.cli import main; sys.exit(main())"


def page_blocks(*kinds: str) -> list[str]:
    """The page's blocks of these kinds, in order."""
    blocks = fenced_blocks(PAGE.read_text(encoding="utf-8"))
    return [content for _, _, info, content in blocks if info in kinds]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder but for the scripts that the page shows, each named in its first line."""
    folder = tmp_path_factory.mktemp("reader")
    for content in page_blocks("python", "python no-run"):
        name = re.match(r"# (\w+\.py)\n", content)
        if name is not None:
            (folder / name[1]).write_text(content, encoding="utf-8")
    return folder


def shell(commands: str, folder: Path, programs: Path) -> str:
    """What commands print, with the tests' own interpreter as ``python`` and ``mixts``."""
    programs.mkdir()
    for name, arguments in {"python": (), "mixts": ("-c", MIXTS)}.items():
        words = " ".join(f"'{word}'" for word in (sys.executable, *arguments))
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_numbers(lines: Sequence[str]) -> list[str]:
    """Words only: the last digit may be another on another machine."""
    return [re.sub(r"[0-9][0-9.,]*", "#", line) for line in " ".join(lines).split()]


def test_three_commands_lead_from_clicks_to_an_agent(folder: Path, tmp_path: Path) -> None:
    (commands,) = page_blocks("sh")
    assert len(commands.splitlines()) == 3
    printed = shell(commands, folder, tmp_path / "bin")
    shown = page_blocks("text")
    assert without_numbers(printed.splitlines()) == without_numbers("".join(shown).splitlines())
    assert "3 kinds of task" in printed
    assert "books in 10 of the last 10 rounds" in printed
    prior = mixts.MixturePrior.load(folder / "prior.json")
    assert prior.arm_names == ("books", "games", "hats", "music", "shoes")
    np.testing.assert_allclose(prior.weights.sum(), 1)
    page = (folder / "prior.html").read_text(encoding="utf-8")
    assert "There are 3 kinds of task" in page
    assert "<script" not in page


@pytest.mark.slow
def test_a_dask_cluster_reads_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal((900, 2))
    rows = [f"u{i % 7},{age:.4f},{spent:.4f}" for i, (age, spent) in enumerate(numbers)]
    (tmp_path / "logs.csv").write_text("\n".join(["user,age,spent", *rows]) + "\n")
    monkeypatch.setattr(pieces, "PIECE_BYTES", 2000)
    monkeypatch.setattr(pieces, "_SCAN_BYTES", 1000)
    columns = {"task": "user", "features": ["age"], "reward": "spent", "intercept": True}
    here = read_logs(tmp_path / "logs.csv", **columns)
    with DaskEngine(n_workers=2) as engine:
        there = read_logs(tmp_path / "logs.csv", **columns, engine=engine)
    in_processes = read_logs(tmp_path / "logs.csv", **columns, engine=2)
    assert here.tasks == there.tasks == in_processes.tasks
    assert here.statistics == there.statistics == in_processes.statistics
