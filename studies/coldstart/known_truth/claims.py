"""What is said of learned priors, and whether it is so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mixts.experiments.paper._analysis import pm
from mixts.experiments.verdicts import N_BETTER, better, weaker
from mixts.pages import Claim, Verdict
from mixts.simulation import Estimate, estimate
from studies.coldstart.known_truth.comparison import Compared, Quantity
from studies.coldstart.known_truth.parts import (
    AUTO,
    EVIDENCE,
    FLAT,
    MIXED_LENGTHS,
    ONE,
    TWO_STAGE,
    Point,
)

PLACE = "not in the paper"
SHORT = 5
"""Observations a task: hardly more than there are coefficients, fewer than there are arms."""
CLOSE = 0.05
"""Of the true prior's regret: what nobody would notice."""


def claims_of(compared: Sequence[Compared]) -> tuple[Claim, ...]:
    """All of them, judged."""
    return (
        _shrinks(compared, "more tasks", lambda one: one.numbers),
        _shrinks(compared, "longer tasks", lambda one: one.lengths),
        _short(compared),
        _never(
            compared,
            "A prior learned by the evidence is never worse than one learned in two stages: "
            "held-out evidence.",
            Compared.lost,
            TWO_STAGE,
        ),
        _never(
            compared,
            "MixTS never has more regret with a prior learned by the evidence than with one "
            "learned in two stages.",
            Compared.extra,
            TWO_STAGE,
            _sureness(compared),
        ),
        _mixed(compared),
        _as_good(compared),
        _mixture(compared),
        _never(
            compared,
            "MixTS with a learned prior never has more regret than TS with a flat one.",
            Compared.extra,
            FLAT,
        ),
        _auto(compared),
    )


def _sureness(compared: Sequence[Compared]) -> str:
    """Regret rewards more than the right prior."""
    changes = ", ".join(f"{one.truth.name} {pm(estimate(one.surer))}" for one in compared)
    return (
        "Less regret is not a better prior: Thompson sampling explores for longer than these "
        "tasks last, and what makes it surer than it should be may pay. The true prior with half "
        f"the variance changes the regret by: {changes}."
    )


def at(point: Point, one: Compared) -> str:
    """A point in words."""
    return f"{one.truth.name}, {point.name}"


def _shrinks(
    compared: Sequence[Compared], what: str, points: Callable[[Compared], list[Point]]
) -> Claim:
    """From first to last, and from each to the next never up by more than its errors."""
    words, verdicts, risen = [], [], []
    for one in compared:
        along = points(one)
        lost = [one.lost(point, EVIDENCE) for point in along]
        first, last = estimate(lost[0]), estimate(lost[-1])
        words.append(
            f"{one.truth.name}: {pm(first)} at {along[0].name}, {pm(last)} at {along[-1].name}"
        )
        verdicts.append(better(estimate(lost[0] - lost[-1])))
        for before, after, point in zip(lost, lost[1:], along[1:], strict=False):
            rise = estimate(after - before)
            if rise.mean > N_BETTER * rise.error:
                risen.append(f"{at(point, one)} (+{pm(rise)})")
    if risen:
        verdicts.append("direction only")
    return Claim(
        PLACE,
        f"With {what} the prior learned by the evidence comes closer to the truth.",
        "; ".join(words),
        weaker(*verdicts),
        "It falls from every point to the next, within errors."
        if not risen
        else f"On the way it rises by more than {N_BETTER:g} standard errors at: "
        + "; ".join(risen) + ".",
    )  # fmt: skip


def _short(compared: Sequence[Compared]) -> Claim:
    words, verdicts = [], []
    for one in compared:
        leads = {p: one.lost(p, TWO_STAGE) - one.lost(p, EVIDENCE) for p in one.lengths}
        short = [lead for p, lead in leads.items() if p.length is not None and p.length <= SHORT]
        early, late = np.mean(short, axis=0), leads[one.lengths[-1]]
        words.append(
            f"{one.truth.name}: ahead by {pm(estimate(early))} up to {SHORT} observations, by "
            f"{pm(estimate(late))} at {one.lengths[-1].length}"
        )
        verdicts.append(better(estimate(early - late)))
    return Claim(
        PLACE,
        "The evidence is ahead of two stages most of all where tasks are short.",
        "; ".join(words),
        weaker(*verdicts),
        f"Log evidence, on average over the lengths up to {SHORT}.",
    )


def _never(
    compared: Sequence[Compared], claim: str, quantity: Quantity, other: str, remark: str = ""
) -> Claim:
    """The evidence beside another prior, at every point."""
    leads = {
        at(point, one): estimate(quantity(one, point, other) - quantity(one, point, EVIDENCE))
        for one in compared
        for point in one.points
    }
    return _judged(claim, leads, remark)


def _judged(claim: str, leads: Mapping[str, Estimate], remark: str = "") -> Claim:
    """Holds if a lead is nowhere negative by more than its errors."""
    behind = {where: lead for where, lead in leads.items() if lead.mean < -N_BETTER * lead.error}
    ahead = sum(lead.mean > N_BETTER * lead.error for lead in leads.values())
    worst = min(leads, key=lambda where: leads[where].mean / max(leads[where].error, 1e-12))
    least = f"The least favourable: {_listed({worst: leads[worst]})} ahead."
    return Claim(
        PLACE,
        claim,
        f"{len(leads)} points: better at {ahead}, worse at {len(behind)}, by more than "
        f"{N_BETTER:g} standard errors",
        "does not hold" if behind else "holds",
        f"Worse at: {_listed(behind)}. {remark}".strip() if behind else least,
    )


def _listed(leads: Mapping[str, Estimate]) -> str:
    return "; ".join(f"{at} ({pm(lead)})" for at, lead in leads.items())


def _mixed(compared: Sequence[Compared]) -> Claim:
    words, verdicts = [], []
    for one in compared:
        mine, other = (one.lost(one.mixed, agent) for agent in (EVIDENCE, TWO_STAGE))
        words.append(f"{one.truth.name}: {pm(estimate(mine))} lost, {pm(estimate(other))}")
        verdicts.append(better(estimate(other - mine)))
    return Claim(
        PLACE,
        "Of tasks of very different length the evidence makes more than two stages do.",
        f"{compared[0].mixed.n_tasks} tasks of {MIXED_LENGTHS[0]} to {MIXED_LENGTHS[-1]} "
        "observations, evidence and two stages; " + "; ".join(words),
        weaker(*verdicts),
    )


def _as_good(compared: Sequence[Compared]) -> Claim:
    words, verdicts = [], []
    for one in compared:
        extra, regret = estimate(one.extra(one.numbers[-1], EVIDENCE)), one.regret.mean()
        words.append(
            f"{one.truth.name}: {regret:.2f} with the true prior, {pm(extra)} more "
            f"({extra.mean / regret:+.1%})"
        )
        verdicts.append(_close(extra, regret))
    return Claim(
        PLACE,
        "With the most past tasks the learned prior is as good as the true one: regret.",
        "; ".join(words),
        weaker(*verdicts),
        f"Holds within {N_BETTER:g} standard errors; the direction only, within {CLOSE:.0%}.",
    )


def _close(extra: Estimate, regret: float) -> Verdict:
    if extra.mean <= N_BETTER * extra.error:
        return "holds"
    return "direction only" if extra.mean <= CLOSE * regret else "does not hold"


def _mixture(compared: Sequence[Compared]) -> Claim:
    words, verdicts = [], []
    for one in compared:
        last = one.numbers[-1]
        lost = estimate(one.lost(last, ONE) - one.lost(last, EVIDENCE))
        regret = estimate(one.extra(last, ONE) - one.extra(last, EVIDENCE))
        words.append(f"{one.truth.name}: {pm(lost)} nats a task, regret {pm(regret)} less")
        verdicts += [better(lost), better(regret)]
    return Claim(
        PLACE,
        "With the most past tasks a mixture is better than one component learned as well.",
        "; ".join(words),
        weaker(*verdicts),
    )


def _auto(compared: Sequence[Compared]) -> Claim:
    leads = {
        at(point, one): estimate(one.lost(point, EVIDENCE) - one.lost(point, AUTO))
        for one in compared
        for point in one.auto
    }
    return _judged(
        "The number of components need not be known: found by cross-validation, it never loses "
        "held-out evidence against the true number.",
        leads,
    )
