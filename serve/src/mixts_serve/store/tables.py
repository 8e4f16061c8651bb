"""The tables of a store: made, like all statements on them, from the fields of their records.

A field of a record is a column of its table, by name; the type of the field is the type of the
column in each database. Statements have ``?`` for parameters in both databases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np
from msgspec import Struct

from mixts.extend import Array, ArrayLike, Float
from mixts_serve import records

SCHEMA_VERSION = 1
"""Version of the tables below. A store of another version is refused."""

Row = tuple[Any, ...]

# -- arrays in columns of bytes -------------------------------------------------------------------

WORD = 8
"""Bytes of every number: 64-bit integers and doubles, little-endian."""


def pack(values: ArrayLike) -> bytes:
    """Return the doubles of an array, one after the other."""
    return np.ascontiguousarray(values, "<f8").tobytes()


def unpack(content: bytes) -> Float[Array, " n"]:
    """Return the doubles that ``pack`` packed, as a writable array."""
    return np.frombuffer(content, "<f8").astype(float)


_SPARSE = b"\x01"
_HEAD = 5
"""Bytes at the begin of sparse probabilities: the mark, and the number of actions."""
_ENTRY = 12
"""Bytes of the index and the probability of an action that differs from most."""
_FEWEST_SPARSE = 100
"""Probabilities of fewer actions are always dense: there is little to save."""


def pack_probabilities(probabilities: Float[Array, " K"]) -> bytes:
    """Return the probabilities of actions: all, or those that differ if that halves the size.

    All of them are doubles, as ``pack`` writes them. Where a policy prefers a few actions, the
    others all have the median: 0, or what they have of the decisions that are drawn evenly. Sparse
    probabilities are a mark of one byte, the number of actions (32 bits), the median, the indices
    of the m actions that differ from it (32 bits each) and their m doubles: 13 + 12 m bytes, which
    is no multiple of 8, so that the length tells the two apart.
    """
    n = len(probabilities)
    if n < _FEWEST_SPARSE:
        return pack(probabilities)
    common = np.partition(probabilities, n // 2)[n // 2]
    places = np.flatnonzero(probabilities != common)
    if _HEAD + WORD + _ENTRY * len(places) > WORD * n // 2:
        return pack(probabilities)
    head = _SPARSE + np.array([n], "<u4").tobytes() + pack(common)
    return head + places.astype("<u4").tobytes() + pack(probabilities[places])


def n_probabilities(length: int, head: bytes) -> int:
    """Return the number of packed probabilities by their length and their first five bytes."""
    return length // WORD if length % WORD == 0 else int.from_bytes(head[1:_HEAD], "little")


def unpack_probabilities(content: bytes) -> Float[Array, " K"]:
    """Return the probabilities that ``pack_probabilities`` packed."""
    if len(content) % WORD == 0:
        return unpack(content)
    start = _HEAD + WORD
    m = (len(content) - start) // _ENTRY
    [common] = unpack(content[_HEAD:start])
    found = np.full(n_probabilities(len(content), content[:_HEAD]), common)
    found[np.frombuffer(content, "<u4", m, start)] = np.frombuffer(content, "<f8", m, start + 4 * m)
    return found


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(records.Known).decode


class ActionSet(Struct, frozen=True):
    """A row of ``action_sets``: actions that were offered together."""

    n_actions: int
    n_features: int
    body: bytes
    ids: str | None
    """Ids of the actions, a JSON list; None if they have none."""
    known: str | None = None
    """What pooled effects were computed from, ``Known`` in JSON; None without such effects."""
    digest: bytes = b""
    """Digest of the whole set. Not read again."""
    number: int = 0

    @classmethod
    def of(
        cls,
        rows: Float[Array, "K d"],
        ids: Sequence[str] | None,
        known: records.Known | None = None,
    ) -> ActionSet:
        """Return the set of these rows, whose actions may have ids."""
        n_actions, n_features = rows.shape
        body, names = pack(rows), None if ids is None else json.dumps(list(ids))
        facts = None if known is None else _encode(known).decode()
        head = f"{n_actions} {n_features} ".encode()
        content = head + body + (names or "").encode() + (facts or "").encode()
        return cls(n_actions, n_features, body, names, facts, hashlib.sha256(content).digest())

    @property
    def rows(self) -> Float[Array, "K d"]:
        """Features of the actions."""
        return unpack(bytes(self.body)).reshape(self.n_actions, self.n_features)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Ids of the actions."""
        return None if self.ids is None else tuple(json.loads(self.ids))

    @property
    def facts(self) -> records.Known:
        """Facts of the person and scores of the actions."""
        return records.Known() if self.known is None else _decode(self.known)


# -- a table --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dialect:
    """What differs between databases in the definition of a table."""

    types: Mapping[type, str]
    number: str
    """Type of the column that numbers the rows of a table."""
    numbered: str = ""
    """Options of a table whose rows are numbered."""
    keyed: str = ""
    """Options of a table with another key."""
    checksum: str | None = None
    """Column for a checksum of a numbered row; None: the database has checksums of its own."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose columns are the fields of a record."""

    name: str
    record: type
    key: str | tuple[str, ...] = "seq"
    """The column that numbers the rows from 1, or the columns of another key."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """What else is said of a column when the table is created."""
    indices: tuple[str, ...] = ()
    derived: frozenset[str] = frozenset()
    """Fields of the record that are not in this table."""

    @cached_property
    def types(self) -> dict[str, tuple[type, bool]]:
        """Type of each column, and whether it may be null; without the number."""
        found = {}
        for name, hint in get_type_hints(self.record).items():
            kinds = get_args(hint) or (hint,)
            kind = next(each for each in kinds if each is not NoneType)
            if name != self.key and name not in self.derived:
                found[name] = (kind, NoneType in kinds)
        return found

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns but the number, in the order of the alphabet.

        Statements and checksums use this order: the order of the record's fields means nothing.
        """
        return tuple(sorted(self.types))

    @cached_property
    def values(self) -> Callable[[Any], Row]:
        """Function that returns the values of a record's columns."""
        return attrgetter(*self.columns)

    def create(self, dialect: Dialect) -> list[str]:
        """Return the statements that create the table and its indices."""
        numbered = isinstance(self.key, str)
        columns = [f"{self.key} {dialect.number}"] if numbered else []
        for name in self.columns:
            kind, nullable = self.types[name]
            null = "" if nullable else " NOT NULL"
            columns.append(f"{name} {dialect.types[kind]}{null} {self.rules.get(name, '')}".strip())
        if numbered and dialect.checksum is not None:
            columns.append(dialect.checksum)
        if not numbered:
            columns.append(f"PRIMARY KEY ({', '.join(self.key)})")
        options = dialect.numbered if numbered else dialect.keyed
        return [f"CREATE TABLE {self.name} ({', '.join(columns)}) {options}".strip(), *self.indices]

    def insert(self, *columns: str) -> str:
        """Return the statement that inserts a row of these columns, by default all of them."""
        columns = columns or self.columns
        places = ", ".join("?" * len(columns))
        return f"INSERT INTO {self.name} ({', '.join(columns)}) VALUES ({places})"

    def update(self, *columns: str) -> str:
        """Return the statement that sets columns of the row with a number."""
        setting = ", ".join(f"{name} = ?" for name in columns)
        return f"UPDATE {self.name} SET {setting} WHERE {self.key} = ?"

    @cached_property
    def delete(self) -> str:
        """Statement that deletes a row by all of its columns."""
        return f"DELETE FROM {self.name} WHERE {' AND '.join(f'{c} = ?' for c in self.columns)}"

    @cached_property
    def count(self) -> str:
        """Statement that inserts a row of counts, or adds its counts to those that are there."""
        changes = []
        for name in self.columns:
            if name in self.key:
                continue
            old, new = f"t.{name}", f"excluded.{name}"
            compared = {"first_at": "<", "last_at": ">"}.get(name)
            changes.append(
                f"{name} = {old} + {new}" if compared is None
                else f"{name} = CASE WHEN {new} {compared} {old} THEN {new} ELSE {old} END"
            )  # fmt: skip
        insert = self.insert().replace(f"INTO {self.name} ", f"INTO {self.name} AS t ")
        return f"{insert} ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {', '.join(changes)}"


META = Table("meta", records.MetaEntry, ("name",))
PRIORS = Table("priors", records.LoggedPrior, "version", {"digest": "UNIQUE"})
ACTIVATIONS = Table("activations", records.PriorActivation, rules={"version": "REFERENCES priors"})
TASKS = Table(
    "tasks", records.TaskEntry, "number", {"name": "UNIQUE"},
    (
        "CREATE INDEX tasks_by_activity ON tasks (last_at)",
        "CREATE INDEX tasks_by_kind ON tasks (version, latent, certainty)",
    ),
)  # fmt: skip
ACTION_SETS = Table("action_sets", ActionSet, "number", {"digest": "UNIQUE"})
DECISIONS = Table(
    "decisions", records.LoggedDecision,
    rules={
        "id": "UNIQUE", "task": "REFERENCES tasks", "version": "REFERENCES priors",
        "action_set": "REFERENCES action_sets", "propensity": "CHECK (propensity > 0)",
    },
    indices=(
        "CREATE INDEX decisions_by_task ON decisions (task, seq)",
        "CREATE UNIQUE INDEX decisions_by_key ON decisions (task, key) WHERE key IS NOT NULL",
        "CREATE INDEX decisions_by_slate ON decisions (slate) WHERE slate IS NOT NULL",
        "CREATE INDEX decisions_by_offer ON decisions (action_set) WHERE action_set IS NOT NULL",
    ),
    derived=frozenset({"activated_at"}),
)  # fmt: skip
_ONE_EACH = {"decision": "UNIQUE REFERENCES decisions"}
REWARDS = Table(
    "rewards", records.LoggedReward, rules=_ONE_EACH, derived=frozenset({"late_value"}),
)  # fmt: skip
LATE_REWARDS = Table(
    "late_rewards", records.LoggedReward, rules=_ONE_EACH,
    derived=frozenset({"late", "is_default", "late_value"}),
)  # fmt: skip
ACTIVATED = Table("activated", records.LoggedActivation, rules=_ONE_EACH)
METRICS = Table(
    "metrics", records.LoggedMetric, rules={"decision": "REFERENCES decisions"},
    indices=("CREATE UNIQUE INDEX metrics_by_decision ON metrics (decision, name)",),
)  # fmt: skip
# Its decision is no reference: a database would look for each deleted decision in the whole table.
OPEN_WINDOWS = Table("open_windows", records.OpenWindow, ("has_default", "due", "decision"))
ACTIVITY = Table("activity", records.Tally, ("start", "writer"))
COUNTS = Table("counts", records.SpanCount, ("span", "start", "arm", "version", "policy", "writer"))
ARCHIVED_COUNTS = Table("archived_counts", records.SpanCount, COUNTS.key)
BASES = Table("bases", records.TaskBase, rules={"task": "UNIQUE REFERENCES tasks"})
REMOVED = Table("removed", records.Removal, rules={"name": "UNIQUE"})

TABLES = (
    META, PRIORS, ACTIVATIONS, TASKS, ACTION_SETS, DECISIONS, REWARDS, LATE_REWARDS, ACTIVATED,
    METRICS, BASES, REMOVED, ARCHIVED_COUNTS, OPEN_WINDOWS, ACTIVITY, COUNTS,
)  # fmt: skip
"""Each table after those to which it refers. The last three are derived from the log and from what
archived rows left: ``bases`` and ``archived_counts``."""


# -- reading records ------------------------------------------------------------------------------

Record = TypeVar("Record")


@dataclass(frozen=True)
class Query(Generic[Record]):
    """A statement that reads records, up to its condition."""

    record: type[Record]
    expressions: Mapping[str, str]
    """What is read for each field; others keep their defaults."""
    source: str
    """Tables, after ``FROM``."""

    @cached_property
    def sql(self) -> str:
        """The statement."""
        return f"SELECT {', '.join(self.expressions.values())} FROM {self.source}"

    def read(self, row: Row) -> Record:
        """Return the record of a row."""
        return self.record(**dict(zip(self.expressions, row, strict=True)))


def _all(table: Table, alias: str, *left_out: str) -> dict[str, str]:
    """Return the column of each field of the record, by name; also the number, if it is a field."""
    names = [name for name in get_type_hints(table.record) if name not in table.derived]
    return {name: f"{alias}.{name}" for name in names if name not in left_out}


TASK = Query(records.TaskEntry, _all(TASKS, "t"), "tasks t")
DECISION = Query(
    records.LoggedDecision,
    {
        **_all(DECISIONS, "d", "probabilities", "money"),
        "activated_at": "a.at",
        "due": "COALESCE(a.due, d.due)",
        "default_reward": "COALESCE(a.default_reward, d.default_reward)",
    },
    "decisions d LEFT JOIN activated a ON a.decision = d.seq",
)
DECISION_OF_TASK = Query(
    records.KeyedDecision,
    {**DECISION.expressions, "task_name": "t.name"},
    f"{DECISION.source} JOIN tasks t ON t.number = d.task",
)
BASE = Query(records.TaskBase, _all(BASES, "b"), "bases b")
REMOVAL = Query(records.Removal, _all(REMOVED, "r"), "removed r")
OFFERED = Query(ActionSet, _all(ACTION_SETS, "s", "digest"), "action_sets s")
METRIC = Query(records.LoggedMetric, _all(METRICS, "m"), "metrics m")
REWARD = Query(
    records.LoggedReward, {**_all(REWARDS, "r"), "late_value": "l.value"},
    "rewards r LEFT JOIN late_rewards l ON l.decision = r.decision",
)  # fmt: skip
