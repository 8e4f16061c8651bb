"""Faults that show in single rows of logs: copies, rows sorted by reward, rewards that drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import special

from mixts._typing import Array, Bool, Float, Int
from mixts.logs.bad_rows import shortened
from mixts.logs.pieces import RowSample
from mixts.logs.read import TaskLogs

MIN_ROWS = 20
"""Least number of rows, or of different ones, for a verdict."""
FALSE_ALARM_RATE = 1e-4
"""Probability that a healthy log gets a certain warning."""
MOST_NAMED = 3
"""Largest number of arms that a sentence names."""


@dataclass(frozen=True)
class LogWarning:
    """A sign that logs are not what they should be."""

    code: str
    """Short name of the cause, for programs."""
    sentence: str
    """Cause, consequence and remedy, for people."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the sentence, by name."""

    def __str__(self) -> str:
        return self.sentence


# -- copies ---------------------------------------------------------------------------------------


def copies(logs: TaskLogs) -> LogWarning | None:
    """Warn of rows that occur several times, as after a wrong join or a file that is given twice.

    If all rows occur k times, the number of times that each different row occurs is a multiple of
    k; by chance that happens with a probability of at most 1/2 for each of them. With times, rows
    of a task at the same time and with the same choice are compared: chance gives them equal
    rewards as often as neighbours at other times.
    """
    rows, n = logs.sample, len(logs.sample)
    timed = logs.times is not None
    order = np.lexsort((rows.rewards, *([rows.times] if timed else []), rows.choices, rows.tasks))
    cells = _changes(rows.tasks, rows.choices, order)
    times = np.diff(rows.times[order]) != 0 if timed else np.zeros(max(n - 1, 0), bool)
    new = cells | times | (np.diff(rows.rewards[order]) != 0)
    sizes = np.diff(np.flatnonzero(np.concatenate([[True], new, [True]])))
    factor = int(np.gcd.reduce(sizes)) if len(sizes) >= MIN_ROWS else 1
    remedy = "If a join or a file given twice made copies, remove them: they feign certainty."
    if factor > 1:
        said = f"Every row occurs {factor} times, or a multiple of that. {remedy}"
        return LogWarning("copies", said, {"factor": factor})
    if not timed:
        return None
    n_copies = _copies_at_one_time(rows)
    if n_copies < max(MIN_ROWS, 0.01 * n):
        return None
    said = (
        f"{n_copies:,} of {n:,} rows repeat another row: task, choice, time and reward are the "
        f"same, far more often than by chance. {remedy}"
    )
    return LogWarning("copies", said, {"n_copies": n_copies, "n_rows": n})


def _copies_at_one_time(rows: RowSample) -> int:
    """Return the number of rows that repeat another one at the same time; 0 if it may be chance."""
    order = np.lexsort((rows.times, rows.choices, rows.tasks))  # stable: else the files' order
    cell = ~_changes(rows.tasks, rows.choices, order)
    same_time = cell & (np.diff(rows.times[order]) == 0)
    equal = np.diff(rows.rewards[order]) == 0
    n, n_equal = int(same_time.sum()), int((same_time & equal).sum())
    others = cell & ~same_time
    if others.sum() >= MIN_ROWS:
        rate = (float((others & equal).sum()) + 1) / (float(others.sum()) + 2)
    else:  # a choice occurs at one time only: compare with the task's other choices
        order = np.lexsort((rows.choices, rows.tasks))
        others = (np.diff(rows.tasks[order]) == 0) & (np.diff(rows.choices[order]) != 0)
        same = others & (np.diff(rows.rewards[order]) == 0)
        rate = (float(same.sum()) + 1) / (float(others.sum()) + 2)
    beyond = n > 0 and n - n_equal <= n * (1 - rate) / 2
    beyond = beyond and float(special.bdtrc(n_equal - 1, n, rate)) < FALSE_ALARM_RATE
    return n_equal if beyond else 0


def _changes(tasks: Int[Array, " m"], choices: Int[Array, " m"], order: Array) -> Bool[Array, " p"]:
    """Return, for neighbours in an order, whether their tasks or choices differ."""
    return (np.diff(tasks[order]) != 0) | (np.diff(choices[order]) != 0)


# -- order ----------------------------------------------------------------------------------------


def sorted_rows(logs: TaskLogs) -> LogWarning | None:
    """Warn if rewards are sorted within tasks: by the files' order, or even by time."""
    rows = logs.sample
    if logs.times is not None:
        found = _n_sorted(rows, np.lexsort((rows.times, rows.tasks)))
        if found is not None:
            said = (
                f"In {found[0]:,} of {found[1]:,} tasks the rewards are sorted by "
                f"{logs.schema.time!r}, far more than by chance: is it the time of the choice "
                "(--time)? A time that depends on the reward tells the reward beforehand."
            )
            return LogWarning("time-follows-reward", said, _sorted_numbers(found))
    found = _n_sorted(rows, np.argsort(rows.tasks, kind="stable"))
    if found is None:
        return None
    said = (
        f"In {found[0]:,} of {found[1]:,} tasks the rows are sorted by reward: their order is not "
        "that of time. Nothing here depends on it: statistics have no order, and replays shuffle "
        "the rewards of each arm. Do not read the order of rows as time elsewhere."
    )
    return LogWarning("sorted-rewards", said, _sorted_numbers(found))


def _sorted_numbers(found: tuple[int, int]) -> dict[str, float]:
    return {"n_sorted": found[0], "n_tasks": found[1]}


def _n_sorted(rows: RowSample, order: Int[Array, " m"]) -> tuple[int, int] | None:
    """Return how many tasks have sorted rewards, and how many could show it; None if by chance.

    Of the different orders of a task's rewards, two are sorted. A task can show it if that is at
    most a tenth of them.
    """
    tasks, rewards = rows.tasks[order], rows.rewards[order]
    if not len(tasks):
        return None
    starts = np.flatnonzero(np.concatenate([[True], np.diff(tasks) != 0]))
    sizes = np.diff(np.concatenate([starts, [len(tasks)]]))
    step = np.concatenate([np.diff(rewards), [0.0]])
    step[np.concatenate([starts[1:] - 1, [len(tasks) - 1]])] = 0  # between tasks
    ups, downs = (np.logical_or.reduceat(sign, starts) for sign in (step > 0, step < 0))
    chance = np.exp(np.log(2) - _log_orders(tasks, rewards, starts, sizes))
    able = chance <= 0.1
    n, expected = int((able & (ups != downs)).sum()), float(chance[able].sum())
    beyond = 2 * n > able.sum() and float(special.gammainc(n, expected)) < FALSE_ALARM_RATE
    return (n, int(able.sum())) if beyond else None


def _log_orders(
    tasks: Int[Array, " m"], rewards: Float[Array, " m"], starts: Array, sizes: Array
) -> Float[Array, " n"]:
    """Return ln of the number of different orders of each task's rewards: n! / prod m_v!."""
    order = np.lexsort((rewards, tasks))
    new = (np.diff(tasks[order]) != 0) | (np.diff(rewards[order]) != 0)
    runs = np.flatnonzero(np.concatenate([[True], new]))
    lengths = np.diff(np.concatenate([runs, [len(tasks)]]))
    ties = np.zeros(len(tasks))
    ties[runs] = special.gammaln(lengths + 1)
    return np.asarray(special.gammaln(sizes + 1) - np.add.reduceat(ties, starts))


# -- drift ----------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """Mean rewards of the first and of the last third of rows, and their difference in errors."""

    first: float
    last: float
    score: float


def drift(logs: TaskLogs) -> LogWarning | None:
    """Warn if rewards at the end differ from those at the beginning by more than chance."""
    rows = logs.sample
    if logs.times is None or not len(rows):
        return None
    early, late = np.quantile(rows.times, [1 / 3, 2 / 3])
    part = np.where(rows.times <= early, -1, np.where(rows.times > late, 1, 0))
    size = max(0.1 * float(rows.rewards.std()), 0.2 * abs(float(rows.rewards.mean())))
    arms = range(len(logs.arms or ()))
    groups = {-1: np.ones(len(rows), bool)} | {k: rows.choices == k for k in arms}
    changes = {k: _change(rows, part, kept) for k, kept in groups.items()}
    known = {k: change for k, change in changes.items() if change is not None}
    limit = float(special.ndtri(1 - FALSE_ALARM_RATE / 2 / max(len(known), 1)))
    found = {
        k: change
        for k, change in known.items()
        if abs(change.score) > limit and abs(change.last - change.first) > size
    }
    if not found:
        return None
    overall, drifting = known[-1], sorted(found.keys() - {-1}, key=lambda k: -abs(found[k].score))
    said = (
        f"Rewards change with time: on average {overall.first:.3g} in the first third of the rows "
        f"and {overall.last:.3g} in the last"
    )
    if drifting:
        said += "; " + ", ".join(
            f"{shortened((logs.arms or ())[k])} {found[k].first:.3g} and {found[k].last:.3g}"
            for k in drifting[:MOST_NAMED]
        )
        left = len(drifting) - MOST_NAMED
        said += f", and {left:,} more arms" if left > 0 else ""
    said += (
        ". A prior is an average over that time: learn from recent logs, and learn again when "
        "rewards have changed. Only if a policy that learns made the choices and the tasks began "
        "together, its learning alone may be the cause."
    )
    numbers = {"first": overall.first, "last": overall.last, "n_arms": len(drifting)}
    return LogWarning("drift", said, numbers)


def _change(rows: RowSample, part: Int[Array, " m"], kept: Bool[Array, " m"]) -> _Change | None:
    """Compare the first rows with the last ones; None if there are too few rows or tasks.

    Rewards of a task depend on each other, so errors are computed from sums over tasks.
    """
    first, last = kept & (part < 0), kept & (part > 0)
    n_first, n_last = int(first.sum()), int(last.sum())
    fewest = min((len(np.unique(rows.tasks[one])) for one in (first, last)), default=0)
    if min(n_first, n_last) < 30 or fewest < MIN_ROWS:
        return None
    means = float(rows.rewards[first].mean()), float(rows.rewards[last].mean())
    influence = np.where(last, (rows.rewards - means[1]) / n_last, 0.0)
    influence -= np.where(first, (rows.rewards - means[0]) / n_first, 0.0)
    error = float(np.sqrt((np.bincount(rows.tasks, influence) ** 2).sum()))
    difference = means[1] - means[0]
    score = difference / error if error > 0 else np.copysign(np.inf, difference)
    return _Change(*means, score if difference else 0.0)
