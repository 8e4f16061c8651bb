"""What an experiment is: a problem, a sweep over it, and an analysis.

The sweep is a dictionary of *parts*, each a simulation that is played block by block, anywhere. The
analysis reads what was measured and says what it means: it plays nothing itself, so that it can be
repeated, and improved, without playing again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixts._typing import Array
from mixts.errors import ParameterError
from mixts.pages import Claim, Table
from mixts.simulation import Results, Simulation

Arrays = dict[str, Array]
Once = Callable[[str, Callable[[], Arrays]], Arrays]
"""``once(name, make)``: what ``make`` gave the first time, kept with the results."""


@dataclass(frozen=True)
class Scale:
    """How much is played."""

    n_runs: int
    n_rounds: int


@dataclass(frozen=True)
class Setting:
    """All that determines the numbers of one experiment, besides its code."""

    n_runs: int
    n_rounds: int
    seed: int
    choices: Mapping[str, str] = field(default_factory=dict)
    """What only this experiment has, by option: ``{"features": "logits.npz, sha256 9f86d0"}``."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where the choices are to be read from; a file that moves stays the same choice."""


class Part(ABC):
    """A simulation of an experiment; goes to workers as it is."""

    cost: float = 1.0
    """About how long a block takes, in seconds: for the order of work and the remaining time."""

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Blocks can be played in any order, by anybody: the numbers stay the same."""

    @abstractmethod
    def play(self, block: int) -> Arrays:
        """The results of one block; the first axis of every array is its runs."""


class SimulationPart(Part):
    """Agents on an environment: regret (and reward) of each, round by round."""

    def __init__(
        self, simulation: Simulation, *, microseconds: float = 10.0, rewards: bool = True
    ) -> None:
        self.simulation = simulation
        self.rewards = rewards
        runs = simulation.width(0) * simulation.n_rounds * len(simulation.recipes)
        self.cost = 1e-6 * microseconds * runs

    @property
    def n_blocks(self) -> int:
        return self.simulation.n_blocks

    def play(self, block: int) -> Arrays:
        played = self.simulation.play(block)
        arrays: Arrays = {"latent": played.latent}
        arrays |= {f"regret/{name}": values for name, values in played.regret.items()}
        if self.rewards:
            arrays |= {f"reward/{name}": values for name, values in played.reward.items()}
        for name, observed in played.observed.items():
            arrays |= {f"observed/{name}/{key}": array for key, array in observed.items()}
        return arrays


@dataclass(frozen=True)
class Measured:
    """What an experiment's parts gave, all blocks together."""

    setting: Setting
    parts: Mapping[str, Arrays]
    """By part: arrays whose first axis is the runs."""
    kept: Mapping[str, Arrays] = field(default_factory=dict)
    """What the preparation made once."""

    def results(self, part: str) -> Results:
        """A part of agents on an environment, as :func:`mixts.simulate` would have given it."""
        arrays = self.parts[part]
        regret = _named(arrays, "regret/")
        reward = _named(arrays, "reward/") or {name: _unknown(a) for name, a in regret.items()}
        n_runs, n_rounds = next(iter(regret.values())).shape
        settings = {"n_runs": n_runs, "n_rounds": n_rounds, "seed": self.setting.seed}
        observed = {name: _named(arrays, f"observed/{name}/") for name in regret}
        observed = {name: kept for name, kept in observed.items() if kept}
        return Results(regret, reward, arrays["latent"], settings, observed)


def _named(arrays: Arrays, prefix: str) -> Arrays:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _unknown(array: Array) -> Array:
    return np.broadcast_to(np.nan, array.shape)


@dataclass(frozen=True)
class Drawing:
    """A matplotlib figure, what it shows for who cannot see it, and its caption."""

    name: str
    figure: Any
    alt: str
    caption: str


@dataclass(frozen=True)
class Findings:
    """What an analysis says."""

    paragraphs: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    headline: str = ""
    """The finding in one sentence, for the top of a report."""


class Experiment(ABC):
    """One experiment, addressed by a short id such as ``paper/width``."""

    id: str = ""
    """Group and name, set by the registry."""
    address: str = ""
    """What `mixts reproduce` is to be called with, set by the registry; the id unless given."""
    title: ClassVar[str]
    place: ClassVar[str]
    """Where in the paper: "Sec. 6.1, Fig. 1 left"."""
    scale: ClassVar[Scale]
    """The paper's own."""
    quick: ClassVar[Scale]
    """Enough to see that it works."""
    options: ClassVar[tuple[str, ...]] = ()
    """Choices of the command line that this experiment understands."""

    def choices(self, **given: Any) -> dict[str, str]:
        """By option, what determines the numbers: of a file its content, not its path."""
        return {}

    @abstractmethod
    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        """The sweep; what is slow to make is kept by ``once(name, make)``."""

    @abstractmethod
    def analyse(self, measured: Measured) -> Findings:
        """What it means."""


def checked_id(id: str) -> str:
    """An id is a group and a name: ``paper/width``."""
    group, _, name = id.partition("/")
    if not (group.isidentifier() and name.replace("-", "_").isidentifier()):
        raise ParameterError(f"an experiment's id must look like paper/width, got {id!r}")
    return id
