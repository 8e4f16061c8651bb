"""Decision making under a mixture prior: exact beliefs about the kind of each task.

The names below are for users. Errors are in :mod:`mixts.errors`; :mod:`mixts.extend` has what
authors of families and agents need. The packages ``mixts-serve`` and ``mixts-paper`` have the
decision service and the paper's experiments.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mixts._version import __version__ as __version__

if TYPE_CHECKING:
    from mixts.agents import Agent, BayesUCB, CorralExp4, Exp4, Greedy, MixIDS, MixTS, Oracle
    from mixts.belief import Belief
    from mixts.bridges.sklearn import MixturePriorEstimator
    from mixts.environments import (
        BanditEnvironment,
        ClassificationBandit,
        MDPEnvironment,
        ReplayBandit,
        RiverSwim,
    )
    from mixts.families import (
        BernoulliArms,
        Family,
        GaussianArms,
        LinearBernoulli,
        LinearGaussian,
        LinearStudent,
        PoissonArms,
        SpendArms,
        Statistics,
        StudentArms,
        TabularMDP,
        Trajectory,
    )
    from mixts.features import Features, LevelFeature, NumberFeature, Pooled
    from mixts.learning import PriorCheck, check_prior, learn_prior
    from mixts.logs.fit import fit_logs
    from mixts.planning import MDP
    from mixts.plots import plot
    from mixts.prior import MixturePrior
    from mixts.simulation import Results, Sweep
    from mixts.simulation.simulate import simulate

__all__ = [
    "MDP",
    "Agent",
    "BanditEnvironment",
    "BayesUCB",
    "Belief",
    "BernoulliArms",
    "ClassificationBandit",
    "CorralExp4",
    "Exp4",
    "Family",
    "Features",
    "GaussianArms",
    "Greedy",
    "LevelFeature",
    "LinearBernoulli",
    "LinearGaussian",
    "LinearStudent",
    "MDPEnvironment",
    "MixIDS",
    "MixTS",
    "MixturePrior",
    "MixturePriorEstimator",
    "NumberFeature",
    "Oracle",
    "PoissonArms",
    "Pooled",
    "PriorCheck",
    "ReplayBandit",
    "Results",
    "RiverSwim",
    "SpendArms",
    "Statistics",
    "StudentArms",
    "Sweep",
    "TabularMDP",
    "Trajectory",
    "check_prior",
    "fit_logs",
    "learn_prior",
    "plot",
    "simulate",
]

_NAMES = {
    "agents": "Agent BayesUCB CorralExp4 Exp4 Greedy MixIDS MixTS Oracle",
    "belief": "Belief",
    "bridges.sklearn": "MixturePriorEstimator",
    "environments": "BanditEnvironment ClassificationBandit MDPEnvironment ReplayBandit RiverSwim",
    "families": (
        "BernoulliArms Family GaussianArms LinearBernoulli LinearGaussian LinearStudent "
        "PoissonArms SpendArms Statistics StudentArms TabularMDP Trajectory"
    ),
    "features": "Features LevelFeature NumberFeature Pooled",
    "learning": "PriorCheck check_prior learn_prior",
    "logs.fit": "fit_logs",
    "planning": "MDP",
    "plots": "plot",
    "prior": "MixturePrior",
    "simulation": "Results Sweep simulate",
}
"""Public names of each module. A module is imported when one of its names is used first: a
program that only decides needs no plots."""

_HOMES = {name: f"mixts.{module}" for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    if not name.startswith("_") and find_spec(f"mixts.{name}") is not None:
        return import_module(f"mixts.{name}")
    raise AttributeError(f"module 'mixts' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
