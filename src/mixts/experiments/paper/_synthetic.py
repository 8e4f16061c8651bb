"""The synthetic linear bandit: unit vectors, and a latent state that says which one is good."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from mixts._typing import ArrayLike
from mixts.agents import Oracle
from mixts.bounds import BoundTerms, theorem1_terms
from mixts.environments import BanditEnvironment
from mixts.experiments.base import Setting, SimulationPart
from mixts.families import GaussianArms, LinearGaussian
from mixts.prior import MixturePrior
from mixts.simulation import prepare

N_FEATURES = 30
N_COMPONENTS = 30
NOISE = 0.1
GOOD, OTHER = 0.9, 0.1
"""The mean reward of the action that a latent state is about, and of the others."""
WIDTH = 0.05
"""Of the prior, where it is not what is varied."""
DRAWN_SCALE = 1 / 30
"""What the paper multiplies the bound by in its figures."""


def synthetic_prior(
    n_components: int = N_COMPONENTS, width: float = WIDTH, weights: ArrayLike | None = None
) -> MixturePrior:
    """theta_0s is 0.9 at entry s and 0.1 elsewhere, the covariance width^2 I  [paper: Sec. 6.1]."""
    mean = np.full((n_components, N_FEATURES), OTHER)
    mean[np.arange(n_components), np.arange(n_components)] = GOOD
    variance = np.full(n_components, width**2)
    family = LinearGaussian(mean, variance, NOISE, covariance_type="spherical")
    return MixturePrior(family, weights)


def arms_prior(n_components: int = N_COMPONENTS, width: float = WIDTH) -> MixturePrior:
    """The same as Gaussian arms: unit vectors make the linear bandit one."""
    family = synthetic_prior(n_components, width).family
    assert isinstance(family, LinearGaussian)
    return MixturePrior(
        GaussianArms(family.mean, np.full_like(family.mean, width**2), family.noise_std)
    )


def synthetic_part(
    setting: Setting, n_components: int, width: float, weights: ArrayLike | None = None
) -> SimulationPart:
    """MixTS, and beside it who is told the latent state: the difference is its price."""
    prior = synthetic_prior(n_components, width, weights)
    simulation = prepare(
        {"MixTS": prior, "Oracle": partial(Oracle, prior)},
        BanditEnvironment(prior, np.eye(N_FEATURES)),
        setting.n_rounds, setting.n_runs, setting.seed,
    )  # fmt: skip
    return SimulationPart(simulation, microseconds=8.0, rewards=False)


def bound_terms(n_rounds: int, n_components: int, width: float, form: str) -> BoundTerms:
    """Theorem 1 for this problem: kappa = 1, and lambda_0,max is the width's square."""
    return theorem1_terms(
        n_rounds,
        N_FEATURES,
        n_components,
        NOISE,
        1.0,
        width**2,
        form=form,  # type: ignore[arg-type]
    )


def terms_over(n_rounds: int, points: Iterable[tuple[int, float]], form: str) -> BoundTerms:
    """The same over a sweep of numbers of components and widths: every term is an array."""
    terms = [bound_terms(n_rounds, n_components, width, form) for n_components, width in points]
    return BoundTerms(*(np.array(column) for column in zip(*terms, strict=True)))
