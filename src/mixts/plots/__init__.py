"""Figures of results, priors and beliefs: draw what others computed, compute nothing."""

from mixts.plots.dispatch import plot
from mixts.plots.intervals import draw_intervals
from mixts.plots.lines import draw_agents, draw_lines, label_ends
from mixts.plots.style import looks, new_axes, new_panels, save_figure

__all__ = [
    "draw_agents",
    "draw_intervals",
    "draw_lines",
    "label_ends",
    "looks",
    "new_axes",
    "new_panels",
    "plot",
    "save_figure",
]
