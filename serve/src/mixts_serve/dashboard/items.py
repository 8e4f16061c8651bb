"""The panel of arms by kinds: which arms are shown to tasks of which kind, and what they earn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mixts_serve.agreement import Agreement, Agreements
from mixts_serve.dashboard.layout import PriorFacts


@dataclass(frozen=True)
class Cell:
    """An arm and a kind."""

    arm: int
    kind: int
    share: float
    """Share of the kind's decisions that took the arm."""
    agreement: Agreement | None
    """What was expected and earned; None without decisions."""


@dataclass(frozen=True)
class ItemsView:
    """Everything that the panel shows."""

    kinds: tuple[tuple[int, str], ...]
    """Index and name of each kind, a column."""
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Name of each arm, and its cells."""
    n_arms: int
    """Number of arms that have decisions."""

    @property
    def largest(self) -> float:
        """The largest share, which has the darkest shade: of many arms, all shares are small."""
        return max(cell.share for _, cells in self.rows for cell in cells)


def read_items(
    facts: PriorFacts, agreements: Agreements | None, arms: Sequence[int]
) -> ItemsView | None:
    """Return which arms are shown to which kinds; None if there is nothing to tell.

    Parameters
    ----------
    facts
        The active prior.
    agreements
        What it expected of its final decisions, and what they earned.
    arms
        Arms that rows may show, in their order.
    """
    if agreements is None or not agreements.cells:
        return None
    cells, taken = agreements.cells, {k for _, k in agreements.cells}
    totals = {
        g: sum(one.decisions for (kind, _), one in cells.items() if kind == g)
        for g in range(len(facts.weights))
    }
    shown = [k for k in arms if k in taken]
    rows = tuple(
        (facts.action(k), tuple(_cell(k, g, cells.get((g, k)), totals[g]) for g in totals))
        for k in shown
    )
    if not rows:
        return None
    return ItemsView(tuple((g, facts.kind(g)) for g in totals), rows, len(taken))


def _cell(arm: int, kind: int, found: Agreement | None, total: float) -> Cell:
    share = 0.0 if found is None or not total else found.decisions / total
    return Cell(arm, kind, share, found)
