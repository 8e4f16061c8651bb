"""Results of simulations: learning curves of agents, and regret over the values of a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float
from mixts.errors import ParameterError
from mixts.plots.lines import End, draw_agents, label_ends
from mixts.plots.style import DASHES, FONT, GREY, looks
from mixts.simulation import Results
from mixts.simulation.sweep import Sweep

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
    log_x: bool = False,
    log_y: bool = False,
    medians: bool | Literal["all"] = True,
    bottom: float | None = None,
    title: str = "Bayes regret",
    parameter: str | None = None,
) -> None:
    """Draw regret over a parameter; see :func:`mixts.plot` for the options."""
    names = sweep.agents if agents is None else list(agents)
    if not names:
        raise ParameterError(f"agents must name some of {sweep.agents}, got none")
    if log_x and sweep.values[0] <= 0:
        raise ParameterError(
            f"a logarithmic axis needs values above 0, got {sweep.values[0]:g}: leave log_x out"
        )
    lines = {name: _checked(bound, name, sweep) for name, bound in (bounds or {}).items()}
    style = looks(sweep.agents, names)
    ends = draw_agents(
        ax, sweep.values, {name: sweep.regret(name) for name in names}, style,
        marker="o", markersize=2.4, markeredgewidth=0,
    )  # fmt: skip
    if medians:
        # Draw marks on the axis whole, unless the axis begins above some.
        clip = log_y or bottom is not None
        shown = names if medians == "all" else names[:1]
        ends += [_draw_median(ax, sweep, name, style[name].color, clip) for name in shown]
    for i, (name, bound) in enumerate(lines.items()):
        dashes = DASHES[1 + i % (len(DASHES) - 1)]
        ax.plot(sweep.values, bound, color=GREY, linestyle=dashes, linewidth=1.0, zorder=1.5)
        ends.append(End(name, GREY, float(sweep.values[-1]), float(bound[-1])))
    _draw_scales(ax, sweep, log_x, log_y, bottom)
    ax.set_xlabel(sweep.parameter if parameter is None else parameter)
    ax.set_ylabel(title)
    label_ends(ax, ends)


def _draw_median(ax: Any, sweep: Sweep, name: str, color: str, clip: bool) -> End:
    """Draw hollow marks below the lines."""
    x, median = sweep.values, sweep.median(name)
    ax.plot(
        x, median, color=color, linestyle="", marker="o", markersize=4.0,
        markerfacecolor="white", markeredgewidth=0.6, zorder=1.9, clip_on=clip,
    )  # fmt: skip
    return End(f"{name}, median", color, float(x[-1]), float(median[-1]))


def _draw_scales(ax: Any, sweep: Sweep, log_x: bool, log_y: bool, bottom: float | None) -> None:
    if log_y:
        ax.set_yscale("log")
    elif bottom is None:
        bottom = 0.0
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    if log_x:
        ax.set_xscale("log")
    places = np.log(sweep.values) if log_x else sweep.values
    margin = _MARGIN * (places[-1] - places[0]) or abs(places[0]) or 1.0
    limits = np.array([places[0] - margin, places[-1] + margin])
    ax.set_xlim(*(np.exp(limits) if log_x else limits))
    # Labels beside the axes will leave about this part of the width.
    width = 0.6 * 72 * ax.bbox.width / ax.figure.dpi
    shown = tick_values(sweep.values, log_x, width)
    ax.set_xticks(sweep.values, minor=True, labels=[""] * len(sweep.values))
    ax.set_xticks(shown, labels=[f"{value:g}" for value in shown])


def tick_values(values: Float[Array, " p"], log: bool, width: float) -> list[float]:
    """Choose the values to write below an axis that is ``width`` points wide.

    The last and the first value are written, then the roundest that still have room.
    """
    places = np.log(values) if log else np.asarray(values, float)
    scale = width / (places[-1] - places[0]) if len(values) > 1 else 1.0

    def digits(i: int) -> int:
        return len(f"{values[i]:g}".replace(".", "").strip("0"))

    def room(i: int) -> float:
        """Return half the width of a number in points, with some space beside it."""
        return 0.3 * (FONT - 1) * len(f"{values[i]:g}") + 1.5

    inner = sorted(range(1, len(values) - 1), key=lambda i: (digits(i), i))
    chosen: list[int] = []
    for i in dict.fromkeys([len(values) - 1, 0, *inner]):
        if all(abs(places[i] - places[j]) * scale > room(i) + room(j) for j in chosen):
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
