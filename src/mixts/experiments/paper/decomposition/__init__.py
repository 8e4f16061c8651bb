"""The proof of Theorem 1, term by term, in simulation."""

from __future__ import annotations

from mixts.diagnostics import Decomposition, prepare_decomposition
from mixts.environments import BanditEnvironment
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
from mixts.experiments.paper._synthetic import arms_prior
from mixts.experiments.paper.decomposition.analysis import analyse
from mixts.simulation import Simulation

WIDTHS = (0.05, 0.3)
"""One at which the latent state is all there is to find, and one at which parameters matter."""


class DecompositionExperiment(Experiment):
    """Eq. 1 and the sums of the proof, both sides measured  [paper: Sec. 4.1]."""

    title = "The analysis, term by term"
    place = "Sec. 4, App. A"
    scale = Scale(200, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        return {
            f"width={width:g}": SimulationPart(_simulation(setting, width), microseconds=20.0)
            for width in WIDTHS
        }

    def analyse(self, measured: Measured) -> Findings:
        results = {
            width: Decomposition.of(arms_prior(width=width), measured.results(f"width={width:g}"))
            for width in WIDTHS
        }
        return analyse(measured, results)


def _simulation(setting: Setting, width: float) -> Simulation:
    """Return the synthetic bandit as arms, which give the same numbers as unit vectors."""
    prior = arms_prior(width=width)
    return prepare_decomposition(
        prior, BanditEnvironment(prior), setting.n_rounds, setting.n_runs, setting.seed
    )


EXPERIMENT = DecompositionExperiment()
