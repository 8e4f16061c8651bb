"""MixTS against PSRL on RiverSwim."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mixts.agents import Oracle
from mixts.environments import RiverSwim
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
from mixts.experiments.paper.riverswim.analysis import analyse
from mixts.experiments.parts import TruthPart
from mixts.families import TabularMDP
from mixts.mixture import MixturePrior
from mixts.simulation import prepare

BLOCK = 125
"""Runs in lockstep: four blocks of the paper's 500."""
FOLLOWED = 20
"""Episodes in which the probability of the true current is followed: one is enough."""


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
