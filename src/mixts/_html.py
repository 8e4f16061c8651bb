"""Names in HTML, and what notebooks show of families, priors, beliefs and results.

Names of tasks and arms come from anybody: :func:`name_html` escapes them, shows characters that
cannot be seen, and keeps their direction to themselves. Tables of notebooks hold the first rows;
they have no colours of their own, so that they can be read on a light and on a dark page.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from mixts._typing import Array, Int

_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
"""Invisible, but part of emoji and of words in some scripts."""
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Unicode categories of control, format, surrogate and private characters and line separators."""


def visible(name: str) -> str:
    """Return a name with stand-ins for characters that cannot be seen."""
    return "".join(text for text, _ in _pieces(name))


def short(name: str, length: int) -> str:
    """Return at most ``length`` characters of a name, its beginning."""
    whole = visible(name)
    return whole if len(whole) <= length else whole[: length - 1].rstrip() + "…"


def name_html(name: str) -> str:
    """Return a name as HTML: escaped, isolated in its direction, stand-ins in italics."""
    shown = (
        f"<i>{escape(text)}</i>" if stands_in else escape(text) for text, stands_in in _pieces(name)
    )
    return f'<bdi class="name" translate="no">{"".join(shown)}</bdi>'


def _pieces(name: str) -> Iterator[tuple[str, bool]]:
    """Split a name into text (false) and stand-ins for characters that cannot be seen (true).

    Control characters, those that change the direction of text, other formats and lone surrogates
    would hide, reorder or break the text around them. Spaces have a stand-in where they would
    collapse.
    """
    if name.isprintable() and "  " not in name and name.strip() == name:
        # Nearly all names, and pages have hundreds of them.
        yield name, False
        return
    plain = ""
    for i, character in enumerate(name):
        shown = _stand_in(character, name[i - 1 : i] in ("", " ") or i == len(name) - 1)
        if shown is None:
            plain += character
            continue
        if plain:
            yield plain, False
            plain = ""
        yield shown, True
    if plain:
        yield plain, False


def _stand_in(character: str, edge: bool) -> str | None:
    code, category = ord(character), unicodedata.category(character)
    if character == " ":
        return "·" if edge else None
    if edge and category == "Zs":
        return f"[U+{code:04X}]"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in _JOINERS or category not in _INVISIBLE:
        return None
    return f"[U+{code:04X}]"


# -- tables of notebooks --------------------------------------------------------------------------

MOST_ROWS = 10
"""Rows of a table in a notebook, and its columns of arms or features."""
LONGEST = 40
"""Characters of a name in a notebook."""
_CELL = "padding: 0.2em 0.7em; border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.35)"


def label(name: str) -> str:
    """Return the beginning of a name as HTML."""
    return name_html(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…")


def more(n: int, noun: str) -> str:
    """Return the number of things that are not shown, in words; "" if there are none."""
    return "" if n <= 0 else f"… and {n:,} more {noun}{'' if n == 1 else 's'}"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    n_names: int = 1,
) -> str:
    """Return a table in HTML; its first columns hold names and the others hold numbers.

    Parameters
    ----------
    head
        Titles of the columns, as HTML.
    rows
        Cells of each row, as HTML.
    notes
        Lines below the table, as text; empty ones are left out.
    n_names
        Number of columns with names, which begin at the left.
    """
    sides = ["left" if i < n_names else "right" for i in range(len(head))]
    lines = [_row("th", head, sides), *(_row("td", row, sides) for row in rows)]
    below = "".join(note_html(note) for note in notes if note)
    style = "border-collapse: collapse; margin: 0.4em 0; font-variant-numeric: tabular-nums"
    return f'<table style="{style}">{"".join(lines)}</table>{below}'


def note_html(text: str) -> str:
    """Return a line of text in HTML, less prominent than a table."""
    return f'<div style="opacity: 0.75">{escape(text)}</div>'


def card(title: str, *parts: str) -> str:
    """Return what a notebook shows of an object: a title, as text, and parts in HTML."""
    return f"<div><div><b>{escape(title)}</b></div>{''.join(parts)}</div>"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    found = (
        f'<{tag} style="{_CELL}; text-align: {side}">{cell}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(found)}</tr>"


# -- families, priors and beliefs -----------------------------------------------------------------


def prior_html(prior: Any) -> str:
    """Return the weights and means of the components of a prior."""
    notes = [] if prior.arm_names is None else _marks(prior)
    return card(f"MixturePrior of {prior.family!r}", _components(prior), *map(note_html, notes))


def _components(prior: Any) -> str:
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


def _item_names(prior: Any, noun: str, shown: Int[Array, " k"]) -> list[str]:
    """Return the names of some arms or features in HTML; without names, their numbers."""
    names = prior.arm_names or (None if prior.features is None else prior.features.names)
    return [f"{noun} {k}" if names is None else label(names[k]) for k in shown.tolist()]


def belief_html(belief: Any) -> str:
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


def _items(belief: Any) -> str:
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


def _tasks(belief: Any) -> str:
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


def _component_names(prior: Any) -> tuple[str, ...]:
    return prior.names or tuple(str(s) for s in range(prior.n_components))


def _marks(prior: Any) -> list[str]:
    """Return notes about retired and new arms."""
    assert prior.arm_names is not None
    found = []
    for word, marked in (("retired", prior.arms.retired), ("new", prior.arms.new)):
        index = np.flatnonzero(marked)
        if len(index):
            some = ", ".join(short(prior.arm_names[k], LONGEST) for k in index[:MOST_ROWS])
            rest = more(len(index) - MOST_ROWS, "arm")
            found.append(f"{word} arms: {some}{f' {rest}' if rest else ''}")
    return found
