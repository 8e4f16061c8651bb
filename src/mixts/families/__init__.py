"""The families and their statistics."""

from mixts.families.arms import ArmFamily, ArmPosterior, ArmStatistics
from mixts.families.base import FAMILIES, Family, Posterior
from mixts.families.bernoulli import BernoulliArms, BernoulliStatistics
from mixts.families.gaussian import GaussianArms, GaussianStatistics
from mixts.families.linear import CovarianceType, LinearGaussian
from mixts.families.linear_bernoulli import LinearBernoulli
from mixts.families.linear_bernoulli_statistics import LinearBernoulliStatistics
from mixts.families.linear_statistics import LinearStatistics
from mixts.families.linear_student import LinearStudent
from mixts.families.poisson import PoissonArms, PoissonStatistics
from mixts.families.spend import SpendArms, SpendStatistics
from mixts.families.statistics import Statistics
from mixts.families.student import StudentArms
from mixts.families.tabular import TabularMDP, TabularStatistics
from mixts.families.trajectory import Trajectory

__all__ = [
    "FAMILIES",
    "ArmFamily",
    "ArmPosterior",
    "ArmStatistics",
    "BernoulliArms",
    "BernoulliStatistics",
    "CovarianceType",
    "Family",
    "GaussianArms",
    "GaussianStatistics",
    "LinearBernoulli",
    "LinearBernoulliStatistics",
    "LinearGaussian",
    "LinearStatistics",
    "LinearStudent",
    "PoissonArms",
    "PoissonStatistics",
    "Posterior",
    "SpendArms",
    "SpendStatistics",
    "Statistics",
    "StudentArms",
    "TabularMDP",
    "TabularStatistics",
    "Trajectory",
]
