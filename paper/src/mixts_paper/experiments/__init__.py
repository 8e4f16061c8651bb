"""Experiments: each is a problem, a sweep and an analysis, with a template for its report."""

from mixts_paper.experiments.base import (
    Analysis,
    Blocks,
    Experiment,
    Measured,
    Scale,
    Setting,
    SimulationBlocks,
    all_experiments,
)
from mixts_paper.experiments.runner import Reproduction, reproduce

__all__ = [
    "Analysis",
    "Blocks",
    "Experiment",
    "Measured",
    "Reproduction",
    "Scale",
    "Setting",
    "SimulationBlocks",
    "all_experiments",
    "reproduce",
]
