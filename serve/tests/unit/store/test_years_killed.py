"""``kill -9`` while a store is archived, erased from, copied or refitted: nothing is half done."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward, refits
from mixts_serve.store import archive as archives
from mixts_serve.store import export
from mixts_serve.store.rebuild import rebuild

from mixts.cli import main
from serve.tests.contracts.stores import arms

parquet = pytest.importorskip("pyarrow.parquet")

COMMANDS = (archives, export, rebuild, refits)
"""Imported before a command begins, so that kills meet its work."""
# Each command is a fork of one process that has imported this module.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])
LONGEST = 0.5
"""Largest random delay of a kill, in seconds."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    with DecisionStore(path) as store, Decider(arms(), store, seed=1, policy="ts") as decider:
        for k in range(20):
            made = decider.decide_many([Decide(f"user {i}", key=str(k)) for i in range(30)])
            decider.reward_many([Reward(one.id, 1.0) for one in made[k % 3 :: 2]])  # type: ignore[union-attr]
    return path


def decisions(path: Path) -> dict[str, str]:
    """Return the task of each decision in a store, which is sound."""
    with DecisionStore(path, create=False) as store:
        found = rebuild(store, write=False)
        assert (found.n_differences, found.damage) == (0, ())
        sql = "SELECT d.id, t.name FROM decisions d JOIN tasks t ON t.number = d.task"
        return {bytes(id).hex(): name for id, name in store.backend.query(sql)}


def command(pipe: Connection, words: tuple[str, ...]) -> None:
    """Run a command, in files so small that there are many, when the test says so."""
    archives.FILE_DECISIONS, archives._NAMES = 20, 3
    pipe.send("ready")
    pipe.recv()
    sys.exit(main(list(words)))


def run(kill_after: float | None, *words: str) -> bool:
    """Run a command, and kill it after some seconds; return whether it ended before."""
    here, there = multiprocessing.Pipe()
    process = PROCESSES.Process(target=command, args=(there, words))
    with here, there:
        process.start()
        assert here.recv() == "ready"
        here.send("go")
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        process.join()
    assert process.exitcode in (0, -9)
    return process.exitcode == 0


def archived(folder: Path) -> Counter[str]:
    return Counter(
        id for file in folder.glob("*.parquet") for id in parquet.read_table(file)["id"].to_pylist()
    )


@pytest.mark.parametrize("n_kills", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_archive(n_kills: int, made: Path, tmp_path: Path) -> None:
    rng, whole = np.random.default_rng(1), decisions(made)
    path, files = tmp_path / "decisions.db", tmp_path / "archive"
    words = ("store", "archive", str(path), "--keep", "0.001", "--to", str(files))
    for kill in range(n_kills + 1):
        if not path.exists():
            shutil.copy(made, path)
            files.mkdir()
        ended = run(rng.uniform(0, LONGEST) if kill < n_kills else None, *words)
        left = decisions(path)
        assert left.keys() | archived(files).keys() == whole.keys(), "nothing is lost"
        if ended:
            assert left == {}
            assert set(archived(files).values()) == {1}, "nothing is twice"
            path.unlink()
            shutil.rmtree(files)


@pytest.mark.parametrize("n_kills", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_erase(n_kills: int, made: Path, tmp_path: Path) -> None:
    rng, whole = np.random.default_rng(2), Counter(decisions(made).values())
    path, names = tmp_path / "decisions.db", sorted(whole)[::2]
    (tmp_path / "names").write_text("\n".join(names))
    for kill in range(n_kills + 1):
        if not path.exists():
            shutil.copy(made, path)
        words = ("store", "erase", str(path), "--file", str(tmp_path / "names"))
        ended = run(rng.uniform(0, LONGEST) if kill < n_kills else None, *words)
        left = Counter(decisions(path).values())
        assert all(left[name] == whole[name] for name in left), "a task is whole or gone"
        assert left.keys() >= whole.keys() - set(names)
        with DecisionStore(path) as store:
            assert store.totals().decisions == left.total()
        if ended:
            assert left.keys() == whole.keys() - set(names)
            path.unlink()


@pytest.mark.parametrize("n_kills", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_backup(n_kills: int, made: Path, tmp_path: Path) -> None:
    rng, whole, copy = np.random.default_rng(3), decisions(made), tmp_path / "copy.db"
    for kill in range(n_kills + 1):
        delay = rng.uniform(0, LONGEST / 5) if kill < n_kills else None
        ended = run(delay, "store", "backup", str(made), str(copy))
        assert copy.exists() or not ended
        if copy.exists():
            assert decisions(copy) == whole
            copy.unlink()


@pytest.mark.parametrize("n_kills", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_refit(n_kills: int, made: Path, tmp_path: Path) -> None:
    rng, whole, path = np.random.default_rng(4), decisions(made), tmp_path / "decisions.db"
    for kill in range(n_kills + 1):
        if not path.exists():
            shutil.copy(made, path)
        delay = rng.uniform(0, LONGEST / 2) if kill < n_kills else None
        ended = run(delay, "refit", str(path), "--root-tasks", "50")
        assert decisions(path) == whole
        with DecisionStore(path) as store:
            versions = [(each.version, each.active) for each in store.priors()]
        assert versions in ([(1, True)], [(1, False), (2, True)]), (
            "stored and activated, or neither"
        )
        assert len(versions) == 2 or not ended
        if ended:
            path.unlink()
