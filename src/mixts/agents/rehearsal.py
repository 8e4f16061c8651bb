"""Short typical programs: they compile every loop of a decision, or load it from the cache.

A service rehearses with its own prior and policy before it says that it is ready; ``mixts warmup``
does so with an example of every family and each policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mixts._typing import Array, Float
from mixts.agents import POLICIES
from mixts.agents.bayesian import BeliefAgent
from mixts.agents.mixts import MixTS
from mixts.families import (
    BernoulliArms,
    Family,
    GaussianArms,
    LinearBernoulli,
    LinearGaussian,
    LinearStudent,
    PoissonArms,
    SpendArms,
    Statistics,
    StudentArms,
    TabularMDP,
    Trajectory,
)
from mixts.prior import MixturePrior

_EXAMPLE_SIZE = 3
"""Components and arms of an example."""

_ONE, _MEAN = np.ones((2, 3)), np.array([[0.0, 0.1, 0.2], [0.2, 0.1, 0.0]])
_FULL = np.stack([np.eye(3), 2 * np.eye(3)])
"""Two components with three arms or features: loops do not depend on the sizes."""

EXAMPLES: dict[str, tuple[Callable[[], Family], ...]] = {
    "bernoulli": (lambda: BernoulliArms(_ONE, _ONE),),
    "gaussian": (lambda: GaussianArms(_MEAN, _ONE, 0.5),),
    "poisson": (lambda: PoissonArms(_ONE, _ONE),),
    "student": (lambda: StudentArms(_MEAN, _ONE, 0.5, 4.0),),
    "spend": (lambda: SpendArms(_ONE, _ONE, _MEAN, 2 * _ONE, 2 * _ONE, _ONE),),
    "linear": (
        lambda: LinearGaussian(_MEAN, _FULL, 0.5),
        lambda: LinearGaussian(_MEAN, np.eye(3), 0.5, "tied"),
    ),
    "linear-student": (lambda: LinearStudent(_MEAN, _FULL, 0.5, 4.0),),
    "logistic": (lambda: LinearBernoulli(_MEAN, _FULL),),
    "mdp": (lambda: TabularMDP(np.ones((2, 2, 2, 2)), np.ones((2, 2, 2, 2)), 2, 0),),
}
"""Families by name, each with an example for every kind of prior that has loops of its own."""

SHARING = (
    ("linear", "linear-student"),
    ("bernoulli", "gaussian", "poisson", "student", "spend"),
    ("logistic",),
    ("mdp",),
)
"""Families that share most of their loops, so that one process should compile them all; the group
that takes longest first."""


def some_actions(prior: MixturePrior) -> Float[Array, "2 d"] | None:
    """Return two actions for a trial decision, or None for a prior of arms."""
    n_features = prior.family.n_features
    return None if n_features is None else np.eye(2, n_features)


def example_of(prior: MixturePrior) -> MixturePrior:
    """Return a prior that needs the same loops as another, with few components and arms of it.

    Decisions with all of them may take seconds.
    """
    heaviest = np.sort(np.argsort(-prior.weights, kind="stable")[:_EXAMPLE_SIZE])
    some = prior.select(heaviest)
    family = some.family
    if family.n_arms is not None:
        family = family.as_arms.arms(np.arange(min(_EXAMPLE_SIZE, family.n_arms)))
    return MixturePrior(family, some.weights, repeatable=some.repeatable)


def rehearse(
    prior: MixturePrior,
    resume: Callable[[Statistics], BeliefAgent],
    tasks: Statistics,
    floor: float = 0.0,
) -> None:
    """Learn once, and decide as a service does: with and without prices, for one action and more.

    Parameters
    ----------
    prior
        Prior of the tasks.
    resume
        Returns an agent for statistics of tasks.
    tasks
        Statistics of one task, with the task axis; the observation is added to them.
    floor
        Smallest probability of an action.
    """
    row, offered = np.zeros(1, np.int64), some_actions(prior)
    sets = None if offered is None else offered[None]
    action = 0 if offered is None else offered[0]
    waiting: list[Any] = [None, (np.array([action]), row)]
    n_actions = len(offered) if offered is not None else prior.family.n_arms or 0
    amounts = np.ones((1, n_actions))
    prices: list[dict[str, Any]] = [{}, {"values": amounts, "costs": amounts}]
    tasks.observe(row, tasks.observations(action, 1.0))
    for before, money, top in itertools.product(waiting, prices, (None, 1)):
        agent = resume(tasks)
        agent.act_with_probabilities(sets, row, None, floor, before, top=top, **money)
        agent.belief.working_weights(row)
    agent.belief.mean_rewards(offered)


def rehearse_family(name: str) -> None:
    """Decide and learn with each example of a family: a script with MixTS, and every service."""
    for make in EXAMPLES[name]:
        prior = MixturePrior(make())
        agent, offered = MixTS(prior, seed=0), some_actions(prior)
        chosen = agent.act(offered)
        if prior.family.plans:
            agent.update(Trajectory(np.zeros(2, np.int64), chosen[:, 0], np.zeros(2)))
            agent.belief.prior.condition(agent.belief.statistics)
            continue
        agent.update(chosen if offered is None else offered[chosen], 1.0)
        for policy in POLICIES.values():
            tasks = prior.family.empty_statistics(1)
            resume = partial(policy.resume, prior)
            rehearse(prior, resume, tasks, floor=0.01)
