"""What authors of families, agents and packages need besides the names of :mod:`mixts`.

A family derives from :class:`Family`, or from :class:`ArmFamily` if its arms are independent; its
data and beliefs from :class:`Statistics`, :class:`Posterior` and :class:`Marginal`. An agent
derives from :class:`BeliefAgent`, or from :class:`Agent`. ``checks``, ``files`` and ``random`` are
the modules by which the library itself checks arguments, writes files and makes generators.
:mod:`mixts.extend.contracts` runs the contracts of families and agents on a class of your own;
:mod:`mixts.extend.models` has the base classes by which a prior of your own family is learned.
"""

from mixts import _checks as checks
from mixts import _files as files
from mixts import _random as random
from mixts._numbers import Estimate, estimate
from mixts._progress import progress_bars
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents import Agent, BeliefAgent, Choice, Offer
from mixts.families import ArmFamily, ArmPosterior, ArmStatistics, Family, Posterior, Statistics
from mixts.families.marginals import LOG_GAMMA, LOGIT_BETA, MINUS_LOG_GAMMA, NORMAL, Marginal
from mixts.families.rewards import RewardBelief
from mixts.families.special import log_rising

__all__ = [
    "LOGIT_BETA",
    "LOG_GAMMA",
    "MINUS_LOG_GAMMA",
    "NORMAL",
    "ActionsLike",
    "Agent",
    "ArmFamily",
    "ArmPosterior",
    "ArmStatistics",
    "Array",
    "ArrayLike",
    "BeliefAgent",
    "Bool",
    "Choice",
    "Estimate",
    "Family",
    "Float",
    "Int",
    "Marginal",
    "Offer",
    "Posterior",
    "RewardBelief",
    "Seed",
    "Statistics",
    "checks",
    "estimate",
    "files",
    "log_rising",
    "progress_bars",
    "random",
]
