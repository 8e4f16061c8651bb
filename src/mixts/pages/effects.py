"""Pooled effects in words: what each fact, cross and score usually does, and to which action."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from mixts.features import Feature, NumberFeature, Pooled
from mixts.pages.formats import number
from mixts.pages.kinds import short_name
from mixts.pages.odds import HARDLY, MOST_NAMED, effect
from mixts.prior import MixturePrior


@dataclass(frozen=True)
class Effect:
    """A term of the pooled effects: a fact, a cross of two columns, or a score."""

    name: str
    usual: str
    """What it usually does to a reward, or to the odds of a click."""
    strongest: tuple[str, ...]
    """Its largest coefficients in words; none if it hardly does anything."""


def effects_of(prior: MixturePrior) -> tuple[Effect, ...]:
    """Describe the effects that are the same for everybody, the largest first.

    Parameters
    ----------
    prior
        Any prior.

    Returns
    -------
    tuple of Effect
        An effect for each term; none for a prior without pooled effects.
    """
    pooled = None if prior.features is None else prior.features.pooled
    if pooled is None or pooled.coefficients is None:
        return ()
    odds = prior.family.link == "logit"
    sizes = pooled.sizes or (None,) * len(pooled.terms)
    each = zip(pooled.terms, pooled.parts, sizes, strict=True)
    found = [
        (size or 0.0, Effect(name, usual_words(size, odds), _strongest(pooled, term, part, odds)))
        for term, (name, part), size in each
    ]
    return tuple(one for _, one in sorted(found, key=lambda pair: -pair[0]))


def usual_words(size: float | None, odds: bool) -> str:
    """Say what a term of some size usually does.

    Examples
    --------
    >>> usual_words(0.9, True), usual_words(0.01, True), usual_words(0.25, False)
    ('multiplies or divides the odds by 2.5', 'hardly changes the odds', 'adds or subtracts 0.250')
    """
    if size is None:
        return "not known"
    if odds:
        words = effect(size)
        return words.replace("multiplies", "multiplies or divides").replace(
            "doubles", "doubles or halves"
        )
    return f"adds or subtracts {number(size)}" if size else "adds nothing"


def change(value: float) -> str:
    """Say what is added to a reward: adds 0.250, or subtracts 3."""
    return f"{'adds' if value >= 0 else 'subtracts'} {number(abs(value))}"


def _strongest(pooled: Pooled, term: tuple[str, ...], part: slice, odds: bool) -> tuple[str, ...]:
    """Return the largest changes of a term, those of rare levels after those of frequent ones."""
    assert pooled.coefficients is not None
    columns = {column.name: column for column in pooled.columns}
    named = [list(_changes(pooled, columns[name])) for name in term]
    found = []
    for pair, beta in zip(product(*named), pooled.coefficients[part], strict=True):
        share = math.prod(share for _, share in pair)
        words = effect(beta) if odds else change(beta)
        text = " and ".join(name for name, _ in pair) + f": {words}"
        if abs(beta) >= (HARDLY if odds else 1e-12):
            found.append((abs(beta) * math.sqrt(share), text))
    return tuple(text for _, text in sorted(found, key=lambda one: -one[0])[:MOST_NAMED])


def _changes(pooled: Pooled, column: Feature) -> Iterator[tuple[str, float]]:
    """Yield each number of a column as a change in words, and how common the change is."""
    if isinstance(column, NumberFeature):
        yield f"{number(column.scale)} more of `{short_name(column.name)}`", 1.0
        return
    start = 0
    for other in pooled.columns:
        if other is column:
            break
        start += other.n_numbers
    shares = pooled.means[start : start + column.n_numbers]
    for name, share in zip(column.names, shares, strict=True):
        yield f"`{short_name(name)}`", share if any(shares) else 1.0
