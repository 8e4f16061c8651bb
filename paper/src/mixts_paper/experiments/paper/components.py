"""Bayes regret against the number of latent states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixts.extend import Array, Estimate, estimate
from mixts.simulation import Sweep
from mixts_paper.experiments import base
from mixts_paper.experiments.paper import _synthetic as bandit
from mixts_paper.experiments.paper._synthetic import STATEMENT, WIDTH
from mixts_paper.experiments.verdicts import equal

NUMBERS = (1, 2, 5, 10, 15, 20, 25, 30)
WIDE = 0.3
"""Another width for L = 1: at the width of the sweep there is nothing to learn."""
TERM2, TERM2_C2 = "Term 2 alone", "Term 2 and c₂ of the appendix"


class Limit(NamedTuple):
    """One latent state: MixTS beside the oracle, both Thompson sampling with the right prior."""

    width: float
    mixts: Estimate
    oracle: Estimate
    difference: Estimate
    learning: float
    identification: float


class ComponentsExperiment(base.Experiment):
    """MixTS at width 0.05 with up to 30 latent states  [paper: Sec. 6.1]."""

    title = "Regret and bound over the number of latent states"
    place = "Sec. 6.1, Fig. 1 middle"
    scale = base.Scale(200, 1000)
    quick = base.Scale(20, 100)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        sweep = {f"L={number}": bandit.part(setting, number, WIDTH) for number in NUMBERS}
        return {**sweep, f"L=1, width={WIDE:g}": bandit.part(setting, 1, WIDE)}

    def analyse(self, measured: base.Measured) -> base.Analysis:
        n = measured.setting.n_rounds
        results = [measured.results(f"L={number}") for number in NUMBERS]
        sweep = Sweep.of("number of latent states L", np.array(NUMBERS, float), results)
        bounds = bounds_of(n)
        # One state is the limit in which there is nothing to identify: its regret is 0, and a
        # growth factor from 0 says nothing.
        several = np.array(NUMBERS) > 1
        growing = Sweep(
            sweep.parameter,
            sweep.values[several],
            {name: totals[several] for name, totals in sweep.totals.items()},
        )
        compared = bandit.shapes(growing, {name: bound[several] for name, bound in bounds.items()})
        known_prior = bandit.prior_bounds(n, [(number, WIDTH, None) for number in NUMBERS])
        drawn = {name: bound[several] for name, bound in known_prior.items()}
        limits = [
            _limit(measured, "L=1", WIDTH),
            _limit(measured, f"L=1, width={WIDE:g}", WIDE),
        ]
        return base.Analysis(
            {
                **bandit.problem_numbers(n),
                "parameter": sweep.parameter,
                "numbers": NUMBERS,
                "growing": growing.values,
                "forms": (STATEMENT, TERM2),
                "points": bandit.points_of(sweep, [bounds[name] for name in (STATEMENT, TERM2)]),
                "prior_bounds": known_prior,
                "compared": compared,
                "statement": compared[STATEMENT],
                "appendix": compared[bandit.APPENDIX],
                "alone": compared[TERM2],
                "with_c2": compared[TERM2_C2],
                "share": float(bounds[TERM2][-1] / bounds[STATEMENT][-1]),
                "limits": limits,
            },
            {
                "shape": compared[STATEMENT].verdict,
                "term2": compared[TERM2].verdict,
                "limit": equal(limits[-1].difference),
            },
            {
                "regret": bandit.regret_figure(sweep, bounds, TERM2, compared[TERM2].scale),
                "bounds": bandit.bounds_figure(growing, drawn, f"30 arms, width {WIDTH}"),
            },
        )


def bounds_of(n: int) -> dict[str, Array]:
    """Return both forms of the bound, and its Term 2 with and without the appendix's c_2."""
    points = [(number, WIDTH) for number in NUMBERS]
    stated, proved = (bandit.terms_over(n, points, form) for form in ("statement", "appendix"))
    return {
        STATEMENT: stated.bound,
        bandit.APPENDIX: proved.bound,
        TERM2: stated.identification,
        TERM2_C2: proved.identification + proved.constant,
    }


def _limit(measured: base.Measured, part: str, width: float) -> Limit:
    totals = {name: regret.sum(axis=1) for name, regret in measured.results(part).regret.items()}
    mixts, oracle = totals["MixTS"], totals["Oracle"]
    terms = bandit.bound_terms(measured.setting.n_rounds, 1, width, "statement")
    return Limit(
        width, estimate(mixts), estimate(oracle), estimate(mixts - oracle),
        float(terms.learning), float(terms.identification),
    )  # fmt: skip


EXPERIMENT = ComponentsExperiment()
