"""Image classification: priors learned in two stages and by the evidence, from the same logs."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixts.bounds import Verdict
from mixts.environments import ClassificationBandit
from mixts.experiments import (
    Analysis,
    Experiment,
    Measured,
    Part,
    Scale,
    Setting,
    SimulationPart,
)
from mixts.experiments.base import Arrays, Once
from mixts.experiments.features import ImageFeatures
from mixts.experiments.verdicts import exceeds, not_worse, weakest
from mixts.families import LinearGaussian, LinearStatistics
from mixts.families.linear import CovarianceType
from mixts.learning import learn, mixture_evidence, statistics_of
from mixts.learning.two_stage import one_blas_thread
from mixts.plots import new_axes, plot
from mixts.prior import MixturePrior
from mixts.simulation import Estimate, estimate, prepare
from studies._shared import Array, stream

NOISE = 0.5
"""Noise of the model where the logs are labels, as in the paper."""
BLOCK = 10
"""Runs in a block."""
N_TASKS, N_HELD_OUT = 1000, 200
N_IMAGES = 500
"""Images of each past task, drawn without replacement."""
EARLY = 100
"""Number of rounds that count as the cold start."""

LOGS = ("rewards", "labels")
"""Two forms of logs of past tasks. "rewards": random rewards of 0 or 1, as agents get them; the
noise is learned. "labels", as in the paper: 1 for images of the class, 0 for others, with the
paper's noise."""

MIXTURE, TWO_STAGE, ONE, UNI, FLAT = "MixTS", "MixTS, two-stage", "TS, learned", "UniTS", "TS"
"""The mixture learned by the evidence, and the priors that it is compared with."""
AGENTS = (MIXTURE, TWO_STAGE, ONE, UNI, FLAT)

_TOLERANCE = 3e-3
"""Least gain of evidence per task, of 500 observations, in an iteration of learning."""


class LearnedImagesExperiment(Experiment):
    """The paper's classification bandit, with priors learned in different ways."""

    title = "Image classification: two ways to learn the prior"
    place = "after Sec. 6.2"
    scale = Scale(100, 500)
    quick = Scale(10, 60)
    options = ("features",)

    def choices(self, features: str | Path | None = None, **_: Any) -> dict[str, str]:
        """Return the hash of the file of features: results depend on its content, not its path."""
        if features is None:
            return {}
        ImageFeatures.load(features)  # raises an error if this is not a file of features
        digest = hashlib.sha256(Path(features).read_bytes()).hexdigest()
        return {"features": f"sha256 {digest[:16]}"}

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        path = setting.sources.get("features")
        images = ImageFeatures.digits() if path is None else ImageFeatures.load(path)
        environment = ClassificationBandit(images.test_features, images.test_labels)
        parts: dict[str, Part] = {}
        for logs in LOGS:
            arrays = once(f"priors-{logs}", partial(learned, images, logs, setting.seed))
            priors = priors_of(arrays)
            once(f"scores-{logs}", partial(scores, images, logs, priors, setting.seed))
            simulation = prepare(
                priors, environment, setting.n_rounds, setting.n_runs, setting.seed,
                block_size=BLOCK,
            )  # fmt: skip
            microseconds = 20 + 0.003 * images.n_classes * images.n_features
            parts[logs] = SimulationPart(simulation, microseconds=microseconds)
        return parts

    def analyse(self, measured: Measured) -> Analysis:
        path = measured.setting.sources.get("features")
        arrays = measured.kept["priors-rewards"]
        n_components, n_features = arrays[f"{MIXTURE}/mean"].shape
        compared = {logs: Compared.of(measured, logs) for logs in LOGS}
        verdicts: dict[str, Verdict] = {}
        for logs, one in compared.items():
            for name in (ONE, TWO_STAGE):
                verdicts[f"{logs}, evidence over {name}"] = exceeds(one.ahead[name])
            verdicts[f"{logs}, reward"] = weakest(not_worse(one.early), not_worse(one.whole))
        return Analysis(
            {
                "source": "scikit-learn's digits" if path is None else Path(path).name,
                "n_components": n_components,
                "n_features": n_features,
                "tied": f"{MIXTURE}/tied" in arrays,
                "n_tasks": N_TASKS,
                "n_images": N_IMAGES,
                "n_held_out": N_HELD_OUT,
                "n_early": EARLY,
                "agents": AGENTS,
                "compared": compared,
            },
            verdicts,
            {f"images-{logs}": _figure(measured, logs) for logs in LOGS},
        )


# -- past tasks and priors ------------------------------------------------------------------------


def past_tasks(
    images: tuple[Array, Array], n_tasks: int, logs: str, seed: int, role: str
) -> LinearStatistics:
    """Return the statistics of tasks of random classes, from images (features, labels)."""
    features, labels = images
    rng = stream(seed, "coldstart/images", logs, role)
    bandit = ClassificationBandit(features, labels)
    n_images = min(N_IMAGES, len(labels))
    histories = []
    for task in rng.integers(bandit.n_classes, size=n_tasks):
        shown = rng.choice(len(labels), n_images, replace=False)
        right = labels[shown] == task
        if logs == "rewards":
            rewards = rng.random(n_images) < np.where(right, *bandit.success)
        else:
            rewards = right
        histories.append((features[shown], rewards.astype(float)))
    with one_blas_thread():
        # The paper has Gaussian rewards, although these are 0 or 1.
        family = LinearGaussian.standard(features.shape[1], 1.0)
        statistics = statistics_of(histories, family)
    assert isinstance(statistics, LinearStatistics)
    return statistics


def covariance_type(n_tasks: int, n_components: int, n_features: int) -> CovarianceType:
    """Return "full" where a component has more tasks than dimensions, otherwise "tied"."""
    return "full" if n_tasks > n_components * n_features else "tied"


def learned(images: ImageFeatures, logs: str, seed: int) -> Arrays:
    """Learn all priors from the past tasks and return their parameters."""
    train = images.train_features, images.train_labels
    tasks = past_tasks(train, N_TASKS, logs, seed, "past")
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
        parameters, settings = prior.family.arrays(), prior.family.settings()
        arrays |= {
            f"{name}/weights": prior.weights,
            f"{name}/mean": parameters["mean"],
            f"{name}/{settings['covariance_type']}": parameters["covariance"],
            f"{name}/noise": np.array(settings["noise_std"]),
        }
    return arrays


def priors_of(arrays: Arrays) -> dict[str, MixturePrior]:
    """Return the learned priors, and the paper's uninformative prior with the two-stage noise."""
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
    """Return the log evidence per observation of each held-out task, on test images."""
    test = images.test_features, images.test_labels
    tasks = past_tasks(test, N_HELD_OUT, logs, seed, "held out")
    return {
        name: mixture_evidence(prior, tasks) / tasks.n_observations
        for name, prior in priors.items()
    }


# -- analysis -----------------------------------------------------------------------------------


class Row(NamedTuple):
    """One agent of the table."""

    noise: float
    evidence: Estimate
    ahead: Estimate
    """Evidence of the mixture minus the agent's."""
    early: Estimate
    whole: Estimate


class Compared(NamedTuple):
    """All agents with priors learned from one kind of logs."""

    rows: dict[str, Row]
    early: Estimate
    """Reward of the mixture minus that of the two stages in the first rounds."""
    whole: Estimate
    """The same over all rounds."""

    @property
    def ahead(self) -> dict[str, Estimate]:
        """Evidence of the mixture minus that of each agent."""
        return {name: row.ahead for name, row in self.rows.items()}

    @classmethod
    def of(cls, measured: Measured, logs: str) -> Compared:
        """Compare the agents of one kind of logs."""
        scores, arrays = measured.kept[f"scores-{logs}"], measured.kept[f"priors-{logs}"]
        reward = measured.results(logs).reward

        def mean(name: str, n_rounds: int | None) -> Array:
            return np.asarray(reward[name][:, :n_rounds].mean(axis=1))

        rows = {
            name: Row(
                float(arrays.get(f"{name}/noise", arrays[f"{TWO_STAGE}/noise"])),
                estimate(scores[name]),
                estimate(scores[MIXTURE] - scores[name]),
                estimate(mean(name, EARLY)),
                estimate(mean(name, None)),
            )
            for name in AGENTS
        }
        early, whole = (estimate(mean(MIXTURE, n) - mean(TWO_STAGE, n)) for n in (EARLY, None))
        return cls(rows, early, whole)


def _figure(measured: Measured, logs: str) -> Any:
    ax = new_axes()
    plot(measured.results(logs), ax, quantity="reward", agents=list(AGENTS))
    return ax.figure


EXPERIMENT = LearnedImagesExperiment()
