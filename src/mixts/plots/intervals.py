"""Estimates in rows: a mark for each agent, with a bar of two standard errors on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixts._numbers import Estimate
from mixts.errors import ParameterError
from mixts.plots.style import FONT, GREY, INK, MARKERS, legible, looks

_N_ERRORS = 2.0
"""Half the length of a bar, in standard errors: as many as decide a verdict."""
_SPREAD = 0.56
"""Share of a row's height over which its agents are spread."""


def draw_intervals(
    ax: Any,
    rows: Sequence[str],
    estimates: Mapping[str, Sequence[Estimate]],
    x_title: str,
    *,
    log: bool = False,
    lines: Mapping[str, float] | None = None,
    names: bool = True,
) -> None:
    """Draw estimates of several agents in named rows, the first row on top.

    Parameters
    ----------
    ax
        Axes to draw into.
    rows
        Names of the rows; an empty name leaves room between groups of rows.
    estimates
        By agent: mean and standard error in each row; NaN where there is none.
    x_title
        Title of the horizontal axis.
    log
        Whether the horizontal axis is logarithmic.
    lines
        Names and places of vertical lines to compare with.
    names
        Whether to write the names of rows and agents; no for a panel beside another one.
    """
    for name, values in estimates.items():
        if len(values) != len(rows):
            raise ParameterError(
                f"{name!r} must have an estimate for each of {len(rows)} rows, got {len(values)}"
            )
    style, n_agents = looks(list(estimates)), len(estimates)
    places = np.arange(len(rows), dtype=float)
    for i, (name, values) in enumerate(estimates.items()):
        offset = _SPREAD * ((i + 0.5) / n_agents - 0.5)
        mean, error = (np.array([one[j] for one in values], float) for j in (0, 1))
        color = style[name].color
        ax.errorbar(
            mean, places + offset, xerr=_N_ERRORS * np.nan_to_num(error), linestyle="",
            marker=MARKERS[i % len(MARKERS)], markersize=3.4, color=color,
            markeredgecolor=legible(color), markeredgewidth=0.5, elinewidth=1.1, label=name,
        )  # fmt: skip
    if log:
        _draw_log_scale(ax)
    for name, place in (lines or {}).items():
        ax.axvline(place, color=INK if place == 0 else GREY, linewidth=0.7, zorder=1)
        if name:
            ax.annotate(
                name, (place, 1.0), xycoords=("data", "axes fraction"), xytext=(-3, -2),
                textcoords="offset points", ha="right", va="top", rotation=90, size=FONT - 1,
                color=legible(GREY),
            )  # fmt: skip
    ax.set_yticks(places[[bool(row) for row in rows]], labels=[row for row in rows if row])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#e4e4e4", linewidth=0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(x_title)
    ax.tick_params(labelleft=names)
    if names:
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=n_agents, frameon=False, fontsize=FONT,
            labelcolor=[legible(style[name].color) for name in estimates], handletextpad=0.2,
            columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip


def _draw_log_scale(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
