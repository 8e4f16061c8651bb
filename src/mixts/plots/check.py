"""The check of a prior on held-out tasks: four panels, and one more for click rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts._typing import Array, Float
from mixts.learning.check import PriorCheck
from mixts.learning.measures import LEVEL, Calibration, Surprise
from mixts.plots.lines import End, label_ends
from mixts.plots.style import (
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

_MAIN, _ALARM = LOOKS["MixTS"].color, LOOKS["TS"].color
_COLORS = {
    "rewards": _MAIN,
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
    axes = _panels(len(draw)) if ax is None else given_axes(ax, len(draw), "a check")
    for one, panel in zip(draw, axes, strict=True):
        one(panel, check)
    return axes


def _panels(n: int) -> list[Any]:
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
        color=_MAIN, marker="o", markersize=3.0, linewidth=LINE, linestyle="none", capsize=2.0,
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
    colors = [_ALARM if usage.unused[s] else _MAIN for s in shown]
    ax.barh(rows, usage.found[shown], height=0.6, color=colors, alpha=0.75)
    ax.vlines(usage.expected[shown], rows - 0.4, rows + 0.4, color=INK, linewidth=1.2)
    ax.set_yticks(rows, labels=[_short(usage.names[s]) for s in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(left=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("tasks")
    some = f" ({len(shown)} of {len(usage.names)})" if len(shown) < len(usage.names) else ""
    _title(ax, f"kinds{some}: found, and | expected")


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"


def _title(ax: Any, text: str, color: str = INK) -> None:
    ax.set_title(text, loc="left", size=FONT, color=legible(color), pad=4)
