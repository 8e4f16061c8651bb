"""The priors that are compared, all learned from the same training users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts.families import LinearGaussian, LinearStatistics
from mixts.learning import Learned, flat_family, learn
from mixts.learning.two_stage import gaussian_of_estimates, mixture_of_estimates, ridge_estimates
from mixts.prior import MixturePrior
from studies._shared import mixture_evidence, seed_sequence, stream

FLAT, UNI, TWO_STAGE, ONE, MIXTURE = "TS", "UniTS", "MixTS, two-stage", "TS, evidence", "MixTS"
AGENTS = (FLAT, UNI, TWO_STAGE, ONE, MIXTURE)

MAX_COMPONENTS = 8
N_RESTARTS = 3
TOLERANCE = 1e-4
"""Of the evidence's gain a task in an iteration: ten times the library's own, a tenth of what
numbers of components differ by, and half the time."""

RIDGES = (1e-3, 1e-2, 1e-1)
COMPONENTS = (1, 2, 3, 5, 8)
"""What the two-stage prior is chosen from, by cross-validation over training users."""
N_FOLDS = 5
SCALES = np.geomspace(0.1, 10.0, 41)
"""What the standard deviation of the flat prior is chosen from."""


@dataclass(frozen=True)
class Priors:
    """By agent; and how they were found."""

    by_agent: dict[str, MixturePrior]
    learned: Learned
    """By the evidence, with the number of components chosen."""
    two_stage: tuple[float, int]
    """The ridge and the number of components of the two-stage prior."""


def learn_priors(tasks: LinearStatistics, seed: int) -> Priors:
    """From the statistics of training users, which alone choose all that is to be chosen."""
    learned = learn(
        tasks, "auto",
        seed=seed, max_components=MAX_COMPONENTS, n_restarts=N_RESTARTS, tolerance=TOLERANCE,
        n_folds=N_FOLDS, engine=1,
    )  # fmt: skip
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


def flat_prior(tasks: LinearStatistics, noise_std: float) -> MixturePrior:
    """N(0, s^2 I) with the s that explains the tasks best: as good as a flat prior can be."""
    mean = np.zeros((1, *tasks.shape))
    candidates = [
        MixturePrior(LinearGaussian(mean, [scale**2], noise_std, "spherical")) for scale in SCALES
    ]
    return max(candidates, key=lambda one: float(mixture_evidence(one, tasks).sum()))


def _noise_std(tasks: LinearStatistics) -> float:
    """That of the library's two stages."""
    family = flat_family(tasks)
    assert isinstance(family, LinearGaussian)
    return family.noise_std


def _two_stage(
    tasks: LinearStatistics, ridge: float, n_components: int, noise_std: float, seed: int
) -> MixturePrior:
    estimates = ridge_estimates(tasks, ridge)
    if n_components == 1:
        return gaussian_of_estimates(estimates, noise_std)
    # scikit-learn takes 32 bits.
    state = int(seed_sequence(seed, "two-stage").generate_state(1)[0])
    return mixture_of_estimates(estimates, n_components, noise_std, state, weights="fitted")


def _two_stage_scores(
    tasks: LinearStatistics, noise_std: float, seed: int
) -> dict[tuple[float, int], float]:
    """The log evidence of all tasks, each under a prior of the other folds, by its choices."""
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
