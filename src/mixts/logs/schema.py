"""The schema of logs: which columns are read, what their values must be, and its checks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks
from mixts._numbers import LARGEST, LARGEST_COUNT
from mixts._typing import Array, Bool, Float
from mixts.errors import ParameterError
from mixts.features import Features
from mixts.logs.decisions import check_missing, feature_column
from mixts.logs.files import EXPORTED, Piece
from mixts.prior import MixturePrior

LogFamily = Literal["bernoulli", "gaussian", "poisson", "spend", "linear", "logistic"]

FAMILIES = ("auto", *get_args(LogFamily))
WITH_FEATURES = ("linear", "logistic")

BATCH_ROWS = 1 << 17
"""Approximate number of rows in memory at a time."""


@dataclass(frozen=True)
class LogSchema:
    """Columns to read, and what their values must be."""

    task: str
    reward: str
    arm: str | None
    features: tuple[str, ...]
    intercept: bool
    family: str
    arms: tuple[str, ...] | None
    """Names of the only arms; None if any name is an arm."""
    batch_rows: int = BATCH_ROWS
    delimiter: str | None = None
    """Column separator of CSV files; None if it follows from the file's name."""
    missing_reward: float | None = None
    """Reward of rows without one; None if these rows are bad."""
    text: tuple[str, ...] = ()
    """Features that are text even if they look like numbers."""
    top_levels: int | None = None
    """Levels of a text feature to keep; the rest are one level. None keeps all."""
    space: Features | None = None
    """The features of tasks with features, which a first pass over the files may have found."""
    time: str | None = None
    clip: tuple[float, float] | None = None
    """Smallest and largest reward; rewards beyond them count as these. None keeps all."""
    before: float | None = None
    """Read only rows before this time; None to read all."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns of features whose column has another name than the feature."""
    decimals: int | None = None
    """Decimals to which the numbers of a row of features are rounded; None keeps all."""
    arms_may_lack_rows: bool = False
    """Whether some of the arms may occur in no row: those of an earlier prior may."""
    exported: bool = False
    """Whether all files are exports of a service's decisions."""
    family_is_given: bool = False
    """Whether the caller named the family, which else follows from the columns and the rewards."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read."""
        return tuple(column for _, column in self.roles)

    @property
    def roles(self) -> tuple[tuple[str, str], ...]:
        """Role of each column to read, in words, and the column."""
        named = [
            ("the task (--task)", self.task), ("the arm (--arm)", self.arm),
            ("the reward (--reward)", self.reward), ("the time (--time)", self.time),
            *(("a feature (--features)", self.renamed.get(n, n)) for n in self.features),
        ]  # fmt: skip
        return tuple((role, column) for role, column in named if column is not None)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the numbers of a row; the intercept comes first."""
        return () if self.space is None else self.space.names


def unsupported(rewards: Float[Array, " m"], family: str) -> Bool[Array, " m"]:
    """Return which rewards are impossible in a family."""
    if family in ("bernoulli", "logistic"):
        return (rewards != 0) & (rewards != 1)
    if family == "poisson":
        return ~((rewards >= 0) & (rewards <= LARGEST_COUNT) & (rewards == np.floor(rewards)))
    if family == "spend":
        return ~((rewards >= 0) & (rewards <= LARGEST))
    return ~(np.abs(rewards) <= LARGEST)


def support(family: str) -> str:
    """Return the possible rewards of a family, in words."""
    known = {
        "bernoulli": "0 or 1",
        "logistic": "0 or 1",
        "poisson": "a whole number from 0 to 2^53",
        "spend": f"from 0 to {LARGEST:g}",
    }
    return known.get(family, f"between -{LARGEST:g} and {LARGEST:g}")


# -- options --------------------------------------------------------------------------------------


def log_schema(
    task: str,
    reward: str,
    arm: str | None,
    features: Sequence[str] | Features | None,
    family: str,
    intercept: bool,
    arms: Sequence[str] | MixturePrior | None,
) -> LogSchema:
    """Return the schema of logs with these columns; parameters as in ``read_logs``."""
    if family not in FAMILIES:
        raise ParameterError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    if (arm is None) == (features is None):
        raise ParameterError(
            "expected either arm, the column that says what was chosen, or features, the columns "
            f"that describe it, got arm={arm!r} and features={features!r}"
        )
    space = None
    if isinstance(features, Features):
        if intercept > features.intercept:
            raise ParameterError(
                "intercept is a part of these features: leave it out, or make others"
            )
        space, intercept, features = features, features.intercept, features.raw_names
    linear = features is not None
    if family != "auto" and (family in WITH_FEATURES) != linear:
        needs = "features" if family in WITH_FEATURES else "an arm"
        raise ParameterError(f"family {family!r} needs {needs}; choose 'auto' or another family")
    if not linear and intercept:
        raise ParameterError("intercept is for features: leave it out with arms")
    if linear and arms is not None:
        raise ParameterError("arms is the list of arms: leave it out with features")
    names = () if features is None else tuple(features)
    repeated = {
        name for name in names if names.count(name) > 1 or (intercept and name == "intercept")
    }
    if (linear and not names and not intercept) or repeated or isinstance(features, str):
        raise ParameterError(f"features must be different columns, at least one, got {features!r}")
    return LogSchema(
        task, reward, arm, names, intercept, family, _arm_names(arms), space=space,
        arms_may_lack_rows=isinstance(arms, MixturePrior), family_is_given=family != "auto",
    )  # fmt: skip


def _arm_names(arms: Sequence[str] | MixturePrior | None) -> tuple[str, ...] | None:
    """Return the names of arms, as given or of an earlier prior."""
    if arms is None:
        return None
    if not isinstance(arms, MixturePrior):
        listed = _checks.name_list([str(name) for name in arms], len(arms), "arms")
        if not listed:
            raise ParameterError("arms must name at least one arm, got none")
        return listed
    if arms.arm_names is None:
        raise ParameterError(f"arms must be names, or a prior that names its arms, got {arms!r}")
    return arms.arm_names


def with_options(schema: LogSchema, **given: Any) -> LogSchema:
    """Return a schema with the other options of ``read_logs``, checked."""
    top = given["top_levels"]
    return replace(
        schema,
        **given
        | {
            "batch_rows": _checks.count(given["batch_rows"], "batch_rows"),
            "missing_reward": _missing(given["missing_reward"], schema.family),
            "text": _text_features(given["text"], schema),
            "top_levels": None if top is None else _checks.count(top, "top_levels"),
            "clip": _limits(given["clip"]),
            "decimals": _decimals(given["decimals"], schema),
        },
    )


def _text_features(text: Sequence[str], schema: LogSchema) -> tuple[str, ...]:
    """Return the features that are text; they must be among the features."""
    if isinstance(text, str):
        raise ParameterError(f"text must be a list of features, got {text!r}")
    unknown = [name for name in text if name not in schema.features]
    if unknown or (text and schema.space is not None):
        known = "none, they are known already"
        known = known if schema.space is not None else ", ".join(schema.features)
        raise ParameterError(f"text must be among the features ({known}), got {list(text)}")
    return tuple(text)


def _decimals(given: Any, schema: LogSchema) -> int | None:
    """Return the number of decimals, which only features have."""
    if given is None:
        return None
    if schema.arm is not None:
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


# -- columns of files -----------------------------------------------------------------------------


def schema_of_files(schema: LogSchema, pieces: Sequence[tuple[Piece, str]]) -> LogSchema:
    """Return the schema with the columns of files, which must have them, each with one role."""
    exported = bool(pieces) and all(EXPORTED.issubset(piece.header) for piece, _ in pieces)
    found = replace(schema, exported=exported, renamed=_renamed(schema) if exported else {})
    _check_roles(found)
    for piece, delimiter in pieces:
        _check_columns(piece, found, delimiter)
    return found


def _renamed(schema: LogSchema) -> dict[str, str]:
    """Return the columns of the features of an earlier prior that an export had to rename."""
    if schema.space is None:
        return {}
    columns = {name: feature_column(name) for name in schema.features}
    return {name: column for name, column in columns.items() if column != name}


def _check_roles(schema: LogSchema) -> None:
    """Refuse a column that has two roles."""
    first: dict[str, str] = {}
    for role, column in schema.roles:
        known = first.setdefault(column, role)
        if known != role:
            raise ParameterError(
                f"the column {column!r} is both {known} and {role}: name another column for one of "
                "them; if it really is both, give the files a copy of it under another name"
            )


def _check_columns(piece: Piece, schema: LogSchema, delimiter: str) -> None:
    for name in schema.columns:
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
