"""Vowpal Wabbit: exported decisions as lines of ``dsjson``, the input of ``--cb_adf``.

Reads the Parquet file that ``mixts store export`` writes. Needs the extra ``table``; Vowpal Wabbit
itself need not be installed::

    vw --cb_adf --dsjson -d decisions.dsjson -q ba
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts._files import replacing
from mixts.logs.decisions import (
    FEATURES,
    DecisionLog,
    Source,
    check_missing,
    rewards_of,
)

__all__ = [
    "Written",
    "dsjson_lines",
    "write_dsjson",
]

# Vowpal Wabbit skips an unknown key only if no space follows it.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_PLAIN = ("id", "task", "action", "pscore", "prior_version")
_COLUMNS = (*_PLAIN, "timestamp", "reward", "action_dist", "weights")


@dataclass(frozen=True, slots=True)
class Written:
    """Counts of a ``dsjson`` file."""

    n_events: int
    n_without_reward: int
    """Number of decisions that were left out because they have no reward."""


def write_dsjson(
    path_or_table: Source, out: str | os.PathLike[str], *, missing_reward: float | None = None
) -> Written:
    """Write decisions to a ``dsjson`` file.

    Parameters
    ----------
    path_or_table : str, path or table
        An exported file, or a table of pandas, polars or pyarrow that was read from it.
    out : str or path
        The file to write; an existing file is replaced.
    missing_reward : float, optional
        The reward of decisions without one; they are left out, unless given.

    Returns
    -------
    Written
        The number of events, and of decisions that were left out.
    """
    n_events = 0
    with replacing(out) as part, part.open("w", encoding="ascii", newline="\n") as stream:
        for line in dsjson_lines(path_or_table, missing_reward=missing_reward):
            stream.write(line + "\n")
            n_events += 1
    return Written(n_events, DecisionLog(path_or_table).n_rows - n_events)


def dsjson_lines(path_or_table: Source, *, missing_reward: float | None = None) -> Iterator[str]:
    """Yield a line of ``dsjson`` for each decision that has a reward.

    The cost is the negative reward. The context (namespace ``belief``) holds the components'
    weights, named after their version of the prior, and (namespace ``person``) the facts that were
    known of the person. An action (namespace ``action``) is the name or
    else the number of its arm, or its features; its tag is its number in the log. Actions of
    probability 0 are left out: they could not have been drawn. The chosen action is first in ``a``
    and ``p``, as Vowpal Wabbit expects.

    Parameters
    ----------
    path_or_table : str, path or table
        An exported file, or a table of pandas, polars or pyarrow that was read from it.
    missing_reward : float, optional
        The reward of decisions without one; they are left out, unless given.

    Yields
    ------
    str
    """
    log = DecisionLog(path_or_table)
    missing = check_missing(missing_reward)
    facts = log.facts
    columns = [*_COLUMNS, *([FEATURES] if log.has_features else []), *facts.values()]
    for batch in log.batches(columns):
        rewards, known = rewards_of(batch, missing)
        batch = batch.filter(known)
        for row, reward in zip(_rows(batch, facts), rewards[known].tolist(), strict=True):
            event = _event(row, reward, log.arm_names(row["prior_version"]))
            yield _encode(event)


def _rows(batch: Any, facts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as plain values, and the facts that are known in each."""
    columns = {name: batch.column(name).to_pylist() for name in _PLAIN}
    people: list[dict[str, Any]] = [{} for _ in columns["id"]]
    for name, column in facts.items():
        for person, value in zip(people, batch.column(column).to_pylist(), strict=True):
            person |= {} if value is None else {name: value}
    columns["person"] = people
    moments = np.asarray(batch.column("timestamp").cast("int64")).astype("datetime64[us]")
    columns["timestamp"] = np.datetime_as_string(moments, timezone="UTC").tolist()
    for name in ("action_dist", "weights", *([FEATURES] if FEATURES in batch.schema.names else [])):
        columns[name] = batch.column(name).to_pylist()
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _event(row: dict[str, Any], reward: float, arm_names: Sequence[str] | None) -> dict[str, Any]:
    probabilities = row["action_dist"]
    offered = [action for action, p in enumerate(probabilities) if p > 0]
    chosen = offered.index(row["action"])
    order = [chosen, *(i for i in range(len(offered)) if i != chosen)]
    cost = 0.0 - reward  # never the negative zero
    kind = f"v{row['prior_version']}s"
    return {
        "_label_cost": cost,
        "_label_probability": row["pscore"],
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
        "_original_label_cost": cost,
        "Version": "1",
        "EventId": row["id"],
        "Timestamp": row["timestamp"],
        "Task": row["task"],
        "a": [i + 1 for i in order],
        "p": [probabilities[offered[i]] for i in order],
        "c": {
            "belief": {f"{kind}{s}": weight for s, weight in enumerate(row["weights"])},
            **({"person": row["person"]} if row["person"] else {}),
            "_multi": [{"_tag": str(k), "action": _action(row, k, arm_names)} for k in offered],
        },
    }


def _action(row: dict[str, Any], action: int, arm_names: Sequence[str] | None) -> Any:
    if FEATURES in row:
        return row[FEATURES][action]
    return {"arm": str(action) if arm_names is None else arm_names[action]}
