"""A task's latent weights, decision by decision, stacked to one; kinds are of a prior's version."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from mixts.service.dashboard import wording
from mixts.service.dashboard.charts import Label, Slot, labels
from mixts.service.dashboard.scales import Scale, Tick, count_scale
from mixts.service.dashboard.source import N_COLOURS, PriorFacts, colours
from mixts.service.records import DecisionRow

REST = "rest"
"""The look of all kinds that have no band of their own."""
_LEAST_LABELLED = 0.05
_LONGEST_LABEL = 15
"""Characters that there is room for beside the chart."""
_ROOM = 12.0
"""Percent of the width that the name of a version takes, on a phone."""


@dataclass(frozen=True)
class Band:
    """From the top of a kind's weight to the bottom: later bands lie on it, and leave its own."""

    look: str
    path: str
    old: bool
    """Whether it is of a version that is not in force."""


@dataclass(frozen=True)
class Change:
    """Where the prior's version changed."""

    place: float
    label: str
    """Empty where the next one leaves no room for it."""


@dataclass(frozen=True)
class BandChart:
    """Weights stacked to one."""

    title: str
    description: str
    bands: tuple[Band, ...]
    labels: tuple[Label, ...]
    changes: tuple[Change, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class _Run:
    """Decisions one after the other that were made with one version."""

    first: int
    rows: tuple[DecisionRow, ...]

    @property
    def version(self) -> int:
        return self.rows[0].prior_version


def weight_chart(history: Sequence[DecisionRow], first: int, facts: PriorFacts) -> BandChart:
    """The weights of a task's decisions, of which the first has the number ``first``."""
    x = count_scale(first, first + len(history) - 1)
    runs = _runs(history, first)
    shown = {version: _shown(history, version) for version in {run.version for run in runs}}
    bands = [band for run in runs for band in _bands(run, shown[run.version], x, facts.version)]
    percents = tuple(Tick(float(at), f"{at} %") for at in (0, 50, 100))
    return BandChart(
        title="Latent weights, decision by decision",
        description=_told(runs, facts),
        bands=tuple(bands),
        labels=_labels(history[-1], shown[runs[-1].version], facts),
        changes=_changes(runs, x, facts.version),
        x_ticks=x.ticks,
        y_ticks=percents,
        slots=tuple(_slot(row, first + i, x, facts) for i, row in enumerate(history)),
    )


def _changes(runs: Sequence[_Run], x: Scale, active: int) -> tuple[Change, ...]:
    """Where versions begin; the first is told only if it is another than the one in force."""
    told = runs if runs[0].version != active else runs[1:]
    places = [x.place(run.first) for run in told]
    room = [after - place >= _ROOM for place, after in itertools.pairwise([*places, 200.0])]
    return tuple(
        Change(place, f"v{run.version}" if free else "")
        for run, place, free in zip(told, places, room, strict=True)
    )


def _runs(history: Sequence[DecisionRow], first: int) -> list[_Run]:
    runs = []
    for _, group in itertools.groupby(history, key=lambda row: row.prior_version):
        rows = tuple(group)
        runs.append(_Run(first, rows))
        first += len(rows)
    return runs


def _shown(history: Sequence[DecisionRow], version: int) -> dict[int, int]:
    """The kinds of a version that have a band, and their colours: those that weigh most."""
    weights = [row.weights for row in history if row.prior_version == version]
    totals = [sum(column) for column in zip(*weights, strict=True)]
    order = sorted(range(len(totals)), key=lambda s: (-totals[s], s))
    most = N_COLOURS if len(totals) <= N_COLOURS else N_COLOURS - 1
    return colours(order[:most])


def _bands(run: _Run, shown: dict[int, int], x: Scale, active: int) -> list[Band]:
    """The kinds from the top down, and what has no band at the bottom."""
    tops = [100.0] * len(run.rows)
    found = []
    for latent, colour in shown.items():
        found.append(Band(f"c{colour}", _area(tops, run.first, x), run.version != active))
        weights = (row.weights[latent] for row in run.rows)
        tops = [top - 100 * weight for top, weight in zip(tops, weights, strict=True)]
    if len(run.rows[0].weights) > len(shown):
        found.append(Band(REST, _area(tops, run.first, x), run.version != active))
    return found


def _area(tops: Sequence[float], first: int, x: Scale) -> str:
    """A staircase with a step a decision, and all that is below it."""
    heights = [round(100 - max(top, 0.0), 1) for top in tops]
    path = f"M{x.place(first):g} 100V{heights[0]:g}"
    for i, (before, after) in enumerate(itertools.pairwise(heights)):
        if after != before:
            path += f"H{x.place(first + i + 1):g}V{after:g}"
    return f"{path}H{x.place(first + len(heights)):g}V100Z"


def _labels(row: DecisionRow, shown: dict[int, int], facts: PriorFacts) -> tuple[Label, ...]:
    """Beside the last decision's bands, those that are high enough."""
    marks, top = [], 0.0
    for latent, colour in shown.items():
        weight = row.weights[latent]
        if weight >= _LEAST_LABELLED:
            # The version of older kinds stands above the chart.
            old = row.prior_version != facts.version
            whole = f"kind {latent + 1}" if old else facts.kind(latent)
            name = wording.short(whole, _LONGEST_LABEL)
            marks.append((name, round(100 * (top + weight / 2), 2), f"c{colour}"))
        top += weight
    if 1 - top >= _LEAST_LABELLED:
        n = len(row.weights) - len(shown)
        marks.append((f"{n} others", round(50 * (1 + top), 2), REST))
    return labels(marks)


def _slot(row: DecisionRow, n: int, x: Scale, facts: PriorFacts) -> Slot:
    left, right = x.place(n), x.place(n + 1)
    order = sorted(range(len(row.weights)), key=lambda s: -row.weights[s])[:3]
    named = (
        f"{wording.visible(facts.kind(s, row.prior_version))} {wording.percent(row.weights[s])}"
        for s in order
    )
    text = f"decision {wording.count(n)}, {wording.moment(row.at)}: {', '.join(named)}"
    return Slot(left, round(right - left, 2), text)


def _told(runs: Sequence[_Run], facts: PriorFacts) -> str:
    """The chart in words."""
    said = []
    for run in runs:
        begin, end = run.rows[0], run.rows[-1]
        numbers = f"{wording.count(run.first)} to {wording.count(run.first + len(run.rows) - 1)}"
        said.append(
            f"Decisions {numbers}, prior version {run.version}: at first "
            f"{_likeliest(begin, facts)}, at last {_likeliest(end, facts)}."
        )
    return " ".join(said)


def _likeliest(row: DecisionRow, facts: PriorFacts) -> str:
    latent = max(range(len(row.weights)), key=lambda s: row.weights[s])
    name = wording.visible(facts.kind(latent, row.prior_version))
    return f"{name} {wording.percent(row.weights[latent])}"
