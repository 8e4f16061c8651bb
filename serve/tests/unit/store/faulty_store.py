"""A decider on a disk that fails on demand, and a check that its store is undamaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest
from mixts_serve import Decider, DecisionStore, writer
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts.errors import StoreUnavailableError
from serve.tests.faulty_disk import FaultyDisk

PRIOR, OTHER = (
    mixts.MixturePrior(mixts.BernoulliArms([[a, 1.0], [1.0, a]], [[1.0, a], [a, 1.0]]))
    for a in (3.0, 5.0)
)
FULL, BROKEN = "the disk is full", "input or output error"
FAULTS = [
    pytest.param("write", apsw.FullError, FULL, id="full"),
    pytest.param("write", apsw.IOError, BROKEN, id="write"),
    pytest.param("sync", apsw.IOError, BROKEN, id="sync"),
]


@dataclass
class Running:
    disk: FaultyDisk
    store: DecisionStore
    decider: Decider
    path: Path

    def assert_whole(self, n_decisions: int, n_rewards: int) -> None:
        """Check the open store, and the store after opening its file again."""
        for store in (self.store, DecisionStore(self.path)):
            totals = store.totals()
            assert (totals.decisions, totals.rewards) == (n_decisions, n_rewards)
            assert rebuild(store, write=False).differing == 0
            assert store.backend.query("PRAGMA quick_check") == [("ok",)]
        store.close()


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    # The writer does not probe the store, unless a test demands it.
    monkeypatch.setattr(writer, "PROBE_SECONDS", 600.0)
    path = tmp_path / "decisions.db"
    with (
        FaultyDisk() as disk,
        disk.store(path) as store,
        Decider(PRIOR, store, seed=1) as decider,
    ):
        yield Running(disk, store, decider, path)
        disk.mend()


def wait_until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()


def refusals(results: list) -> list[str]:
    return [str(result) for result in results if isinstance(result, StoreUnavailableError)]
