"""The proof of Theorem 1, term by term, in simulation."""

from __future__ import annotations

from mixts.diagnostics.decomposition import DecomposedSimulation, prepare_decomposition
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
from mixts.experiments.paper.decomposition.analysis import analyse

WIDTHS = (0.05, 0.3)
"""One at which the latent state is all there is to find, and one at which parameters matter."""


class DecompositionPart(Part):
    """The regret in its two parts, and the widths that bound them."""

    def __init__(self, decomposed: DecomposedSimulation) -> None:
        self._decomposed = decomposed
        simulation = decomposed.simulation
        self.cost = 2e-5 * simulation.n_rounds * simulation.width(0)

    @property
    def n_blocks(self) -> int:
        return self._decomposed.n_blocks

    def play(self, block: int) -> Arrays:
        return self._decomposed.play(block)


class DecompositionExperiment(Experiment):
    """Eq. 1 and the sums of the proof, both sides measured  [paper: Sec. 4.1]."""

    title = "The analysis, term by term"
    place = "Sec. 4, App. A"
    scale = Scale(200, 1000)
    quick = Scale(20, 100)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        return {
            f"width={width:g}": DecompositionPart(decomposed(setting, width)) for width in WIDTHS
        }

    def analyse(self, measured: Measured) -> Findings:
        results = {
            width: decomposed(measured.setting, width).assemble(
                [measured.parts[f"width={width:g}"]]
            )
            for width in WIDTHS
        }
        return analyse(measured, results)


def decomposed(setting: Setting, width: float) -> DecomposedSimulation:
    """The synthetic bandit as arms: unit vectors make it one, and the numbers are the same."""
    prior = arms_prior(width=width)
    return prepare_decomposition(
        prior, BanditEnvironment(prior), setting.n_rounds, setting.n_runs, setting.seed
    )


EXPERIMENT = DecompositionExperiment()
