"""A small experiment whose blocks say when they begin, where workers can import it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
from mixts_paper.experiments import (
    Analysis,
    Blocks,
    Experiment,
    Measured,
    Scale,
    Setting,
    SimulationBlocks,
)
from mixts_paper.experiments.base import Arrays, Once

import mixts
from mixts import errors


class SlowPart(SimulationBlocks):
    """Agents on a bandit; a block leaves its number and its process in a folder, then sleeps."""

    def __init__(
        self,
        name: str,
        prior: mixts.MixturePrior,
        setting: Setting,
        marks: Path,
        seconds: float,
    ) -> None:
        agents = {"MixTS": prior, "UniTS": prior.collapse()}
        super().__init__(agents, mixts.BanditEnvironment(prior), setting, block_size=2)
        self.cost = 1.0  # so that every block is a job
        self.name, self.marks, self.seconds = name, marks, seconds

    def play(self, block: int) -> Arrays:
        (self.marks / f"{self.name}-{block}-{os.getpid()}").touch()
        time.sleep(self.seconds)
        return super().play(block)


class SlowExperiment(Experiment):
    """Two priors, six blocks each, that take as long as one likes."""

    id = "test/slow"
    title = "A slow one"
    place = "nowhere"
    scale = quick = Scale(12, 30)
    template = "A paragraph."

    def __init__(self, marks: Path, seconds: float) -> None:
        self.marks, self.seconds = marks, seconds

    def parts(self, setting: Setting, once: Once) -> dict[str, Blocks]:
        means = np.array([[0.8, 0.5, 0.2], [0.2, 0.5, 0.8]])
        priors = {
            name: mixts.MixturePrior(mixts.BernoulliArms(size * means, size * (1 - means)))
            for name, size in (("vague", 2), ("sure", 20))
        }
        return {
            name: SlowPart(name, prior, setting, self.marks, self.seconds)
            for name, prior in priors.items()
        }

    def analyse(self, measured: Measured) -> Analysis:
        return Analysis()


# -- single jobs ----------------------------------------------------------------------------------


def total(array: np.ndarray) -> float:
    return float(array.sum())


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def variables(*names: str) -> list[str | None]:
    return [os.environ.get(name) for name in names]


def kill_worker(array: np.ndarray) -> None:
    """Kill this process, as the system does if memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    error = errors.OutcomeError("enough")
    error.add_note("(in block 7)")
    raise error
