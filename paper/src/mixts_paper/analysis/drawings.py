"""Drawings: how a task is identified, confidence sets, parts of the regret, bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixts.errors import ParameterError
from mixts.extend import ArrayLike, checks
from mixts.plots import End, draw_mean, label_ends, register_drawing, register_figure, style
from mixts.simulation import Sweep
from mixts_paper.analysis.confidence import PROOFS_ETA, ConfidenceSets
from mixts_paper.analysis.decomposition import Decomposition
from mixts_paper.analysis.identification import Identification

_TRUE = style.LOOKS["MixTS"].color
_FACT = style.LOOKS["TS"].color
"""Colours of beliefs and decisions, and of the truth."""
_N_TICKS = 6
_STEPS = tuple(m * 10**k for k in range(9) for m in (1, 2, 5))
"""Steps between the numbers at an axis of actions."""
_SHARES = {
    "excluded": ("exclude a state", style.LOOKS["MixTS"].color),
    "missed": ("miss the truth", style.LOOKS["TS"].color),
}
_N_POINTS = 200
_PARTS = {
    "regret": ("regret", style.LOOKS["MixTS"]),
    "sum": ("sum of parts", style.Look(style.INK, style.DASHES[3])),
    "first": ("first part", style.Look(style.PALETTE[0], style.DASHES[1])),
    "second": ("second part", style.Look(style.PALETTE[1], style.DASHES[2])),
}
"""Names and looks of the regret and its parts."""


# -- identification ------------------------------------------------------------------------------


def plot_identification(
    identification: Identification,
    ax: Any = None,
    moments: Sequence[int] | None = None,
) -> list[Any]:
    """Draw weights and actions over time at the left, and beliefs at some moments at the right.

    ``moments`` are numbers of rounds, by default 0 (the prior), the rounds until the latent state
    is known, and all rounds. Most changes happen in the first rounds: time is drawn as log(1 + t).
    States and actions without names are counted from 1, as in the paper,
    while the arrays of an :class:`Identification` are indexed from 0.
    """
    shown = _natural_moments(identification) if moments is None else moments
    n = len(shown)
    axes = (
        _panels(n)
        if ax is None
        else style.given_axes(ax, n + 2, f"an identification with {n} moments")
    )
    for one in axes:
        style.dress(one)
    top, below, *strips = axes
    draw_weights(top, identification)
    draw_actions(below, identification)
    for strip, t in zip(strips, shown, strict=True):
        draw_beliefs(strip, identification, t, key=strip is strips[0])
    limits = [strip.get_ylim() for strip in strips]
    for strip in strips:
        strip.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    if ax is None:
        # One below the other: only the last has numbers and the name of the axis.
        top.set_xlabel("")
        top.tick_params(labelbottom=False)
        for strip in strips:
            last = strip is strips[-1]
            strip.tick_params(labelbottom=last)
            strip.set_xlabel("action" if last else "")
            strip.set_ylabel("mean reward" if strip is strips[n // 2] else "")
    return axes


def _panels(n: int) -> list[Any]:
    """Return two axes at the left, one below the other, and n at the right."""
    figure = style.new_figure(style.PAGE, 3.1)
    figure.get_layout_engine().set(wspace=0.05, hspace=0.04)
    grid = figure.add_gridspec(2 * n, 2, width_ratios=(1.0, 1.15))
    top = figure.add_subplot(grid[:n, 0])
    below = figure.add_subplot(grid[n:, 0], sharex=top)
    return [top, below, *(figure.add_subplot(grid[2 * i : 2 * i + 2, 1]) for i in range(n))]


def draw_weights(ax: Any, identification: Identification) -> None:
    """Draw the latent weights after each round, the true state's on top."""
    weights, true = identification.weights, identification.latent
    times = np.arange(len(weights))
    others = [s for s in range(weights.shape[1]) if s != true]
    for s in others:
        ax.plot(times, weights[:, s], color=style.GREY, linewidth=0.5, alpha=0.8)
    ax.plot(times, weights[:, true], color=_TRUE, linewidth=1.5 * style.LINE)
    name = identification.names[true] if identification.names else f"state {true + 1}"
    ends = [End(f"{name} (true)", _TRUE, float(times[-1]), float(weights[-1, true]))]
    if others:
        many = f"{len(others)} others" if len(others) > 1 else "the other"
        ends.append(End(many, style.GREY, float(times[-1]), float(weights[-1, others].mean())))
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel("latent weight")
    _draw_time(ax, identification)
    label_ends(ax, ends)


def draw_actions(ax: Any, identification: Identification) -> None:
    """Draw the action of each round: a full mark where the sampled latent state is the true one."""
    times = np.arange(1, identification.n_rounds + 1)
    right = identification.sampled == identification.latent
    best = 1 + int(np.argmax(identification.truth))
    ax.axhline(best, color=_FACT, linewidth=0.8, zorder=1)
    for mask, face, name in ((~right, "white", "another"), (right, _TRUE, "true")):
        ax.scatter(
            times[mask], identification.actions[mask] + 1, s=7, facecolor=face, edgecolor=_TRUE,
            linewidth=0.6, label=name, zorder=2, clip_on=False,
        )  # fmt: skip
    ax.set_ylim(0.5, len(identification.truth) + 0.5)
    key = "\N{BLACK CIRCLE} true state sampled   \N{WHITE CIRCLE} another"
    ax.set_title(key, loc="left", size=style.FONT - 1, color=style.legible(_TRUE), pad=3)
    _name_actions(ax.yaxis, identification)
    ax.set_ylabel("action taken")
    ax.grid(visible=False)
    _draw_time(ax, identification)
    label_ends(ax, [End("best action", _FACT, float(identification.n_rounds), float(best))])


def draw_beliefs(ax: Any, identification: Identification, t: int, key: bool = True) -> None:
    """Draw the posterior of each action's mean reward after t rounds, beside the truth."""
    t = checks.count(t, "t", least=0)
    if t > identification.n_rounds:
        raise ParameterError(f"expected at most {identification.n_rounds} rounds, got {t}")
    mean, deviation = identification.means[t], identification.deviations[t]
    x = np.arange(1, len(mean) + 1)
    ax.hlines(identification.truth, x - 0.38, x + 0.38, color=_FACT, linewidth=1.0, zorder=2)
    ax.vlines(x, mean - deviation, mean + deviation, color=_TRUE, linewidth=1.2, zorder=2)
    ax.plot(x, mean, color=_TRUE, linestyle="", marker="o", markersize=2.2, zorder=3)
    ax.set_xlim(0.2, len(mean) + 0.8)
    ax.set_ylabel("mean reward")
    ax.set_xlabel("action")
    _name_actions(ax.xaxis, identification)
    when = "prior" if t == 0 else f"after {t:,} round{'s' * (t > 1)}"
    ax.set_title(when, loc="left", size=style.FONT, color=style.INK, pad=3)
    if key:
        ax.annotate(
            "truth", (1.0, 1.0), xycoords="axes fraction", xytext=(0, 3), ha="right", va="baseline",
            textcoords="offset points", size=style.FONT, color=style.legible(_FACT),
            annotation_clip=False,
        )  # fmt: skip
        ax.annotate(
            "posterior mean ± sd", (1.0, 1.0), xycoords="axes fraction", xytext=(-32, 3),
            textcoords="offset points", ha="right", va="baseline", size=style.FONT,
            color=style.legible(_TRUE), annotation_clip=False,
        )  # fmt: skip


def _natural_moments(identification: Identification) -> list[int]:
    n = identification.n_rounds
    known = identification.identified()
    middle = known if known is not None and 0 < known < n else int(np.ceil(np.sqrt(n)))
    return sorted({0, middle, n})


def _draw_time(ax: Any, identification: Identification) -> None:
    n = identification.n_rounds
    ax.set_xscale("function", functions=(np.log1p, np.expm1))
    ticks = [0, *(step for step in _STEPS if step <= n)]
    ax.set_xticks(ticks, labels=[f"{tick:,}" for tick in ticks])
    ax.set_xlim(0, n)
    ax.set_xlabel("round")


def _name_actions(axis: Any, identification: Identification) -> None:
    """Write names of actions if they are few enough to be read, otherwise numbers from 1."""
    names = identification.action_names
    if names is not None and len(names) <= 8:
        axis.set_ticks(range(1, len(names) + 1), labels=names)
        return
    n_actions = len(identification.truth)
    step = next(step for step in _STEPS if n_actions <= _N_TICKS * step)
    # Number 1 would touch the other small numbers: only multiples of the step follow it.
    axis.set_ticks([1, *range(step, n_actions + 1, step)] if step > 1 else range(1, n_actions + 1))


# -- confidence sets -----------------------------------------------------------------------------


def draw_sets(ax: Any, sets: ConfidenceSets, etas: ArrayLike | None = None) -> None:
    """Draw the shares of runs whose set ever excludes any state, and the true one, over eta."""
    table = sets.sweep(_natural_etas(sets) if etas is None else etas)
    ends = []
    for dashes, (column, (name, color)) in zip(style.DASHES, _SHARES.items(), strict=False):
        x, y = table["eta"], table[column]
        ax.plot(x, y, color=color, linestyle=dashes, linewidth=style.LINE)
        ends.append(End(name, color, float(x[-1]), float(y[-1])))
    ax.axvline(PROOFS_ETA, color=style.INK, linewidth=0.6)
    ax.annotate(
        "the proofs' eta", (PROOFS_ETA, 0.5), xycoords=("data", "axes fraction"), xytext=(-2, 0),
        textcoords="offset points", va="center", ha="right", size=style.FONT - 1, color=style.INK,
        rotation=90,
    )  # fmt: skip
    ax.set_ylim(-0.02, 1.02)
    ax.margins(x=0)
    ax.set_xlabel("eta")
    ax.set_ylabel("share of runs")
    label_ends(ax, ends)


def _natural_etas(sets: ConfidenceSets) -> Any:
    """Return etas from below 0 and below the first miss of the true state to beyond the proofs'."""
    known = [eta for eta in (sets.miss.eta, sets.exclusion.eta) if np.isfinite(eta)]
    low, high = min([0.0, *known]), max([PROOFS_ETA, *known])
    margin = 0.1 * (high - low)
    return np.linspace(low - margin, high + margin, _N_POINTS)


# -- parts of the regret --------------------------------------------------------------------------


def draw_decomposition(
    ax: Any, decomposition: Decomposition, title: str = "", rounds: int | None = None
) -> None:
    """Draw the cumulative regret and its two parts; see :func:`mixts.plot` for the options."""
    n_rounds = decomposition.n_rounds
    shown = n_rounds if rounds is None else min(n_rounds, checks.count(rounds, "rounds"))
    ends = []
    x = np.arange(1, shown + 1)
    for quantity, (name, look) in _PARTS.items():
        mean, error = decomposition.curve(quantity)
        draw_mean(ax, x, (mean[:shown], error[:shown]), look)
        ends.append(End(name, look.color, shown, float(mean[shown - 1])))
    ax.set_xlim(0, shown)
    ax.set_xlabel("round")
    ax.set_ylabel("cumulative sum")
    if title:
        ax.set_title(title, loc="left", size=style.FONT, color=style.INK)
    label_ends(ax, ends)


# -- bounds ---------------------------------------------------------------------------------------


_BOUND_COLORS = ("#882255", "#009E73", "#E69F00")
"""Colours of the bounds; Theorem 1 is grey, the regret has MixTS's blue."""


def draw_bounds(
    ax: Any,
    sweep: Sweep,
    bounds: Mapping[str, ArrayLike],
    other: Mapping[str, ArrayLike],
    title: str = "",
    ticks: Mapping[float, str] | None = None,
) -> None:
    """Draw MixTS's regret, and bounds unscaled, over the values of a sweep.

    Parameters
    ----------
    ax
        Axes to draw into; the vertical axis becomes logarithmic.
    sweep
        Regret of MixTS.
    bounds
        Bounds by name, in colour; NaN where a bound does not apply.
    other
        Bounds to compare with, in grey.
    title
        Text above the axes.
    ticks
        Text below the axis, by value; None: numbers.
    """
    x = sweep.values
    regret = sweep.regret("MixTS")
    ends = []
    for i, (name, values) in enumerate({**other, **bounds}.items()):
        grey = i < len(other)
        color = style.GREY if grey else _BOUND_COLORS[(i - len(other)) % len(_BOUND_COLORS)]
        dashes = style.DASHES[1 + i % (len(style.DASHES) - 1)]
        line = np.asarray(values, float)
        ax.plot(x, line, color=color, linestyle=dashes, linewidth=1.3, zorder=1.5)
        known = np.flatnonzero(np.isfinite(line))
        if len(known):
            ends.append(End(name, color, float(x[known[-1]]), float(line[known[-1]])))
    look = style.LOOKS["MixTS"]
    draw_mean(ax, x, regret, look, marker="o", markersize=2.8, markeredgewidth=0, zorder=3)
    ends.append(End("MixTS, measured", look.color, float(x[-1]), float(regret.mean[-1])))
    ax.set_yscale("log")
    margin = 0.03 * (x[-1] - x[0])
    ax.set_xlim(x[0] - margin, x[-1] + margin)
    ax.set_xlabel(sweep.parameter)
    ax.set_ylabel("Bayes regret, and bounds on it (log scale)")
    ax.set_title(title, loc="left", size=style.FONT, color=style.INK)
    if ticks is not None:
        ax.set_xticks(list(ticks), labels=list(ticks.values()))
    label_ends(ax, ends)


register_drawing(ConfidenceSets, draw_sets)
register_drawing(Decomposition, draw_decomposition)
register_figure(Identification, plot_identification)
