"""One task as MixTS identifies it."""

from __future__ import annotations

import numpy as np

from mixts.diagnostics.identification import identify
from mixts.environments import BanditEnvironment
from mixts.experiments.base import (
    Arrays,
    Experiment,
    Findings,
    Measured,
    Once,
    Part,
    Scale,
    Setting,
)
from mixts.experiments.paper._synthetic import arms_prior
from mixts.experiments.paper.identification.analysis import analyse

WIDTH = 0.1
MOST_RUNS = 20
"""One is drawn; a few more say how soon others are identified, whatever --runs says."""


class IdentificationPart(Part):
    """Runs of one task each: what was believed after every round."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.cost = 2e-3 * setting.n_rounds

    @property
    def n_blocks(self) -> int:
        return min(self._setting.n_runs, MOST_RUNS)

    def play(self, block: int) -> Arrays:
        prior = arms_prior(width=WIDTH)
        one = identify(
            prior, BanditEnvironment(prior), self._setting.n_rounds, self._setting.seed, run=block
        )
        names = ("truth", "weights", "means", "deviations", "sampled", "actions", "rewards")
        arrays = {name: np.asarray(getattr(one, name))[None] for name in names}
        return {**arrays, "regret": one.regret[None], "latent": np.array([one.latent])}


class IdentificationExperiment(Experiment):
    """A task of the synthetic bandit, followed through its first rounds  [paper: Alg. 1]."""

    title = "One task as it is identified"
    place = "Alg. 1"
    scale = Scale(20, 300)
    quick = Scale(2, 50)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        return {"tasks": IdentificationPart(setting)}

    def analyse(self, measured: Measured) -> Findings:
        return analyse(measured, WIDTH)


EXPERIMENT = IdentificationExperiment()
