"""The page "Learn from logs", as a reader follows it: its files, its commands, what they print."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mixts
from mixts.engines.dask import DaskEngine
from mixts.logs import files, read_logs
from tests.end_to_end.reader import page_blocks, shell, without_numbers, write_scripts

PAGE = "learn-from-logs.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder but for the scripts that the page shows, each named in its first line."""
    folder = tmp_path_factory.mktemp("reader")
    write_scripts(PAGE, folder)
    return folder


@pytest.mark.slow
def test_three_commands_lead_from_clicks_to_an_agent(folder: Path, tmp_path: Path) -> None:
    (commands,) = page_blocks(PAGE, "sh")
    assert len(commands.splitlines()) == 3
    printed = shell(commands, folder, tmp_path / "bin")
    shown = page_blocks(PAGE, "text")
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
    rows[::9] = [row.rpartition(",")[0] + "," for row in rows[::9]]  # no reward
    (tmp_path / "logs.csv").write_text("\n".join(["user,age,spent", *rows]) + "\n")
    monkeypatch.setattr(files, "PIECE_BYTES", 2000)
    monkeypatch.setattr(files, "_SCAN_BYTES", 1000)
    columns = {"task": "user", "features": ["age"], "reward": "spent", "intercept": True}
    columns |= {"missing_reward": 0.0}
    here = read_logs(tmp_path / "logs.csv", **columns)
    with DaskEngine(n_workers=2) as engine:
        there = read_logs(tmp_path / "logs.csv", **columns, engine=engine)
    in_processes = read_logs(tmp_path / "logs.csv", **columns, engine=2)
    assert here.tasks == there.tasks == in_processes.tasks
    assert here.statistics == there.statistics == in_processes.statistics
    assert here.n_missing == there.n_missing == in_processes.n_missing == 100
