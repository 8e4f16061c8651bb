"""Kinds of clicks in words: what a feature does to the odds of a click, and to whom it matters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mixts._typing import Array, Bool, Float
from mixts.features import Features, LevelFeature
from mixts.pages.formats import listed, percent

if TYPE_CHECKING:
    from mixts.pages.kinds import Numbers

MOST_NAMED = 3
"""Features that a sentence names."""
HARDLY = 0.05
"""A change of the log odds below this is no change: a factor of less than 1.05."""
DIFFERENT = 1.4
"""A feature counts more, or less, than over all tasks from this ratio of coefficients on."""


def levels_of(features: Features | None, n: int) -> Bool[Array, " n"]:
    """Return which numbers of a row are levels of text, and so are 0 or 1."""
    found = np.zeros(n, bool)
    for column, part in [] if features is None else features.parts:
        found[part] = isinstance(column, LevelFeature)
    return found


def steps_of(scale: Float[Array, " n"], levels: Bool[Array, " n"]) -> Float[Array, " n"]:
    """Return by how much each feature is changed in a sentence: 1, or else about its spread."""
    rounded = 10.0 ** np.round(np.log10(np.where(scale > 0, scale, 1.0)))
    return np.asarray(np.where(levels | ((scale >= 0.3) & (scale <= 10.0)), 1.0, rounded))


def effect(change: float) -> str:
    """Say what a change of the log odds does to the odds.

    Examples
    --------
    >>> effect(0.69), effect(-1.1), effect(0.01)
    ('doubles the odds', 'divides the odds by 3.0', 'hardly changes the odds')
    """
    if abs(change) < HARDLY:
        return "hardly changes the odds"
    factor = math.exp(min(abs(change), 700.0))
    if abs(factor - 2) < 0.1:
        return "doubles the odds" if change > 0 else "halves the odds"
    size = f"{factor:.1f}" if factor < 10 else f"{factor:.2g}" if factor < 1000 else "over 1,000"
    return f"{'multiplies' if change > 0 else 'divides'} the odds by {size}"


def importance(own: float, usual: float) -> str:
    """Say how much a coefficient counts beside that of all tasks; "" if about as much.

    Examples
    --------
    >>> importance(2.0, 1.0), importance(0.3, 0.6), importance(-1.0, 0.5)
    ('counts twice as much as usual', 'counts half as much as usual', 'has the opposite effect')
    """
    if abs(own) < HARDLY and abs(usual) < HARDLY:
        return ""
    if own * usual < 0:
        return "has the opposite effect" if min(abs(own), abs(usual)) >= HARDLY else ""
    ratio = abs(own) / max(abs(usual), 1e-300)
    if 1 / DIFFERENT < ratio < DIFFERENT:
        return ""
    if ratio > 10:
        return "counts, and usually hardly does"
    if ratio < 0.1:
        return "hardly counts"
    words = {2: "twice", -2: "half"}
    whole = round(ratio) if ratio >= 1 else -round(1 / ratio)
    near = abs(ratio - 2) < 0.15 or abs(1 / ratio - 2) < 0.15
    times = words[whole] if near else f"{ratio:.1f} times"
    return f"counts {times} as much as usual"


def describe_odds(numbers: Numbers, s: int) -> tuple[str, list[str]]:
    """Return a headline, what sets the kind apart from all tasks, and further sentences."""
    size = np.abs(numbers.mean[s] * numbers.scale)
    base = [k for k, name in enumerate(numbers.names) if name == "intercept"]
    order = [k for k in np.argsort(-size, kind="stable").tolist() if k not in base]
    strongest = [_sentence(numbers, s, k) for k in order[:MOST_NAMED]]
    several = len(numbers.mean) > 1
    apart = sorted(
        (k for k in range(len(size)) if abs(numbers.distance[s, k]) > 0.5),
        key=lambda k: -abs(numbers.distance[s, k]),
    )
    named = [k for k in apart if k not in base][:2] if several else []
    first = [_compared(numbers, s, k) for k in named]
    if any(k in base for k in apart[:2]) or (several and not first):
        first.insert(0, _base(numbers, s, base[0])) if base else None
        base = []
    most = f"Strongest: {listed(strongest)}." if strongest else "There is only a base level."
    rest = [most] if first else []
    rest += [f"{_base(numbers, s, k).capitalize()}." for k in base]
    headline = "; ".join(first) + "." if first else most
    if several and not apart:
        rest.append("No feature stands out: tasks of this kind are like the average task.")
    return headline[0].upper() + headline[1:], [*rest, _widest(numbers, s)]


def _change(numbers: Numbers, k: int) -> str:
    """Name a feature and the change of it that a sentence is about."""
    name, step = f"`{numbers.names[k]}`", float(numbers.step[k])
    return name if numbers.is_level[k] else f"{step:g} more of {name}"


def _sentence(numbers: Numbers, s: int, k: int) -> str:
    return f"{_change(numbers, k)} {effect(float(numbers.mean[s, k] * numbers.step[k]))}"


def _compared(numbers: Numbers, s: int, k: int) -> str:
    """Say what a feature does in a kind, and beside that over all tasks."""
    own, usual = float(numbers.mean[s, k]), float(numbers.overall[k])
    step = float(numbers.step[k])
    words = importance(own * step, usual * step)
    start = f"`{numbers.names[k]}` {words}: {_change(numbers, k)}" if words else _change(numbers, k)
    if words and numbers.is_level[k]:
        start = f"`{numbers.names[k]}` {words}: it"
    return f"{start} {effect(own * step)} ({effect(usual * step)} over all tasks)"


def _base(numbers: Numbers, s: int, k: int) -> str:
    """Say how often an average choice is clicked, in the middle task of a kind."""
    own, usual = (_rate(float(x)) for x in (numbers.mean[s, k], numbers.overall[k]))
    beside = f", against {usual} over all tasks" if len(numbers.mean) > 1 else ""
    return f"an average choice is clicked with {own}{beside}"


def _rate(log_odds: float) -> str:
    rate = 100 / (1 + math.exp(-max(log_odds, -700.0)))
    return f"{rate:.2g} %" if rate < 10 else f"{rate:.0f} %"


def _widest(numbers: Numbers, s: int) -> str:
    """Say in which feature the tasks of a kind differ most."""
    k = int(np.argmax((numbers.high[s] - numbers.low[s]) * numbers.scale))
    low, high = float(numbers.low[s, k]), float(numbers.high[s, k])
    if numbers.names[k] == "intercept":
        return (
            f"Tasks of this kind differ most in the base rate: {percent(0.8)} of them are between "
            f"{_rate(low)} and {_rate(high)}."
        )
    factors = [math.exp(min(max(x * float(numbers.step[k]), -700.0), 700.0)) for x in (low, high)]
    return (
        f"Tasks of this kind differ most in {_change(numbers, k)}: in {percent(0.8)} of them it "
        f"multiplies the odds by {factors[0]:.2g} to {factors[1]:.2g}."
    )
