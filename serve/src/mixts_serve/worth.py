"""What the service is worth: its tasks compared with those that a holdback left to a baseline.

Sums over tasks come from the log: one statement for the rewards, and one for each metric. Only
decisions that are final count, so that clicks are not seen before the zeros of the same time.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from msgspec import Struct

from mixts_serve import lift
from mixts_serve.lift import Lift, Sums
from mixts_serve.periodic import Periodic
from mixts_serve.store import DecisionStore
from mixts_serve.trials import CANARY, CONTROL, TREATED, HoldbackTimes

MOST_METRICS = 10
"""Metrics that are compared: the most frequent ones."""

_REST = 20.0
"""Pause after reading, in times of its duration: the watch takes a twentieth of a core at most."""
POLL_SECONDS = 10.0

_SECOND = 1_000_000
_NEVER = 2**62

_SIDES = """
    WITH t AS (
        SELECT d.task AS task, CASE WHEN d.side = ? THEN 1 ELSE 0 END AS base,
            CAST(COUNT(*) AS DOUBLE PRECISION) AS n, SUM({value}) AS y, SUM(ABS({value})) AS size
        FROM decisions d {joined} WHERE {counted} GROUP BY 1, 2
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
_BORN = "d.task IN (SELECT number FROM tasks WHERE first_at >= ?)"
_NAMES = "SELECT name FROM metrics GROUP BY name ORDER BY COUNT(*) DESC, name LIMIT ?"


class Contrast(Struct, frozen=True):
    """The sides that are compared, and which of their decisions."""

    spans: tuple[tuple[int, int | None], ...]
    """Times of the decisions, from a begin to before an end, in microseconds since 1970."""
    control: str = CONTROL
    treated: tuple[str, ...] = (TREATED, CANARY)
    only_new: bool = False
    """Whether only tasks count whose first decision came after the first begin."""


class _Value(NamedTuple):
    """A number of each decision that is compared."""

    sql: str
    joined: str
    names: tuple[str, ...] = ()
    """Parameters of what is joined."""
    condition: str = ""


_REWARDED = "JOIN rewards r ON r.decision = d.seq AND r.late = 0"
_REWARD = _Value("r.value", _REWARDED)
_HAS_REWARD = _Value(
    "CAST(CASE WHEN r.value IS NULL THEN 0 ELSE 1 END AS DOUBLE PRECISION)",
    f"LEFT {_REWARDED} LEFT JOIN activated a ON a.decision = d.seq",
    condition="(d.deferred = 0 OR a.at IS NOT NULL)",
)


def _metric(name: str) -> _Value:
    joined = f"{_REWARDED} LEFT JOIN metrics m ON m.decision = d.seq AND m.name = ?"
    return _Value("COALESCE(m.value, 0.0)", joined, (name,))


class Worth(Struct, frozen=True):
    """The lift of the service over the baseline, and what else differs."""

    baseline: str
    """How the control group is decided: "bestseller", "uniform", or "arm:" and a name."""
    share: float
    """Share of the tasks that is held back."""
    since: float
    """Time from which on decisions count, in seconds since 1970."""
    until: float
    """Time before which they count; infinite: all with a reward."""
    rewards: Lift
    metrics: dict[str, Lift]
    """By name; a decision without the metric counts as 0."""
    warnings: tuple[str, ...] = ()
    """What makes the comparison doubtful."""
    ended: float | None = None
    """Time at which the holdback was ended; None while it is on."""
    has_features: bool = False
    """Whether the prior is about features: its bestseller is the choice of a pooled model."""


def read_worth(store: DecisionStore, now: float | None = None) -> Worth | None:
    """Return the lift of a store, at a time; None if nothing was ever held back."""
    times = HoldbackTimes.of(store)
    if times.holdback is None:
        return None
    until = store.final_until(store.now() if now is None else now)
    names = [name for (name,) in store.backend.query(_NAMES, (MOST_METRICS,))]
    contrast, share = Contrast(times.spans), times.holdback.share
    (since, _), (_, ended) = times.spans[0], times.spans[-1]
    return Worth(
        times.holdback.baseline, share, since / _SECOND, until,
        compare_rewards(store, contrast, until),
        {name: _compared(store, contrast, until, _metric(name)) for name in names},
        _warnings(store, times, share, until == math.inf),
        None if ended is None else ended / _SECOND,
        any(prior.family.startswith("linear") for prior in store.priors()),
    )  # fmt: skip


def compare_rewards(store: DecisionStore, contrast: Contrast, until: float) -> Lift:
    """Compare the rewards of two sides: of the decisions before ``until`` that have one."""
    return _compared(store, contrast, until, _REWARD)


def _compared(store: DecisionStore, contrast: Contrast, until: float, value: _Value) -> Lift:
    """Compare the sums of a value of decisions."""
    sides = (contrast.control, *contrast.treated)
    conditions = [f"d.side IN ({', '.join('?' * len(sides))})"]
    parameters: list[str | int] = [contrast.control, *value.names, *sides]
    final = _NEVER if until == math.inf else int(until * _SECOND)
    conditions.append(f"({' OR '.join(['d.at >= ? AND d.at < ?'] * len(contrast.spans))})")
    for begin, end in contrast.spans:
        parameters += [begin, final if end is None else min(end, final)]
    if contrast.only_new:
        conditions.append(_BORN)
        parameters.append(contrast.spans[0][0])
    if value.condition:
        conditions.append(value.condition)
    sql = _SIDES.format(value=value.sql, joined=value.joined, counted=" AND ".join(conditions))
    found = {
        bool(base): Sums(int(tasks), int(decisions), *map(float, sums))
        for base, tasks, decisions, *sums in store.backend.query(sql, parameters)
    }
    return lift.compare(found.get(True, Sums()), found.get(False, Sums()))


def _warnings(
    store: DecisionStore, times: HoldbackTimes, share: float, waits_for_ever: bool
) -> tuple[str, ...]:
    """Return what makes a comparison doubtful, in words."""
    found = []
    # Older tasks may have been on another side under another share.
    shown = _compared(store, Contrast(times.spans, only_new=True), math.inf, _HAS_REWARD)
    control, treated = shown.control.tasks, shown.treated.tasks
    if lift.mismatch(control, treated, share) >= lift.MISMATCH:
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
        """What was read last; None while nothing is held back."""

    def work(self) -> float:
        """Read the lift if tasks are held back, and rest."""
        started = time.monotonic()
        is_on = HoldbackTimes.of(self._store).is_on
        self.worth = read_worth(self._store) if is_on else None
        return max(self.pause(), _REST * (time.monotonic() - started))

    def pause(self) -> float:
        """Return the least time between two readings."""
        return POLL_SECONDS
