"""Measure the terms in the proof of Theorem 1, and compare the theorem with earlier bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mixts.environments import BanditEnvironment
from mixts.extend import Estimate
from mixts.pages import Verdict
from mixts.plots import draw_lines, new_axes, new_panels, plot
from mixts_paper.analysis import Decomposition, DecompositionObserver, Inequality
from mixts_paper.bounds import (
    crossing,
    linear_bound,
    lints_order,
    theorem1,
    theorem1_terms,
)
from mixts_paper.experiments import base
from mixts_paper.experiments.paper import _synthetic as bandit
from mixts_paper.experiments.paper._synthetic import N_COMPONENTS, N_FEATURES, NOISE
from mixts_paper.experiments.verdicts import equal, weakest

WIDTHS = (0.05, 0.3)
"""At the first only the latent state is to be found; at the second parameters matter as well."""
DRAWN_ROUNDS = 150
"""Rounds in the figure of the two parts: afterwards hardly anything moves."""


class WidthTerms(NamedTuple):
    """One width: the two parts of the regret, and the bounds at the last round."""

    width: float
    first: Estimate
    second: Estimate
    sum: Estimate
    regret: Estimate
    gap: Estimate
    """Sum minus regret."""
    statement: float
    appendix: float
    linear: float
    crossing: float
    """Round from which on Theorem 1 is below the linear bound."""
    c1: float


class Step(NamedTuple):
    """One inequality of a proof, with both sides in every case."""

    claim: str
    place: str
    in_expectation: bool
    sign: str
    sides: list[tuple[float, float] | None]
    """None where the step does not apply."""
    holds: bool
    deviation: float
    """Largest excess of the left side, in standard errors, of a claim about expectations."""


class DecompositionExperiment(base.Experiment):
    """Eq. 1 and the sums of the proof, both sides measured  [paper: Sec. 4.1]."""

    title = "The analysis, term by term"
    place = "Sec. 4, App. A"
    scale = base.Scale(200, 1000)
    quick = base.Scale(20, 100)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        return {f"width={width:g}": simulated_arms(setting, width) for width in WIDTHS}

    def analyse(self, measured: base.Measured) -> base.Analysis:
        n = measured.setting.n_rounds
        results = {
            width: Decomposition.of(
                bandit.arms_prior(width=width), measured.results(f"width={width:g}")
            )
            for width in WIDTHS
        }
        steps = {width: one.inequalities() for width, one in results.items()}
        widths = [inequalities["widths"] for inequalities in steps.values()]
        rows = [_row(n, width, one) for width, one in results.items()]
        narrow = results[WIDTHS[0]]
        slope = _slope(n, WIDTHS[0])
        return base.Analysis(
            {
                **bandit.problem_numbers(n),
                "rows": rows,
                "steps": steps_of(steps.values()),
                "n_steps": sum(map(len, steps.values())),
                "n_holding": sum(s.holds for one in steps.values() for s in one.values()),
                "widths": [(s.means[0].mean, s.means[1].mean) for s in widths],
                "share": min(step.share for step in widths),
                "n_equal": int((np.abs(narrow.gap.sum(axis=1)) < 1e-9).sum()),
                "n_runs": len(narrow.latent),
                "slope": slope,
                "informative": _informative(n),
                "frequentist": float(lints_order(n, N_FEATURES)),
            },
            {
                "identity": weakest(*(equal(row.gap) for row in rows)),
                "widths": "holds" if all(step.holds for step in widths) else "does not hold",
                "sublinear": _sublinear(rows, slope),
                "informative": _improves(rows),
            },
            {"parts": _parts_figure(results), "bounds": _bounds_figure(n, WIDTHS[0], narrow)},
        )


def simulated_arms(setting: base.Setting, width: float) -> base.SimulationBlocks:
    """Return the simulation of the linear bandit as arms: its features are unit vectors."""
    prior = bandit.arms_prior(width=width)
    return base.SimulationBlocks(
        {"MixTS": prior}, BanditEnvironment(prior), setting, microseconds=20.0,
        observe=DecompositionObserver(prior),
    )  # fmt: skip


def _row(n: int, width: float, one: Decomposition) -> WidthTerms:
    arguments = bandit.bound_arguments(width)
    return WidthTerms(
        width,
        one.total("first"),
        one.total("second"),
        one.total("sum"),
        one.total("regret"),
        one.total("gap"),
        float(theorem1(n, *arguments)),
        float(theorem1(n, *arguments, form="appendix")),
        float(linear_bound(n, *arguments)),
        float(crossing(N_FEATURES, NOISE, 1.0, width**2)),
        float(theorem1_terms(n, *arguments).c1),
    )


def steps_of(steps: Iterable[Mapping[str, Inequality]]) -> list[Step]:
    """Return the rows of a table of steps from the inequalities of each case, by name."""
    cases, rows = list(steps), []
    for name in dict.fromkeys(name for one in cases for name in one):
        same = [one.get(name) for one in cases]
        there = [step for step in same if step is not None]
        first = there[0]
        rows.append(
            Step(
                first.claim, first.place, first.in_expectation,
                "=" if first.equality else "≤",
                [None if s is None else (s.means[0].mean, s.means[1].mean) for s in same],
                all(step.holds for step in there),
                max(step.deviation for step in there) if first.in_expectation else 0.0,
            )
        )  # fmt: skip
    return rows


def _sublinear(rows: list[WidthTerms], slope: float) -> Verdict:
    below = [row.statement < row.linear for row in rows]
    if not any(below):
        return "does not hold"
    return "holds" if all(below) and slope < 1 else "direction only"


def _improves(rows: list[WidthTerms]) -> Verdict:
    informative = min(row.c1 for row in rows) < N_FEATURES
    return "holds" if informative and N_COMPONENTS**0.5 < N_FEATURES**1.5 else "does not hold"


def _slope(n: int, width: float) -> float:
    """Return the power of n with which Theorem 1 grows at n."""
    step = 1.01
    bounds = theorem1(np.array([n / step, n * step]), *bandit.bound_arguments(width))
    return float(np.log(bounds[1] / bounds[0]) / (2 * np.log(step)))


def _informative(n: int) -> float:
    """Return the width at which c_1 = d."""
    low, high = 1e-3, 10.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        c1 = float(theorem1_terms(n, N_FEATURES, 1, NOISE, 1.0, middle**2).c1)
        low, high = (middle, high) if c1 < N_FEATURES else (low, middle)
    return low


def _parts_figure(results: Mapping[float, Decomposition]) -> Any:
    panels = new_panels(len(results))
    for ax, (width, one) in zip(panels, results.items(), strict=True):
        plot(one, ax, title=f"width {width:g}", rounds=min(DRAWN_ROUNDS, one.n_rounds))
    return panels[0].figure


def _bounds_figure(n: int, width: float, one: Decomposition) -> Any:
    axes = new_axes()
    rounds = np.unique(np.geomspace(2, n, 60).astype(int)).astype(float)
    draw_lines(
        axes,
        rounds,
        {
            "regret": one.curve("regret").mean[rounds.astype(int) - 1],
            "Theorem 1": theorem1(rounds, *bandit.bound_arguments(width)),
            "linear bound": linear_bound(rounds, *bandit.bound_arguments(width)),
            r"order $d^{3/2}\sqrt{n}$": lints_order(rounds, N_FEATURES),
        },
        "round", "regret and bounds", log=True,
    )  # fmt: skip
    return axes.figure


EXPERIMENT = DecompositionExperiment()
