"""What the regret over the number of latent states says about Theorem 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixts._typing import Array
from mixts.bounds import ShapeComparison
from mixts.experiments.base import Drawing, Findings, Measured
from mixts.experiments.paper._analysis import (
    APPENDIX,
    STATEMENT,
    in_short,
    in_words,
    number,
    pm,
    shape_table,
    shapes,
    sweep_table,
)
from mixts.experiments.paper._synthetic import DRAWN_SCALE, WIDTH, bound_terms, terms_over
from mixts.experiments.verdicts import equal
from mixts.pages import Claim, Table
from mixts.plots import new_panels, plot
from mixts.simulation import Estimate, estimate
from mixts.simulation.sweep import Sweep

TERM2, TERM2_C2 = "Term 2 alone", "Term 2 and c₂ of the appendix"


def analyse(measured: Measured, numbers: Sequence[int], wide: float) -> Findings:
    """Regret, both forms of the bound, and Term 2 by itself."""
    n = measured.setting.n_rounds
    results = [measured.results(f"L={number}") for number in numbers]
    sweep = Sweep.of("number of latent states L", np.array(numbers, float), results)
    bounds = _bounds(n, numbers)
    # One state is the limit in which there is nothing to identify; a factor from 0 says nothing.
    several = np.array(numbers) > 1
    growing = Sweep(
        sweep.parameter,
        sweep.values[several],
        {name: totals[several] for name, totals in sweep.totals.items()},
    )
    compared = shapes(growing, {name: bound[several] for name, bound in bounds.items()})
    limits = {
        width: _limit(measured, part) for part, width in _limit_parts(numbers[0], wide).items()
    }
    statement = compared[STATEMENT]
    return Findings(
        _paragraphs(n),
        (_shape_claim(numbers, bounds, compared), _term2_claim(compared), _limit_claim(limits)),
        (
            sweep_table(
                sweep, {name: bounds[name] for name in (STATEMENT, TERM2)},
                f"Regret after {n:,} rounds, mean ± standard error and median, and the bound.",
            ),
            shape_table(growing, compared),
            _limit_table(limits, n),
        ),
        (_drawing(sweep, bounds, compared[TERM2].scale),),
        f"Over the number of latent states the regret grows ×{statement.regret_growth:.2g} where "
        f"Theorem 1 grows ×{statement.bound_growth:.3g}; its shape: {statement.verdict}.",
    )  # fmt: skip


def _bounds(n: int, numbers: Sequence[int]) -> dict[str, Array]:
    points = [(number, WIDTH) for number in numbers]
    stated, proved = (terms_over(n, points, form) for form in ("statement", "appendix"))
    return {
        STATEMENT: stated.bound,
        APPENDIX: proved.bound,
        TERM2: stated.identification,
        TERM2_C2: proved.identification + proved.constant,
    }


def _paragraphs(n: int) -> tuple[str, ...]:
    alone = float(bound_terms(n, 1, WIDTH, "statement").identification)
    return (
        f"The same bandit as in [the sweep over widths](#paper/width) at width {WIDTH:g}, with "
        "fewer latent states: for L below 30 only the first L actions can be good a priori. One "
        "pull tells whether its state is the true one (0.8 against noise of 0.1), so finding it "
        "costs about 0.4 (L − 1), linear in L and free of n. Term 2 of the bound grows as √L, and "
        "Term 1, which does not depend on L, is far larger.",
        "Shapes are compared from L = 2 on. With L = 1 there is nothing to identify, and at this "
        "width nothing to learn either: the best arm is 16 widths ahead, and every regret is 0. "
        f"Term 2 is {alone:.1f} even then.",
        "All sweeps of this bandit share their seed, and so their luck: the points of a curve, and "
        "of different curves, move together.",
    )


def _shape_claim(
    numbers: Sequence[int], bounds: dict[str, Array], compared: dict[str, ShapeComparison]
) -> Claim:
    share = float(bounds[TERM2][-1] / bounds[STATEMENT][-1])
    return Claim(
        "Sec. 6.1",
        "The bound correctly estimates the shape of the regret as a function of the number of "
        "latent states L.",
        f"L from 2 to {numbers[-1]}: {in_words(compared[STATEMENT])}. Appendix: "
        f"{in_short(compared[APPENDIX])}",
        compared[STATEMENT].verdict,
        f"Term 2 is {share:.1%} of the bound at L = {numbers[-1]}: the bound is almost flat while "
        "the regret grows about linearly.",
    )


def _term2_claim(compared: dict[str, ShapeComparison]) -> Claim:
    alone, with_c2 = compared[TERM2], compared[TERM2_C2]
    return Claim(
        "Sec. 4.3",
        "Term 2 is Õ(√(L n)), of the same order as identifying the true latent state among L known "
        "models.",
        f"Term 2 alone: {in_words(alone)}",
        alone.verdict,
        "Identification is linear in L here. With the appendix's c₂, which is linear in L, Term 2 "
        f"grows ×{with_c2.bound_growth:.2g} and is {with_c2.relative_error:.0%} off: shape "
        f"{with_c2.verdict}.",
    )


# -- one latent state ---------------------------------------------------------------------------


def _limit_parts(number: int, wide: float) -> dict[str, float]:
    return {f"L={number}": WIDTH, f"L={number}, width={wide:g}": wide}


def _limit(measured: Measured, part: str) -> tuple[Estimate, Estimate, Estimate]:
    """MixTS, the oracle, and their paired difference."""
    totals = {name: regret.sum(axis=1) for name, regret in measured.results(part).regret.items()}
    mine, told = totals["MixTS"], totals["Oracle"]
    return estimate(mine), estimate(told), estimate(mine - told)


def _limit_claim(limits: dict[float, tuple[Estimate, Estimate, Estimate]]) -> Claim:
    width, (mine, told, gap) = list(limits.items())[-1]
    return Claim(
        "Sec. 1",
        "When the prior is unimodal, L = 1, MixTS is classical TS.",
        f"width {width:g}: regret {pm(mine)}, of the oracle, which is TS with the right prior, "
        f"{pm(told)}; paired difference {pm(gap)}",
        equal(gap),
    )


def _limit_table(limits: dict[float, tuple[Estimate, Estimate, Estimate]], n: int) -> Table:
    rows = []
    for width, estimates in limits.items():
        terms = bound_terms(n, 1, width, "statement")
        terms_text = (number(float(terms.learning)), number(float(terms.identification)))
        rows.append((f"L = 1, width {width:g}", *(pm(one) for one in estimates), *terms_text))
    return Table(
        ("limit", "MixTS", "Oracle", "difference", "Term 1", "Term 2"),
        tuple(rows),
        "With one latent state there is nothing to identify: MixTS and the oracle are both "
        "Thompson sampling with the right prior, and their difference is noise.",
    )


def _drawing(sweep: Sweep, bounds: dict[str, Array], scale: float) -> Drawing:
    left, right = new_panels(2)
    plot(sweep, left, bounds={"Theorem 1 × 1/30": bounds[STATEMENT] * DRAWN_SCALE})
    figure = plot(sweep, right, bounds={f"Term 2 × 1/{number(1 / scale)}": bounds[TERM2] * scale})
    ends = sweep.regret("MixTS").mean[[0, -1]]
    return Drawing(
        "regret",
        figure,
        f"Two line charts of Bayes regret over the number of latent states: MixTS rises about "
        f"linearly from {ends[0]:.1f} to {ends[1]:.1f}; the scaled bound on the left is almost "
        "flat, Term 2 on the right rises as a square root.",
        "Bayes regret over the number of latent states. Left: with Theorem 1's statement, "
        "multiplied by 1/30 as in the paper. Right: with Term 2 alone, at its best scale.",
    )
