"""Which experiments there are: every folder of a group that has an ``EXPERIMENT``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

import mixts.experiments
from mixts.errors import ParameterError
from mixts.experiments.base import Experiment


def all_experiments() -> dict[str, Experiment]:
    """By id, in the order of the groups, and in a group as its ``ORDER`` says."""
    found: dict[str, Experiment] = {}
    for group in pkgutil.iter_modules(mixts.experiments.__path__):
        if group.ispkg:
            found |= _of_group(group.name)
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
    """The experiments with these ids; a group stands for all of its own, nothing for all."""
    known = all_experiments()
    if not ids:
        return known
    wanted: dict[str, Experiment] = {}
    for id in ids:
        matching = {k: e for k, e in known.items() if k == id or k.startswith(f"{id.strip('/')}/")}
        if not matching:
            raise ParameterError(f"no experiment {id!r}; there are: {', '.join(known)}")
        wanted |= matching
    return {id: known[id] for id in known if id in wanted}
