"""Statistics: the summary of a task's history that every prior can be conditioned on.

Statistics count observations (``observe``), merge (``a + b`` for two parts of the same tasks'
histories), concatenate (for different tasks), index, save and load. They are a monoid: any engine
that can group and reduce can compute them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._files import read_bundle, write_bundle
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.errors import (
    ActionError,
    FormatError,
    MixtsError,
    ObservationError,
    StatisticsError,
    TaskError,
)

STATISTICS: dict[str, type[Statistics]] = {}
"""Statistics classes by their name in files; a subclass registers itself."""

WORD = 8
"""Bytes of a number."""


def stored(name: str, doc: str) -> Any:
    """Return a property: a read-only view of a stored array, without the axis of a single task."""
    return property(lambda statistics: statistics._view(statistics.array(name)), doc=doc)


def turns(owners: Int[Array, " m"]) -> Iterator[Int[Array, " n"]]:
    """Yield the places of each owner's first observation, then those of each second one, and so on.

    Counted turn by turn, the observations of a call give the bits of as many calls.
    """
    order = np.argsort(owners, kind="stable")
    _, first, lengths = np.unique(owners[order], return_index=True, return_counts=True)
    for turn in range(lengths.max(initial=0)):
        yield order[first[lengths > turn] + turn]


class Statistics(ABC):
    """Summary of the histories of tasks, which does not depend on the prior.

    Statistics are of a batch of tasks, or (``single``) of one task without a task axis. The stored
    arrays always have the task axis first; the properties that users read are read-only. ``a + b``
    merges two parts of the histories of the same tasks, and ``a[index]`` selects tasks.

    Parameters
    ----------
    single
        Whether these are the statistics of one task without a task axis.
    **arrays
        The arrays named in ``fields``, tasks on the first axis.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> belief = prior.belief(n_tasks=2)
    >>> belief.update([0, 1, 1], [1, 0, 1], tasks=[0, 1, 1])
    >>> statistics = belief.statistics
    >>> statistics
    BernoulliStatistics(2 tasks, 3 observations, shape=(2,))
    >>> (statistics + statistics).successes
    array([[2, 0],
           [0, 2]])
    """

    kind: ClassVar[str]
    """Name in files."""
    fields: ClassVar[dict[str, Any]]
    """Names and types of the arrays, each with the tasks on its first axis."""
    support: ClassVar[str]
    """Possible rewards, in words, for error messages."""
    may_grow: ClassVar[bool] = False
    """Whether the bytes of a task may be from before more arms were added."""

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
        converted = []
        for name, dtype in self.fields.items():
            read = _checks.numbers if dtype is float else _checks.integers
            expected = f"{name} must be {'numbers' if dtype is float else 'whole numbers'}"
            converted.append(np.array(read(arrays[name], expected, StatisticsError), order="C"))
        self._store(converted)
        self.check()

    def _store(self, arrays: Sequence[Array]) -> None:
        """Keep arrays of the right types, in the order of ``fields``, as they are."""
        self.stored = tuple(arrays)
        """The arrays in the order of ``fields``; compiled loops change them in place."""
        for name, array in zip(self.fields, arrays, strict=True):
            setattr(self, f"_{name}", array)

    @classmethod
    def adopt(cls, arrays: Sequence[Array]) -> Self:
        """Wrap arrays of the right types, in the order of ``fields``, without copy or check.

        Parameters
        ----------
        arrays
            The arrays, tasks on the first axis.

        Returns
        -------
        Statistics
            The statistics.
        """
        made = cls.__new__(cls)
        made.single = False
        made._store(arrays)
        return made

    def check(self) -> None:
        """Raise ``StatisticsError`` for numbers that no history can have."""
        for name, dtype in self.fields.items():
            if dtype is float and not np.isfinite(self.array(name)).all():
                raise StatisticsError(f"{name} must be finite")
        self._check()
        if self.single and len(self) != 1:
            raise StatisticsError(f"single statistics hold one task, got {len(self)}")

    # -- defined by each subclass -------------------------------------------------------------

    @classmethod
    @abstractmethod
    def array_shapes(cls, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array for one task.

        Parameters
        ----------
        shape
            ``statistics.shape``.

        Returns
        -------
        dict
            Shapes by the names of the arrays.
        """

    @abstractmethod
    def _check(self) -> None:
        """Raise `StatisticsError` for wrong shapes or numbers out of range."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Sizes that must agree to merge: (n_arms,), (n_features,) or (n_states, n_actions)."""

    @property
    @abstractmethod
    def n_observations(self) -> Any:
        """Number of observations of each task (a number for one task)."""

    def checked_actions(self, actions: ArrayLike) -> Array:
        """Return the actions of decisions without outcomes, checked.

        Parameters
        ----------
        actions
            An arm or m arms; features (d,) or (m, d).

        Returns
        -------
        array
            The actions, (m,) or (m, d).
        """
        raise ActionError(f"the actions of {self!r} are policies: no single actions can wait")

    @abstractmethod
    def observations(self, actions: Any, outcomes: Any) -> tuple[Array, ...]:
        """Return checked arrays of m observations for ``observe``; a single one becomes m = 1.

        Parameters
        ----------
        actions
            An arm or m arms; features (d,) or (m, d); or a :class:`Trajectory`.
        outcomes
            A reward for each action; None for a trajectory.

        Returns
        -------
        tuple of arrays
            The observations, each array with the observations first.

        Raises
        ------
        ObservationError
            If types or shapes are wrong.
        """

    @abstractmethod
    def _observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count observations of existing tasks in place, all or none."""

    def _merge(self, other: Self) -> dict[str, Array]:
        """Return the arrays of both histories: sums, unless a subclass merges otherwise."""
        return {name: self.array(name) + other.array(name) for name in self.fields}

    @property
    def feature_scales(self) -> Float[Array, " p"]:
        """Typical size of each feature; 1 for each arm."""
        return np.ones(self.shape[-1])

    @property
    def pulls(self) -> Int[Array, "n K"]:
        """Number of observations of each arm, task axis first."""
        raise StatisticsError(f"{type(self).__name__} has no arms to count the observations of")

    @property
    def feature_squares(self) -> Float[Array, "d d"]:
        """Sum of row' row over the feature rows of all observations."""
        raise StatisticsError(f"{type(self).__name__} has no feature rows")

    def mapped(self, matrix: Float[Array, "e d"]) -> Self:
        """Return the statistics of the same observations with feature rows ``matrix @ row``.

        Parameters
        ----------
        matrix
            The matrix, (e, d): the new rows have e numbers.

        Returns
        -------
        Statistics
            The statistics.
        """
        raise StatisticsError(f"{type(self).__name__} has no feature rows")

    # -- shared by all ------------------------------------------------------------------------

    @classmethod
    def empty(cls, shape: tuple[int, ...], n_tasks: int | None = None) -> Self:
        """Return the statistics of tasks without observations.

        Parameters
        ----------
        shape
            (n_arms,), (n_features,) or (n_states, n_actions).
        n_tasks
            Number of tasks; None for one task without a task axis.

        Returns
        -------
        Statistics
            Empty statistics.
        """
        rows = 1 if n_tasks is None else _checks.count(n_tasks, "n_tasks", least=0)
        shapes = cls.array_shapes(shape)
        arrays = {name: np.zeros((rows, *shapes[name]), cls.fields[name]) for name in cls.fields}
        return cls(single=n_tasks is None, **arrays)

    def observe(self, tasks: ArrayLike, observed: tuple[Array, ...]) -> None:
        """Count observations in place, all or (with an error) none.

        The same observations give the same statistics, in one call or in many: counts exactly, real
        numbers to rounding (to the bit, if the order is the same).
        Statistics that a belief holds must not be changed: observe a ``copy()`` of them.

        Parameters
        ----------
        tasks
            The task of each observation, integers (m,); repeats are allowed.
        observed
            What ``observations(actions, outcomes)`` returned.

        Raises
        ------
        ObservationError
            For an unknown arm, a reward outside the support, or a malformed episode.
        """
        index = _checks.task_indices(tasks, len(self))
        if len(index) != len(observed[0]):
            raise ObservationError(
                f"expected a task for each of {len(observed[0])} observations, got {len(index)}"
            )
        self._observe(index, observed)

    def array(self, name: str) -> Array:
        """Return a stored array, task axis first; compiled loops change it in place.

        Parameters
        ----------
        name
            A name in ``fields``.

        Returns
        -------
        array
            The array itself.
        """
        array: Array = getattr(self, f"_{name}")
        return array

    def _view(self, array: Array) -> Any:
        """Return a read-only view, without the task axis for one task."""
        view = array[0] if self.single else array[:]
        if isinstance(view, np.ndarray):
            view.flags.writeable = False
        return view

    def __len__(self) -> int:
        return len(self.array(next(iter(self.fields))))

    def __add__(self, other: Self) -> Self:
        """Merge two parts of the same tasks' histories, in any order."""
        self._compatible(other)
        if len(self) != len(other):
            raise StatisticsError(
                f"a + b merges the histories of the same tasks, but there are {len(self)} and "
                f"{len(other)}; use a.concatenate(b) for different tasks"
            )
        return self._like(self.single and other.single, self._merge(other))

    def concatenate(self, *others: Self) -> Self:
        """Return the tasks of these statistics followed by those of the others.

        Parameters
        ----------
        *others
            Statistics of the same kind and shape.

        Returns
        -------
        Statistics
            The statistics of all tasks.
        """
        for other in others:
            self._compatible(other)
        parts = (self, *others)
        joined = {name: np.concatenate([p.array(name) for p in parts]) for name in self.fields}
        return self._like(False, joined)

    def __getitem__(self, index: Any) -> Self:
        """Select tasks by an integer (one task), a slice, integers or a mask."""
        if isinstance(index, np.ndarray) and index.ndim == 0:
            index = index.item()
        if isinstance(index, (bool, tuple)):
            hint = ""
            if isinstance(index, tuple):
                # scikit-learn mistakes `shape` for that of an array, and would skip most tasks.
                hint = "; scikit-learn takes mixts.bridges.sklearn.tasks_of(statistics)"
            raise TaskError(f"an index must be an integer, a slice or an array, got {index}{hint}")
        single = isinstance(index, (int, np.integer))
        try:
            return self._like(single, self._select([index] if single else index))
        except IndexError as error:
            raise TaskError(f"there are {len(self)} tasks, got index {index!r}: {error}") from error

    def _select(self, index: Any) -> dict[str, Array]:
        """Return the arrays of some tasks."""
        return {name: self.array(name)[index] for name in self.fields}

    def _like(self, single: bool, arrays: dict[str, Array]) -> Self:
        """Return statistics of the same kind with other arrays."""
        return type(self)(single=single, **arrays)

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
        """Return the same numbers in new arrays."""
        return self._like(self.single, {name: self.array(name) for name in self.fields})

    def extend(self, n: int) -> Self:
        """Return the same tasks followed by tasks without observations.

        Parameters
        ----------
        n
            Number of new tasks.

        Returns
        -------
        Statistics
            The statistics of all tasks.
        """
        return self.concatenate(self.empty(self.shape, n))

    def with_arms(self, n: int) -> Self:
        """Return the same histories with more arms, without observations.

        Parameters
        ----------
        n
            Number of new arms.

        Returns
        -------
        Statistics
            The statistics of all arms.
        """
        raise StatisticsError(f"{type(self).__name__} has no arms, so that none can be added")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file: JSON if the path ends in ``.json``, else a zip of arrays.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced in one step.
        """
        write_bundle(path, "statistics", *self.bundle())

    def bundle(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a file stores: a header of plain values, and arrays."""
        header = {"statistics": self.kind, "single": self.single}
        return header, {name: self.array(name) for name in self.fields}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read a file that ``save`` wrote; a subclass accepts only its own kind.

        Parameters
        ----------
        path
            A file of any suffix; the content decides how it is read.

        Returns
        -------
        Statistics
            The statistics.
        """
        return cls.from_bundle(*read_bundle(path, "statistics"), str(path))

    @classmethod
    def from_bundle(
        cls, header: dict[str, Any], arrays: dict[str, Array], source: str
    ) -> Statistics:
        """Return the statistics of a file's header and arrays.

        Parameters
        ----------
        header, arrays
            As :meth:`bundle` returns them.
        source
            Name of the content in error messages.

        Returns
        -------
        Statistics
            The statistics.
        """
        found = STATISTICS.get(str(header.get("statistics")))
        if found is not None and not issubclass(found, cls):
            raise FormatError(f"{source} has {found.__name__}, not {cls.__name__}")
        if found is None:
            raise FormatError(
                f"{source}: unknown statistics {header.get('statistics')!r}; "
                f"known: {sorted(STATISTICS)}. Import the module that defines it first"
            )
        try:
            limits: dict[str, Any] = dict(header.get("limits", {}))
            return found(single=bool(header.get("single", False)), **limits, **arrays)
        except (MixtsError, TypeError, ValueError) as error:
            raise FormatError(f"{source} is damaged: {error}") from error

    # -- bytes of single tasks ------------------------------------------------------------------

    @property
    def n_bytes(self) -> int:
        """Bytes of a task; of a task without observations, if their number varies."""
        return WORD * sum(self._sizes)

    @cached_property
    def _sizes(self) -> list[int]:
        """Number of numbers that a task has in each field."""
        return [int(np.prod(self.array(name).shape[1:])) for name in self.fields]

    def encode(self, index: Any = slice(None)) -> list[bytes]:
        """Return the bytes of each task: its numbers of each field, in order.

        Parameters
        ----------
        index
            Some of the tasks; by default all.

        Returns
        -------
        list of bytes
            The bytes of each task.
        """
        parts = [
            self.array(name)[index].astype("<f8" if dtype is float else "<i8")
            for name, dtype in self.fields.items()
        ]
        parts = [part.reshape(len(part), -1) for part in parts]
        words = np.concatenate([part.view("<i8") for part in parts], axis=1)
        return [row.tobytes() for row in words]

    def decode(self, contents: Sequence[bytes]) -> Self:
        """Return the statistics of tasks with these bytes, of the shape of these statistics.

        No bytes at all are a task without observations. Bytes from before arms were added are
        shorter: the missing arms were never observed.

        Parameters
        ----------
        contents
            Bytes of each task, as :meth:`encode` returns them.

        Returns
        -------
        Statistics
            The statistics.
        """
        n, n_bytes, sizes = len(contents), self.n_bytes, self._sizes
        whole = b"".join(
            content if len(content) == n_bytes else self._complete(content, sizes)
            for content in contents
        )
        words = np.frombuffer(whole, "<i8").reshape(n, n_bytes // WORD)
        arrays, start = [], 0
        for size, (name, dtype) in zip(sizes, self.fields.items(), strict=True):
            part = words[:, start : start + size].astype(np.int64)
            start += size
            part = part.view(dtype) if dtype is float else part
            arrays.append(part.reshape(n, *self.array(name).shape[1:]))
        decoded = self.adopt(arrays)
        decoded.check()
        return decoded

    def _complete(self, content: bytes, sizes: list[int]) -> bytes:
        """Return the full bytes of a task without history, or from before arms were added."""
        if not content:
            return bytes(self.n_bytes)
        narrow, rest = divmod(len(content), WORD * len(sizes))
        if not self.may_grow or rest or narrow > sizes[0]:
            raise StatisticsError(
                f"they have {len(content)} bytes where the prior expects {self.n_bytes}: they are "
                "of another family, or damaged"
            )
        old = np.frombuffer(content, "<i8").reshape(len(sizes), narrow)
        return np.pad(old, ((0, 0), (0, sizes[0] - narrow))).tobytes()

    def _compatible(self, other: Self) -> None:
        if type(other) is not type(self) or other.shape != self.shape:
            raise StatisticsError(
                f"expected {type(self).__name__} of shape {self.shape}, got {other!r}"
            )
