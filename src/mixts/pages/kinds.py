"""What a learned prior says in words: the kinds of task, and what is special about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixts._typing import Array, Float
from mixts.families import LinearGaussian, Statistics
from mixts.pages.kind_numbers import STANDS_OUT, Numbers, numbers_of
from mixts.prior import MixturePrior

MOST_ITEMS = 12
"""Arms or features that are drawn, those in which kinds differ most."""
MOST_NAMED = 3
"""Arms or features that a sentence names."""
SURE = 0.9


@dataclass(frozen=True)
class Item:
    """One arm or feature of a kind: numbers as text, and places on a scale from 0 to 100."""

    name: str
    mean: str
    overall: str
    low: float
    place: float
    high: float
    overall_place: float
    zero: float
    alt: str


@dataclass(frozen=True)
class Kind:
    """One component of a prior, as a page tells it."""

    name: str
    weight: float
    headline: str
    sentences: tuple[str, ...]
    items: tuple[Item, ...]

    @property
    def percent(self) -> str:
        """Of tasks."""
        return percent(self.weight)

    def __str__(self) -> str:
        return f"{self.name}, {self.percent} of tasks: {self.headline}"


def kinds_of(
    prior: MixturePrior, tasks: Statistics, items: Sequence[str], n_kinds: int | None = None
) -> tuple[Kind, ...]:
    """The components of a prior in words, and how many of these tasks belong to each.

    ``items`` are the names of arms or features. Of the components, the first ``n_kinds`` (all of
    them unless said otherwise) are kinds; what comes after them is broad, for other tasks.
    """
    n = prior.n_components if n_kinds is None else n_kinds
    numbers = numbers_of(prior, tasks, tuple(items), n)
    shown = telling(numbers.distance, prior.weights[:n], numbers.mean * numbers.scale)
    weights = np.atleast_2d(prior.condition(tasks).weights)
    found = []
    for s in range(n):
        arms = not isinstance(prior.family, LinearGaussian)
        headline, sentences = (_of_arms if arms else _of_features)(numbers, s)
        found.append(
            Kind(
                f"Kind {s + 1}",
                float(prior.weights[s]),
                headline,
                (*sentences, _belonging(weights[:, s])),
                tuple(_item(numbers, s, int(k), shown) for k in shown),
            )
        )
    for s in range(n, prior.n_components):
        text = "A broad component for tasks unlike all that were seen."
        n_fallen = int(np.sum(np.argmax(weights, axis=1) == s))
        said = f"It explains {n_fallen:,} of {len(tasks):,} past tasks better than any kind does."
        found.append(Kind("Other", float(prior.weights[s]), text, (said,), ()))
    return tuple(found)


def telling(
    distance: Float[Array, "L K"], weights: Float[Array, " L"], means: Float[Array, "L K"]
) -> Array:
    """Which arms or features to draw, in their order: where kinds differ most, and each's best."""
    n = distance.shape[1]
    if n <= MOST_ITEMS:
        return np.arange(n)
    between = weights @ distance**2
    best = list(dict.fromkeys(np.argmax(means, axis=1).tolist()))[: MOST_ITEMS // 2]
    rest = [k for k in np.argsort(-between, kind="stable").tolist() if k not in best]
    return np.sort(np.array([*best, *rest[: MOST_ITEMS - len(best)]]))


def percent(share: float) -> str:
    """A share as people say it."""
    if 0 < share < 0.005:
        return "less than 1 %"
    return f"{100 * share:.0f} %"


# -- words --------------------------------------------------------------------------------------


_ALL = " over all tasks"


def _of_arms(numbers: Numbers, s: int) -> tuple[str, list[str]]:
    best = int(np.argmax(numbers.mean[s]))
    named = {best}
    headline = f"`{numbers.names[best]}` gives most ({numbers.numbers(s, best, _ALL)})"
    for sign, word in ((1, "more than elsewhere"), (-1, "less than elsewhere")):
        for k in numbers.outstanding(s, sign, named)[:1]:
            headline += f", `{numbers.names[k]}` {word} ({numbers.numbers(s, k)})"
            named.add(k)
    return headline + ".", _differences(numbers, s, named, "arm")


def _of_features(numbers: Numbers, s: int) -> tuple[str, list[str]]:
    size = np.abs(numbers.mean[s] * numbers.scale)
    constant = [k for k, name in enumerate(numbers.names) if name == "intercept"]
    order = [k for k in np.argsort(-size, kind="stable").tolist() if k not in constant]
    first = order[:MOST_NAMED]
    headline = "There is only a base level."
    if first:
        k, *others = first
        headline = f"`{numbers.names[k]}` counts most ({numbers.numbers(s, k, _ALL)})"
        headline += f", then {_listed([numbers.named(s, k) for k in others])}." if others else "."
    said = [f"The base level is {numbers.numbers(s, k)}." for k in constant]
    return headline, [*said, *_differences(numbers, s, {*first, *constant}, "feature")]


def _differences(numbers: Numbers, s: int, named: set[int], noun: str) -> list[str]:
    """Where a kind stands out, other than what was named already; and in what its tasks differ."""
    said = []
    for sign, word in ((1, "Also higher"), (-1, "Also lower")):
        found = numbers.outstanding(s, sign, named)
        if found:
            listed = [numbers.named(s, k) for k in found[:MOST_NAMED]]
            listed += [f"{len(found) - MOST_NAMED} more"] * (len(found) > MOST_NAMED)
            said.append(f"{word} than over all tasks: {_listed(listed)}.")
    if len(numbers.mean) > 1 and np.abs(numbers.distance[s]).max() <= STANDS_OUT:
        said.append(f"No {noun} stands out: tasks of this kind are much like the average task.")
    width = (numbers.high[s] - numbers.low[s]) * numbers.scale
    k = int(np.argmax(width))
    low, high = numbers.text(numbers.low[s, k]), numbers.text(numbers.high[s, k])
    said.append(
        f"Its tasks differ from each other most in `{numbers.names[k]}`: most have between {low} "
        f"and {high}."
    )
    return said


def _belonging(probability: Float[Array, " n"]) -> str:
    n, sure = float(probability.sum()), int((probability > SURE).sum())
    number = f"{n:,.0f}" if n >= 1 else "fewer than one"
    few = " So few say little: take its numbers with care." if n < 5 else ""
    return (
        f"Of {len(probability):,} past tasks about {number} belong here, {sure:,} of them with a "
        f"probability above {percent(SURE)}.{few}"
    )


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _item(numbers: Numbers, s: int, k: int, shown: Array) -> Item:
    scale = numbers.scale[shown]
    bottom = min(0.0, float((numbers.low[:, shown] * scale).min()))
    top = max(0.0, float((numbers.high[:, shown] * scale).max()))

    def place(value: float) -> float:
        width = top - bottom or 1.0
        return round(float(np.clip(100 * (value * numbers.scale[k] - bottom) / width, 0, 100)), 2)

    mean, low, high = numbers.mean[s, k], numbers.low[s, k], numbers.high[s, k]
    overall = numbers.overall[k]
    return Item(
        numbers.names[k], numbers.text(mean), numbers.text(overall),
        place(low), place(mean), place(high), place(overall), place(0.0),
        f"{numbers.text(mean)}, most tasks of this kind between {numbers.text(low)} and "
        f"{numbers.text(high)}; over all tasks {numbers.text(overall)}",
    )  # fmt: skip
