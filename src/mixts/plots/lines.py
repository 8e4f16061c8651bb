"""Estimates of agents, results and sweeps: lines with names at their ends, or rows of marks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from mixts import _checks
from mixts._numbers import Estimate, spread
from mixts._typing import Array, ArrayLike, Float
from mixts.errors import ParameterError
from mixts.plots.style import DASHES, FONT, GREY, INK, LINE, LOOKS, MARKERS, Look, legible, looks
from mixts.simulation import Results
from mixts.simulation.results import Sweep

_DISTANCE = 8.0
"""Points between axes and labels: room for a line that leads to a label that was moved."""
_FORMULA = re.compile(r"\$[^$]+\$")
_UNSEEN = dict.fromkeys(map(ord, "${}^_"))
_HOLD, _HELD = "\ue000", "\ue001"
"""Placeholders of formulas while a name is broken into lines: private characters of Unicode."""
_RAISED = 0.4
"""Additional height of a line with a formula, for exponents, indices and roots."""
_GREYS = ("#000000", GREY, "#A6A6A6", INK)
"""Greys in the order in which neighbours differ most; all can be seen on white."""


class End(NamedTuple):
    """End of a line, and its name."""

    name: str
    color: str
    x: float
    y: float


def draw_mean(
    ax: Any,
    x: Array,
    estimate: tuple[Float[Array, " t"], Float[Array, " t"]],
    look: Look,
    **options: Any,
) -> None:
    """Draw a mean with a band of one standard error, where that is known.

    Parameters
    ----------
    ax
        Axes to draw into.
    x
        Abscissae.
    estimate
        Means and their standard errors.
    look
        Colour and dashes.
    **options
        Options of the line; its ``zorder`` is one above the band's.
    """
    mean, error = estimate
    above = options.setdefault("zorder", 2.0)
    ax.plot(x, mean, color=look.color, linestyle=look.dashes, linewidth=LINE, **options)
    if np.isfinite(error).all():
        low, high = mean - error, mean + error
        ax.fill_between(x, low, high, color=look.color, alpha=0.2, linewidth=0, zorder=above - 1)


def draw_agents(
    ax: Any, x: Array, estimates: Mapping[str, Estimate], style: Mapping[str, Look], **options: Any
) -> list[End]:
    """Draw the means of several agents with bands of one standard error.

    Parameters
    ----------
    ax
        Axes to draw into.
    x
        Common abscissae.
    estimates
        Means and their standard errors by agent.
    style
        Colour and dashes by agent.
    **options
        Options of the lines.

    Returns
    -------
    list of End
        Ends of the lines, for :func:`label_ends`.
    """
    ends = []
    for rank, (name, values) in enumerate(estimates.items()):
        # Earlier agents above later ones, and every line above every band.
        above = 3 - rank / len(estimates)
        draw_mean(ax, x, values, style[name], zorder=above, **options)
        ends.append(End(name, style[name].color, float(x[-1]), float(values.mean[-1])))
    return ends


def draw_lines(
    ax: Any,
    x: Array,
    lines: Mapping[str, ArrayLike],
    x_title: str,
    y_title: str,
    *,
    log: bool = False,
) -> None:
    """Draw a main line in colour, and others for comparison in greys and dashes.

    Parameters
    ----------
    ax
        Axes to draw into.
    x
        Common abscissae.
    lines
        Values by name, the main line first. A name may have mathematics between dollar signs:
        ``r"$d^{3/2}\\sqrt{n}$"``.
    x_title, y_title
        Titles of the axes.
    log
        Whether both axes are logarithmic.
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


def label_ends(ax: Any, ends: Sequence[End]) -> None:
    """Write names at the right of the axes, each with a thin line to the end of its line.

    Their places are computed whenever the figure is drawn, so limits, scales and sizes may change
    after the call.
    """
    texts = [_broken(end.name, _line_length(ax)) for end in ends]
    heights = [FONT * _height(text) for text in texts]
    for i, (end, text) in enumerate(zip(ends, texts, strict=True)):
        ax.annotate(
            text, (0, 0), xycoords=partial(_mark, end, ax), xytext=(0, 0),
            textcoords=partial(_place, i, ends, heights, ax), va="center", ha="left", size=FONT,
            color=legible(end.color), annotation_clip=False, linespacing=1.1,
            arrowprops={
                "arrowstyle": "-", "color": end.color, "linewidth": 0.6, "relpos": (0, 0.5),
                "shrinkA": 0, "shrinkB": 0,
            },
        )  # fmt: skip


def _height(text: str) -> float:
    """Return the height of a label, in sizes of its letters."""
    lines = text.split("\n")
    return 0.2 + sum(1.15 + _RAISED * bool(_FORMULA.search(line)) for line in lines)


def _line_length(ax: Any) -> int:
    """Return the characters in a line of a label: longer ones would take too much of the width."""
    return 16 if ax.bbox.width / ax.figure.dpi > 2.0 else 11


def _broken(name: str, length: int) -> str:
    """Break a name into lines; a factor stays with its sign, and line breaks are kept.

    A formula stays whole, and counts as long as it will look.
    """
    formulas = _FORMULA.findall(name)
    whole = re.sub("([/×=]) ", "\\1\N{NO-BREAK SPACE}", _FORMULA.sub(_HOLD, name))
    for formula in formulas:
        signs = re.sub(r"\\[A-Za-z]+ ?", "x", formula).translate(_UNSEEN)
        whole = whole.replace(_HOLD, _HELD * min(len(signs), length), 1)
    broken = "\n".join(textwrap.fill(line, length) for line in whole.split("\n"))
    rest = iter(formulas)
    return re.sub(f"{_HELD}+", lambda _: next(rest), broken)


def _mark(end: End, ax: Any, renderer: Any = None) -> Any:
    """Return the transform to the end of a line, or to where a hidden end leaves the axes."""
    from matplotlib.transforms import Affine2D

    box = ax.bbox
    x, y = ax.transData.transform((end.x, end.y))
    return Affine2D().translate(min(max(x, box.x0), box.x1), min(max(y, box.y0), box.y1))


def _place(i: int, ends: Sequence[End], heights: Sequence[float], ax: Any, renderer: Any) -> Any:
    """Return the transform to the place of label i for the present axes."""
    from matplotlib.transforms import Affine2D

    scale, box = renderer.points_to_pixels(1.0), ax.bbox
    marks = [float(_mark(end, ax).transform((0, 0))[1]) for end in ends]
    places = spread(marks, [scale * height for height in heights], box.y0, box.y1)
    return Affine2D().translate(box.x1 + scale * _DISTANCE, places[i])


# -- rows of marks with bars ----------------------------------------------------------------------

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


# -- results and sweeps ---------------------------------------------------------------------------

_TITLES = {"regret": "cumulative regret", "reward": "mean reward so far"}
_MARGIN = 0.03
"""Share of the horizontal axis beside the first and the last value."""


def draw_curves(
    ax: Any,
    results: Results,
    quantity: Literal["regret", "reward"] = "regret",
    agents: Sequence[str] | None = None,
    log: bool = False,
    rounds: str = "round",
    bottom: float | None = None,
    log_x: bool = False,
) -> None:
    """Draw the learning curves of agents; see :func:`mixts.plot` for the options."""
    names = results.agents if agents is None else list(agents)
    if not names:
        raise ParameterError(f"agents must name some of {results.agents}, got none")
    curves = {name: results.curve(name, quantity) for name in names}
    x = np.arange(1, len(curves[names[0]].mean) + 1)
    ends = draw_agents(ax, x, curves, looks(results.agents, names))
    if log:
        ax.set_yscale("log")
    elif quantity == "regret" and bottom is None:
        bottom = 0.0
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    if log_x:
        ax.set_xscale("log")
    ax.set_xlim(*((1, max(2, len(x))) if log_x else (0, len(x))))
    ax.set_xlabel(rounds)
    ax.set_ylabel(_TITLES[quantity])
    label_ends(ax, ends)


def draw_sweep(
    ax: Any,
    sweep: Sweep,
    bounds: Mapping[str, ArrayLike] | None = None,
    agents: Sequence[str] | None = None,
) -> None:
    """Draw regret over a parameter; see :func:`mixts.plot` for the options."""
    names = sweep.agents if agents is None else list(agents)
    if not names:
        raise ParameterError(f"agents must name some of {sweep.agents}, got none")
    lines = {name: _checked(bound, name, sweep) for name, bound in (bounds or {}).items()}
    x, style = sweep.values, looks(sweep.agents, names)
    ends = draw_agents(
        ax, x, {name: sweep.regret(name) for name in names}, style,
        marker="o", markersize=2.4, markeredgewidth=0,
    )  # fmt: skip
    first, median = names[0], sweep.median(names[0])
    ax.plot(  # below the lines, and whole where a mark is on the axis
        x, median, color=style[first].color, linestyle="", marker="o", markersize=4.0,
        markerfacecolor="white", markeredgewidth=0.6, zorder=1.9, clip_on=False,
    )  # fmt: skip
    ends.append(End(f"{first}, median", style[first].color, float(x[-1]), float(median[-1])))
    for i, (name, bound) in enumerate(lines.items()):
        dashes = DASHES[1 + i % (len(DASHES) - 1)]
        ax.plot(x, bound, color=GREY, linestyle=dashes, linewidth=1.0, zorder=1.5)
        ends.append(End(name, GREY, float(x[-1]), float(bound[-1])))
    ax.set_ylim(bottom=0.0)
    margin = _MARGIN * (x[-1] - x[0]) or abs(x[0]) or 1.0
    ax.set_xlim(x[0] - margin, x[-1] + margin)
    # Labels beside the axes will leave about this part of the width.
    shown = tick_values(x, 0.6 * 72 * ax.bbox.width / ax.figure.dpi)
    ax.set_xticks(x, minor=True, labels=[""] * len(x))
    ax.set_xticks(shown, labels=[f"{value:g}" for value in shown])
    ax.set_xlabel(sweep.parameter)
    ax.set_ylabel("Bayes regret")
    label_ends(ax, ends)


def tick_values(values: Float[Array, " p"], width: float) -> list[float]:
    """Choose the values to write below an axis that is ``width`` points wide.

    The last and the first value are written, then the roundest that still have room.
    """
    scale = width / (values[-1] - values[0]) if len(values) > 1 else 1.0

    def digits(i: int) -> int:
        return len(f"{values[i]:g}".replace(".", "").strip("0"))

    def room(i: int) -> float:
        """Return half the width of a number in points, with some space beside it."""
        return 0.3 * (FONT - 1) * len(f"{values[i]:g}") + 1.5

    inner = sorted(range(1, len(values) - 1), key=lambda i: (digits(i), i))
    chosen: list[int] = []
    for i in dict.fromkeys([len(values) - 1, 0, *inner]):
        if all(abs(values[i] - values[j]) * scale > room(i) + room(j) for j in chosen):
            chosen.append(i)
    return [float(values[i]) for i in sorted(chosen)]


def _checked(bound: ArrayLike, name: str, sweep: Sweep) -> Float[Array, " p"]:
    array = _checks.numbers(bound, f"the bound {name!r} must be numbers", ParameterError)
    if array.shape != sweep.values.shape:
        raise ParameterError(
            f"the bound {name!r} must have a number for each of the {len(sweep.values)} values, "
            f"got shape {array.shape}"
        )
    return array
