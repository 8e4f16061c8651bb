"""Learning of a prior: its objective, the number of components, and its check on held-out tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixts._html import short
from mixts._typing import Array, Float
from mixts.errors import ParameterError
from mixts.learning import History, Learned, Selection
from mixts.learning.check import PriorCheck
from mixts.learning.measures import LEVEL, Calibration, Surprise
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
    looks,
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


# -- the check on held-out tasks ------------------------------------------------------------------

_ALARM = LOOKS["TS"].color
_COLORS = {
    "rewards": _MAIN.color,
    "transitions": LOOKS["UniTS"].color,
    "noise": LOOKS["CorralExp4"].color,
}
_BAND = 1.358
"""Divided by sqrt(n), the largest deviation of a right prior in 95 of 100 checks."""
_N_POINTS = 400
_MOST_BARS = 12
_DISTANT = 15.0
"""Gains that differ by more than this factor are drawn on a symmetric logarithmic scale."""


def plot_check(check: PriorCheck, ax: Any = None) -> list[Any]:
    """Draw evidence, calibration, surprising tasks, the use of components, and click rates."""
    draw = [draw_gains, draw_calibration, draw_surprise, draw_usage]
    draw += [] if check.rates is None else [draw_rates]
    axes = _check_panels(len(draw)) if ax is None else given_axes(ax, len(draw), "a check")
    for one, panel in zip(draw, axes, strict=True):
        one(panel, check)
    return axes


def _check_panels(n: int) -> list[Any]:
    """Return n axes, two in a row."""
    n_rows = (n + 1) // 2
    figure = new_figure(PAGE, 2.2 * n_rows)
    figure.get_layout_engine().set(wspace=0.05, hspace=0.06)
    axes = list(figure.subplots(n_rows, 2).flat)
    for empty in axes[n:]:
        empty.set_axis_off()
    return axes[:n]


def calibration_curve(calibration: Calibration) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return the deviation over probabilities, from (0, 0) to (1, 0), at about 400 points."""
    u, deviation = calibration.deviation_curve()
    step = max(1, len(u) // _N_POINTS)
    # Keep the largest deviation, whatever is left out.
    kept = np.union1d(np.arange(0, len(u), step), [int(np.argmax(np.abs(deviation)))])
    return (
        np.concatenate([[0.0], u[kept], [1.0]]),
        np.concatenate([[0.0], deviation[kept], [0.0]]),
    )


def surprise_points(surprise: Surprise) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return expected and found p-values of the tasks with observations, in order.

    Of n uniform p-values the i-th is about i / (n + 1). Impossible tasks have the p-value 0, which
    no logarithm can show: they are drawn at half of the smallest p-value, found or expected.
    """
    found = np.sort(surprise.p_value[surprise.n_observations > 0])
    expected = np.arange(1, len(found) + 1) / (len(found) + 1)
    floor = 0.5 * min(float(found[found > 0].min(initial=1.0)), float(expected.min(initial=1.0)))
    return expected, np.maximum(found, floor)


def draw_gains(ax: Any, check: PriorCheck) -> None:
    """Draw the prior's gains of log evidence over other priors, with two standard errors."""
    dress(ax)
    evidence = check.evidence
    names = evidence.names[1:]
    gains = [evidence.gain(name) for name in names]
    style = looks(["UniTS", "PSRL" if check.prior.family.plans else "TS"])
    ax.axvline(0, color=INK, linewidth=0.6)
    for row, (name, gain, look) in enumerate(zip(names, gains, style.values(), strict=True)):
        error = 2 * gain.error if np.isfinite(gain.error) else 0.0
        ax.errorbar(
            [gain.mean], [row], xerr=[error], color=look.color, marker="o", markersize=3.5,
            linewidth=LINE, capsize=2.0,
        )  # fmt: skip
        ax.annotate(
            f"over {name}: {gain.mean:+.3g} ± {gain.error:.2g}", (0.0, row),
            xycoords=("axes fraction", "data"), xytext=(3, 8), textcoords="offset points",
            size=FONT - 1, color=legible(look.color), va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip
    sizes = np.abs([gain.mean for gain in gains])
    if np.isfinite(sizes).all() and sizes.min() > 0 and sizes.max() > _DISTANT * sizes.min():
        ax.set_xscale("symlog", linthresh=float(sizes.min()))
    ax.set_ylim(len(names) - 0.5, -0.7)
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.margins(x=0.15)
    ax.set_xlabel("gain of log evidence per task, ± 2 standard errors")
    _title(ax, "evidence")


def draw_calibration(ax: Any, check: PriorCheck) -> None:
    """Draw the share of outcomes below each predicted probability, minus it, and 95 % bands."""
    dress(ax)
    ax.axhline(0, color=INK, linewidth=0.6)
    ends = []
    for (group, one), dashes in zip(check.calibration.items(), DASHES, strict=False):
        color, band = _COLORS[group], _BAND / np.sqrt(max(one.n_predictions, 1))
        u, deviation = calibration_curve(one)
        ax.plot(u, deviation, color=color, linestyle=dashes, linewidth=LINE)
        ax.axhspan(-band, band, color=color, alpha=0.1, linewidth=0)
        ends.append(End(group, color, 1.0, 0.0))
    ax.set_xlim(0, 1)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share below − predicted")
    _title(ax, "calibration, 95 % bands")
    label_ends(ax, ends)


def draw_rates(ax: Any, check: PriorCheck) -> None:
    """Draw the share of clicks over the predicted rate in ten classes, with two errors."""
    dress(ax)
    rates = check.rates
    assert rates is not None  # the caller knows
    shown = rates.predicted > 0
    low = float(rates.predicted[shown].min(initial=1.0)) / 2
    top = float(max(rates.predicted.max(), rates.clicked.max())) * 1.2
    ax.plot([low, top], [low, top], color=INK, linewidth=0.6, zorder=1)
    ax.errorbar(
        rates.predicted, np.maximum(rates.clicked, low),
        yerr=[np.minimum(2 * rates.error, np.maximum(rates.clicked, low) - low / 2),
              2 * rates.error],
        color=_MAIN.color, marker="o", markersize=3.0, linewidth=LINE, linestyle="none",
        capsize=2.0,
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, top)
    ax.set_ylim(low / 2, max(top, float((rates.clicked + 2 * rates.error).max()) * 1.1))
    ax.set_xlabel("predicted click rate")
    ax.set_ylabel("share that clicked")
    _title(ax, "click rates, ± 2 standard errors", INK if rates.p_value >= 0.01 else _ALARM)


def draw_surprise(ax: Any, check: PriorCheck) -> None:
    """Draw p-values in order beside those of a right prior; those below the line are surprising."""
    dress(ax)
    expected, found = surprise_points(check.surprise)
    low = 0.7 * float(min(expected.min(initial=1.0), found.min(initial=1.0)))
    ax.plot([low, 1], [low, 1], color=INK, linewidth=0.6, zorder=1)
    odd = found <= LEVEL
    for mask, color in ((~odd, GREY), (odd, _ALARM)):
        ax.scatter(expected[mask], found[mask], s=6, color=color, linewidth=0, zorder=2)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, 1.1)
    ax.set_ylim(low, 1.1)
    ax.set_xlabel("expected p-value")
    ax.set_ylabel("p-value of a task")
    n, expected_number = int(check.surprise.surprising.sum()), check.surprise.n_expected
    gone = len(check.surprise.impossible)
    also = f", {gone} impossible" if gone else ""
    text = f"tasks with p ≤ {LEVEL:g}: {n}, expected {expected_number:.1f}{also}"
    _title(ax, text, _ALARM if n else INK)


def draw_usage(ax: Any, check: PriorCheck) -> None:
    """Draw the number of tasks of each kind, beside the number that its weight predicts."""
    dress(ax)
    usage = check.usage
    shown = np.sort(np.argsort(-usage.weights, kind="stable")[:_MOST_BARS])
    rows = np.arange(len(shown))
    colors = [_ALARM if usage.unused[s] else _MAIN.color for s in shown]
    ax.barh(rows, usage.found[shown], height=0.6, color=colors, alpha=0.75)
    ax.vlines(usage.expected[shown], rows - 0.4, rows + 0.4, color=INK, linewidth=1.2)
    ax.set_yticks(rows, labels=[short(usage.names[s], 16) for s in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(left=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("tasks")
    some = f" ({len(shown)} of {len(usage.names)})" if len(shown) < len(usage.names) else ""
    _title(ax, f"kinds{some}: found, and | expected")


def _title(ax: Any, text: str, color: str = INK) -> None:
    ax.set_title(text, loc="left", size=FONT, color=legible(color), pad=4)
