"""Learning curves of agents, each labelled at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mixts.errors import ParameterError
from mixts.plots.style import DASHES, FONT, INK, PALETTE, spread
from mixts.simulation import Results

_TITLES = {"regret": "cumulative regret", "reward": "mean reward so far"}


def draw_curves(
    ax: Any,
    results: Results,
    quantity: Literal["regret", "reward"] = "regret",
    agents: Sequence[str] | None = None,
    log: bool = False,
    rounds: str = "round",
    bottom: float | None = None,
) -> None:
    """Means over runs with bands of one standard error."""
    names = results.agents if agents is None else list(agents)
    if not names:
        raise ParameterError(f"agents must name some of {results.agents}, got none")
    ends = []
    for name in names:
        mean, error = results.curve(name, quantity)
        x = np.arange(1, len(mean) + 1)
        color, dashes = _look(results, name)
        ax.plot(x, mean, color=color, linestyle=dashes, linewidth=1.2)
        if np.isfinite(error).all():
            ax.fill_between(x, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
        ends.append(float(mean[-1]))
    if log:
        ax.set_yscale("log")
    elif quantity == "regret" and bottom is None:
        bottom = 0.0
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    ax.set_xlim(0, len(x))
    ax.set_xlabel(rounds)
    ax.set_ylabel(_TITLES[quantity])
    colors = [_look(results, name)[0] for name in names] if len(names) > 1 else [INK]
    _label_ends(ax, names, colors, ends)


def _look(results: Results, name: str) -> tuple[str, Any]:
    """The colour and dashes of an agent: the same in every figure of these results."""
    i = results.agents.index(name)
    return PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)]


def _label_ends(ax: Any, names: list[str], colors: list[str], ends: list[float]) -> None:
    """Names at the right of the curves, moved apart where they would touch."""
    figure = ax.figure
    height = ax.get_position().height * figure.get_size_inches()[1] * 72
    fractions = ax.transAxes.inverted().transform(
        ax.transData.transform([(0.0, end) for end in ends])
    )[:, 1]
    places = spread([float(f) for f in fractions], 1.25 * FONT / height)
    for name, color, place in zip(names, colors, places, strict=True):
        ax.annotate(
            name, (1.0, place), xycoords="axes fraction", xytext=(4, 0),
            textcoords="offset points", va="center", ha="left", size=FONT,
            color=color, annotation_clip=False,
        )  # fmt: skip
