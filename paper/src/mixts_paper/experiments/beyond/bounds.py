"""Bounds that know the latent prior, and both sides of every step of their proofs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mixts import MixturePrior
from mixts.environments import BanditEnvironment
from mixts.extend import Array, ArrayLike, Estimate, Float, estimate
from mixts.pages import Verdict
from mixts.plots import draw_lines, new_panels
from mixts_paper.analysis import Inequality, LatentCost, LatentCostObserver
from mixts_paper.analysis.inequalities import chance_errors
from mixts_paper.bounds import entropy, theorem1
from mixts_paper.bounds import of as bounds_of
from mixts_paper.experiments import base
from mixts_paper.experiments.paper import _synthetic as bandit
from mixts_paper.experiments.paper import decomposition, latent_prior
from mixts_paper.experiments.paper._synthetic import GAP, N_COMPONENTS, NOISE, STATEMENT
from mixts_paper.experiments.paper.decomposition import steps_of
from mixts_paper.experiments.paper.latent_prior import expected_regret, latent_weights
from mixts_paper.experiments.verdicts import at_most, equal, weakest

BLOCK = 100
"""Runs in a block: with fewer, the work of a round is mostly overhead."""
STEEP = 2.0
"""Exponent of the latent prior that is not uniform."""
DRAWN_ROUNDS = 60
"""Rounds in the figure of the roots: afterwards nothing moves."""


class ProofCase(NamedTuple):
    """One point at which the proofs are followed."""

    name: str
    width: float
    weights: ArrayLike | None = None

    @property
    def prior(self) -> MixturePrior:
        """The paper's bandit with this width and latent prior."""
        return bandit.arms_prior(width=self.width, weights=self.weights)


PROBLEMS = (
    ProofCase("width 0", 0.0),
    ProofCase("width 0, P₀ ∝ 1/s²", 0.0, latent_weights(STEEP)),
    ProofCase("width 0.05", 0.05),
    ProofCase("width 0.2", 0.2),
    ProofCase("width 0.5", 0.5),
)
KNOWN, KNOWN_STEEP, NARROW = PROBLEMS[:3]


class ProblemBounds(NamedTuple):
    """One problem: what was measured, and every bound that applies."""

    name: str
    regret: Estimate
    learning: Estimate
    identification: Estimate
    information: Estimate
    ratio: float
    """Largest (E B_t)^2 / (r_B E between_t)."""
    bounds: Mapping[str, float]
    conditions: Mapping[str, str]


class BoundsExperiment(base.Experiment):
    """The synthetic bandit at five points, each step of the proofs measured  [paper: Sec. 4.3]."""

    title = "Bounds that know the latent prior"
    place = "Sec. 4.3"
    scale = base.Scale(200, 1000)
    quick = base.Scale(20, 100)
    uses = (bandit, decomposition, latent_prior)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        return {
            problem.name: base.SimulationBlocks(
                {"MixTS": problem.prior}, BanditEnvironment(problem.prior), setting,
                microseconds=12.0, block_size=BLOCK, observe=LatentCostObserver(problem.prior),
            )
            for problem in PROBLEMS
        }  # fmt: skip

    def analyse(self, measured: base.Measured) -> base.Analysis:
        n = measured.setting.n_rounds
        costs = {
            problem.name: LatentCost.of(problem.prior, measured.results(problem.name))
            for problem in PROBLEMS
        }
        steps = {name: cost.inequalities() for name, cost in costs.items()}
        rows = {problem.name: _row(n, problem, costs[problem.name]) for problem in PROBLEMS}
        every = [step for one in steps.values() for step in one.values()]
        known = rows[KNOWN.name]
        steep = np.asarray(latent_weights(STEEP))
        return base.Analysis(
            {
                **bandit.problem_numbers(n),
                "rows": list(rows.values()),
                "names": [problem.name for problem in PROBLEMS],
                "steps": steps_of(steps.values()),
                "n_steps": len(every),
                "n_holding": sum(step.holds for step in every),
                "worst": max(step.deviation for step in every if step.in_expectation),
                "known": known,
                "steep": rows[KNOWN_STEEP.name],
                "narrow": rows[NARROW.name],
                "expected": expected_regret(np.full(N_COMPONENTS, 1 / N_COMPONENTS)),
                "expected_steep": expected_regret(steep),
                "gap": GAP,
                "narrow_width": NARROW.width,
                "entropy": math.log(N_COMPONENTS),
                "entropy_steep": entropy(steep),
                "shrinking": _shrinking(steps),
                "times": rows[NARROW.name].bounds[STATEMENT] / rows[NARROW.name].regret.mean,
                "long": _long_run(n),
            },
            {
                "information": _verdict(steps, "information"),
                "ratio": _verdict(steps, "identification by round", "learning by round"),
                "shrinking": _verdict(steps, "roots", "shrinking", "pairs"),
                "known": weakest(
                    *(_at_most(costs[p.name], rows[p.name].bounds["known models"])
                      for p in (KNOWN, KNOWN_STEEP))
                ),
                "tight": equal(_excess(known.identification, known.bounds["known models"])),
                "steps": _verdict(steps),
            },
            {"story": _figure(n, costs)},
        )  # fmt: skip


def _row(n: int, problem: ProofCase, cost: LatentCost) -> ProblemBounds:
    found = bounds_of(problem.prior, n)
    return ProblemBounds(
        problem.name, cost.total("regret"), cost.total("learning"), cost.total("identification"),
        estimate(cost.information), cost.largest_ratio, found.applicable, found.conditions,
    )  # fmt: skip


def _verdict(steps: Mapping[str, Mapping[str, Inequality]], *names: str) -> Verdict:
    """Judge steps together, by the names given or all: chance may violate one of many."""
    found = [step for one in steps.values() for name, step in one.items() if name in (names or one)]
    if all(step.holds for step in found):
        return "holds"
    limit = chance_errors(max(2, min(len(step.left) for step in found)), len(found))
    sure = [step for step in found if not step.in_expectation and not step.holds]
    off = [step for step in found if step.in_expectation and step.deviation > limit]
    return "does not hold" if sure or off else "undecided"


def _shrinking(steps: Mapping[str, Mapping[str, Inequality]]) -> str:
    """Return a sentence on the share of the lost roots that pays for regret."""
    found = []
    for problem in (KNOWN, KNOWN_STEEP):
        if "shrinking" in steps[problem.name]:
            share = steps[problem.name]["shrinking"].tightness
            found.append(f"{problem.name}: {share:.1%} of what the roots lose pays for regret")
    return "; ".join(found)


def _at_most(cost: LatentCost, bound: float) -> Verdict:
    """Judge the regret by the part of it whose expectation is the same and which varies less."""
    verdict = at_most(cost.total("identification"), bound)
    near = equal(_excess(cost.total("identification"), bound)) == "holds"
    # A bound that is attained is neither refuted nor shown by a mean close to it.
    return "holds" if verdict == "holds" or near else verdict


def _excess(value: Estimate, bound: float) -> Estimate:
    return Estimate(value.mean - bound, value.error)


def _long_run(n: int) -> list[tuple[int, float, float]]:
    """Return Theorem 1 and the bound for narrow components at n and at a hundred times n."""
    arguments = bandit.bound_arguments(NARROW.width)
    return [
        (m, float(theorem1(m, *arguments)), bounds_of(NARROW.prior, m)["narrow components"])
        for m in (n, 100 * n)
    ]


def _figure(n: int, costs: Mapping[str, LatentCost]) -> Any:
    titles = ("Known models, P₀ uniform or ∝ 1/s²", f"Bounds over rounds, {NARROW.name}")
    left, right = new_panels(2, height=2.7, titles=titles)
    shown = min(DRAWN_ROUNDS, costs[KNOWN.name].n_rounds - 1)
    lines = {}
    for name, label in ((KNOWN.name, "uniform"), (KNOWN_STEEP.name, "1/s²")):
        lines[f"regret, {label}"] = np.cumsum(costs[name].regret, axis=1).mean(axis=0)[:shown]
        lines[f"charged, {label}"] = charged(costs[name].roots)[:shown]
    draw_lines(left, np.arange(1.0, shown + 1), lines, "round", "regret so far")
    left.set_ylim(bottom=0)
    points = np.unique(np.geomspace(2, n, 16).astype(int))
    found = [bounds_of(NARROW.prior, int(m)).applicable for m in points]
    curve = np.cumsum(costs[NARROW.name].regret, axis=1).mean(axis=0)
    draw_lines(
        right, points.astype(float),
        {
            "MixTS, measured": curve[points - 1],
            "Theorem 1": [one[STATEMENT] for one in found],
            "entropy bound": [one["entropy"] for one in found],
            "count bound": [one["counts"] for one in found],
            "narrow components": [one["narrow components"] for one in found],
        },
        "round", "regret and bounds", log=True,
    )  # fmt: skip
    return left.figure


def charged(roots: Float[Array, "n t"]) -> Float[Array, " t-1"]:
    """Return gap / (2 sqrt(alpha beta)) times what all pairs' roots have lost up to each round."""
    mean = roots.mean(axis=0)
    alpha = -math.expm1(-(GAP**2) / (8 * NOISE**2))
    return GAP / alpha * (mean[0] - mean[1:])


EXPERIMENT = BoundsExperiment()
