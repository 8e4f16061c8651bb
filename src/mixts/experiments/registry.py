"""Which experiments there are: every folder of a group that has an ``EXPERIMENT``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

import mixts.experiments
from mixts.errors import ParameterError
from mixts.experiments.base import Experiment

DEFAULT = ("paper",)
"""What is meant where nothing is named: no data of anybody else's are needed for it."""


def all_experiments() -> dict[str, Experiment]:
    """By id, the paper's group first, and in a group as its ``ORDER`` says."""
    modules = pkgutil.iter_modules(mixts.experiments.__path__)
    groups = [module.name for module in modules if module.ispkg]
    found: dict[str, Experiment] = {}
    for group in sorted(groups, key=lambda name: (name not in DEFAULT, name)):
        found |= _of_group(group)
    return found


def _of_group(group: str) -> dict[str, Experiment]:
    package = importlib.import_module(f"mixts.experiments.{group}")
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg]
    order = list(getattr(package, "ORDER", ()))
    found = {}
    for name in sorted(names, key=lambda n: (order.index(n) if n in order else len(order), n)):
        module = importlib.import_module(f"mixts.experiments.{group}.{name}")
        experiment: Experiment = module.EXPERIMENT
        experiment.id = f"{group}/{name.replace('_', '-')}"
        found[experiment.id] = experiment
    return found


def chosen(ids: Sequence[str]) -> dict[str, Experiment]:
    """The experiments with these ids; a group stands for all of its own, nothing for the paper."""
    known = all_experiments()
    ids = ids or DEFAULT
    wanted: dict[str, Experiment] = {}
    for id in ids:
        matching = {k: e for k, e in known.items() if k == id or k.startswith(f"{id.strip('/')}/")}
        if not matching:
            raise ParameterError(f"no experiment {id!r}; there are: {', '.join(known)}")
        wanted |= matching
    return {id: known[id] for id in known if id in wanted}
