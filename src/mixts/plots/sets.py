"""What becomes of latent confidence sets as eta falls."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts._typing import ArrayLike
from mixts.diagnostics.confidence import ConfidenceSets
from mixts.diagnostics.confidence.sets import PROOFS_ETA
from mixts.plots.labels import End, label_ends
from mixts.plots.style import DASHES, FONT, INK, LINE, LOOKS

_LINES = {
    "excluded": ("exclude a state", LOOKS["MixTS"].color),
    "missed": ("miss the truth", LOOKS["TS"].color),
}
_N_POINTS = 200


def draw_sets(ax: Any, sets: ConfidenceSets, etas: ArrayLike | None = None) -> None:
    """The shares of runs in which any state, and the true one, is ever outside the set."""
    table = sets.sweep(_natural_etas(sets) if etas is None else etas)
    ends = []
    for dashes, (column, (name, color)) in zip(DASHES, _LINES.items(), strict=False):
        x, y = table["eta"], table[column]
        ax.plot(x, y, color=color, linestyle=dashes, linewidth=LINE)
        ends.append(End(name, color, float(x[-1]), float(y[-1])))
    ax.axvline(PROOFS_ETA, color=INK, linewidth=0.6)
    ax.annotate(
        "the proofs' eta", (PROOFS_ETA, 0.5), xycoords=("data", "axes fraction"), xytext=(-2, 0),
        textcoords="offset points", va="center", ha="right", size=FONT - 1, color=INK, rotation=90,
    )  # fmt: skip
    ax.set_ylim(-0.02, 1.02)
    ax.margins(x=0)
    ax.set_xlabel("eta")
    ax.set_ylabel("share of runs")
    label_ends(ax, ends)


def _natural_etas(sets: ConfidenceSets) -> Any:
    """From below zero and below where the true state is first missed, to beyond the proofs' eta."""
    known = [eta for eta in (sets.miss.eta, sets.exclusion.eta) if np.isfinite(eta)]
    low, high = min([0.0, *known]), max([PROOFS_ETA, *known])
    margin = 0.1 * (high - low)
    return np.linspace(low - margin, high + margin, _N_POINTS)
