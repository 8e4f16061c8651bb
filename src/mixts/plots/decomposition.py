"""The regret and its two parts, summed over rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts.plots.labels import End, label_ends
from mixts.plots.style import DASHES, INK, LINE, LOOKS, PALETTE
from mixts.simulation.decomposition import Decomposition

_LOOKS = {
    "regret": (LOOKS["MixTS"].color, DASHES[0]),
    "sum": (INK, DASHES[3]),
    "first": (PALETTE[0], DASHES[1]),
    "second": (PALETTE[1], DASHES[2]),
}
_NAMES = {"regret": "regret", "sum": "sum of parts", "first": "first part", "second": "second part"}


def draw_decomposition(ax: Any, decomposition: Decomposition, title: str = "cumulative") -> None:
    """Means over runs with bands of one standard error."""
    ends = []
    for quantity, (color, dashes) in _LOOKS.items():
        mean, error = decomposition.curve(quantity)  # type: ignore[arg-type]
        x = np.arange(1, len(mean) + 1)
        ax.plot(x, mean, color=color, linestyle=dashes, linewidth=LINE)
        if np.isfinite(error).all():
            ax.fill_between(x, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
        ends.append(End(_NAMES[quantity], color, float(x[-1]), float(mean[-1])))
    ax.set_xlim(0, decomposition.n_rounds)
    ax.set_xlabel("round")
    ax.set_ylabel(title)
    label_ends(ax, ends)
