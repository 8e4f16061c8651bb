"""Many runs, many agents, one problem: simulation and its results."""

from mixts._numbers import Estimate, estimate
from mixts.engines.workers import WorkerPool
from mixts.simulation.blocks import Simulation
from mixts.simulation.results import Results, Summary
from mixts.simulation.simulate import prepare, simulate
from mixts.simulation.specs import AgentSpec

__all__ = [
    "AgentSpec",
    "Estimate",
    "Results",
    "Simulation",
    "Summary",
    "WorkerPool",
    "estimate",
    "prepare",
    "simulate",
]
