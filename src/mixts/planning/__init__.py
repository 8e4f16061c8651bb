"""Planning: best policies of finite-horizon MDPs, and values of policies."""

from mixts.planning.mdp import MDP, Plan

__all__ = ["MDP", "Plan"]
