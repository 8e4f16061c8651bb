"""The page of a task: its kind, the expected reward of each action, and its decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from msgspec import structs

from mixts.errors import UnknownTaskError
from mixts.pages import formats
from mixts_serve.dashboard import charts, layout
from mixts_serve.dashboard.charts import N_COLOURS, Chart, Scale, Slot
from mixts_serve.dashboard.imagine import read_imagined
from mixts_serve.decider import Decider
from mixts_serve.imagine import Outcome
from mixts_serve.records import MAX_NAME, ActionPosteriors, Health, TaskState
from mixts_serve.rules import Policy
from mixts_serve.store import DecisionStore
from mixts_serve.store.views import ActionRow, DecisionRow, TaskRow, Unrewarded
from mixts_serve.trials import CANARY, CONTROL

MOST_ACTIONS = 30
LAST_DECISIONS = 25
HISTORY = 200
"""Decisions that the chart shows."""
COUNTED = 10_000
"""Latest decisions in which actions are counted, which takes a few hundredths of a second."""


@dataclass(frozen=True)
class Action:
    """An arm, or a row of the actions offered last: expected and observed rewards."""

    index: int
    name: str
    mean: float
    low: float
    high: float
    taken: int
    rewards: int
    """Number of its final decisions that have a reward."""
    observed: float | None
    """Mean of its rewards."""
    retired: bool
    best: bool
    known: str = ""
    """What facts and scores do to it; nothing without effects that are the same for everybody."""

    @property
    def text(self) -> formats.Bounds:
        """Mean and interval as text."""
        return formats.bounds(self.low, self.mean, self.high)


@dataclass(frozen=True)
class TaskView:
    """Everything that the page of a task shows."""

    now: float
    task: str
    health: Health
    prior: layout.PriorFacts
    policy: Policy
    state: TaskState
    row: TaskRow
    kinds: tuple[layout.Kind, ...]
    actions: tuple[Action, ...]
    n_actions: int
    scale: Scale
    """Scale of the actions' means and intervals."""
    history: tuple[DecisionRow, ...]

    @property
    def facts(self) -> str:
        """Facts that were known of the person when actions were last offered."""
        known = self.state.context.items()
        return ", ".join(f"{formats.visible(name)} {_shown(value)}" for name, value in known)

    @property
    def first_number(self) -> int:
        """Number of the first decision of ``history`` among all of the task."""
        return max(1, self.row.decisions - len(self.history) + 1)

    @property
    def deciding(self) -> list[str]:
        """Short words for what decides about the task: in a trial, what decided last."""
        last = self.history[-1] if self.history else None
        if last is not None and last.side == CONTROL:
            return [f"policy {last.policy} (held back)"]
        words = layout.policy_short(self.policy)
        if last is not None and last.side == CANARY:
            words.append(f"canary of version {last.prior_version}")
        return words

    @property
    def comparable(self) -> tuple[DecisionRow, ...]:
        """The last decisions under the active prior: other versions have other kinds."""
        rows = takewhile(
            lambda row: row.prior_version == self.prior.version, reversed(self.history)
        )
        return tuple(rows)[::-1]

    @property
    def latest(self) -> list[tuple[int, DecisionRow]]:
        """Last decisions with their numbers, newest first."""
        numbered = list(enumerate(self.history, self.first_number))
        return numbered[: -LAST_DECISIONS - 1 : -1]

    @property
    def unrewarded(self) -> Unrewarded:
        """Number of decisions without a reward; those before ``history`` count as waiting."""
        silent = self.row.decisions - self.row.rewards - self.row.deferred
        given_up = sum(self.outcome(row) == "given up" for row in self.history)
        return Unrewarded(max(0, silent - given_up), self.row.deferred, given_up, 0)

    def outcome(self, row: DecisionRow) -> str:
        """Return why a decision has no reward; nothing if it has one."""
        if row.value is not None:
            return ""
        if row.deferred and row.activated_at is None:
            return "not activated"
        return "given up" if row.due is not None and row.due < self.now else "waiting"

    def taken(self, row: DecisionRow) -> str:
        """Return the name of the action that a decision took: its id, if it has one."""
        return row.arm or self.prior.action(row.action)

    def kind_then(self, row: DecisionRow) -> tuple[str, float]:
        """Return the kind that was most likely at a decision, and its probability."""
        component = max(range(len(row.weights)), key=lambda s: row.weights[s])
        return self.prior.kind(component, row.prior_version), row.weights[component]

    def observed_place(self, action: Action) -> float | None:
        """Return the position of an action's observed mean, or None if it is off the scale."""
        if action.observed is None or not self.scale.low <= action.observed <= self.scale.high:
            return None
        return self.scale.place(action.observed)


def task_page(
    decider: Decider,
    store: DecisionStore,
    task: str,
    *,
    now: float,
    address: str = layout.ADDRESS,
    token: bool = False,
    imagine: Sequence[Outcome] = (),
) -> str:
    """Render the page of a task. Raise `UnknownTaskError` if the store has never seen it."""
    view = read_task(decider, store, task, now)
    shown = view.comparable
    return layout.render(
        "task",
        view=view,
        token=token,
        likeliest=max(view.kinds, key=lambda kind: (kind.kind is not None, kind.share)),
        tiles=_tiles(view),
        imagined=read_imagined(decider, view.prior, view.actions, task, imagine),
        weights=(
            weight_chart(shown, view.row.decisions - len(shown) + 1, view.prior)
            if shown and view.prior.has_kinds
            else None
        ),
        period=(
            f"From {formats.moment(shown[0].at)} to {formats.moment(shown[-1].at)}."
            if shown
            else ""
        ),
        actions_caption=_actions_caption(view),
        decide=layout.decide_command(address, task, view.prior, token),
        reward=layout.reward_command(address, view.history[-1].id if view.history else None, token),
    )


# -- contents -------------------------------------------------------------------------------------


def read_task(decider: Decider, store: DecisionStore, task: str, now: float) -> TaskView:
    """Read everything that the page of a task shows."""
    row = store.task(task) if 0 < len(task) <= MAX_NAME and "\0" not in task else None
    if row is None:
        raise UnknownTaskError(f"the store has never seen a task of the name {task!r}")
    state, posterior = decider.task(task), decider.posterior(task, MOST_ACTIONS)
    facts = layout.prior_facts(decider.prior, decider.prior_version)
    history = [
        structs.replace(row, weights=facts.by_kind(row.weights, row.prior_version))
        for row in store.history(task, HISTORY)
    ]
    # Rows of features are others at every decision: their indices mean nothing.
    counts = []
    if facts.n_arms is not None:
        counts = store.actions(task, COUNTED, store.final_until(now))
    actions = _actions(posterior, counts, facts, state.ids)
    if facts.effects and actions:
        offered = store.last_offer(task)
        assert offered is not None  # or there would be no actions
        added = offered.rows[:, -1].tolist()
        actions = tuple(
            replace(one, known=effect_words(added[one.index], facts.odds)) for one in actions
        )
    ends = [value for one in actions for value in (one.low, one.high, one.mean)]
    return TaskView(
        now=now,
        task=task,
        health=decider.health(),
        prior=facts,
        policy=decider.policy,
        state=state,
        row=row,
        kinds=kind_weights(facts.by_kind(state.weights), facts),
        actions=actions,
        n_actions=posterior.n_actions,
        scale=charts.number_scale(ends, 5),
        history=tuple(history),
    )


def kind_weights(weights: Sequence[float], facts: layout.PriorFacts) -> tuple[layout.Kind, ...]:
    """Return all kinds in their order or, of many, the most likely ones and the rest together."""
    kinds = layout.largest_kinds(
        [
            layout.Kind(facts.kind(s), s, None, weight, facts.weight(s), facts.about(s))
            for s, weight in enumerate(weights)
        ]
    )
    looks = charts.colours([kind.kind for kind in kinds if kind.kind is not None])
    return tuple(
        kind if kind.kind is None else replace(kind, colour=looks[kind.kind]) for kind in kinds
    )


def _actions(
    posterior: ActionPosteriors,
    counts: Sequence[ActionRow],
    facts: layout.PriorFacts,
    ids: Sequence[str] | None = None,
) -> tuple[Action, ...]:
    """Return all actions in their order or, of many, those with the highest means."""
    found = []
    taken = {row.action: row for row in counts}
    for k, mean, low, high in zip(
        posterior.indices, posterior.mean, posterior.low, posterior.high, strict=True
    ):
        seen = taken.get(k, ActionRow(k, 0, 0, 0.0))
        found.append(
            Action(
                index=k,
                name=facts.action(k) if ids is None else ids[k],
                mean=mean,
                # A mixture may be so skewed that its mean lies outside a central interval.
                low=min(low, mean),
                high=max(high, mean),
                taken=seen.decisions,
                rewards=seen.rewards,
                observed=seen.reward_sum / seen.rewards if seen.rewards else None,
                retired=facts.is_retired(k),
                best=False,
            )
        )
    if posterior.n_actions > len(found):
        found.sort(key=lambda action: (-action.mean, action.index))
    open_to = [action for action in found if not action.retired]
    if open_to and posterior.n_actions > 1:
        best = max(open_to, key=lambda action: action.mean)
        found = [replace(one, best=one is best) for one in found]
    return tuple(found)


def effect_words(value: float, odds: bool) -> str:
    """Return what facts and scores do to an action: "odds × 1.8", or "+0.300"."""
    if odds:
        return f"odds × {formats.number(math.exp(min(max(value, -700.0), 700.0)))}"
    return f"{'+' if value > 0 else ''}{formats.number(value)}"


def _shown(value: float | bool | str) -> str:
    if isinstance(value, str):
        return formats.visible(value)
    return formats.number(float(value))


def _tiles(view: TaskView) -> list[layout.Tile]:
    row = view.row
    seen = f"first {formats.ago(row.first_at, view.now)}"
    rewards = [
        f"{formats.count(n)} {word}" for n, word in ((row.defaults, "defaults"), (row.late, "late"))
        if n
    ]  # fmt: skip
    silent = formats.count(max(0, row.decisions - row.rewards))
    return [
        ("Decisions", formats.count(row.decisions), "", seen),
        ("Rewards", formats.count(row.rewards), "", ", ".join(rewards) or "all in time"),
        ("Without reward", silent, "", layout.unrewarded_words(view.unrewarded)),
        ("Last activity", formats.ago(row.last_at, view.now), "", formats.moment(row.last_at)),
    ]


def _actions_caption(view: TaskView) -> str:
    if view.prior.n_arms is None:
        return "Mean reward of the actions that were offered last"
    if view.row.decisions > COUNTED:
        return f"Mean reward of each arm; taken and observed in the last {COUNTED:,} decisions"
    return "Mean reward of each arm"


# -- the chart of probabilities -------------------------------------------------------------------


def weight_chart(history: Sequence[DecisionRow], first: int, facts: layout.PriorFacts) -> Chart:
    """Draw the probabilities of kinds, stacked to one, decision by decision.

    Parameters
    ----------
    history
        Decisions of a task under the active prior, oldest first.
    first
        Number of the first of them.
    facts
        The active prior.
    """
    x = charts.count_scale(first, first + len(history) - 1)
    totals = [sum(column) for column in zip(*(row.weights for row in history), strict=True)]
    order = sorted(range(len(totals)), key=lambda s: (-totals[s], s))
    looks = charts.colours(order[: N_COLOURS if len(order) <= N_COLOURS else N_COLOURS - 1])
    shares = {f"c{look}": [row.weights[s] for row in history] for s, look in looks.items()}
    last = history[-1].weights
    parts = [(facts.kind(s), last[s], f"c{look}") for s, look in looks.items()]
    begin, end = (
        layout.weights_in_words(row.weights, facts, 1) for row in (history[0], history[-1])
    )
    return Chart(
        title="Probability of each kind, decision by decision",
        description=(
            f"Decisions {formats.count(first)} to {formats.count(first + len(history) - 1)}: at "
            f"first {begin}, at last {end}."
        ),
        bands=tuple(charts.stacked(shares, [1.0] * len(history), first, x)),
        labels=charts.stacked_labels(parts, f"{len(totals) - len(looks)} others"),
        x_ticks=x.ticks,
        y_ticks=charts.SHARE_TICKS,
        slots=tuple(_slot(row, n, x, facts) for n, row in enumerate(history, first)),
    )


def _slot(row: DecisionRow, n: int, x: Scale, facts: layout.PriorFacts) -> Slot:
    left, right = x.place(n), x.place(n + 1)
    words = layout.weights_in_words(row.weights, facts, 3)
    text = f"decision {formats.count(n)}, {formats.moment(row.at)}: {words}"
    return Slot(left, round(right - left, 2), text)
