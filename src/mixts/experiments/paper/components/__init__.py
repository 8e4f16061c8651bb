"""Bayes regret against the number of latent states."""

from __future__ import annotations

from mixts.experiments.base import Experiment, Findings, Measured, Once, Part, Scale, Setting
from mixts.experiments.paper._synthetic import WIDTH, synthetic_part
from mixts.experiments.paper.components.analysis import analyse

NUMBERS = (1, 2, 5, 10, 15, 20, 25, 30)
WIDE = 0.3
"""Another width for L = 1: at the sweep's there is nothing to learn."""


class ComponentsExperiment(Experiment):
    """MixTS at width 0.05 with up to 30 latent states  [paper: Sec. 6.1]."""

    title = "Regret and bound over the number of latent states"
    place = "Sec. 6.1, Fig. 1 middle"
    scale = Scale(200, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        sweep = {f"L={number}": synthetic_part(setting, number, WIDTH) for number in NUMBERS}
        return {**sweep, f"L=1, width={WIDE:g}": synthetic_part(setting, 1, WIDE)}

    def analyse(self, measured: Measured) -> Findings:
        return analyse(measured, NUMBERS, WIDE)


EXPERIMENT = ComponentsExperiment()
