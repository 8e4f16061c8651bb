"""The parts of an experiment: a problem, a sweep over it, and an analysis.

The sweep is a dictionary of *parts*, each a simulation that runs block by block on any worker. The
analysis turns the measured arrays into numbers, verdicts and figures; a template beside the
experiment's module turns these into sentences and tables. Neither simulates anything, so a report
can be written again, and improved, without running the simulations again.

Experiments of the package are found by id, others by the name of their module.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from mixts.environments import Environment
from mixts.errors import ParameterError
from mixts.extend import Array, Estimate
from mixts.pages import Verdict
from mixts.simulation import AgentSpec, Results, prepare

Arrays = dict[str, Array]
Once = Callable[[str, Callable[[], Arrays]], Arrays]
"""``once(name, make)`` returns the arrays that ``make`` made the first time, kept on disk."""


@dataclass(frozen=True)
class Scale:
    """Number of runs, and of rounds (or episodes) in each."""

    n_runs: int
    n_rounds: int


@dataclass(frozen=True)
class Setting:
    """Everything that determines the numbers of one experiment, apart from the code."""

    n_runs: int
    n_rounds: int
    seed: int
    choices: Mapping[str, str] = field(default_factory=dict)
    """The experiment's own options by name: ``{"features": "logits.npz, sha256 9f86d0"}``."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Paths of the files that the choices describe; a file that moves is the same choice."""


# -- parts ----------------------------------------------------------------------------------------


class Blocks(ABC):
    """A simulation of an experiment, split into blocks; workers receive it pickled."""

    n_blocks: int = 1
    """Number of blocks; they may run in any order on any worker, with the same numbers."""
    cost: float = 1.0
    """Approximate seconds for one block: they decide the order of work and the remaining time."""

    @abstractmethod
    def play(self, block: int) -> Arrays:
        """Run one block and return its arrays; the first axis of each is the runs."""


class SimulationBlocks(Blocks):
    """Agents on an environment: regret, reward and observations of each, round by round."""

    def __init__(
        self,
        agents: Mapping[str, AgentSpec],
        environment: Environment,
        setting: Setting,
        *,
        microseconds: float = 10.0,
        rewards: bool = True,
        **options: Any,
    ) -> None:
        """Prepare the simulation of a setting.

        Parameters
        ----------
        agents, environment
            As in :func:`mixts.simulate`.
        setting
            Numbers of runs and rounds, and the seed.
        microseconds
            Approximate time for one decision of one agent.
        rewards
            Whether to keep the rewards besides the regret.
        options
            Options of :func:`mixts.simulation.prepare`, which take precedence over the setting.
        """
        size = {"n_rounds": setting.n_rounds, "n_runs": setting.n_runs, "seed": setting.seed}
        self.simulation = prepare(agents, environment, **{**size, **options})
        self.rewards = rewards
        n_decisions = self.simulation.width(0) * self.simulation.n_rounds * len(agents)
        self.cost = 1e-6 * microseconds * n_decisions
        self.n_blocks = self.simulation.n_blocks

    def play(self, block: int) -> Arrays:
        played = self.simulation.play(block)
        arrays: Arrays = {"latent": played.latent}
        arrays |= {f"regret/{name}": values for name, values in played.regret.items()}
        if self.rewards:
            arrays |= {f"reward/{name}": values for name, values in played.reward.items()}
        for name, observed in played.observed.items():
            arrays |= {f"observed/{name}/{key}": array for key, array in observed.items()}
        return arrays


# -- results ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The arrays of an experiment's parts, all blocks together."""

    setting: Setting
    parts: Mapping[str, Arrays]
    """By part: arrays whose first axis is the runs."""
    kept: Mapping[str, Arrays] = field(default_factory=dict)
    """By name: arrays that the preparation made once."""

    def results(self, part: str) -> Results:
        """Return a part with agents on an environment as :func:`mixts.simulate` returns it."""
        arrays = self.parts[part]
        regret = _with_prefix(arrays, "regret/")
        reward = _with_prefix(arrays, "reward/") or {
            name: np.broadcast_to(np.nan, array.shape) for name, array in regret.items()
        }
        n_runs, n_rounds = next(iter(regret.values())).shape
        settings = {"n_runs": n_runs, "n_rounds": n_rounds, "seed": self.setting.seed}
        observed = {name: _with_prefix(arrays, f"observed/{name}/") for name in regret}
        observed = {name: kept for name, kept in observed.items() if kept}
        return Results(regret, reward, arrays["latent"], settings, observed)


def _with_prefix(arrays: Arrays, prefix: str) -> Arrays:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def separate(estimates: Estimate) -> list[Estimate]:
    """Return an estimate for each entry of an array of means and an array of errors."""
    return [Estimate(float(m), float(e)) for m, e in zip(*estimates, strict=True)]


@dataclass(frozen=True)
class Analysis:
    """The numbers of an experiment; its template turns them into sentences."""

    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the template."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """By the name of the claim in the template."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Matplotlib figures, by the name of the figure in the template."""


# -- experiments ----------------------------------------------------------------------------------


class Experiment(ABC):
    """One experiment, addressed by a short id such as ``paper/width``."""

    id: str = ""
    """Group and name, set by the registry."""
    address: str = ""
    """Name for ``mixts reproduce``, set by the registry; the id unless given."""
    title: ClassVar[str]
    place: ClassVar[str]
    """Place in the paper: "Sec. 6.1, Fig. 1 left"."""
    scale: ClassVar[Scale]
    """Scale of the paper."""
    quick: ClassVar[Scale]
    """Scale of ``--quick``: enough to see that everything works."""
    options: ClassVar[tuple[str, ...]] = ()
    """Names of the experiment's own options."""
    uses: ClassVar[tuple[ModuleType, ...]] = ()
    """Modules of other experiments whose code determines its numbers too."""
    template: ClassVar[str] = ""
    """Text of the report's template; empty: the file beside the module, see `template_path`."""

    def choices(self, **given: Any) -> dict[str, str]:
        """Return a text that identifies the value of each option: a file by content, not path."""
        return {}

    @abstractmethod
    def parts(self, setting: Setting, once: Once) -> dict[str, Blocks]:
        """Return the sweep; ``once(name, make)`` keeps arrays that are slow to make."""

    @abstractmethod
    def analyse(self, measured: Measured) -> Analysis:
        """Return the numbers, verdicts and figures of the measured arrays."""

    def sources(self) -> list[Path]:
        """Return the experiment's own source files, which determine its numbers.

        These are its module, or all modules of its package if it is one, the shared modules of the
        packages around it, whose names begin with an underscore, and those that it ``uses``. An
        experiment defined at a prompt has none of its own.
        """
        used = [Path(module.__file__) for module in self.uses if module.__file__ is not None]
        file = self._module_file()
        if file is None:
            return used
        found, folder = [file, *used], file.parent
        if file.name == "__init__.py":
            found, folder = [*sorted(folder.rglob("*.py")), *used], folder.parent
        while (folder / "__init__.py").exists():
            found += sorted(folder.glob("_*.py"))
            folder = folder.parent
        return found

    def template_path(self) -> Path:
        """Return the path of the template: ``width.md.jinja``, or a package's ``report.md.jinja``.

        Raises
        ------
        ParameterError
            If the experiment has no file: then set ``template``.
        """
        file = self._module_file()
        if file is None:
            raise ParameterError(f"{self.id} has no module with a file: set its template")
        if file.name == "__init__.py":
            return file.with_name("report.md.jinja")
        return file.with_suffix(".md.jinja")

    def _module_file(self) -> Path | None:
        file = getattr(sys.modules.get(type(self).__module__), "__file__", None)
        return None if file is None else Path(file)


# -- finding experiments ---------------------------------------------------------------------------


GROUPS = {
    "paper": "The paper",
    "beyond": "Beyond the paper: other bounds, other policies",
}
"""Groups of experiments inside the package, with their titles in a report."""


def all_experiments() -> dict[str, Experiment]:
    """Return the experiments of the package by id: those of the paper, then those beyond it."""
    found: dict[str, Experiment] = {}
    for group in GROUPS:
        found |= _experiments_of(importlib.import_module(f"mixts_paper.experiments.{group}"))
    return found


def group_of(id: str) -> str:
    """Return the group of an experiment: "paper" for ``paper/width``."""
    return id.partition("/")[0]


def chosen(names: Sequence[str]) -> dict[str, Experiment]:
    """Return the named experiments by id.

    Parameters
    ----------
    names
        Ids (``paper/width``), groups (``paper``, ``beyond``), or modules with experiments outside
        the registry (``mixts_paper.studies.movielens``), or packages of them.
        Empty: all experiments of the package.
    """
    known = all_experiments()
    wanted: dict[str, Experiment] = {}
    others: dict[str, Experiment] = {}
    for name in names or GROUPS:
        matching = {
            id: e for id, e in known.items() if name == id or name.strip("/") == group_of(id)
        }
        if not matching and "." in name:
            others |= _experiments_of(_imported(name))
        elif not matching:
            raise ParameterError(
                f"no experiment {name!r}; there are: {', '.join(known)}; an experiment outside the "
                "package is named by its module, such as mixts_paper.studies.movielens"
            )
        wanted |= matching
    return {**{id: known[id] for id in known if id in wanted}, **others}


def _imported(name: str) -> ModuleType:
    """Import a module from the current folder or from where Python finds it."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ParameterError(
            f"no module {name!r} in {here} or among the installed packages: run the command in the "
            "folder that contains it"
        ) from error


def _experiments_of(module: ModuleType) -> dict[str, Experiment]:
    """Return the module's ``EXPERIMENT``, or those of its modules, in its ``ORDER``."""
    if hasattr(module, "EXPERIMENT"):
        experiment: Experiment = module.EXPERIMENT
        group, _, name = module.__name__.replace("_", "-").rpartition(".")
        experiment.id = f"{group.rpartition('.')[2]}/{name}"
        experiment.address = (
            experiment.id
            if module.__name__.startswith("mixts_paper.experiments.")
            else module.__name__
        )
        return {experiment.id: experiment}
    found: dict[str, Experiment] = {}
    names = {entry.name for entry in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    order = [*getattr(module, "ORDER", ()), *sorted(names)]
    for name in dict.fromkeys(name for name in order if not name.startswith("_")):
        inner = importlib.import_module(f"{module.__name__}.{name}")
        if hasattr(inner, "EXPERIMENT"):
            found |= _experiments_of(inner)
    if not found:
        raise ParameterError(f"the module {module.__name__!r} has no EXPERIMENT")
    return found
