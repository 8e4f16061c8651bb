"""Bayes regret against the width of the prior."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mixts.extend import Array, Estimate, estimate
from mixts.pages import Verdict
from mixts.simulation import Sweep
from mixts_paper.experiments import base
from mixts_paper.experiments.paper import _synthetic as bandit
from mixts_paper.experiments.paper._synthetic import APPENDIX, N_COMPONENTS, STATEMENT
from mixts_paper.experiments.verdicts import at_most, equal, weakest

WIDTHS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""The paper does not give its own."""
LINEAR_SLOPE = (0.9, 1.1)
"""A slope between these on logarithmic axes is that of a linear function."""


class WidthExperiment(base.Experiment):
    """MixTS at L = 30 and ten widths, and in the limit of width 0  [paper: Sec. 6.1]."""

    title = "Regret and bound over the width of the prior"
    place = "Sec. 6.1, Fig. 1 left"
    scale = base.Scale(200, 1000)
    quick = base.Scale(20, 100)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        return {
            f"width={width:g}": bandit.part(setting, N_COMPONENTS, width)
            for width in (0.0, *WIDTHS)
        }

    def analyse(self, measured: base.Measured) -> base.Analysis:
        n = measured.setting.n_rounds
        results = [measured.results(f"width={width:g}") for width in WIDTHS]
        sweep = Sweep.of("prior width σ₀", np.array(WIDTHS), results)
        bounds = bounds_of(n)
        term1 = bounds.pop("Term 1")
        compared = bandit.shapes(sweep, bounds)
        stated = compared[STATEMENT]
        known = bandit.shapes(sweep, {"Term 1, against the oracle's regret": term1}, "Oracle")
        limit = estimate(measured.results("width=0").regret["MixTS"].sum(axis=1))
        expected = expected_at_zero(n)
        terms = bandit.bound_terms(n, N_COMPONENTS, 0.0, "statement")
        slopes = np.diff(np.log(term1)) / np.diff(np.log(WIDTHS))
        known_prior = bandit.prior_bounds(n, [(N_COMPONENTS, width, None) for width in WIDTHS])
        points = bandit.points_of(sweep, [bounds[name] for name in (STATEMENT, APPENDIX)])
        mean = np.array([point.mixts.mean for point in points])
        narrow = mean[np.array(WIDTHS) <= 0.1]
        return base.Analysis(
            {
                **bandit.problem_numbers(n),
                "parameter": sweep.parameter,
                "widths": WIDTHS,
                "forms": (STATEMENT, APPENDIX),
                "points": points,
                "prior_bounds": known_prior,
                "compared": {**compared, **known},
                "statement": stated,
                "appendix": compared[APPENDIX],
                "flat": float(np.ptp(narrow) / narrow.mean()),
                "shares": {
                    name: float((mean / bounds[name]).max()) for name in (STATEMENT, APPENDIX)
                },
                "slopes": slopes,
                "limit": limit,
                "expected": expected,
                "terms": terms,
                "drawn_end": float(bounds[STATEMENT][-1] * bandit.DRAWN_SCALE),
            },
            {
                "shape": stated.verdict,
                "bound": _below(sweep, bounds),
                "slope": _linear(slopes),
                "limit": equal(Estimate(limit.mean - expected, limit.error)),
            },
            {
                "regret": bandit.regret_figure(sweep, bounds, STATEMENT, stated.scale),
                "bounds": bandit.bounds_figure(
                    sweep, known_prior, f"{N_COMPONENTS} arms and latent states"
                ),
            },
        )


def bounds_of(n: int) -> dict[str, Array]:
    """Return both forms of the bound, its Term 1, and the bound with sigma_0 as the variance."""
    points = [(N_COMPONENTS, width) for width in WIDTHS]
    literal = [(N_COMPONENTS, float(np.sqrt(width))) for width in WIDTHS]
    stated = bandit.terms_over(n, points, "statement")
    return {
        STATEMENT: stated.bound,
        APPENDIX: bandit.terms_over(n, points, "appendix").bound,
        "statement, read with λ = σ₀": bandit.terms_over(n, literal, "statement").bound,
        "Term 1": stated.learning,
    }


def expected_at_zero(n: int) -> float:
    """Return the regret at width 0: any of the L states may be the true one, tried in turn."""
    return float(bandit.GAP * np.minimum(np.arange(N_COMPONENTS), n).mean())


def _below(sweep: Sweep, bounds: Mapping[str, Array]) -> Verdict:
    """Judge whether the regret is at most the bound, in both forms and at every width."""
    regret = base.separate(sweep.regret("MixTS"))
    return weakest(
        *(
            at_most(mine, float(bound))
            for name in (STATEMENT, APPENDIX)
            for mine, bound in zip(regret, bounds[name], strict=True)
        )
    )


def _linear(slopes: Array) -> Verdict:
    low, high = LINEAR_SLOPE
    if not (slopes > 0).all():
        return "does not hold"
    return "holds" if ((slopes >= low) & (slopes <= high)).all() else "direction only"


EXPERIMENT = WidthExperiment()
