"""Past tasks of images, the priors learned from them, and what these say of other tasks."""

from __future__ import annotations

import numpy as np

from mixts.environments import ClassificationBandit
from mixts.experiments.base import Arrays
from mixts.experiments.features import ImageFeatures
from mixts.experiments.paper.images import NOISE
from mixts.families import LinearGaussian, LinearStatistics
from mixts.families._kernels.triangles import triangle
from mixts.families.linear import CovarianceType
from mixts.learning import learn
from mixts.learning.two_stage import one_blas_thread
from mixts.prior import MixturePrior
from studies._shared import Array, mixture_evidence, stream

N_TASKS, N_HELD_OUT = 1000, 200
N_IMAGES = 500
"""Of each past task, without replacement."""

LOGS = ("rewards", "labels")
"""What past tasks have logged: rewards as agents get them, 0 or 1 by chance, with the noise
learned; or as in the paper whether the image is of the class, with the paper's noise."""

MIXTURE, TWO_STAGE, ONE, UNI, FLAT = "MixTS", "MixTS, two-stage", "TS, learned", "UniTS", "TS"
"""The evidence-learned mixture, and whom it is compared with."""

_TOLERANCE = 3e-3
"""For each task, of 500 observations; more moves no decision."""


def past_tasks(
    features: Array, labels: Array, n: int, logs: str, seed: int, role: str
) -> LinearStatistics:
    """Tasks of random classes, each with its images and rewards."""
    rng = stream(seed, "coldstart/images", logs, role)
    bandit = ClassificationBandit(features, labels)
    n_images = min(N_IMAGES, len(labels))
    size = features.shape[1] + 1
    factor = np.empty((n, size, size))
    with one_blas_thread():
        for i, task in enumerate(rng.integers(bandit.n_classes, size=n)):
            shown = rng.choice(len(labels), n_images, replace=False)
            means = np.where(labels[shown] == task, *bandit.success)
            right = (labels[shown] == task).astype(float)
            rewards = (rng.random(n_images) < means).astype(float) if logs == "rewards" else right
            rows = np.concatenate([features[shown], rewards[:, None]], axis=1)
            factor[i] = triangle(rows[None])[0]
    return LinearStatistics(count=np.full(n, n_images), factor=factor)


def covariance_type(n_tasks: int, n_components: int, n_features: int) -> CovarianceType:
    """Its own for each component where it has more tasks than dimensions, else one for all."""
    return "full" if n_tasks > n_components * n_features else "tied"


def learned(images: ImageFeatures, logs: str, seed: int) -> Arrays:
    """The parameters of every learned prior."""
    tasks = past_tasks(images.train_features, images.train_labels, N_TASKS, logs, seed, "past")
    n, d = images.n_classes, images.n_features
    noise = None if logs == "rewards" else NOISE
    kind = covariance_type(N_TASKS, n, d)
    evidence = learn(
        tasks, n, seed=seed, noise_std=noise, covariance_type=kind, n_restarts=2,
        tolerance=_TOLERANCE,
    )  # fmt: skip
    two_stage = learn(tasks, n, "two-stage", seed=seed, noise_std=noise)
    found = {
        MIXTURE: evidence.prior,
        TWO_STAGE: two_stage.prior,
        ONE: evidence.unimodal,
        UNI: two_stage.unimodal,
    }
    arrays: Arrays = {}
    for name, prior in found.items():
        family = prior.family
        assert isinstance(family, LinearGaussian)
        tied = family.covariance_type == "tied"
        arrays |= {
            f"{name}/weights": prior.weights,
            f"{name}/mean": family.mean,
            f"{name}/{'tied' if tied else 'full'}": family.covariance,
            f"{name}/noise": np.array(family.noise_std),
        }
    return arrays


def priors_of(arrays: Arrays) -> dict[str, MixturePrior]:
    """The learned priors, and the paper's uninformative one with the two stages' noise."""
    priors = {}
    for name in (MIXTURE, TWO_STAGE, ONE, UNI):
        kind: CovarianceType = "tied" if f"{name}/tied" in arrays else "full"
        family = LinearGaussian(
            arrays[f"{name}/mean"], arrays[f"{name}/{kind}"], float(arrays[f"{name}/noise"]), kind
        )
        priors[name] = MixturePrior(family, arrays[f"{name}/weights"])
    d = arrays[f"{UNI}/mean"].shape[1]
    flat = LinearGaussian.standard(d, float(arrays[f"{TWO_STAGE}/noise"]))
    return {**priors, FLAT: MixturePrior(flat)}


def scores(images: ImageFeatures, logs: str, priors: dict[str, MixturePrior], seed: int) -> Arrays:
    """The log evidence an observation of each held-out task, on test images."""
    tasks = past_tasks(images.test_features, images.test_labels, N_HELD_OUT, logs, seed, "held out")
    return {
        name: mixture_evidence(prior, tasks) / tasks.n_observations
        for name, prior in priors.items()
    }
