"""Figures of results, priors and beliefs: draw what others computed, compute nothing."""

from mixts.plots import style
from mixts.plots.dispatch import plot, register_drawing, register_figure
from mixts.plots.intervals import draw_intervals
from mixts.plots.lines import End, draw_agents, draw_lines, draw_mean, label_ends
from mixts.plots.style import looks, new_axes, new_panels, save_figure

__all__ = [
    "End",
    "draw_agents",
    "draw_intervals",
    "draw_lines",
    "draw_mean",
    "label_ends",
    "looks",
    "new_axes",
    "new_panels",
    "plot",
    "register_drawing",
    "register_figure",
    "save_figure",
    "style",
]
