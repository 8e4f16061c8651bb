"""``plot``: one verb for every object that can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mixts.diagnostics.confidence import ConfidenceSets
from mixts.diagnostics.decomposition import Decomposition
from mixts.diagnostics.identification import Identification
from mixts.errors import ParameterError
from mixts.learning import History, Learned, Selection
from mixts.learning.check import PriorCheck
from mixts.plots.check import plot_check
from mixts.plots.curves import draw_curves
from mixts.plots.decomposition import draw_decomposition
from mixts.plots.identification import plot_identification
from mixts.plots.learning import plot_history, plot_learned, plot_selection
from mixts.plots.sets import draw_sets
from mixts.plots.style import new_axes
from mixts.plots.sweep import draw_sweep
from mixts.simulation import Results
from mixts.simulation.sweep import Sweep

_DRAWINGS: dict[type, Callable[..., None]] = {
    Results: draw_curves,
    Sweep: draw_sweep,
    ConfidenceSets: draw_sets,
    Decomposition: draw_decomposition,
}
"""What is drawn into one pair of axes."""
_FIGURES: dict[type, Callable[..., Any]] = {
    History: plot_history,
    Selection: plot_selection,
    Learned: plot_learned,
    PriorCheck: plot_check,
    Identification: plot_identification,
}
"""What needs a figure of its own."""


def plot(result: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a result and return the matplotlib figure: ``plot(results).savefig("regret.svg")``.

    :class:`Results`: the mean cumulative regret of every agent with a band of one standard error.
    Options: ``quantity="reward"`` for the running mean reward, ``agents=[...]`` for some of them in
    this order, ``log=True`` for a logarithmic axis (and ``log_x=True`` for time), ``bottom`` for
    where the axis begins, ``rounds="episode"`` to say what a round is.

    :class:`Sweep`: the mean regret at the end over the values of a parameter, with a band of one
    standard error, and hollow marks at the first agent's medians. Options:
    ``bounds={"Theorem 1 / 30": array}`` for lines to compare with, ``agents``, ``log_x``,
    ``log_y``, ``medians="all"`` for those of every agent or ``False`` for none, ``bottom``,
    ``title`` of the vertical axis, ``parameter`` for that of the horizontal one.

    :class:`Identification`: a page-wide figure of latent weights, actions, and the posterior of
    every action's mean reward at some moments, states and actions counted from 1. Options:
    ``moments=[0, 10, 300]`` in rounds, ``log`` for the time axis, ``width``, ``height``.

    :class:`ConfidenceSets`: the shares of runs that exclude a state, and that miss the true one,
    over eta. Option: ``etas``.

    :class:`Decomposition`: the cumulative regret and its two parts. Options: ``title`` of the
    panel, ``rounds=100`` for the first of them only.

    Of learning: :class:`History`, gains of the objective and of both its parts over iterations;
    :class:`Selection`, held-out evidence and BIC over the number of components; :class:`Learned`,
    what there is of the two. :class:`PriorCheck`: evidence, calibration, surprising tasks and the
    use of components. Options of all four: ``width``, ``height``.

    ``ax`` draws into axes that exist. Needs matplotlib (extra ``plots``).
    """
    if isinstance(result, tuple(_FIGURES)):
        if ax is not None:
            raise ParameterError(
                f"{type(result).__name__} has a figure of several panels: leave ax out"
            )
        return _FIGURES[type(result)](result, **options)
    draw = next((draw for kind, draw in _DRAWINGS.items() if isinstance(result, kind)), None)
    if draw is None:
        *kinds, last = (kind.__name__ for kind in (*_DRAWINGS, *_FIGURES))
        raise ParameterError(
            f"plot draws {', '.join(kinds)} and {last}, got {type(result).__name__}"
        )
    axes = new_axes() if ax is None else ax
    draw(axes, result, **options)
    return axes.figure
