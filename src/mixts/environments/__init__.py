"""Environments: they draw a new problem for every run."""

from mixts.environments.bandit import BanditEnvironment, BanditProblem, ClassificationBandit
from mixts.environments.base import Choices, Environment, Outcome, Problem
from mixts.environments.mdp import CURRENTS, MDPEnvironment, RiverSwim
from mixts.environments.replay import ReplayArms, ReplayBandit

__all__ = [
    "CURRENTS",
    "BanditEnvironment",
    "BanditProblem",
    "Choices",
    "ClassificationBandit",
    "Environment",
    "MDPEnvironment",
    "Outcome",
    "Problem",
    "ReplayArms",
    "ReplayBandit",
    "RiverSwim",
]
