"""Distinct values of columns of counts: what tasks share is computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.learning._kernels.counts import add_up, look_up, rising_sums


@dataclass(frozen=True)
class Levels:
    """The positive values of each column, one entry for every value that a column has."""

    index: Int[Array, "n c"]
    """The entry of each task and column; -1 where the value is zero."""
    value: Float[Array, " u"]
    column: Int[Array, " u"]
    n_columns: int

    @classmethod
    def of(cls, columns: Int[Array, "n c"]) -> Levels:
        """Entries are ordered by column, then by value."""
        index = np.full(columns.shape, -1, np.int64)
        values, owners = [], []
        start = 0
        for c in range(columns.shape[1]):
            found, inverse = np.unique(columns[:, c], return_inverse=True)
            zero = int(len(found) > 0 and found[0] == 0)
            entry = inverse.reshape(-1) - zero
            index[:, c] = np.where(entry >= 0, entry + start, -1)
            values.append(found[zero:])
            owners.append(np.full(len(found) - zero, c))
            start += len(found) - zero
        return cls(
            index,
            np.concatenate([np.zeros(0), *values]).astype(float),
            np.concatenate([np.zeros(0, np.int64), *owners]).astype(np.int64),
            columns.shape[1],
        )

    def look_up(self, table: Float[Array, "u L"], n_components: int) -> Float[Array, "n L"]:
        """The sum of the table's entries over each task's columns."""
        out = np.zeros((len(self.index), n_components))
        look_up(self.index, np.ascontiguousarray(table), out)
        return out

    def shares(self, share: Float[Array, "n L"]) -> Float[Array, "u L"]:
        """The sum of the shares of the tasks that have each entry."""
        out = np.zeros((len(self.value), share.shape[1]))
        add_up(self.index, share, out)
        return out

    def rising(
        self, shares: Float[Array, "u L"], start: Float[Array, "c L"], *, derivatives: bool = False
    ) -> Float[Array, "3 c L"]:
        """Sums of shares times ln G(a + u) / G(a) over each column's entries, and derivatives."""
        out = np.zeros((3, *start.shape))
        rising_sums(self.column, self.value, shares, np.ascontiguousarray(start), derivatives, out)
        return out

    def by_column(self, entries: Float[Array, "u L"]) -> Float[Array, "c L"]:
        """Sums over each column's entries."""
        out = np.zeros((self.n_columns, entries.shape[1]))
        filled = self.starts < np.append(self.starts[1:], len(self.column))
        if filled.any():
            out[filled] = np.add.reduceat(entries, self.starts[filled])
        return out

    @cached_property
    def starts(self) -> Int[Array, " c"]:
        """The first entry of each column, or where it would be."""
        return np.searchsorted(self.column, np.arange(self.n_columns))
