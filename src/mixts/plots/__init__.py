"""Figures of result objects: draw what others computed, compute nothing."""

from mixts.plots.dispatch import plot
from mixts.plots.files import save_figure
from mixts.plots.style import new_axes, new_panels

__all__ = ["new_axes", "new_panels", "plot", "save_figure"]
