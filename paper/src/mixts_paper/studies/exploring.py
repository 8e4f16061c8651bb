"""What does it cost to draw some decisions evenly, and what does the log gain by it?

A service decides by information-directed sampling, which gives most actions the probability 0. Here
it also draws some decisions evenly among the available actions: a share of all decisions, whatever
the number of actions, or so much for each action, whatever their sum. The study measures

- *cost*: the reward that first decisions lose, against a service that draws none evenly;
- *evaluation*: the error of estimates, from the log, of what other policies would have earned;
- *refit*: the reward of the next prior, learned from the log, in fresh tasks.

The prior of the service is learned from past logs of random choices, as in ``refits``. Two worlds
are controls. In *nothing to learn* the prior is certain and right. In *as before* the next prior
meets the world of the past logs, in *an arm rose* one that has changed since:

    python -m mixts_paper.studies.exploring
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np

import mixts
from mixts.agents import BeliefAgent
from mixts.extend import Array, Estimate, estimate, random
from mixts.families import Statistics
from mixts.learning import refit_prior
from mixts_paper.studies.refits import WORLDS, World, learn, play

FIRST = (5, 20, 100)
"""Numbers of first decisions whose cost is measured."""
N_TASKS, N_LOGGED = 500, 20
"""Tasks of a log that is evaluated, and decisions of a task."""
N_LIVE, N_FRESH = 2000, 500
"""Tasks whose log a refit learns from, and tasks that are played with the next prior."""
LEVEL = 1.96
"""Standard errors on both sides of a 95 % interval."""


class Plan(NamedTuple):
    """How many decisions are drawn evenly."""

    size: float
    per_action: bool = False
    policy: type[BeliefAgent] = mixts.MixIDS

    def __str__(self) -> str:
        if not self.size:
            return f"none, {self.policy.__name__}"
        return f"{100 * self.size:g} % {'of each action' if self.per_action else 'of decisions'}"

    def floor(self, n_actions: int) -> float:
        """Return the least probability of an action; at most that of a uniform choice."""
        return min(self.size if self.per_action else self.size / n_actions, 1 / n_actions)


NONE = Plan(0.0)
SHARES = tuple(Plan(size) for size in (0.005, 0.01, 0.02, 0.05))
EACH = tuple(Plan(size, per_action=True) for size in (0.001, 0.01))
THOMPSON = Plan(0.0, policy=mixts.MixTS)

CERTAIN = np.array([[0.5, 0.4, 0.3, 0.2, 0.1]])
"""Means of the arms where nothing is to be learned."""


def _certain() -> World:
    n = 1e7  # parameters of a Beta distribution that no log of this study can move
    return World(mixts.MixturePrior(mixts.BernoulliArms(n * CERTAIN, n * (1 - CERTAIN))))


NOTHING = "nothing to learn"
ALL = {NOTHING: _certain, **WORLDS}
COSTED = {
    NOTHING: 100, "clicks, 5 arms": 2000, "clicks, 40 arms": 500, "linear": 1000,
    "clicks with features": 100,
}  # fmt: skip
"""Tasks whose cost is measured; those of large worlds take longer."""
EVALUATED = {"clicks, 5 arms": 40, "clicks, 40 arms": 10, "linear": 20}
"""Logs that are evaluated."""
REFITTED = ("clicks, 5 arms", "clicks, 40 arms")


@cache
def world_and_prior(name: str) -> tuple[World, mixts.MixturePrior]:
    """Return a world, and the prior that a service learned from its past logs."""
    world = replace(ALL[name](), n_components=3)
    if name == NOTHING:
        return world, world.truth
    return world, learn(world, past(world))


def past(world: World) -> Statistics:
    """Return the logs of random choices from which the service learned its prior."""
    return play(world, None, world.n_past, world.past_decisions, 3).statistics


# -- a service that draws some decisions evenly ----------------------------------------------------

Target = Callable[[Array | None, Array], Array]
"""A policy to evaluate: (rows of features, mean rewards under the better prior) to its law."""


def uniform(rows: Array | None, better: Array) -> Array:
    """Return the law of a uniform choice."""
    return np.full(better.shape, 1 / better.shape[1])


def greedy(rows: Array | None, better: Array) -> Array:
    """Return the law of a greedy policy with the better prior: the true one."""
    return np.asarray(np.eye(better.shape[1])[better.argmax(axis=1)])


def bestseller(prior: mixts.MixturePrior) -> Target:
    """Return the policy that always takes the action of the highest mean under the prior."""
    mean = prior.weights @ prior.family.parameter_means()

    def law(rows: Array | None, better: Array) -> Array:
        scores = mean if rows is None else rows @ mean
        return greedy(rows, np.broadcast_to(scores, better.shape))

    return law


@dataclass
class Terms:
    """What the log of each task says about another policy: sums over decisions, (n_tasks,)."""

    value: Array
    """What the policy would have earned, by the true means."""
    weight: Array
    """Importance weights w, its probability of the action over the logged one."""
    weight_squared: Array
    weighted: Array
    """w times reward."""
    robust: Array
    """Its mean reward by the service's belief, corrected by w times the error of the belief."""

    @classmethod
    def empty(cls, n_tasks: int) -> Terms:
        """Return the terms of logs without decisions."""
        return cls(*np.zeros((5, n_tasks)))

    def part(self, rows: slice) -> Terms:
        """Return the terms of some tasks."""
        return Terms(*(x[rows] for x in vars(self).values()))


@dataclass
class Served:
    """Tasks that a service decided for."""

    reward: Array
    """Mean reward of each decision, by its law and the true means, (n_tasks, n_decisions)."""
    statistics: Statistics
    terms: dict[str, Terms] = field(default_factory=dict)


def serve(
    name: str, plan: Plan, n_tasks: int, n_decisions: int, seed: int,
    targets: dict[str, Target] | None = None, truth: mixts.MixturePrior | None = None,
) -> Served:  # fmt: skip
    """Serve tasks of a world; the same seed gives the same tasks."""
    world, prior = world_and_prior(name)
    environment = mixts.BanditEnvironment(truth or world.truth, world.actions)
    problem = environment.start(lambda stream: random.stream(seed, stream), n_tasks)
    agent = plan.policy(prior, n_tasks, seed=seed)
    better = mixts.Greedy(world.truth, n_tasks, seed=seed)
    terms = {target: Terms.empty(n_tasks) for target in targets or {}}
    reward, tasks = np.empty((n_tasks, n_decisions)), np.arange(n_tasks)
    for t in range(n_decisions):
        rows, means = problem.next_round().actions, problem.means
        chosen, law, _ = agent.act_with_probabilities(rows, floor=plan.floor(means.shape[1]))
        outcome = problem.play(chosen)
        reward[:, t] = (law * means).sum(axis=1)
        if targets:
            expected = agent.belief.mean_rewards(rows)
            known = better.belief.mean_rewards(rows)
            for target, one in terms.items():
                other = targets[target](rows, known)
                weight = other[tasks, chosen] / law[tasks, chosen]
                error = outcome.feedback[1] - expected[tasks, chosen]
                one.value += (other * means).sum(axis=1)
                one.weight += weight
                one.weight_squared += weight**2
                one.weighted += weight * outcome.feedback[1]
                one.robust += (other * expected).sum(axis=1) + weight * error
            better.update(*outcome.feedback)
        agent.update(*outcome.feedback)
    return Served(reward, agent.belief.statistics, terms)


# -- cost ------------------------------------------------------------------------------------------


def costs(
    name: str, plans: Sequence[Plan], n_tasks: int, seed: int
) -> Iterator[tuple[Plan, list[Estimate]]]:
    """Yield the reward of first decisions without a plan, and how much each plan loses of it."""
    without = serve(name, NONE, n_tasks, FIRST[-1], seed).reward
    yield NONE, _of_first(without)
    for plan in plans:
        yield plan, _of_first(without - serve(name, plan, n_tasks, FIRST[-1], seed).reward)


def _of_first(rewards: Array) -> list[Estimate]:
    return [estimate(rewards[:, :n].mean(axis=1)) for n in FIRST]


# -- evaluation ------------------------------------------------------------------------------------


class Estimates(NamedTuple):
    """An estimate and its standard error by each method."""

    ips: Estimate
    snips: Estimate
    robust: Estimate

    @classmethod
    def of(cls, terms: Terms, n_decisions: int) -> Estimates:
        """Return the estimates from the log of independent tasks."""
        total = terms.weight.sum()
        mean = terms.weighted.sum() / max(total, 1e-300)
        rest = terms.weighted - mean * terms.weight
        snips = Estimate(float(mean), float(np.sqrt((rest**2).sum()) / max(total, 1e-300)))
        return cls(
            estimate(terms.weighted / n_decisions), snips, estimate(terms.robust / n_decisions)
        )


class Quality(NamedTuple):
    """How well logs estimate the value of a policy."""

    rmse: Array
    """By method."""
    coverage: Array
    """Share of the 95 % intervals that hold the true value, by method."""
    effective: float
    """Effective sample size of a log, as a share of its decisions."""

    @classmethod
    def of(cls, terms: Terms, n_logs: int, n_decisions: int) -> Quality:
        """Split the tasks into logs, and compare the estimates with the value in all tasks."""
        size = len(terms.value) // n_logs
        parts = [terms.part(slice(i * size, (i + 1) * size)) for i in range(n_logs)]
        truth = terms.value.mean() / n_decisions
        made = np.array([Estimates.of(part, n_decisions) for part in parts])
        gap, error = made[:, :, 0] - truth, made[:, :, 1]
        squared = terms.weight_squared.sum()
        return cls(
            np.sqrt((gap**2).mean(axis=0)),
            (np.abs(gap) <= LEVEL * error).mean(axis=0),
            float(terms.weight.sum() ** 2 / max(squared, 1e-300) / (size * n_logs * n_decisions)),
        )


def evaluation(name: str, plan: Plan, n_logs: int, seed: int) -> dict[str, Quality]:
    """Return how well logs evaluate three other policies."""
    _, prior = world_and_prior(name)
    targets = {"uniform": uniform, "bestseller": bestseller(prior), "better prior": greedy}
    served = serve(name, plan, n_logs * N_TASKS, N_LOGGED, seed, targets)
    return {target: Quality.of(terms, n_logs, N_LOGGED) for target, terms in served.terms.items()}


# -- refit -----------------------------------------------------------------------------------------


def risen(truth: mixts.MixturePrior) -> mixts.MixturePrior:
    """Return a world in which the least arm has become the best one for all kinds."""
    family = truth.family
    assert isinstance(family, mixts.BernoulliArms)
    alpha, beta = family.alpha.copy(), family.beta.copy()
    total, mean = alpha + beta, alpha / (alpha + beta)
    least = int((truth.weights @ mean).argmin())
    alpha[:, least] = total[:, least] * np.minimum(mean.max() + 0.1, 0.9)
    beta[:, least] = total[:, least] - alpha[:, least]
    return mixts.MixturePrior(mixts.BernoulliArms(alpha, beta), truth.weights)


@cache
def live_log(name: str, plan: Plan, rises: bool, seed: int) -> Statistics:
    """Return what a service learned of live tasks."""
    world, _ = world_and_prior(name)
    truth = risen(world.truth) if rises else world.truth
    return serve(name, plan, N_LIVE, world.live_decisions, 3 * seed + 1, truth=truth).statistics


@cache
def fresh_rewards(name: str, plan: Plan | None, rises: bool, anew: bool, seed: int) -> Array:
    """Return rewards of fresh tasks with the next prior; with the old one if there is no plan.

    The next prior goes on from the old one, or is learned anew from the logs of both.
    """
    world, prior = world_and_prior(name)
    if plan is not None:
        live = live_log(name, plan, rises, seed)
        old = prior
        prior = learn(world, past(world).concatenate(live)) if anew else refit_prior(old, live)
    now = replace(world, truth=risen(world.truth) if rises else world.truth)
    return play(now, prior, N_FRESH, world.fresh_decisions, 3 * seed + 2).reward


def gain(name: str, plan: Plan, rival: Plan | None, rises: bool, anew: bool, n: int) -> Estimate:
    """Return how much more a decision earns after a plan than after a rival, on n turns."""
    gaps = [
        fresh_rewards(name, plan, rises, anew, seed)
        - fresh_rewards(name, rival, rises, anew and rival is not None, seed)
        for seed in range(1, n + 1)
    ]
    return estimate(np.concatenate(gaps))


# -- the command -----------------------------------------------------------------------------------


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _head(*cells: str) -> str:
    return _row(*cells) + "\n" + _row(*("---" for _ in cells))


def _thousandths(value: Estimate) -> str:
    return f"{1e3 * value.mean:+.1f} ± {1e3 * value.error:.1f}".replace("-", "−")


def show_costs(scale: float) -> Iterator[str]:
    """Yield the lines of the table of costs."""
    yield "**Cost: reward of a decision without, and how much of it is lost, in thousandths**\n"
    yield _head("world", "drawn evenly", *(f"first {n}" for n in FIRST))
    plans = (*SHARES, *EACH, THOMPSON)
    for name, n_tasks in COSTED.items():
        for plan, lost in costs(name, plans, max(2, round(scale * n_tasks)), seed=5):
            yield _row(name, plan, *map(_thousandths, lost))


def show_evaluations(scale: float) -> Iterator[str]:
    """Yield the lines of the table of evaluations."""
    yield f"\n**Evaluation: error (coverage) from {N_TASKS} tasks of {N_LOGGED} decisions**\n"
    yield _head("world", "policy", "drawn evenly", "effective", "IPS", "SNIPS", "doubly robust")
    plans = (NONE, *SHARES[1:], EACH[1], THOMPSON)
    for name, n_logs in EVALUATED.items():
        found = {plan: evaluation(name, plan, max(2, round(scale * n_logs)), 7) for plan in plans}
        for target in found[NONE]:
            for plan in plans:
                one = found[plan][target]
                pairs = zip(one.rmse, one.coverage, strict=True)
                cells = [f"{error:.4f} ({share:.0%})" for error, share in pairs]
                yield _row(name, target, plan, f"{one.effective:.1%}", *cells)


def show_refits(scale: float) -> Iterator[str]:
    """Yield the lines of the table of refits."""
    yield f"\n**Refit from {N_LIVE} tasks: reward of first decisions, in thousandths**\n"
    than = "more than after none"
    yield _head("world", "drawn evenly", "refitted, more than before", than, "learned anew", than)
    n = max(1, round(3 * scale))
    for name in REFITTED:
        for rises in (False, True):
            for plan in (NONE, *SHARES, EACH[1]):
                cells = [
                    _thousandths(gain(name, plan, rival, rises, anew, n))
                    for anew in (False, True)
                    for rival in (None, NONE)
                ]
                yield _row(f"{name}, {'an arm rose' if rises else 'as before'}", plan, *cells)


PARTS = {"cost": show_costs, "evaluation": show_evaluations, "refit": show_refits}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--part", choices=tuple(PARTS), help="only this table (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the runs (default 1)")
    options = parser.parse_args(arguments)
    for part in PARTS if options.part is None else (options.part,):
        for line in PARTS[part](options.scale):
            print(line, flush=True)


if __name__ == "__main__":
    main()
