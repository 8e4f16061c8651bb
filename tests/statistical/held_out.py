"""Tasks drawn from a prior of any family, of different lengths that no outcome decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts.families import TabularStatistics
from tests.contracts.problems import SIZE, FamilyCase


def held_out(case: FamilyCase, seed: int, n_tasks: int, rounds: int = 12) -> Any:
    """Statistics of n tasks from the case's own prior, each with 1 to ``rounds`` observations.

    MDPs have so many visits of some pairs instead, chosen beforehand: in episodes, how often a
    state is visited depends on where the task led to.
    """
    rng = np.random.default_rng(seed)
    family: Any = case.prior.family
    _, theta = case.prior.draw(rng, n_tasks)
    lengths = rng.integers(1, rounds + 1, size=n_tasks)
    if case.mdp:
        return visited(rng, family, theta, lengths)
    owners = np.repeat(np.arange(n_tasks), lengths)
    belief = case.prior.belief(n_tasks)
    if case.linear:
        actions = rng.normal(size=(len(owners), SIZE))
        means, arms = family.mean_rewards(theta[owners], actions[:, None])[:, 0], owners
    else:
        actions = arms = rng.integers(SIZE, size=len(owners))
        means = theta[owners, actions]
    laws = family.reward_parameters(theta[owners], arms, means)
    belief.update(actions, family.outcomes(rng, laws), tasks=owners)
    return belief.statistics


def visited(rng: np.random.Generator, family: Any, theta: Any, lengths: Any) -> Any:
    """Counts of visits to pairs that were chosen at random."""
    n, pairs = len(theta), family.n_states * family.n_actions
    visits = rng.multinomial(lengths, np.full(pairs, 1 / pairs))
    visits = visits.reshape(n, family.n_states, family.n_actions)
    mdp = family.mdp(theta)
    won = rng.binomial(visits, mdp.rewards)
    went = rng.multinomial(visits, mdp.transitions)
    return TabularStatistics(rewards=np.stack([won, visits - won], axis=-1), transitions=went)
