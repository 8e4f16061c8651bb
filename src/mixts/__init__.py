"""Decision making under a mixture prior: Thompson sampling that learns its kind of task."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mixts._version import __version__ as __version__
from mixts.agents import Agent, CorralExp4, Exp4, MixTS, Oracle
from mixts.belief import Belief
from mixts.environments import (
    BanditEnvironment,
    ClassificationBandit,
    MDPEnvironment,
    ReplayBandit,
    RiverSwim,
)
from mixts.errors import (
    ActionError,
    ClusterError,
    ConflictError,
    ConvergenceWarning,
    CovarianceError,
    FeedbackError,
    FormatError,
    MaskError,
    MissingExtraError,
    MixtsError,
    ObservationError,
    OutcomeError,
    OutputError,
    OverloadedError,
    ParameterError,
    StatisticsError,
    StoreError,
    StoreUnavailableError,
    TaskError,
    TrajectoryError,
    UnknownDecisionError,
    UnknownTaskError,
    WeightsError,
)
from mixts.families import (
    BernoulliArms,
    BernoulliStatistics,
    Family,
    GaussianArms,
    GaussianStatistics,
    LinearGaussian,
    LinearStatistics,
    PoissonArms,
    PoissonStatistics,
    Statistics,
    TabularMDP,
    TabularStatistics,
    Trajectory,
)
from mixts.planning import MDP, Plan
from mixts.prior import MixturePrior

if TYPE_CHECKING:
    from mixts.bounds import theorem1_bound, theorem2_bound
    from mixts.bridges.sklearn import MixturePriorEstimator
    from mixts.diagnostics.confidence import ConfidenceSets, follow_confidence_sets
    from mixts.diagnostics.decomposition import Decomposition, decompose_regret
    from mixts.diagnostics.identification import Identification, identify
    from mixts.learning import learn_prior
    from mixts.learning.check import PriorCheck, check_prior
    from mixts.plots import plot
    from mixts.service import Decider, Decision, DecisionStore
    from mixts.service.client import AsyncClient, Client
    from mixts.simulation.results import Results
    from mixts.simulation.simulate import simulate
    from mixts.simulation.sweep import Sweep

__all__ = [
    "MDP",
    "ActionError",
    "Agent",
    "AsyncClient",
    "BanditEnvironment",
    "Belief",
    "BernoulliArms",
    "BernoulliStatistics",
    "ClassificationBandit",
    "Client",
    "ClusterError",
    "ConfidenceSets",
    "ConflictError",
    "ConvergenceWarning",
    "CorralExp4",
    "CovarianceError",
    "Decider",
    "Decision",
    "DecisionStore",
    "Decomposition",
    "Exp4",
    "Family",
    "FeedbackError",
    "FormatError",
    "GaussianArms",
    "GaussianStatistics",
    "Identification",
    "LinearGaussian",
    "LinearStatistics",
    "MDPEnvironment",
    "MaskError",
    "MissingExtraError",
    "MixTS",
    "MixtsError",
    "MixturePrior",
    "MixturePriorEstimator",
    "ObservationError",
    "Oracle",
    "OutcomeError",
    "OutputError",
    "OverloadedError",
    "ParameterError",
    "Plan",
    "PoissonArms",
    "PoissonStatistics",
    "PriorCheck",
    "ReplayBandit",
    "Results",
    "RiverSwim",
    "Statistics",
    "StatisticsError",
    "StoreError",
    "StoreUnavailableError",
    "Sweep",
    "TabularMDP",
    "TabularStatistics",
    "TaskError",
    "Trajectory",
    "TrajectoryError",
    "UnknownDecisionError",
    "UnknownTaskError",
    "WeightsError",
    "check_prior",
    "decompose_regret",
    "follow_confidence_sets",
    "identify",
    "learn_prior",
    "plot",
    "simulate",
    "theorem1_bound",
    "theorem2_bound",
]


_LAZY = {
    "AsyncClient": "mixts.service.client",
    "Client": "mixts.service.client",
    "ConfidenceSets": "mixts.diagnostics.confidence",
    "Decider": "mixts.service",
    "Decision": "mixts.service",
    "DecisionStore": "mixts.service",
    "Decomposition": "mixts.diagnostics.decomposition",
    "Identification": "mixts.diagnostics.identification",
    "MixturePriorEstimator": "mixts.bridges.sklearn",
    "PriorCheck": "mixts.learning.check",
    "Results": "mixts.simulation",
    "Sweep": "mixts.simulation.sweep",
    "check_prior": "mixts.learning.check",
    "decompose_regret": "mixts.diagnostics.decomposition",
    "follow_confidence_sets": "mixts.diagnostics.confidence",
    "identify": "mixts.diagnostics.identification",
    "learn_prior": "mixts.learning",
    "plot": "mixts.plots",
    "simulate": "mixts.simulation",
    "theorem1_bound": "mixts.bounds",
    "theorem2_bound": "mixts.bounds",
}
"""Names whose modules are imported when they are asked for: whoever decides, and a service that is
started again, need not wait for what learns, simulates and draws."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return value
    if not name.startswith("_") and find_spec(f"mixts.{name}") is not None:
        return import_module(f"mixts.{name}")
    raise AttributeError(f"module 'mixts' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
