"""A process that has one file open more than once keeps SQLite's locks on it.

A POSIX lock is the process's: closing any descriptor of a file drops all of them, and SQLite does
not notice. Another process that then closes the file may take itself for the last one and remove
the log, into which the first one goes on writing; only new versions of SQLite look twice.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from mixts_serve import DecisionStore
from mixts_serve.store import _sqlite_file as sqlite_file

from mixts import errors

pytestmark = pytest.mark.usefixtures("unchecked")

_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
        print("free")
    except BlockingIOError:
        print("held")
"""
"""Program that takes the lock of the last process to close a file
(https://sqlite.org/src/file/src/os.h)."""


def seen_elsewhere(path: Path) -> str:
    """Whether another process finds the file in use."""
    command = [sys.executable, "-c", _LOCK, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("closed", [(), (1,), (0,), (0, 1)])
def test_locks_are_held_until_the_last_store_is_closed(
    closed: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "decisions.db"
    with ExitStack() as stack:
        stores = [stack.enter_context(DecisionStore(path)) for _ in range(3)]
        for number in closed:
            stores[number].close()
        # Whoever comes later must not look at the file either.
        stack.enter_context(DecisionStore(path))
        assert seen_elsewhere(path) == "held"
        stores[2].backend.probe()  # writes
        assert seen_elsewhere(path) == "held"
    assert seen_elsewhere(path) == "free"


def test_a_file_is_looked_at_again_when_no_store_has_it_open(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    for _ in range(2):
        with DecisionStore(path), DecisionStore(path):
            pass
    path.write_bytes(b"something else")
    with pytest.raises(errors.StoreError, match="is not a store"):
        DecisionStore(path)


def test_threads_that_open_one_file_at_once_look_at_it_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "decisions.db"
    DecisionStore(path).close()
    looks: list[Path] = []
    look_at, check = sqlite_file.inspect, sqlite_file.check

    def look(where: Path) -> bool:
        looks.append(where)
        return look_at(where)

    def slow_check(connection: object, where: Path) -> None:
        time.sleep(0.2)  # the file is open, and the other thread comes to look at it
        check(connection, where)

    monkeypatch.setattr(sqlite_file, "inspect", look)
    monkeypatch.setattr(sqlite_file, "check", slow_check)
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        for store in pool.map(DecisionStore, [path, path]):
            stack.enter_context(store)
        assert looks == [path]
