"""Features with names: descriptions of actions become the rows of numbers of a linear prior.

A linear prior has a coefficient for each number of a row. :class:`Features` keeps what each number
means, in order: an intercept, numbers that may be scaled, and levels of text. It turns descriptions
such as ``{"price": 3.2, "brand": "acme"}`` into rows, and rows back into descriptions. Effects that
are the same for everybody, such as those of a person's age, are one more number (:class:`Pooled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cached_property
from itertools import pairwise, product
from math import isfinite
from operator import is_
from sys import float_info
from typing import Any, ClassVar

import numpy as np

from mixts import _checks
from mixts._checks import some_names
from mixts._tables import is_table, records
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, ParameterError

__all__ = [
    "Features",
    "LevelFeature",
    "NumberFeature",
    "Pooled",
    "name_of",
]

INTERCEPT = "intercept"
"""Name of the feature that is always 1."""

BEYOND = 10.0
"""A number this many times as large as any that the prior was learned from is refused: cents for
euros are 100 times too large, and a linear prior extrapolates without limit."""

_MOST = float_info.max
"""Largest finite number."""

UNKNOWN = -2
"""Place of a text that is not a level."""
_REFERENCE = -1
"""Place of the reference level, which has no number."""


@dataclass(frozen=True)
class NumberFeature:
    """A number x, which is (x - centre) / scale in a row.

    Parameters
    ----------
    name
        Name of the feature.
    centre, scale
        Numbers to subtract and to divide by; the scale is above 0.
    learned
        Smallest and largest number that a prior was learned from, which ``mixts fit`` fills in.
        Numbers more than ten times as large as both are refused. None, the default, takes all
        numbers. Features that differ in this only are equal.

    Examples
    --------
    >>> import mixts
    >>> price = mixts.NumberFeature("price", centre=3.0, scale=0.5)
    >>> mixts.Features([price]).rows([{"price": 4.0}])
    array([[2.]])
    """

    name: str
    centre: float = 0.0
    scale: float = 1.0
    learned: tuple[float, float] | None = field(default=None, compare=False)

    kind: ClassVar[str] = "number"
    n_numbers: ClassVar[int] = 1
    """Numbers of a row."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        for what in ("centre", "scale"):
            value = getattr(self, what)
            if not _is_number(value) or not isfinite(value):
                raise ParameterError(
                    f"{what} of feature {self.name!r} must be a finite number, got {value!r}"
                )
            _freeze(self, **{what: float(value)})
        if not 1e-75 <= self.scale <= 1e75:
            raise ParameterError(
                f"scale of feature {self.name!r} must be between 1e-75 and 1e75, got {self.scale!r}"
            )
        if self.learned is not None:
            _freeze(self, learned=_checked_range(self.learned, self.name))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of a row."""
        return (self.name,)

    @property
    def expected(self) -> str:
        """Values that the feature takes, in words."""
        return "a finite number"

    @property
    def example(self) -> float:
        """A value that the feature takes."""
        return 1.0 if self.learned is None or self.largest >= 1 else self.learned[1]

    @cached_property
    def largest(self) -> float:
        """Largest size of a number that is not refused."""
        size = 0.0 if self.learned is None else max(map(abs, self.learned))
        return min(BEYOND * size, _MOST) if size else _MOST

    def fill(self, row: Array, value: Any, start: int = 0) -> None:
        """Write a value into its part of a row.

        Parameters
        ----------
        row
            The row, which changes.
        value
            A finite number.
        start
            Place of its number in the row.
        """
        if type(value) is not float or not -self.largest <= value <= self.largest:
            if not _is_number(value) or not isfinite(value):
                raise ActionError(f"feature {self.name!r} must be {self.expected}, got {value!r}")
            if abs(value) > self.largest:
                raise self._far(value)
            value = float(value)
        row[start] = (value - self.centre) / self.scale

    def _far(self, value: float) -> ActionError:
        """Return the error for a number that is far outside the learned range."""
        assert self.learned is not None  # without a range, no number is refused
        low, high = self.learned
        return ActionError(
            f"feature {self.name!r} must be about as large as what the prior was learned from, "
            f"from {low:g} to {high:g}, got {value:g}: is it in the same unit? If it is right, "
            "learn the prior again from logs with such values"
        )

    def value(self, row: Array) -> float | None:
        """Return the value of its part of a row.

        Parameters
        ----------
        row
            The part of the row, (1,).

        Returns
        -------
        float or None
            The value; None if no value gives these numbers.
        """
        number = float(row[0] * self.scale + self.centre)
        return number if isfinite(number) else None


@dataclass(frozen=True, init=False)
class LevelFeature:
    """A text with a few levels: a row has a number for each level, 1 for the level of the action.

    Parameters
    ----------
    name
        Name of the feature.
    levels
        All levels, in the order of their numbers.
    reference
        Level without a number: the coefficients of the others say how they differ from it. A prior
        with an intercept needs one, or else the intercept and the levels say the same.
    other
        Level that stands for all texts that are not levels; by default such texts are refused.

    Examples
    --------
    >>> import mixts
    >>> brand = mixts.LevelFeature("brand", ("acme", "bolt", "other"), other="other")
    >>> brand.names
    ('brand=acme', 'brand=bolt', 'brand=other')
    >>> mixts.Features([brand]).rows([{"brand": "bolt"}, {"brand": "unheard of"}])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    name: str
    levels: tuple[str, ...]
    reference: str | None = None
    other: str | None = None

    kind: ClassVar[str] = "level"

    def __init__(
        self,
        name: str,
        levels: Sequence[str],
        reference: str | None = None,
        other: str | None = None,
    ) -> None:
        _check_name(name)
        what = f"levels of feature {name!r}"
        n = len(levels) if isinstance(levels, Sequence) else 0
        found = _checks.name_list(levels, n, what)
        _freeze(self, name=name, levels=found, reference=reference, other=other)
        if not self.numbered:
            raise ParameterError(
                f"{what} must be at least {1 if self.reference is None else 2}, got "
                f"{list(self.levels)}: leave out a feature that never changes"
            )
        for role in ("reference", "other"):
            level = getattr(self, role)
            if level is not None and level not in self.levels:
                raise ParameterError(
                    f"{role} of feature {self.name!r} must be one of its levels, "
                    f"{some_names(self.levels)}, got {level!r}"
                )

    @cached_property
    def numbered(self) -> tuple[str, ...]:
        """Levels that have a number in a row."""
        return tuple(level for level in self.levels if level != self.reference)

    @property
    def n_numbers(self) -> int:
        """Numbers of a row."""
        return len(self.numbered)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of a row."""
        return tuple(f"{self.name}={level}" for level in self.numbered)

    @property
    def expected(self) -> str:
        """Values that the feature takes, in words."""
        return f"one of the levels {some_names(self.levels)}"

    @property
    def example(self) -> str:
        """A value that the feature takes."""
        return self.levels[0]

    @cached_property
    def _places(self) -> dict[str, int]:
        places = {level: i for i, level in enumerate(self.numbered)}
        return places if self.reference is None else {**places, self.reference: _REFERENCE}

    def places(self, levels: Sequence[str]) -> Int[Array, " n"]:
        """Return the place of each level's number in a row.

        Parameters
        ----------
        levels
            Texts.

        Returns
        -------
        array
            Place of each level, (n,): -1 for the reference, -2 for an unknown level.
        """
        unknown = UNKNOWN if self.other is None else self._places[self.other]
        return np.array([self._places.get(level, unknown) for level in levels], np.int64)

    def fill(self, row: Array, value: Any, start: int = 0) -> None:
        """Write a value into its part of a row.

        Parameters
        ----------
        row
            The row, which changes; all zeros in the part of the feature.
        value
            A level; a number stands for its text, 30 and 30.0 for "30", as in logs.
        start
            Place of its first number in the row.
        """
        text = name_of(value) if isinstance(value, str) or _is_number(value) else None
        place = self._places.get(text or "")
        if place is None:
            if not text or self.other is None:
                hint = "; learn the prior again to add a level" if text else ""
                raise ActionError(
                    f"feature {self.name!r} must be {self.expected}, got {value!r}{hint}"
                )
            place = self._places[self.other]
        if place >= 0:
            row[start + place] = 1.0

    def value(self, row: Array) -> str | None:
        """Return the level of its part of a row.

        Parameters
        ----------
        row
            The part of the row, (n_numbers,).

        Returns
        -------
        str or None
            The level; None if no level gives these numbers.
        """
        ones = np.flatnonzero(row)
        if len(ones) == 0:
            return self.reference
        return self.numbered[ones[0]] if len(ones) == 1 and row[ones[0]] == 1.0 else None


Feature = NumberFeature | LevelFeature

MOST_POOLED = 300
"""Largest number of pooled numbers: each is a coefficient, and a column of what is learned from."""
PERSON = "person"
"""In a cross: every fact of the person."""
OFFSET = "pooled"
"""Name of the last number of a row: the sum of all pooled effects."""


@dataclass(frozen=True, init=False)
class Pooled:
    """Effects that are the same for everybody: of facts of a person, of crosses, of a score.

    A *fact* is known of the person (of the task) when a decision is made, and may change from one
    decision to the next: an age, a country, a campaign. A *term* is one column, or the product of
    two. All numbers are centred: a fact that is missing, and a level that is not known, count as
    those of the average person, and contribute 0 to each term.

    Parameters
    ----------
    columns
        What terms are made of: numbers with a centre and a scale, and levels without a reference.
    terms
        Names of columns: ``("age",)``, or the product ``("age", "item")``.
    person
        The columns that are facts of the person. Others belong to the action, and must be given.
    means
        Mean of each number of the columns, in order, which is subtracted; by default 0.
    coefficients
        Coefficient of each number of the terms, in order; None before they are learned.
    sizes
        What each term usually adds to a reward or to log odds: the root mean square in the logs
        that it was learned from. None, the default: not known. Effects that differ in this only
        are equal.

    Examples
    --------
    >>> import mixts
    >>> item = mixts.LevelFeature("item", ("book", "film"))
    >>> age = mixts.NumberFeature("age", centre=40, scale=10)
    >>> pooled = mixts.Pooled([age, item], [("age", "item")], ["age"], coefficients=[0.2, -0.2])
    >>> pooled.names
    ('age x item=book', 'age x item=film')
    >>> features = mixts.Features([item], pooled=pooled)
    >>> features.rows([{"item": "book"}, {"item": "film"}], context={"age": 60})
    array([[ 1. ,  0. ,  0.4],
           [ 0. ,  1. , -0.4]])
    """

    columns: tuple[Feature, ...]
    terms: tuple[tuple[str, ...], ...]
    person: tuple[str, ...]
    means: tuple[float, ...]
    coefficients: tuple[float, ...] | None
    sizes: tuple[float, ...] | None = field(compare=False)

    def __init__(
        self,
        columns: Sequence[Feature],
        terms: Sequence[Sequence[str]],
        person: Sequence[str] = (),
        means: Sequence[float] | None = None,
        coefficients: Sequence[float] | None = None,
        sizes: Sequence[float] | None = None,
    ) -> None:
        _freeze(
            self, columns=tuple(columns), terms=tuple(tuple(term) for term in terms),
            person=tuple(person),
        )  # fmt: skip
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ParameterError(f"names of pooled columns must differ, got {names}")
        used = [name for term in self.terms for name in term]
        unknown = next((name for name in (*used, *self.person) if name not in names), None)
        if unknown is not None:
            raise ParameterError(
                f"pooled terms and facts must be columns, {some_names(names)}, got {unknown!r}"
            )
        if not self.terms or any(len(term) not in (1, 2) for term in self.terms):
            raise ParameterError(
                "pooled terms must be at least one, each of one name or two, got "
                f"{list(self.terms)}"
            )
        if len(self.names) > MOST_POOLED:
            raise ParameterError(self._too_many)
        n = sum(column.n_numbers for column in self.columns)
        given = np.zeros(n) if means is None else _checks.real_array(means, "means", 1)
        if len(given) != n:
            raise ParameterError(f"means must be {n} numbers, one for each number, got {means!r}")
        _freeze(self, means=tuple(given.tolist()), coefficients=None, sizes=None)
        if coefficients is not None:
            found = _checks.real_array(coefficients, "pooled coefficients", 1)
            if len(found) != len(self.names):
                raise ParameterError(
                    f"pooled coefficients must be {len(self.names)} numbers, one for each of "
                    f"{some_names(self.names)}, got {len(found)}"
                )
            _freeze(self, coefficients=tuple(found.tolist()))
        if sizes is not None:
            known = _checks.real_array(sizes, "sizes of pooled terms", 1)
            if len(known) != len(self.terms) or (known < 0).any():
                raise ParameterError(
                    f"sizes must be {len(self.terms)} numbers of at least 0, one for each pooled "
                    f"term, got {sizes!r}"
                )
            _freeze(self, sizes=tuple(known.tolist()))

    @property
    def _too_many(self) -> str:
        parts = [f"{' x '.join(term)} ({self._n_numbers(term)})" for term in self.terms]
        return (
            f"pooled effects have {len(self.names):,} numbers, and at most {MOST_POOLED} are "
            f"learned: {', '.join(parts)}. Name fewer crosses (--cross, cross=), or keep fewer "
            "levels (--top-levels, top_levels=)"
        )

    def _n_numbers(self, term: tuple[str, ...]) -> int:
        return int(np.prod([self._by_name[name].n_numbers for name in term]))

    @cached_property
    def _by_name(self) -> dict[str, Feature]:
        return {column.name: column for column in self.columns}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of the terms: "age", "age x item=book"."""
        columns = [[self._by_name[name].names for name in term] for term in self.terms]
        return tuple(" x ".join(pair) for term in columns for pair in product(*term))

    @property
    def parts(self) -> list[tuple[str, slice]]:
        """Each term, "age x item", with its part of ``names``."""
        ends = np.cumsum([0, *map(self._n_numbers, self.terms)]).tolist()
        named = [" x ".join(term) for term in self.terms]
        return [(name, slice(a, b)) for name, (a, b) in zip(named, pairwise(ends), strict=True)]

    @property
    def is_learned(self) -> bool:
        """Whether there are coefficients."""
        return self.coefficients is not None

    @property
    def n_numbers(self) -> int:
        """Numbers of a row: one, once there are coefficients."""
        return 1 if self.is_learned else len(self.names)

    def learned(self, coefficients: ArrayLike, sizes: Sequence[float] | None = None) -> Pooled:
        """Return the same terms with coefficients.

        Parameters
        ----------
        coefficients
            Coefficient of each of ``names``.
        sizes
            What each term usually adds.

        Returns
        -------
        Pooled
            The effects.
        """
        numbers = np.asarray(coefficients, float).tolist()
        return Pooled(self.columns, self.terms, self.person, self.means, numbers, sizes)

    def numbers(
        self, values: Callable[[Feature, Float[Array, "K k"]], Bool[Array, " K"]], n: int
    ) -> Float[Array, "K p"]:
        """Return the numbers of the terms, or their sum, of n actions.

        Parameters
        ----------
        values
            Function of a column and its numbers, (n, k), all zero, which it fills in. It returns
            which actions have a value; the others get the mean.
        n
            Number of actions.

        Returns
        -------
        array
            (n, p) before there are coefficients, then (n, 1).
        """
        centred = []
        for column, part in zip(self.columns, self._slices.values(), strict=True):
            block = np.zeros((n, column.n_numbers))
            known = values(column, block)
            block -= self.means[part]
            centred.append(np.where(known[:, None], block, 0.0))
        joined = self._products(np.concatenate(centred, axis=1))
        if self.coefficients is None:
            return joined
        # Unlike BLAS, einsum gives a row the same bits among any number of rows.
        return np.einsum("kp,p->k", joined, np.array(self.coefficients))[:, None]

    @cached_property
    def _slices(self) -> dict[str, slice]:
        """Part of each column among the numbers of all columns, by name."""
        ends = np.cumsum([0, *(column.n_numbers for column in self.columns)]).tolist()
        return {c.name: slice(a, b) for c, (a, b) in zip(self.columns, pairwise(ends), strict=True)}

    def _products(self, centred: Float[Array, "K c"]) -> Float[Array, "K p"]:
        """Return the numbers of the terms, by the centred numbers of all columns."""
        parts = []
        for term in self.terms:
            first, *others = (centred[:, self._slices[name]] for name in term)
            for other in others:
                first = (first[:, :, None] * other[:, None, :]).reshape(len(centred), -1)
            parts.append(first)
        return np.concatenate(parts, axis=1)

    @property
    def _form(self) -> Float[Array, "c c"]:
        """Matrix C with (1, x)'C(1, x) = the sum of all effects of centred numbers x."""
        found = np.zeros((1 + len(self.means),) * 2)
        at = {name: slice(1 + part.start, 1 + part.stop) for name, part in self._slices.items()}
        for term, (_, part) in zip(self.terms, self.parts, strict=True):
            first, second = (*(at[name] for name in term), slice(0, 1))[:2]
            block = found[first, second]
            block += np.reshape((self.coefficients or ())[part], block.shape)
        return found

    def header(self) -> dict[str, Any]:
        """Return the effects as plain values, for files."""
        return {
            "columns": [_column_header(column) for column in self.columns],
            "terms": [list(term) for term in self.terms],
            "person": list(self.person),
            "means": list(self.means),
            "coefficients": _plain(self.coefficients),
            "sizes": _plain(self.sizes),
        }

    @classmethod
    def restore(cls, header: Mapping[str, Any]) -> Pooled:
        """Return the effects that ``header`` described; everything is checked again.

        Parameters
        ----------
        header
            Plain values, as :meth:`header` returns them.

        Returns
        -------
        Pooled
            The effects.
        """
        columns = [_column_of(entry) for entry in header["columns"]]
        rest = (header[name] for name in ("terms", "person", "means", "coefficients", "sizes"))
        return cls(columns, *rest)


def _is_known(column: Feature, value: Any) -> bool:
    """Return whether a fact has a value, and is no unknown level."""
    if value is None or value == "" or (_is_number(value) and not isfinite(value)):
        return False
    if isinstance(column, NumberFeature) or not (isinstance(value, str) or _is_number(value)):
        return True
    return column.other is not None or name_of(value) in column._places


_KINDS: dict[str, type[NumberFeature] | type[LevelFeature]] = {
    kind.kind: kind for kind in (NumberFeature, LevelFeature)
}


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
        _freeze(self, columns=found, intercept=bool(intercept), pooled=pooled)
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
        return rows if self._effects is None else self._effects.rows(rows, people)

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
        return rows[0] if self._effects is None else self._effects.rows(rows, [person])[0]

    def check_ranges(self, rows: Float[Array, "K d"]) -> None:
        """Raise `ActionError` for rows with a number far outside its learned range.

        Parameters
        ----------
        rows
            Rows of actions, (K, d).
        """
        for column, part in self.parts:
            if not isinstance(column, NumberFeature) or column.largest == _MOST:
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
    def _effects(self) -> _Effects | None:
        return None if self.pooled is None else _Effects(self, self.pooled)

    @cached_property
    def _facts(self) -> frozenset[str]:
        return frozenset(self.facts)

    @cached_property
    def _known(self) -> frozenset[str]:
        """Names that descriptions may have."""
        return frozenset((*self.raw_names, *self.facts))

    def _blank(self, n: int) -> Float[Array, "n w"]:
        """Return rows for :meth:`_fill`: of what is the same for all actions."""
        rows = np.zeros((n, self.n_numbers if self._effects is None else self._effects.width))
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
        if self._effects is not None:
            for column, part in self._effects.others:
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
        columns = [_column_header(column) for column in self.columns]
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
        columns = [_column_of(entry) for entry in header["columns"]]
        pooled = Pooled.restore(header[OFFSET]) if OFFSET in header else None
        return cls(columns, header[INTERCEPT], pooled)


class _Effects:
    """Pooled effects of actions, by the numbers that a row has anyway.

    While it is filled, a row has the numbers of the features, a place for the sum of the effects,
    and the numbers of pooled columns that no feature determines. With g = (1, centred facts of the
    person) and y = (these numbers, centred; 1 in the place of the sum), the sum is
    g'Fg + g'Uy + y'Qy. As g'U is computed once for a person, an action costs one product with y.
    """

    def __init__(self, features: Features, pooled: Pooled) -> None:
        self.pooled, self.n_own = pooled, features.n_own
        own = {
            column.name: (feature, part)
            for column in pooled.columns
            for feature, part in features.parts
            if feature.name == column.name and _determines(feature, column)
        }
        facts = [c for c in pooled.columns if c.name in pooled.person]
        others = [c for c in pooled.columns if c.name not in (*own, *pooled.person)]
        self.names = [column.name for column in facts]
        self.facts, n_facts = _in_turn(facts, 1)
        self.others, self.width = _in_turn(others, self.n_own + 1)
        places = {column.name: part for column, part in (*self.facts, *self.others)}
        self.means, self.shift = np.zeros(n_facts), np.zeros(self.width)
        # (1, centred numbers of all columns) = columns (g, y).
        columns = np.zeros((1 + len(pooled.means), n_facts + self.width))
        columns[0, 0] = 1.0
        of_facts, of_actions = columns[:, :n_facts], columns[:, n_facts:]
        for column, part in zip(pooled.columns, pooled._slices.values(), strict=True):
            rows, means = slice(1 + part.start, 1 + part.stop), np.array(pooled.means[part])
            if column.name in own:
                feature, place = own[column.name]
                of_facts[rows, 0], self.shift[place], of_actions[rows, place] = _by_feature(
                    feature, column, means
                )
                continue
            is_fact, place = column.name in pooled.person, places[column.name]
            (self.means if is_fact else self.shift)[place] = means
            (of_facts if is_fact else of_actions)[rows, place] = np.eye(column.n_numbers)
        self.columns = columns
        if pooled.is_learned:
            self._split(columns.T @ pooled._form @ columns, n_facts)
            self.last = [None] * len(facts), self._slopes_of([{}])

    def _split(self, form: Float[Array, "z z"], n: int) -> None:
        """Set F, U and Q; what is linear in g stands in U, as the slope of the place of the sum."""
        self.by_person = form[:n, n:] + form[n:, :n].T
        constants = form[0, :n] + form[:n, 0]
        constants[0] = form[0, 0]
        self.by_person[:, self.n_own] = constants
        form[0], form[:, 0] = 0.0, 0.0
        self.among_facts = form[:n, :n] if form[:n, :n].any() else None
        self.among_numbers = form[n:, n:] if form[n:, n:].any() else None

    def rows(
        self, rows: Float[Array, "K w"], people: Sequence[Mapping[str, Any]]
    ) -> Float[Array, "K d"]:
        """Return the rows of actions; ``rows`` has their values, and changes."""
        n = self.n_own
        if not self.pooled.is_learned:
            both = np.concatenate([self._centred(people), rows - self.shift], axis=1)
            terms = self.pooled._products(both @ self.columns[1:].T)
            return np.concatenate([rows[:, :n], terms], axis=1)
        rows[:, n] = 1.0
        numbers, slopes = rows - self.shift, self._slopes(people)
        # Unlike BLAS, einsum gives a row the same bits among any number of rows.
        if self.among_numbers is not None:
            slopes = slopes + np.einsum("kw,wv->kv", numbers, self.among_numbers)
        rows[:, n] = np.einsum("kw,kw->k", numbers, slopes)
        return np.ascontiguousarray(rows[:, : n + 1])

    def _slopes(self, people: Sequence[Mapping[str, Any]]) -> Float[Array, "g w"]:
        """Return what each number adds to the sum, g'U and g'Fg, for each person, or for all."""
        if len(set(map(id, people))) != 1:
            return self._slopes_of(people)
        # An agent learns in the context in which it decided. No value that was taken can change.
        values = [*map(people[0].get, self.names)]
        last, slopes = self.last
        if not all(map(is_, values, last)):
            slopes = self._slopes_of(people[:1])
            self.last = values, slopes
        return slopes

    def _slopes_of(self, people: Sequence[Mapping[str, Any]]) -> Float[Array, "g w"]:
        facts = self._centred(people)
        slopes = np.einsum("gf,fw->gw", facts, self.by_person)
        if self.among_facts is not None:
            products = np.einsum("gf,fh->gh", facts, self.among_facts)
            slopes[:, self.n_own] += np.einsum("gf,gf->g", products, facts)
        return slopes

    def _centred(self, people: Sequence[Mapping[str, Any]]) -> Float[Array, "g f"]:
        """Return 1 and the centred facts of each person; 0 where a fact is not known."""
        found = np.zeros((len(people), len(self.means)))
        for k, person in enumerate(people):
            row, missing = found[k], []
            for column, part in self.facts:
                value = person.get(column.name)
                if value is None:
                    missing.append(part)
                    continue
                try:
                    column.fill(row, value, part.start)
                except ActionError as error:
                    if _is_known(column, value):
                        what = str(error).replace("feature", "fact", 1)
                        raise ActionError(f"action {k}: {what}") from None
                    missing.append(part)
            row -= self.means
            for part in missing:
                row[part] = 0.0
        found[:, 0] = 1.0
        return found


def _in_turn(columns: Sequence[Feature], start: int) -> tuple[list[tuple[Feature, slice]], int]:
    """Return the part of each column in a row, one after another, and where the last one ends."""
    ends = np.cumsum([start, *(column.n_numbers for column in columns)]).tolist()
    parts = [slice(a, b) for a, b in pairwise(ends)]
    return list(zip(columns, parts, strict=True)), ends[-1]


def _determines(own: Feature, column: Feature) -> bool:
    """Return whether a feature's numbers determine those of a pooled column, and refuse as much."""
    if isinstance(own, NumberFeature) and isinstance(column, NumberFeature):
        return own.largest <= column.largest
    if isinstance(own, LevelFeature) and isinstance(column, LevelFeature):
        return set(own.levels) == set(column.levels) and own.other == column.other
    return False


def _by_feature(own: Feature, column: Feature, means: Float[Array, " c"]) -> tuple[Any, Any, Any]:
    """Return b, s and A with the column's centred numbers = b + A(numbers of the feature - s)."""
    if isinstance(own, NumberFeature):
        assert isinstance(column, NumberFeature)
        ratio = column.scale / own.scale
        return 0.0, (column.centre - own.centre) / own.scale + means * ratio, 1 / ratio
    assert isinstance(column, LevelFeature)
    matrix, shift = np.zeros((column.n_numbers, own.n_numbers)), np.zeros(own.n_numbers)
    places = own.places(column.numbered)
    numbered, constant = np.flatnonzero(places >= 0), np.zeros(column.n_numbers)
    matrix[numbered, places[numbered]], shift[places[numbered]] = 1.0, means[numbered]
    # The reference of the feature is the level that no number names.
    rest = places < 0
    matrix[rest], constant[rest] = -1.0, 1.0 - means[rest] - shift.sum()
    return constant, shift, matrix


def _column_header(column: Feature) -> dict[str, Any]:
    """Return a column as plain values."""
    values = {f.name: _plain(getattr(column, f.name)) for f in fields(column)}
    if values.get("learned", 0) is None:  # a file has no entry for a range that is not known
        del values["learned"]
    return {"kind": column.kind, **values}


def _column_of(entry: Mapping[str, Any]) -> Feature:
    """Return the column of plain values."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    kind = _KINDS.get(str(values.pop("kind", None)))
    if kind is None:
        raise ParameterError(
            f"unknown kind of feature {entry.get('kind')!r}; known: {sorted(_KINDS)}"
        )
    return kind(**values)


def name_of(value: Any) -> str:
    """Return the text by which files and requests name a value: 1, 1.0 and "1" share a name.

    Parameters
    ----------
    value
        A text, a number or a date.

    Returns
    -------
    str
        The name. Dates are written as in ISO 8601. Numbers that are not finite have no name: "".

    Examples
    --------
    >>> from mixts.features import name_of
    >>> name_of(1.0), name_of("1.0"), name_of(True)
    ('1', '1.0', 'true')
    """
    if type(value) is str:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not isfinite(value):
            return ""
        return str(int(value)) if value.is_integer() else repr(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _freeze(record: object, **values: Any) -> None:
    """Set the fields of a frozen record while it is made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (float, int, np.integer, np.floating, np.bool_))


def _checked_range(given: Any, name: str) -> tuple[float, float]:
    numbers = isinstance(given, (tuple, list)) and all(_is_number(x) and isfinite(x) for x in given)
    if not numbers or len(given) != 2 or given[0] > given[1]:
        raise ParameterError(
            f"learned range of feature {name!r} must be its smallest and largest number, got "
            f"{given!r}"
        )
    return float(given[0]), float(given[1])


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ParameterError(f"the name of a feature must be a text, got {name!r}")
