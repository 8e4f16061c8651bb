"""Experiments: each is a problem, a sweep and an analysis, with a template for its report."""

from mixts.experiments.base import (
    Analysis,
    Experiment,
    Measured,
    Part,
    Scale,
    Setting,
    SimulationPart,
)
from mixts.experiments.registry import all_experiments
from mixts.experiments.runner import Reproduction, reproduce

__all__ = [
    "Analysis",
    "Experiment",
    "Measured",
    "Part",
    "Reproduction",
    "Scale",
    "Setting",
    "SimulationPart",
    "all_experiments",
    "reproduce",
]
