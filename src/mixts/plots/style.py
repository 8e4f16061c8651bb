"""One style for all figures: legible at a column's width, in print and for the colour-blind."""

from __future__ import annotations

from typing import Any

from mixts.errors import MissingExtraError

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which differ in lightness too; the yellow is too pale for lines."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
"""By line as well as by colour: neighbours differ without any colour."""
COLUMN = 3.4
"""The width of a column, in inches."""
FONT = 8.0
INK = "#333333"


def new_axes(width: float = COLUMN, height: float = 2.5) -> Any:
    """Axes of a new figure, which belongs to nobody's session."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot needs matplotlib: pip install 'mixts[plots]'") from error
    figure = Figure(figsize=(width, height), layout="constrained", dpi=200)
    axes = figure.subplots()
    dress(axes)
    return axes


def dress(ax: Any) -> None:
    """The look of axes: two thin spines, small ticks, light horizontal lines."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set(color=INK, linewidth=0.6)
    ax.tick_params(labelsize=FONT - 1, length=2.5, width=0.6, color=INK, labelcolor=INK)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.5)
    ax.set_axisbelow(True)
    for label in (ax.xaxis.label, ax.yaxis.label, ax.title):
        label.set(size=FONT, color=INK)


def spread(positions: list[float], gap: float) -> list[float]:
    """Positions moved apart as little as needed so that sorted neighbours are ``gap`` apart."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    # Clusters of labels that touch share one middle; they are merged until none touch.
    clusters: list[tuple[float, list[int]]] = []
    for i in order:
        middle, members = positions[i], [i]
        while clusters and clusters[-1][0] + gap * len(clusters[-1][1]) / 2 > middle - (
            gap * len(members) / 2
        ):
            other, before = clusters.pop()
            total = len(before) + len(members)
            middle = (other * len(before) + middle * len(members)) / total
            members = before + members
        clusters.append((middle, members))
    moved = list(positions)
    for middle, members in clusters:
        for rank, i in enumerate(members):
            moved[i] = middle + gap * (rank - (len(members) - 1) / 2)
    return moved
