"""An experiment of a second, for tests; in a module, so that worker processes find it."""

from __future__ import annotations

import os
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


def bandit() -> mixts.MixturePrior:
    alpha = np.array([[8.0, 2.0, 2.0], [2.0, 8.0, 2.0]])
    return mixts.MixturePrior(mixts.BernoulliArms(alpha, 10 - alpha))


class CountingPart(Blocks):
    """Arrays that say which block they are; leaves a mark for each block that is played."""

    def __init__(self, marks: Path | None, n_blocks: int = 3) -> None:
        self._marks, self.n_blocks = marks, n_blocks

    def play(self, block: int) -> Arrays:
        if self._marks is not None:
            stop = self._marks / "stop"
            if stop.exists() and len(list(self._marks.glob("played-*"))) >= int(stop.read_text()):
                raise KeyboardInterrupt
            (self._marks / f"played-{block}-{os.getpid()}-{time.time_ns()}").touch()
        return {"number": np.full((2, 3), float(block))}


class FailingPart(Blocks):
    """Never gives anything."""

    def play(self, block: int) -> Arrays:
        raise RuntimeError("always")


TEMPLATE = """\
A paragraph.

## claim sum (nowhere)
Numbers add up.

measured: {{ total|fmt("g") }}, kept {{ kept|fmt("g") }}

## table agents
Agents.

| agent |
|---|
{% for agent in agents %}
| {{ agent }} |
{% endfor %}
"""


class SmallExperiment(Experiment):
    """Two parts, one of them a simulation; ``marks`` is where played blocks leave a mark."""

    id = "test/small"
    title = "A small one"
    place = "nowhere"
    scale = Scale(6, 20)
    quick = Scale(4, 5)
    options = ("flavour",)
    template = TEMPLATE

    def __init__(self, marks: Path | None = None) -> None:
        self.marks = marks

    def choices(self, flavour: str = "plain", **_: object) -> dict[str, str]:
        return {} if flavour == "plain" else {"flavour": flavour.strip()}

    def parts(self, setting: Setting, once: Once) -> dict[str, Blocks]:
        once("made", lambda: {"number": np.array([float(setting.seed)])})
        prior = bandit()
        agents = {"MixTS": prior, "UniTS": prior.collapse()}
        bandits = mixts.BanditEnvironment(prior)
        return {
            "counted": CountingPart(self.marks),
            "agents": SimulationBlocks(agents, bandits, setting, block_size=2),
        }

    def analyse(self, measured: Measured) -> Analysis:
        return Analysis(
            {
                "agents": measured.results("agents").agents,
                "total": measured.parts["counted"]["number"].sum(),
                "kept": measured.kept["made"]["number"][0],
            },
            {"sum": "holds"},
        )
