"""Late feedback: some decisions of a task wait for their rewards when the next one is made."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import mixts
from mixts.engines import engine_of
from studies._shared import Array, seed_sequence, stream
from studies.policies.agents import GREEDY, IDS, TS, UCB
from studies.policies.problems import shop_prior
from studies.policies.tables import Comparison

WAITS = (1, 5, 20)
"""Decisions that wait for their rewards when a task decides."""
N_ROUNDS = 100
WITH = "{} with waiting="
CLASSES = {TS: mixts.MixTS, IDS: mixts.MixIDS, GREEDY: mixts.Greedy, UCB: mixts.BayesUCB}


def play_late(agent: Any, problem: Any, n_rounds: int, n_waiting: int, *, told: bool) -> Array:
    """Play rounds whose rewards arrive late.

    Parameters
    ----------
    agent
        An agent with as many tasks as the problem has runs.
    problem
        Runs of an environment, from its ``start``.
    n_rounds
        Number of rounds.
    n_waiting
        The reward of decision t arrives after decision t + n_waiting.
    told
        Whether the agent gets the decisions that wait.

    Returns
    -------
    array
        Regret of every round, (n_runs, n_rounds).
    """
    regret = np.empty((len(problem.latent), n_rounds))
    unrewarded: deque[tuple[Any, ...]] = deque()
    for t in range(n_rounds):
        actions, mask = problem.next_round()
        waiting = _waiting([one[0] for one in unrewarded]) if told else None
        chosen = agent.act(actions, mask=mask, waiting=waiting)
        outcome = problem.play(chosen)
        regret[:, t] = outcome.best - outcome.values
        unrewarded.append(outcome.feedback)
        if len(unrewarded) > n_waiting:
            agent.update(*unrewarded.popleft())
    return regret


def _waiting(taken: Sequence[Array]) -> tuple[Array, Array] | None:
    """Return the waiting decisions of all tasks, as ``act`` takes them; None without any."""
    if not taken:
        return None
    n_tasks = len(taken[0])
    return np.concatenate(taken), np.tile(np.arange(n_tasks), len(taken))


def late_agents(prior: mixts.MixturePrior) -> Iterator[tuple[str, Any, bool]]:
    """Yield the name and the spec of every policy, and whether it gets waiting decisions."""
    for name, kind in CLASSES.items():
        yield name, partial(kind, prior), False
    for name, kind in CLASSES.items():
        if name != TS:  # its decisions do not depend on them
            yield WITH.format(name), partial(kind, prior), True


def play_wait(
    name: str, environment: mixts.BanditEnvironment, n_waiting: int, n_runs: int, seed: int
) -> Comparison:
    """Compare all policies on the same problems, with so many waiting decisions."""
    values = {}
    for agent_name, make, told in late_agents(environment.prior):
        problem = environment.start(partial(stream, seed, "late"), n_runs)
        agent = make(n_tasks=n_runs, seed=seed_sequence(seed, "late", agent_name))
        values[agent_name] = play_late(agent, problem, N_ROUNDS, n_waiting, told=told)
    return Comparison(f"{name}, {n_waiting} waiting", values, (20, N_ROUNDS))


def compared_waits(n_runs: int, seed: int, workers: int) -> Iterator[Comparison]:
    """Yield the comparison of all policies for each problem and number of waiting decisions."""
    jobs = [
        (name, environment, n_waiting, n_runs, seed)
        for name, environment in late_problems().items()
        for n_waiting in WAITS
    ]
    with engine_of(workers) as engine:
        yield from engine.map(play_wait, jobs)


def late_problems() -> dict[str, mixts.BanditEnvironment]:
    """Return the environments by name."""
    flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=10))
    return {
        "the shop of the README": mixts.BanditEnvironment(shop_prior()),
        "ten kinds, a good arm for each": mixts.BanditEnvironment(apart_prior()),
        "ten arms, flat prior": mixts.BanditEnvironment(flat),
    }


def apart_prior() -> mixts.MixturePrior:
    """Return a prior with kinds that one observation can tell apart, some likelier than others.

    A policy that repeats itself wastes most here: the best guess may be wrong, and the first reward
    says so.
    """
    weights = 1 / (np.arange(10) + 5.0)
    mean = 0.1 + 0.8 * np.eye(10)
    family = mixts.GaussianArms(mean, np.full_like(mean, 0.05**2), 0.1)
    return mixts.MixturePrior(family, weights / weights.sum())
