"""The paper's experiments: each is a problem, a sweep and an analysis, in a folder of its own."""

from mixts.experiments.base import (
    Drawing,
    Experiment,
    Findings,
    Measured,
    Part,
    Scale,
    Setting,
    SimulationPart,
)
from mixts.experiments.registry import all_experiments
from mixts.experiments.reproduction import Reproduction, reproduce

__all__ = [
    "Drawing",
    "Experiment",
    "Findings",
    "Measured",
    "Part",
    "Reproduction",
    "Scale",
    "Setting",
    "SimulationPart",
    "all_experiments",
    "reproduce",
]
