"""Read past tasks from log files, one piece at a time, here or on workers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks
from mixts._progress import step
from mixts._typing import Array, Int
from mixts.engines import EngineLike, engine_of
from mixts.errors import FormatError, LogsError, ParameterError
from mixts.families import Statistics
from mixts.features import Features
from mixts.logs.bad_rows import (
    OTHER_ARM,
    BadRows,
    Example,
    refuse_arm_a_row,
    unusable_rewards,
    without_reward,
)
from mixts.logs.decisions import check_missing, feature_column
from mixts.logs.files import (
    EXPORTED,
    Log,
    Paths,
    Piece,
    batches_of,
    delimiter_of,
    log_files,
    pieces_of,
)
from mixts.logs.levels import Spans, find_features
from mixts.logs.rows import Observations, Request, observations, sorted_order, unsupported
from mixts.logs.sample import RowSample, feature_hashes, name_hashes, no_rows
from mixts.logs.tally import Counted, Tally, binary
from mixts.logs.times import TaskTimes
from mixts.prior import MixturePrior

LogFamily = Literal["bernoulli", "gaussian", "poisson", "spend", "linear", "logistic"]


@dataclass(frozen=True)
class TaskLogs:
    """Past tasks read from logs; the result of :func:`read_logs`."""

    statistics: Statistics
    """Statistics of tasks in the order of ``tasks``, with columns as ``arms`` or ``features``."""
    tasks: tuple[str, ...]
    """Names of tasks, sorted; numbers in names are compared by size."""
    arms: tuple[str, ...] | None
    """Names of arms, as given or sorted like tasks; None with features."""
    features: tuple[str, ...] | None
    """Names of the numbers in a row of features: "intercept" first if there is one, "price",
    "brand=acme"; None for arms."""
    family: LogFamily
    why: str
    """Reason for this family, in words."""
    n_rows: int
    """Number of rows, including bad ones."""
    bad_rows: BadRows
    n_missing: int
    """Number of rows without a reward that count as the ``missing_reward`` that was given."""
    reward_range: tuple[float, float]
    """Smallest and largest reward in the files; ``missing_reward`` is none of them."""
    times: TaskTimes | None = field(repr=False)
    """First and last time of each task; None without a column of times."""
    sample: RowSample = field(repr=False)
    """Rows of some tasks, all of them if the logs are small; indices as in ``tasks``, ``arms``."""
    spans: Spans = field(repr=False)
    """Ranges of the numbers in a row of features."""
    files: tuple[Log, ...] = field(repr=False)
    """Files, and tables in memory, in the order in which they were read."""
    request: Request = field(repr=False)
    """Columns that were read, to read the rows of some tasks again; its features have the ranges of
    an earlier prior only."""

    @property
    def space(self) -> Features | None:
        """Features, with their levels and the ranges of the rows; None for arms."""
        known = self.request.space
        return None if known is None else known.learned_from(self.spans.low, self.spans.high)

    @property
    def missing(self) -> str:
        """Number of rows without a reward and what they count as, in words; "" if there are none.

        Rows without a reward are bad, unless :func:`read_logs` got a ``missing_reward``.
        """
        if not self.n_missing:
            return ""
        rows = "1 row had" if self.n_missing == 1 else f"{self.n_missing:,} rows had"
        count = "counts" if self.n_missing == 1 else "count"
        return f"{rows} no reward and {count} as {self.request.missing_reward:g} (--missing-reward)"


BATCH_ROWS = 1 << 17
"""Approximate number of rows in memory at a time."""

FAMILIES = ("auto", *get_args(LogFamily))
WITH_FEATURES = ("linear", "logistic")

LEAST_ZEROS = 0.03
"""Share of zeros from which on rewards of at least 0 may be purchases and spends."""
FEW_AMOUNTS = 24
"""So few different rewards above 0 are levels, ratings or small counts."""


@dataclass(frozen=True)
class Amounts:
    """Zeros and amounts among rewards."""

    n_zeros: int = 0
    least: float = np.inf
    """Smallest reward above 0."""
    some: frozenset[float] = frozenset()
    """Different rewards above 0; if there are more than ``FEW_AMOUNTS``, some of them."""

    @classmethod
    def of(cls, rewards: Array) -> Amounts:
        """Return the amounts of some rewards."""
        amounts = rewards[rewards > 0]
        different = np.unique(amounts)[: FEW_AMOUNTS + 1]
        least = float(np.min(amounts, initial=np.inf))
        return cls(int((rewards == 0).sum()), least, frozenset(different.tolist()))

    def __add__(self, other: Amounts) -> Amounts:
        some = frozenset(sorted(self.some | other.some)[: FEW_AMOUNTS + 1])
        return Amounts(self.n_zeros + other.n_zeros, min(self.least, other.least), some)

    def are_spends(self, n: int) -> bool:
        """Return whether n rewards of at least 0 look like purchases and spends."""
        return self.n_zeros > LEAST_ZEROS * n and len(self.some) > FEW_AMOUNTS


@dataclass(frozen=True)
class Part:
    """Result of reading a piece of the logs."""

    counted: Counted
    bad: BadRows
    n_rows: int
    n_other: int
    """Number of rewards that are neither 0 nor 1."""
    other: Example | None
    """First reward that is neither 0 nor 1."""
    n_missing: int
    """Number of rows without a reward that count all the same."""
    reward_range: tuple[float, float]
    """Smallest and largest reward; infinity and minus infinity if there are none."""
    times: TaskTimes
    sample: RowSample
    amounts: Amounts = Amounts()
    """Zeros and amounts, where the family is chosen by the data."""
    spans: Spans = field(default_factory=lambda: Spans(0))
    """Ranges of the features."""
    arm_names: frozenset[str] = frozenset()
    """If the arms are listed: those of them that occur, and some others."""


def read_logs(
    paths: Paths,
    *,
    task: str,
    reward: str,
    arm: str | None = None,
    features: Sequence[str] | Features | None = None,
    family: Literal["auto"] | LogFamily = "auto",
    intercept: bool = False,
    arms: Sequence[str] | MixturePrior | None = None,
    missing_reward: float | None = None,
    clip: tuple[float, float] | None = None,
    time: str | None = None,
    delimiter: str | None = None,
    allow_bad_rows: bool = False,
    batch_rows: int = BATCH_ROWS,
    text: Sequence[str] = (),
    top_levels: int | None = None,
    decimals: int | None = None,
    engine: EngineLike = None,
) -> TaskLogs:
    """Read the statistics of past tasks from CSV or Parquet files of any size, or from tables.

    Tasks and arms are identified by their names as text: the number 1 and the text "1" are the same
    task in all files. Both are sorted, so the result depends neither on the order of rows and files
    nor on ``batch_rows`` (counts exactly, real numbers to rounding). Needs pyarrow (extra
    ``logs``).

    Parameters
    ----------
    paths
        A file, a pattern such as ``"logs/*.parquet"``, a folder, a table of pandas, polars or
        pyarrow, or a list of these.
    task, reward
        Columns of the task and of the reward.
    arm, features
        Column of the chosen arm, or columns of the features of the choice: one of the two. Numbers
        stay as they are. A column most of whose values are no numbers is text, and each of its
        levels is a number that is 0 or 1; if the rows have an intercept or the levels of an earlier
        feature, the first level has none: it is the reference. A :class:`mixts.Features`, such as
        ``prior.features``, gives the same rows as an earlier prior.
    family
        With features "logistic", which is :class:`mixts.LinearBernoulli`, or "linear"; with arms
        "bernoulli", "gaussian", "poisson" or "spend". "auto" is "logistic" with features and
        "bernoulli" with arms if every reward is 0 or 1. Otherwise it is "linear" with features;
        with arms it is "spend" if no reward is negative, more than 3% are 0 and the others have
        more than 24 different values, and "gaussian" if not.
    intercept
        Whether to add a first feature that is always 1.
    arms
        Names of the only arms, in their order, each of which must occur in the logs; or an earlier
        prior, whose arms may have no rows, so that the new prior can replace it. By default all
        arms of the logs, sorted.
    missing_reward
        Reward of the rows that have none (null, NaN, an empty text), for example 0 where only
        clicks are recorded. By default these rows are bad.
    clip
        Smallest and largest reward. Rewards beyond them count as these, so that a few huge rewards
        do not decide what is learned. By default rewards stay as they are.
    time
        Column of the time of each row: numbers, or dates as in ISO 8601 (without a zone: UTC).
        :func:`mixts.learning.fit_logs` then holds out the latest tasks.
    delimiter
        Column separator of CSV files; by default a tab for ``.tsv`` files and a comma for others.
    allow_bad_rows
        Whether to accept logs in which more than half of the rows are bad.
    batch_rows
        Approximate number of rows in memory at a time.
    text
        Features that are text even if they look like numbers, such as postal codes.
    top_levels
        Keep so many levels of each text feature, the most frequent ones; the rest are one level,
        "other". By default all are kept, and more than 50 are refused.
    decimals
        Decimals to which features are rounded; by default they are not. The family "logistic"
        counts each distinct row of a task, at most 10,000: rounded features have fewer.
    engine
        Where files are read, as in :func:`mixts.engines.engine_of`: a number of processes, an
        executor, an engine; None is this process. Workers must find the files at the same paths.

    Returns
    -------
    TaskLogs
        Statistics of the tasks, the names of tasks and arms, and bad rows by reason.

    Examples
    --------
    >>> from mixts.logs import read_logs
    >>> logs = read_logs("clicks.csv", task="user", arm="item", reward="clicked")  # doctest: +SKIP
    >>> prior = mixts.learn_prior(logs.statistics, "auto", seed=1)  # doctest: +SKIP
    """
    space = features if isinstance(features, Features) else None
    names = features.raw_names if isinstance(features, Features) else features
    if space is not None and intercept > space.intercept:
        raise ParameterError("intercept is a part of these features: leave it out, or make others")
    request = _request(
        task, reward, arm, names, family, intercept if space is None else space.intercept,
        _arm_names(arms), _checks.count(batch_rows, "batch_rows"),
    )  # fmt: skip
    request = replace(
        request,
        delimiter=delimiter,
        missing_reward=_missing(missing_reward, request.family),
        space=space,
        text=_text_features(text, request, space),
        top_levels=None if top_levels is None else _checks.count(top_levels, "top_levels"),
        time=time,
        clip=_limits(clip),
        decimals=_decimals(decimals, request),
        arms_may_lack_rows=isinstance(arms, MixturePrior),
    )
    files = log_files(paths, {*request.columns, *map(feature_column, request.features)})
    tally, found, request = _read(files, request, engine)
    return _task_logs(tally, found, request, files, allow_bad_rows)


def read_before(
    logs: TaskLogs, time: float, engine: EngineLike = None
) -> tuple[Int[Array, " n"], Statistics]:
    """Read the rows before a time again.

    Parameters
    ----------
    logs
        Result of :func:`read_logs` with a column of times. Its files are read again.
    time
        Rows at this time and later ones are left out.
    engine
        Where files are read, as in :func:`read_logs`.

    Returns
    -------
    tuple
        Indices of the tasks that have earlier rows, into ``logs.tasks``, and their statistics.
    """
    request = replace(logs.request, family=logs.family, arms=logs.arms, before=time)
    tally, _, _ = _read(logs.files, request, engine)
    index = {name: i for i, name in enumerate(logs.tasks)}
    found = np.array([index[name] for name in tally.tasks], dtype=np.int64)
    order = np.argsort(found)
    return found[order], tally.counted(order).statistics


def _read(
    files: Sequence[Log], request: Request, engine: EngineLike
) -> tuple[Tally, Part, Request]:
    """Count the rows of all files, in order; also return the request with its features."""
    jobs = pieces_to_read(files, request)
    exported = bool(jobs) and all(EXPORTED.issubset(piece.header) for piece, _ in jobs)
    request = replace(request, exported=exported, renamed=_renamed(request) if exported else {})
    _check_roles(request)
    for piece, used in jobs:
        _check_columns(piece, request, used)
    path, above = "", 0
    names = list(dict.fromkeys(piece.path for piece, _ in jobs))
    bar = step(f"reading {names[0] if len(names) == 1 else f'{len(names):,} files'}", len(jobs))
    with engine_of(1 if engine is None else engine) as where:
        if request.arm is None and request.space is None:
            request = replace(request, space=find_features(jobs, request, where))
        tally = _tally(request)
        found = Part(
            tally.counted(), BadRows(), 0, 0, None, 0, _NO_RANGE, TaskTimes(), no_rows(),
            spans=Spans(len(request.feature_names)),
        )  # fmt: skip
        parts = where.map(read_piece, ((piece, used, request) for piece, used in jobs))
        for (piece, _), part in zip(jobs, parts, strict=True):
            above = above if piece.path == path else 0
            path = piece.path
            tasks, arms = tally.merge(part.counted)
            if request.time is not None:
                found.times.merge(part.times, tasks)
            found.spans.merge(part.spans, tasks)
            found = _joined(found, replace(part, sample=part.sample.moved(tasks, arms)), above)
            above += part.n_rows
            bar.advance(1)
    return tally, found, request


def _tally(request: Request) -> Tally:
    return Tally(request.family, request.arms, len(request.feature_names), request.decimals)


def pieces_to_read(files: Sequence[Log], request: Request) -> list[tuple[Piece, str]]:
    """Return the pieces of all files in order, each with its delimiter."""
    delimiters = {file: delimiter_of(file, request.delimiter) for file in files}
    return [(piece, used) for file, used in delimiters.items() for piece in pieces_of(file, used)]


def _request(
    task: str, reward: str, arm: str | None, features: Sequence[str] | None, family: str,
    intercept: bool, arms: Sequence[str] | None, batch_rows: int,
) -> Request:  # fmt: skip
    if family not in FAMILIES:
        raise ParameterError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    if (arm is None) == (features is None):
        raise ParameterError(
            "expected either arm, the column that says what was chosen, or features, the columns "
            f"that describe it, got arm={arm!r} and features={features!r}"
        )
    linear = features is not None
    if family != "auto" and (family in WITH_FEATURES) != linear:
        needs = "features" if family in WITH_FEATURES else "an arm"
        raise ParameterError(f"family {family!r} needs {needs}; choose 'auto' or another family")
    if not linear and intercept:
        raise ParameterError("intercept is for features: leave it out with arms")
    if linear and arms is not None:
        raise ParameterError("arms is the list of arms: leave it out with features")
    names = tuple(features or ())
    repeated = {
        name for name in names if names.count(name) > 1 or (intercept and name == "intercept")
    }
    if (linear and not names and not intercept) or repeated or isinstance(features, str):
        raise ParameterError(f"features must be different columns, at least one, got {features!r}")
    listed = None
    if arms is not None:
        listed = _checks.name_list([str(name) for name in arms], len(arms), "arms")
        if not listed:
            raise ParameterError("arms must name at least one arm, got none")
    return Request(
        task, reward, arm, names, intercept, family, listed, batch_rows,
        family_is_given=family != "auto",
    )  # fmt: skip


def _arm_names(arms: Sequence[str] | MixturePrior | None) -> Sequence[str] | None:
    """Return the names of arms, as given or of an earlier prior."""
    if not isinstance(arms, MixturePrior):
        return arms
    if arms.arm_names is None:
        raise ParameterError(f"arms must be names, or a prior that names its arms, got {arms!r}")
    return arms.arm_names


def _check_arms(request: Request, seen: frozenset[str]) -> None:
    """Refuse listed arms that no row has: a misspelt name would be an arm of its own."""
    unknown = [name for name in request.arms or () if name not in seen]
    if not unknown or request.arms_may_lack_rows:
        return
    names = [name for name in seen if name]
    names = [names[i] for i in sorted_order(names)]
    known = {name.strip().casefold(): name for name in names}
    similar = difflib.get_close_matches(unknown[0].strip().casefold(), known, n=1)
    more = f" and {len(names) - _MOST_ARMS:,} more" if len(names) > _MOST_ARMS else ""
    hint = (
        f": did you mean {known[similar[0]]!r}?"
        if similar
        else f". Its arms are {', '.join(map(repr, names[:_MOST_ARMS]))}{more}."
    )
    raise ParameterError(
        f"arms must occur in the logs, and {unknown[0]!r} does not{hint} To have an arm without "
        "rows, take the arms of an earlier prior (--from PRIOR, arms=prior), or add the arm to "
        "the learned prior (mixts arms add, prior.add_arms)"
    )


def _text_features(
    text: Sequence[str], request: Request, space: Features | None
) -> tuple[str, ...]:
    """Return the features that are text; they must be among the features."""
    if isinstance(text, str):
        raise ParameterError(f"text must be a list of features, got {text!r}")
    unknown = [name for name in text if name not in request.features]
    if unknown or (text and space is not None):
        known = ", ".join(request.features) if space is None else "none, they are known already"
        raise ParameterError(f"text must be among the features ({known}), got {list(text)}")
    return tuple(text)


def _decimals(given: Any, request: Request) -> int | None:
    """Return the number of decimals, which only features have."""
    if given is None:
        return None
    if request.arm is not None:
        raise ParameterError("decimals is for features: leave it out with arms")
    return _checks.count(given, "decimals", least=0)


def _missing(given: Any, family: str) -> float | None:
    """Return the reward of rows without one, which the family must allow."""
    value = check_missing(given)
    if value is not None and unsupported(np.array([value]), family)[0]:
        raise ParameterError(
            f"missing_reward must be a reward of the family {family!r}, got {value:g}"
        )
    return value


def _limits(clip: Any) -> tuple[float, float] | None:
    """Return the smallest and largest reward, which must be different numbers."""
    if clip is None:
        return None
    try:
        low, high = map(float, clip)
    except (TypeError, ValueError):
        low = high = np.nan
    if not -np.inf < low < high < np.inf:
        raise ParameterError(
            f"clip must be the smallest and the largest reward, such as (0, 500), got {clip!r}"
        )
    return low, high


def _renamed(request: Request) -> dict[str, str]:
    """Return the columns of the features of an earlier prior that an export had to rename."""
    if request.space is None:
        return {}
    columns = {name: feature_column(name) for name in request.features}
    return {name: column for name, column in columns.items() if column != name}


def _check_roles(request: Request) -> None:
    """Refuse a column that has two roles."""
    first: dict[str, str] = {}
    for role, column in request.roles:
        known = first.setdefault(column, role)
        if known != role:
            raise ParameterError(
                f"the column {column!r} is both {known} and {role}: name another column for one of "
                "them; if it really is both, give the files a copy of it under another name"
            )


def _check_columns(piece: Piece, request: Request, delimiter: str) -> None:
    for name in request.columns:
        n = piece.header.count(name)
        if n == 0:
            hint = _hint(piece, name, delimiter)
            raise ParameterError(
                f"{piece.path} has no column {name!r}; it has: {', '.join(piece.header)}{hint}"
            )
        if n > 1:
            raise ParameterError(f"{piece.path} has {n} columns {name!r}: rename all but one")


def _hint(piece: Piece, name: str, delimiter: str) -> str:
    """Say why a column may be missing; "" if nothing is known."""
    columns = {column.strip().casefold(): column for column in piece.header}
    similar = difflib.get_close_matches(name.strip().casefold(), columns, n=1)
    if len(piece.header) == 1 and piece.format == "csv":
        others = [mark for mark in ",;\t|" if mark != delimiter and mark in piece.header[0]]
        if others:
            return (
                f"; its columns seem to be separated by {others[0]!r}: add "
                f"--delimiter {others[0]!r} (delimiter={others[0]!r})"
            )
    if similar:
        return f"; did you mean {columns[similar[0]]!r}?"
    number = re.compile(r"[+-]?[0-9.]*[0-9]")
    if piece.format == "csv" and any(number.fullmatch(column.strip()) for column in piece.header):
        return "; this seems to be a row: the first line must hold the names of the columns"
    return ""


# -- pieces ---------------------------------------------------------------------------------------


def read_piece(piece: Piece, delimiter: str, request: Request) -> Part:
    """Count the rows of one piece, one batch at a time."""
    tally = _tally(request)
    bad, n_rows = BadRows(), 0
    n_other, other, n_missing, extent = 0, None, 0, _NO_RANGE
    amounts = Amounts()
    seen: frozenset[str] = frozenset()
    times, sample, spans = TaskTimes(), no_rows(), Spans(len(request.feature_names))
    for batch in batches_of(piece, request.columns, delimiter, request.batch_rows):
        n_rows += len(batch) + batch.ragged.total
        if not batch.columns:
            bad += batch.ragged
            continue
        rows = observations(batch, request, piece.path)
        bad += rows.bad
        n_missing += int(rows.missing.sum())
        extent = _range(extent, rows.rewards[~rows.missing])
        if request.family == "auto":
            amounts += Amounts.of(rows.rewards)
            unlike = ~binary(rows.rewards)
            if unlike.any():
                n_other += int(unlike.sum())
                other = other or _example(rows, int(np.argmax(unlike)), piece)
        if len(rows.arm_names) > _MANY_ARMS:  # before all of them get room
            refuse_arm_a_row(len(rows.rewards), len(rows.arm_names), str(request.arm))
        if request.arms is not None:
            seen = _arms_seen(seen.union(rows.arm_names), request.arms)
        tasks, arms = tally.add(rows)
        spans.add(tasks, rows.features)
        if request.time is not None:
            times.add(tasks, rows.times, rows.n_dates)
        sample += _sampled(rows, tasks, arms, sample)
    counted = tally.counted()
    if request.time is not None:
        times = times.ordered(np.arange(len(counted.tasks)))
    return Part(
        counted, bad, n_rows, n_other, other, n_missing, extent, times, sample, amounts, spans,
        seen,
    )  # fmt: skip


def _arms_seen(names: frozenset[str], listed: tuple[str, ...]) -> frozenset[str]:
    """Return the listed arms among these names, and as many others as a message needs."""
    found = names.intersection(listed)
    return found.union(sorted(names - found)[:_MANY_ARMS])


def _sampled(
    rows: Observations, tasks: Int[Array, " m"], arms: Int[Array, " a"], known: RowSample
) -> RowSample:
    """Return the rows of a batch whose tasks belong to a sample; arms are empty if linear."""
    hashes = name_hashes(rows.task_names)[rows.tasks]
    kept = hashes < known.limit
    choices = arms[kept] if len(rows.arm_names) else feature_hashes(rows.features[kept])
    return RowSample(tasks[kept], choices, rows.rewards[kept], rows.times[kept], hashes[kept])


_MANY_ARMS = 10_000
"""Number of arms in a batch above which an arm a row is refused at once."""
_MOST_ARMS = 20
"""Largest number of arms that an error message lists."""
_NO_RANGE = (np.inf, -np.inf)
_SAME = np.empty(0, np.int64)
"""No other indices."""


def _range(known: tuple[float, float], rewards: Any) -> tuple[float, float]:
    """Return the smallest and largest reward, also of those before."""
    low, high = known
    return float(np.min(rewards, initial=low)), float(np.max(rewards, initial=high))


def _example(rows: Observations, index: int, piece: Piece) -> Example:
    file = piece.path.replace("\\", "/").rpartition("/")[2]
    return Example(file, int(rows.rows[index]), f"{rows.rewards[index]:g}")


def _joined(found: Part, part: Part, above: int) -> Part:
    """Return both; the part begins ``above`` rows below the top of its file."""
    other = part.other and part.other._replace(row=part.other.row + above)
    return replace(
        found,
        bad=found.bad + part.bad.moved(above),
        n_rows=found.n_rows + part.n_rows,
        n_other=found.n_other + part.n_other,
        other=found.other or other,
        n_missing=found.n_missing + part.n_missing,
        reward_range=_range(found.reward_range, part.reward_range),
        sample=found.sample + part.sample,
        amounts=found.amounts + part.amounts,
        arm_names=found.arm_names | part.arm_names,
    )


# -- the result -----------------------------------------------------------------------------------


def _task_logs(
    tally: Tally, found: Part, request: Request, files: tuple[Log, ...], allow_bad_rows: bool
) -> TaskLogs:
    n_good = found.n_rows - found.bad.total
    _, remedy = unusable_rewards(found.bad, request.family)
    reasons = "".join(f"\n  {line}" for line in (*found.bad.lines(), remedy) if line)
    if not found.n_rows:
        raise FormatError(f"no rows below the names of the columns in {', '.join(map(str, files))}")
    _check_arms(request, found.arm_names)
    if n_good == 0:
        raise FormatError(f"none of {found.n_rows:,} rows can be used{reasons}")
    # Arms that are not listed are left out as asked for; nobody asked so by an earlier prior.
    n_unlisted = 0 if request.arms_may_lack_rows else found.bad.counts.get(OTHER_ARM, 0)
    if 2 * n_good < found.n_rows - n_unlisted and not allow_bad_rows:
        silent = without_reward(found.bad, found.reward_range, refused=True)
        if silent:
            raise LogsError(f"{silent}{reasons}")
        raise FormatError(
            f"{found.bad.total:,} of {found.n_rows:,} rows are bad, which is more than half: are "
            "the columns the right ones? If so, add --allow-bad-rows (allow_bad_rows=True)"
            f"{reasons}"
        )
    tasks = np.array(sorted_order(tuple(tally.tasks)), dtype=np.int64)
    arms = None
    if request.arm is not None and request.arms is None:
        arms = np.array(sorted_order(tuple(tally.arms)), dtype=np.int64)
    counted = tally.counted(tasks, arms)
    if counted.too_large and not found.n_other:
        raise LogsError(counted.too_large)
    family: Any = counted.family
    statistics = counted.statistics
    if counted.spends is not None and found.amounts.are_spends(n_good):
        family, statistics = "spend", counted.spends
    return TaskLogs(
        statistics,
        counted.tasks,
        None if request.arm is None else counted.arms,
        request.feature_names or None,
        family,
        _why(family, request, found, n_good),
        found.n_rows,
        found.bad,
        found.n_missing,
        found.reward_range,
        None if request.time is None else _task_times(found.times, tasks),
        found.sample.moved(np.argsort(tasks), np.argsort(_SAME if arms is None else arms)),
        found.spans,
        files,
        request,
    )


def _task_times(times: TaskTimes, order: Int[Array, " n"]) -> TaskTimes:
    """Return the times of tasks in an order, unless numbers and dates are mixed."""
    if times.n_dates and times.n_numbers:
        raise FormatError(
            f"{times.n_dates:,} times are dates and {times.n_numbers:,} are numbers: one of them "
            "is wrong"
        )
    return times.ordered(order)


def _why(family: LogFamily, request: Request, found: Part, n_good: int) -> str:
    if request.family != "auto":
        return "it was asked for"
    if family in ("bernoulli", "logistic"):
        return "every reward is 0 or 1"
    if family == "spend":
        n, amounts = n_good - found.amounts.n_zeros, found.amounts
        return (
            f"{n:,} of {n_good:,} rewards are above 0 and range from {amounts.least:g} to "
            f"{found.reward_range[1]:g}: purchases and spends"
        )
    return (
        f"{found.n_other:,} of {n_good:,} rewards are neither 0 nor 1, the first in {found.other}"
    )
