"""Agents: policies on a belief (MixTS, MixIDS, Greedy, BayesUCB), and voting baselines."""

from mixts.agents.base import Agent
from mixts.agents.bayesian import BeliefAgent
from mixts.agents.exp4 import CorralExp4, Exp4
from mixts.agents.greedy import BayesUCB, Greedy
from mixts.agents.ids import MixIDS
from mixts.agents.mixts import MixTS, Oracle
from mixts.agents.offers import Choice, NewShare, Offer
from mixts.errors import ParameterError

__all__ = [
    "POLICIES",
    "Agent",
    "BayesUCB",
    "BeliefAgent",
    "Choice",
    "CorralExp4",
    "Exp4",
    "Greedy",
    "MixIDS",
    "MixTS",
    "NewShare",
    "Offer",
    "Oracle",
    "policy_named",
]

POLICIES: dict[str, type[BeliefAgent]] = {
    "ids": MixIDS,
    "ts": MixTS,
    "greedy": Greedy,
    "ucb": BayesUCB,
}
"""Ways to act on a belief, by the short names of commands and services."""


def policy_named(name: str) -> type[BeliefAgent]:
    """Return the class of a policy: "ids", "ts", "greedy" or "ucb".

    Parameters
    ----------
    name
        A key of ``POLICIES``.

    Returns
    -------
    type
        The agent's class.
    """
    if name not in POLICIES:
        raise ParameterError(f"policy must be one of {', '.join(POLICIES)}, got {name!r}")
    return POLICIES[name]
