"""Every agent on arms and on linear actions, ready to be played by one suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import mixts
from tests.contracts.problems import SIZE, FamilyCase

ARMS, LINEAR = FamilyCase("bernoulli"), FamilyCase("full")
N_ACTIONS = {"arms": ARMS.n_actions, "linear": LINEAR.n_actions}
VOTING = ("Exp4", "CorralExp4")

Build = Callable[[FamilyCase, int | None, int], Any]


def _plain(case: FamilyCase) -> mixts.MixturePrior:
    family = (
        mixts.LinearGaussian.standard(SIZE, noise_std=0.5)
        if case.linear
        else mixts.BernoulliArms.uniform(SIZE)
    )
    return mixts.MixturePrior(family)


def _experts(case: FamilyCase) -> Any:
    return case.prior.belief().component_mean


AGENTS: dict[str, Build] = {
    "MixTS": lambda case, n, seed: mixts.MixTS(case.prior, n, seed, n_samples=50),
    "UniTS": lambda case, n, seed: mixts.MixTS.units(case.prior, n, seed),
    "TS": lambda case, n, seed: mixts.MixTS(_plain(case), n, seed, n_samples=50),
    "Oracle": lambda case, n, seed: mixts.Oracle(case.prior, 1, n, seed, n_samples=50),
    "Exp4": lambda case, n, seed: mixts.Exp4(_experts(case), 200, n_tasks=n, seed=seed),
    "CorralExp4": lambda case, n, seed: mixts.CorralExp4(case.prior, 200, n_tasks=n, seed=seed),
}


@dataclass(frozen=True)
class AgentCase:
    """An agent and the kind of actions it is offered."""

    agent: str
    kind: str

    @property
    def family(self) -> FamilyCase:
        return LINEAR if self.kind == "linear" else ARMS

    @property
    def n_actions(self) -> int:
        return N_ACTIONS[self.kind]

    @property
    def votes(self) -> bool:
        """Whether feedback must go step by step."""
        return self.agent in VOTING

    def build(self, n_tasks: int | None, seed: int = 0) -> Any:
        return AGENTS[self.agent](self.family, n_tasks, seed)

    def offer(self, rng: np.random.Generator, n_rows: int | None = None) -> Any:
        """Fresh action sets, one for each decision; None for arms."""
        if self.kind == "arms":
            return None
        shape = (self.n_actions, SIZE)
        return rng.normal(size=shape if n_rows is None else (n_rows, *shape))

    def taken(self, offered: Any, chosen: Any) -> Any:
        """What ``update`` is told: the arm, or the features of the row."""
        if offered is None:
            return chosen
        if offered.ndim == 2:
            return offered[chosen]
        return offered[np.arange(len(chosen)), chosen]

    def rewards(self, rng: np.random.Generator, chosen: Any) -> Any:
        """Rewards that every family and every agent accepts."""
        draws = (rng.random(np.shape(chosen)) < 0.6).astype(float)
        return float(draws) if draws.ndim == 0 else draws

    def play(self, agent: Any, rounds: int, seed: int = 1, **how: Any) -> list[Any]:
        """The decisions of some rounds of act and update."""
        rng, decisions = np.random.default_rng(seed), []
        for _ in range(rounds):
            offered = self.offer(rng, agent.n_tasks)
            chosen = agent.act(offered, **how)
            agent.update(self.taken(offered, chosen), self.rewards(rng, chosen))
            decisions.append(chosen)
        return decisions


def readings(agent: Any) -> list[Any]:
    """Everything that can be read of what an agent has learned."""
    found = []
    if isinstance(agent, mixts.MixTS | mixts.CorralExp4):
        statistics = agent.belief.statistics.copy()
        found += [agent.belief.log_evidence, agent.belief.component_mean]
        found += [statistics.array(name) for name in statistics.fields]
    if not isinstance(agent, mixts.MixTS):
        found.append(agent.weights)
    return found


def assert_unchanged(agent: Any, before: list[Any]) -> None:
    """To the bit."""
    for one, other in zip(readings(agent), before, strict=True):
        np.testing.assert_array_equal(one, other)


CASES = [AgentCase(agent, kind) for kind in N_ACTIONS for agent in AGENTS]
