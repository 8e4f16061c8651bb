"""Figures of result objects: draw what others computed, compute nothing."""

from mixts.plots.dispatch import plot

__all__ = ["plot"]
