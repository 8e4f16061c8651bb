"""JSON bodies of requests and responses, strictly typed.

Requests are decoded into the records of the service, and its records are encoded as responses; the
structs here exist only over HTTP. A number is a JSON number within a double's range, never ``true``
or ``"1.0"``. The decoder refuses unknown fields, and stops at the first value that is nested deeper
than its type allows. The OpenAPI document is generated from the same types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from mixts import MixturePrior
from mixts_serve.http import Receive
from mixts_serve.http.refusals import CLOSE, RefusalError
from mixts_serve.records import Activate, Decide, MadeDecision, Reward
from mixts_serve.versions import ArmChanges

# -- headers and bodies ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one request."""

    body: int = 1 << 20
    """Bytes of a body."""
    prior: int = 16 << 20
    """Bytes of an uploaded prior, unless ``body`` is larger: covariances need many."""
    actions: int = 10_000
    """Actions of one decision."""
    shown: int = 100
    """Actions that one decision shows (``top``): each is a row with all probabilities."""
    batch: int = 1_000
    """Items of a batch."""


USED_HEADERS = frozenset(
    {
        b"authorization", b"content-encoding", b"content-length", b"content-type", b"host",
        b"origin", b"sec-fetch-site", b"transfer-encoding",
    }
)  # fmt: skip
"""Headers that the service reads; all others are ignored."""

Headers = dict[bytes, bytes]


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that the service uses; refuse repeated ones."""
    used: Headers = {}
    for name, value in headers:
        if name in USED_HEADERS:
            if name in used:
                raise RefusalError(400, "bad_request", f"the header {name.decode()} comes twice")
            used[name] = value
    # Servers decode chunks only, and would pass on a body of "gzip, chunked" still compressed.
    if used.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        expected = "expected a body of a known length, or Transfer-Encoding: chunked"
        raise RefusalError(501, "bad_request", expected, headers=(CLOSE,))
    return used


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """Return the whole body of a request; refuse more than ``limit`` bytes."""
    too_large = RefusalError(413, "too_large", f"the body must have at most {limit:,} bytes")
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit():
        raise RefusalError(400, "bad_request", "content-length must be a number", headers=(CLOSE,))
    if int(declared) > limit:
        raise too_large
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            ended = "the request ended before its body did, or its body is malformed"
            raise RefusalError(400, "bad_request", ended, headers=(CLOSE,))
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_large
        more = message.get("more_body", False)
    return b"".join(parts)


# -- responses ------------------------------------------------------------------------------------


class ActivePriorInfo(Struct, omit_defaults=True):
    """Description of the active prior."""

    version: int
    family: str
    n_components: int
    weights: list[float]
    names: tuple[str, ...] | None
    arm_names: tuple[str, ...] | None
    n_arms: int | None = None
    n_features: int | None = None


class HealthStatus(Struct, omit_defaults=True):
    """Status of the service."""

    status: str
    pending: int | None = None
    policy: str | None = None
    warning: str | None = None
    prior_alarm: str | None = None
    """How the rewards disagree with the active prior; missing if they agree, as far as is known."""


class ErrorDetail(Struct, omit_defaults=True):
    """Reason for refusing a request, or an item of a batch."""

    code: str
    message: str
    field: str | None = None
    status: int | None = None


class ErrorResponse(Struct):
    """Error of a request, or of an item of a batch, which has its own ``status``."""

    error: ErrorDetail


encode = msgspec.json.Encoder().encode


def error_response(refusal: RefusalError, *, item: bool = False) -> ErrorResponse:
    """Return the body of an error response, or of a refused item of a batch."""
    status = refusal.status if item else None
    return ErrorResponse(ErrorDetail(refusal.code, refusal.message, refusal.field, status))


def encode_error(refusal: RefusalError) -> bytes:
    """Return the body of an error response in JSON."""
    return encode(error_response(refusal))


# -- requests -------------------------------------------------------------------------------------

_decide = msgspec.json.Decoder(Decide)
_made = msgspec.json.Decoder(MadeDecision)
_reward = msgspec.json.Decoder(Reward)
_activate = msgspec.json.Decoder(Activate)
_arm_changes = msgspec.json.Decoder(ArmChanges)
_batch = msgspec.json.Decoder(list[Raw])

_FEWEST_COMPACT = 1_000
"""Least number of offered actions that are kept as an array."""


def check_content_type(headers: Headers) -> None:
    """Refuse a body that is not declared as JSON, or is compressed."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json":
        media, _, parameter = kind.lower().replace(b" ", b"").partition(b";")
        if media != b"application/json" or parameter not in (b"", b"charset=utf-8"):
            raise RefusalError(415, "media_type", "expected Content-Type: application/json")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RefusalError(415, "media_type", "expected a body without Content-Encoding")


def read_decide(body: bytes | Raw, limits: Limits) -> Decide:
    """Return the request for one decision."""
    return _limited(_decode(_decide, body), limits)


def read_made(body: bytes | Raw, limits: Limits) -> Decide:
    """Return the report of a decision that was made elsewhere."""
    return _limited(_decode(_made, body), limits)


def _limited(request: Decide, limits: Limits) -> Decide:
    _check_name(request.task, "task")
    if request.key is not None:
        _check_name(request.key, "key")
    for name in ("actions", "mask", "values", "costs", "probabilities"):
        given = getattr(request, name, None)
        if given is not None and len(given) > limits.actions:
            expected = f"expected at most {limits.actions:,} actions"
            raise RefusalError(422, "too_many", expected, name)
    if request.top is not None and request.top > limits.shown:
        expected = f"top must be at most {limits.shown:,}, got {request.top:,}"
        raise RefusalError(422, "too_many", expected, "top")
    return _compact(request)


def _compact(request: Decide) -> Decide:
    """Return a request with many rows of numbers as an array, which needs a tenth of the memory.

    The garbage collector does not visit an array's rows; it would visit those of a list again and
    again.
    """
    rows = request.actions
    if rows is None or len(rows) < _FEWEST_COMPACT or not isinstance(rows[0], list):
        return request
    try:
        return msgspec.structs.replace(request, actions=np.array(rows, float))
    except (TypeError, ValueError):
        return request  # rows of different lengths, or objects among them: refused later


def read_reward(body: bytes | Raw, limits: Limits) -> Reward:
    """Return the report of one reward."""
    request: Reward = _decode(_reward, body)
    _check_name(request.decision, "id")
    if request.value is None and not request.metrics:
        raise RefusalError(422, "invalid", "expected a value, metrics or both", "value")
    for name in request.metrics or ():
        _check_name(name, "metrics")
    return request


def read_activate(body: bytes | Raw, limits: Limits) -> Activate:
    """Return the report that a deferred decision was shown."""
    request: Activate = _decode(_activate, body)
    _check_name(request.decision, "id")
    return request


def read_prior(body: bytes) -> MixturePrior:
    """Return an uploaded prior, which is JSON: a zip could unpack to anything."""
    if not body.lstrip().startswith(b"{"):
        raise RefusalError(
            400, "not_json", "expected a prior in JSON, as `MixturePrior.save` writes"
        )
    return MixturePrior.from_bytes(body, "the prior")


def read_arm_changes(body: bytes) -> ArmChanges:
    """Return the changes of the arms."""
    changes: ArmChanges = _decode(_arm_changes, body)
    return changes


def split_batch(body: bytes, limits: Limits) -> list[Raw]:
    """Return the items of a list, still encoded, so that each is refused by itself."""
    items: list[Raw] = _decode(_batch, body)
    if len(items) > limits.batch:
        raise RefusalError(
            422, "too_many", f"a batch has at most {limits.batch:,} items, got {len(items):,}"
        )
    return items


def _check_name(name: str, field: str) -> None:
    if "\0" in name:
        raise RefusalError(
            422, "invalid", f"the character U+0000 is not allowed - at `$.{field}`", field
        )


# -- errors of decoding ---------------------------------------------------------------------------


def _decode(decoder: Any, body: bytes | Raw) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(bytes(body), str(error)) from None


_FIELD = re.compile(r"field `(.{1,256})`", re.DOTALL)


def _invalid(text: str) -> RefusalError:
    """Return msgspec's message about a wrong type, with the path of the field by itself."""
    _, found, path = text.rpartition(" - at `$")
    if found:
        return RefusalError(422, "invalid", text, path.rstrip("`").lstrip(".") or None)
    named = _FIELD.search(text)  # a missing field, or an unknown one
    return RefusalError(422, "invalid", text, named[1] if named else None)


_NOT_NUMBERS = (b"NaN", b"Infinity")


def _not_json(body: bytes, reason: str) -> RefusalError:
    """Return the error for malformed JSON."""
    has_word = any(word in body for word in _NOT_NUMBERS)
    hint = "; JSON has no NaN and no Infinity" if has_word else ""
    return RefusalError(400, "not_json", f"the body is not JSON in UTF-8: {reason}{hint}")
