"""Priors and beliefs: weights of components, and means of arms or features with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mixts._html import short
from mixts._typing import Array, Float, Int
from mixts.belief import Belief
from mixts.errors import ParameterError
from mixts.families import Family
from mixts.plots.lines import End, label_ends
from mixts.plots.style import COMPONENTS, FONT, GREY, INK, PAGE, dress, given_axes, new_figure
from mixts.prior import MixturePrior

MOST_COMPONENTS = len(COMPONENTS)
"""Components that are drawn: those with the largest weights."""
MOST_ITEMS = 12
"""Arms, features or pairs of state and action that are drawn: those that differ most."""
_MOST_TASKS = 2000
_LONGEST_NAME = 18


@dataclass(frozen=True)
class Intervals:
    """Means and intervals of L components and K items: arms, features, or states with actions."""

    items: tuple[str, ...]
    mean: Float[Array, "L K"]
    low: Float[Array, "L K"]
    high: Float[Array, "L K"]

    def select(self, items: Int[Array, " k"]) -> Intervals:
        """Return the intervals of some items."""
        names = tuple(self.items[k] for k in items)
        return Intervals(names, *(a[:, items] for a in (self.mean, self.low, self.high)))


# -- data -----------------------------------------------------------------------------------------


def family_intervals(
    family: Family, level: float, arm_names: tuple[str, ...] | None = None
) -> Intervals:
    """Compute means and central intervals of a family's components.

    Parameters
    ----------
    family
        Any family; of an MDP, the mean reward of each action in each state.
    level
        Probability inside an interval.
    arm_names
        Names of the arms, if they have any.
    """
    if not 0 < level < 1:
        raise ParameterError(f"level must be a probability between 0 and 1, got {level!r}")
    # Rewards come first among the parameters of an MDP, before its transitions.
    n, tail = prod(family.statistics_shape), (1 - level) / 2
    mean, low, high = (
        array[:, :n]
        for array in (
            family.parameter_means(),
            family.parameter_quantiles(tail),
            family.parameter_quantiles(1 - tail),
        )
    )
    return Intervals(arm_names or _item_names(family), mean, low, high)


def standardized(intervals: Intervals, prior: MixturePrior) -> Intervals:
    """Return intervals as distances from the mixture's means, in its standard deviations.

    A large intercept, or a feature in small units, would otherwise flatten all other features.
    """
    together = prior.family.collapse(prior.weights)
    n = intervals.mean.shape[1]
    deviation = np.sqrt(together.parameter_variances()[0, :n])
    unit = np.where(deviation > 0, deviation, 1.0)
    centre = together.parameter_means()[0, :n]
    scaled = ((a - centre) / unit for a in (intervals.mean, intervals.low, intervals.high))
    return Intervals(intervals.items, *scaled)


def largest_components(weights: Float[Array, " L"]) -> Int[Array, " l"]:
    """Return the components to draw: those with the largest weights, in their order."""
    return np.sort(np.argsort(-weights, kind="stable")[:MOST_COMPONENTS])


def distinct_items(mean: Float[Array, "L K"]) -> Int[Array, " k"]:
    """Return the items to draw: those whose means differ most, in their order."""
    spread = mean.max(axis=0) - mean.min(axis=0)
    return np.sort(np.argsort(-spread, kind="stable")[:MOST_ITEMS])


def sorted_weights(weights: Float[Array, "n L"]) -> Float[Array, "k L"]:
    """Sort tasks by their most likely component, the surest first; keep at most 2,000 of them."""
    best = np.argmax(weights, axis=1)
    order = np.lexsort((-weights[np.arange(len(weights)), best], best))
    kept = np.unique(np.linspace(0, len(order) - 1, min(len(order), _MOST_TASKS)).round())
    return weights[order[kept.astype(int)]]


def _item_names(family: Family) -> tuple[str, ...]:
    shape = family.statistics_shape
    if family.plans:
        return tuple(f"state {x}, action {a}" for x, a in np.ndindex(*shape))
    noun = "arm" if family.n_features is None else "feature"
    return tuple(f"{noun} {k}" for k in range(*shape))


def _component_names(prior: MixturePrior) -> tuple[str, ...]:
    return prior.names or tuple(f"component {s}" for s in range(prior.n_components))


# -- drawing --------------------------------------------------------------------------------------


def plot_prior(prior: MixturePrior, ax: Any = None, level: float = 0.8) -> list[Any]:
    """Draw a prior's weights, and the intervals of each component's arms or features."""
    components = largest_components(prior.weights)
    intervals = family_intervals(prior.family.select(components), level, prior.arm_names)
    compared = prior.family.n_features is not None and prior.n_components > 1
    if compared:
        intervals = standardized(intervals, prior)
    intervals = intervals.select(distinct_items(intervals.mean))
    left, right = _panels(ax, len(components), len(intervals.items))
    draw_weights(left, prior, components)
    draw_intervals(right, intervals, [COMPONENTS[i] for i in range(len(components))])
    _title(right, _quantity(prior.family), level, len(intervals.items), prior.family)
    if compared:
        right.set_xlabel("standard deviations from the mixture's mean")
    return [left, right]


def plot_belief(
    belief: Belief, ax: Any = None, task: int | None = None, level: float = 0.8
) -> list[Any]:
    """Draw the belief about one task, or the weights of many tasks."""
    if belief.n_tasks is not None and task is None:
        (one,) = (
            [new_figure(PAGE, 2.4).subplots()]
            if ax is None
            else given_axes(ax, 1, "a belief about many tasks")
        )
        draw_tasks(one, belief)
        return [one]
    prior, posterior = belief.prior, belief.as_prior(task)
    before, after = (
        family_intervals(one.family.collapse(one.weights), level, prior.arm_names)
        for one in (prior, posterior)
    )
    shown = distinct_items(np.concatenate([before.mean, after.mean]))
    both = Intervals(
        after.items,
        *(np.concatenate(pair) for pair in (
            (before.mean, after.mean), (before.low, after.low), (before.high, after.high),
        )),
    ).select(shown)  # fmt: skip
    components = largest_components(posterior.weights)
    left, right = _panels(ax, len(components), len(shown))
    draw_weights(left, posterior, components, prior.weights)
    draw_intervals(right, both, [GREY, INK])
    _title(
        right, f"{_quantity(prior.family)} before (grey) and now", level, len(shown), prior.family
    )
    return [left, right]


def draw_weights(
    ax: Any,
    prior: MixturePrior,
    components: Int[Array, " l"],
    before: Float[Array, " L"] | None = None,
) -> None:
    """Draw the weights of components as bars, and the weights ``before`` as upright lines."""
    dress(ax)
    rows = np.arange(len(components))
    colors = [COMPONENTS[i] for i in rows]
    height = min(0.6, 0.15 + 0.1 * len(rows))
    ax.barh(rows, prior.weights[components], height=height, color=colors)
    if before is not None:
        reach = 0.7 * height
        ax.vlines(before[components], rows - reach, rows + reach, color=INK, linewidth=1.2)
    names = _component_names(prior)
    ax.set_yticks(rows, labels=[short(names[s], _LONGEST_NAME) for s in components])
    ax.set_ylim(len(components) - 0.4, -0.6)
    largest = max([*prior.weights, *(before if before is not None else ())])
    ax.set_xlim(0, min(1.0, 1.1 * float(largest)))
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("weight" if before is None else "weight now, and | before")
    n = prior.n_components
    ax.set_title(
        f"{n} components" if n == len(rows) else f"{len(rows)} of {n} components",
        loc="left", size=FONT, color=INK, pad=4,
    )  # fmt: skip


def draw_intervals(ax: Any, intervals: Intervals, colors: list[str]) -> None:
    """Draw the means and intervals of each item, those of components one below the other."""
    dress(ax)
    n_components, n_items = intervals.mean.shape
    rows = np.arange(n_items)
    offsets = (np.arange(n_components) - (n_components - 1) / 2) * 0.8 / max(n_components, 2)
    for s, (color, offset) in enumerate(zip(colors, offsets, strict=True)):
        y = rows + offset
        ax.hlines(y, intervals.low[s], intervals.high[s], color=color, linewidth=1.6, alpha=0.55)
        ax.plot(intervals.mean[s], y, color=color, linestyle="", marker="o", markersize=3.2)
    for row in rows[:-1]:
        ax.axhline(row + 0.5, color="#e4e4e4", linewidth=0.5)
    ax.set_yticks(rows, labels=[short(name, _LONGEST_NAME) for name in intervals.items])
    ax.set_ylim(n_items - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color="#e4e4e4", linewidth=0.5)


def draw_tasks(ax: Any, belief: Belief) -> None:
    """Draw the weights of all tasks, stacked, sorted by the most likely component."""
    dress(ax)
    every = np.asarray(belief.weights)
    components = largest_components(every.mean(axis=0))
    weights = sorted_weights(every[:, components])
    others = np.maximum(1 - weights.sum(axis=1), 0.0)
    x = np.linspace(0, len(every), len(weights) + 1)
    below, names, ends = np.zeros(len(weights)), _component_names(belief.prior), []
    layers = [(names[s], COMPONENTS[i], weights[:, i]) for i, s in enumerate(components)]
    if len(components) < every.shape[1]:
        layers.append((f"{every.shape[1] - len(components)} others", "#c8c8c8", others))
    for name, color, layer in layers:
        above = below + layer
        ax.stairs(above, x, baseline=below, fill=True, color=color, linewidth=0)
        share = float(layer.mean())
        words = f"{short(name, _LONGEST_NAME)} {100 * share:.0f} %"
        ends.append(End(words, color, len(every), float((below[-1] + above[-1]) / 2)))
        below = above
    ax.set_xlim(0, len(every))
    ax.set_ylim(0, 1)
    ax.set_xlabel(f"{len(every):,} tasks, sorted by their most likely component")
    ax.set_ylabel("weight")
    label_ends(ax, ends)


def _panels(ax: Any, n_components: int, n_items: int) -> list[Any]:
    """Return two axes: those given, or a narrow one for weights and a wide one for intervals."""
    if ax is not None:
        return given_axes(ax, 2, "a prior, or a belief about one task,")
    height = 0.9 + 0.16 * max(n_components, n_items * max(1.5, min(n_components, 4)))
    figure = new_figure(PAGE, min(max(height, 1.8), 7.0))
    figure.get_layout_engine().set(wspace=0.05)
    return list(figure.subplots(1, 2, width_ratios=(1.0, 1.6)))


def _quantity(family: Family) -> str:
    if family.link == "logit":
        return "coefficient of the log odds"
    return "mean reward" if family.n_features is None else "coefficient"


def _title(ax: Any, quantity: str, level: float, n_shown: int, family: Family) -> None:
    n = prod(family.statistics_shape)
    noun = "pairs" if family.plans else "arms" if family.n_features is None else "features"
    some = f", {n_shown} of {n:,} {noun}" if n_shown < n else ""
    ax.set_title(
        f"{quantity}, {100 * level:g} % intervals{some}", loc="left", size=FONT, color=INK, pad=4
    )
