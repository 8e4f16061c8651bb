"""What the service is worth: its tasks compared with those that a holdback left to a baseline.

Sums over tasks come from the log: one statement for the rewards, and one for each metric. Only
decisions that are final count, so that clicks are not seen before the zeros of the same time.
"""

from __future__ import annotations

import math
import time

from msgspec import Struct

from mixts_serve import lift
from mixts_serve.lift import Lift, Sums
from mixts_serve.periodic import Periodic
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import FIND_META, HOLDBACK, parse_holdback
from mixts_serve.trials import CANARY, CONTROL, TREATED

MOST_METRICS = 10
"""Metrics that are compared: the most frequent ones."""

_LAST_DECISIONS = 1000
"""Decisions that are looked at to tell whether a trial is on."""
_REST = 20.0
"""Pause after reading, in times of its duration: the watch takes a twentieth of a core at most."""
POLL_SECONDS = 10.0

_SECOND = 1_000_000
_NEVER = 2**62

_SIDES = """
    WITH t AS (
        SELECT d.task AS task, CASE WHEN d.side = ? THEN 1 ELSE 0 END AS base,
            CAST(COUNT(*) AS DOUBLE PRECISION) AS n, SUM({value}) AS y, SUM(ABS({value})) AS size
        FROM decisions d {joined} WHERE d.side IN (?, ?, ?) AND d.at < ? {filter} GROUP BY 1, 2
    ), s AS (
        SELECT base, SUM(y) / SUM(n) AS per_decision, AVG(y) AS per_task FROM t GROUP BY base
    ), e AS (
        SELECT t.base, n, y, size, (y - per_decision * n) * (y - per_decision * n) AS ee,
            (y - per_task) * (y - per_task) AS tt
        FROM t JOIN s ON s.base = t.base
    )
    SELECT base, COUNT(*), CAST(SUM(n) AS BIGINT), SUM(y), SUM(size), SUM(ee), SUM(ee * ee),
        SUM(tt), SUM(tt * tt)
    FROM e GROUP BY base
"""
"""Sums of ``lift.Sums`` by side, over sums by task: n decisions with rewards of y together."""
_BORN = " AND d.task IN (SELECT number FROM tasks WHERE first_at >= ?)"
_REWARDED = "JOIN rewards r ON r.decision = d.seq AND r.late = 0"
_MEASURED = f"{_REWARDED} LEFT JOIN metrics m ON m.decision = d.seq AND m.name = ?"
_SHOWN = (
    "LEFT JOIN rewards r ON r.decision = d.seq AND r.late = 0 "
    "LEFT JOIN activated a ON a.decision = d.seq"
)
_RECENT = (
    "SELECT 1 FROM (SELECT side FROM decisions ORDER BY seq DESC LIMIT ?) d WHERE side = ? LIMIT 1"
)
_NAMES = "SELECT name FROM metrics GROUP BY name ORDER BY COUNT(*) DESC, name LIMIT ?"
_BASELINE = "SELECT policy FROM decisions WHERE side = ? ORDER BY seq DESC LIMIT 1"


class Contrast(Struct, frozen=True):
    """The sides that are compared, and which of their tasks."""

    control: str = CONTROL
    treated: tuple[str, str] = (TREATED, CANARY)
    born_since: int = 0
    """Only tasks whose first decision is not older, in microseconds since 1970."""


SERVICE = Contrast()
"""All that the service decides, against the tasks that are held back."""


class Worth(Struct, frozen=True):
    """The lift of the service over the baseline, and what else differs."""

    baseline: str
    """Policy of the last decision that was held back."""
    until: float
    """Time before which decisions count, in seconds since 1970; infinite: all with a reward."""
    rewards: Lift
    metrics: dict[str, Lift]
    """By name; a decision without the metric counts as 0."""
    share: float | None
    """Share of the tasks that is held back at present; None if no decider has told it."""
    warnings: tuple[str, ...] = ()
    """What makes the comparison doubtful."""


def read_worth(store: DecisionStore, now: float | None = None) -> Worth | None:
    """Return the lift of a store, at a time; None if nothing was ever held back."""
    baseline = store.backend.value(_BASELINE, (CONTROL,))
    if baseline is None:
        return None
    until = store.final_until(store.now() if now is None else now)
    names = [name for (name,) in store.backend.query(_NAMES, (MOST_METRICS,))]
    share, since = parse_holdback(store.backend.value(FIND_META, (HOLDBACK,)))
    return Worth(
        baseline, until, compare_rewards(store, SERVICE, until),
        {name: _compared(store, SERVICE, until, _MEASURED, _METRIC, name) for name in names},
        share, _warnings(store, share, since, until == math.inf),
    )  # fmt: skip


def compare_rewards(store: DecisionStore, contrast: Contrast, until: float) -> Lift:
    """Compare the rewards of two sides: of the decisions before ``until`` that have one."""
    return _compared(store, contrast, until, _REWARDED, "r.value")


_METRIC = "COALESCE(m.value, 0.0)"
_HAS_REWARD = "CAST(CASE WHEN r.value IS NULL THEN 0 ELSE 1 END AS DOUBLE PRECISION)"


def _compared(
    store: DecisionStore, contrast: Contrast, until: float, joined: str, value: str, *names: str
) -> Lift:
    """Compare the sums of a value of decisions; ``names`` are parameters of what is joined."""
    filter = " AND (d.deferred = 0 OR a.at IS NOT NULL)" * (joined == _SHOWN)
    end = _NEVER if until == math.inf else int(until * _SECOND)
    sides = (contrast.control, *contrast.treated)
    parameters = [contrast.control, *names, *sides, end]
    if contrast.born_since:
        filter += _BORN
        parameters.append(contrast.born_since)
    sql = _SIDES.format(value=value, joined=joined, filter=filter)
    found = {
        bool(base): Sums(int(tasks), int(decisions), *map(float, sums))
        for base, tasks, decisions, *sums in store.backend.query(sql, parameters)
    }
    return lift.compare(found.get(True, Sums()), found.get(False, Sums()))


def _warnings(
    store: DecisionStore, share: float | None, since: int, waits_for_ever: bool
) -> tuple[str, ...]:
    """Return what makes a comparison doubtful, in words."""
    found = []
    # A changed share moves old tasks to other sides: only those born since tell the new one.
    shown = _compared(store, Contrast(born_since=since), math.inf, _SHOWN, _HAS_REWARD)
    control, treated = shown.control.tasks, shown.treated.tasks
    if share and lift.mismatch(control, treated, share) >= lift.MISMATCH:
        found.append(
            f"{control:,} of {control + treated:,} tasks are held back, which is "
            f"{control / (control + treated):.2%} and not {share:.2%}: chance does this in fewer "
            "than 1 % of all services. Some decisions do not reach the service, or tasks change "
            "their names: the sides cannot be compared"
        )
    rate = shown.per_decision
    if waits_for_ever and rate is not None and rate.direction:
        found.append(
            f"{rate.control:.1%} of the decisions that are held back have a reward, and "
            f"{rate.treated:.1%} of the others: the lift speaks only of decisions with a reward. "
            "Report a reward for every decision, or set --reward-window and --default-reward"
        )
    return tuple(found)


class WorthWatch(Periodic):
    """Reads the lift in its own thread, at a twentieth of a core."""

    thread_name = "mixts-worth"
    trouble = "the lift of the service cannot be read"

    def __init__(self, store: DecisionStore) -> None:
        super().__init__(POLL_SECONDS / 2)
        self._store = store
        self.worth: Worth | None = None
        """What was read last; None if nothing was held back lately."""

    def work(self) -> float:
        """Read the lift if one of the last decisions was held back, and rest."""
        started = time.monotonic()
        is_on = self._store.backend.value(_RECENT, (_LAST_DECISIONS, CONTROL)) is not None
        self.worth = read_worth(self._store) if is_on else None
        return max(self.pause(), _REST * (time.monotonic() - started))

    def pause(self) -> float:
        """Return the least time between two readings."""
        return POLL_SECONDS
