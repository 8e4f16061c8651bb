"""Bayes regret against the width of the prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixts.extend import Array, Estimate, estimate
from mixts.pages import Verdict
from mixts.plots import new_panels, plot
from mixts.simulation import Sweep
from mixts_paper.experiments.base import (
    Analysis,
    Blocks,
    Experiment,
    Measured,
    Once,
    Scale,
    Setting,
)
from mixts_paper.experiments.paper._synthetic import (
    APPENDIX,
    DRAWN_SCALE,
    GOOD,
    N_COMPONENTS,
    OTHER,
    STATEMENT,
    bound_terms,
    bounds_figure,
    points_of,
    prior_bounds,
    problem_numbers,
    shapes,
    synthetic_part,
    terms_over,
)
from mixts_paper.experiments.report import number
from mixts_paper.experiments.verdicts import at_most, equal, weakest

WIDTHS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""The paper does not give its own."""
LINEAR_SLOPE = (0.9, 1.1)
"""A slope between these on logarithmic axes is that of a linear function."""


class WidthExperiment(Experiment):
    """MixTS at L = 30 and ten widths, and in the limit of width 0  [paper: Sec. 6.1]."""

    title = "Regret and bound over the width of the prior"
    place = "Sec. 6.1, Fig. 1 left"
    scale = Scale(200, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Blocks]:
        return {
            f"width={width:g}": synthetic_part(setting, N_COMPONENTS, width)
            for width in (0.0, *WIDTHS)
        }

    def analyse(self, measured: Measured) -> Analysis:
        n = measured.setting.n_rounds
        results = [measured.results(f"width={width:g}") for width in WIDTHS]
        sweep = Sweep.of("prior width σ₀", np.array(WIDTHS), results)
        bounds = bounds_of(n)
        compared = shapes(sweep, {name: b for name, b in bounds.items() if name != "Term 1"})
        known = shapes(sweep, {"Term 1, against the oracle's regret": bounds["Term 1"]}, "Oracle")
        limit = estimate(measured.results("width=0").regret["MixTS"].sum(axis=1))
        expected = expected_at_zero(n)
        terms = bound_terms(n, N_COMPONENTS, 0.0, "statement")
        slopes = np.diff(np.log(bounds["Term 1"])) / np.diff(np.log(WIDTHS))
        known_prior = prior_bounds(n, [(N_COMPONENTS, width, None) for width in WIDTHS])
        points = points_of(sweep, [bounds[name] for name in (STATEMENT, APPENDIX)])
        mean = np.array([point.mixts.mean for point in points])
        narrow = mean[np.array(WIDTHS) <= 0.1]
        return Analysis(
            {
                **problem_numbers(n),
                "parameter": sweep.parameter,
                "widths": WIDTHS,
                "forms": (STATEMENT, APPENDIX),
                "points": points,
                "prior_bounds": known_prior,
                "compared": {**compared, **known},
                "statement": compared[STATEMENT],
                "appendix": compared[APPENDIX],
                "flat": float(np.ptp(narrow) / narrow.mean()),
                "shares": {
                    name: float((mean / bounds[name]).max()) for name in (STATEMENT, APPENDIX)
                },
                "slopes": slopes,
                "limit": limit,
                "expected": expected,
                "terms": terms,
                "drawn_end": float(bounds[STATEMENT][-1] * DRAWN_SCALE),
            },
            {
                "shape": compared[STATEMENT].verdict,
                "bound": _below(sweep, bounds),
                "slope": _linear(slopes),
                "limit": equal(Estimate(limit.mean - expected, limit.error)),
            },
            {
                "regret": _figure(sweep, bounds[STATEMENT], compared[STATEMENT].scale),
                "bounds": bounds_figure(
                    sweep, known_prior, f"{N_COMPONENTS} arms and latent states"
                ),
            },
        )


def bounds_of(n: int) -> dict[str, Array]:
    """Return both forms of the bound, its Term 1, and the bound with sigma_0 as the variance."""
    points = [(N_COMPONENTS, width) for width in WIDTHS]
    literal = [(N_COMPONENTS, float(np.sqrt(width))) for width in WIDTHS]
    stated = terms_over(n, points, "statement")
    return {
        STATEMENT: stated.bound,
        APPENDIX: terms_over(n, points, "appendix").bound,
        "statement, read with λ = σ₀": terms_over(n, literal, "statement").bound,
        "Term 1": stated.learning,
    }


def expected_at_zero(n: int) -> float:
    """Return the regret at width 0: any of the L states may be the true one, tried in turn."""
    return float((GOOD - OTHER) * np.minimum(np.arange(N_COMPONENTS), n).mean())


def _below(sweep: Sweep, bounds: Mapping[str, Array]) -> Verdict:
    """Judge whether the regret is at most the bound, in both forms and at every width."""
    mean, error = sweep.regret("MixTS")
    return weakest(
        *(
            at_most(Estimate(m, e), float(b))
            for name in (STATEMENT, APPENDIX)
            for m, e, b in zip(mean, error, bounds[name], strict=True)
        )
    )


def _linear(slopes: Array) -> Verdict:
    low, high = LINEAR_SLOPE
    if not (slopes > 0).all():
        return "does not hold"
    return "holds" if ((slopes >= low) & (slopes <= high)).all() else "direction only"


def _figure(sweep: Sweep, bound: Array, scale: float) -> Any:
    left, right = new_panels(2)
    plot(sweep, left, bounds={"Theorem 1 × 1/30": bound * DRAWN_SCALE})
    plot(sweep, right, bounds={f"Theorem 1 × 1/{number(1 / scale)}": bound * scale})
    return right.figure


EXPERIMENT = WidthExperiment()
