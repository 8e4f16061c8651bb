"""A damaged write-ahead log: refused with a way out, never dropped without a word."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mixts
from mixts.cli import main
from mixts.errors import StoreError
from mixts.service import Decider, DecisionStore
from mixts.service.store import _sqlite_log, _sqlite_wal
from mixts.service.store.rebuild import rebuild

pytestmark = pytest.mark.usefixtures("unchecked")

PRIOR = mixts.MixturePrior(mixts.BernoulliArms([[3.0, 1.0], [1.0, 3.0]], [[1.0, 3.0], [3.0, 1.0]]))
FRAME = 24 + 4096
ENDS = ("", "-wal", "-shm")


class Killed:
    """Files that a killed process left, and the ids of the decisions that it acknowledged."""

    def __init__(self, path: Path, ids: list[str]) -> None:
        self.ids = ids
        self.contents = {end: path.with_name(path.name + end).read_bytes() for end in ENDS}
        self.log = self.contents["-wal"]

    @property
    def n_frames(self) -> int:
        return (len(self.log) - 32) // FRAME

    def write(self, folder: Path, log: bytes | None = None, *, index: bool = True) -> Path:
        """Write the files, with another log, into a folder, as after a kill or a power loss."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / "decisions.db"
        for end, content in self.contents.items():
            path.with_name(path.name + end).write_bytes(content)
        if log is not None:
            path.with_name(path.name + "-wal").write_bytes(log)
        if not index:
            path.with_name(path.name + "-shm").unlink()
        return path


def flipped(content: bytes, byte: int, bit: int = 3) -> bytes:
    return content[:byte] + bytes([content[byte] ^ 1 << bit]) + content[byte + 1 :]


def logged(path: Path) -> list[str]:
    with DecisionStore(path) as store:
        assert rebuild(store, write=False).differing == 0
        return [bytes(id).hex() for (id,) in store.backend.query("SELECT id FROM decisions")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    with DecisionStore(path) as store, Decider(PRIOR, store) as decider:
        made = [decider.decide(f"task {i % 7}") for i in range(40)]
        return Killed(path, [decision.id for decision in made])


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """A log that overwrites an older one."""
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sqlite_log, "RESET_PAGES", 200)
        with DecisionStore(path) as store, Decider(PRIOR, store) as decider:
            ids = [decider.decide(f"task {i % 7}").id for i in range(40)]
            while _sqlite_wal.Log(path).frames().fits.all():
                ids.append(decider.decide("task 1").id)
            ids += [decider.decide("task 1").id for _ in range(3)]
            return Killed(path, ids)


def test_a_whole_log_is_read(killed: Killed, tmp_path: Path) -> None:
    for index in (True, False):
        assert logged(killed.write(tmp_path / "a", index=index)) == killed.ids


@pytest.mark.parametrize("index", [True, False])
def test_a_flipped_bit_is_refused_and_everything_is_left_as_it_is(
    index: bool, killed: Killed, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    # Any bit, up to the transactions at the end: without the index, a power loss looks the same.
    last = len(killed.log) - (0 if index else 25 * FRAME)
    places = [5, 17, 30, *rng.integers(32, last, size=30).tolist()]
    for place in places:
        log = flipped(killed.log, place)
        path = killed.write(tmp_path / "a", log, index=index)
        with pytest.raises(StoreError, match=r"acknowledged decisions.*store salvage"):
            DecisionStore(path)
        assert path.with_name("decisions.db-wal").read_bytes() == log
        assert path.read_bytes() == killed.contents[""]


def test_the_message_counts_what_is_lost(killed: Killed, tmp_path: Path) -> None:
    frames = _sqlite_wal.Log(killed.write(tmp_path / "a")).frames()
    commits = np.flatnonzero(frames.is_commit)
    place = 32 + int(commits[20] + 1) * FRAME + 100
    path = killed.write(tmp_path / "a", flipped(killed.log, place))
    damage = _sqlite_wal.find_damage(path)
    lost = killed.n_frames - int(commits[20]) - 1
    assert damage == (int(commits[20]) + 1, killed.n_frames, lost * FRAME)
    with pytest.raises(StoreError, match=f" {lost} of its {killed.n_frames} pages"):
        DecisionStore(path)


def test_a_log_that_was_cut_or_removed_after_a_kill_is_refused(
    killed: Killed, tmp_path: Path
) -> None:
    for log in (killed.log[: -10 * FRAME], killed.log[:-1], b""):
        with pytest.raises(StoreError, match="damaged or incomplete"):
            DecisionStore(killed.write(tmp_path / "a", log))
    path = killed.write(tmp_path / "a")
    path.with_name("decisions.db-wal").unlink()
    with pytest.raises(StoreError, match="damaged or incomplete"):
        DecisionStore(path)


def test_any_torn_end_opens_after_a_power_loss(killed: Killed, tmp_path: Path) -> None:
    # Any sectors of the last transaction may be missing: it was perhaps never acknowledged.
    frames = _sqlite_wal.Log(killed.write(tmp_path / "a")).frames()
    start = 32 + (int(np.flatnonzero(frames.is_commit)[-2]) + 1) * FRAME
    rng = np.random.default_rng(2)
    sectors = np.arange(-(-start // 512), len(killed.log) // 512)
    for share in [0.0] * 8 + [0.3] * 8:
        end = len(killed.log) if rng.random() < 0.5 else rng.integers(start, len(killed.log))
        torn = sectors[rng.random(len(sectors)) < share]
        log = bytearray(killed.log)
        for sector in (int(rng.choice(sectors[:8])), *torn.tolist()):
            log[sector * 512 : (sector + 1) * 512] = rng.bytes(512)
        log = log[:end]
        path = killed.write(tmp_path / "a", bytes(log), index=False)
        assert logged(path) in (killed.ids, killed.ids[:-1])


def test_frames_of_an_older_log_mean_nothing(restarted: Killed, tmp_path: Path) -> None:
    fits = _sqlite_wal.Log(restarted.write(tmp_path / "a")).frames().fits
    n_good = int(fits.argmin())
    assert n_good < len(fits) - 50
    for frame in range(n_good, len(fits), 13):
        for index in (True, False):
            log = flipped(restarted.log, 32 + frame * FRAME + 2000)
            assert logged(restarted.write(tmp_path / "a", log, index=index)) == restarted.ids
    # A frame of the present log still counts.
    with pytest.raises(StoreError, match="damaged or incomplete"):
        DecisionStore(restarted.write(tmp_path / "a", flipped(restarted.log, 32 + 2000)))


# -- the way out ----------------------------------------------------------------------------------


def test_a_damaged_page_that_was_written_again_costs_nothing(
    killed: Killed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (10, 32 + 100 * FRAME + 2000, 32 + 101 * FRAME + 12, 32 + 102 * FRAME + 18):
        log = flipped(killed.log, place)
        path = killed.write(tmp_path / "a", log)
        assert main(["store", "salvage", str(path)]) == 0
        assert f"all {killed.n_frames} pages of the log were kept" in capsys.readouterr().out
        (copy,) = path.parent.glob("decisions.db.damaged-*-wal")
        assert copy.read_bytes() == log
        assert logged(path) == killed.ids


def test_what_cannot_be_read_is_dropped_and_said(
    killed: Killed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The last version of a page is garbage.
    frames = _sqlite_wal.Log(killed.write(tmp_path / "a")).frames()
    commits = np.flatnonzero(frames.is_commit)
    again = (np.isin(page, frames.pages[i + 1 :]) for i, page in enumerate(frames.pages))
    final = np.flatnonzero(~np.fromiter(again, bool))
    last = int(final[final < commits[-2]][-1])
    start = 32 + last * FRAME + 24
    log = killed.log[:start] + bytes(4096) + killed.log[start + 4096 :]
    path = killed.write(tmp_path / "a", log)
    assert main(["store", "salvage", str(path)]) == 0
    assert "pages of the log were dropped" in capsys.readouterr().out
    n_kept = int((commits < last).sum()) - 1  # the first commit is that of the prior
    assert logged(path) == killed.ids[:n_kept]


def test_a_store_in_use_is_not_salvaged(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    program = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "store", "salvage", str(path)]
    with DecisionStore(path):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "another process has" in done.stderr


def test_nothing_to_salvage(
    killed: Killed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = killed.write(tmp_path / "a")
    assert main(["store", "salvage", str(path)]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert logged(path) == killed.ids
    assert main(["store", "salvage", "postgresql://host/base"]) == 2
    assert "only a SQLite file" in capsys.readouterr().err
