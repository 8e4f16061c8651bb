"""The regret decomposition of the paper's proofs, measured in simulations."""

from mixts.diagnostics.decomposition.inequalities import Inequality, PriorScales
from mixts.diagnostics.decomposition.play import (
    DecomposedSimulation,
    decompose_regret,
    prepare_decomposition,
)
from mixts.diagnostics.decomposition.result import Decomposition

__all__ = [
    "DecomposedSimulation",
    "Decomposition",
    "Inequality",
    "PriorScales",
    "decompose_regret",
    "prepare_decomposition",
]
