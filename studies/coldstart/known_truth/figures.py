"""Log evidence lost and regret added, over the number of past tasks and over their length."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts.experiments.base import Drawing
from mixts.plots import new_panels, plot
from mixts.plots.style import INK
from mixts.simulation.sweep import Sweep
from studies.coldstart.known_truth.comparison import LEARNED, Compared, Quantity
from studies.coldstart.known_truth.parts import AUTO, EVIDENCE, FLAT, TWO_STAGE, Point


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


def _panels(one: Compared, quantity: Quantity, title: str, **options: Any) -> Any:
    number, length = one.fixed("tasks"), one.fixed("length")
    panels = new_panels(2, height=2.6, titles=(number, length))
    for ax, sweep, points, at in zip(
        panels, _sweeps(one, quantity), (one.numbers, one.lengths), ("n_tasks", "length"),
        strict=True,
    ):  # fmt: skip
        plot(sweep, ax, log_x=True, medians=False, title=title, **options)
        if not options.get("log_y"):
            _zero(ax, sweep)
        found = [(getattr(p, at), quantity(one, p, AUTO).mean()) for p in points if p.auto]
        if found:
            ax.plot(
                *zip(*found, strict=True), linestyle="", marker="s", markersize=4.5, color="black",
                markerfacecolor="none", markeredgewidth=0.8, zorder=4,
            )  # fmt: skip
    return panels[0].figure


def _zero(ax: Any, sweep: Sweep) -> None:
    """The true prior's line; what is below it is in sight."""
    estimates = [sweep.regret(agent) for agent in sweep.agents]
    lowest = min(float((mean - error).min()) for mean, error in estimates)
    highest = max(float(mean.max()) for mean, _ in estimates)
    ax.set_ylim(bottom=min(1.1 * lowest, -0.03 * highest))
    ax.axhline(0, color=INK, linewidth=0.8, zorder=1)


_MARKS = (
    "MixTS: learned by the evidence with the true number of components; squares: with the number "
    "found. Bands: one standard error."
)


def lost_drawing(one: Compared) -> Drawing:
    """Both sweeps of the log evidence that is lost."""
    figure = _panels(one, Compared.lost, "log evidence lost a task", log_y=True)
    first, last, short = one.numbers[0], one.numbers[-1], one.lengths[0]
    ends = [one.lost(point, EVIDENCE).mean() for point in (first, last)]
    mine, other = (one.lost(short, agent).mean() for agent in (EVIDENCE, TWO_STAGE))
    return Drawing(
        f"evidence-{one.truth.name}",
        figure,
        f"Two line charts on logarithmic axes, {one.truth.title}: the log evidence that MixTS's "
        f"learned prior loses falls from {ends[0]:.2f} to {ends[1]:.2f} nats a task over the "
        f"number of past tasks; with tasks of {short.length} it loses {mine:.2f}, learned in two "
        f"stages {other:.2f}.",
        f"{one.truth.title}: log evidence of a held-out task lost against the true prior, over the "
        f"number of past tasks and over their length. {_MARKS}",
    )


def extra_drawing(one: Compared) -> Drawing:
    """Both sweeps of the regret beyond the true prior's."""
    figure = _panels(one, Compared.extra, "extra regret")
    ends = [one.extra(p, EVIDENCE).mean() for p in (one.numbers[0], one.numbers[-1])]
    return Drawing(
        f"regret-{one.truth.name}",
        figure,
        f"Two line charts, {one.truth.title}: the regret of MixTS beyond that with the true prior "
        f"falls from {ends[0]:.2f} to {ends[1]:.2f} over the number of past tasks.",
        f"{one.truth.title}: regret of new tasks beyond that of MixTS with the true prior, which "
        f"is {one.regret.mean():.2f} (the line at 0). {_MARKS}",
    )
