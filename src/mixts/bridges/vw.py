"""Vowpal Wabbit: exported decisions as lines of its ``dsjson``, which ``--cb_adf`` learns from.

Reads the Parquet file that ``mixts store export`` writes. Needs the extra ``table``, and not Vowpal
Wabbit itself::

    vw --cb_adf --dsjson -d decisions.dsjson -q ba
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
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

# Vowpal Wabbit skips a key that it does not know only if no space follows.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_PLAIN = ("id", "task", "action", "pscore", "prior_version")
_COLUMNS = (*_PLAIN, "timestamp", "reward", "action_dist", "weights")


@dataclass(frozen=True, slots=True)
class Written:
    """What is in a file."""

    n_events: int
    n_without_reward: int
    """Decisions that were left out, because no reward came."""


def write_dsjson(
    path_or_table: Source, out: str | os.PathLike[str], *, missing_reward: float | None = None
) -> Written:
    """Write decisions that have a reward as ``dsjson``; see :func:`dsjson_lines`."""
    n_events = 0
    with replacing(out) as part, part.open("w", encoding="ascii", newline="\n") as stream:
        for line in dsjson_lines(path_or_table, missing_reward=missing_reward):
            stream.write(line + "\n")
            n_events += 1
    return Written(n_events, DecisionLog(path_or_table).n_rows - n_events)


def dsjson_lines(path_or_table: Source, *, missing_reward: float | None = None) -> Iterator[str]:
    """A line for each decision that has a reward; with ``missing_reward``, for all.

    Costs are rewards with the other sign. Context (namespace ``belief``) are the latent weights,
    under the names of their version of the prior; an action (namespace ``action``) is the name of
    its arm or else its number, or its features, and its tag is its number in our log. Actions of
    probability 0 are left out: they could not have been drawn, masked or not, and no log can say
    anything of them. The chosen one is first in ``a`` and ``p``, as Vowpal Wabbit has it.
    """
    log = DecisionLog(path_or_table)
    missing = check_missing(missing_reward)
    columns = [*_COLUMNS, *([FEATURES] if log.has_features else [])]
    for batch in log.batches(columns):
        rewards, known = rewards_of(batch, missing)
        batch = batch.filter(known)
        for row, reward in zip(_rows(batch), rewards[known].tolist(), strict=True):
            event = _event(row, reward, log.arm_names(row["prior_version"]))
            yield _encode(event)


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of a batch as plain values."""
    columns = {name: batch.column(name).to_pylist() for name in _PLAIN}
    moments = np.asarray(batch.column("timestamp").cast("int64")).astype("datetime64[us]")
    columns["timestamp"] = np.datetime_as_string(moments, timezone="UTC").tolist()
    for name in ("action_dist", "weights", *([FEATURES] if FEATURES in batch.schema.names else [])):
        columns[name] = batch.column(name).to_pylist()
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _event(row: dict[str, Any], reward: float, arm_names: Sequence[str] | None) -> dict[str, Any]:
    law = row["action_dist"]
    offered = [action for action, probability in enumerate(law) if probability > 0]
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
        "p": [law[offered[i]] for i in order],
        "c": {
            "belief": {f"{kind}{s}": weight for s, weight in enumerate(row["weights"])},
            "_multi": [{"_tag": str(k), "action": _action(row, k, arm_names)} for k in offered],
        },
    }


def _action(row: dict[str, Any], action: int, arm_names: Sequence[str] | None) -> Any:
    if FEATURES in row:
        return row[FEATURES][action]
    return {"arm": str(action) if arm_names is None else arm_names[action]}
