"""The synthetic linear bandit of Sec. 6.1, and sweeps over it beside the bounds of Theorem 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mixts import MixturePrior
from mixts.agents import Oracle
from mixts.environments import BanditEnvironment
from mixts.extend import Array, ArrayLike, Estimate, estimate
from mixts.families import GaussianArms, LinearGaussian
from mixts.plots import new_axes, new_panels, plot
from mixts.simulation import Sweep
from mixts_paper.analysis.drawings import draw_bounds
from mixts_paper.bounds import BoundTerms, Form, ShapeComparison, compare_shapes, theorem1_terms
from mixts_paper.bounds import of as bounds_of_prior
from mixts_paper.experiments import base
from mixts_paper.experiments.report import number

N_FEATURES = 30
N_COMPONENTS = 30
NOISE = 0.1
GOOD, OTHER = 0.9, 0.1
GAP = GOOD - OTHER
"""Mean reward of the action that belongs to the latent state, and of the others."""
WIDTH = 0.05
"""Width of the prior where the sweep varies something else."""
DRAWN_SCALE = 1 / 30
"""Factor by which the paper multiplies the bound in its figures."""
STATEMENT, APPENDIX = "Theorem 1, statement", "Theorem 1, appendix"
"""The two forms of the bound."""


def synthetic_prior(
    n_components: int = N_COMPONENTS, width: float = WIDTH, weights: ArrayLike | None = None
) -> MixturePrior:
    """Return the prior of the synthetic bandit  [paper: Sec. 6.1].

    The mean of component s is 0.9 at entry s and 0.1 elsewhere; its covariance is width^2 I.
    """
    mean = np.full((n_components, N_FEATURES), OTHER)
    mean[np.arange(n_components), np.arange(n_components)] = GOOD
    variance = np.full(n_components, width**2)
    family = LinearGaussian(mean, variance, NOISE, covariance_type="spherical")
    return MixturePrior(family, weights)


def arms_prior(
    n_components: int = N_COMPONENTS, width: float = WIDTH, weights: ArrayLike | None = None
) -> MixturePrior:
    """Return the same prior for Gaussian arms: with unit vectors the two bandits are equal."""
    mean = synthetic_prior(n_components, width).family.parameter_means()
    return MixturePrior(GaussianArms(mean, np.full_like(mean, width**2), NOISE), weights)


def part(
    setting: base.Setting, n_components: int, width: float, weights: ArrayLike | None = None
) -> base.SimulationBlocks:
    """Return the simulation of MixTS and of the oracle, which knows the latent state."""
    prior = synthetic_prior(n_components, width, weights)
    agents: dict[str, Any] = {"MixTS": prior, "Oracle": partial(Oracle, prior)}
    environment = BanditEnvironment(prior, np.eye(N_FEATURES))
    return base.SimulationBlocks(agents, environment, setting, microseconds=8.0, rewards=False)


def bound_arguments(
    width: float, n_components: int = N_COMPONENTS
) -> tuple[int, int, float, float, float]:
    """Return the arguments of Theorem 1 after n; kappa is 1, lambda_0,max the width's square."""
    return N_FEATURES, n_components, NOISE, 1.0, width**2


def bound_terms(n_rounds: int, n_components: int, width: float, form: Form) -> BoundTerms:
    """Return Theorem 1 for this problem."""
    return theorem1_terms(n_rounds, *bound_arguments(width, n_components), form)


def terms_over(n_rounds: int, points: Iterable[tuple[int, float]], form: Form) -> BoundTerms:
    """Return Theorem 1 over a sweep of numbers of components and widths, as arrays."""
    terms = [bound_terms(n_rounds, n_components, width, form) for n_components, width in points]
    return BoundTerms(*(np.array(column) for column in zip(*terms, strict=True)))


PRIOR_BOUNDS = {"entropy": "entropy", "counts": "counts", "narrow": "narrow components"}
"""Bounds that know the latent prior: our short names, and those of ``mixts_paper.bounds.of``."""


def prior_bounds(
    n_rounds: int, points: Iterable[tuple[int, float, ArrayLike | None]]
) -> dict[str, Array]:
    """Return the bounds that know the latent prior, and Theorem 1's, over a sweep.

    The points are numbers of components, widths and latent priors.
    """
    found = [
        bounds_of_prior(arms_prior(n_components, width, weights), n_rounds)
        for n_components, width, weights in points
    ]
    names = {**PRIOR_BOUNDS, "statement": STATEMENT, "appendix": APPENDIX}
    return {key: np.array([one[name] for one in found]) for key, name in names.items()}


def bounds_figure(
    sweep: Sweep, bounds: Mapping[str, Array], title: str, ticks: Mapping[float, str] | None = None
) -> Any:
    """Draw the measured regret, the bounds that know the latent prior, and Theorem 1, unscaled."""
    axes = new_axes(5.2, 3.2)
    drawn = {f"new: {name}": bounds[key] for key, name in PRIOR_BOUNDS.items()}
    paper = {"Theorem 1 of the paper": bounds["statement"]}
    draw_bounds(axes, sweep, drawn, paper, title, ticks)
    return axes.figure


# -- analysis of a sweep --------------------------------------------------------------------------


class SweepPoint(NamedTuple):
    """One point of a sweep: a row of its table."""

    value: float
    mixts: Estimate
    mixts_median: float
    oracle: Estimate
    oracle_median: float
    price: Estimate
    """MixTS minus the oracle, paired: the cost of not knowing the latent state."""
    bounds: list[float]


def points_of(sweep: Sweep, bounds: Sequence[Array]) -> list[SweepPoint]:
    """Return the rows of a sweep's table, with the bounds at each point."""
    columns = [base.separate(sweep.regret(name)) for name in ("MixTS", "Oracle")]
    prices = [estimate(row) for row in sweep.totals["MixTS"] - sweep.totals["Oracle"]]
    return [
        SweepPoint(
            float(value), columns[0][i], float(sweep.median("MixTS")[i]),
            columns[1][i], float(sweep.median("Oracle")[i]), prices[i],
            [float(bound[i]) for bound in bounds],
        )
        for i, value in enumerate(sweep.values)
    ]  # fmt: skip


def regret_figure(sweep: Sweep, bounds: Mapping[str, Array], name: str, scale: float) -> Any:
    """Draw the regret beside Theorem 1 as the paper scales it, and beside a bound at its best."""
    left, right = new_panels(2)
    plot(sweep, left, bounds={"Theorem 1 × 1/30": bounds[STATEMENT] * DRAWN_SCALE})
    drawn = name.removesuffix(", statement").removesuffix(" alone")
    plot(sweep, right, bounds={f"{drawn} × 1/{number(1 / scale)}": bounds[name] * scale})
    return right.figure


def shapes(
    sweep: Sweep, bounds: Mapping[str, Array], agent: str = "MixTS"
) -> dict[str, ShapeComparison]:
    """Compare the regret of an agent with each bound."""
    mean, error = sweep.regret(agent)
    return {name: compare_shapes(mean, bound, error) for name, bound in bounds.items()}


def problem_numbers(n_rounds: int) -> dict[str, Any]:
    """Return the constants of the problem for a template."""
    return {
        "n": n_rounds, "n_features": N_FEATURES, "n_components": N_COMPONENTS, "noise": NOISE,
        "good": GOOD, "other": OTHER, "narrow": WIDTH,
    }  # fmt: skip
