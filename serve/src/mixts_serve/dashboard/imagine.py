"""The panel that answers "what would it do?": imagined outcomes of a task, and what they change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from mixts.errors import MixtsError, UnknownTaskError
from mixts.pages import formats
from mixts_serve.dashboard import layout
from mixts_serve.decider import Decider
from mixts_serve.imagine import MOST_IMAGINED, Outcome


class _Named(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Change:
    """A number now, and after what is imagined."""

    now: float
    then: float


@dataclass(frozen=True)
class ImaginedAction:
    """An action in the panel."""

    index: int
    name: str
    mean: Change
    chance: Change | None
    """Probability in the next decision; None if the task has none."""
    links: tuple[tuple[str, str], ...]
    """Words and addresses of one more outcome; none where rewards are any numbers."""


@dataclass(frozen=True)
class ImaginedView:
    """Everything that the panel shows."""

    steps: str
    """What is imagined, in words; nothing at first."""
    kinds: tuple[tuple[str, Change], ...]
    """Kinds of which the probability moves, those that move most first."""
    actions: tuple[ImaginedAction, ...]
    error: str
    """Why the outcomes are impossible; "" if they are not."""
    kept: str
    """Outcomes as the address has them."""
    is_full: bool
    """Whether no more outcomes may be imagined."""


def read_outcomes(query: Mapping[str, str]) -> tuple[Outcome, ...]:
    """Return the outcomes that an address asks for: ``imagine=2:1,0:0``, or a form's fields."""
    given = [part.partition(":")[::2] for part in query.get("imagine", "").split(",") if part]
    if query.get("value", "").strip():
        given.append((query.get("action", ""), query["value"]))
    found = []
    for action, value in given[: MOST_IMAGINED + 1]:
        try:
            one = int(action), float(value)
        except ValueError:
            continue
        if math.isfinite(one[1]):
            found.append(one)
    return tuple(found)


def read_imagined(
    decider: Decider,
    facts: layout.PriorFacts,
    actions: Sequence[_Named],
    task: str,
    outcomes: Sequence[Outcome],
) -> ImaginedView | None:
    """Return what outcomes would change; None for a task without actions."""
    if not actions:
        return None
    error = ""
    try:
        before, after = decider.imagine(task, outcomes)
    except UnknownTaskError:
        raise
    except MixtsError as wrong:
        error, outcomes = str(wrong), ()
        before, after = decider.imagine(task)
    names = {one.index: one.name for one in actions}
    kept = ",".join(f"{action}:{reward:.15g}" for action, reward in outcomes)
    is_full = len(outcomes) >= MOST_IMAGINED
    rows = tuple(
        ImaginedAction(
            k, name, Change(before.mean_rewards[k], after.mean_rewards[k]),
            Change(before.probabilities[k], after.probabilities[k])
            if before.probabilities and after.probabilities else None,
            () if is_full or not facts.is_binary else _links(task, kept, k),
        )
        for k, name in names.items()
    )  # fmt: skip
    steps = ", ".join(
        f"{formats.visible(names.get(k) or facts.action(k))} {formats.number(reward)}"
        for k, reward in outcomes
    )
    shares = zip(facts.by_kind(before.weights), facts.by_kind(after.weights), strict=True)
    kinds = [(facts.kind(g), Change(*pair)) for g, pair in enumerate(shares)]
    kinds = sorted(
        (one for one in kinds if formats.percent(one[1].now) != formats.percent(one[1].then)),
        key=lambda one: -abs(one[1].then - one[1].now),
    )
    return ImaginedView(steps, tuple(kinds[: layout.MOST_KINDS]), rows, error, kept, is_full)


def _links(task: str, kept: str, action: int) -> tuple[tuple[str, str], ...]:
    """Return the addresses with one more outcome of 1 or 0."""
    begin = f"{layout.task_link(task)}&imagine={quote(kept + ',' * bool(kept), safe=':,.')}"
    return tuple((str(value), f"{begin}{action}:{value}#imagine") for value in (1, 0))
