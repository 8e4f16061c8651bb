"""Export of decisions with their propensities to a file, for learning and off-policy evaluation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import mixts
from mixts import MixturePrior
from mixts.errors import MissingExtraError, ParameterError, StoreError
from mixts.extend import Family, files
from mixts.features import NumberFeature, name_of
from mixts.logs import decisions
from mixts_serve.store import tables
from mixts_serve.store.store import DecisionStore

_PAGE_ROWS = 20_000
_PAGE_BYTES = 32 * 2**20
"""Largest page, in decisions and in bytes of probabilities and features. A page is a row group of
a Parquet file, and the only part of the log that is in memory."""

_SECOND = 1_000_000
_ALWAYS = (0, 2**62)

_LAST = "SELECT COALESCE(MAX(seq), 0) FROM decisions"
_SIZES = (
    "SELECT seq, LENGTH(probabilities), SUBSTR(probabilities, 1, 5) FROM decisions "
    "WHERE seq > ? AND seq <= ? AND at >= ? AND at < ? ORDER BY seq LIMIT ?"
)
_READ = {
    "id": "d.id", "task": "t.name", "timestamp": "d.at", "action": "d.action",
    "action_set": "d.action_set", "money": "d.money", "probabilities": "d.probabilities",
    "reward": "r.value", "rewarded_at": "r.at", "late": "r.late", "pscore": "d.propensity",
    "weights": "d.weights", "prior_version": "d.version", "policy": "d.policy",
    "reward_is_default": "r.is_default", "late_reward": "l.value", "late_rewarded_at": "l.at",
    "deferred": "d.deferred", "activated_at": "a.at", "slate": "d.slate", "position": "d.position",
    "side": "d.side", "seq": "d.seq",
}  # fmt: skip
"""What is read for each decision, by the names of the columns of the file where it has them."""
_ACTION_SET = list(_READ).index("action_set")
# Outer joins: the database then reads decisions in order and sorts nothing.
_PAGE = (
    f"SELECT {', '.join(_READ.values())} FROM decisions d "
    "LEFT JOIN tasks t ON t.number = d.task LEFT JOIN rewards r ON r.decision = d.seq "
    "LEFT JOIN late_rewards l ON l.decision = d.seq LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE d.seq >= ? AND d.seq <= ? AND d.at >= ? AND d.at < ? ORDER BY d.seq"
)
_OFFERED = " WHERE s.number IN (SELECT action_set FROM decisions WHERE seq >= ? AND seq <= ?)"


@dataclass(frozen=True, slots=True)
class Exported:
    """Counts of an export."""

    n_rows: int
    """Number of decisions."""
    n_rewards: int
    """Number of decisions with a reward."""


def export(
    store: DecisionStore,
    path: str | os.PathLike[str],
    *,
    since: float | None = None,
    until: float | None = None,
) -> Exported:
    """Write decisions to a Parquet or CSV file, which :func:`mixts.fit_logs` reads.

    Rows are in the order of the log and end with the last decision before the export began. A
    reward is included if it came before its page was read. The service can go on meanwhile.

    Parameters
    ----------
    store : DecisionStore
    path : str or path
        The file to write, whose name says the format: ``.parquet``, ``.csv`` or ``.csv.gz``; an
        existing file is replaced. CSV holds lists, such as the probabilities of all actions, as
        JSON text.
    since, until : float, optional
        Write only decisions made from ``since`` up to ``until``, in seconds since 1970.

    Returns
    -------
    Exported
        The number of decisions, and of those with a reward.
    """
    check_pyarrow()
    return _write(store, path, _Part(0, store.backend.value(_LAST), since, until))


def export_decisions(
    store: DecisionStore, path: str | os.PathLike[str], chosen: Mapping[bytes, int]
) -> Exported:
    """Write some decisions, their numbers by their ids, as ``export`` does."""
    check_pyarrow()
    first, last = min(chosen.values()), max(chosen.values())
    return _write(store, path, _Part(first - 1, last, None, None, chosen))


class _Part(NamedTuple):
    """A part of the log."""

    after: int
    """The decisions have larger numbers."""
    end: int
    """The largest number."""
    since: float | None
    until: float | None
    ids: Mapping[bytes, int] | None = None
    """Ids of the decisions; None: all."""


def _write(store: DecisionStore, path: str | os.PathLike[str], part: _Part) -> Exported:
    chosen = decisions.format_of(path)
    span = _span(part.since, part.until)
    priors = _priors(store)  # after the query: so no decision's prior is missing
    family = priors[max(priors)].family
    has_features = family.n_features is not None
    raw = _raw_columns(priors)
    columns = decisions.schema(has_features, _about(store, priors, part), raw)
    n_rows = n_rewards = 0
    compressed = os.fspath(path).lower().endswith(".gz")
    with (
        files.replacing(path) as draft,
        decisions.writing(draft, columns, chosen, compressed=compressed) as append,
    ):
        for first, last in _pages(store, part, span, _row_factor(family)):
            rows = store.backend.query(_PAGE, (first, last, *span))
            if part.ids is not None:
                rows = [row for row in rows if bytes(row[0]) in part.ids]
            offers = {}
            if has_features:
                found = store.backend.read(tables.OFFERED, (first, last), _OFFERED)
                offers = {each.number: each for each in found}
                # A decision that was erased in between may have left no offer.
                rows = [row for row in rows if row[_ACTION_SET] in offers]
            if not rows:
                continue
            metrics = _metrics(store, first, last)
            table = _table(columns, rows, offers, metrics, priors)
            append(table)
            n_rows += table.num_rows
            n_rewards += table.num_rows - table["reward"].null_count
    return Exported(n_rows, n_rewards)


# -- reading --------------------------------------------------------------------------------------


def _pages(
    store: DecisionStore, part: _Part, span: tuple[int, int], row_factor: int
) -> Iterator[tuple[int, int]]:
    """Yield the first and the last ``seq`` of each page."""
    done = part.after
    while sizes := store.backend.query(_SIZES, (done, part.end, *span, _PAGE_ROWS)):
        n_bytes = [
            tables.WORD * tables.n_probabilities(length, bytes(head)) for _, length, head in sizes
        ]
        total = np.cumsum(n_bytes) * row_factor
        n = max(1, int(np.searchsorted(total, _PAGE_BYTES, side="right")))
        done = int(sizes[n - 1][0])
        yield int(sizes[0][0]), done


def _row_factor(family: Family) -> int:
    """Return the size of a row relative to that of its probabilities."""
    return 1 + (family.n_features or 0)


def _priors(store: DecisionStore) -> dict[int, MixturePrior]:
    """Return every version of the prior: it names arms and components."""
    priors = {}
    for row in sorted(store.priors(), key=lambda row: (row.active, row.version)):
        body = store.prior_body(row.version)
        assert body is not None
        priors[row.version] = MixturePrior.from_bytes(body, f"version {row.version} of the prior")
    if not priors:
        raise StoreError(f"{store.name} has no prior yet, and so no decisions to export")
    return priors


# -- writing --------------------------------------------------------------------------------------


def _table(
    columns: Any,
    rows: list[tables.Row],
    sets: Mapping[int, tables.ActionSet],
    metrics: Mapping[int, str],
    priors: Mapping[int, MixturePrior],
) -> Any:
    import pyarrow

    read = dict(zip(_READ, zip(*rows, strict=True), strict=True))
    versions, actions, offers = (read[n] for n in ("prior_version", "action", "action_set"))
    names = _present_names(priors)
    probabilities = [
        tables.unpack_probabilities(bytes(content)) for content in read["probabilities"]
    ]
    n_actions = [len(each) for each in probabilities]
    arrays: dict[str, Any] = read | {
        name: [bool(flag) for flag in read[name]]
        for name in ("late", "reward_is_default", "deferred")
    }
    arrays |= {
        "id": [bytes(id).hex() for id in read["id"]],
        "arm": [
            None if (known := names[version]) is None else known[action]
            for version, action in zip(versions, actions, strict=True)
        ],
        "n_actions": n_actions,
        "action_dist": _lists(n_actions, np.concatenate(probabilities)),
        "weights": _vectors(read["weights"]),
        "slate": [None if slate is None else bytes(slate).hex() for slate in read["slate"]],
        "values": [_half(each, 0) for each in read["money"]],
        "costs": [_half(each, 1) for each in read["money"]],
        "side": [side or None for side in read["side"]],
        "metrics": [metrics.get(seq) for seq in read["seq"]],
    }
    if decisions.FEATURES in columns.names:
        arrays[decisions.FEATURES] = _matrices([sets[number] for number in offers])
        names_of = {number: offer.names for number, offer in sets.items()}
        arrays["arm"] = [
            None if (known := names_of[number]) is None else known[action]
            for number, action in zip(offers, actions, strict=True)
        ]
        chosen = [(sets[number], k) for number, k in zip(offers, actions, strict=True)]
        arrays |= _raw_values(priors, versions, chosen)
    return pyarrow.table(
        [
            column if isinstance(column, pyarrow.Array) else pyarrow.array(column, field.type)
            for field in columns
            for column in [arrays[field.name]]
        ],
        schema=columns,
    )


def _metrics(store: DecisionStore, first: int, last: int) -> dict[int, str]:
    """Return the metrics of decisions as JSON, by ``seq``."""
    found: dict[int, dict[str, float]] = {}
    where = " WHERE m.decision >= ? AND m.decision <= ? ORDER BY m.decision, m.name"
    for metric in store.backend.read(tables.METRIC, (first, last), where):
        found.setdefault(metric.decision, {})[metric.name] = metric.value
    return {seq: json.dumps(values) for seq, values in found.items()}


def _half(money: bytes | None, which: int) -> list[float] | None:
    """Return the values (0) or the costs (1) of all actions."""
    return None if money is None else tables.unpack(money).reshape(2, -1)[which].tolist()


def _vectors(contents: tuple[bytes, ...]) -> Any:
    """Return packed numbers as a column of lists."""
    return _lists(
        [len(content) // tables.WORD for content in contents], tables.unpack(b"".join(contents))
    )


def _matrices(sets: list[tables.ActionSet]) -> Any:
    """Return packed feature rows as a column of lists of lists."""
    sizes = [actions.n_actions for actions in sets]
    values = tables.unpack(b"".join(actions.body for actions in sets))
    rows = _lists(np.repeat([actions.n_features for actions in sets], sizes), values)
    return _lists(sizes, rows)


def _raw_columns(priors: Mapping[int, MixturePrior]) -> dict[str, type]:
    """Return features, facts and scores that some prior names, and their type: str or float."""
    found: dict[str, type] = {}
    for prior in priors.values():
        for column in () if prior.features is None else prior.features.raw_columns:
            kind = float if isinstance(column, NumberFeature) else str
            found[column.name] = kind if found.get(column.name, kind) is kind else str
    return found


def _raw_values(
    priors: Mapping[int, MixturePrior],
    versions: Sequence[int],
    chosen: Sequence[tuple[tables.ActionSet, int]],
) -> dict[str, list[float | str | None]]:
    """Return the value of each named feature of the chosen actions, as the prior then read it.

    Facts of the person and scores are as they came.
    """
    kinds = _raw_columns(priors)
    rows: dict[tuple[int, bytes], dict[str, float | str | None]] = {}
    found: dict[str, list[float | str | None]] = {
        decisions.feature_column(name): [] for name in kinds
    }
    for version, (actions, action) in zip(versions, chosen, strict=True):
        start = action * actions.n_features * tables.WORD
        body = actions.body[start : start + actions.n_features * tables.WORD]
        features = priors[version].features
        if (version, body) not in rows:
            rows[version, body] = {} if features is None else features.values(tables.unpack(body))
        values = rows[version, body]
        if actions.known is not None:
            known = actions.facts
            scores = {name: each[action] for name, each in known.scores.items()}
            values = {**values, **known.context, **scores}
        for name, kind in kinds.items():
            value = values.get(name)
            text = None if value is None else name_of(value) if kind is str else float(value)
            found[decisions.feature_column(name)].append(text)
    return found


def _lists(lengths: Any, values: Any) -> Any:
    import pyarrow

    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pyarrow.ListArray.from_arrays(offsets, values)


def _present_names(
    priors: Mapping[int, MixturePrior],
) -> dict[int, tuple[str, ...] | None]:
    """Return the names of each version's arms: the present names, because arms may be renamed.

    The active version comes last.
    """
    latest: tuple[str, ...] = ()
    names: dict[int, tuple[str, ...] | None] = {}
    for version in reversed(list(priors)):
        own = priors[version].arm_names
        latest += () if own is None else own[len(latest) :]
        names[version] = None if own is None else latest[: len(own)]
    return names


def _about(store: DecisionStore, priors: Mapping[int, MixturePrior], part: _Part) -> dict[str, Any]:
    """Return the metadata of the file."""
    return {
        "mixts": mixts.__version__,
        "store": store.name,
        "family": priors[max(priors)].family.kind,
        "priors": {
            version: {
                "names": prior.names,
                "arm_names": prior.arm_names,
                "features": None if prior.features is None else prior.features.header(),
            }
            for version, prior in priors.items()
        },
        "exported_at": time.time(),
        "since": part.since,
        "until": part.until,
    }


def _span(since: float | None, until: float | None) -> tuple[int, int]:
    """Return both times in microseconds."""
    for name, moment in (("since", since), ("until", until)):
        is_number = isinstance(moment, (int, float)) and not isinstance(moment, bool)
        if moment is not None and not (is_number and abs(moment) < 1e11):
            raise ParameterError(f"{name} must be seconds since 1970, got {moment!r}")
    start = _ALWAYS[0] if since is None else round(since * _SECOND)
    end = _ALWAYS[1] if until is None else round(until * _SECOND)
    return start, end


def check_pyarrow() -> None:
    """Raise ``MissingExtraError`` if pyarrow, which writes the files, is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "exporting decisions needs pyarrow: pip install 'mixts[table]'"
        ) from error
