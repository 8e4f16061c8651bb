"""``plot``: one verb for every object that can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mixts.errors import ParameterError
from mixts.plots.curves import draw_curves
from mixts.plots.sets import draw_sets
from mixts.plots.style import new_axes
from mixts.simulation import Results
from mixts.simulation.confidence import ConfidenceSets

_DRAWINGS: dict[type, Callable[..., None]] = {Results: draw_curves, ConfidenceSets: draw_sets}


def plot(result: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a result and return the matplotlib figure: ``plot(results).savefig("regret.svg")``.

    :class:`Results`: the mean cumulative regret of every agent with a band of one standard error.
    Options: ``quantity="reward"`` for the running mean reward, ``agents=[...]`` for some of them in
    this order, ``log=True`` for a logarithmic axis, ``bottom`` for where the axis begins,
    ``rounds="episode"`` to say what a round is.

    :class:`ConfidenceSets`: the shares of runs that exclude a state, and that miss the true one,
    over eta. Option: ``etas``.

    ``ax`` draws into axes that exist. Needs matplotlib (extra ``plots``).
    """
    draw = next((draw for kind, draw in _DRAWINGS.items() if isinstance(result, kind)), None)
    if draw is None:
        kinds = " and ".join(kind.__name__ for kind in _DRAWINGS)
        raise ParameterError(f"plot draws {kinds}, got {type(result).__name__}")
    axes = new_axes() if ax is None else ax
    draw(axes, result, **options)
    return axes.figure
