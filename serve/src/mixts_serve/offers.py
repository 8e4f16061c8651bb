"""What a request offers, checked at the door: an ``Offer`` of the library, and the actions' ids."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.json import Encoder
from msgspec.structs import replace

from mixts import MixturePrior
from mixts.agents import Offer
from mixts.errors import ActionError, MaskError, ParameterError
from mixts.extend import Array, Float, checks
from mixts.features import Features
from mixts_serve.records import MAX_NAME, Decide, Known, MadeDecision, Offered, checked_name
from mixts_serve.rules import Policy

Ids = tuple[str, ...]
"""Ids of the actions that were offered, in their order."""

MOST_NAMED = 10
"""Actions that an error message names."""

_EXPECTED = "an action must be {'id': ..., 'features': {...}} or a row of numbers"
_FIELDS = set(Offered.__struct_fields__)


class Asked(NamedTuple):
    """A checked request for a decision."""

    request: Decide
    offer: Offer
    ids: Ids | None
    """Ids of the actions; None for arms, and for actions without ids."""
    known: Known | None = None
    """Facts of the person and scores of the actions; None if the prior has no effects of them."""


def checked_request(request: Decide, prior: MixturePrior, policy: Policy) -> Asked:
    """Return what a request offers, or raise an error."""
    if not isinstance(request.defer, bool):
        raise ParameterError(f"defer must be True or False, got {request.defer!r}")
    rows, ids, known = offered_actions(request.actions, prior, request.context)
    names = prior.arm_names if ids is None else ids
    mask = named_mask(request.mask, names)
    offer = Offer.of(prior, np.zeros(1, np.int64), rows, mask)
    if offer.actions is not None:
        if offer.actions.ndim != 2:
            raise ActionError(f"actions must be one set (K, d), got shape {offer.actions.shape}")
        if prior.features is not None:
            prior.features.check_ranges(offer.actions)
        prior.family.check_learnable(offer.actions)
    offer = offer.with_money(prior, request.values, request.costs, names)
    offer = offer.with_top(prior, request.top)
    limited = offer._replace(explore=policy.explore, new_share=policy.new_item_share)
    return Asked(request, limited, ids, known)


# -- decisions that were made elsewhere -----------------------------------------------------------

_ANY = Policy("fallback", explore=0.0)
"""A policy without limits: whatever was done must be logged."""

MOST_AHEAD = 60.0
"""Seconds by which a client's clock may be ahead."""

MOST_BEHIND = 30 * 86_400.0
"""Oldest decision that is logged, in seconds: an older one was timed by a clock that is not set."""


def checked_made(request: MadeDecision, prior: MixturePrior, now: int) -> Asked:
    """Return what was offered; raise an error for a decision that cannot be logged."""
    if request.defer or request.top is not None:
        raise ParameterError("a decision that was made elsewhere has one action: no defer, no top")
    seconds = (made_id(request.id)[1] - now) / 1e6
    if not -MOST_BEHIND <= seconds <= MOST_AHEAD:
        side = "ahead of" if seconds > 0 else "behind"
        raise ParameterError(
            f"the decision's time is {abs(seconds):.0f} seconds {side} the service's clock: set "
            "the client's clock"
        )
    # Arms may have been retired or renamed since: the mask is not needed any more.
    bare = replace(request, mask=None, values=None, costs=None)
    asked = checked_request(bare, prior, _ANY)._replace(request=request)
    made_choice(asked, prior)
    names, n = prior.arm_names if asked.ids is None else asked.ids, asked.offer.n_actions
    values, costs = (
        _filled(given, default, names, n)
        for given, default in ((request.values, 1.0), (request.costs, 0.0))
    )
    return asked._replace(offer=asked.offer.with_money(prior, values, costs))


def _filled(given: Any, default: float, names: Sequence[str] | None, n: int) -> Any:
    """Return values or costs of all actions: some were masked, or added or renamed since."""
    if given is None or (isinstance(given, Mapping) and names is None):
        return given
    if isinstance(given, Mapping):
        return [given.get(name, default) for name in names or ()]
    return [*given, *[default] * (n - len(given))]


def made_id(text: str) -> tuple[bytes, int]:
    """Return the id of a decision that was made elsewhere, and its time in microseconds."""
    try:
        id = bytes.fromhex(text) if len(text) == 32 else b""
    except ValueError:
        id = b""
    if id.hex() != text:
        raise ParameterError(f"id must be 32 hexadecimal digits, the first 12 a time, got {text!r}")
    return id, int.from_bytes(id[:6], "big") * 1000


def made_choice(asked: Asked, prior: MixturePrior) -> tuple[int, Float[Array, " K"]]:
    """Return the action that was taken elsewhere, and the probabilities of all actions."""
    request, n = asked.request, asked.offer.n_actions
    assert isinstance(request, MadeDecision)
    action, names = request.action, prior.arm_names if asked.ids is None else asked.ids
    if isinstance(action, str):
        if action not in (names or ()):
            raise ActionError(f"action {action!r} is not among the actions")
        assert names is not None
        action = names.index(action)
    if not 0 <= action < n:
        raise ActionError(f"action must be from 0 to {n - 1}, got {action}")
    law = np.zeros(n)
    if request.probabilities is None:
        law[action] = 1.0
        return action, law
    given = checks.numbers(request.probabilities, "probabilities must be numbers", ParameterError)
    # Arms that were added since had no probability.
    is_right = (
        given.ndim == 1
        and action < len(given) <= n
        and (asked.offer.actions is None or len(given) == n)
    )
    if not (is_right and (given >= 0).all() and abs(given.sum() - 1) < 1e-6 and given[action] > 0):
        raise ParameterError(
            f"probabilities must be numbers of the {n} actions that are not negative and sum to 1, "
            "and that of the action above 0"
        )
    law[: len(given)] = given
    return action, law


# -- ids, named features, facts and scores --------------------------------------------------------


def offered_actions(
    actions: Any, prior: MixturePrior, context: Any = None
) -> tuple[Any, Ids | None, Known | None]:
    """Return what a request offers as rows of features, the ids of the actions, and what is known.

    Rows stay as they are and have no ids; the family checks them.
    """
    if not isinstance(context, Mapping | None):
        raise ActionError(
            f"context must be facts of the person by name, such as {{'age': 26}}, got {context!r}"
        )
    space: Any = prior.features
    pools = space is not None and space.pooled is not None
    if not has_names(actions):
        if pools and not isinstance(actions, Sequence | np.ndarray | None):
            raise ActionError(
                "with effects of facts or scores, actions are a list of "
                f"{{'features': {space.example()}}}, or rows of numbers, got "
                f"{type(actions).__name__}"
            )
        return prior.action_rows(actions, context), None, None
    items = [_offered(item, k) for k, item in enumerate(actions)]
    features: Any = [item.features for item in items]
    described = [isinstance(one, Mapping) for one in features]
    if any(described) and not all(described):
        raise ActionError(
            "features must be described by names in all actions or in none: action "
            f"{described.index(not described[0])} differs from action 0"
        )
    ids = _ids(items)
    if any(item.score is not None for item in items):
        features = _with_scores(features, [item.score for item in items], prior)
    rows = prior.action_rows(features, context)
    if not pools or not all(described):
        return rows, ids, None
    return rows, ids, known_of(features, context or {}, space)


def _ids(items: Sequence[Offered]) -> Ids | None:
    """Return the ids of actions, which all have one, or none."""
    ids = [item.id for item in items if item.id is not None]
    if not ids:
        return None
    if len(ids) < len(items):
        missing = next(k for k, item in enumerate(items) if item.id is None)
        raise ActionError(f"all actions need an id, or none: action {missing} has none")
    if len(set(ids)) < len(ids):
        repeated = next(name for name, n in Counter(ids).items() if n > 1)
        raise ActionError(f"ids of actions must differ, got {repeated!r} twice")
    return tuple(ids)


def _with_scores(
    features: Sequence[Any], scores: Sequence[float | None], prior: MixturePrior
) -> list[Any]:
    """Return descriptions of actions with their scores, by the name that the prior has for it."""
    names = () if prior.features is None else prior.features.scores
    if len(names) != 1:
        learned = f"learned the scores {', '.join(names)}" if names else "learned none"
        raise ActionError(
            f"a score is for a prior that learned one score (mixts fit --score), and this one "
            f"{learned}: {'give them among the features' if names else 'leave it out'}"
        )
    missing = next((k for k, score in enumerate(scores) if score is None), None)
    if missing is not None:
        raise ActionError(f"all actions need a score, or none: action {missing} has none")
    if not isinstance(features[0], Mapping):
        raise ActionError("a score needs actions that are described by names of features")
    twice = next((k for k, one in enumerate(features) if names[0] in one), None)
    if twice is not None:
        raise ActionError(f"action {twice} has a score, and {names[0]!r} among its features")
    return [{**one, names[0]: score} for one, score in zip(features, scores, strict=True)]


def known_of(
    descriptions: Sequence[Mapping[str, Any]], given: Mapping[str, Any], features: Features
) -> Known:
    """Return the facts of the person, which all descriptions share, and the scores of actions."""
    context = {}
    for name in features.facts:
        values = [_fact(given[name])] if name in given else []
        values = values or [_fact(one.get(name)) for one in descriptions]
        other = next((k for k, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise ActionError(
                f"the fact {name!r} of the person must be the same in all actions, got "
                f"{values[0]!r} in action 0 and {values[other]!r} in action {other}: give facts "
                'once, "context": {...}'
            )
        if values and values[0] is not None:
            context[name] = values[0]
    scores = {name: [_plain(one[name]) for one in descriptions] for name in features.scores}
    return Known(context, scores)


def _fact(value: Any) -> Any:
    """Return a fact as JSON has it; None if it is not known."""
    plain = _plain(value)
    if isinstance(plain, str) and len(plain) > MAX_NAME:
        raise ActionError(f"a fact has at most {MAX_NAME} characters, got {len(plain):,}")
    return None if plain == "" or plain != plain else plain  # NaN differs from itself


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def has_names(actions: Any) -> bool:
    """Return whether actions are objects with ids or features, in place of rows of numbers."""
    if isinstance(actions, np.ndarray) or not isinstance(actions, Sequence):
        return False
    # Look at the types first: asking whether each of 10,000 rows is a mapping takes long.
    kinds = set(map(type, actions))
    return any(issubclass(kind, (Mapping, Offered)) for kind in kinds)


def offered_ids(actions: Any) -> list[str | None]:
    """Return the id of each action that is offered with one, else None."""
    items = actions if has_names(actions) else ()
    return [_offered(item, k).id for k, item in enumerate(items)]


def _offered(item: Any, k: int) -> Offered:
    if isinstance(item, Mapping):
        if "features" not in item or not item.keys() <= _FIELDS:
            raise ActionError(f"{_EXPECTED}, got the fields {sorted(map(str, item))} (action {k})")
        item = Offered(item["features"], item.get("id"), item.get("score"))
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


# -- on the wire ----------------------------------------------------------------------------------


def plain_actions(actions: Any) -> list[Any]:
    """Return offered actions as JSON has them, for a client; the service checks the names."""
    found = []
    for k, item in enumerate(actions):
        one = _offered(item, k)
        if isinstance(one.features, Mapping):
            features: Any = {str(name): _value(value) for name, value in one.features.items()}
        else:
            expected = f"features of action {k} must be numbers, or described by names"
            features = checks.numbers(one.features, expected, ActionError).tolist()
        score = None if one.score is None else float(_value(one.score))
        found.append(Offered(features, one.id, score))
    return found


def plain_facts(context: Any) -> Any:
    """Return the facts of a person as JSON has them: a fact that is NaN is not known."""
    if not isinstance(context, Mapping):
        return context  # the service refuses what is no mapping
    return {str(name): _fact(value) for name, value in context.items()}


def _value(value: Any) -> Any:
    plain = _plain(value)
    if isinstance(plain, float) and not np.isfinite(plain):
        raise ActionError(f"features must be finite numbers or text, got {plain}")
    return str(plain) if isinstance(plain, str) else plain


# -- keys -----------------------------------------------------------------------------------------


_JSON = Encoder(enc_hook=repr, order="deterministic")
_PLAIN = hashlib.sha256(b"plain").digest()[:16]


def request_digest(request: Decide) -> bytes:
    """Return a digest of all but the names of task and key, which a retry must repeat."""
    if request.is_plain:
        return _PLAIN  # most requests, and quickly
    actions, mask = request.actions, request.mask
    named: list[Any] | None = None
    listed: list[str] | None = None
    try:
        if has_names(actions):
            named, actions = [_canonical(item) for item in actions], None
        if is_named(mask):
            listed, mask = list(mask), None
        amounts = [_amounts(request.values), _amounts(request.costs)]
        context = _canonical(plain_facts(request.context)) or None
        given = [request.defer, request.top, named, listed, amounts, context]
        content = hashlib.sha256(_JSON.encode(given))
        for rows, kind in ((actions, float), (mask, bool)):
            array = None if rows is None else np.asarray(rows, kind)
            content.update(b"-" if array is None else repr(array.shape).encode() + array.tobytes())
    except (TypeError, ValueError, OverflowError):
        return b"malformed"
    return content.digest()[:16]


def _amounts(given: Any) -> Any:
    """Return values or costs as JSON has them."""
    if given is None or isinstance(given, Mapping):
        return _canonical(given)
    return np.asarray(given, float).tolist()


def _canonical(item: Any) -> Any:
    """Return an action in the form in which it comes over the wire: numbers are floats."""
    if isinstance(item, Offered):
        item = {"id": item.id, "features": item.features, "score": item.score}
    if isinstance(item, Mapping):
        found = {str(name): _canonical(value) for name, value in item.items()}
        return {name: value for name, value in found.items() if value is not None}
    if isinstance(item, (list, tuple, np.ndarray)):
        return [_canonical(value) for value in item]
    if isinstance(item, (int, float, np.integer, np.floating)) and not isinstance(item, bool):
        return float(item)
    return bool(item) if isinstance(item, np.bool_) else item
