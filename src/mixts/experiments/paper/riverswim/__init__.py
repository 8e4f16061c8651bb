"""MixTS against PSRL on RiverSwim."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mixts.agents import Oracle
from mixts.diagnostics.confidence import follow_confidence_sets
from mixts.environments import RiverSwim
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
from mixts.experiments.paper.riverswim.analysis import analyse
from mixts.experiments.parts import TruthPart
from mixts.families import TabularMDP
from mixts.prior import MixturePrior
from mixts.simulation import prepare

BLOCK = 125
"""Runs in lockstep: four blocks of the paper's 500."""
FOLLOWED = 20
"""Episodes in which the probability of the true current is followed: one is enough."""
MEASURED_RUNS = 50
"""Runs whose confidence widths are summed: they hardly differ."""


class WidthsPart(Part):
    """The sums of App. B: each run's confidence widths, and what its confidence sets lost.

    ``widths`` is h times the sum of c_t + phi_t over all steps of all episodes; ``missed`` says
    whether the sets ever lost the true current, ``excluded`` whether they lost any.
    """

    def __init__(self, river: RiverSwim, setting: Setting) -> None:
        self._river, self._setting = river, setting
        self.cost = 1e-4 * self._n_runs * setting.n_rounds

    @property
    def _n_runs(self) -> int:
        return min(MEASURED_RUNS, self._setting.n_runs)

    @property
    def n_blocks(self) -> int:
        return 1

    def play(self, block: int) -> Arrays:
        sets = follow_confidence_sets(
            self._river.prior, self._river, self._setting.n_rounds, self._n_runs,
            self._setting.seed, n_samples=8,
        )  # fmt: skip
        return {
            "widths": sets.width.sum(axis=1),
            "missed": sets.missed(),
            "excluded": sets.excluded().any(axis=1),
        }


class RiverSwimExperiment(Experiment):
    """Ten states, horizon 20, 1,000 episodes, 500 runs  [paper: Sec. 6.3]."""

    title = "RiverSwim with a current of unknown direction"
    place = "Sec. 6.3, Fig. 2 right"
    scale = Scale(500, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        river = RiverSwim()
        simulation = prepare(
            agents_of(river), river, setting.n_rounds, setting.n_runs, setting.seed,
            block_size=BLOCK,
        )  # fmt: skip
        n_followed = min(FOLLOWED, setting.n_rounds)
        return {
            "agents": SimulationPart(simulation, microseconds=15.0),
            "widths": WidthsPart(river, setting),
            "current": TruthPart(
                river.prior, river, n_followed, setting.n_runs, setting.seed, block_size=BLOCK
            ),
        }

    def analyse(self, measured: Measured) -> Findings:
        river = RiverSwim()
        family = river.prior.family
        assert isinstance(family, TabularMDP)
        return analyse(measured, river, family.min_pseudo_count)


def agents_of(river: RiverSwim) -> dict[str, Any]:
    """PSRL is MixTS with one uniform component; once it is told which states are neighbours."""
    size = (river.n_states, 2, river.horizon, river.start_state)
    family = river.prior.family
    assert isinstance(family, TabularMDP)
    neighbours = np.asarray((family.transition > 0).any(axis=0))
    return {
        "Oracle": partial(Oracle, river.prior),
        "MixTS": river.prior,
        "UniTS": river.prior.collapse(),
        "PSRL, neighbours": MixturePrior(TabularMDP.uniform(*size, neighbours)),
        "PSRL": MixturePrior(TabularMDP.uniform(*size)),
    }


EXPERIMENT = RiverSwimExperiment()
