"""Where agents act: problems drawn anew for every run."""

from mixts.environments.bandit import BanditEnvironment
from mixts.environments.base import Environment, Offer, Outcome, Problem

__all__ = ["BanditEnvironment", "Environment", "Offer", "Outcome", "Problem"]
