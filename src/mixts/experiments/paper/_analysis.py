"""What the analyses of the paper's experiments share: numbers in words, bounds beside regret."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mixts._typing import Array
from mixts.bounds import ShapeComparison, compare_shapes
from mixts.pages import Table
from mixts.simulation import Estimate, estimate
from mixts.simulation.sweep import Sweep

STATEMENT, APPENDIX = "Theorem 1, statement", "Theorem 1, appendix"
"""The two forms of the bound, by the names of their rows."""


def pm(value: Estimate, digits: int = 2) -> str:
    """A mean and its standard error."""
    # A line is not broken inside.
    return f"{value.mean:.{digits}f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{value.error:.{digits}f}"


def number(value: float) -> str:
    """Three digits, without an exponent where people would not write one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def price(sweep: Sweep) -> list[Estimate]:
    """What the latent state costs at each point: MixTS less the oracle that is told it."""
    gap = sweep.totals["MixTS"] - sweep.totals["Oracle"]
    return [estimate(row) for row in gap]


def sweep_table(sweep: Sweep, bounds: Mapping[str, Array], caption: str) -> Table:
    """Regret of MixTS and of the oracle, mean and median, their difference, and bounds."""
    columns = [sweep.parameter]
    cells = [[f"{value:g}" for value in sweep.values]]
    for name in ("MixTS", "Oracle"):
        mean, error = sweep.regret(name)
        columns += [name, f"{name}, median"]
        cells.append([pm(Estimate(m, e)) for m, e in zip(mean, error, strict=True)])
        cells.append([f"{m:.2f}" for m in sweep.median(name)])
    columns.append("MixTS − Oracle")
    cells.append([pm(one) for one in price(sweep)])
    for name, bound in bounds.items():
        columns.append(name)
        cells.append([number(b) for b in bound])
    return Table(tuple(columns), tuple(zip(*cells, strict=True)), caption)


def shapes(
    sweep: Sweep, bounds: Mapping[str, Array], agent: str = "MixTS"
) -> dict[str, ShapeComparison]:
    """The regret of an agent against each bound."""
    mean, error = sweep.regret(agent)
    return {name: compare_shapes(mean, bound, error) for name, bound in bounds.items()}


def shape_table(sweep: Sweep, comparisons: Mapping[str, ShapeComparison]) -> Table:
    """For each bound: both ends, growth, the best scale and how well it fits, correlations."""
    first, last = (f"{sweep.values[i]:g}" for i in (0, -1))
    rows = tuple(
        (
            name,
            f"{c.regret[0]:.2f} to {c.regret[-1]:.2f}{_growth(c.regret_growth)}",
            f"{number(c.bound[0])} to {number(c.bound[-1])}{_growth(c.bound_growth)}",
            f"1/{number(1 / c.scale)}",
            f"{c.relative_error:.0%}",
            _correlation(c.rank_correlation),
            _correlation(c.linear_correlation),
            c.verdict,
        )
        for name, c in comparisons.items()
    )
    return Table(
        (
            "what", "regret", "bound", "best scale", "off by", "rank corr.", "linear corr.",
            "same shape",
        ),
        rows,
        f"Does a bound, scaled, have the shape of the regret? Both from {first} to {last} of the "
        f"{sweep.parameter}; off by: root mean square of regret minus scaled bound, relative to "
        "that of the regret.",
        (False, False, False, True, True, True, True, False),
    )  # fmt: skip


def _growth(factor: float) -> str:
    """From 0 there is none."""
    return f", ×{factor:.3g}" if np.isfinite(factor) else ""


def _correlation(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def in_words(comparison: ShapeComparison) -> str:
    """What was measured, for the table of claims."""
    c = comparison
    return (
        f"regret ×{c.regret_growth:.3g} ({c.regret[0]:.3g} to {c.regret[-1]:.3g}), bound "
        f"×{c.bound_growth:.3g}; {c.relative_error:.0%} off at best (1/{number(1 / c.scale)}); "
        f"rank correlation {_correlation(c.rank_correlation)}, linear "
        f"{_correlation(c.linear_correlation)}"
    )


def in_short(comparison: ShapeComparison) -> str:
    """The same of another form of the bound."""
    c = comparison
    return f"×{c.bound_growth:.3g}, {c.relative_error:.0%} off at best"
