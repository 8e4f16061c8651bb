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
from mixts.simulation.results import Sweep

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
