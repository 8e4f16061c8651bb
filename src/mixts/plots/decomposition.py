"""The regret and its two parts, summed over rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts.diagnostics.decomposition import Decomposition
from mixts.plots.labels import End, label_ends
from mixts.plots.style import DASHES, FONT, INK, LINE, LOOKS, PALETTE

_LOOKS = {
    "regret": (LOOKS["MixTS"].color, DASHES[0]),
    "sum": (INK, DASHES[3]),
    "first": (PALETTE[0], DASHES[1]),
    "second": (PALETTE[1], DASHES[2]),
}
_NAMES = {"regret": "regret", "sum": "sum of parts", "first": "first part", "second": "second part"}


def draw_decomposition(
    ax: Any, decomposition: Decomposition, title: str = "", rounds: int | None = None
) -> None:
    """Means over runs with bands of one standard error, of all rounds or of the first ``rounds``.

    Most of what happens does so early: the first 100 of 1,000 rounds may show more than all.
    """
    n_rounds = decomposition.n_rounds
    shown = n_rounds if rounds is None else min(n_rounds, _checks.count(rounds, "rounds"))
    ends = []
    for quantity, (color, dashes) in _LOOKS.items():
        curve = decomposition.curve(quantity)  # type: ignore[arg-type]
        mean, error = (array[:shown] for array in curve)
        x = np.arange(1, shown + 1)
        ax.plot(x, mean, color=color, linestyle=dashes, linewidth=LINE)
        if np.isfinite(error).all():
            ax.fill_between(x, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
        ends.append(End(_NAMES[quantity], color, float(x[-1]), float(mean[-1])))
    ax.set_xlim(0, shown)
    ax.set_xlabel("round")
    ax.set_ylabel("cumulative sum")
    if title:
        ax.set_title(title, loc="left", size=FONT, color=INK)
    label_ends(ax, ends)
