"""A few named lines over one axis: bounds over rounds, and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixts._typing import Array, ArrayLike
from mixts.plots.labels import End, label_ends
from mixts.plots.style import DASHES, GREY, INK, LINE, LOOKS

_GREYS = ("#000000", GREY, "#A6A6A6", INK)
"""One after the other as different as three greys can be that are seen on white."""


def draw_lines(
    ax: Any,
    x: Array,
    lines: Mapping[str, ArrayLike],
    x_title: str,
    y_title: str,
    *,
    log: bool = False,
) -> None:
    """The first line is the point of the figure, the others are drawn for comparison, in greys.

    Those differ by dashes and by how dark they are. A name may have mathematics between dollar
    signs, as matplotlib sets it: ``r"$d^{3/2}\\sqrt{n}$"``.
    """
    ends = []
    for i, (name, y) in enumerate(lines.items()):
        color = LOOKS["MixTS"].color if i == 0 else _GREYS[(i - 1) % len(_GREYS)]
        ax.plot(x, y, color=color, linestyle=DASHES[i % len(DASHES)], linewidth=LINE)
        ends.append(End(name, color, float(x[-1]), float(list(y)[-1])))  # type: ignore[arg-type]
    if log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_xlabel(x_title)
    ax.set_ylabel(y_title)
    label_ends(ax, ends)
