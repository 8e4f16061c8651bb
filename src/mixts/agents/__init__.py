"""Agents: MixTS, its oracle, and the voting baselines Exp4 and CorralExp4."""

from mixts.agents.base import Agent
from mixts.agents.belief import BeliefAgent
from mixts.agents.exp4 import CorralExp4, Exp4
from mixts.agents.mixts import MixTS, Oracle

__all__ = ["Agent", "BeliefAgent", "CorralExp4", "Exp4", "MixTS", "Oracle"]
