"""Decision making under a mixture prior: exact beliefs about the kind of each task.

The names below are for users. Errors are in :mod:`mixts.errors`, the analysis of regret in
:mod:`mixts.diagnostics`, further bounds in :mod:`mixts.bounds`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from warnings import warn

from mixts import errors
from mixts._version import __version__ as __version__

if TYPE_CHECKING:
    from mixts.agents import Agent, BayesUCB, CorralExp4, Exp4, Greedy, MixIDS, MixTS, Oracle
    from mixts.belief import Belief
    from mixts.bounds import theorem1_bound, theorem2_bound
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
        Pending,
        PoissonArms,
        SpendArms,
        Statistics,
        StudentArms,
        TabularMDP,
        Trajectory,
    )
    from mixts.features import Features, LevelFeature, NumberFeature
    from mixts.learning import PriorCheck, check_prior, fit_logs, learn_prior
    from mixts.planning import MDP
    from mixts.plots import plot
    from mixts.prior import MixturePrior
    from mixts.service import Decider, Decision, DecisionStore
    from mixts.service.client import AsyncClient, Client
    from mixts.simulation import Results, Sweep
    from mixts.simulation.simulate import simulate

__all__ = [
    "MDP",
    "Agent",
    "AsyncClient",
    "BanditEnvironment",
    "BayesUCB",
    "Belief",
    "BernoulliArms",
    "ClassificationBandit",
    "Client",
    "CorralExp4",
    "Decider",
    "Decision",
    "DecisionStore",
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
    "Pending",
    "PoissonArms",
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
    "theorem1_bound",
    "theorem2_bound",
]

_NAMES = {
    "agents": "Agent BayesUCB CorralExp4 Exp4 Greedy MixIDS MixTS Oracle",
    "belief": "Belief",
    "bounds": "theorem1_bound theorem2_bound",
    "bridges.sklearn": "MixturePriorEstimator",
    "environments": "BanditEnvironment ClassificationBandit MDPEnvironment ReplayBandit RiverSwim",
    "families": (
        "BernoulliArms Family GaussianArms LinearBernoulli LinearGaussian LinearStudent Pending "
        "PoissonArms SpendArms Statistics StudentArms TabularMDP Trajectory"
    ),
    "features": "Features LevelFeature NumberFeature",
    "learning": "PriorCheck check_prior fit_logs learn_prior",
    "planning": "MDP",
    "plots": "plot",
    "prior": "MixturePrior",
    "service": "Decider Decision DecisionStore",
    "service.client": "AsyncClient Client",
    "simulation": "Results Sweep simulate",
}
"""Public names of each module. A module is imported when one of its names is used first: a client
of the service needs no compiler, and a program that only decides no plots."""

_HOMES = {name: f"mixts.{module}" for module, names in _NAMES.items() for name in names.split()}

_MOVED = {
    "BernoulliStatistics": "mixts.families",
    "ConfidenceSets": "mixts.diagnostics",
    "Decomposition": "mixts.diagnostics",
    "GaussianStatistics": "mixts.families",
    "Identification": "mixts.diagnostics",
    "LinearStatistics": "mixts.families",
    "Plan": "mixts.planning",
    "PoissonStatistics": "mixts.families",
    "TabularStatistics": "mixts.families",
    "decompose_regret": "mixts.diagnostics",
    "follow_confidence_sets": "mixts.diagnostics",
    "identify": "mixts.diagnostics",
    **{name: "mixts.errors" for name in vars(errors) if name.endswith(("Error", "Warning"))},
}
"""Names that were here, and where they are now; they still work, with a DeprecationWarning."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    if name in _MOVED:
        home = _MOVED[name]
        warn(f"mixts.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)
    if not name.startswith("_") and find_spec(f"mixts.{name}") is not None:
        return import_module(f"mixts.{name}")
    raise AttributeError(f"module 'mixts' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
