"""Agents: MixTS, its oracle, and the voting baselines."""

from mixts.agents.base import Agent
from mixts.agents.exp4 import CorralExp4, Exp4
from mixts.agents.mixts import MixTS, Oracle

__all__ = ["Agent", "CorralExp4", "Exp4", "MixTS", "Oracle"]
