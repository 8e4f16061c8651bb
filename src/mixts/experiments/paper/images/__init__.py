"""Image classification as a bandit, the whole pipeline."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from mixts.agents import CorralExp4, Exp4
from mixts.environments import ClassificationBandit
from mixts.experiments.base import (
    Arrays,
    Experiment,
    Findings,
    Measured,
    Once,
    Part,
    Scale,
    Setting,
    SimulationPart,
)
from mixts.experiments.features import ImageFeatures
from mixts.experiments.paper.images.analysis import analyse
from mixts.experiments.paper.images.past import past_coefficients, prior_arrays, prior_of
from mixts.families import LinearGaussian
from mixts.prior import MixturePrior
from mixts.simulation import prepare

NOISE = 0.5
"""Of the model; rewards are 0 or 1, and the model is wrong on purpose."""
BLOCK = 10
"""Runs in lockstep: ten blocks of the paper's 100."""
TUNED: dict[str, dict[str, dict[str, Any]]] = {
    "Exp4": {
        "Exp4, losses 0.1": {"gamma": 0.0, "eta": 0.1, "estimates": "losses"},
        "Exp4, losses 0.2": {"gamma": 0.0, "eta": 0.2, "estimates": "losses"},
        "Exp4, losses 0.5": {"gamma": 0.0, "eta": 0.5, "estimates": "losses"},
        "Exp4, losses 1": {"gamma": 0.0, "eta": 1.0, "estimates": "losses"},
        "Exp4, rewards 0.1": {"gamma": 0.1, "eta": 0.1, "estimates": "rewards"},
    },
    # Every expert learns in every round, which takes long: what suits Exp4 on images.
    "CorralExp4": {
        "CorralExp4, losses 0.5": {"gamma": 0.0, "eta": 0.5, "estimates": "losses"},
    },
}
"""Variants tuned by hand: the name says the form of the estimates, and eta."""


class ImagesExperiment(Experiment):
    """Ten images a round, one of them surely of the task's class  [paper: Sec. 6.2]."""

    title = "Image classification as a bandit"
    place = "Sec. 6.2, Fig. 1 right"
    scale = Scale(100, 500)
    quick = Scale(10, 100)
    options = ("features",)

    def choices(self, features: str | Path | None = None, **_: Any) -> dict[str, str]:
        """A file is known by its content."""
        if features is None:
            return {}
        ImageFeatures.load(features)  # refuses what is none
        return {"features": f"sha256 {_hash(Path(features))}"}

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        images = features_of(setting)
        coefficients = once("coefficients", partial(_coefficients, images, setting.seed))
        fitted = once(
            "prior",
            partial(
                prior_arrays, coefficients["coefficients"], images.n_classes, NOISE, setting.seed
            ),
        )
        prior, unimodal = prior_of(fitted, NOISE)
        simulation = prepare(
            agents_of(prior, unimodal),
            ClassificationBandit(images.test_features, images.test_labels),
            setting.n_rounds, setting.n_runs, setting.seed, block_size=BLOCK,
        )  # fmt: skip
        microseconds = 20 + 0.003 * images.n_classes * images.n_features
        return {"agents": SimulationPart(simulation, microseconds=microseconds)}

    def analyse(self, measured: Measured) -> Findings:
        return analyse(measured, {kind: tuple(variants) for kind, variants in TUNED.items()})


def features_of(setting: Setting) -> ImageFeatures:
    """The images of this setting: the digits, or those of a file."""
    path = setting.sources.get("features")
    return ImageFeatures.digits() if path is None else ImageFeatures.load(path)


def agents_of(prior: MixturePrior, unimodal: MixturePrior) -> dict[str, Any]:
    """MixTS and the paper's four baselines, and Exp4 tuned by hand."""
    family = prior.family
    assert isinstance(family, LinearGaussian)
    flat = MixturePrior(LinearGaussian.standard(family.n_features, NOISE))
    kinds: dict[str, Any] = {
        "Exp4": partial(Exp4, family.mean),
        "CorralExp4": partial(CorralExp4, prior),
    }
    tuned = {
        name: partial(kinds[kind], **options)
        for kind, variants in TUNED.items()
        for name, options in variants.items()
    }
    return {"MixTS": prior, "UniTS": unimodal, "TS": flat, **kinds, **tuned}


def _coefficients(images: ImageFeatures, seed: int) -> Arrays:
    return past_coefficients(images.train_features, images.train_labels, seed)


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


EXPERIMENT = ImagesExperiment()
