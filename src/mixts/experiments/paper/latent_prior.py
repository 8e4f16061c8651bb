"""Bayes regret over latent priors that are not uniform."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float
from mixts.experiments.base import Analysis, Experiment, Measured, Once, Part, Scale, Setting
from mixts.experiments.paper._synthetic import (
    DRAWN_SCALE,
    GOOD,
    N_COMPONENTS,
    OTHER,
    WIDTH,
    bound_terms,
    problem_numbers,
    synthetic_part,
)
from mixts.experiments.verdicts import exceeds
from mixts.plots import new_panels, plot
from mixts.simulation.sweep import Sweep

EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Exponents a of P_0(s) proportional to s^-a, s = 1 to L; 0 is uniform."""


class Point(NamedTuple):
    """One latent prior: a row of the table."""

    exponent: float
    entropy: float
    """In bits."""
    largest: float
    """Weight of the most likely state."""
    regret: Estimate
    expected: float
    """Regret in the limit of width 0."""


class LatentPriorExperiment(Experiment):
    """The bound does not depend on P_0; the regret does  [paper: Sec. 4.3]."""

    title = "Latent priors that are not uniform"
    place = "Sec. 4.3"
    scale = Scale(200, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        return {
            f"a={a:g}": synthetic_part(setting, N_COMPONENTS, WIDTH, latent_weights(a))
            for a in EXPONENTS
        }

    def analyse(self, measured: Measured) -> Analysis:
        n = measured.setting.n_rounds
        results = [measured.results(f"a={a:g}") for a in EXPONENTS]
        sweep = Sweep.of("exponent a of P₀(s) ∝ s⁻ᵃ", np.array(EXPONENTS), results)
        bound = float(bound_terms(n, N_COMPONENTS, WIDTH, "statement").bound)
        totals = sweep.totals["MixTS"]
        fall = estimate(totals[0] - totals[-1])
        points = [_point(a, regret) for a, regret in zip(EXPONENTS, totals, strict=True)]
        return Analysis(
            {**problem_numbers(n), "points": points, "bound": bound, "fall": fall},
            {"prior": exceeds(fall)},
            {"regret": _figure(sweep, bound)},
        )


def latent_weights(exponent: float) -> Float[Array, " L"]:
    """Return Zipf's law over the latent states."""
    weights = np.arange(1.0, N_COMPONENTS + 1) ** -exponent
    return weights / weights.sum()


def expected_regret(weights: Array) -> float:
    """Return the regret at width 0: 0.8 times the mean number of states tried before the true one.

    State j is sampled before s with probability p_j / (p_s + p_j), so that number is
    sum_s p_s sum_{j != s} p_j / (p_s + p_j).
    """
    pairs = weights[:, None] * weights / (weights[:, None] + weights)
    return float((GOOD - OTHER) * (pairs.sum() - np.trace(pairs)))


def _point(exponent: float, totals: Array) -> Point:
    weights = latent_weights(exponent)
    entropy = float(-(weights * np.log2(weights)).sum())
    return Point(
        exponent, entropy, float(weights.max()), estimate(totals), expected_regret(weights)
    )


def _figure(sweep: Sweep, bound: float) -> Any:
    left, right = new_panels(2)
    flat = np.full(len(sweep.values), bound * DRAWN_SCALE)
    plot(sweep, left, bounds={"Theorem 1 × 1/30": flat})
    return plot(sweep, right)


EXPERIMENT = LatentPriorExperiment()
