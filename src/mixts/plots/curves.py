"""Learning curves of agents, each labelled at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mixts.errors import ParameterError
from mixts.plots.labels import End, label_ends
from mixts.plots.style import LINE, looks
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
    log_x: bool = False,
) -> None:
    """Means over runs with bands of one standard error."""
    names = results.agents if agents is None else list(agents)
    if not names:
        raise ParameterError(f"agents must name some of {results.agents}, got none")
    style = looks(results.agents, names)
    ends = []
    for rank, name in enumerate(names):
        mean, error = results.curve(name, quantity)
        color, dashes = style[name]
        x = np.arange(1, len(mean) + 1)
        # Earlier ones above later ones, and every line above every band.
        above = 3 - rank / len(names)
        ax.plot(x, mean, color=color, linestyle=dashes, linewidth=LINE, zorder=above)
        if np.isfinite(error).all():
            low, high = mean - error, mean + error
            ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0, zorder=above - 1)
        ends.append(End(name, color, len(mean), float(mean[-1])))
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
