"""Compiled loops of counts: tables looked up task by task, and shares added up by what was seen."""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array


@compiled()
def look_up(index: Array, table: Array, out: Array) -> None:
    """out[i] += the sum of the table's rows (entries, L) that task i points to."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(table.shape[1]):
                    out[i, s] += table[u, s]


@compiled()
def add_up(index: Array, share: Array, out: Array) -> None:
    """out[u] += the shares (L,) of every task that points to the entry u."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(out.shape[1]):
                    out[u, s] += share[i, s]


@compiled()
def add_up_totals(index: Array, share: Array, values: Array, out: Array) -> None:
    """The same with each share times the task's value in that column."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(out.shape[1]):
                    out[u, s] += share[i, s] * values[i, c]


# -- ln G and its derivatives ---------------------------------------------------------------------

_LARGE = 8.0
"""From here on Stirling's series has all digits with the terms below."""


@compiled()
def digamma(x: float) -> float:
    """The derivative of ln G: moved up to where the asymptotic series holds."""
    shift = 0.0
    while x < _LARGE:
        shift -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (
        1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760))))
    )
    return shift + math.log(x) - 0.5 / x - series


@compiled()
def trigamma(x: float) -> float:
    """The second derivative of ln G."""
    shift = 0.0
    while x < _LARGE:
        shift += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    series = 1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66 - y * 691 / 2730))))
    return shift + 1.0 / x + 0.5 * y + series * y / x


@compiled()
def rising_sums(
    column: Array, value: Array, shares: Array, start: Array, derivatives: bool, out: Array
) -> None:
    """Sums over each column's entries of share (f(a + u) - f(a)), for f = ln G, psi and psi'.

    ``start`` (columns, L) are the a; ``out`` (3, columns, L), of which without ``derivatives``
    only the first is filled.
    """
    for s in range(start.shape[1]):
        last = -1
        base, slope, bend = 0.0, 0.0, 0.0
        for u in range(len(value)):
            c = column[u]
            a = start[c, s]
            if c != last:
                last = c
                base = math.lgamma(a)
                if derivatives:
                    slope, bend = digamma(a), trigamma(a)
            r = shares[u, s]
            if r == 0.0:
                continue
            out[0, c, s] += r * (math.lgamma(a + value[u]) - base)
            if derivatives:
                out[1, c, s] += r * (digamma(a + value[u]) - slope)
                out[2, c, s] += r * (trigamma(a + value[u]) - bend)
