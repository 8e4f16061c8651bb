"""A learned prior in words: the kinds of task, and how each differs from the others.

A kind is one component of the prior, or several that the prior says describe one kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ParameterError
from mixts.families import Family, Statistics
from mixts.learning.histories import moments, scaling
from mixts.pages.formats import listed, percent, signed
from mixts.pages.odds import describe_odds, levels_of, steps_of
from mixts.prior import MixturePrior

MOST_ITEMS = 12
"""Arms or features that are drawn: those in which kinds differ most."""
_MOST_NAMED = 3
"""Arms or features that a sentence names."""
_LONGEST_NAME = 48
_STANDS_OUT = 0.5
"""Distance from the mean of all tasks, in their standard deviations, that a sentence mentions."""
_INNER = 0.8
"""Share of a kind's tasks inside the range that is shown."""
_SURE = 0.9
_ALL = " over all tasks"
_BROAD = "A broad kind for tasks unlike any past task."


@dataclass(frozen=True)
class Item:
    """An arm or feature of a kind: numbers as text, and positions on a scale from 0 to 100.

    Arms are drawn by their means. Features are drawn by how far a kind's coefficient is from the
    mean of all tasks, in standard deviations of all tasks: a large base level, or a feature in
    small units, would otherwise flatten all the others.
    """

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
    """A kind of task in words: one component of a prior, or several."""

    name: str
    weight: float
    headline: str
    sentences: tuple[str, ...]
    items: tuple[Item, ...]

    @property
    def percent(self) -> str:
        """Share of tasks."""
        return percent(self.weight)

    def __str__(self) -> str:
        return f"{self.name}, {self.percent} of tasks: {self.headline}"


def kinds_of(
    prior: MixturePrior, tasks: Statistics, items: Sequence[str], n_kinds: int | None = None
) -> tuple[Kind, ...]:
    """Describe the kinds of a prior, each once.

    A kind of several components is described by their mean, and by ranges of one distribution with
    their variance.

    Parameters
    ----------
    prior
        A prior of arms or of features.
    tasks
        Past tasks, to count those of each kind.
    items
        Names of the arms or features.
    n_kinds
        Number of kinds that were learned, by default all; those after them are broad components
        for other tasks.
    """
    if prior.family.plans:
        raise ParameterError(f"only priors of arms or features have kinds, got {prior.family!r}")
    weights = prior.sum_by_kind(np.atleast_2d(prior.condition(tasks).weights))
    prior = prior.by_kind()
    n = prior.n_components if n_kinds is None else n_kinds
    numbers = _numbers_of(prior, tasks, tuple(items), n)
    shown = distinctive_items(numbers.distance, prior.weights[:n], numbers.mean * numbers.scale)
    describe = _describer(prior.family)
    found = []
    for s in range(n):
        headline, sentences = describe(numbers, s)
        found.append(
            Kind(
                f"Kind {s + 1}",
                float(prior.weights[s]),
                headline,
                (*sentences, _describe_tasks(weights[:, s])),
                _items(numbers, s, shown),
            )
        )
    for s in range(n, prior.n_components):
        n_best = int(np.sum(np.argmax(weights, axis=1) == s))
        note = f"It explains {n_best:,} of {len(tasks):,} past tasks better than the other kinds."
        found.append(Kind("Other", float(prior.weights[s]), _BROAD, (note,), ()))
    return tuple(found)


def descriptions_of(prior: MixturePrior) -> tuple[str, ...]:
    """Describe the kind of each component in one sentence: the prior's, or else a new one.

    Parameters
    ----------
    prior
        Any prior.

    Returns
    -------
    tuple of str
        A sentence for each component; none for a prior of MDPs.
    """
    if prior.descriptions is not None:
        return prior.descriptions
    if prior.family.plans:
        return ()
    index, prior = prior.kind_indices, prior.by_kind()
    named = prior.arm_names if prior.features is None else prior.features.names
    items = named or _item_numbers(prior.family)
    numbers = _numbers_of(prior, None, items, prior.n_components)
    describe = _describer(prior.family)
    sentences = [describe(numbers, s)[0] for s in range(prior.n_components)]
    return tuple(sentences[g] for g in index)


def _item_numbers(family: Family) -> tuple[str, ...]:
    noun = "arm" if family.n_features is None else "feature"
    return tuple(f"{noun} {k}" for k in range(*family.statistics_shape))


def distinctive_items(
    distance: Float[Array, "L K"], weights: Float[Array, " L"], means: Float[Array, "L K"]
) -> Int[Array, " k"]:
    """Choose the arms or features to draw: where kinds differ most, and the best of each kind.

    Parameters
    ----------
    distance
        Distances of kinds from the mean of all tasks.
    weights
        Weights of the kinds.
    means
        Means of the kinds, on one scale.
    """
    n = distance.shape[1]
    if n <= MOST_ITEMS:
        return np.arange(n)
    between = weights @ distance**2
    best = list(dict.fromkeys(np.argmax(means, axis=1).tolist()))[: MOST_ITEMS // 2]
    rest = [k for k in np.argsort(-between, kind="stable").tolist() if k not in best]
    return np.sort(np.array([*best, *rest[: MOST_ITEMS - len(best)]]))


# -- numbers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """Means and ranges of L kinds and K arms or features."""

    names: tuple[str, ...]
    mean: Float[Array, "L K"]
    low: Float[Array, "L K"]
    high: Float[Array, "L K"]
    overall: Float[Array, " K"]
    deviation: Float[Array, " K"]
    """Standard deviation over all tasks of all kinds."""
    scale: Float[Array, " K"]
    """Typical size of each feature, by which coefficients can be compared; 1 for arms."""
    digits: Int[Array, " K"]
    """Digits after the point: the same for all arms, and for features by their units."""
    differences: bool
    """True for features of several kinds, which are drawn by their differences."""
    explain: Callable[[int, int], str]
    """Function that says what the mean of a kind's arm is made of."""
    step: Float[Array, " K"]
    """Change of each feature that a sentence about odds describes."""
    is_level: Bool[Array, " K"]
    """Whether each feature is a level of text, 0 or 1."""

    def drawn(self, values: Float[Array, "*L K"]) -> Float[Array, "*L K"]:
        """Return what a drawing shows of values: themselves, or their distance from the mean."""
        if not self.differences:
            return values * self.scale
        return (values - self.overall) / np.where(self.deviation > 0, self.deviation, 1.0)

    @property
    def distance(self) -> Float[Array, "L K"]:
        """Distance from the mean of all tasks, in standard deviations."""
        return (self.mean - self.overall) / np.where(self.deviation > 0, self.deviation, 1.0)

    def text(self, value: float, k: int) -> str:
        """Format a number of an arm or feature."""
        return signed(f"{value:z.{self.digits[k]}f}")

    def compared(self, s: int, k: int, all_tasks: str = "") -> str:
        """Format a kind's mean beside that of all tasks."""
        mean, overall = self.text(self.mean[s, k], k), self.text(self.overall[k], k)
        return f"{mean}, against {overall}{all_tasks}" if len(self.mean) > 1 else mean

    def named(self, s: int, k: int) -> str:
        """Format an arm or feature with its numbers."""
        return f"`{self.names[k]}` ({self.compared(s, k)})"

    def outstanding(self, s: int, sign: int, left_out: set[int]) -> list[int]:
        """Return where a kind is above (or, with -1, below) all tasks, the furthest first."""
        distance = sign * self.distance[s]
        order = np.argsort(-distance, kind="stable").tolist()
        return [k for k in order if distance[k] > _STANDS_OUT and k not in left_out]


def _numbers_of(
    prior: MixturePrior, tasks: Statistics | None, names: tuple[str, ...], n_kinds: int
) -> Numbers:
    family, scale = _comparable(prior, tasks)
    family = family.select(np.arange(n_kinds))
    if family.has_offset:  # which no kind differs in
        family, scale, names = family.without_offset(), scale[:-1], names[:-1]
    # Mean rewards, or coefficients, come first among the parameters.
    n, tail = math.prod(family.statistics_shape), (1 - _INNER) / 2
    mean = family.parameter_means()[:, :n]
    if len(names) != n:
        raise ParameterError(f"expected a name for each of {n}, got {len(names)}")
    together = family.collapse(prior.weights[:n_kinds] / prior.weights[:n_kinds].sum())
    largest = np.abs(mean).max(axis=0)
    if family.n_features is None:
        largest = np.full_like(largest, np.median(largest[largest > 0]) if mean.any() else 1.0)
    size = np.floor(np.log10(np.where(largest > 0, largest, 1.0)))
    levels = levels_of(prior.features, n)
    return Numbers(
        tuple(map(short_name, names)),
        mean,
        family.parameter_quantiles(tail)[:, :n],
        family.parameter_quantiles(1 - tail)[:, :n],
        together.parameter_means()[0, :n],
        np.sqrt(together.parameter_variances()[0, :n]),
        scale,
        digits=np.clip(1 - size, 0, 6).astype(int),
        differences=family.n_features is not None and n_kinds > 1,
        explain=family.explain_mean,
        step=steps_of(scale, levels),
        is_level=levels,
    )


def _comparable(prior: MixturePrior, tasks: Statistics | None) -> tuple[Family, Float[Array, " K"]]:
    """Return the family in units of the logs, and the typical size of each feature.

    A feature with a name is compared by its spread, and the base level is the mean reward of an
    action whose numbers are the average.
    """
    family, features = prior.family, prior.features
    if tasks is None or features is None or family.n_features is None:
        sizes = np.ones(family.statistics_shape) if tasks is None else tasks.feature_scales
        return family, sizes
    _, spread = moments(features, tasks)
    units = 1 / np.abs(np.diagonal(features.scaling()))
    centred = units[:, None] * scaling(features, tasks, scaled=False)
    sizes = units * spread
    return family.mapped(np.linalg.inv(centred)), np.where(sizes > 0, sizes, 1.0)


def short_name(name: str) -> str:
    """Return a name that can stand between backticks, in a line."""
    text = " ".join(name.replace("`", "'").split())
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 3] + "..."


def position(value: float, low: float, high: float) -> float:
    """Return where a value is between two ends, in percent; values beyond them are at the ends.

    Parameters
    ----------
    value
        A number.
    low, high
        The ends, at 0 and 100.

    Returns
    -------
    float
        The place, with two decimals.
    """
    share = (value - low) / ((high - low) or 1.0)
    return round(100 * min(max(share, 0.0), 1.0), 2)


def _items(numbers: Numbers, s: int, shown: Int[Array, " k"]) -> tuple[Item, ...]:
    """Return the items of a kind, on a scale that all kinds share."""
    low, high = numbers.drawn(numbers.low)[:, shown], numbers.drawn(numbers.high)[:, shown]
    ends = min(0.0, float(low.min())), max(0.0, float(high.max()))
    found = []
    for k in shown.tolist():
        values = (numbers.low[s], numbers.mean[s], numbers.high[s], numbers.overall)
        below, place, above, overall = (position(float(numbers.drawn(v)[k]), *ends) for v in values)
        least, mean, most, usual = (numbers.text(float(v[k]), k) for v in values)
        found.append(
            Item(
                name=numbers.names[k],
                mean=mean,
                overall=usual,
                low=below,
                place=place,
                high=above,
                overall_place=overall,
                zero=position(0.0, *ends),
                alt=f"{mean}, {percent(_INNER)} of the tasks of this kind between {least} and "
                f"{most}; over all tasks {usual}",
            )
        )
    return tuple(found)


# -- words ----------------------------------------------------------------------------------------

_Describe = Callable[["Numbers", int], tuple[str, list[str]]]


def _describer(family: Family) -> _Describe:
    if family.link == "logit":
        return describe_odds
    return _describe_arms if family.n_features is None else _describe_features


def _describe_arms(numbers: Numbers, s: int) -> tuple[str, list[str]]:
    """Return a headline and further sentences."""
    best = int(np.argmax(numbers.mean[s]))
    named = {best}
    headline = f"`{numbers.names[best]}` has the highest mean ({numbers.compared(s, best, _ALL)})"
    for sign, word in ((1, "higher"), (-1, "lower")):
        for k in numbers.outstanding(s, sign, named)[:1]:
            headline += f"; `{numbers.names[k]}` is {word} than usual ({numbers.compared(s, k)})"
            named.add(k)
    reason = numbers.explain(s, best)
    made_of = [f"Of `{numbers.names[best]}`, {reason}."] if reason else []
    return headline + ".", [*made_of, *_describe_differences(numbers, s, named, "arm")]


def _describe_features(numbers: Numbers, s: int) -> tuple[str, list[str]]:
    """Return a headline, where the kind differs most from all tasks, and further sentences."""
    size = np.abs(numbers.mean[s] * numbers.scale)
    constant = [k for k, name in enumerate(numbers.names) if name == "intercept"]
    order = [k for k in np.argsort(-size, kind="stable").tolist() if k not in constant]
    first = order[:_MOST_NAMED]
    largest = "There is only a base level."
    if first:
        k, *others = first
        largest = f"`{numbers.names[k]}` matters most ({numbers.compared(s, k, _ALL)})"
        largest += f", then {listed([numbers.named(s, k) for k in others])}." if others else "."
    base = [f"The base level is {numbers.compared(s, k)}." for k in constant]
    unlike = [
        (k, word)
        for sign, word in ((1, "higher"), (-1, "lower"))
        for k in numbers.outstanding(s, sign, set(constant))
    ]
    unlike = sorted(unlike, key=lambda pair: -abs(numbers.distance[s, pair[0]]))[:2]
    named = {*(k for k, _ in unlike), *constant}
    if not unlike:
        return largest, [*base, *_describe_differences(numbers, s, {*first, *named}, "feature")]
    (k, word), *others_unlike = unlike
    headline = f"`{numbers.names[k]}` is {word} than usual ({numbers.compared(s, k, _ALL)})"
    for k, word in others_unlike:
        headline += f"; `{numbers.names[k]}` is {word} ({numbers.compared(s, k)})"
    return f"{headline}.", [largest, *base, *_describe_differences(numbers, s, named, "feature")]


def _describe_differences(numbers: Numbers, s: int, named: set[int], noun: str) -> list[str]:
    """Say where a kind stands out, apart from what was named, and in what its tasks differ."""
    sentences = []
    for sign, word in ((1, "higher"), (-1, "lower")):
        found = numbers.outstanding(s, sign, named)
        if found:
            words = [numbers.named(s, k) for k in found[:_MOST_NAMED]]
            words += [f"{len(found) - _MOST_NAMED} more"] * (len(found) > _MOST_NAMED)
            sentences.append(f"Also {word} than usual: {listed(words)}.")
    if len(numbers.mean) > 1 and np.abs(numbers.distance[s]).max() <= _STANDS_OUT:
        sentences.append(f"No {noun} stands out: tasks of this kind are like the average task.")
    k = int(np.argmax((numbers.high[s] - numbers.low[s]) * numbers.scale))
    low, high = numbers.text(numbers.low[s, k], k), numbers.text(numbers.high[s, k], k)
    sentences.append(
        f"Tasks of this kind differ most in `{numbers.names[k]}`: {percent(_INNER)} of them are "
        f"between {low} and {high}."
    )
    return sentences


def _describe_tasks(probability: Float[Array, " n"]) -> str:
    """Say how many past tasks are of a kind."""
    n, sure = float(probability.sum()), int((probability > _SURE).sum())
    number = f"About {n:,.0f}" if n >= 1 else "Fewer than one"
    few = " With so few tasks, its numbers are uncertain." if n < 5 else ""
    return (
        f"{number} of {len(probability):,} past tasks are of this kind, {sure:,} with a "
        f"probability above {percent(_SURE)}.{few}"
    )
