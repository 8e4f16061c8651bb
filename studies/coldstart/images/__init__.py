"""Images as tasks: priors learned in two stages and by the evidence, from the same logs."""

from __future__ import annotations

from functools import partial
from typing import Any

from mixts.environments import ClassificationBandit
from mixts.experiments.base import (
    Experiment,
    Findings,
    Measured,
    Once,
    Part,
    Scale,
    Setting,
    SimulationPart,
)
from mixts.experiments.paper.images import BLOCK, ImagesExperiment, features_of
from mixts.simulation import prepare
from studies.coldstart.images.analysis import analyse
from studies.coldstart.images.priors import LOGS, learned, priors_of, scores


class LearnedImagesExperiment(Experiment):
    """The paper's classification bandit; what differs is how the prior is learned."""

    title = "Image classification: two ways to learn the prior"
    place = "after Sec. 6.2"
    scale = Scale(100, 500)
    quick = Scale(10, 60)
    options = ("features",)

    def choices(self, **given: Any) -> dict[str, str]:
        """The same as the paper's experiment."""
        return ImagesExperiment().choices(**given)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        images = features_of(setting)
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

    def analyse(self, measured: Measured) -> Findings:
        return analyse(measured)


EXPERIMENT = LearnedImagesExperiment()
