"""Many runs, many agents, one problem: simulation and its results."""

from mixts.simulation.results import Estimate, Results, Summary
from mixts.simulation.simulate import simulate
from mixts.simulation.specs import AgentSpec
from mixts.simulation.workers import WorkerPool

__all__ = ["AgentSpec", "Estimate", "Results", "Summary", "WorkerPool", "simulate"]
