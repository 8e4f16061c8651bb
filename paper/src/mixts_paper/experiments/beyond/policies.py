"""Compare MixTS with policies that act on the same belief, on every bandit of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixts import MixturePrior
from mixts.environments import BanditEnvironment, ClassificationBandit, Environment
from mixts.extend import Array, Estimate, Float, estimate
from mixts.plots import draw_intervals, new_panels
from mixts.simulation import Results
from mixts_paper.experiments import base
from mixts_paper.experiments.beyond import PLAIN, policies_of
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.experiments.paper import _synthetic as bandit
from mixts_paper.experiments.paper import components, latent_prior, width
from mixts_paper.experiments.paper import images as paper_images
from mixts_paper.experiments.verdicts import exceeds, nowhere_worse

MOMENTS = (5, 20, 100)
"""Rounds after which regrets are compared, besides the last."""
BLOCK = 25
"""Runs in a block."""
OTHERS = tuple(name for name in PLAIN if name != "MixTS")
IMAGES = "images"


class SyntheticBandit(NamedTuple):
    """A synthetic bandit of Sec. 6.1: a row of the tables."""

    n_components: int = bandit.N_COMPONENTS
    width: float = bandit.WIDTH
    exponent: float = 0.0
    """Exponent a of the latent prior P_0(s) proportional to s^-a; 0 is uniform."""

    def prior(self) -> MixturePrior:
        """Return the prior, as Gaussian arms: their expected regrets need no draws."""
        weights = latent_prior.latent_weights(self.exponent) if self.exponent else None
        return bandit.arms_prior(self.n_components, self.width, weights)


PROBLEMS = {
    **{f"width {w:g}": SyntheticBandit(width=w) for w in width.WIDTHS},
    **{
        f"L = {number}": SyntheticBandit(n_components=number)
        for number in components.NUMBERS
        if 1 < number < bandit.N_COMPONENTS
    },
    **{
        f"P₀(s) ∝ s{power}": SyntheticBandit(exponent=a)
        for a, power in ((0.5, "⁻⁰·⁵"), (1.0, "⁻¹"), (1.5, "⁻¹·⁵"), (2.0, "⁻²"), (3.0, "⁻³"))
    },
}
"""All points of the paper's sweeps by name; L = 30 is the row of width 0.05, and so is a = 0."""
LATENT = tuple(name for name, problem in PROBLEMS.items() if problem.exponent)
SLOW = 5
"""Wide priors, under which many components stay possible, and images have a fifth of the runs."""
NARROW = 0.1
"""Greatest width with all runs."""


class PoliciesExperiment(base.Experiment):
    """MixTS, MixIDS, Greedy and BayesUCB on the same problems."""

    title = "Four policies on the paper's bandits"
    place = "Sec. 6.1, 6.2 and 4.3"
    scale = base.Scale(80, 100)
    quick = base.Scale(10, 20)
    options = ("features",)
    uses = (paper_images, components, latent_prior, width, bandit)

    def choices(self, features: str | Path | None = None, **_: Any) -> dict[str, str]:
        """Return the hash of the file of features, as ``paper/images`` does."""
        return paper_images.EXPERIMENT.choices(features)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        parts: dict[str, base.Blocks] = {}
        for name, problem in PROBLEMS.items():
            prior = problem.prior()
            slow = problem.width > NARROW
            parts[name] = _part(prior, BanditEnvironment(prior), setting, slow)
        images = paper_images.features_of(setting)
        prior, _ = paper_images.priors_of(once("prior", partial(image_prior, images, setting.seed)))
        environment = ClassificationBandit(images.test_features, images.test_labels)
        parts[IMAGES] = _part(prior, environment, setting, slow=True)
        return parts

    def analyse(self, measured: base.Measured) -> base.Analysis:
        results = {name: measured.results(name) for name in (*PROBLEMS, IMAGES)}
        n = measured.setting.n_rounds
        moments = [t for t in MOMENTS if t < n] + [n]
        rows = {t: {name: regrets_after(one, t) for name, one in results.items()} for t in moments}
        leads = {(name, t): rows[t][name].behind["MixIDS"] for t in moments for name in results}
        worst = max(leads, key=lambda where: leads[where].mean / max(leads[where].error, 1e-12))
        last = rows[n]
        n_slow = len(results[IMAGES].latent)
        latent = mean_difference([results[name] for name in LATENT], n)
        return base.Analysis(
            {
                "n": n,
                "n_runs": measured.setting.n_runs,
                "n_slow": n_slow,
                "narrow": NARROW,
                "source": paper_images.source_of(measured.setting),
                "moments": moments,
                "others": OTHERS,
                "rows": rows,
                "latent": LATENT,
                "latent_mean": latent,
                "in_order": {name: in_order_regret(PROBLEMS[name].exponent) for name in LATENT},
                "sampled": {name: _sampled_regret(PROBLEMS[name].exponent) for name in LATENT},
                "n_compared": len(leads),
                "worst": (*worst, leads[worst]),
                "total": {name: total_of(results, name, n) for name in PLAIN},
                "wide": f"width {width.WIDTHS[-1]:g}",
                "images": IMAGES,
            },
            {
                "nowhere": nowhere_worse(
                    [_negated(lead) for lead in leads.values()],
                    [len(results[name].latent) for name, _ in leads],
                ),
                "latent": exceeds(_negated(latent)),
                "greedy": exceeds(last[f"width {width.WIDTHS[-1]:g}"].behind["Greedy"]),
            },
            {"ratios": _ratios(results, moments)},
        )


def _part(
    prior: MixturePrior, environment: Environment, setting: base.Setting, slow: bool
) -> base.SimulationBlocks:
    n_runs = max(2, setting.n_runs // SLOW) if slow else setting.n_runs
    return base.SimulationBlocks(
        policies_of(prior, setting.n_rounds, PLAIN), environment, setting,
        microseconds=500.0 if slow else 100.0, rewards=False, n_runs=n_runs, block_size=BLOCK,
    )  # fmt: skip


def image_prior(images: ImageFeatures, seed: int) -> base.Arrays:
    """Return the prior of ``paper/images``, from the same past tasks."""
    past = paper_images.past_coefficients(images.train_features, images.train_labels, seed)
    return paper_images.prior_arrays(past["coefficients"], images.n_classes, seed)


# -- analysis -------------------------------------------------------------------------------------


NOTHING = Estimate(np.nan, np.nan)


class Regrets(NamedTuple):
    """One problem after some rounds: a row of a table."""

    regret: Estimate
    """Regret of MixTS."""
    behind: dict[str, Estimate]
    """Regret of each other policy minus that of MixTS, run by run."""


def totals(results: Results, t: int) -> dict[str, Float[Array, " r"]]:
    """Return the regret of every run after t rounds, by policy."""
    return {name: regret[:, :t].sum(axis=1) for name, regret in results.regret.items()}


def regrets_after(results: Results, t: int) -> Regrets:
    """Return the regrets after t rounds."""
    regret = totals(results, t)
    mine = regret["MixTS"]
    return Regrets(estimate(mine), {name: estimate(regret[name] - mine) for name in OTHERS})


def total_of(results: Mapping[str, Results], policy: str, t: int) -> float:
    """Return the mean regret of a policy after t rounds, over all problems."""
    return float(np.mean([totals(one, t)[policy].mean() for one in results.values()]))


def mean_difference(results: Sequence[Results], t: int) -> Estimate:
    """Return the regret of MixIDS minus that of MixTS after t rounds, averaged over problems.

    Runs of different problems share their seeds and so their luck: they are averaged run by run.
    """
    regrets = [totals(one, t) for one in results]
    return estimate(np.mean([each["MixIDS"] - each["MixTS"] for each in regrets], axis=0))


def in_order_regret(exponent: float) -> float:
    """Return the regret at width 0 of trying states from the most likely to the least likely.

    No policy can do better there: sum_s p_s (s - 1) wrong actions, with decreasing p_s.
    """
    weights = np.sort(latent_prior.latent_weights(exponent))[::-1]
    return float(bandit.GAP * (weights * np.arange(len(weights))).sum())


def _sampled_regret(exponent: float) -> float:
    """Return the regret of Thompson sampling at width 0."""
    return latent_prior.expected_regret(latent_prior.latent_weights(exponent))


def _negated(value: Estimate) -> Estimate:
    return Estimate(-value.mean, value.error)


def ratio_of(mine: Array, theirs: Array) -> Estimate:
    """Return the ratio of two mean regrets of the same runs; its error is of first order."""
    base = float(theirs.mean())
    if base <= 0:
        return NOTHING
    ratio = float(mine.mean()) / base
    return Estimate(ratio, estimate(mine - ratio * theirs).error / base)


def _ratios(results: Mapping[str, Results], moments: Sequence[int]) -> Any:
    """Draw regrets as multiples of that of MixTS, in the middle and at the end."""
    shown = sorted({moments[min(1, len(moments) - 1)], moments[-1]})
    rows = _with_gaps(list(results))
    panels = new_panels(len(shown), height=5.6)
    for ax, t in zip(panels, shown, strict=True):
        regret = {name: totals(one, t) for name, one in results.items()}
        estimates = {
            policy: [
                ratio_of(regret[row][policy], regret[row]["MixTS"]) if row else NOTHING
                for row in rows
            ]
            for policy in OTHERS
        }
        draw_intervals(
            ax, rows, estimates, f"regret / regret of MixTS, after {t:,} rounds", log=True,
            lines={"": 1.0}, names=ax is panels[0],
        )  # fmt: skip
    return panels[0].figure


def _with_gaps(names: Sequence[str]) -> list[str]:
    """Return the names of rows with an empty name between the sweeps."""
    rows: list[str] = []
    for name in names:
        if rows and name.split()[0][:2] != rows[-1].split()[0][:2]:
            rows.append("")
        rows.append(name)
    return rows


EXPERIMENT = PoliciesExperiment()
