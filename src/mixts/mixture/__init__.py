"""Mixture priors and beliefs."""

from mixts.mixture.belief import Belief
from mixts.mixture.prior import MixturePrior

__all__ = ["Belief", "MixturePrior"]
