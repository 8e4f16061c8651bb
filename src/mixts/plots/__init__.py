"""Figures of results, priors and beliefs: draw what others computed, compute nothing."""

from mixts.plots.dispatch import plot
from mixts.plots.lines import draw_lines
from mixts.plots.style import new_axes, new_panels, save_figure

__all__ = ["draw_lines", "new_axes", "new_panels", "plot", "save_figure"]
