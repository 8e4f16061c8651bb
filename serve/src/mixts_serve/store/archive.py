"""Old decisions that move to Parquet files, and names that are erased from the store and the files.

Each file has the decisions of one transaction, which writes it, with its final name, before it
deletes them. The store counts the files. What it does not count was left behind by a killed run, or
is newer than a store that was restored: the decisions are in the store, and the next run removes
these files and writes others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from mixts.errors import ParameterError
from mixts.extend import files
from mixts_serve.records import Erased, TaskBase, checked_name
from mixts_serve.refits import Lineage
from mixts_serve.snapshot import Days
from mixts_serve.store._sqlite_file import copy_owner, sync
from mixts_serve.store.base import ArchivableDecision, Transaction
from mixts_serve.store.export import check_pyarrow, export_decisions
from mixts_serve.store.rebuild import Replay, active_prior
from mixts_serve.store.store import DecisionStore, first_id
from mixts_serve.versions import LoadedPrior

FILE_DECISIONS = 20_000
"""Most decisions of a file, and of a transaction: other writers wait for it for about a second."""

_NAMES = 50
"""Names that are erased in one transaction."""

_FILES = "decisions-*.parquet"


@dataclass(frozen=True, slots=True)
class Archived:
    """Counts of a run."""

    decisions: int
    files: int


def archive(store: DecisionStore, folder: str | os.PathLike[str], keep: float) -> Archived:
    """Move decisions that are older than ``keep`` to files; what was learned from them stays.

    A decision stays in the store as long as its reward window is open, or while the task has
    learned from a later decision before it. Decisions of days that refits leave out stay, because
    refits could not leave them out of what an archive keeps. The service can go on meanwhile.

    Parameters
    ----------
    store : DecisionStore
    folder : str or path
        The folder of the files; it must exist.
    keep : float
        Seconds for which decisions stay in the store.

    Returns
    -------
    Archived
        The number of decisions that were moved, and of new files.
    """
    check_pyarrow()
    active = active_prior(store)
    if not active.prior.repeatable:
        raise ParameterError(
            f"{store.name} cannot be archived: its prior takes each arm at most once "
            "(repeatable is False), and the log says which arms a task took"
        )
    if not keep > 0:
        raise ParameterError(f"keep must be above 0 seconds, got {keep!r}")
    refit = Lineage.of(store).last_refit
    left_out = () if refit is None else tuple(Days.parse(days).ids for days in refit.excluded)
    n_decisions = n_files = 0
    with _locked(Path(folder)) as place:
        before = first_id(store.backend.now_us() - round(keep * 1e6))
        # Durable before the first file has this name: the next run must know it.
        begun = store.backend.transact(lambda each: each.begin_archive(os.urandom(4).hex()))
        first = _next_file(place, begun)
        for path in place.glob(f"decisions-{begun.split()[0]}-*.parquet"):
            if path >= first:
                path.unlink()
        after, n_moved = b"", 1
        while after or n_moved:
            if not after:
                n_moved = 0
            run = _Run(store, place, active, (after, before), left_out)
            done = store.backend.transact(run.move)
            n_moved, n_decisions, n_files = n_moved + done, n_decisions + done, n_files + (done > 0)
            after = run.last  # at the end, look again: decisions may have waited for later ones
            time.sleep(0.01)  # others write first
    store.backend.purge()
    return Archived(n_decisions, n_files)


@dataclass
class _Run:
    """One transaction: a file, and the rows that it replaces."""

    store: DecisionStore
    folder: Path
    active: LoadedPrior
    ids: tuple[bytes, bytes]
    """Bounds on the ids of decisions."""
    left_out: Sequence[tuple[bytes, bytes]]
    """Bounds on the ids of decisions that refits leave out."""
    last: bytes = b""
    """Last id that was looked at; empty if there is none."""

    def move(self, transaction: Transaction) -> int:
        """Move decisions to a file; return how many."""
        begun = transaction.begin_archive("")
        now = transaction.now_us()
        found = transaction.find_archivable(self.ids, now, FILE_DECISIONS)
        self.last = bytes(found[-1].id) if found else b""
        if not found:
            return 0
        entries, _ = transaction.lock_tasks([], sorted({each.task for each in found}), now)
        locked = {entry.number for entry in entries}
        # Once the tasks are locked, nothing changes: read again.
        found = transaction.find_archivable(self.ids, now, FILE_DECISIONS)
        chosen = _in_order(
            transaction, [each for each in found if each.task in locked and self._may(each)]
        )
        if not chosen:
            return 0
        decisions = [each.seq for each in chosen]
        bases = self._bases(transaction, decisions, sorted({each.task for each in chosen}))
        transaction.take_time()
        path = _next_file(self.folder, begun)
        export_decisions(self.store, path, {bytes(each.id): each.seq for each in chosen})
        sync(self.folder)
        name, n_files = begun.split()
        transaction.archive(decisions, bases, f"{name} {int(n_files) + 1}")
        return len(decisions)

    def _may(self, decision: ArchivableDecision) -> bool:
        return not any(first <= decision.id < end for first, end in self.left_out)

    def _bases(
        self, transaction: Transaction, decisions: list[int], tasks: list[int]
    ) -> list[TaskBase]:
        """Return what the tasks keep of their archived decisions, these included."""
        known = {base.task: base for base in transaction.find_bases(tasks)}
        replay = Replay(np.array(tasks), self.active.prior.family, list(known.values()))
        replay.read(
            lambda sql: transaction.rows_among(sql, decisions),
            "{where}",
            transaction.find_action_sets,
        )
        contents = self.active.codec.encode(replay.statistics)
        return [
            replace(
                known.get(task, TaskBase(seq=0, task=task)), statistics=content,
                **replay.counts(row),
            )
            for row, (task, content) in enumerate(zip(tasks, contents, strict=True))
        ]  # fmt: skip


def _next_file(folder: Path, begun: str) -> Path:
    """Return the file after those that an archive has: ``begun`` is its name and their number."""
    name, n_files = begun.split()
    return folder / f"decisions-{name}-{int(n_files) + 1:06d}.parquet"


def _in_order(
    transaction: Transaction, found: Sequence[ArchivableDecision]
) -> list[ArchivableDecision]:
    """Leave out decisions whose reward came after one of a decision that stays.

    A task's statistics then are what it learned from archived rewards and, after that, from those
    in the log: in the order in which they came, to the last bit.
    """
    last = max((each.reward or 0 for each in found), default=0)
    firsts = transaction.first_rewards_of_others([each.seq for each in found], last)
    return [each for each in found if (each.reward or 0) < firsts.get(each.task, last + 1)]


# -- erasing --------------------------------------------------------------------------------------


def erase(
    store: DecisionStore, names: Sequence[str], folder: str | os.PathLike[str] | None = None
) -> Erased:
    """Erase tasks with everything about them, from the store and from its archive.

    Each task is erased as a whole or not at all, whenever the process ends. A repetition erases
    the rest.

    Parameters
    ----------
    store : DecisionStore
    names : sequence of str
        Names of the tasks; unknown ones are counted.
    folder : str or path, optional
        Folder of the archive.

    Returns
    -------
    Erased
        The numbers of tasks and decisions.
    """
    distinct = list(dict.fromkeys(checked_name(name, "a task's name") for name in names))
    if folder is not None:
        check_pyarrow()
    found = Erased()
    with nullcontext() if folder is None else _locked(Path(folder)) as place:
        for start in range(0, len(distinct), _NAMES):
            part = distinct[start : start + _NAMES]
            found += store.backend.transact(partial(Transaction.erase, names=part))
        if place is not None:
            n_rows = sum(_erase_rows(path, distinct) for path in sorted(place.glob(_FILES)))
            sync(place)
            left = max(found.archived - n_rows, 0)
            found = replace(found, decisions=found.decisions + n_rows, archived=left)
    return replace(found, overwritten=store.backend.purge())


def _erase_rows(path: Path, names: Sequence[str]) -> int:
    """Rewrite a file without the decisions of some tasks; return how many it had."""
    import pyarrow
    from pyarrow import compute, parquet

    wanted = pyarrow.array(names, pyarrow.string())
    tasks = parquet.read_table(path, columns=["task"])["task"]
    n: int = compute.sum(compute.is_in(tasks, wanted)).as_py() or 0
    if n:
        table = parquet.read_table(path)
        left = table.filter(compute.invert(compute.is_in(table["task"], wanted)))
        with files.replacing(path) as draft:
            parquet.write_table(left, draft, compression="zstd")
            copy_owner(path.stat(), draft)
    return n


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Keep other runs out of a folder of files, and remove what killed ones left half written."""
    if not folder.is_dir():
        raise ParameterError(f"{folder} is not a folder: make it first")
    try:
        import fcntl
    except ImportError:
        raise ParameterError("archives need a system with flock, such as Linux or macOS") from None
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(
                f"another process archives to {folder} or erases there: wait for it"
            ) from None
        for draft in folder.glob(f".{_FILES}.*.part"):
            draft.unlink()
        yield folder
    finally:
        os.close(handle)
