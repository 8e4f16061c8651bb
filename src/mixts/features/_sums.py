"""The sum of an action's pooled effects, by the numbers that its row has anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import is_
from typing import Any

import numpy as np

from mixts._typing import Array, Float
from mixts.errors import ActionError
from mixts.features._columns import Feature, LevelFeature, NumberFeature
from mixts.features._pooled import Pooled, is_known


class Sums:
    """Pooled effects of actions, by the numbers that a row has anyway.

    While it is filled, a row has the numbers of the features, a place for the sum of the effects,
    and the numbers of pooled columns that no feature determines. With g = (1, centred facts of the
    person) and y = (these numbers, centred; 1 in the place of the sum), the sum is
    g'Fg + g'Uy + y'Qy. As g'U is computed once for a person, an action costs one product with y.
    """

    def __init__(self, parts: Sequence[tuple[Feature, slice]], n_own: int, pooled: Pooled) -> None:
        self.pooled, self.n_own = pooled, n_own
        own = {
            column.name: (feature, part)
            for column in pooled.columns
            for feature, part in parts
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
                    if is_known(column, value):
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
