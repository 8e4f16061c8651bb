"""Find experiments: those of the package by id, others by the name of their module."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

from mixts.errors import ParameterError
from mixts_paper.experiments.base import Experiment

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
