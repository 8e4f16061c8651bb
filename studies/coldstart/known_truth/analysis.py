"""Analysis of the study: distances of learned priors from the truth, verdicts and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixts.bounds import Verdict
from mixts.experiments import Analysis, Measured
from mixts.experiments.verdicts import N_ERRORS, exceeds, not_worse, weakest
from mixts.plots import new_panels, plot
from mixts.plots.style import INK
from mixts.simulation import Estimate, estimate
from mixts.simulation.sweep import Sweep
from studies._shared import Array
from studies.coldstart.known_truth.parts import (
    AUTO,
    EVIDENCE,
    FLAT,
    HELD_OUT_LENGTH,
    MIXED_LENGTHS,
    N_HELD_OUT,
    ONE,
    SURER,
    TRUE,
    TWO_STAGE,
    UNITS,
    Point,
)
from studies.coldstart.known_truth.truths import Truth

LEARNED = (EVIDENCE, TWO_STAGE, ONE, UNITS)
"""Agents at every point of the sweeps."""
SHORT = 5
"""Most observations of a short task: one more than coefficients, fewer than arms."""
CLOSE = 0.05
"""Extra regret that counts as small, as a fraction of the true prior's regret."""


@dataclass(frozen=True)
class Compared:
    """Measurements of one truth; every array has a number for each repetition."""

    truth: Truth
    measured: Measured
    points: tuple[Point, ...]

    def _values(self, point: Point, quantity: str, agent: str) -> Array:
        where = "known" if agent in (TRUE, SURER, FLAT) else point.name
        return self.measured.parts[f"{self.truth.name}, {where}"][f"{quantity}/{agent}"]

    def lost(self, point: Point, agent: str) -> Array:
        """Return the log evidence of a held-out task, the true prior's minus the agent's."""
        return self._values(point, "lost", agent)

    def extra(self, point: Point, agent: str) -> Array:
        """Return the regret on a new task, minus that of MixTS with the true prior."""
        return self._values(point, "regret", agent) - self._values(point, "regret", TRUE)

    @property
    def regret(self) -> Estimate:
        """Regret with the true prior."""
        return estimate(self._values(self.points[0], "regret", TRUE))

    @property
    def surer(self) -> Estimate:
        """Extra regret of the true prior with half the variance."""
        return estimate(self.extra(self.points[0], SURER))

    @property
    def numbers(self) -> list[Point]:
        """Points of the sweep over the number of tasks."""
        return [p for p in self.points if p.length == self.points[0].length]

    @property
    def lengths(self) -> list[Point]:
        """Points of the sweep over the length of tasks."""
        n = self.mixed.n_tasks
        fixed = [p for p in self.points if p.n_tasks == n and p.length is not None]
        return sorted(fixed, key=lambda p: p.length or 0)

    @property
    def mixed(self) -> Point:
        """Point whose tasks have different lengths."""
        return self.points[-1]

    @property
    def auto(self) -> list[Point]:
        """Points at which the number of components is learned as well."""
        return [p for p in self.points if p.auto]

    def found(self, point: Point) -> list[tuple[int, int]]:
        """Return the learned numbers of components, and how often each was learned."""
        found = self.measured.parts[f"{self.truth.name}, {point.name}"]["found"]
        values, counts = np.unique(found, return_counts=True)
        return list(zip(values.tolist(), counts.tolist(), strict=True))


Quantity = Callable[[Compared, Point, str], Array]


def analyse(measured: Measured, points: tuple[Point, ...], truths: Sequence[Truth]) -> Analysis:
    """Compare learned priors with the true ones, and judge the claims."""
    compared = [Compared(truth, measured, points) for truth in truths]
    found = {
        "tasks": _falling(compared, lambda one: one.numbers),
        "lengths": _falling(compared, lambda one: one.lengths),
    }
    nowhere = {
        "evidence": _leads(compared, Compared.lost, TWO_STAGE),
        "regret": _leads(compared, Compared.extra, TWO_STAGE),
        "flat": _leads(compared, Compared.extra, FLAT),
        "auto": _auto_leads(compared),
    }
    short = [_short(one) for one in compared]
    mixtures = [_mixture(one) for one in compared]
    last = [(one, one.numbers[-1]) for one in compared]
    extra = [estimate(one.extra(point, EVIDENCE)) for one, point in last]
    parts = measured.parts.values()
    converged = np.concatenate([part["converged"] for part in parts if "converged" in part])
    linear = compared[0]
    shown = next((p for p in linear.lengths if p.length == 10), linear.lengths[-1])
    return Analysis(
        {
            "n_runs": measured.setting.n_runs,
            "n_rounds": measured.setting.n_rounds,
            "n_held_out": N_HELD_OUT,
            "held_out_length": HELD_OUT_LENGTH,
            "mixed_lengths": MIXED_LENGTHS,
            "short_length": SHORT,
            "close": CLOSE,
            "n_converged": int(converged.sum()),
            "n_learned": len(converged),
            "compared": compared,
            "shown": shown,
            "shown_lost": [linear.lost(shown, agent).mean() for agent in (EVIDENCE, TWO_STAGE)],
            "last_lost": {
                agent: [(one.lost(point, agent).mean(), one.truth.name) for one, point in last]
                for agent in (EVIDENCE, TWO_STAGE)
            },
            "falling": found,
            "short": short,
            "nowhere": nowhere,
            "mixed": [
                tuple(estimate(one.lost(one.mixed, agent)) for agent in (EVIDENCE, TWO_STAGE))
                for one in compared
            ],
            "extra": extra,
            "mixtures": mixtures,
            "tables": [_table(one, quantity, over) for one in compared
                       for quantity in ("lost", "extra") for over in ("tasks", "length")],
        },
        {
            **{name: weakest(*(one.verdict for one in falls)) for name, falls in found.items()},
            "short": weakest(*(exceeds(one.difference) for one in short)),
            "evidence": nowhere["evidence"].verdict,
            "regret": nowhere["regret"].verdict,
            "mixed": weakest(*(exceeds(_mixed_lead(one)) for one in compared)),
            "as good": weakest(
                *(_close(e, one.regret.mean) for e, one in zip(extra, compared, strict=True))
            ),
            "mixture": weakest(*(exceeds(lead) for pair in mixtures for lead in pair)),
            "flat": nowhere["flat"].verdict,
            "auto": nowhere["auto"].verdict,
        },
        {
            f"{name}-{one.truth.name}": draw(one)
            for one in compared
            for name, draw in (("evidence", _lost_figure), ("regret", _extra_figure))
        },
    )  # fmt: skip


def name_of(point: Point, one: Compared) -> str:
    """Return a point in words."""
    return f"{one.truth.name}, {point.name}"


# -- claims ---------------------------------------------------------------------------------------


class Falling(NamedTuple):
    """Change of the lost evidence along a sweep of one truth."""

    truth: str
    first: Estimate
    first_name: str
    last: Estimate
    last_name: str
    risen: list[tuple[str, Estimate]]
    """Points at which the loss rises by more than two standard errors."""
    verdict: Verdict


def _falling(
    compared: Sequence[Compared], points: Callable[[Compared], list[Point]]
) -> list[Falling]:
    return [_fall(one, points(one)) for one in compared]


def _fall(one: Compared, along: list[Point]) -> Falling:
    lost = [one.lost(point, EVIDENCE) for point in along]
    rises = [
        (name_of(point, one), estimate(after - before))
        for before, after, point in zip(lost, lost[1:], along[1:], strict=False)
    ]
    risen = [(name, rise) for name, rise in rises if exceeds(rise) == "holds"]
    verdict = exceeds(estimate(lost[0] - lost[-1]))
    return Falling(
        one.truth.name, estimate(lost[0]), along[0].name, estimate(lost[-1]), along[-1].name,
        risen, weakest(verdict, "direction only") if risen else verdict,
    )  # fmt: skip


class Short(NamedTuple):
    """Lead of the evidence over two stages with short tasks, and with the longest ones."""

    truth: str
    early: Estimate
    late: Estimate
    longest: int
    difference: Estimate


def _short(one: Compared) -> Short:
    leads = {p: one.lost(p, TWO_STAGE) - one.lost(p, EVIDENCE) for p in one.lengths}
    early = np.mean([v for p, v in leads.items() if p.length and p.length <= SHORT], axis=0)
    last = one.lengths[-1]
    late = leads[last]
    return Short(
        one.truth.name, estimate(early), estimate(late), last.length or 0, estimate(early - late)
    )


class Leads(NamedTuple):
    """Leads of one prior over another at many points."""

    n_points: int
    n_ahead: int
    """Number of points at which the first prior leads by more than two standard errors."""
    behind: list[tuple[str, Estimate]]
    """Points at which the first prior is behind by more than two standard errors."""
    least: tuple[str, Estimate]
    """Least favourable point."""

    @classmethod
    def of(cls, leads: Mapping[str, Estimate]) -> Leads:
        """Summarise leads by point."""
        behind = [(name, lead) for name, lead in leads.items() if not_worse(lead) != "holds"]
        ahead = sum(exceeds(lead) == "holds" for lead in leads.values())
        least = min(leads, key=lambda name: leads[name].mean / max(leads[name].error, 1e-12))
        return cls(len(leads), ahead, behind, (least, leads[least]))

    @property
    def verdict(self) -> Verdict:
        """Verdict on the claim that the first prior is nowhere behind."""
        return "does not hold" if self.behind else "holds"


def _leads(compared: Sequence[Compared], quantity: Quantity, other: str) -> Leads:
    """Return the leads of the prior learned by the evidence over another prior."""
    return Leads.of(
        {
            name_of(point, one): estimate(
                quantity(one, point, other) - quantity(one, point, EVIDENCE)
            )
            for one in compared
            for point in one.points
        }
    )


def _auto_leads(compared: Sequence[Compared]) -> Leads:
    """Return the leads of the prior with a learned number of components over the true number."""
    return Leads.of(
        {
            name_of(point, one): estimate(one.lost(point, EVIDENCE) - one.lost(point, AUTO))
            for one in compared
            for point in one.auto
        }
    )


def _mixed_lead(one: Compared) -> Estimate:
    return estimate(one.lost(one.mixed, TWO_STAGE) - one.lost(one.mixed, EVIDENCE))


def _close(extra: Estimate, regret: float) -> Verdict:
    """Judge "as good as the true prior".

    The claim holds if the extra regret is within the errors, and holds in its direction only if the
    extra regret is small.
    """
    if extra.mean <= N_ERRORS * extra.error:
        return "holds"
    small = exceeds(Estimate(-extra.mean, extra.error), -CLOSE * regret)
    return "direction only" if small == "holds" else small


def _mixture(one: Compared) -> tuple[Estimate, Estimate]:
    """Return the gains of a mixture over one component, in evidence and in regret."""
    last = one.numbers[-1]
    return (
        estimate(one.lost(last, ONE) - one.lost(last, EVIDENCE)),
        estimate(one.extra(last, ONE) - one.extra(last, EVIDENCE)),
    )


# -- tables ---------------------------------------------------------------------------------------


class Table(NamedTuple):
    """Lost evidence ("lost") or extra regret ("extra") over one sweep of one truth."""

    one: Compared
    quantity: str
    over: str
    """Quantity that the sweep varies: "tasks" or "length"."""
    flat: Estimate
    """Value of the flat prior."""
    rows: list[tuple[str, list[Estimate | None]]]


def _table(one: Compared, quantity: str, over: str) -> Table:
    value: Quantity = Compared.lost if quantity == "lost" else Compared.extra
    rows: list[tuple[str, list[Estimate | None]]] = []
    for label, point in _labelled(one, over):
        cells: list[Estimate | None] = [estimate(value(one, point, agent)) for agent in LEARNED]
        cells.insert(1, estimate(value(one, point, AUTO)) if point.auto else None)
        gap = value(one, point, TWO_STAGE) - value(one, point, EVIDENCE)
        rows.append((label, [*cells, estimate(gap)]))
    return Table(one, quantity, over, estimate(value(one, one.points[0], FLAT)), rows)


def _labelled(one: Compared, over: str) -> list[tuple[str, Point]]:
    if over == "tasks":
        return [(f"{p.n_tasks:,}", p) for p in one.numbers]
    mixed = f"{MIXED_LENGTHS[0]} to {MIXED_LENGTHS[-1]}, mixed"
    return [*((str(p.length), p) for p in one.lengths), (mixed, one.mixed)]


# -- figures --------------------------------------------------------------------------------------


def _lost_figure(one: Compared) -> Any:
    return _panels(one, Compared.lost, "log evidence lost a task", log_y=True)


def _extra_figure(one: Compared) -> Any:
    return _panels(one, Compared.extra, "extra regret")


def _panels(one: Compared, quantity: Quantity, title: str, **options: Any) -> Any:
    titles = (
        f"{one.truth.title}, {one.numbers[0].length} observations a task",
        f"{one.truth.title}, {one.mixed.n_tasks} tasks",
    )
    panels = new_panels(2, height=2.6, titles=titles)
    for ax, sweep, points, at in zip(
        panels, _sweeps(one, quantity), (one.numbers, one.lengths), ("n_tasks", "length"),
        strict=True,
    ):  # fmt: skip
        plot(sweep, ax, log_x=True, medians=False, title=title, **options)
        if not options.get("log_y"):
            _draw_zero(ax, sweep)
        found = [(getattr(p, at), quantity(one, p, AUTO).mean()) for p in points if p.auto]
        if found:
            ax.plot(
                *zip(*found, strict=True), linestyle="", marker="s", markersize=4.5, color="black",
                markerfacecolor="none", markeredgewidth=0.8, zorder=4,
            )  # fmt: skip
    return panels[0].figure


def _sweeps(one: Compared, quantity: Quantity) -> tuple[Sweep, Sweep]:
    def sweep(parameter: str, points: list[Point], values: list[float]) -> Sweep:
        totals = {
            agent: np.stack([quantity(one, point, agent) for point in points])
            for agent in (*LEARNED, FLAT)
        }
        return Sweep(parameter, np.array(values), totals)

    numbers, lengths = one.numbers, one.lengths
    return (
        sweep("past tasks", numbers, [float(p.n_tasks) for p in numbers]),
        sweep("observations a task", lengths, [float(p.length or 0) for p in lengths]),
    )


def _draw_zero(ax: Any, sweep: Sweep) -> None:
    """Draw the line of the true prior, with room for values below it."""
    estimates = [sweep.regret(agent) for agent in sweep.agents]
    lowest = min(float((mean - error).min()) for mean, error in estimates)
    highest = max(float(mean.max()) for mean, _ in estimates)
    ax.set_ylim(bottom=min(1.1 * lowest, -0.03 * highest))
    ax.axhline(0, color=INK, linewidth=0.8, zorder=1)
