"""What it takes to learn a prior: how many tasks, how long, and by which method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixts.experiments.base import Findings, Measured
from mixts.experiments.paper._analysis import pm
from mixts.pages import Table
from mixts.simulation import estimate
from studies.coldstart.known_truth.claims import at, claims_of
from studies.coldstart.known_truth.comparison import LEARNED, Compared, Quantity
from studies.coldstart.known_truth.figures import extra_drawing, lost_drawing
from studies.coldstart.known_truth.parts import (
    AUTO,
    EVIDENCE,
    FLAT,
    HELD_OUT_LENGTH,
    MIXED_LENGTHS,
    N_HELD_OUT,
    TWO_STAGE,
    Point,
)
from studies.coldstart.known_truth.truths import Truth


def analyse(measured: Measured, points: tuple[Point, ...], truths: Sequence[Truth]) -> Findings:
    """Log evidence lost and regret added, over the number of past tasks and over their length."""
    compared = [Compared(truth, measured, points) for truth in truths]
    tables = [
        table(one, over)
        for one in compared
        for table in (_lost_table, _extra_table)
        for over in ("tasks", "length")
    ]
    drawings = [draw(one) for one in compared for draw in (lost_drawing, extra_drawing)]
    return Findings(
        _paragraphs(compared),
        claims_of(compared),
        (*tables, _auto_table(compared)),
        tuple(drawings),
        _headline(compared),
    )


def _paragraphs(compared: Sequence[Compared]) -> tuple[str, ...]:
    n = compared[0].measured.setting.n_runs
    arrays = compared[0].measured.parts.items()
    converged = np.concatenate([part["converged"] for _, part in arrays if "converged" in part])
    return (
        "Past tasks are drawn from a mixture that is known, with actions taken at random; priors "
        "are learned from them and set beside the truth. Two problems: linear rewards, d = 4, with "
        "four kinds of task of full covariances that overlap, ten actions of length 1 offered in "
        "a round, and noise of 0.5, which is known; and six Bernoulli arms with three kinds of "
        "task.",
        "Learned are: MixTS, by the evidence with the true number of components L, or with L found "
        "by cross-validation; MixTS, two-stage, the paper's method, with the true L; one component "
        "by the evidence (“TS, learned”) and in two stages (UniTS). “TS” has a flat prior.",
        f"Two distances. Log evidence lost: that of {N_HELD_OUT:,} fresh tasks of "
        f"{HELD_OUT_LENGTH} observations, the true prior's less the learned one's, a task. It "
        "estimates a Kullback-Leibler divergence, which is at least 0. Extra regret: of MixTS with "
        "the learned prior, less that of MixTS with the true one, on the same new tasks with the "
        "same luck.",
        f"All is repeated {n} times with past, held-out and new tasks drawn anew; ± is the "
        "standard error over repetitions. Points of one repetition share their tasks: with fewer "
        f"tasks, or shorter ones, they are the first of the same. Of {len(converged):,} "
        f"maximisations of the evidence {int(converged.sum()):,} converged.",
        "A point estimate of a short task is noisy, and two stages take that noise for what tasks "
        f"are like: at {compared[0].numbers[-1].name} they lose {_lost_last(compared, TWO_STAGE)}, "
        f"the evidence {_lost_last(compared, EVIDENCE)}.",
    )


def _lost_last(compared: Sequence[Compared], agent: str) -> str:
    """With the most past tasks."""
    lost = [(one.lost(one.numbers[-1], agent).mean(), one.truth.name) for one in compared]
    return " and ".join(f"{value:.2f} ({name})" for value, name in lost)


def _headline(compared: Sequence[Compared]) -> str:
    linear = compared[0]
    point = next((p for p in linear.lengths if p.length == 10), linear.lengths[-1])
    mine, other = (linear.lost(point, agent).mean() for agent in (EVIDENCE, TWO_STAGE))
    return (
        f"From {point.n_tasks} past tasks of {point.length} observations a mixture learned by the "
        f"evidence loses {mine:.2f} nats a task against the true prior, in two stages "
        f"{other:.2f} (linear rewards)."
    )


# -- tables -------------------------------------------------------------------------------------


def _rows(one: Compared, over: str) -> list[tuple[str, Point]]:
    if over == "tasks":
        return [(f"{p.n_tasks:,}", p) for p in one.numbers]
    mixed = f"{MIXED_LENGTHS[0]} to {MIXED_LENGTHS[-1]}, mixed"
    return [*((str(p.length), p) for p in one.lengths), (mixed, one.mixed)]


def _table(
    one: Compared, over: str, quantity: Quantity, agents: Sequence[str], caption: str
) -> Table:
    head = "past tasks" if over == "tasks" else "observations a task"
    rows = []
    for label, point in _rows(one, over):
        gap = quantity(one, point, TWO_STAGE) - quantity(one, point, EVIDENCE)
        cells = [pm(estimate(quantity(one, point, agent))) for agent in agents]
        found = pm(estimate(quantity(one, point, AUTO))) if point.auto else "–"
        rows.append((label, cells[0], found, *cells[1:], pm(estimate(gap))))
    columns = (head, agents[0], AUTO, *agents[1:], "two-stage − MixTS")
    return Table(columns, tuple(rows), caption, (False, *[True] * (len(columns) - 1)))


def _lost_table(one: Compared, over: str) -> Table:
    flat = estimate(one.lost(one.points[0], FLAT))
    return _table(
        one, over, Compared.lost, LEARNED,
        f"{one.fixed(over)}: log evidence lost a held-out task, in nats; the flat prior of TS "
        f"loses {pm(flat)}.",
    )  # fmt: skip


def _extra_table(one: Compared, over: str) -> Table:
    flat = estimate(one.extra(one.points[0], FLAT))
    n = one.measured.setting.n_rounds
    return _table(
        one, over, Compared.extra, LEARNED,
        f"{one.fixed(over)}: regret over {n} rounds more than with the true prior, which has "
        f"{pm(estimate(one.regret))}; TS with its flat prior has {pm(flat)} more.",
    )  # fmt: skip


def _auto_table(compared: Sequence[Compared]) -> Table:
    rows = []
    for one in compared:
        for point in one.auto:
            values, counts = np.unique(one.found(point), return_counts=True)
            found = ", ".join(f"{v} ({c}×)" for v, c in zip(values, counts, strict=True))
            rows.append((at(point, one), str(one.truth.prior.n_components), found))
    return Table(
        ("past tasks", "true L", "found"), tuple(rows),
        "Numbers of components found by cross-validation: the smallest that is within one standard "
        "error of the best.", (False, True, False),
    )  # fmt: skip
