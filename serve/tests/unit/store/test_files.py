"""Files that are damaged or not ours: refused with a message, and left to the byte as they are."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw
import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts.cli import main
from mixts.errors import StoreError, StoreUnavailableError

pytestmark = pytest.mark.usefixtures("unchecked")

PRIOR = mixts.MixturePrior(mixts.BernoulliArms([[3.0, 1.0], [1.0, 3.0]], [[1.0, 3.0], [3.0, 1.0]]))
PAGE = 4096
NOBODY = 65534


@dataclass(frozen=True)
class Files:
    """Files of a store: its database, and the log that a killed process left."""

    file: bytes | None
    log: bytes | None = None

    def write(self, folder: Path) -> Path:
        path = folder / "decisions.db"
        for content, end in ((self.file, ""), (self.log, "-wal")):
            if content is not None:
                path.with_name(path.name + end).write_bytes(content)
        return path

    @classmethod
    def read(cls, path: Path) -> Files:
        log = path.with_name(path.name + "-wal")
        return cls(
            path.read_bytes() if path.exists() else None,
            log.read_bytes() if log.exists() else None,
        )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    """A store that was closed, and one that was killed with half of its decisions in the log."""
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    for part in range(2):
        with DecisionStore(path) as store, Decider(PRIOR, store, seed=1) as decider:
            for start in range(0, 200, 50):
                tasks = [f"task {part} {i}" for i in range(start, start + 50)]
                made = decider.decide_many([Decide(task) for task in tasks])
                decider.reward_many([Reward(decision.id, 1.0) for decision in made])
            killed = Files.read(path)
        if part == 0:
            closed = Files.read(path)
    assert closed.log is None
    assert killed.file is not None
    assert closed.file is not None
    assert killed.file.startswith(closed.file)  # then comes room for the pages of the log
    assert killed.log
    return {"closed": closed, "killed": killed}


def damaged(content: bytes, start: int, n: int) -> bytes:
    return content[:start] + np.random.default_rng(start).bytes(n) + content[start + n :]


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda file: b"", "is empty"),
    "text": (lambda file: b"decision,reward\n1,1\n", "is not a store"),
    "first bytes": (lambda file: damaged(file, 0, 16), "its beginning is damaged"),
    "header": (lambda file: damaged(file, 0, 100), "its beginning is damaged"),
    "rest of the header": (lambda file: damaged(file, 16, 84), "another program"),
    "first page": (lambda file: damaged(file, 100, PAGE - 100), "is damaged"),
    "page in the middle": (
        lambda file: damaged(file, len(file) // PAGE // 2 * PAGE, PAGE), "is damaged",
    ),
    "zeros in the middle": (
        lambda file: file[: 5 * PAGE] + bytes(PAGE) + file[6 * PAGE :], "is damaged",
    ),
    "half": (lambda file: file[: len(file) // PAGE // 2 * PAGE], "is damaged"),
    "one page": (lambda file: file[:PAGE], "is damaged"),
    "a few bytes": (lambda file: file[:60], "another program"),
}  # fmt: skip


IN_PAGES = {"first page", "page in the middle", "zeros in the middle"}
"""Damages that a log may heal."""


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *(("closed", damage) for damage in DAMAGES),
        *(("killed", damage) for damage in DAMAGES if damage not in IN_PAGES),
    ],
)
def test_a_damaged_file_is_refused_and_left_alone(
    kind: str, damage: str, stores: dict[str, Files], tmp_path: Path
) -> None:
    change, message = DAMAGES[damage]
    whole = stores[kind]
    assert whole.file is not None
    files = Files(change(whole.file), whole.log)
    path = files.write(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreError, match=message) as refused:
            DecisionStore(path)
        assert str(path) in str(refused.value)
        assert Files.read(path) == files


def test_every_page_is_looked_at(stores: dict[str, Files], tmp_path: Path) -> None:
    whole = stores["closed"].file
    assert whole is not None
    unnoticed = []
    n_pages = int.from_bytes(whole[28:32], "big")  # the rest is room for more
    for number in range(1, n_pages):
        path = Files(damaged(whole, number * PAGE, PAGE)).write(tmp_path)
        try:
            DecisionStore(path).close()
            unnoticed.append(number)
        except StoreError:
            pass
    assert n_pages > 20
    assert unnoticed == []


def test_the_log_heals_a_page_or_the_file_is_refused(
    stores: dict[str, Files], tmp_path: Path
) -> None:
    killed = stores["killed"]
    assert killed.file is not None
    n_healed = 0
    n_pages = len(killed.file) // PAGE
    for number in range(0, n_pages, 3):
        # The first page begins with what says whose file it is.
        start = number * PAGE or 100
        files = Files(damaged(killed.file, start, (number + 1) * PAGE - start), killed.log)
        path = files.write(tmp_path)
        try:
            with DecisionStore(path) as store:
                assert store.totals().decisions == store.totals().rewards == 400
                assert rebuild(store, write=False).differing == 0
            n_healed += 1
        except StoreError:
            assert Files.read(path) == files
    assert 0 < n_healed < n_pages


def test_the_log_of_a_killed_process_is_recovered(stores: dict[str, Files], tmp_path: Path) -> None:
    with DecisionStore(stores["killed"].write(tmp_path)) as store:
        assert store.totals().decisions == store.totals().rewards == 400
        assert rebuild(store, write=False).differing == 0


# -- not ours -------------------------------------------------------------------------------------


def test_a_log_without_its_file_is_not_forgotten(stores: dict[str, Files], tmp_path: Path) -> None:
    files = Files(None, stores["killed"].log)
    path = files.write(tmp_path)
    with pytest.raises(StoreError, match=r"decisions\.db-wal is there.*bring the file back"):
        DecisionStore(path)
    assert Files.read(path) == files


def test_the_journal_of_another_file_is_not_applied_to_a_new_file(tmp_path: Path) -> None:
    journal = tmp_path / "decisions.db-journal"
    journal.write_bytes(b"something")
    with pytest.raises(StoreError, match=r"decisions\.db-journal is there"):
        DecisionStore(tmp_path / "decisions.db")
    assert [entry.name for entry in tmp_path.iterdir()] == [journal.name]


@pytest.mark.parametrize("application_id", [0, 0x12345678])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_another_programs_database_is_left_alone(
    application_id: int, mode: str, tmp_path: Path
) -> None:
    path = tmp_path / "decisions.db"
    with closing(apsw.Connection(str(path))) as other:
        other.pragma("journal_mode", mode)
        other.pragma("application_id", application_id)
        other.execute("CREATE TABLE decisions (a); INSERT INTO decisions VALUES (1)")
        other.wal_checkpoint()
        other.execute("INSERT INTO decisions VALUES (2)")
        files = Files.read(path)
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    files.write(tmp_path)
    with pytest.raises(StoreError, match="a database of another program"):
        DecisionStore(path)
    assert Files.read(path) == files
    assert {entry.name for entry in tmp_path.iterdir()} <= {"decisions.db", "decisions.db-wal"}


@pytest.mark.parametrize("in_log", [False, True])
def test_a_newer_file_is_left_alone(in_log: bool, stores: dict[str, Files], tmp_path: Path) -> None:
    folder = tmp_path / "newer"
    folder.mkdir()
    newer = stores["closed"].write(folder)
    with closing(apsw.Connection(str(newer))) as other:
        other.pragma("user_version", 99)
        if not in_log:
            other.wal_checkpoint()
        files = Files.read(newer)
    path = files.write(tmp_path)
    with pytest.raises(StoreError, match=r"version 99 of the tables.*uses version 1"):
        DecisionStore(path)
    assert Files.read(path) == files


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for path in (folder, pipe):
        with pytest.raises(StoreError, match="is not a file"):
            DecisionStore(path)
    assert folder.is_dir()
    assert list(folder.iterdir()) == []
    assert pipe.is_fifo()
    with pytest.raises(StoreError, match="is not a folder: make it first"):
        DecisionStore(tmp_path / "nowhere" / "decisions.db")


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "decisions.db"
    link.symlink_to(tmp_path / "gone.db")
    with pytest.raises(StoreError, match="cannot be used"):
        DecisionStore(link)
    assert [entry.name for entry in tmp_path.iterdir()] == [link.name]


# -- not allowed ----------------------------------------------------------------------------------


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """A folder that the user ``nobody`` can reach, who is who we are in the test."""
    folder = Path(tempfile.mkdtemp(prefix="mixts-"))
    folder.chmod(0o755)
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield folder
    if was_root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_file_that_may_not_be_read_is_refused(
    nobodys_folder: Path, stores: dict[str, Files]
) -> None:
    path = stores["closed"].write(nobodys_folder)
    path.chmod(0)
    with pytest.raises(StoreError, match="cannot be read: Permission denied"):
        DecisionStore(path)
    path.chmod(0o644)
    assert Files.read(path) == stores["closed"]


def test_a_folder_that_may_not_be_entered_or_written_to_is_refused(nobodys_folder: Path) -> None:
    nobodys_folder.chmod(0)
    with pytest.raises(StoreError, match="cannot be read: Permission denied"):
        DecisionStore(nobodys_folder / "decisions.db")
    nobodys_folder.chmod(0o555)
    with pytest.raises(StoreError, match=r"decisions\.db cannot be made: Permission denied"):
        DecisionStore(nobodys_folder / "decisions.db")
    assert list(nobodys_folder.iterdir()) == []


def test_a_file_that_may_only_be_read_can_be_read(
    nobodys_folder: Path, stores: dict[str, Files]
) -> None:
    path = stores["closed"].write(nobodys_folder)
    path.chmod(0o444)
    with DecisionStore(path) as store:
        assert store.totals().decisions == 200
        with (
            Decider(None, store) as decider,
            pytest.raises(StoreUnavailableError, match="may only be read"),
        ):
            decider.decide("task 0 0")
    assert path.read_bytes() == stores["closed"].file


# -- while it is used -----------------------------------------------------------------------------


def test_damage_that_is_found_later_has_a_reason(stores: dict[str, Files], tmp_path: Path) -> None:
    path = stores["closed"].write(tmp_path)
    whole = stores["closed"].file
    assert whole is not None
    with DecisionStore(path) as store:
        path.write_bytes(damaged(whole, PAGE, len(whole) - PAGE))
        with pytest.raises(StoreUnavailableError, match="it is damaged"):
            store.tasks()
        with pytest.raises(StoreUnavailableError, match="it is damaged"):
            list(store.backend.scan("SELECT * FROM decisions"))


# -- on the command line --------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "text", "header", "one page"])
def test_serve_says_so_and_ends(
    damage: str, stores: dict[str, Files], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = DAMAGES[damage]
    whole = stores["killed"]
    assert whole.file is not None
    files = Files(change(whole.file), whole.log)
    path = files.write(tmp_path)
    with pytest.raises(StoreError, match=message):
        DecisionStore(path)
    PRIOR.save(tmp_path / "prior.json")
    words = ["--store", str(path), "--prior", str(tmp_path / "prior.json"), "--port", "0"]
    assert main(["serve", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"mixts: {path} ")
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert Files.read(path) == files


def test_only_the_owner_may_read_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    mask = os.umask(0)
    try:
        with DecisionStore(path) as store, Decider(PRIOR, store) as decider:
            decider.decide("a")
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(mask)
    assert modes == {f"decisions.db{end}": 0o600 for end in ("", "-wal", "-shm")}
