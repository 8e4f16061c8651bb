"""Bayes regret over latent priors that are not uniform."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixts.extend import Array, Estimate, Float, estimate
from mixts.simulation import Sweep
from mixts_paper.bounds import effective_states, entropy
from mixts_paper.experiments import base
from mixts_paper.experiments.paper import _synthetic as bandit
from mixts_paper.experiments.paper._synthetic import N_COMPONENTS, WIDTH
from mixts_paper.experiments.verdicts import exceeds

EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Exponents a of P_0(s) proportional to s^-a, s = 1 to L; 0 is uniform."""

TITLE = "A more certain latent prior lowers the regret; Theorem 1 does not see it"


class PriorPoint(NamedTuple):
    """One latent prior: a row of the table."""

    exponent: float
    entropy: float
    """In bits."""
    largest: float
    """Weight of the most likely state."""
    regret: Estimate
    expected: float
    """Regret in the limit of width 0."""
    states: float
    """Effective number of states."""
    bounds: dict[str, float]
    """Bounds that know the latent prior, and Theorem 1's."""


class LatentPriorExperiment(base.Experiment):
    """The bound does not depend on P_0; the regret does  [paper: Sec. 4.3]."""

    title = "Latent priors that are not uniform"
    place = "Sec. 4.3"
    scale = base.Scale(200, 1000)
    quick = base.Scale(20, 100)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        return {
            f"a={a:g}": bandit.part(setting, N_COMPONENTS, WIDTH, latent_weights(a))
            for a in EXPONENTS
        }

    def analyse(self, measured: base.Measured) -> base.Analysis:
        n = measured.setting.n_rounds
        results = [measured.results(f"a={a:g}") for a in EXPONENTS]
        sweep = Sweep.of(
            "exponent a of the latent prior P₀(s) ∝ s⁻ᵃ (0: all 30 states alike),\n"
            "and below it the effective number of states, (Σ √P₀)²",
            np.array(EXPONENTS), results,
        )  # fmt: skip
        weights = [latent_weights(a) for a in EXPONENTS]
        bounds = bandit.prior_bounds(n, [(N_COMPONENTS, WIDTH, p) for p in weights])
        bound = float(bounds["statement"][0])
        totals = sweep.totals["MixTS"]
        fall = estimate(totals[0] - totals[-1])
        points = [
            _point(a, regret, {name: float(b[i]) for name, b in bounds.items()})
            for i, (a, regret) in enumerate(zip(EXPONENTS, totals, strict=True))
        ]
        return base.Analysis(
            {**bandit.problem_numbers(n), "points": points, "bound": bound, "fall": fall},
            {"prior": exceeds(fall)},
            {"bounds": bandit.bounds_figure(sweep, bounds, TITLE, _ticks(points))},
        )


def latent_weights(exponent: float) -> Float[Array, " L"]:
    """Return Zipf's law over the latent states."""
    weights = np.arange(1.0, N_COMPONENTS + 1) ** -exponent
    return weights / weights.sum()


def expected_regret(weights: Array) -> float:
    """Return the regret at width 0: 0.8 times the mean number of states tried before the true one.

    At width 0 one reward rules a wrong state out. State j is sampled before s with
    probability p_j / (p_s + p_j), so that number is sum_s p_s sum_{j != s} p_j / (p_s + p_j).
    """
    pairs = weights[:, None] * weights / (weights[:, None] + weights)
    return float(bandit.GAP * (pairs.sum() - np.trace(pairs)))


def _point(exponent: float, totals: Array, bounds: dict[str, float]) -> PriorPoint:
    weights = latent_weights(exponent)
    return PriorPoint(
        exponent, entropy(weights) / np.log(2), float(weights.max()), estimate(totals),
        expected_regret(weights), effective_states(weights), bounds,
    )  # fmt: skip


def _ticks(points: list[PriorPoint]) -> dict[float, str]:
    """Return the text below the axis: the exponent, and how many states that amounts to."""
    return {
        point.exponent: f"{point.exponent:g}\n{point.states:.{0 if point.states > 9.5 else 1}f}"
        for point in points
    }


EXPERIMENT = LatentPriorExperiment()
