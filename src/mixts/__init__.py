"""Decision making under a mixture prior: Thompson sampling that learns its kind of task."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mixts.agents import Agent, CorralExp4, Exp4, MixTS, Oracle
from mixts.bounds import theorem1_bound, theorem2_bound
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
from mixts.learning import learn_prior
from mixts.learning.check import PriorCheck, check_prior
from mixts.mixture import Belief, MixturePrior
from mixts.planning import MDP, Plan
from mixts.plots import plot
from mixts.simulation import Results, simulate
from mixts.simulation.confidence import ConfidenceSets, follow_confidence_sets
from mixts.simulation.decomposition import Decomposition, decompose_regret
from mixts.simulation.identification import Identification, identify
from mixts.simulation.sweep import Sweep

if TYPE_CHECKING:
    from mixts.bridges.sklearn import MixturePriorEstimator
    from mixts.service import Decider, Decision, DecisionStore

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "ActionError",
    "Agent",
    "BanditEnvironment",
    "Belief",
    "BernoulliArms",
    "BernoulliStatistics",
    "ClassificationBandit",
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
    "Decider": "mixts.service",
    "Decision": "mixts.service",
    "DecisionStore": "mixts.service",
    "MixturePriorEstimator": "mixts.bridges.sklearn",
}
"""Names whose modules are imported when they are asked for."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'mixts' has no attribute {name!r}")
