"""A task's page: which kind it is, what each action is worth, and what was decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mixts.errors import UnknownTaskError
from mixts.service.dashboard.scales import Scale, number_scale
from mixts.service.dashboard.source import Believer, PriorFacts, Reader, colours, prior_facts
from mixts.service.records import (
    MAX_NAME,
    ActionPosteriors,
    ActionRow,
    DecisionRow,
    Health,
    TaskRow,
    TaskState,
)

MOST_KINDS = 8
MOST_ACTIONS = 30
LAST_DECISIONS = 25
HISTORY = 200
"""Decisions that the charts look back on."""
COUNTED = 10_000
"""Decisions in which actions are counted: a few hundredths of a second."""


@dataclass(frozen=True)
class KindWeight:
    """A latent state of the task, beside the prior's weight of it."""

    name: str
    colour: int | None
    """None for several together."""
    weight: float
    prior: float


@dataclass(frozen=True)
class Action:
    """An arm (or a row of features that was offered last): what is believed and what was seen."""

    index: int
    name: str
    mean: float
    low: float
    high: float
    taken: int
    observed: float | None
    """The mean of its rewards."""
    retired: bool
    best: bool


@dataclass(frozen=True)
class TaskView:
    """All that a task's page shows."""

    now: float
    task: str
    health: Health
    prior: PriorFacts
    state: TaskState
    row: TaskRow
    kinds: tuple[KindWeight, ...]
    actions: tuple[Action, ...]
    n_actions: int
    scale: Scale
    """Of the actions' means and intervals."""
    history: tuple[DecisionRow, ...]

    @property
    def first_number(self) -> int:
        """Of the first decision of ``history``, among all of the task's."""
        return max(1, self.row.decisions - len(self.history) + 1)

    @property
    def latest(self) -> list[tuple[int, DecisionRow]]:
        """The last decisions with their numbers, newest first."""
        numbered = list(enumerate(self.history, self.first_number))
        return numbered[: -LAST_DECISIONS - 1 : -1]


def read_task(decider: Believer, store: Reader, task: str, now: float) -> TaskView:
    """Ask for all that a task's page shows."""
    row = store.task(task) if 0 < len(task) <= MAX_NAME and "\0" not in task else None
    if row is None:
        raise UnknownTaskError(f"the store has never seen a task of the name {task!r}")
    state, posterior = decider.state(task), decider.posterior(task)
    facts = prior_facts(decider.prior, decider.prior_version)
    history = store.history(task, HISTORY)
    # Which row of the features it was says nothing: they are others at every decision.
    counts = [] if facts.n_arms is None else store.actions(task, COUNTED)
    actions = _actions(posterior, counts, facts)
    ends = [value for one in actions for value in (one.low, one.high, one.mean)]
    return TaskView(
        now=now,
        task=task,
        health=decider.health(),
        prior=facts,
        state=state,
        row=row,
        kinds=kind_weights(state.weights, facts),
        actions=actions,
        n_actions=len(posterior.mean),
        scale=number_scale(ends, 5),
        history=tuple(history),
    )


def kind_weights(weights: Sequence[float], facts: PriorFacts) -> tuple[KindWeight, ...]:
    """All kinds in their order or, of many, those that weigh most and the rest as one."""
    order = list(range(len(weights)))
    if len(order) > MOST_KINDS:
        order.sort(key=lambda s: (-weights[s], -facts.weight(s), s))
        order = order[: MOST_KINDS - 1]
    looks = colours(order)
    found = [KindWeight(facts.kind(s), looks[s], weights[s], facts.weight(s)) for s in order]
    rest = sorted(set(range(len(weights))) - set(order))
    if rest:
        total = math.fsum(weights[s] for s in rest)
        prior = math.fsum(facts.weight(s) for s in rest)
        found.append(KindWeight(f"{len(rest)} others", None, total, prior))
    return tuple(found)


def _actions(
    posterior: ActionPosteriors, counts: Sequence[ActionRow], facts: PriorFacts
) -> tuple[Action, ...]:
    """All actions in their order or, of many, those with the highest means."""
    n = len(posterior.mean)
    order = list(range(n))
    open_to = [k for k in order if not (k < len(facts.retired) and facts.retired[k])]
    best = max(open_to, key=lambda k: posterior.mean[k], default=None)
    if n > MOST_ACTIONS:
        order.sort(key=lambda k: (-posterior.mean[k], k))
    taken = {row.action: row for row in counts}
    found = []
    for k in order[:MOST_ACTIONS]:
        seen = taken.get(k, ActionRow(k, 0, 0, 0.0))
        found.append(
            Action(
                index=k,
                name=facts.action(k),
                mean=posterior.mean[k],
                low=posterior.low[k],
                high=posterior.high[k],
                taken=seen.decisions,
                observed=seen.reward_sum / seen.rewards if seen.rewards else None,
                retired=k < len(facts.retired) and facts.retired[k],
                best=k == best and n > 1,
            )
        )
    return tuple(found)
