"""The priors that are compared, all learned from the same training users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts.families import LinearGaussian, LinearStatistics
from mixts.learning import Learned, flat_family, learn, mixture_evidence
from mixts.learning.two_stage import gaussian_of_estimates, mixture_of_estimates, ridge_estimates
from mixts.prior import MixturePrior
from studies._shared import seed_sequence, stream

FLAT, UNI, TWO_STAGE, ONE, MIXTURE = "TS", "UniTS", "MixTS, two-stage", "TS, evidence", "MixTS"
AGENTS = (FLAT, UNI, TWO_STAGE, ONE, MIXTURE)

MAX_COMPONENTS = 8
N_RESTARTS = 3
TOLERANCE = 1e-4
"""Least gain of evidence per task in an iteration of learning. It is ten times the default, which
halves the time, and a tenth of the differences between numbers of components."""

RIDGES = (1e-3, 1e-2, 1e-1)
COMPONENTS = (1, 2, 3, 5, 8)
"""Candidates for the two-stage prior, compared by cross-validation over training users."""
N_FOLDS = 5
SCALES = np.geomspace(0.1, 10.0, 41)
"""Candidates for the standard deviation of the flat prior."""


@dataclass(frozen=True)
class Priors:
    """Priors of all agents, and the choices made while learning them."""

    by_agent: dict[str, MixturePrior]
    learned: Learned
    """Prior learned by the evidence, with the chosen number of components."""
    two_stage: tuple[float, int]
    """Ridge and number of components of the two-stage prior."""


def learn_priors(tasks: LinearStatistics, seed: int) -> Priors:
    """Learn the priors of all agents, and make all choices, from training users only."""
    learned = learn_mixture(tasks, seed)
    noise = _noise_std(tasks)
    scores = _two_stage_scores(tasks, noise, seed)
    best = max(scores, key=lambda one: scores[one])
    ridge = max(RIDGES, key=lambda one: scores[one, 1])
    return Priors(
        {
            FLAT: flat_prior(tasks, noise),
            UNI: _two_stage(tasks, ridge, 1, noise, seed),
            TWO_STAGE: _two_stage(tasks, *best, noise, seed),
            ONE: learned.unimodal,
            MIXTURE: learned.prior,
        },
        learned,
        best,
    )


def learn_mixture(tasks: LinearStatistics, seed: int) -> Learned:
    """Learn a mixture by the evidence, the smallest within one standard error of the best."""
    return learn(
        tasks, "auto",
        seed=seed, max_components=MAX_COMPONENTS, n_restarts=N_RESTARTS, tolerance=TOLERANCE,
        n_folds=N_FOLDS, select="one-standard-error", engine=1,
    )  # fmt: skip


def flat_prior(tasks: LinearStatistics, noise_std: float) -> MixturePrior:
    """Return N(0, s^2 I) with the s of the largest evidence: the best flat prior for the tasks."""
    mean = np.zeros((1, *tasks.shape))
    candidates = [
        MixturePrior(LinearGaussian(mean, [scale**2], noise_std, "spherical")) for scale in SCALES
    ]
    return max(candidates, key=lambda one: float(mixture_evidence(one, tasks).sum()))


def _noise_std(tasks: LinearStatistics) -> float:
    """Return the noise that the library's two-stage method estimates."""
    noise_std = flat_family(tasks).noise_std
    assert noise_std is not None
    return noise_std


def _two_stage(
    tasks: LinearStatistics, ridge: float, n_components: int, noise_std: float, seed: int
) -> MixturePrior:
    estimates = ridge_estimates(tasks, ridge)
    if n_components == 1:
        return gaussian_of_estimates(estimates, noise_std)
    # scikit-learn accepts seeds of 32 bits.
    state = int(seed_sequence(seed, "two-stage").generate_state(1)[0])
    return mixture_of_estimates(estimates, n_components, noise_std, state, weights="fitted")


def _two_stage_scores(
    tasks: LinearStatistics, noise_std: float, seed: int
) -> dict[tuple[float, int], float]:
    """Return the cross-validated log evidence of all tasks, by ridge and number of components."""
    fold = stream(seed, "folds").permutation(len(tasks)) % N_FOLDS
    scores = {}
    for ridge in RIDGES:
        for n_components in COMPONENTS:
            if n_components > max(1, len(tasks) // 10):
                continue
            total = 0.0
            for k in range(N_FOLDS):
                inside, outside = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
                prior = _two_stage(tasks[outside], ridge, n_components, noise_std, seed)
                total += float(mixture_evidence(prior, tasks[inside]).sum())
            scores[ridge, n_components] = total
    return scores
