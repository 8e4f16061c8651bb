"""Many runs, many agents, one problem: simulation and its results."""

from mixts.engines.workers import WorkerPool
from mixts.estimates import Estimate, estimate
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
