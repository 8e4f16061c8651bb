"""Data first: do the days of a store look like the days before, or was something recorded wrongly?

Each whole day, and the mean reward of an unfinished one, is compared with the four weeks before it:
number of new tasks, mean reward, its spread, shares of answered decisions and of default rewards,
mean reward of each arm, and share of each kind. A day of a series is unusual if it is further from
the mean of the same weekdays *and* from the last usual day than ``t s + slack``. The spread s is
that of the days before, beside the sampling error, so that days may differ more than chance
explains. The slack is a change that a better prior, a new kind or a new item may make at once. The
quantile t spends ``ALARMS`` false alarms a year over 365 days and all series, half at each end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from mixts import MixturePrior
from mixts_serve.snapshot import DAY_US, Days, Snapshot, day_of, start_of
from mixts_serve.store import DecisionStore

ALARMS = 0.01
"""Largest expected number of false alarms in a year of daily refits, if days are normal."""
REFERENCE_DAYS, FEWEST_DAYS = 28, 7
"""Days that a day is compared with at most, and at least; with two weeks, weekdays are compared."""
FEWEST = 20
"""Least number of decisions, or of new tasks, of a day for its shares and means."""
_RECENT_REWARDS = 1_000
_MATURE = 0.95
"""Share of the last rewards that had come this soon after their decision: older days are whole."""

DOUBLE, TREBLE, QUARTER = np.log(2.0), np.log(3.0), np.log(1.25)
KIND_SLACK = 1.5
"""Change of a kind's log odds that a new kind may make: from 10 to 33 % of the tasks."""
SHARE_SLACK = 0.1
"""Change of the arcsine of the root of a share: from 50 to 60 %, from 1 to 4 %."""

_COUNTS = (
    "SELECT start, arm, CAST(SUM(decisions) - SUM(deferred) AS BIGINT), "
    "CAST(SUM(rewards) AS BIGINT), CAST(SUM(defaults) AS BIGINT), SUM(reward_sum), "
    f"SUM(reward_squares) FROM counts WHERE span = {DAY_US} GROUP BY start, arm"
)
_DELAYS = (
    "SELECT r.at - d.at FROM (SELECT decision, at FROM rewards ORDER BY seq DESC LIMIT "
    f"{_RECENT_REWARDS}) r JOIN decisions d ON d.seq = r.decision"
)


class Point(NamedTuple):
    """A day of a series."""

    value: float
    """On the scale of the comparison."""
    variance: float
    """Sampling variance of the value."""
    shown: float
    """The number that messages show."""


@dataclass
class Series:
    """A number of each day."""

    name: str
    fall: float
    """Slack of falls; infinite if only rises count."""
    rise: float
    points: dict[date, Point] = field(default_factory=dict)


class Finding(NamedTuple):
    """Days on which a series is unusual."""

    days: Days
    name: str
    usual: float
    found: float

    def __str__(self) -> str:
        verb = "fell" if self.found < self.usual else "rose"
        return f"{self.days}: {self.name} {verb} from {self.usual:.3g} to {self.found:.3g}"


class Totals(NamedTuple):
    """Counts of the decisions of a day."""

    decisions: float = 0
    rewards: float = 0
    defaults: float = 0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: object) -> Totals:
        assert isinstance(other, Totals)
        return Totals(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def mean(self) -> float:
        return self.total / self.rewards

    @property
    def variance(self) -> float:
        return max(self.squares / self.rewards - self.mean**2, 0.0)


@dataclass(frozen=True)
class DataCheck:
    """Result of the check of the days that no earlier refit has checked."""

    findings: tuple[Finding, ...]
    checked_until: int
    """End of the last day that was checked, in microseconds since 1970."""

    @property
    def sentence(self) -> str:
        """Message of what is wrong and what to do about it; empty if nothing is wrong."""
        if not self.findings:
            return ""
        days = sorted({finding.days for finding in self.findings})
        joined = Days(days[0].first, max(each.last for each in days))
        listed = "; ".join(map(str, self.findings[:5]))
        more = f"; {len(self.findings) - 5} more" if len(self.findings) > 5 else ""
        return (
            f"the data look wrong, so nothing was learned. {listed}{more}. Find the cause. Then "
            f"leave these days out (--exclude {joined}), or learn from them as they are (--force)"
        )


def check_days(
    store: DecisionStore,
    snapshot: Snapshot,
    prior: MixturePrior,
    excluded: Sequence[Days],
    checked_until: int,
) -> DataCheck:
    """Compare each day since ``checked_until`` with the days before it."""
    now = store.now()
    checked_until = min(checked_until, int(1e6 * now))  # a clock that was ahead checked nothing
    delays = [delay for (delay,) in store.backend.query(_DELAYS)]
    wait = float(np.quantile(delays, _MATURE)) if delays else 0.0
    final = min(store.final_until(now), now - wait / 1e6)
    today = day_of(int(max(final, 0) * 1e6))  # the first day that is not whole
    series = list(_series(store, snapshot, prior, today))
    found = find_unusual(series, day_of(checked_until), today, excluded)
    return DataCheck(tuple(found), max(checked_until, start_of(today)))


def find_unusual(
    series: Sequence[Series], since: date, today: date, excluded: Sequence[Days] = ()
) -> list[Finding]:
    """Return the unusual days from ``since`` on; ``today`` is the first that is not whole."""
    quantile = ALARMS / 365 / max(len(series), 1) / 2
    findings: list[Finding] = []
    for one in series:
        usual: list[date] = []
        wrong: list[tuple[date, float]] = []
        for day in sorted(one.points):
            if any(day in days for days in excluded):
                continue
            level = None
            if day >= since:
                level = _unusual(one, day, usual, quantile, partial=day >= today)
            if level is not None:
                wrong.append((day, level))
            elif day < today:
                usual.append(day)
        findings += _joined(one, wrong)
    return sorted(findings, key=lambda finding: (finding.days, finding.name))


def _unusual(
    series: Series, day: date, usual: Sequence[date], quantile: float, *, partial: bool
) -> float | None:
    """Return the usual number of a day if the day's is unusual, else None."""
    before = [each for each in usual if each >= day - timedelta(days=REFERENCE_DAYS)]
    if len(before) < FEWEST_DAYS:
        return None
    values = np.array([series.points[each].value for each in before])
    weekdays = np.array([each.weekday() for each in before])
    same = weekdays == day.weekday()
    if len(before) >= 2 * FEWEST_DAYS and same.sum() >= 2:
        levels = {w: values[weekdays == w].mean() for w in set(weekdays.tolist())}
        centre, n_levels, n_same = levels[day.weekday()], len(levels), int(same.sum())
        rest = values - np.array([levels[w] for w in weekdays.tolist()])
    else:
        centre, n_levels, n_same = float(values.mean()), 1, len(before)
        rest = values - centre
    freedom = len(before) - n_levels
    point, latest = series.points[day], series.points[before[-1]]
    spread = float(rest @ rest) / freedom * (1 + 1 / n_same)
    reach = float(-stats.t.ppf(quantile, freedom)) * np.sqrt(spread + point.variance)
    extra = TREBLE if partial else 0.0
    for reference in (centre, latest.value):
        gap = point.value - reference
        if partial and gap > 0:  # clicks come before the zeros of the same decisions
            return None
        slack = series.rise if gap > 0 else series.fall
        if not abs(gap) > reach + slack + extra:
            return None
    return float(np.mean([series.points[each].shown for each in before]))


def _joined(series: Series, wrong: Sequence[tuple[date, float]]) -> Iterator[Finding]:
    """Yield the unusual days of a series, successive ones together."""
    runs: list[list[tuple[date, float]]] = []
    for day, usual in wrong:
        if runs and day - runs[-1][-1][0] <= timedelta(days=1):
            runs[-1].append((day, usual))
        else:
            runs.append([(day, usual)])
    for run in runs:
        found = float(np.mean([series.points[day].shown for day, _ in run]))
        yield Finding(Days(run[0][0], run[-1][0]), series.name, run[0][1], found)


# -- the numbers of each day ---------------------------------------------------------------------


def _series(
    store: DecisionStore, snapshot: Snapshot, prior: MixturePrior, today: date
) -> Iterator[Series]:
    days: dict[date, dict[int, Totals]] = defaultdict(dict)
    for start, arm, *counts in store.backend.query(_COUNTS):
        days[day_of(start)][int(arm)] = Totals(*map(float, counts))
    all_arms = {day: _sum(arms.values()) for day, arms in days.items()}
    whole = {day: found for day, found in all_arms.items() if day < today}
    positive = all(found.total >= 0 for found in all_arms.values())
    pooled = _sum(whole.values())
    yield from _of_tasks(snapshot, prior, today)
    if not pooled.rewards:
        return
    yield means("the mean reward", all_arms, pooled, positive, QUARTER)
    yield _spreads(whole, pooled)
    yield shares("the share of answered decisions", whole, lambda t: (t.rewards, t.decisions))
    yield shares("the share of default rewards", whole, lambda t: (t.defaults, t.rewards))
    if positive and prior.family.n_arms is not None:
        names = prior.arm_names or [f"arm {k}" for k in range(prior.family.n_arms)]
        for k, name in enumerate(names):
            own = {day: arms[k] for day, arms in days.items() if k in arms and day < today}
            total = _sum(own.values())
            if total.total > 0:
                yield means(f"the mean reward of {name!r}", own, total, True, TREBLE, np.inf)


def _sum(found: object) -> Totals:
    total = Totals()
    for each in found:  # type: ignore[attr-defined]
        total += each
    return total


def means(
    name: str,
    days: Mapping[date, Totals],
    pooled: Totals,
    positive: bool,
    fall: float,
    rise: float = DOUBLE,
) -> Series:
    """Return mean rewards: their logarithms if no day's is negative."""
    scale = float(np.sqrt(pooled.squares / pooled.rewards)) or 1.0
    slack = (fall, rise) if positive else (0.25, 0.5)
    series, least = Series(name, *slack), 0.01 * abs(pooled.mean) + 1e-12 * scale
    for day, found in days.items():
        if found.rewards < FEWEST:
            continue
        mean, noise = found.mean, (found.variance or pooled.variance) / found.rewards
        if positive:
            point = Point(np.log(max(mean, 0.0) + least), noise / (mean + least) ** 2, mean)
            if mean <= 0:  # the error is that of the usual mean
                point = point._replace(variance=noise / pooled.mean**2)
        else:
            point = Point(mean / scale, noise / scale**2, mean)
        series.points[day] = point
    return series


def _spreads(days: Mapping[date, Totals], pooled: Totals) -> Series:
    """Return logarithms of the rewards' standard deviations: 0 if all rewards are the same."""
    series = Series("the spread of rewards", TREBLE, TREBLE)
    usual = float(np.sqrt(pooled.variance)) or 1.0
    for day, found in days.items():
        if found.rewards >= FEWEST:
            spread = float(np.sqrt(found.variance))
            value = np.log(max(spread, 0.01 * usual))
            series.points[day] = Point(value, 1 / found.rewards, spread)
    return series


def shares(
    name: str, days: Mapping[date, Totals], parts: Callable[[Totals], tuple[float, float]]
) -> Series:
    """Return shares on the scale arcsin(sqrt(p)), on which their sampling variance is 1 / 4n."""
    series = Series(name, SHARE_SLACK, SHARE_SLACK)
    for day, found in days.items():
        part, n = parts(found)
        if n >= FEWEST:
            share = min(part / n, 1.0)
            series.points[day] = Point(float(np.arcsin(np.sqrt(share))), 1 / (4 * n), share)
    return series


def _of_tasks(snapshot: Snapshot, prior: MixturePrior, today: date) -> Iterator[Series]:
    """Yield the number of new tasks, and the share of each kind among them."""
    day = snapshot.first_at // DAY_US
    born, place, counts = np.unique(day, return_inverse=True, return_counts=True)
    dates = [day_of(int(each) * DAY_US) for each in born]
    tasks = Series("the number of new tasks", TREBLE, TREBLE)
    for each, n in zip(dates, counts.tolist(), strict=True):
        if each < today:
            tasks.points[each] = Point(float(np.log(n)), 1 / n, n)
    yield tasks
    if prior.n_components == 1 or not len(born):
        return
    weights = special.softmax(
        prior.log_weights + prior.family.log_evidence(snapshot.statistics), axis=1
    )
    sums = np.zeros((len(born), prior.n_components))
    np.add.at(sums, place, weights)
    by_kind = prior.sum_by_kind(sums)
    for g, name in enumerate(prior.kind_names):
        series = Series(f"the share of {name!r}", KIND_SLACK, KIND_SLACK)
        for each, n, part in zip(dates, counts.tolist(), by_kind[:, g].tolist(), strict=True):
            if each < today and n >= FEWEST:
                share = (part + 0.5) / (n + 1)
                error = 1 / (n * share * (1 - share))
                series.points[each] = Point(float(np.log(share / (1 - share))), error, part / n)
        yield series
