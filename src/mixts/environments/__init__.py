"""Environments: they draw a new problem for every run."""

from mixts.environments.bandit import BanditEnvironment, BanditProblem
from mixts.environments.base import Environment, Offer, Outcome, Problem
from mixts.environments.classification import ClassificationBandit
from mixts.environments.mdp import MDPEnvironment
from mixts.environments.replay import ReplayArms, ReplayBandit
from mixts.environments.riverswim import CURRENTS, RiverSwim

__all__ = [
    "CURRENTS",
    "BanditEnvironment",
    "BanditProblem",
    "ClassificationBandit",
    "Environment",
    "MDPEnvironment",
    "Offer",
    "Outcome",
    "Problem",
    "ReplayArms",
    "ReplayBandit",
    "RiverSwim",
]
