"""Actions that a request offers: rows of features, or actions with ids and named features."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixts import _checks
from mixts.errors import ActionError, MaskError
from mixts.prior import MixturePrior
from mixts.service.records import Offered, checked_name

Ids = tuple[str, ...]
"""Ids of the actions that were offered, in their order."""

MOST_NAMED = 10
"""Actions that an error message names."""

_EXPECTED = "an action must be {'id': ..., 'features': {...}} or a row of numbers"


def offered_actions(actions: Any, prior: MixturePrior) -> tuple[Any, Ids | None]:
    """Return what a request offers as rows of features, and the ids of the actions.

    Rows stay as they are and have no ids; the family checks them.
    """
    if not has_names(actions):
        return actions, None
    items = [_offered(item, k) for k, item in enumerate(actions)]
    features = [item.features for item in items]
    described = [isinstance(one, Mapping) for one in features]
    if any(described) and not all(described):
        raise ActionError(
            "features must be described by names in all actions or in none: action "
            f"{described.index(not described[0])} differs from action 0"
        )
    ids = [item.id for item in items if item.id is not None]
    if not ids:
        return prior.action_rows(features), None
    if len(ids) < len(items):
        missing = next(k for k, item in enumerate(items) if item.id is None)
        raise ActionError(f"all actions need an id, or none: action {missing} has none")
    if len(set(ids)) < len(ids):
        repeated = next(name for name, n in Counter(ids).items() if n > 1)
        raise ActionError(f"ids of actions must differ, got {repeated!r} twice")
    return prior.action_rows(features), tuple(ids)


def has_names(actions: Any) -> bool:
    """Return whether actions are objects with ids or features, in place of rows of numbers."""
    if isinstance(actions, np.ndarray) or not isinstance(actions, Sequence):
        return False
    # Look at the types first: asking whether each of 10,000 rows is a mapping takes long.
    kinds = set(map(type, actions))
    return any(issubclass(kind, (Mapping, Offered)) for kind in kinds)


def _offered(item: Any, k: int) -> Offered:
    if isinstance(item, Mapping):
        if "features" not in item or not item.keys() <= {"id", "features"}:
            raise ActionError(f"{_EXPECTED}, got the fields {sorted(map(str, item))} (action {k})")
        item = Offered(item["features"], item.get("id"))
    if not isinstance(item, Offered):
        raise ActionError(f"{_EXPECTED} as the others are, got {item!r} (action {k})")
    if item.id is not None:
        checked_name(item.id, f"id of action {k}")
    return item


def named_mask(mask: Any, ids: Ids | None) -> Any:
    """Return a mask that lists ids as true and false for each action; others stay as they are."""
    if not is_named(mask):
        return mask
    if ids is None:
        raise MaskError(f"mask lists ids of actions, but the actions have none: got {mask[0]!r}")
    known = set(ids)
    unknown = [name for name in mask if name not in known]
    if unknown:
        listed = ", ".join(repr(name) for name in ids[:MOST_NAMED])
        more = ", ..." * (len(ids) > MOST_NAMED)
        raise MaskError(
            f"mask names {unknown[0]!r}, which is not among the actions: {listed}{more}"
        )
    return np.isin(ids, list(mask))


def is_named(mask: Any) -> bool:
    """Return whether a mask lists ids."""
    return isinstance(mask, Sequence) and bool(mask) and isinstance(mask[0], str)


def names_digest(actions: Any, mask: Any) -> bytes:
    """Return the named part of a request as bytes that a retry repeats; empty for rows."""
    offered = [_canonical(item) for item in actions] if has_names(actions) else None
    listed = list(mask) if is_named(mask) else None
    if offered is None and listed is None:
        return b""
    return json.dumps([offered, listed], sort_keys=True, default=repr).encode()


def _canonical(item: Any) -> Any:
    """Return an action in the form in which it comes over the wire: numbers are floats."""
    if isinstance(item, Offered):
        item = {"id": item.id, "features": item.features}
    if isinstance(item, Mapping):
        found = {str(name): _canonical(value) for name, value in item.items()}
        return {name: value for name, value in found.items() if name != "id" or value is not None}
    if isinstance(item, (list, tuple, np.ndarray)):
        return [_canonical(value) for value in item]
    if isinstance(item, (int, float, np.integer, np.floating)) and not isinstance(item, bool):
        return float(item)
    return bool(item) if isinstance(item, np.bool_) else item


def plain_actions(actions: Any) -> list[Any]:
    """Return offered actions as JSON has them, for a client; the service checks the names."""
    found = []
    for k, item in enumerate(actions):
        one = _offered(item, k)
        if isinstance(one.features, Mapping):
            features: Any = {str(name): _value(value) for name, value in one.features.items()}
        else:
            expected = f"features of action {k} must be numbers, or described by names"
            features = _checks.numbers(one.features, expected, ActionError).tolist()
        found.append(Offered(features, one.id))
    return found


def _value(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not np.isfinite(plain):
        raise ActionError(f"features must be finite numbers or text, got {plain}")
    return str(plain) if isinstance(plain, str) else plain
