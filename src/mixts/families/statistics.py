"""Statistics: what a task's history is reduced to, whatever the prior.

They merge (``a + b`` for two parts of the same tasks' histories), concatenate (for different
tasks), index, save and load. They are a monoid: any engine that can group and reduce can make
them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._files import read_bundle, write_bundle
from mixts._typing import Array, ArrayLike
from mixts.errors import FormatError, StatisticsError, TaskError

STATISTICS: dict[str, type[Statistics]] = {}
"""Every kind of statistics by the name that files carry."""


class Statistics(ABC):
    """The histories of a batch of tasks, or (``single``) of one task without a task axis.

    The arrays inside have the task axis first always; what users read is read-only.
    """

    kind: ClassVar[str]
    """The name in files."""
    fields: ClassVar[dict[str, Any]]
    """Names and types of the arrays, each with the tasks on its first axis."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            STATISTICS[cls.kind] = cls

    def __init__(self, *, single: bool = False, **arrays: ArrayLike) -> None:
        if set(arrays) != set(self.fields):
            raise StatisticsError(
                f"{type(self).__name__} needs the arrays {sorted(self.fields)}, "
                f"got {sorted(arrays)}"
            )
        self.single = single
        for name, dtype in self.fields.items():
            read = _checks.numbers if dtype is float else _checks.integers
            expected = f"{name} must be {'numbers' if dtype is float else 'whole numbers'}"
            array = np.array(read(arrays[name], expected, StatisticsError), order="C")
            setattr(self, f"_{name}", array)
        self.stored = tuple(self.array(name) for name in self.fields)
        """The arrays in order, as compiled loops take them and change them."""
        self.check()

    @classmethod
    def adopt(cls, arrays: Sequence[Array]) -> Self:
        """Arrays of the right types in the order of ``fields``, not copied; see ``check``."""
        made = cls.__new__(cls)
        made.single = False
        made.stored = tuple(arrays)
        for name, array in zip(cls.fields, arrays, strict=True):
            setattr(made, f"_{name}", array)
        return made

    def check(self) -> None:
        """Refuse numbers that no history has, with a StatisticsError."""
        for name, dtype in self.fields.items():
            if dtype is float and not np.isfinite(self.array(name)).all():
                raise StatisticsError(f"{name} must be finite")
        self._check()

    # -- what a kind of statistics defines ----------------------------------------------------

    @abstractmethod
    def _check(self) -> None:
        """Shapes and ranges, with a StatisticsError that says what is wrong."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """What must agree to merge: the arms, or the dimension."""

    @property
    @abstractmethod
    def n_observations(self) -> Any:
        """How many observations each task has (a number for one task)."""

    def _merge(self, other: Self) -> dict[str, Array]:
        """The arrays of both histories; sums, unless a kind says otherwise."""
        return {name: self.array(name) + other.array(name) for name in self.fields}

    # -- what all of them do ------------------------------------------------------------------

    def array(self, name: str) -> Array:
        """An array with the task axis first, as it is inside; for kernels."""
        array: Array = getattr(self, f"_{name}")
        return array

    def _view(self, array: Array) -> Any:
        """What users see: no task axis for one task, and not to be written to."""
        view = array[0] if self.single else array[:]
        if isinstance(view, np.ndarray):
            view.flags.writeable = False
        return view

    def __len__(self) -> int:
        return len(self.array(next(iter(self.fields))))

    def __add__(self, other: Self) -> Self:
        """Two parts of the same tasks' histories, in any order."""
        self._compatible(other)
        if len(self) != len(other):
            raise StatisticsError(
                f"a + b merges the histories of the same tasks, but there are {len(self)} and "
                f"{len(other)}; use a.concatenate(b) for different tasks"
            )
        return type(self)(single=self.single and other.single, **self._merge(other))

    def concatenate(self, *others: Self) -> Self:
        """The tasks of these statistics, then those of the others."""
        for other in others:
            self._compatible(other)
        parts = (self, *others)
        joined = {name: np.concatenate([p.array(name) for p in parts]) for name in self.fields}
        return type(self)(single=False, **joined)

    def __getitem__(self, index: Any) -> Self:
        """The statistics of some tasks: an integer (one task), a slice, integers or a mask."""
        if isinstance(index, np.ndarray) and index.ndim == 0:
            index = index.item()
        if isinstance(index, (bool, tuple)):
            hint = ""
            if isinstance(index, tuple):
                # scikit-learn takes `shape` for that of an array, and would pass over most tasks.
                hint = "; scikit-learn takes mixts.bridges.sklearn.tasks_of(statistics)"
            raise TaskError(f"an index must be an integer, a slice or an array, got {index}{hint}")
        try:
            arrays = {name: self.array(name)[index] for name in self.fields}
        except IndexError as error:
            raise TaskError(f"there are {len(self)} tasks, got index {index!r}: {error}") from error
        if isinstance(index, (int, np.integer)):
            return type(self)(single=True, **{name: a[None] for name, a in arrays.items()})
        return type(self)(single=False, **arrays)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.single == other.single and all(
            np.array_equal(self.array(name), other.array(name)) for name in self.fields
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        tasks = "1 task" if self.single else f"{len(self)} tasks"
        return (
            f"{type(self).__name__}({tasks}, {int(np.sum(self.n_observations))} observations, "
            f"shape={self.shape})"
        )

    def copy(self) -> Self:
        """The same numbers in arrays of their own."""
        return type(self)(single=self.single, **{name: self.array(name) for name in self.fields})

    def extend(self, n: int) -> Self:
        """The same tasks and ``n`` more with no history."""
        empty = {
            name: np.zeros((n, *self.array(name).shape[1:]), dtype)
            for name, dtype in self.fields.items()
        }
        return self.concatenate(type(self)(single=False, **empty))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file: JSON for a ``.json`` path, a zip of arrays for any other."""
        header = {"statistics": self.kind, "single": self.single}
        write_bundle(path, "statistics", header, {name: self.array(name) for name in self.fields})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read what ``save`` wrote, whatever the suffix; a subclass takes only its own kind."""
        header, arrays = read_bundle(path, "statistics")
        kind = STATISTICS.get(str(header.get("statistics")))
        if kind is not None and not issubclass(kind, cls):
            raise FormatError(f"{path} has {kind.__name__}, not {cls.__name__}")
        if kind is None:
            raise FormatError(
                f"{path}: unknown statistics {header.get('statistics')!r}; "
                f"known: {sorted(STATISTICS)}"
            )
        try:
            return kind(single=bool(header.get("single", False)), **arrays)
        except (StatisticsError, TypeError) as error:
            raise FormatError(f"{path} is damaged: {error}") from error

    def _compatible(self, other: Self) -> None:
        if type(other) is not type(self) or other.shape != self.shape:
            raise StatisticsError(
                f"expected {type(self).__name__} of shape {self.shape}, got {other!r}"
            )
