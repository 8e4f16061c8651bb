"""Pooled effects: what facts, crosses and scores do, the same for everybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from math import isfinite
from typing import Any

import numpy as np

from mixts import _checks
from mixts._checks import some_names
from mixts._typing import Array, ArrayLike, Bool, Float
from mixts.errors import ParameterError
from mixts.features._columns import (
    Feature,
    NumberFeature,
    column_header,
    column_of,
    freeze,
    is_number,
    name_of,
    plain,
)

MOST_POOLED = 300
"""Largest number of pooled numbers: each is a coefficient, and a column of what is learned from."""
PERSON = "person"
"""In a cross: every fact of the person."""


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
        freeze(
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
        freeze(self, means=tuple(given.tolist()), coefficients=None, sizes=None)
        if coefficients is not None:
            found = _checks.real_array(coefficients, "pooled coefficients", 1)
            if len(found) != len(self.names):
                raise ParameterError(
                    f"pooled coefficients must be {len(self.names)} numbers, one for each of "
                    f"{some_names(self.names)}, got {len(found)}"
                )
            freeze(self, coefficients=tuple(found.tolist()))
        if sizes is not None:
            known = _checks.real_array(sizes, "sizes of pooled terms", 1)
            if len(known) != len(self.terms) or (known < 0).any():
                raise ParameterError(
                    f"sizes must be {len(self.terms)} numbers of at least 0, one for each pooled "
                    f"term, got {sizes!r}"
                )
            freeze(self, sizes=tuple(known.tolist()))

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
            "columns": [column_header(column) for column in self.columns],
            "terms": [list(term) for term in self.terms],
            "person": list(self.person),
            "means": list(self.means),
            "coefficients": plain(self.coefficients),
            "sizes": plain(self.sizes),
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
        columns = [column_of(entry) for entry in header["columns"]]
        rest = (header[name] for name in ("terms", "person", "means", "coefficients", "sizes"))
        return cls(columns, *rest)


def is_known(column: Feature, value: Any) -> bool:
    """Return whether a fact has a value, and is no unknown level."""
    if value is None or value == "" or (is_number(value) and not isfinite(value)):
        return False
    if isinstance(column, NumberFeature) or not (isinstance(value, str) or is_number(value)):
        return True
    return column.other is not None or name_of(value) in column._places
