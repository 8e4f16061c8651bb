"""Measured regret and bounds on it over a sweep, on one logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixts._typing import ArrayLike
from mixts.plots.lines import End, draw_mean, label_ends
from mixts.plots.style import DASHES, FONT, GREY, INK, LOOKS
from mixts.simulation.sweep import Sweep

_COLORS = ("#882255", "#009E73", "#E69F00")
"""Colours of the bounds; Theorem 1 is grey, the regret has MixTS's blue."""


def draw_bounds(
    ax: Any,
    sweep: Sweep,
    bounds: Mapping[str, ArrayLike],
    other: Mapping[str, ArrayLike],
    title: str = "",
    ticks: Mapping[float, str] | None = None,
) -> None:
    """Draw MixTS's regret, and bounds unscaled, over the values of a sweep.

    Parameters
    ----------
    ax
        Axes to draw into; the vertical axis becomes logarithmic.
    sweep
        Regret of MixTS.
    bounds
        Bounds by name, in colour; NaN where a bound does not apply.
    other
        Bounds to compare with, in grey.
    title
        Text above the axes.
    ticks
        Text below the axis, by value; None: numbers.
    """
    x = sweep.values
    regret = sweep.regret("MixTS")
    ends = []
    for i, (name, values) in enumerate({**other, **bounds}.items()):
        grey = i < len(other)
        color = GREY if grey else _COLORS[(i - len(other)) % len(_COLORS)]
        dashes = DASHES[1 + i % (len(DASHES) - 1)]
        line = np.asarray(values, float)
        ax.plot(x, line, color=color, linestyle=dashes, linewidth=1.3, zorder=1.5)
        known = np.flatnonzero(np.isfinite(line))
        if len(known):
            ends.append(End(name, color, float(x[known[-1]]), float(line[known[-1]])))
    look = LOOKS["MixTS"]
    draw_mean(ax, x, regret, look, marker="o", markersize=2.8, markeredgewidth=0, zorder=3)
    ends.append(End("MixTS, measured", look.color, float(x[-1]), float(regret.mean[-1])))
    ax.set_yscale("log")
    margin = 0.03 * (x[-1] - x[0])
    ax.set_xlim(x[0] - margin, x[-1] + margin)
    ax.set_xlabel(sweep.parameter)
    ax.set_ylabel("Bayes regret, and bounds on it (log scale)")
    ax.set_title(title, loc="left", size=FONT, color=INK)
    if ticks is not None:
        ax.set_xticks(list(ticks), labels=list(ticks.values()))
    label_ends(ax, ends)
