"""Decision making under a mixture prior: Thompson sampling that learns its kind of task."""

from mixts.agents import Agent, CorralExp4, Exp4, MixTS, Oracle
from mixts.bounds import theorem1_bound, theorem2_bound
from mixts.environments import BanditEnvironment, MDPEnvironment, RiverSwim
from mixts.errors import (
    ActionError,
    CovarianceError,
    FeedbackError,
    FormatError,
    MaskError,
    MissingExtraError,
    MixtsError,
    ObservationError,
    OutcomeError,
    ParameterError,
    StatisticsError,
    TaskError,
    TrajectoryError,
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
from mixts.mixture import Belief, MixturePrior
from mixts.planning import MDP, Plan
from mixts.plots import plot
from mixts.simulation import Results, simulate
from mixts.simulation.confidence import ConfidenceSets, follow_confidence_sets

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "ActionError",
    "Agent",
    "BanditEnvironment",
    "Belief",
    "BernoulliArms",
    "BernoulliStatistics",
    "ConfidenceSets",
    "CorralExp4",
    "CovarianceError",
    "Exp4",
    "Family",
    "FeedbackError",
    "FormatError",
    "GaussianArms",
    "GaussianStatistics",
    "LinearGaussian",
    "LinearStatistics",
    "MDPEnvironment",
    "MaskError",
    "MissingExtraError",
    "MixTS",
    "MixtsError",
    "MixturePrior",
    "ObservationError",
    "Oracle",
    "OutcomeError",
    "ParameterError",
    "Plan",
    "PoissonArms",
    "PoissonStatistics",
    "Results",
    "RiverSwim",
    "Statistics",
    "StatisticsError",
    "TabularMDP",
    "TabularStatistics",
    "TaskError",
    "Trajectory",
    "TrajectoryError",
    "WeightsError",
    "follow_confidence_sets",
    "plot",
    "simulate",
    "theorem1_bound",
    "theorem2_bound",
]
