"""Every agent on arms, on linear actions and on MDPs, ready to be played by one suite.

A new agent is one entry of ``AGENTS``: how to build it, and the traits by which it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

import mixts
from mixts.extend.contracts import AgentProblem
from tests.contracts.problems import HORIZON, N_MOVES, N_STATES, SIZE, FamilyCase

FAMILIES = {
    "arms": FamilyCase("bernoulli"),
    "linear": FamilyCase("full"),
    "student arms": FamilyCase("student"),
    "student linear": FamilyCase("student full"),
    "mdp": FamilyCase("tabular"),
}

Build = Callable[[FamilyCase, int | None, int], Any]


@dataclass(frozen=True)
class AgentRecord:
    """Function that builds an agent, and the agent's traits."""

    build: Build
    """Takes the family, ``n_tasks`` and ``seed``."""
    randomised: bool | None = True
    """Whether decisions are random; a deterministic agent decides alike while it learns nothing.
    None: that depends on the belief."""
    plans: bool = True
    """Whether the agent decides about MDPs, by policies."""
    exact: bool = False
    """Whether action probabilities are exact for linear actions too, with standard error 0."""
    sampled: bool = False
    """Whether action probabilities are estimated for arms too."""
    step_by_step: bool = False
    """Whether each decision needs its own update, before the next decision of the task."""
    arms_with_features: bool = False
    """Whether the agent takes action sets although it was built for arms."""


def _plain(case: FamilyCase) -> mixts.MixturePrior:
    if case.mdp:
        return mixts.MixturePrior(mixts.TabularMDP.uniform(N_STATES, N_MOVES, HORIZON))
    family = (
        mixts.LinearGaussian.standard(SIZE, noise_std=0.5)
        if case.linear
        else mixts.BernoulliArms.uniform(SIZE)
    )
    return mixts.MixturePrior(family)


def _experts(case: FamilyCase) -> Any:
    return case.prior.belief().component_mean[:, :SIZE]


AGENTS: dict[str, AgentRecord] = {
    "MixTS": AgentRecord(lambda case, n, seed: mixts.MixTS(case.prior, n, seed, n_samples=50)),
    "UniTS": AgentRecord(
        lambda case, n, seed: mixts.MixTS(case.prior.collapse(), n, seed, n_samples=50)
    ),
    "TS": AgentRecord(lambda case, n, seed: mixts.MixTS(_plain(case), n, seed, n_samples=50)),
    "Oracle": AgentRecord(
        lambda case, n, seed: mixts.Oracle(case.prior, 1, n, seed, n_samples=50)
    ),
    "MixTS with a horizon": AgentRecord(
        lambda case, n, seed: mixts.MixTS(case.prior, n, seed, n_samples=50, horizon=10),
        plans=False, sampled=True,
    ),
    "MixIDS": AgentRecord(
        lambda case, n, seed: mixts.MixIDS(case.prior, n, seed),
        randomised=None, plans=False, exact=True,
    ),
    "MixIDS with a horizon": AgentRecord(
        lambda case, n, seed: mixts.MixIDS(case.prior, n, seed, n_samples=50, horizon=10),
        randomised=None, plans=False, exact=True,
    ),
    "Greedy": AgentRecord(
        lambda case, n, seed: mixts.Greedy(case.prior, n, seed),
        randomised=False, plans=False, exact=True,
    ),
    "BayesUCB": AgentRecord(
        lambda case, n, seed: mixts.BayesUCB(case.prior, n, seed),
        randomised=False, plans=False, exact=True,
    ),
    "Exp4": AgentRecord(
        lambda case, n, seed: mixts.Exp4(_experts(case), 200, n_tasks=n, seed=seed),
        plans=False, exact=True, step_by_step=True, arms_with_features=True,
    ),
    "CorralExp4": AgentRecord(
        lambda case, n, seed: mixts.CorralExp4(case.prior, 200, n_tasks=n, seed=seed),
        plans=False, exact=True, step_by_step=True,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class AgentCase(AgentProblem):
    """An agent and what it decides about: an arm, a row of an action set, or a policy."""

    agent: str
    kind: str

    @property
    def family(self) -> FamilyCase:
        return FAMILIES[self.kind]

    @property
    def n_actions(self) -> int:
        return self.family.n_actions

    @property
    def traits(self) -> AgentRecord:
        return AGENTS[self.agent]

    @property
    def step_by_step(self) -> bool:
        return self.traits.step_by_step

    @property
    def linear(self) -> bool:
        """Whether actions are rows of features."""
        return self.family.linear

    @property
    def takes_features(self) -> bool:
        """Whether ``act`` takes action sets."""
        return self.linear or self.traits.arms_with_features

    def build(self, n_tasks: int | None, seed: Any = 0) -> Any:
        return self.traits.build(self.family, n_tasks, seed)


STUDENT_AGENTS = ("MixTS", "MixTS with a horizon", "MixIDS", "BayesUCB", "CorralExp4")
OFFERED_CASES = [
    *(AgentCase(agent, kind) for kind in ("arms", "linear") for agent in AGENTS),
    *(
        AgentCase(agent, kind)
        for kind in ("student arms", "student linear")
        for agent in STUDENT_AGENTS
    ),
]
"""Agents that choose among actions, which may be masked, and that have action probabilities."""
CASES = [
    *OFFERED_CASES,
    *(AgentCase(agent, "mdp") for agent, record in AGENTS.items() if record.plans),
]

IN_PLAIN = [
    AgentCase("TS", "arms"),
    AgentCase("MixTS with a horizon", "arms"),
    AgentCase("MixIDS with a horizon", "arms"),
    AgentCase("Greedy", "arms"),
    AgentCase("Exp4", "arms"),
    AgentCase("MixTS", "linear"),
    AgentCase("BayesUCB", "linear"),
    AgentCase("CorralExp4", "linear"),
    AgentCase("MixTS", "student linear"),
    AgentCase("TS", "mdp"),
]
"""Each agent once, where it decides quickly: all cases take minutes in the plain program."""


def over(cases: Iterable[AgentCase]) -> Any:
    """Run a test of the fixtures ``case`` and ``program`` on cases, and on few of them in plain."""
    names = ("core", "plain")
    pairs = [(c, name) for c in cases for name in names if name == "core" or c in IN_PLAIN]
    ids = [f"{name}-{c.agent}-{c.kind}" for c, name in pairs]
    return pytest.mark.parametrize(("case", "program"), pairs, indirect=["program"], ids=ids)
