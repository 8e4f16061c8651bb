"""All features of a prior: descriptions of actions become rows, and rows become descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mixts import _checks
from mixts._checks import some_names
from mixts._tables import is_table, records
from mixts._typing import Array, ArrayLike, Float
from mixts.errors import ActionError, ParameterError
from mixts.features._columns import (
    LARGEST,
    Feature,
    LevelFeature,
    NumberFeature,
    column_header,
    column_of,
    freeze,
)
from mixts.features._pooled import Pooled
from mixts.features._sums import Sums

INTERCEPT = "intercept"
"""Name of the feature that is always 1."""
OFFSET = "pooled"
"""Name of the last number of a row: the sum of all pooled effects."""


@dataclass(frozen=True, init=False)
class Features:
    """Names, order, intercept, scales and levels of the numbers that describe an action.

    A prior keeps its features (``mixts.MixturePrior(family, features=...)``), and
    ``mixts fit --features`` makes them.

    Parameters
    ----------
    columns
        The features in order: names of numbers, :class:`NumberFeature` or :class:`LevelFeature`.
    intercept
        Whether each row begins with a number that is always 1.
    pooled
        Effects that are the same for everybody; their sum is the last number of a row.

    Examples
    --------
    >>> import mixts
    >>> brand = mixts.LevelFeature("brand", ("acme", "bolt"), reference="acme")
    >>> features = mixts.Features(["price", brand], intercept=True)
    >>> features.names
    ('intercept', 'price', 'brand=bolt')
    >>> features.rows([{"price": 3.2, "brand": "bolt"}])
    array([[1. , 3.2, 1. ]])
    """

    columns: tuple[Feature, ...]
    intercept: bool
    pooled: Pooled | None

    def __init__(
        self,
        columns: Sequence[Feature | str],
        intercept: bool = False,
        pooled: Pooled | None = None,
    ) -> None:
        if isinstance(columns, (str, bytes)) or not isinstance(columns, Sequence):
            raise ParameterError(f"features must be a list of features or names, got {columns!r}")
        if not isinstance(intercept, (bool, np.bool_)):
            raise ParameterError(f"intercept must be true or false, got {intercept!r}")
        found = tuple(NumberFeature(c) if isinstance(c, str) else c for c in columns)
        for column in found:
            if not isinstance(column, (NumberFeature, LevelFeature)):
                raise ParameterError(
                    "features must be names, NumberFeature or LevelFeature, got "
                    f"{type(column).__name__}"
                )
        if not found and not intercept:
            raise ParameterError("features must be at least one, or an intercept, got none")
        if pooled is not None and not isinstance(pooled, Pooled):
            raise ParameterError(f"pooled must be a mixts.Pooled, got {type(pooled).__name__}")
        freeze(self, columns=found, intercept=bool(intercept), pooled=pooled)
        own = [column.name for column in self.columns]
        both = next((name for name in self.facts if name in own), None)
        if both is not None:
            raise ParameterError(f"{both!r} is a feature, and a fact of the person: leave one out")
        taken = (*((INTERCEPT,) if self.intercept else ()), *self.raw_names)
        for names, what in ((taken, "features"), (self.names, "numbers of a row")):
            repeated = next((name for name in names if names.count(name) > 1), None)
            if repeated is not None:
                raise ParameterError(f"names of {what} must differ, got {repeated!r} twice")

    @cached_property
    def raw_names(self) -> tuple[str, ...]:
        """Names of the features, as descriptions have them, without facts of the person."""
        return tuple(c.name for c in self.raw_columns if c.name not in self.facts)

    @property
    def raw_columns(self) -> tuple[Feature, ...]:
        """All columns that descriptions may have: features, facts and scores, each once."""
        own = [column.name for column in self.columns]
        pooled = () if self.pooled is None else self.pooled.columns
        return (*self.columns, *(column for column in pooled if column.name not in own))

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the facts of a person, which descriptions may have, too."""
        return () if self.pooled is None else self.pooled.person

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of the columns with pooled effects only that differ between actions.

        Such a column is usually the score of another model.
        """
        own = [column.name for column in self.columns]
        return tuple(name for name in self.raw_names if name not in own)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of a row: "intercept", "price", "brand=bolt".

        The last one is "pooled", if there are pooled effects; before these are learned, there is
        one for each of their numbers.
        """
        first = (INTERCEPT,) if self.intercept else ()
        last: tuple[str, ...] = ()
        if self.pooled is not None:
            last = self.pooled.names if self.pooled.coefficients is None else (OFFSET,)
        return (*first, *(name for column in self.columns for name in column.names), *last)

    @property
    def n_own(self) -> int:
        """Number of numbers whose coefficients differ between tasks: all but the pooled ones."""
        return self.n_numbers - (0 if self.pooled is None else self.pooled.n_numbers)

    @property
    def n_numbers(self) -> int:
        """Length of a row: the number of coefficients of the prior, d."""
        return len(self.names)

    @cached_property
    def parts(self) -> tuple[tuple[Feature, slice], ...]:
        """Each feature with its part of a row."""
        ends = np.cumsum([int(self.intercept), *(column.n_numbers for column in self.columns)])
        starts = ends[:-1].tolist()
        return tuple(
            (column, slice(start, start + column.n_numbers))
            for column, start in zip(self.columns, starts, strict=True)
        )

    # -- rows and descriptions ----------------------------------------------------------------

    def rows(
        self,
        descriptions: Sequence[Mapping[str, Any]] | Any,
        context: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> Float[Array, "K d"]:
        """Return the rows of described actions.

        Parameters
        ----------
        descriptions
            A mapping from each feature's name to its value for each action; or a table of pandas,
            polars or pyarrow, with a row for each action and a column for each feature. Facts of
            the person may stand beside the features.
        context
            Facts of the person, for all actions; or a list of them, one for each action.

        Returns
        -------
        array
            (K, d), in the order of ``names``.
        """
        if is_table(descriptions):
            descriptions = records(descriptions)
        if isinstance(descriptions, (Mapping, str)) or not isinstance(descriptions, Sequence):
            needs = "actions must be a list of descriptions"
            if context is not None:
                needs = "a context needs actions that are described,"
            raise ActionError(
                f"{needs} such as {self.example()}, got {type(descriptions).__name__}"
            )
        contexts = self._checked_contexts(context, len(descriptions))
        rows, people = self._blank(len(descriptions)), []
        for k, description in enumerate(descriptions):
            try:
                people.append(self._fill(rows[k], description, contexts[k]))
            except ActionError as error:
                raise ActionError(f"action {k}: {error}") from None
        return rows if self._sums is None else self._sums.rows(rows, people)

    def _checked_contexts(self, context: Any, n: int) -> Sequence[Mapping[str, Any]]:
        """Return the facts of the person for each of n actions."""
        if context is None:
            return [{}] * n
        several = isinstance(context, (list, tuple))
        if several and len(context) != n:
            raise ActionError(f"a list of contexts needs {len(context)} actions, got {n}")
        for facts in context if several else [context]:
            if not isinstance(facts, (dict, Mapping)):
                raise ActionError(f"context must be facts of the person by name, got {facts!r}")
            if facts.keys() <= self._facts:
                continue
            unknown = next(name for name in facts if name not in self._facts)
            known = f"facts: {some_names(self.facts)}" if self.facts else "this prior knows none"
            raise ActionError(f"unknown fact {unknown!r} of the person: leave it out; {known}")
        return context if several else [context] * n

    def row(
        self, description: Mapping[str, Any], context: Mapping[str, Any] | None = None
    ) -> Float[Array, " d"]:
        """Return the row of one described action.

        Parameters
        ----------
        description
            A mapping from each feature's name to its value.
        context
            Facts of the person.

        Returns
        -------
        array
            The row, (d,).
        """
        (facts,) = self._checked_contexts(None if context is None else [context], 1)
        rows = self._blank(1)
        person = self._fill(rows[0], description, facts)
        return rows[0] if self._sums is None else self._sums.rows(rows, [person])[0]

    def check_ranges(self, rows: Float[Array, "K d"]) -> None:
        """Raise `ActionError` for rows with a number far outside its learned range.

        Parameters
        ----------
        rows
            Rows of actions, (K, d).
        """
        for column, part in self.parts:
            if not isinstance(column, NumberFeature) or column.largest == LARGEST:
                continue
            values = rows[:, part.start] * column.scale + column.centre
            # Allow a little more than `fill`: scaling and back may round up.
            far = np.flatnonzero(np.abs(values) > column.largest * (1 + 1e-9))
            if len(far):
                raise ActionError(f"action {far[0]}: {column._far(float(values[far[0]]))}")

    def learned_from(self, low: Float[Array, " d"], high: Float[Array, " d"]) -> Features:
        """Return these features for a prior that is also learned from other rows.

        Parameters
        ----------
        low, high
            Smallest and largest number of these rows, (d,) each.

        Returns
        -------
        Features
            The same features; the learned range of each number also includes these rows.
        """
        columns: list[Feature] = []
        for column, part in self.parts:
            if isinstance(column, NumberFeature):
                ends = (float(x[part.start] * column.scale + column.centre) for x in (low, high))
                known = (*ends, *(column.learned or ()))
                columns.append(replace(column, learned=(min(known), max(known))))
            else:
                columns.append(column)
        return Features(columns, self.intercept, self.pooled)

    def learned_pooled(
        self, coefficients: ArrayLike, sizes: Sequence[float] | None = None
    ) -> Features:
        """Return these features with the coefficients of the pooled effects.

        Parameters
        ----------
        coefficients
            Coefficient of each number of the pooled effects.
        sizes
            What each term usually adds.

        Returns
        -------
        Features
            The same features, whose rows end with the sum of the pooled effects.
        """
        assert self.pooled is not None
        return Features(self.columns, self.intercept, self.pooled.learned(coefficients, sizes))

    @cached_property
    def _sums(self) -> Sums | None:
        return None if self.pooled is None else Sums(self.parts, self.n_own, self.pooled)

    @cached_property
    def _facts(self) -> frozenset[str]:
        return frozenset(self.facts)

    @cached_property
    def _known(self) -> frozenset[str]:
        """Names that descriptions may have."""
        return frozenset((*self.raw_names, *self.facts))

    def _blank(self, n: int) -> Float[Array, "n w"]:
        """Return rows for :meth:`_fill`: of what is the same for all actions."""
        rows = np.zeros((n, self.n_numbers if self._sums is None else self._sums.width))
        rows[:, : int(self.intercept)] = 1.0
        return rows

    def _fill(self, row: Array, description: Any, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write an action's values into its row, and return what is known of the person."""
        if not isinstance(description, (dict, Mapping)):  # a dict is known in no time
            raise ActionError(
                f"an action must be a description such as {self.example()}, got {description!r}"
            )
        for column, part in self.parts:
            try:
                value = description[column.name]
            except KeyError:
                raise ActionError(
                    f"feature {column.name!r} is missing: it must be {column.expected}"
                ) from None
            column.fill(row, value, part.start)
        if len(description) != len(self.raw_names):
            if not description.keys() <= self._known:
                name = next(name for name in description if name not in self._known)
                raise ActionError(
                    f"unknown feature {name!r}: leave it out; features: "
                    f"{some_names(self.raw_names)}"
                )
            context = {**description, **context} if context else description
        if self._sums is not None:
            for column, part in self._sums.others:
                column.fill(row, description.get(column.name), part.start)
        return context

    def example(self) -> dict[str, float | str]:
        """Return a description that an action may have."""
        return {c.name: c.example for c in self.raw_columns if c.name not in self.facts}

    def example_context(self) -> dict[str, float | str]:
        """Return facts that a person may have."""
        return {c.name: c.example for c in self.raw_columns if c.name in self.facts}

    def descriptions(self, rows: ArrayLike) -> list[dict[str, float | str]]:
        """Return the descriptions of actions with these rows: the inverse of :meth:`rows`.

        Pooled effects are a sum, of which no row tells the parts: these are left out.

        Parameters
        ----------
        rows
            Rows that :meth:`rows` returned, (K, d).

        Returns
        -------
        list of dict
            A mapping from each feature's name to its value for each row.
        """
        array = self._checked_rows(rows)
        found = []
        for k, row in enumerate(array):
            values = self.values(row)
            wrong = next((name for name, value in values.items() if value is None), None)
            if wrong is not None or (self.intercept and row[0] != 1.0):
                raise ActionError(
                    f"row {k} is no row of these features: {wrong or INTERCEPT!r} has the numbers "
                    f"{row}; expected the result of rows()"
                )
            found.append({name: value for name, value in values.items() if value is not None})
        return found

    def values(self, row: Float[Array, " d"]) -> dict[str, float | str | None]:
        """Return the value of each feature of a row.

        Parameters
        ----------
        row
            Numbers, (d,).

        Returns
        -------
        dict
            Value by name; None where no value gives these numbers.
        """
        return {column.name: column.value(row[part]) for column, part in self.parts}

    def _checked_rows(self, rows: ArrayLike) -> Array:
        expected = f"rows must be numbers of shape (K, {self.n_numbers})"
        array = _checks.numbers(rows, expected, ActionError)
        if array.ndim != 2 or array.shape[1] != self.n_numbers:
            raise ActionError(f"{expected}, got shape {array.shape}")
        return array

    # -- coordinates --------------------------------------------------------------------------

    @property
    def constant(self) -> Float[Array, " d"] | None:
        """Combination of a row's numbers that is always 1; None if there is none."""
        if self.intercept:
            return np.eye(self.n_numbers)[0]
        for column, part in self.parts:
            if isinstance(column, LevelFeature) and column.reference is None:
                ones = np.zeros(self.n_numbers)
                ones[part] = 1.0
                return ones
        return None

    def scaling(self) -> Float[Array, "d d"]:
        """Return the matrix W with row = W unscaled_row.

        Centres need the constant of a row; without a constant they are left out.
        """
        matrix, constant = np.eye(self.n_numbers), self.constant
        for column, part in self.parts:
            if isinstance(column, NumberFeature):
                matrix[part.start] /= column.scale
                if constant is not None:
                    matrix[part.start] -= constant * (column.centre / column.scale)
        return matrix

    # -- files --------------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        """Return the features as plain values, for files."""
        columns = [column_header(column) for column in self.columns]
        pooled = {} if self.pooled is None else {OFFSET: self.pooled.header()}
        return {"columns": columns, INTERCEPT: self.intercept, **pooled}

    @classmethod
    def restore(cls, header: Mapping[str, Any]) -> Features:
        """Return the features that ``header`` described; everything is checked again.

        Parameters
        ----------
        header
            Plain values, as :meth:`header` returns them.

        Returns
        -------
        Features
            The features.
        """
        columns = [column_of(entry) for entry in header["columns"]]
        pooled = Pooled.restore(header[OFFSET]) if OFFSET in header else None
        return cls(columns, header[INTERCEPT], pooled)
