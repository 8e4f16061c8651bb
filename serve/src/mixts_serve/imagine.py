"""What a task would be believed to be, and what it would be shown, after outcomes nobody logged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from mixts import MixturePrior
from mixts.agents import Offer
from mixts.errors import ActionError, OutcomeError, ParameterError
from mixts.extend import Array, random
from mixts.families import Statistics
from mixts_serve.rules import Policy

MOST_IMAGINED = 20
"""Outcomes that may be imagined together."""

Outcome = tuple[int, float]
"""An action, by its index, and its reward."""


class Outlook(Struct, frozen=True):
    """Belief about a task, and its next decision."""

    weights: tuple[float, ...]
    """Probability of each component."""
    mean_rewards: tuple[float, ...]
    """Mean reward of each action."""
    probabilities: tuple[float, ...]
    """Probability of each action in the next decision, by the policy in force; empty if there is
    none, because the task took every available arm."""


def imagined(
    prior: MixturePrior, statistics: Statistics, offered: Array | None, outcomes: Sequence[Outcome]
) -> Statistics:
    """Return the statistics of one task after outcomes, which are checked like rewards."""
    n = len(offered) if offered is not None else prior.family.n_arms or 0
    if len(outcomes) > MOST_IMAGINED:
        raise ParameterError(
            f"at most {MOST_IMAGINED} outcomes are imagined together, got {len(outcomes)}"
        )
    after = statistics[[0]]
    for action, reward in outcomes:
        if not 0 <= action < n:
            raise ActionError(f"action must be from 0 to {n - 1}, got {action}")
        if not np.isfinite(reward):
            raise OutcomeError(f"an imagined reward must be a finite number, got {reward}")
        chosen = np.array([action]) if offered is None else offered[[action]]
        after.observe(np.zeros(1, np.int64), after.observations(chosen, np.array([reward])))
    prior.family.check_statistics(after)
    return after


def outlook(
    prior: MixturePrior, statistics: Statistics, offered: Array | None, policy: Policy
) -> Outlook:
    """Return the belief and the next decision of one task, the same at every call."""
    belief = prior.condition(statistics)
    (weights,), (means,) = belief.weights, belief.mean_rewards(offered)
    tasks = np.zeros(1, np.int64)
    law: tuple[float, ...] = ()
    offer = Offer.of(prior, tasks, offered)
    available = offer.available
    if offered is None and not prior.repeatable:
        available = available & (statistics.pulls == 0)
    if available.any():
        agent = policy.resume(prior, statistics, random.stream(0, "decider", "imagine"))
        limited = offer._replace(
            mask=available, explore=policy.explore, new_share=policy.new_item_share
        )
        law = tuple(agent.decide(limited).probabilities[0].tolist())
    return Outlook(tuple(weights.tolist()), tuple(means.tolist()), law)
