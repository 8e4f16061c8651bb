"""Many runs, many agents, one problem: simulation and its results."""

from mixts._numbers import Estimate, estimate
from mixts.engines import WorkerPool
from mixts.simulation._blocks import (
    Observer,
    Recorder,
    Round,
    RoundRecorder,
    Simulation,
    check_latent,
)
from mixts.simulation.results import Results, Summary, Sweep
from mixts.simulation.simulate import AgentSpec, prepare, simulate

__all__ = [
    "AgentSpec",
    "Estimate",
    "Observer",
    "Recorder",
    "Results",
    "Round",
    "RoundRecorder",
    "Simulation",
    "Summary",
    "Sweep",
    "WorkerPool",
    "check_latent",
    "estimate",
    "prepare",
    "simulate",
]
