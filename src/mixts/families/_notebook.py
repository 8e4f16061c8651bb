"""What notebooks show of families: the means of the first components and arms, and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixts._html import MOST_ROWS, card, label, more, table
from mixts._typing import Array, Float, Int

if TYPE_CHECKING:
    from mixts.families.base import Family


def family_html(family: Family) -> str:
    """Return the means of the components of a family."""
    names = [str(s) for s in range(min(family.n_components, MOST_ROWS))]
    return card(repr(family), components_table(family, names, None, None))


def components_table(
    family: Family,
    names: list[str],
    weights: Float[Array, " L"] | None,
    items: tuple[str, ...] | None,
) -> str:
    """Return a table of components: the weight, and the mean of each arm or feature."""
    shown = np.arange(min(family.n_components, MOST_ROWS))
    head = ["component", *([] if weights is None else ["weight"])]
    rows = [[names[s], *([] if weights is None else [f"{weights[s]:.4g}"])] for s in shown]
    notes = [more(family.n_components - len(shown), "component")]
    if not family.plans:
        noun = "arm" if family.n_features is None else "feature"
        means = family.select(shown).parameter_means()[:, :MOST_ROWS]
        (n,) = family.statistics_shape
        head += item_names(items, noun, np.arange(means.shape[1]))
        for row, values in zip(rows, means, strict=True):
            row += [f"{value:.3g}" for value in values]
        notes += [more(n - means.shape[1], noun)]
        notes.append("mean reward of each arm" if noun == "arm" else "mean of each coefficient")
    return table(head, rows, notes)


def item_names(names: tuple[str, ...] | None, noun: str, shown: Int[Array, " k"]) -> list[str]:
    """Return the names of some arms or features in HTML; without names, their numbers."""
    return [f"{noun} {k}" if names is None else label(names[k]) for k in shown.tolist()]
