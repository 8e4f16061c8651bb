"""Learning of a prior: the objective over iterations, and the number of components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixts._typing import Array, Float
from mixts.errors import ParameterError
from mixts.learning import History, Learned, Selection
from mixts.plots.lines import End, label_ends
from mixts.plots.style import (
    COLUMN,
    DASHES,
    FONT,
    GREY,
    INK,
    LINE,
    LOOKS,
    PAGE,
    dress,
    given_axes,
    legible,
    new_figure,
)

_MAIN = LOOKS["MixTS"]
_PARTS = {
    "objective": (_MAIN.color, DASHES[0], "sum"),
    "log_evidence": (LOOKS["UniTS"].color, DASHES[1], "log evidence"),
    "log_hyperprior": (LOOKS["TS"].color, DASHES[2], "log hyperprior"),
}


def history_gains(history: History) -> dict[str, Float[Array, " t"]]:
    """Return the gains of the objective and of its two parts after each iteration."""
    values = {name: np.asarray(getattr(history, name)) for name in _PARTS}
    return {name: value - value[0] for name, value in values.items()}


def plot_history(history: History, ax: Any = None) -> list[Any]:
    """Draw the evidence and the sum above, the hyperprior below on its own scale."""
    axes = _panels(0, 2, 3.0) if ax is None else given_axes(ax, 2, "a history of learning")
    above, below = axes
    draw_history(above, below, history)
    return axes


def plot_selection(selection: Selection, ax: Any = None) -> list[Any]:
    """Draw the held-out evidence over the number of components, and BIC beside it."""
    axes = _panels(2, 0, 2.4) if ax is None else given_axes(ax, 2, "a selection")
    draw_held_out(axes[0], selection)
    draw_bic(axes[1], selection)
    return axes


def plot_learned(learned: Learned, ax: Any = None) -> list[Any]:
    """Draw the choice of the number of components, the objective of all restarts, or both."""
    selection, history = learned.selection, learned.history
    if selection is None and history is None:
        raise ParameterError(
            f"a prior learned with method={learned.method!r} and a given number of components has "
            "nothing to draw: use 'auto', or method='evidence'"
        )
    if history is None:
        assert selection is not None
        return plot_selection(selection, ax)
    n = 0 if selection is None else 2
    axes = (
        _panels(n, 2, 2.8)
        if ax is None
        else given_axes(ax, n + 2, "learning with its choice of components" if n else "learning")
    )
    if selection is not None:
        plot_selection(selection, axes[:2])
    above, below = axes[n:]
    draw_history(above, below, history, learned.restarts)
    return axes


def _panels(n_beside: int, n_stacked: int, height: float) -> list[Any]:
    """Return axes side by side, and at their right two axes one above the other, or none."""
    figure = new_figure(PAGE if n_beside else COLUMN, height)
    if not n_stacked:
        return list(figure.subplots(1, n_beside))
    grid = figure.add_gridspec(2, n_beside + 1, height_ratios=(1.7, 1.0))
    if n_beside:
        figure.get_layout_engine().set(wspace=0.05)
    beside = [figure.add_subplot(grid[:, column]) for column in range(n_beside)]
    return beside + [figure.add_subplot(grid[row, n_beside]) for row in range(n_stacked)]


def draw_history(
    above: Any, below: Any, history: History, restarts: Sequence[History] = ()
) -> None:
    """Draw gains since the start of the best restart; the sums of the others in grey.

    Most is gained in the first iterations: time is drawn as log(1 + t).
    """
    iterations, start = np.arange(history.n_iterations + 1), float(history.objective[0])
    longest = max(one.n_iterations for one in (history, *restarts))
    for other in restarts:
        gain = other.objective - start
        above.plot(np.arange(len(gain)), gain, color=GREY, linewidth=0.5, alpha=0.7, zorder=1)
    ends: dict[Any, list[End]] = {above: [], below: []}
    gains = history_gains(history)
    for name, (color, dashes, words) in _PARTS.items():
        ax = below if name == "log_hyperprior" else above
        ax.plot(iterations, gains[name], color=color, linestyle=dashes, linewidth=LINE)
        ends[ax].append(End(words, color, float(iterations[-1]), float(gains[name][-1])))
    for ax in (above, below):
        dress(ax)
        ax.set_xscale("function", functions=(np.log1p, np.expm1))
        ax.set_xlim(0, max(1, longest))
        shown = [t for t in (0, 1, 3, 10, 30, 100, 300, 1000, 3000) if t <= max(1, longest)]
        ax.set_xticks(shown, labels=[str(t) for t in shown] if ax is below else [""] * len(shown))
        label_ends(ax, ends[ax])
    above.set_ylabel("gain since the start")
    below.set_ylabel("gain")
    below.set_xlabel("iteration" if history.converged else "iteration (not converged)")


def draw_held_out(ax: Any, selection: Selection) -> None:
    """Draw the mean held-out log evidence per task; errors are those of the gap to the best."""
    dress(ax)
    x, mean, error = np.array(selection.candidates), selection.mean, selection.standard_error
    best = float(mean[selection.best])
    ax.axhline(best, color=GREY, linewidth=0.6, zorder=1)
    ax.errorbar(
        x, mean, np.where(np.isfinite(error), error, 0.0), color=_MAIN.color, linewidth=LINE,
        elinewidth=0.8, capsize=1.8, capthick=0.8, marker="o", markersize=2.6, zorder=2,
    )  # fmt: skip
    chosen = [selection.candidates.index(n) for n in selection.members]
    ax.plot(
        x[chosen], mean[chosen], linestyle="", marker="o", markersize=7.5, zorder=3,
        markerfacecolor="none", markeredgecolor=LOOKS["TS"].color, markeredgewidth=1.0,
    )  # fmt: skip
    ax.set_title(
        f"\N{LARGE CIRCLE} {'chosen' if len(chosen) == 1 else 'joined'}: "
        + ", ".join(map(str, selection.members)), loc="left", size=FONT, pad=3,
        color=legible(LOOKS["TS"].color),
    )  # fmt: skip
    ax.set_ylabel("held-out log evidence per task")
    _number_components(ax, x)


def draw_bic(ax: Any, selection: Selection) -> None:
    """Draw BIC over the number of components, its minimum marked."""
    dress(ax)
    x, least = np.array(selection.candidates), int(np.argmin(selection.bic))
    ax.plot(
        x, selection.bic, color=INK, linestyle=DASHES[1], linewidth=LINE, marker="s", markersize=2.4
    )
    ax.plot(
        [x[least]], [selection.bic[least]], linestyle="", marker="s", markersize=7.0,
        markerfacecolor="none", markeredgecolor=INK, markeredgewidth=0.8,
    )  # fmt: skip
    ax.set_title(
        f"\N{WHITE SQUARE} least: {selection.candidates[least]}", loc="left", size=FONT, pad=3,
        color=INK,
    )  # fmt: skip
    ax.set_ylabel("BIC")
    _number_components(ax, x)


def _number_components(ax: Any, candidates: Array) -> None:
    step = 1 + len(candidates) // 9
    ax.set_xticks(candidates[::step], labels=[str(n) for n in candidates[::step]])
    ax.set_xlim(candidates[0] - 0.4, candidates[-1] + 0.4)
    ax.set_xlabel("components")
