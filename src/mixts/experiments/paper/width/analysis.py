"""What the regret over widths says about Theorem 1."""

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
    price,
    shape_table,
    shapes,
    sweep_table,
)
from mixts.experiments.paper._synthetic import (
    DRAWN_SCALE,
    GOOD,
    N_COMPONENTS,
    N_FEATURES,
    NOISE,
    OTHER,
    bound_terms,
    terms_over,
)
from mixts.experiments.verdicts import equal
from mixts.pages import Claim, Table, Verdict
from mixts.plots import new_panels, plot
from mixts.simulation import Estimate, estimate
from mixts.simulation.sweep import Sweep

LINEAR_SLOPE = (0.9, 1.1)
"""Between these a slope on logarithmic axes is that of a linear function."""


def analyse(measured: Measured, widths: Sequence[float]) -> Findings:
    """Regret, both forms of the bound, its terms, and the literal reading of its width."""
    n = measured.setting.n_rounds
    results = [measured.results(f"width={width:g}") for width in widths]
    sweep = Sweep.of("prior width σ₀", np.array(widths), results)
    bounds = _bounds(n, widths)
    compared = shapes(sweep, {name: b for name, b in bounds.items() if name != "Term 1"})
    known = shapes(sweep, {"Term 1, against the oracle's regret": bounds["Term 1"]}, "Oracle")
    statement = compared[STATEMENT]
    limit = estimate(measured.results("width=0").regret["MixTS"].sum(axis=1))
    forms = {name: bounds[name] for name in (STATEMENT, APPENDIX)}
    return Findings(
        _paragraphs(statement),
        (
            _shape_claim(sweep, compared),
            _bound_claim(sweep, bounds),
            _slope_claim(widths, bounds["Term 1"]),
            _limit_claim(limit, n),
        ),
        (
            sweep_table(
                sweep, forms,
                f"Regret after {n:,} rounds, mean ± standard error and median, and the bounds. "
                "Medians, because regret is heavy-tailed from width 0.15 on: now and then a run "
                "takes a good arm for the best one for long.",
            ),
            shape_table(sweep, {**compared, **known}),
            _limit_table(limit, n),
        ),
        (_drawing(sweep, bounds[STATEMENT], statement.scale),),
        f"Over the prior width the regret grows ×{statement.regret_growth:.2g} where Theorem 1 "
        f"grows ×{statement.bound_growth:.2g}; its shape: {statement.verdict}.",
    )  # fmt: skip


def _bounds(n: int, widths: Sequence[float]) -> dict[str, Array]:
    points = [(N_COMPONENTS, width) for width in widths]
    literal = [(N_COMPONENTS, float(np.sqrt(width))) for width in widths]
    stated = terms_over(n, points, "statement")
    return {
        STATEMENT: stated.bound,
        APPENDIX: terms_over(n, points, "appendix").bound,
        "statement, read with λ = σ₀": terms_over(n, literal, "statement").bound,
        "Term 1": stated.learning,
    }


def _paragraphs(statement: ShapeComparison) -> tuple[str, ...]:
    return (
        f"A linear bandit of {N_FEATURES} unit vectors: under latent state s action s is worth "
        f"about {GOOD} and the others about {OTHER}, with Gaussian noise of {NOISE}. Every run "
        f"draws one of L = {N_COMPONENTS} states and its parameters from the prior, whose width σ₀ "
        "is varied over a grid that the paper does not give. The oracle is MixTS told the latent "
        "state: its regret is what Term 1 of the bound is about, and MixTS pays the rest for "
        "identification.",
        "Theorem 1 has two forms: the statement has 6σd√(c₁ n log(dn)) and a c₂ that it does not "
        "give (left out here); the end of App. A has 4 in place of 6 and "
        "c₂ = 3L√(2κ²λd log(dn)) + 2√(κ²λd/2π) + 4Lκ. Term 2 is the same. λ₀,max is a variance, "
        "σ₀² here, though Sec. 6.1 writes σ₀ = λ₀,max: one row of the second table is that "
        "reading.",
        "The paper multiplies the bound by 1/30 without saying which form. The statement comes "
        f"nearest to our regret at 1/{number(1 / statement.scale)}. The paper gives no numbers for "
        "its curves, so the difference cannot be traced.",
    )


def _shape_claim(sweep: Sweep, compared: dict[str, ShapeComparison]) -> Claim:
    mean = sweep.regret("MixTS").mean
    narrow = sweep.values <= 0.1
    flat = float(np.ptp(mean[narrow]) / mean[narrow].mean()) if narrow.any() else 0.0
    costs = price(sweep)
    return Claim(
        "Sec. 6.1",
        "The bound correctly estimates the shape of the regret as a function of the prior width "
        "σ₀.",
        f"σ₀ from {sweep.values[0]:g} to {sweep.values[-1]:g}: {in_words(compared[STATEMENT])}. "
        f"Appendix: {in_short(compared[APPENDIX])}",
        compared[STATEMENT].verdict,
        f"Up to width 0.1 the regret is all identification and moves by {flat:.0%}. Beyond, "
        f"identification becomes cheaper, {pm(costs[-1], 1)} at {sweep.values[-1]:g} instead of "
        f"{pm(costs[0], 1)}, while learning costs more; Term 2 is the same throughout.",
    )


def _bound_claim(sweep: Sweep, bounds: dict[str, Array]) -> Claim:
    shares = {name: sweep.regret("MixTS").mean / bounds[name] for name in (STATEMENT, APPENDIX)}
    largest = {name: float(share.max()) for name, share in shares.items()}
    return Claim(
        "Thm 1",
        "The Bayes regret is at most the bound.",
        f"regret at most {largest[STATEMENT]:.1%} of the statement's, "
        f"{largest[APPENDIX]:.1%} of the appendix's",
        "holds" if max(largest.values()) <= 1 else "does not hold",
        f"At width {sweep.values[-1]:g} the bound is "
        f"{1 / shares[STATEMENT][-1]:,.0f} times the regret.",
    )


def _slope_claim(widths: Sequence[float], term: Array) -> Claim:
    slopes = np.diff(np.log(term)) / np.diff(np.log(widths))
    low, high = LINEAR_SLOPE
    linear = bool(((slopes >= low) & (slopes <= high)).all())
    verdict: Verdict = "holds" if linear else "direction only"
    return Claim(
        "Sec. 4.3",
        "Through c₁, Term 1 is linear in the width √λ₀,max.",
        f"between neighbouring widths it grows with a power of {slopes.min():.2f} to "
        f"{slopes.max():.2f}",
        verdict if (slopes > 0).all() else "does not hold",
        "Linear up to logarithms, and only where the width is well above the noise: below, the 1 "
        "in c₁ dominates. (It is √c₁, not c₁, that scales with √λ₀,max.)",
    )


def expected_at_zero(n: int) -> float:
    """Width 0: the true state is any of the L that are tried, one a round, with equal chances."""
    return float((GOOD - OTHER) * np.minimum(np.arange(N_COMPONENTS), n).mean())


def _limit_claim(limit: Estimate, n: int) -> Claim:
    expected = expected_at_zero(n)
    return Claim(
        "Sec. 1",
        "When the mixture components have low width, the regret is determined by the cost of "
        "identifying the latent state.",
        f"width 0: {pm(limit)}; expected {expected:.2f}, one wrong arm after another",
        equal(Estimate(limit.mean - expected, limit.error)),
    )


def _limit_table(limit: Estimate, n: int) -> Table:
    """Width 0: every state is known exactly, and one wrong arm is tried after the other."""
    terms = bound_terms(n, N_COMPONENTS, 0.0, "statement")
    expected = expected_at_zero(n)
    return Table(
        ("limit", "regret measured", "regret expected", "Term 1", "Term 2"),
        ((
            "width 0", pm(limit), f"{expected:.2f}",
            number(float(terms.learning)), number(float(terms.identification)),
        ),),
        "As the width goes to 0 a pull tells surely whether its state is the true one: MixTS tries "
        "one arm after another, 0.8 (L − 1)/2 of regret, and only Term 2 of the bound is left.",
    )  # fmt: skip


def _drawing(sweep: Sweep, bound: Array, scale: float) -> Drawing:
    left, right = new_panels(2)
    plot(sweep, left, bounds={"Theorem 1 × 1/30": bound * DRAWN_SCALE})
    best = {f"Theorem 1 × 1/{number(1 / scale)}": bound * scale}
    figure = plot(sweep, right, bounds=best)
    ends = sweep.regret("MixTS").mean[[0, -1]]
    return Drawing(
        "regret",
        figure,
        f"Two line charts of Bayes regret over the prior width: MixTS is flat near {ends[0]:.0f} "
        f"up to width 0.1 and rises to {ends[1]:.0f}; the oracle rises from 0. The bound at the "
        f"paper's scale, on the left, rises to {bound[-1] * DRAWN_SCALE:.0f}; at its best scale, "
        "on the right, it starts far below the regret and ends above it.",
        "Bayes regret over the prior width: means with bands of one standard error, MixTS's "
        "medians as hollow marks. Left: with Theorem 1's statement times 1/30, as in the paper. "
        "Right: at the scale that fits best.",
    )
