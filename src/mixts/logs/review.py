"""Logs that cannot be right: refused, or warned about with the cause and what to do."""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Bool, Float
from mixts.errors import LogsError
from mixts.features import BEYOND, NumberFeature
from mixts.logs.bad_rows import (
    NO_REWARD,
    OTHER_ARM,
    UNKNOWN_LEVEL,
    refuse_arm_a_row,
    shortened,
    unusable_rewards,
    without_reward,
)
from mixts.logs.pieces import MAX_RATING_LEVELS
from mixts.logs.read import TaskLogs
from mixts.logs.row_faults import MIN_ROWS, MOST_NAMED, LogWarning, copies, drift, sorted_rows

NO_KINDS = "no-kinds"
"""Code of the warning that tasks are too short to show kinds."""

MIN_TASKS = 8
"""Least number of tasks that may show two kinds: a learned component has at least four tasks."""
SHORT_TASK_ROWS = 2
"""Rows of a short task: with at most two rows, no kind of task shows in how rewards go together."""
MIN_LONG_TASKS, MIN_LONG_SHARE = 30, 0.1
"""Least number and least share of longer tasks from which kinds can be learned."""
RARE_ARM_ROWS, RARE_ARM_SHARE = 10, 0.01
"""An arm is rare with fewer rows than this, or than this share of an average arm's rows."""
MAX_OUTLIER_SHARE, MAX_FEW_OUTLIERS = 0.005, 3
"""Outliers are at most this share of the rows, or this many rows if there are few rows."""
OUTLIER_DEVIATIONS = 10.0
"""Outliers are this many standard deviations of the other rewards away from the median."""
CONSTANT_SPREAD = 1e-7
"""Numbers that differ by this share of their size are the same to learning."""
MIN_SKEWNESS = 1.0
"""Skewness, without outliers, from which rewards look like amounts: log-normal ones have it if
their logarithm has a standard deviation of 0.37 or more."""
LARGE_ORDER_DEVIATIONS = 6.0
"""Orders are outliers if their logarithm is this many standard deviations above the median, which
one log-normal spend of a billion is, and if they are at least ``LARGE_ORDER_FACTOR`` the median."""
LARGE_ORDER_FACTOR = 10.0


def review(logs: TaskLogs) -> tuple[LogWarning, ...]:
    """Look for faults of logs before anything is learned from them.

    Parameters
    ----------
    logs
        Result of :func:`mixts.logs.read_logs`.

    Returns
    -------
    tuple
        Warnings; none for healthy logs. Raises :class:`mixts.errors.LogsError` for logs from which
        nothing can be learned: all rewards are equal, there is one arm only, or an arm a row.
    """
    _refuse(logs)
    warnings = [
        _unknown_arms(logs), *_lost_rows(logs), _constant_features(logs), _task_features(logs),
        _other_units(logs), _score_scale(logs),
        _empty_rewards(logs), _only_purchases(logs), _unusable_rewards(logs), _few_tasks(logs),
        _short_tasks(logs), _rare_arms(logs), _outliers(logs), copies(logs), sorted_rows(logs),
        drift(logs),
    ]  # fmt: skip
    return tuple(warning for warning in warnings if warning is not None)


# -- refusals -------------------------------------------------------------------------------------


def _refuse(logs: TaskLogs) -> None:
    """Raise `LogsError` for logs from which nothing can be learned."""
    _refuse_equal_rewards(logs)
    if logs.arms is None:
        return
    rows = logs.statistics.pulls.sum(axis=0)
    tried, n = np.flatnonzero(rows), int(rows.sum())
    column = logs.schema.arm
    if len(tried) == 1:
        raise LogsError(
            f"all {n:,} rows have the same arm, {shortened(logs.arms[tried[0]])!r}: there is "
            f"nothing to choose between. Does {column!r} say what was chosen (--arm)?"
        )
    if n >= MIN_ROWS:
        refuse_arm_a_row(n, len(tried), str(column))


def _refuse_equal_rewards(logs: TaskLogs) -> None:
    low, high = logs.reward_range
    filled = logs.schema.missing_reward
    if logs.n_missing and filled is not None:
        low, high = min(low, filled), max(high, filled)
    if low < high:
        return
    cause = without_reward(logs.bad_rows, logs.reward_range)
    if not cause and logs.n_missing:
        cause = (
            f"{logs.n_missing:,} rows had no reward and count as {filled:g}, and every reward that "
            f"is present is {filled:g}, too: another value must stand for no reward"
            if logs.reward_range[0] <= logs.reward_range[1]
            else "no row has a reward: is the column of rewards the right one (--reward)?"
        )
    n_unusable, remedy = unusable_rewards(logs.bad_rows, logs.schema.family)
    if not cause and n_unusable:
        cause = f"{n_unusable:,} other rewards cannot be used. {remedy}\n  {logs.bad_rows}"
    if not cause and low > 0:
        cause = (
            "it seems that only rows with a reward were logged. Log what was shown without "
            "success, too: with the reward 0, or with an empty one and --missing-reward 0 "
            "(missing_reward=0)"
        )
    if not cause:
        cause = "is the column of rewards the right one (--reward)?"
    raise LogsError(f"every reward is {low:g}, so nothing can be learned: {cause}")


# -- features -------------------------------------------------------------------------------------


def _lost_rows(logs: TaskLogs) -> list[LogWarning]:
    """Warn of rows that are left out for a value of a feature; a few empty cells are usual."""
    found = []
    for reason, n in sorted(logs.bad_rows.counts.items(), key=lambda entry: -entry[1]):
        absent = reason.startswith("no feature ")
        if not (absent and n >= 0.01 * logs.n_rows) and not reason.startswith("feature "):
            continue
        first = logs.bad_rows.examples[reason][0].value
        value = f" ({first!r}{', ...' if n > 1 else ''})" if first else ""
        said = (
            f"{n:,} of {logs.n_rows:,} rows {'is' if n == 1 else 'are'} left out because "
            f"{'there is ' if absent else ''}{reason}{value}. If these rows differ from the "
            f"others, the prior is wrong. {_remedy(reason)}"
        )
        found.append(LogWarning("lost-rows", said, {"n_rows": n}))
    return found


def _unknown_arms(logs: TaskLogs) -> LogWarning | None:
    """Warn of rows whose arm the earlier prior does not know."""
    n = logs.bad_rows.counts.get(OTHER_ARM, 0)
    if not n or not logs.schema.arms_may_lack_rows:
        return None
    first = logs.bad_rows.examples[OTHER_ARM][0].value
    said = (
        f"{n:,} of {logs.n_rows:,} rows {'is' if n == 1 else 'are'} left out because the earlier "
        f"prior does not know their arm ({first!r}{', ...' if n > 1 else ''}). Go on from the "
        "prior in force, or add the arms to the earlier one (mixts arms add)."
    )
    return LogWarning("unknown-arms", said, {"n_rows": n})


def _remedy(reason: str) -> str:
    if reason.endswith(UNKNOWN_LEVEL):
        return (
            "Name the features by --features (features=[...]) instead of taking those of an "
            "earlier prior: the new prior then knows all levels."
        )
    what = "the value" if reason.startswith("no ") else "a number"
    return f"Write {what} in these rows, or leave the feature out of --features (features=)."


def _constant_features(logs: TaskLogs) -> LogWarning | None:
    """Warn of numbers that are the same in all rows, or would be in other units."""
    found = [
        f"{one.name!r} is {low:g}"
        for one, low, high in _ranges(logs)
        if high - low <= CONSTANT_SPREAD * max(abs(low), abs(high))
    ]
    if not found:
        return None
    said = (
        f"{_listed(found)} in all rows: nothing can be learned about that. Leave it out of "
        "--features (features=); --intercept (intercept=True) adds a feature that is always 1."
    )
    return LogWarning("constant-features", said, {"n_features": len(found)})


def _task_features(logs: TaskLogs) -> LogWarning | None:
    """Warn of features that differ between tasks only, unless all tasks have one row."""
    space, spans = logs.space, logs.spans
    if space is None or int(np.max(logs.statistics.n_observations)) < 2:
        return None
    names = [
        repr(column.name)
        for column, part in space.parts
        if not spans.varies[part].any() and (spans.low < spans.high)[part].any()
    ]
    if not names:
        return None
    never = "never changes" if len(names) == 1 else "never change"
    said = (
        f"{_listed(names)} {never} within a task. All choices of a task have the same value, "
        "so that no choice depends on it, and the effect cannot be told from that of the task "
        "itself. Give such a fact as --person (person=) instead of --features (features=): then "
        "its products with the features of the choice have effects, the same for everybody."
    )
    return LogWarning("task-features", said, {"n_features": len(names)})


def _other_units(logs: TaskLogs) -> LogWarning | None:
    """Warn of numbers of quite another size than an earlier prior was learned from."""
    found = []
    for one, *now in _ranges(logs):
        if one.learned is None:
            continue
        size, before = (max(map(abs, ends)) for ends in (now, one.learned))
        if size and before and not 1 / BEYOND <= size / before <= BEYOND:
            found.append(
                f"{one.name!r} is from {now[0]:g} to {now[1]:g}, and the earlier prior was learned "
                f"from {one.learned[0]:g} to {one.learned[1]:g}"
            )
    if not found:
        return None
    said = f"{_listed(found)}. If the unit has changed, write these numbers in the earlier one."
    return LogWarning("other-units", said, {"n_features": len(found)})


def _score_scale(logs: TaskLogs) -> LogWarning | None:
    """Warn of a score of clicks between 0 and 1: log odds are not."""
    space, score = logs.schema.space, logs.schema.score
    if logs.family != "logistic" or score is None or space is None or space.pooled is None:
        return None
    (column,) = (one for one in space.pooled.columns if one.name == score)
    low, high = column.learned or (0.0, 0.0) if isinstance(column, NumberFeature) else (-1.0, -1.0)
    if low < 0 or high > 1:
        return None
    said = (
        f"The score {score!r} is from {low:g} to {high:g}: is it a probability? Log odds add up, "
        "and probabilities do not: give log(p / (1 - p)) instead of p."
    )
    return LogWarning("score-scale", said, {"low": low, "high": high})


def _ranges(logs: TaskLogs) -> list[tuple[NumberFeature, float, float]]:
    """Return each feature that is a number, as it was given, and its range in these rows."""
    spans, space = logs.spans, logs.schema.space
    found = []
    for column, part in () if space is None else space.parts:
        if isinstance(column, NumberFeature):
            ends = (spans.low[part.start], spans.high[part.start])
            low, high = (float(end * column.scale + column.centre) for end in ends)
            found.append((column, low, high))
    return found


def _listed(words: list[str]) -> str:
    """Return a list in words, the first ones if there are many."""
    shown, left = words[:MOST_NAMED], len(words) - MOST_NAMED
    shown += [f"{left:,} more"] if left > 0 else []
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


# -- rewards, tasks and arms ----------------------------------------------------------------------


def _empty_rewards(logs: TaskLogs) -> LogWarning | None:
    """Warn if rewards are positive where they are present: others may have been 0."""
    n = logs.bad_rows.counts.get(NO_REWARD, 0)
    cause = without_reward(logs.bad_rows, logs.reward_range)
    if not cause or n < 0.01 * logs.n_rows:
        return None
    return LogWarning("empty-rewards", cause, {"n_rows": n})


def _only_purchases(logs: TaskLogs) -> LogWarning | None:
    """Ask about rewards that look like purchases, if none is 0 and none is empty.

    Amounts are skewed, or each arm has its price; ratings are neither. Durations are skewed, too:
    whoever names the family ``gaussian`` or ``linear`` says that no rows are missing.
    """
    low, high = logs.reward_range
    empty = logs.n_missing + logs.bad_rows.counts.get(NO_REWARD, 0)
    if not 0 < low < high or empty or len(logs.sample) < MIN_ROWS:
        return None
    asked = logs.schema.family != "auto" or logs.family not in ("gaussian", "linear")
    if logs.family != "spend" and (asked or not (_skewed(logs) or _priced(logs))):
        return None
    family = "linear" if logs.family == "linear" else "gaussian"
    said = (
        f"Every reward is above 0 ({low:g} to {high:g}). Are these purchases, and the rows without "
        "one are missing? Then the prior knows what buyers spend, and not how many buy: log what "
        "was shown without a purchase, too, with the reward 0. If no rows are missing, as with "
        f'durations, say so by --family {family} (family="{family}").'
    )
    return LogWarning("only-purchases", said, {"low": low, "high": high})


def _skewed(logs: TaskLogs) -> bool:
    """Return whether rewards look like amounts: many different ones, most of them small."""
    amounts = logs.sample.rewards
    if len(np.unique(amounts)) <= MAX_RATING_LEVELS:
        return False
    amounts = np.minimum(amounts, np.quantile(amounts, 1 - MAX_OUTLIER_SHARE))
    distances = amounts - amounts.mean()
    return bool((distances**3).mean() > MIN_SKEWNESS * (distances**2).mean() ** 1.5)


def _priced(logs: TaskLogs) -> bool:
    """Return whether rows with the same arm, or the same features, always have the same reward."""
    rows = logs.sample
    order = np.lexsort((rows.rewards, rows.choices))
    same = np.diff(rows.choices[order]) == 0
    differ = np.diff(rows.rewards[order]) != 0
    return bool(2 * same.sum() > len(rows) and not (same & differ).any())


def _unusable_rewards(logs: TaskLogs) -> LogWarning | None:
    """Warn if rows are left out for the value of their reward: the other rows are then a choice."""
    n, remedy = unusable_rewards(logs.bad_rows, logs.schema.family)
    if n < 0.01 * logs.n_rows or not n:
        return None
    said = (
        f"{n:,} of {logs.n_rows:,} rows are left out because their reward cannot be used. If these "
        f"rewards differ from the others, the prior is wrong. {remedy}"
    )
    return LogWarning("unusable-rewards", said, {"n_rows": n})


def _outliers(logs: TaskLogs) -> LogWarning | None:
    """Warn if a handful of rewards carry more than half of the variance of all."""
    if logs.family == "spend":
        return _large_orders(logs)
    rewards = np.sort(logs.sample.rewards)
    if logs.family not in ("gaussian", "linear") or len(rewards) < MIN_ROWS:
        return None
    squares = (rewards - np.median(rewards)) ** 2
    far = _handful(squares, OUTLIER_DEVIATIONS)
    if not 2 * squares[far].sum() > squares.sum():
        return None
    low, high = rewards[~far][[0, -1]]
    huge = rewards[far]
    if logs.arms is not None and logs.reward_range[0] == 0:
        remedy = 'For revenue with zeros, choose --family spend (family="spend").'
    elif low < high:
        remedy = (
            "If they are errors or rare luck, limit rewards to the range of the others: "
            f"--clip={low:.10g},{high:.10g} (clip=({low:.10g}, {high:.10g}))."
        )
    else:
        remedy = "If they are errors, correct them."
    n = len(huge)
    size = f"{huge[0]:g}" if huge[0] == huge[-1] else f"{huge[0]:g} to {huge[-1]:g}"
    share = squares[far].sum() / squares.sum()
    said = (
        f"{n} of {len(rewards):,} rewards {'is an outlier' if n == 1 else 'are outliers'} "
        f"({size}; the others are from {low:g} to {high:g}) and "
        f"{'makes' if n == 1 else 'make'} {share:.0%} of the variance, which hides the others. "
        f"{remedy}"
    )
    numbers = {"n_rewards": n, "share": float(share), "low": float(low), "high": float(high)}
    return LogWarning("outliers", said, numbers)


def _few_tasks(logs: TaskLogs) -> LogWarning | None:
    n = len(logs.tasks)
    if n >= MIN_TASKS:
        return None
    tasks = "is 1 task" if n == 1 else f"are {n} tasks"
    said = (
        f"There {tasks} only: kinds of task show only in many tasks. Is "
        f"{logs.schema.task!r} the task (--task), a user, a session, a machine?"
    )
    return LogWarning("few-tasks", said, {"n_tasks": n})


def _handful(squares: Float[Array, " n"], far: float) -> Bool[Array, " n"]:
    """Return which rewards are far from the median, by their squared distances; none if many."""
    most = max(MAX_FEW_OUTLIERS, int(MAX_OUTLIER_SHARE * len(squares)))
    found = squares > far**2 * np.sort(squares)[:-most].mean()
    return found & (found.sum() <= most)


def _large_orders(logs: TaskLogs) -> LogWarning | None:
    """Warn if the logarithms of a handful of spends are far above the others."""
    spends = np.sort(logs.sample.rewards[logs.sample.rewards > 0])
    if len(spends) < MIN_ROWS:
        return None
    distances = np.log(spends) - np.median(np.log(spends))
    far = _handful(distances**2, LARGE_ORDER_DEVIATIONS) & (distances >= np.log(LARGE_ORDER_FACTOR))
    if not far.any():
        return None
    low, high = spends[~far][[0, -1]]
    n, huge = int(far.sum()), spends[far]
    size = f"{huge[0]:g}" if n == 1 else f"{huge[0]:g} to {huge[-1]:g}"
    said = (
        f"{n} of {len(spends):,} spends {'is an outlier' if n == 1 else 'are outliers'} ({size}; "
        f"the others are from {low:g} to {high:g}). One such order can make the learned mean of "
        "its arm several times too large. If it is an error or rare luck, limit rewards to the "
        f"largest of the others: --clip=0,{high:g} (clip=(0, {high:g}))."
    )
    numbers = {"n_rewards": n, "low": float(low), "high": float(high)}
    return LogWarning("outliers", said, numbers)


def _short_tasks(logs: TaskLogs) -> LogWarning | None:
    n = np.asarray(logs.statistics.n_observations)
    n_tasks, n_short = len(n), int((n <= SHORT_TASK_ROWS).sum())
    n_long = n_tasks - n_short
    if 2 * n_short <= n_tasks:
        return None
    column, few = logs.schema.task, n_long < max(MIN_LONG_TASKS, MIN_LONG_SHARE * n_tasks)
    what = "the arms" if logs.arms is not None else "the features"
    numbers = {"n_tasks": n_tasks, "n_short": n_short, "n_long": n_long}
    if n.max() == 1:
        said = (
            f"Every task has one row ({n_tasks:,} tasks): nothing shows kinds of task, or how much "
            f"tasks differ. Does {column!r} identify rows? Name a column with several rows a task "
            f"(--task). If tasks are so short, the prior has one component, about {what}, and no "
            "task can be replayed: nobody knows what policies earn."
        )
        return LogWarning(NO_KINDS, said, numbers)
    said = f"{n_short:,} of {n_tasks:,} tasks have only one or two rows"
    if few:
        said += (
            ": kinds of task cannot be identified, and the prior has one component, about "
            f"{what}. Is {column!r} the task (--task)?"
        )
        return LogWarning(NO_KINDS, said, numbers)
    said += f": their kind does not show. The kinds come from the other {n_long:,} tasks."
    return LogWarning("short-tasks", said, numbers)


def _rare_arms(logs: TaskLogs) -> LogWarning | None:
    if logs.arms is None:
        return None
    rows = logs.statistics.pulls.sum(axis=0)
    rare = np.flatnonzero(rows < max(RARE_ARM_ROWS, RARE_ARM_SHARE * rows.mean()))
    if not len(rare):
        return None
    first = rare[np.argsort(rows[rare], kind="stable")][:MOST_NAMED]
    named = ", ".join(f"{shortened(logs.arms[k])} ({rows[k]:,})" for k in first)
    more = f" and {len(rare) - len(first):,} more" if len(rare) > len(first) else ""
    arms = "1 arm has" if len(rare) == 1 else f"{len(rare):,} arms have"
    said = (
        f"{arms} few rows: {named}{more}. What the prior says about them comes from the other "
        "arms. Leave them out (--arms names those to keep), or log more of them."
    )
    return LogWarning(
        "rare-arms", said, {"n_arms": len(rare), "most_rows": float(rows[rare].max())}
    )
