"""Decision making under a mixture prior: Thompson sampling that learns its kind of task."""

from mixts.agents import Agent, CorralExp4, Exp4, MixTS, Oracle
from mixts.environments import BanditEnvironment
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
)
from mixts.mixture import Belief, MixturePrior
from mixts.simulation import Results, simulate

__version__ = "0.1.0"

__all__ = [
    "ActionError",
    "Agent",
    "BanditEnvironment",
    "Belief",
    "BernoulliArms",
    "BernoulliStatistics",
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
    "MaskError",
    "MissingExtraError",
    "MixTS",
    "MixtsError",
    "MixturePrior",
    "ObservationError",
    "Oracle",
    "OutcomeError",
    "ParameterError",
    "PoissonArms",
    "PoissonStatistics",
    "Results",
    "Statistics",
    "StatisticsError",
    "TaskError",
    "WeightsError",
    "simulate",
]
