"""Bayes regret against the width of the prior."""

from __future__ import annotations

from mixts.experiments.base import Experiment, Findings, Measured, Once, Part, Scale, Setting
from mixts.experiments.paper._synthetic import N_COMPONENTS, synthetic_part
from mixts.experiments.paper.width.analysis import analyse

WIDTHS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""The paper does not give its own."""


class WidthExperiment(Experiment):
    """MixTS at L = 30 and ten widths, and in the limit of width 0  [paper: Sec. 6.1]."""

    title = "Regret and bound over the width of the prior"
    place = "Sec. 6.1, Fig. 1 left"
    scale = Scale(200, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        return {
            f"width={width:g}": synthetic_part(setting, N_COMPONENTS, width)
            for width in (0.0, *WIDTHS)
        }

    def analyse(self, measured: Measured) -> Findings:
        return analyse(measured, WIDTHS)


EXPERIMENT = WidthExperiment()
