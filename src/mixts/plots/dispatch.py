"""``plot``: one verb for every object that can be drawn."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from mixts.errors import ParameterError
from mixts.plots.curves import draw_curves
from mixts.plots.sets import draw_sets
from mixts.plots.style import new_axes
from mixts.simulation import Results
from mixts.simulation.confidence import ConfidenceSets


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
    if _draw.dispatch(type(result)) is _draw.dispatch(object):
        raise ParameterError(f"plot draws Results and ConfidenceSets, got {type(result).__name__}")
    axes = new_axes() if ax is None else ax
    _draw(result, axes, **options)
    return axes.figure


@singledispatch
def _draw(result: object, ax: Any, **options: Any) -> None:
    raise NotImplementedError


@_draw.register
def _(result: Results, ax: Any, **options: Any) -> None:
    draw_curves(ax, result, **options)


@_draw.register
def _(result: ConfidenceSets, ax: Any, **options: Any) -> None:
    draw_sets(ax, result, **options)
