"""Decision making under a mixture prior: Thompson sampling that learns what kind of task it faces."""

from mixts.agents import Agent, CorralExp4, Exp4, MixTS, Oracle
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

__version__ = "0.1.0"
