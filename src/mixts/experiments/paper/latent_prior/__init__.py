"""Bayes regret over latent priors that are not uniform."""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Float
from mixts.experiments.base import Experiment, Findings, Measured, Once, Part, Scale, Setting
from mixts.experiments.paper._synthetic import N_COMPONENTS, WIDTH, synthetic_part
from mixts.experiments.paper.latent_prior.analysis import analyse

EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Of P_0(s) proportional to s^-a, s = 1 to L; 0 is uniform."""


def latent_weights(exponent: float) -> Float[Array, " L"]:
    """Zipf's law over the latent states."""
    weights = np.arange(1.0, N_COMPONENTS + 1) ** -exponent
    return weights / weights.sum()


class LatentPriorExperiment(Experiment):
    """The bound does not depend on P_0; the regret does  [paper: Sec. 4.3]."""

    title = "Latent priors that are not uniform"
    place = "Sec. 4.3"
    scale = Scale(200, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        return {
            f"a={a:g}": synthetic_part(setting, N_COMPONENTS, WIDTH, latent_weights(a))
            for a in EXPONENTS
        }

    def analyse(self, measured: Measured) -> Findings:
        return analyse(measured, EXPONENTS, [latent_weights(a) for a in EXPONENTS])


EXPERIMENT = LatentPriorExperiment()
