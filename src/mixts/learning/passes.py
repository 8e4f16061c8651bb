"""Passes over tasks in blocks: a map over blocks, and a sum that does not depend on the blocks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mixts._files import read_bundle, write_bundle
from mixts._progress import step
from mixts._version import __version__
from mixts.engines import Engine
from mixts.errors import FormatError
from mixts.learning.climbing import Climbing
from mixts.learning.folder import TaskFolder
from mixts.learning.models.base import Elsewhere, Model, added


class Passes(Elsewhere):
    """All tasks of a folder of blocks, summed by an engine."""

    def __init__(self, blocks: TaskFolder, where: Engine) -> None:
        self.blocks, self.n_tasks = blocks, len(blocks)
        self._where, self._n_passes = where, 0

    def total(self, model: Model, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum of ``function(part, *arguments)`` over all grains."""
        shell = model.with_tasks(model.statistics[np.zeros(0, np.int64)])
        jobs = [
            (self.blocks, number, shell, function, arguments)
            for number in range(len(self.blocks.sizes))
        ]
        self._n_passes += 1
        bar = step(f"pass {self._n_passes} over {self.n_tasks:,} tasks", len(jobs))
        found = PairwiseSum()
        for parts in self._where.map(sums_of_block, jobs):
            for part in parts:
                found.add(part)
            bar.advance(1)
        return found.total()

    def memory_of(self, model: Model, start: Climbing, limits: tuple[float, ...]) -> Memory:
        """Return where a climb notes how far it is."""
        return Memory(self.blocks.path / "climbs" / f"{self._key(model, start, limits)}.npz")

    def _key(self, model: Model, start: Climbing, limits: tuple[float, ...]) -> str:
        """Return a digest of all that determines a climb."""
        plain = {k: v for k, v in vars(model).items() if isinstance(v, (bool, int, float, str))}
        names = [__version__, self.blocks.identity, type(model).__name__, start.family.kind]
        found = hashlib.blake2b(digest_size=16)
        settings = start.family.settings(), model.centre.settings()
        found.update(json.dumps([names, limits, plain, *settings], sort_keys=True).encode())
        parts = [*model.centre.arrays().values(), *start.family.arrays().values(), start.weights]
        for array in (*parts, model.pseudo, model.pseudo_weights):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()


def sums_of_block(
    blocks: TaskFolder,
    number: int,
    shell: Model,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> list[Any]:
    """Return the results of a function for the grains of a block, here or on a worker."""
    return [function(shell.with_tasks(part), *arguments) for part in blocks.grains(number)]


class PairwiseSum:
    """Sum of parts in their order, added in pairs, pairs of pairs and so on.

    The rounding error grows with the logarithm of the number of parts, and so does the number of
    sums that are held. The result depends on the parts and their order only.
    """

    def __init__(self) -> None:
        self._sums: list[tuple[int, Any]] = []
        """Numbers of parts, powers of two that fall, with their sums."""

    def add(self, part: Any) -> None:
        """Add the next part."""
        n = 1
        while self._sums and self._sums[-1][0] == n:
            part = added(self._sums.pop()[1], part)
            n *= 2
        self._sums.append((n, part))

    def total(self) -> Any:
        """Return the sum of all parts."""
        (_, total), *others = self._sums[::-1]
        for _, part in others:
            total = added(part, total)
        return total


# -- a climb that goes on where it was -------------------------------------------------------------


class Memory:
    """File in which a climb notes where it is, after every iteration."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Climbing | None:
        """Return where the climb was, or None if it did not begin."""
        if not self._path.exists():
            return None
        try:
            return Climbing.of(*read_bundle(self._path, "climb"))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self._path} is damaged: delete it ({error})") from error

    def save(self, at: Climbing) -> None:
        """Note where the climb is."""
        self._path.parent.mkdir(exist_ok=True)
        write_bundle(self._path, "climb", *at.bundle())
