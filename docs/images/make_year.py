"""Draw docs/images/year.png: a year of a service whose prior is refitted every week.

    python benchmarks/service/year.py --years 1 2 --save year.npz
    python -m docs.images.make_year year.npz

Needs the extra `plots`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.service import year
from mixts.plots import style

LABELS = {
    year.REFIT: "refitted every week",
    year.UNCHECKED: "refitted, days not checked",
    year.FIXED: "the prior of the first day",
    year.BESTSELLER: "the bestseller of 30 days",
}
"""The label at the end of each line."""
LOOKS = {
    year.REFIT: style.LOOKS["MixTS"],
    year.UNCHECKED: style.LOOKS["Exp4"],
    year.FIXED: style.LOOKS["TS"],
    year.BESTSELLER: style.looks(["bestseller"])["bestseller"],
}
BOTTOM = 92.0
"""Least value of the scale; the bestseller is far below it."""


def draw(years: Sequence[year.Year]) -> Any:
    """Draw the share of the oracle's reward by month, with bands of two standard errors."""
    ax = style.new_axes(7.4, 3.6)
    months = np.arange(1, year.MONTHS + 1)
    ax.axhline(100, color=style.GREY, linewidth=0.8)
    ax.text(1, 100.15, "the oracle knows the true kinds of the day", size=style.FONT,
            color=style.GREY)  # fmt: skip
    ends = {}
    for name, (color, dashes) in LOOKS.items():
        found = [year.gain(years, name, year.ORACLE, month) for month in range(year.MONTHS)]
        gap, error = np.array(found).T
        if name == year.BESTSELLER:
            text = f"{LABELS[name]} earns {gap.min() + 100:.0f} to {gap.max() + 100:.0f} %"
            ax.text(1, BOTTOM + 0.2, text, size=style.FONT, color=style.legible(color))
            continue
        value = 100 + gap
        if name != year.UNCHECKED:  # three bands would hide each other
            low, high = value - 2 * error, value + 2 * error
            ax.fill_between(months, low, high, color=color, alpha=0.15, lw=0)
        ax.plot(months, value, color=color, linestyle=dashes, linewidth=style.LINE)
        ends[name] = value[-1]
    for name, at in _apart(ends).items():
        color = style.legible(LOOKS[name].color)
        ax.text(12.25, at, LABELS[name], size=style.FONT, color=color, va="center")
    _mark_events(ax, year.World())
    ax.set(xlim=(0.9, 12.1), ylim=(BOTTOM, 102.6), xticks=months)
    ax.set_xticklabels([f"{year.START.replace(month=m):%b}" for m in months])
    ax.set_ylabel("clicks, in % of the oracle's", size=style.FONT, color=style.INK)
    ax.set_xlabel("month of a customer's first day", size=style.FONT, color=style.INK)
    return ax.figure


def _apart(ends: dict[str, float], least: float = 0.55) -> dict[str, float]:
    """Move labels apart that would overlap, from the highest down."""
    places: dict[str, float] = {}
    above = np.inf
    for name, at in sorted(ends.items(), key=lambda pair: -pair[1]):
        above = places[name] = min(at, above - least)
    return places


def _mark_events(ax: Any, world: year.World) -> None:
    """Show when the world changes; month m lasts from m - 0.5 to m + 0.5."""

    def place(day: int) -> float:
        return 0.5 + day * year.MONTHS / year.DAYS

    def mark(day: int, text: str) -> None:
        ax.axvline(place(day), color=style.GREY, linewidth=0.6, linestyle=":")
        ax.text(place(day) + 0.05, 102.5, text, size=style.FONT - 1, color=style.INK, va="top")

    for day in world.come:
        mark(day, "item\ncomes")
    for day, _ in world.go:
        mark(day, "item\ngoes")
    mark(world.new_kind[0], "new\nkind")
    first, last = map(place, world.lost)
    ax.axvspan(first, last, color=style.GREY, alpha=0.3, lw=0)
    ax.text(first - 0.05, 93.0, "rewards\nlost", size=style.FONT - 1, color=style.INK,
            ha="right")  # fmt: skip


def main() -> None:
    """Print the table, and draw."""
    years = year.load(Path(sys.argv[1]))
    print(year.table(years))
    path = Path(__file__).with_name("year.png")
    draw(years).savefig(path, dpi=style.PNG_DPI, metadata={"Software": None})


if __name__ == "__main__":
    main()
