"""Statistics of more tasks than memory holds: a folder of blocks, read where they are needed.

The folder has ``header.json`` and, for each block and array of the statistics, one ``.npy`` file,
``00000.successes.npy``: tasks on the first axis, whole numbers in the smallest type that holds
them. Readers map the files into memory, so that a block costs memory only while it is read.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from mixts import _checks, _random
from mixts._files import VERSION, check_format, replacing
from mixts._typing import Array, ArrayLike, Int
from mixts.errors import FormatError, ParameterError, StatisticsError
from mixts.families import LinearBernoulliStatistics, Statistics
from mixts.families.statistics import STATISTICS

GRAIN = 4096
"""Number of tasks whose sums are computed at a time. Twenty arms and five components then take some
megabytes, which stay in the processor's cache, and a grain takes milliseconds: a thousand times as
much as handing it out. All sums are made of those of the grains, so that they do not depend on how
grains are distributed over blocks and workers."""

BLOCK = 16 * GRAIN
"""Default number of tasks in a block. A block is a job of an engine: half a second or less."""

IN_MEMORY = 20_000
"""Default number of tasks from which learning begins. More would hardly move its end, which is
learned from all tasks; fewer might miss a kind of few tasks, here one of 0.1 % has twenty."""

_HEADER = "header.json"
_NARROW = np.uint8, np.uint16, np.uint32
_KEYS = {"statistics", "shape", "limits", "grain", "tasks", "digest"}


class TaskFolder:
    """Statistics of past tasks in a folder, which need not fit into memory.

    :func:`mixts.learn_prior` takes it as tasks: it begins with a random sample of them in memory,
    and goes on with all of them, block by block, here or on the workers of an engine. Where its
    process dies, the same call goes on where it was, and gives the same prior.

    Parameters
    ----------
    path
        A folder that :meth:`write` made. Workers must find it at the same path.
    in_memory
        Number of tasks with which learning begins; all else takes no more memory than one block.

    Examples
    --------
    >>> import mixts
    >>> from mixts.families import BernoulliStatistics
    >>> from mixts.learning import TaskFolder
    >>> parts = (
    ...     BernoulliStatistics(successes=[[9, 1], [1, 9]], failures=[[1, 9], [9, 1]])
    ...     for _ in range(50)
    ... )
    >>> TaskFolder.write("clicks.tasks", parts)
    TaskFolder('clicks.tasks', 100 tasks of bernoulli-arms, 1 block)
    >>> mixts.learn_prior(TaskFolder("clicks.tasks"), 2, seed=1).weights.round(2)
    array([0.5, 0.5])
    """

    def __init__(self, path: str | os.PathLike[str], *, in_memory: int = IN_MEMORY) -> None:
        self.path = Path(path).absolute()
        self.in_memory = _checks.count(in_memory, "in_memory")
        header = _read_header(self.path)
        self.statistics_type = STATISTICS[header["statistics"]]
        self.shape: tuple[int, ...] = tuple(header["shape"])
        self.sizes: tuple[int, ...] = tuple(header["tasks"])
        """Number of tasks in each block."""
        self.digest: str = header["digest"]
        """Digest of all statistics."""
        self._limits, self._grain = dict(header["limits"]), int(header["grain"])
        self._left_out: Int[Array, " m"] = np.zeros(0, np.int64)
        self._changes: tuple[tuple[Callable[..., Statistics], tuple[Any, ...]], ...] = ()

    def __repr__(self) -> str:
        n, blocks = len(self.sizes), "block" if len(self.sizes) == 1 else "blocks"
        kind = self.statistics_type.kind
        return f"TaskFolder({self.path.name!r}, {len(self):,} tasks of {kind}, {n:,} {blocks})"

    def __len__(self) -> int:
        return sum(self.sizes) - len(self._left_out)

    # -- writing ----------------------------------------------------------------------------------

    @classmethod
    def write(
        cls,
        path: str | os.PathLike[str],
        parts: Iterable[Statistics],
        *,
        block: int = BLOCK,
        grain: int = GRAIN,
    ) -> Self:
        """Write statistics that come part by part as a folder of blocks.

        Parameters
        ----------
        path
            Folder to make; nothing may be there. It appears when it is complete.
        parts
            Statistics of different tasks, parts of any size. Tasks without observations are left
            out.
        block
            Number of tasks in a block, a multiple of ``grain``.
        grain
            Number of tasks whose sums are computed at a time. Folders with different grains give
            priors that differ by rounding.

        Returns
        -------
        TaskFolder
            The folder.
        """
        folder, grain = Path(path), _checks.count(grain, "grain")
        if _checks.count(block, "block") % grain:
            raise ParameterError(f"block must be a multiple of grain, {grain:,}, got {block:,}")
        if folder.exists():
            raise ParameterError(f"{folder} exists: delete it, or give another path")
        part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            header = _write_blocks(part, _cut(parts, block))
            content = {"format": "mixts/tasks", "version": VERSION, "grain": grain, **header}
            with replacing(part / _HEADER) as file:
                file.write_text(json.dumps(content, indent=1) + "\n")
            os.replace(part, folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return cls(folder)

    # -- views ------------------------------------------------------------------------------------

    def without(self, tasks: ArrayLike) -> Self:
        """Return the same folder without some tasks, such as those of a check.

        Parameters
        ----------
        tasks
            Places of the tasks to leave out.

        Returns
        -------
        TaskFolder
            The others.
        """
        view = copy.copy(self)
        view._left_out = np.union1d(self._left_out, _checks.task_indices(tasks, sum(self.sizes)))
        return view

    def changed(self, function: Callable[..., Statistics], *arguments: Any) -> Self:
        """Return the same tasks with statistics that a function changes when they are read.

        Parameters
        ----------
        function
            Function of a module, called with the statistics of some tasks and the arguments.
        *arguments
            Its other arguments.

        Returns
        -------
        TaskFolder
            The changed tasks.
        """
        view = copy.copy(self)
        view._changes = (*self._changes, (function, arguments))
        return view

    # -- reading ----------------------------------------------------------------------------------

    def sample(self, seed: int) -> Statistics:
        """Return ``in_memory`` random tasks, or all if there are no more, in the folder's order.

        Parameters
        ----------
        seed
            Seed of the choice.

        Returns
        -------
        Statistics
            Statistics of the tasks.
        """
        if not len(self):
            raise StatisticsError(f"{self} has no tasks left to learn from")
        rng = _random.stream(seed, "learn", "sample")
        chosen = np.sort(
            rng.choice(len(self), min(self.in_memory, len(self)), replace=False, shuffle=False)
        )
        # The place of a task is its number among those that stay, and how many before it do not.
        kept_before = self._left_out - np.arange(len(self._left_out))
        return self.tasks(chosen + np.searchsorted(kept_before, chosen, side="right"))

    def tasks(self, index: ArrayLike) -> Statistics:
        """Return the statistics of some tasks.

        Parameters
        ----------
        index
            Places of the tasks in the folder, ascending.

        Returns
        -------
        Statistics
            Statistics of these tasks.
        """
        places = _checks.task_indices(index, sum(self.sizes))
        if not len(places) or (np.diff(places) <= 0).any():
            raise StatisticsError("places of tasks must ascend, and there must be at least one")
        found, first = [], 0
        for number, size in enumerate(self.sizes):
            own = places[np.searchsorted(places, first) : np.searchsorted(places, first + size)]
            if len(own):
                found.append(self._change(self._opened(number)[own - first]))
            first += size
        return found[0].concatenate(*found[1:])

    def grains(self, number: int) -> Iterator[Statistics]:
        """Yield the statistics of a block, some tasks at a time.

        Parameters
        ----------
        number
            Number of the block.

        Yields
        ------
        Statistics
            Statistics of the tasks of a grain, at most.
        """
        first, block = sum(self.sizes[:number]), self._opened(number)
        for start in range(0, self.sizes[number], self._grain):
            own = np.arange(start, min(start + self._grain, self.sizes[number]))
            if len(self._left_out):
                own = np.setdiff1d(own, self._left_out - first, assume_unique=True)
            if len(own):
                yield self._change(block[own])

    def _change(self, statistics: Statistics) -> Statistics:
        for function, arguments in self._changes:
            statistics = function(statistics, *arguments)
        return statistics

    def _opened(self, number: int) -> _Block:
        return _Block(self.path, number, self.statistics_type, self.sizes[number], self._limits)

    @property
    def identity(self) -> str:
        """Digest of the tasks and of what changes them."""
        found = hashlib.blake2b(self.digest.encode(), digest_size=16)
        found.update(self._left_out.tobytes())
        for function, arguments in self._changes:
            found.update(f"{function.__qualname__} {self._grain}".encode())
            for argument in arguments:
                found.update(np.asarray(argument, float).tobytes())
        return found.hexdigest()


class _Block:
    """The arrays of a block, mapped into memory."""

    def __init__(
        self,
        folder: Path,
        number: int,
        kind: type[Statistics],
        n_tasks: int,
        limits: dict[str, Any],
    ) -> None:
        self._kind, self._limits = kind, limits
        self._arrays = {}
        for name in kind.fields:
            path = folder / _file(number, name)
            try:
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise FormatError(f"{path} is missing or damaged: {error}") from error
            self._arrays[name] = array
        self._ends = None
        if kind is LinearBernoulliStatistics:  # rows of the first task, then of the second ...
            self._ends = np.append(0, np.cumsum(self._arrays["size"], dtype=np.int64))
        for name, array in self._arrays.items():
            n = n_tasks if self._ends is None or name == "size" else int(self._ends[-1])
            kinds = "iuf" if kind.fields[name] is float else "iu"
            if array.dtype.kind not in kinds or array.ndim == 0 or len(array) != n:
                raise FormatError(
                    f"{folder / _file(number, name)} must have {n:,} numbers on its first axis, "
                    f"got an array of type {array.dtype} and shape {array.shape}"
                )

    def __getitem__(self, tasks: Int[Array, " m"]) -> Statistics:
        """Return the statistics of some tasks, ascending."""
        if self._ends is not None:
            rows = np.concatenate(
                [np.arange(self._ends[task], self._ends[task + 1]) for task in tasks]
            )
            parts = {
                name: array[tasks if name == "size" else rows]
                for name, array in self._arrays.items()
            }
            return LinearBernoulliStatistics(**self._limits, **parts)
        # Consecutive tasks are a slice, which reads a file in one go.
        whole = len(tasks) == tasks[-1] - tasks[0] + 1
        where = slice(int(tasks[0]), int(tasks[-1]) + 1) if whole else tasks
        return self._kind.adopt(
            [
                np.array(self._arrays[name][where], dtype, order="C")
                for name, dtype in self._kind.fields.items()
            ]
        )


def _file(number: int, name: str) -> str:
    return f"{number:05}.{name}.npy"


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / _HEADER
    try:
        header: dict[str, Any] = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise FormatError(f"{folder} is no folder of tasks, or is damaged: {error}") from error
    check_format(header, "tasks", str(path))
    if not header.keys() >= _KEYS or str(header["statistics"]) not in STATISTICS:
        raise FormatError(
            f"{path} is damaged: it must have {sorted(_KEYS)} and known statistics, one of "
            f"{sorted(STATISTICS)}"
        )
    lists = all(isinstance(header[name], list) for name in ("shape", "tasks"))
    sizes = [header["grain"], *header["tasks"], *header["shape"]] if lists else []
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        raise FormatError(
            f"{path} is damaged: shape and tasks must be lists of positive numbers, and grain one, "
            f"got {header['shape']!r}, {header['tasks']!r} and {header['grain']!r}"
        )
    if not isinstance(header["limits"], dict) or not isinstance(header["digest"], str):
        raise FormatError(f"{path} is damaged: limits must be an object, and digest a text")
    name = next(iter(STATISTICS[header["statistics"]].fields))
    if (folder / _file(len(header["tasks"]), name)).exists():
        raise FormatError(
            f"{path} is damaged: it names {len(header['tasks'])} blocks, and there are more"
        )
    return header


def _cut(parts: Iterable[Statistics], size: int) -> Iterator[Statistics]:
    """Yield observed tasks in blocks of this size; only the last may be smaller."""
    waiting: list[Statistics] = []
    for part in parts:
        if not isinstance(part, Statistics):
            raise StatisticsError(f"parts must be statistics, got {type(part).__name__}")
        seen = np.flatnonzero(np.atleast_1d(part.n_observations) > 0)
        if len(seen):
            waiting.append(part[seen])
        if sum(map(len, waiting)) >= size:
            joined = waiting[0].concatenate(*waiting[1:])
            whole = len(joined) - len(joined) % size
            for start in range(0, whole, size):
                yield joined[start : start + size]
            waiting = [joined[whole:]] if whole < len(joined) else []
    if waiting:
        yield waiting[0].concatenate(*waiting[1:])


def _write_blocks(folder: Path, blocks: Iterable[Statistics]) -> dict[str, Any]:
    """Write the arrays of each block, and return what the header says of them."""
    found = hashlib.blake2b(digest_size=16)
    sizes, first = [], None
    for number, block in enumerate(blocks):
        first = first or block
        if type(block) is not type(first) or block.shape != first.shape:
            raise StatisticsError(f"parts must be of one kind and shape, got {first} and {block}")
        sizes.append(len(block))
        header, arrays = block.bundle()
        for name, array in arrays.items():
            found.update(np.ascontiguousarray(array).data)
            with replacing(folder / _file(number, name)) as path, path.open("wb") as file:
                np.save(file, _narrowed(array), allow_pickle=False)
    if first is None:
        raise StatisticsError("learning needs tasks that were observed, but no part has any")
    return {
        "statistics": first.kind,
        "shape": list(first.shape),
        "limits": header.get("limits", {}),
        "tasks": sizes,
        "digest": found.hexdigest(),
    }


def _narrowed(array: Array) -> Array:
    """Return whole numbers in the smallest type that holds them."""
    if array.dtype.kind == "f":
        return array
    most, least = array.max(initial=0), array.min(initial=0)
    fits = (kind for kind in _NARROW if least >= 0 and most <= np.iinfo(kind).max)
    return array.astype(next(fits, np.int64))
