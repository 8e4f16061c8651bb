"""Planning: finite-horizon MDPs, their best policies and the values of given ones."""

from mixts.planning.mdp import MDP, Plan

__all__ = ["MDP", "Plan"]
