"""What a latent prior that is not uniform changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixts._typing import Array
from mixts.experiments.base import Drawing, Findings, Measured
from mixts.experiments.paper._analysis import number, pm
from mixts.experiments.paper._synthetic import (
    DRAWN_SCALE,
    GOOD,
    N_COMPONENTS,
    OTHER,
    WIDTH,
    bound_terms,
)
from mixts.experiments.verdicts import better
from mixts.pages import Claim, Table
from mixts.plots import new_panels, plot
from mixts.simulation import Estimate, estimate
from mixts.simulation.sweep import Sweep


def expected_regret(weights: Array) -> float:
    """In the limit of width 0: 0.8 times the mean number of states tried before the true one.

    State j is sampled before s with probability p_j / (p_s + p_j), so that number is
    sum_s p_s sum_{j != s} p_j / (p_s + p_j).
    """
    pairs = weights[:, None] * weights / (weights[:, None] + weights)
    return float((GOOD - OTHER) * (pairs.sum() - np.trace(pairs)))


def analyse(measured: Measured, exponents: Sequence[float], weights: Sequence[Array]) -> Findings:
    """Regret moves with the latent prior, the bound stays where it is."""
    n = measured.setting.n_rounds
    results = [measured.results(f"a={a:g}") for a in exponents]
    sweep = Sweep.of("exponent a of P₀(s) ∝ s⁻ᵃ", np.array(exponents), results)
    bound = float(bound_terms(n, N_COMPONENTS, WIDTH, "statement").bound)
    totals = sweep.totals["MixTS"]
    fall = estimate(totals[0] - totals[-1])
    mean, error = sweep.regret("MixTS")
    rows = tuple(
        (
            f"{a:g}", f"{-(w * np.log2(w)).sum():.2f}", f"{w.max():.1%}", pm(Estimate(m, e)),
            f"{expected_regret(w):.2f}", number(bound),
        )
        for a, w, m, e in zip(exponents, weights, mean, error, strict=True)
    )  # fmt: skip
    table = Table(
        (
            "a",
            "entropy of P₀, bits",
            "most likely state",
            "MixTS",
            "expected at width 0",
            "Theorem 1",
        ),
        rows,
        f"Regret after {n:,} rounds over latent priors P₀(s) ∝ s⁻ᵃ, and what it is in the limit of "
        "width 0, where states are tried one after another.",
    )
    claim = Claim(
        "Sec. 4.3",
        "The bound does not depend on the latent state prior P₀, which is a shortcoming of the "
        "analysis.",
        f"from a = {exponents[0]:g} (uniform) to {exponents[-1]:g} the regret falls from "
        f"{mean[0]:.1f} to {mean[-1]:.1f}, by {pm(fall)}; the bound is {number(bound)} throughout",
        better(fall),
    )
    return Findings(
        (
            "Where some kinds of task are more common than others, MixTS tries those first. The "
            f"synthetic bandit at L = {N_COMPONENTS}, width {WIDTH:g}, with latent priors "
            "P₀(s) ∝ s⁻ᵃ.",
        ),
        (claim,),
        (table,),
        (_drawing(sweep, bound),),
        f"A latent prior that is not uniform lowers the regret from {mean[0]:.1f} to "
        f"{mean[-1]:.1f}; the bound cannot see it.",
    )


def _drawing(sweep: Sweep, bound: float) -> Drawing:
    left, right = new_panels(2)
    flat = np.full(len(sweep.values), bound * DRAWN_SCALE)
    plot(sweep, left, bounds={"Theorem 1 × 1/30": flat})
    figure = plot(sweep, right)
    mean = sweep.regret("MixTS").mean
    return Drawing(
        "regret",
        figure,
        f"Two line charts: MixTS's regret falls from {mean[0]:.1f} with the uniform latent prior "
        f"to {mean[-1]:.1f} with a steep one; the bound, on the left, is a horizontal line.",
        "Bayes regret over latent priors that become more and more certain. Left: beside the "
        "bound. Right: by itself.",
    )
