"""Figures of results, priors and beliefs: draw what others computed, compute nothing.

:func:`plot` is one verb for every object that can be drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mixts.belief import Belief
from mixts.errors import ParameterError
from mixts.learning import History, Learned, Selection
from mixts.learning.check import PriorCheck
from mixts.plots import style
from mixts.plots.learning import plot_check, plot_history, plot_learned, plot_selection
from mixts.plots.lines import (
    End,
    draw_agents,
    draw_curves,
    draw_intervals,
    draw_lines,
    draw_mean,
    draw_sweep,
    label_ends,
)
from mixts.plots.prior import plot_belief, plot_prior
from mixts.plots.style import given_axes, looks, new_axes, new_panels, save_figure
from mixts.prior import MixturePrior
from mixts.simulation import Results
from mixts.simulation.results import Sweep

__all__ = [
    "End",
    "draw_agents",
    "draw_intervals",
    "draw_lines",
    "draw_mean",
    "label_ends",
    "looks",
    "new_axes",
    "new_panels",
    "plot",
    "register_drawing",
    "register_figure",
    "save_figure",
    "style",
]

_DRAWINGS: dict[type, Callable[..., None]] = {
    Results: draw_curves,
    Sweep: draw_sweep,
}
"""Drawings that need one pair of axes."""
_FIGURES: dict[type, Callable[..., list[Any]]] = {
    MixturePrior: plot_prior,
    Belief: plot_belief,
    History: plot_history,
    Selection: plot_selection,
    Learned: plot_learned,
    PriorCheck: plot_check,
}
"""Drawings of several panels, which return their axes."""


def plot(result: Any, ax: Any = None, **options: Any) -> Any:
    """Draw an object.

    Parameters
    ----------
    result
        The object to draw, of one of the classes below or of a subclass.
    ax
        Existing axes to draw into: one for :class:`Results`, :class:`Sweep` and a belief about many
        tasks; a list or an array of them for objects of several panels (2 for a prior; if the
        number is wrong, the error says how many are needed). None makes a new figure.
    **options
        Options of the object's class:

        - :class:`Results`: the mean cumulative regret of every agent with a band of one standard
          error. ``quantity="reward"`` for the running mean reward, ``agents=[...]`` for some agents
          in this order, ``log=True`` for a logarithmic axis (``log_x=True`` for time), ``bottom``
          for the beginning of the axis, ``rounds="episode"`` for the name of a round.
        - :class:`Sweep`: the mean regret at the end over the values of a parameter with a band of
          one standard error, and hollow marks at the first agent's medians.
          ``bounds={"Theorem 1 / 30": array}`` for lines to compare with, ``agents``.
        - :class:`MixturePrior`: the weights of components, and the mean and an interval of each
          component's arms or features (of an MDP: the mean reward of each action in each state).
          ``level=0.8`` for the probability inside an interval.
        - :class:`Belief`: of many tasks, the weights of components over tasks. Of one task, or of
          ``task=3`` among many: its weights beside those of the prior, and the mean and an interval
          of each arm or feature, before and now. ``level``.
        - :class:`History`: gains of the objective and of both its parts over iterations of
          learning; :class:`Selection`: held-out evidence and BIC over the number of components;
          :class:`Learned`: both, as far as they exist. :class:`PriorCheck`: evidence, calibration,
          surprising tasks and the use of components.

    Returns
    -------
    matplotlib.figure.Figure, or matplotlib.axes.Axes
        The new figure; with ``ax``, the axes that were drawn into: one, or an array of them for
        objects of several panels. It needs matplotlib (extra ``plots``).

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> environment = mixts.BanditEnvironment(prior)
    >>> results = mixts.simulate({"MixTS": prior}, environment, n_rounds=20, n_runs=10, seed=1)
    >>> mixts.plot(results, log_x=True).savefig("regret.svg")

    Beside another picture:

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots(1, 2)
    >>> mixts.plot(results, ax=axes[0]).get_xlabel()
    'round'
    """
    panels = _find(_FIGURES, result)
    if panels is not None:
        drawn = panels(result, ax, **options)
        if ax is None:
            return drawn[0].figure
        return drawn[0] if len(drawn) == 1 else np.array(drawn, dtype=object)
    draw = _find(_DRAWINGS, result)
    if draw is None:
        *kinds, last = (kind.__name__ for kind in (*_DRAWINGS, *_FIGURES))
        raise ParameterError(
            f"plot draws {', '.join(kinds)} and {last}, got {type(result).__name__}"
        )
    (axes,) = [new_axes()] if ax is None else given_axes(ax, 1, type(result).__name__)
    draw(axes, result, **options)
    return axes.figure if ax is None else axes


def register_drawing(kind: type, draw: Callable[..., None]) -> None:
    """Let ``plot`` draw objects of a class into one pair of axes.

    Parameters
    ----------
    kind
        The class of the objects.
    draw
        Called with the axes, the object and the options of ``plot``.
    """
    _DRAWINGS[kind] = draw


def register_figure(kind: type, draw: Callable[..., list[Any]]) -> None:
    """Let ``plot`` draw objects of a class into several panels.

    Parameters
    ----------
    kind
        The class of the objects.
    draw
        Called with the object, the given axes or None, and the options of ``plot``; it returns the
        axes that it drew into.
    """
    _FIGURES[kind] = draw


def _find(drawings: dict[type, Callable[..., Any]], result: Any) -> Callable[..., Any] | None:
    """Return the drawing of the object's class, or of the nearest class that it derives from."""
    return next((drawings[kind] for kind in type(result).__mro__ if kind in drawings), None)
