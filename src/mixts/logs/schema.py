"""The schema of logs: which columns are read, what their values must be, and its checks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from mixts import _checks
from mixts._checks import some_names
from mixts._numbers import LARGEST, LARGEST_COUNT
from mixts._typing import Array, Bool, Float
from mixts.errors import ParameterError
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearBernoulliStatistics,
    LinearStatistics,
    PoissonStatistics,
    SpendStatistics,
    Statistics,
)
from mixts.features import PERSON, Features
from mixts.logs.decisions import check_missing, feature_column
from mixts.logs.files import EXPORTED, Piece
from mixts.prior import MixturePrior

LogFamily = Literal["bernoulli", "gaussian", "poisson", "spend", "linear", "logistic"]

KINDS: dict[str, type[Statistics]] = {
    "bernoulli": BernoulliStatistics,
    "gaussian": GaussianStatistics,
    "poisson": PoissonStatistics,
    "spend": SpendStatistics,
    "linear": LinearStatistics,
    "logistic": LinearBernoulliStatistics,
}
"""Statistics of each family."""
FAMILIES = ("auto", *KINDS)
WITH_FEATURES = ("linear", "logistic")


@dataclass(frozen=True, kw_only=True)
class LogSchema:
    """Columns of logs and how to read them: keyword arguments of :func:`mixts.logs.read_logs`.

    Attributes
    ----------
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
        :func:`mixts.fit_logs` then holds out the latest tasks.
    delimiter
        Column separator of CSV files; by default a tab for ``.tsv`` files and a comma for others.
    allow_bad_rows
        Whether to accept logs in which more than half of the rows are bad.
    batch_rows
        Approximate number of rows in memory at a time. Of a lazy table, at most 16 times as many
        groups of rows come back at a time, in ranges of tasks.
    text
        Features that are text even if they look like numbers, such as postal codes.
    top_levels
        Keep so many levels of each text feature, the most frequent ones; the rest are one level,
        "other". By default all are kept, and more than 50 are refused.
    person
        With features: columns of facts about the person, such as age and country, whose effects are
        the same for everybody (:class:`mixts.Pooled`). Each fact has an effect of its own, and one
        with each feature, unless ``cross`` says otherwise.
    cross
        Products of two columns whose effects are the same for everybody: "age:item", or a pair of
        names; "person:item" takes every fact. Given crosses replace those of ``person``.
    score
        Column of another model's prediction for the choice, on the scale on which effects add up:
        the log odds of a click, or the reward. Its slope is learned.
    decimals
        Decimals to which features are rounded; by default they are not. The family "logistic"
        counts each distinct row of a task, at most 10,000: rounded features have fewer.
    """

    task: str
    reward: str
    arm: str | None = None
    features: Iterable[str] | Features | None = None
    family: Literal["auto"] | LogFamily = "auto"
    intercept: bool = False
    arms: Sequence[str] | MixturePrior | None = None
    missing_reward: float | None = None
    clip: tuple[float, float] | None = None
    time: str | None = None
    delimiter: str | None = None
    allow_bad_rows: bool = False
    batch_rows: int = 1 << 17
    text: Iterable[str] = ()
    top_levels: int | None = None
    decimals: int | None = None
    person: Iterable[str] = ()
    cross: Iterable[str | tuple[str, str]] = ()
    score: str | None = None

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            expected = ", ".join(FAMILIES)
            raise ParameterError(f"family must be one of {expected}, got {self.family!r}")
        if (self.arm is None) == (self.features is None):
            raise ParameterError(
                "expected either arm, the column that says what was chosen, or features, the "
                f"columns that describe it, got arm={self.arm!r} and features={self.features!r}"
            )
        if self.family != "auto" and (self.family in WITH_FEATURES) != (self.arm is None):
            needs = "features" if self.family in WITH_FEATURES else "an arm"
            raise ParameterError(
                f"family {self.family!r} needs {needs}; choose 'auto' or another family"
            )
        for name in ("text", "person", "cross"):
            if isinstance(getattr(self, name), str):
                given = getattr(self, name)
                raise ParameterError(f"{name} must be a list of columns, got {given!r}")
            self._keep(**{name: tuple(getattr(self, name))})
        if self.arm is None:
            self._check_features()
        else:
            self._check_without_features()
        value = check_missing(self.missing_reward)
        if value is not None and unsupported(np.array([value]), self.family)[0]:
            raise ParameterError(
                f"missing_reward must be a reward of the family {self.family!r}, got {value:g}"
            )
        self._keep(missing_reward=value, batch_rows=_checks.count(self.batch_rows, "batch_rows"))
        if self.top_levels is not None:
            self._keep(top_levels=_checks.count(self.top_levels, "top_levels"))
        if self.clip is not None:
            self._keep(clip=_limits(self.clip))
        if self.delimiter == r"\t":  # as people write it in a shell
            self._keep(delimiter="\t")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ParameterError(f"delimiter must be one character, got {self.delimiter!r}")

    def _keep(self, **values: Any) -> None:
        """Set options to their checked values, while the schema is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_features(self) -> None:
        """Check the features, and the options that belong to them."""
        if self.arms is not None:
            raise ParameterError("arms is the list of arms: leave it out with features")
        if not isinstance(self.features, Features | str | None):
            self._keep(features=tuple(self.features))
        names = self.feature_columns
        row = [*names, *(["intercept"] if self.intercept else [])]
        if self.space is not None:
            if self.intercept > self.space.intercept:
                raise ParameterError(
                    "intercept is a part of these features: leave it out, or make others"
                )
            self._keep(intercept=self.space.intercept)
        elif isinstance(self.features, str) or not row or len(set(row)) < len(row):
            got = self.features if isinstance(self.features, str) else list(names)
            raise ParameterError(f"features must be different columns, at least one, got {got!r}")
        if self.text and (self.space is not None or not set(names).issuperset(self.text)):
            known = "none, they are known already" if self.space is not None else ", ".join(names)
            raise ParameterError(
                f"text must be among the features ({known}), got {list(self.text)}"
            )
        self._check_pooled()
        if self.decimals is not None:
            self._keep(decimals=_checks.count(self.decimals, "decimals", least=0))

    def _check_pooled(self) -> None:
        """Check what has the same effect for everybody."""
        given = {"person": self.person, "cross": self.cross, "score": self.score}
        for name, value in given.items():
            if value and self.space is not None:
                raise ParameterError(f"{name} is a part of these features: leave it out")
        if self.decimals is not None and self.is_pooled:
            raise ParameterError(
                "decimals would round the sum of pooled effects as well: leave it out with person, "
                "cross and score, and round the columns themselves"
            )
        known = (*(self.person or ()), *(() if self.space else self.features or ()))  # type: ignore[misc]
        for pair in self._pairs:
            unknown = next((name for name in pair if name not in known), None)
            if len(pair) != 2 or unknown is not None:
                raise ParameterError(
                    "cross must be pairs of facts of the person and of features, such as "
                    f"'age:item', of {some_names(known)}; got {':'.join(pair)!r}"
                )

    @property
    def _pairs(self) -> list[tuple[str, ...]]:
        """The crosses, with each fact where they say "person"."""
        found: list[tuple[str, ...]] = []
        for given in self.cross:
            pair = tuple(given.split(":")) if isinstance(given, str) else tuple(given)
            whole = PERSON in pair and PERSON not in self.feature_columns
            facts = tuple(self.person) if whole else ("",)
            found += [tuple(fact if x == PERSON and whole else x for x in pair) for fact in facts]
        return found

    @property
    def terms(self) -> list[tuple[str, ...]]:
        """Terms of the pooled effects: facts, crosses and the score."""
        assert not isinstance(self.features, Features)
        facts, features = tuple(self.person), tuple(self.features or ())
        crosses = self._pairs if self.cross else list(product(facts, features))
        scores = [] if self.score is None else [(self.score,)]
        return [*((fact,) for fact in facts), *crosses, *scores]

    @property
    def is_pooled(self) -> bool:
        """Whether some effects are the same for everybody."""
        if self.space is not None:
            return self.space.pooled is not None
        return bool(self.person or self.cross or self.score)

    def _check_without_features(self) -> None:
        """Check the list of arms; refuse options that belong to features."""
        given = {
            "intercept": self.intercept,
            "text": self.text,
            "decimals": self.decimals is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise ParameterError(f"{name} is for features: leave it out with arms")
        pooled = {"person": self.person, "cross": self.cross, "score": self.score}
        for name, value in pooled.items():
            if value:
                raise ParameterError(
                    f"{name} needs features: give the column of the arm as a feature, "
                    f"--features {self.arm} (features=[{self.arm!r}]) instead of the arm"
                )
        if isinstance(self.arms, MixturePrior):
            if self.arms.arm_names is None:
                raise ParameterError(
                    f"arms must be names, or a prior that names its arms, got {self.arms!r}"
                )
        elif self.arms is not None:
            listed = _checks.name_list([str(name) for name in self.arms], len(self.arms), "arms")
            if not listed:
                raise ParameterError("arms must name at least one arm, got none")
            self._keep(arms=listed)

    @property
    def space(self) -> Features | None:
        """The features, once they are known: given, or found by a first pass over the files."""
        return self.features if isinstance(self.features, Features) else None

    @property
    def feature_columns(self) -> tuple[str, ...]:
        """Names of the features, facts and scores, without an intercept; none with arms."""
        given = self.features
        if isinstance(given, Features):
            return (*given.raw_names, *given.facts)
        scores = () if self.score is None else (self.score,)
        return (*(given or ()), *self.person, *scores)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the numbers of a row; the intercept comes first."""
        return () if self.space is None else self.space.names


@dataclass(frozen=True, kw_only=True)
class FileSchema(LogSchema):
    """Checked options of reading, and what they mean for some files: workers receive it."""

    arms: Sequence[str] | None = None
    arms_may_lack_rows: bool = False
    """Whether some of the arms may occur in no row: those of an earlier prior may."""
    before: float | None = None
    """Time from which on rows are left out."""
    exported: bool = False
    """Whether all files are exports of a service's decisions."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns of features whose column has another name than the feature."""

    def __post_init__(self) -> None:
        """Check nothing: the options are those of a :class:`LogSchema`, or follow from the logs."""

    @classmethod
    def of(cls, options: LogSchema) -> FileSchema:
        """Return the schema before a file is open; it keeps the names of a prior's arms only."""
        arms, may_lack_rows = options.arms, False
        if isinstance(arms, MixturePrior):
            arms, may_lack_rows = arms.arm_names, True
        return cls(**vars(options) | {"arms": arms, "arms_may_lack_rows": may_lack_rows})

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
            *((self._role(n), self.renamed.get(n, n)) for n in self.feature_columns),
        ]  # fmt: skip
        return tuple((role, column) for role, column in named if column is not None)

    def _role(self, name: str) -> str:
        facts = tuple(self.person) if self.space is None else self.space.facts
        if name in facts:
            return "a fact of the person (--person)"
        return "the score (--score)" if name == self.score else "a feature (--features)"


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


def _limits(clip: Any) -> tuple[float, float]:
    """Return the smallest and largest reward, which must be different numbers."""
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


def schema_of_files(schema: FileSchema, pieces: Sequence[tuple[Piece, str]]) -> FileSchema:
    """Return the schema with the columns of files, which must have them, each with one role."""
    found = schema
    if not schema.exported and all(EXPORTED.issubset(piece.header) for piece, _ in pieces):
        # Only now: features that are found in the files have the names of their columns.
        found = replace(schema, exported=True, renamed=_renamed(schema))
    _check_roles(found)
    for piece, delimiter in pieces:
        _check_columns(piece, found, delimiter)
    return found


def _renamed(schema: FileSchema) -> dict[str, str]:
    """Return the columns of the features of an earlier prior that an export had to rename."""
    if schema.space is None:
        return {}
    columns = {name: feature_column(name) for name in schema.feature_columns}
    return {name: column for name, column in columns.items() if column != name}


def _check_roles(schema: FileSchema) -> None:
    """Refuse a column that has two roles."""
    first: dict[str, str] = {}
    for role, column in schema.roles:
        known = first.setdefault(column, role)
        if known != role:
            raise ParameterError(
                f"the column {column!r} is both {known} and {role}: name another column for one of "
                "them; if it really is both, give the files a copy of it under another name"
            )


def _check_columns(piece: Piece, schema: FileSchema, delimiter: str) -> None:
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
    similar = _similar(name, piece.header)
    if len(piece.header) == 1 and piece.format == "csv":
        others = [mark for mark in ",;\t|" if mark != delimiter and mark in piece.header[0]]
        if others:
            return (
                f"; its columns seem to be separated by {others[0]!r}: add "
                f"--delimiter {others[0]!r} (delimiter={others[0]!r})"
            )
    if similar:
        return f"; did you mean {similar!r}?"
    number = re.compile(r"[+-]?[0-9.]*[0-9]")
    if piece.format == "csv" and any(number.fullmatch(column.strip()) for column in piece.header):
        return "; this seems to be a row: the first line must hold the names of the columns"
    return ""


# -- arms of files --------------------------------------------------------------------------------


def check_arms(schema: FileSchema, seen: Sequence[str]) -> None:
    """Refuse listed arms that no row has: a misspelt name would be an arm of its own."""
    if schema.arms is None or schema.arms_may_lack_rows:
        return
    found = set(seen)
    unknown = next((name for name in schema.arms if name not in found), None)
    if unknown is None:
        return
    similar = _similar(unknown, seen)
    hint = f": did you mean {similar!r}?" if similar else f". Its arms are {some_names(seen)}."
    raise ParameterError(
        f"arms must occur in the logs, and {unknown!r} does not{hint} To have an arm without "
        "rows, take the arms of an earlier prior (--from PRIOR, arms=prior), or add the arm to "
        "the learned prior (mixts arms add, prior.add_arms)"
    )


def _similar(name: str, names: Sequence[str]) -> str | None:
    """Return the name that is most like another one, in any case; None if none is like it."""
    known = {each.strip().casefold(): each for each in names}
    found = difflib.get_close_matches(name.strip().casefold(), known, n=1)
    return known[found[0]] if found else None
