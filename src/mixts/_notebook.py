"""What notebooks show of priors and beliefs: tables of the first rows, and counts."""

from __future__ import annotations

import numpy as np

from mixts._html import LONGEST, MOST_ROWS, card, label, more, note_html, short, table
from mixts._typing import Array, Int
from mixts.belief import Belief
from mixts.prior import MixturePrior


def prior_html(prior: MixturePrior) -> str:
    """Return the weights and means of the components of a prior."""
    notes = [] if prior.arm_names is None else _marks(prior)
    return card(f"MixturePrior of {prior.family!r}", _components(prior), *map(note_html, notes))


def _components(prior: MixturePrior) -> str:
    """Return a table of components: the weight, and the mean of each arm or feature."""
    family, names = prior.family, _component_names(prior)
    shown = np.arange(min(family.n_components, MOST_ROWS))
    head = ["component", "weight"]
    rows = [[label(names[s]), f"{prior.weights[s]:.4g}"] for s in shown]
    notes = [more(family.n_components - len(shown), "component")]
    if not family.plans:
        noun = "arm" if family.n_features is None else "feature"
        (n,) = family.statistics_shape  # a task may have more parameters, such as its noise
        means = family.select(shown).parameter_means()[:, : min(n, MOST_ROWS)]
        head += _item_names(prior, noun, np.arange(means.shape[1]))
        for row, values in zip(rows, means, strict=True):
            row += [f"{value:.3g}" for value in values]
        notes += [more(n - means.shape[1], noun)]
        notes.append("mean reward of each arm" if noun == "arm" else "mean of each coefficient")
    return table(head, rows, notes)


def _item_names(prior: MixturePrior, noun: str, shown: Int[Array, " k"]) -> list[str]:
    """Return the names of some arms or features in HTML; without names, their numbers."""
    names = prior.arm_names or (None if prior.features is None else prior.features.names)
    return [f"{noun} {k}" if names is None else label(names[k]) for k in shown.tolist()]


def belief_html(belief: Belief) -> str:
    """Return the weights of the components, and of one task also the mean of each arm."""
    n = int(np.sum(belief.posterior.statistics.n_observations))
    if belief.n_tasks is not None:
        title = f"Belief about {belief.n_tasks:,} tasks, {n:,} observations"
        return card(title, _tasks(belief), note_html(repr(belief.prior.family)))
    title = f"Belief about 1 task, {n:,} observation{'' if n == 1 else 's'}"
    prior, weights = belief.prior, belief.weights
    names = _component_names(prior)
    order = np.argsort(-weights, kind="stable")[:MOST_ROWS]
    rows = [[label(names[s]), f"{prior.weights[s]:.4f}", f"{weights[s]:.4f}"] for s in order]
    kinds = table(
        ["component", "weight before", "weight now"], rows,
        [more(prior.n_components - len(order), "component")],
    )  # fmt: skip
    return card(title, kinds, _items(belief), note_html(repr(prior.family)))


def _items(belief: Belief) -> str:
    """Return a table of the best arms, or of the first features, with standard deviations."""
    prior, family = belief.prior, belief.posterior.family(0)
    if family.plans:
        return ""
    weights = belief.weights
    (n,) = family.statistics_shape
    means, variances = family.parameter_means()[:, :n], family.parameter_variances()[:, :n]
    mean = weights @ means
    deviation = np.sqrt(np.maximum(weights @ (variances + (means - mean) ** 2), 0.0))
    linear = family.n_features is not None
    noun = "feature" if linear else "arm"
    order = np.arange(len(mean)) if linear else np.argsort(-mean, kind="stable")
    shown = order[:MOST_ROWS]
    rows = [
        [name, f"{mean[k]:.4g}", f"± {deviation[k]:.2g}"]
        for name, k in zip(_item_names(prior, noun, shown), shown, strict=True)
    ]
    head = [noun, "coefficient" if linear else "mean reward", "standard deviation"]
    return table(head, rows, [more(len(mean) - len(shown), noun)])


def _tasks(belief: Belief) -> str:
    """Return a table of the first tasks: observations, and the most likely component."""
    n_tasks = belief.n_tasks or 0
    shown = np.arange(min(n_tasks, MOST_ROWS))
    weights = belief.working_weights(shown)
    counts = np.asarray(belief.posterior.statistics.n_observations)
    names = _component_names(belief.prior)
    rows = [
        [str(task), label(names[int(w.argmax())]), f"{w.max():.4f}", f"{int(counts[task]):,}"]
        for task, w in zip(shown, weights, strict=True)
    ]
    head = ["task", "most likely component", "weight", "observations"]
    return table(head, rows, [more(n_tasks - len(shown), "task")], n_names=2)


def _component_names(prior: MixturePrior) -> tuple[str, ...]:
    return prior.names or tuple(str(s) for s in range(prior.n_components))


def _marks(prior: MixturePrior) -> list[str]:
    """Return notes about retired and new arms."""
    assert prior.arm_names is not None
    found = []
    for word, marked in (("retired", prior.retired), ("new", prior.new_arms)):
        index = np.flatnonzero(marked)
        if len(index):
            some = ", ".join(short(prior.arm_names[k], LONGEST) for k in index[:MOST_ROWS])
            rest = more(len(index) - MOST_ROWS, "arm")
            found.append(f"{word} arms: {some}{f' {rest}' if rest else ''}")
    return found
