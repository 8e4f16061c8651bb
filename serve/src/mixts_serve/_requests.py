"""Requests to the decision service without any network: bodies, responses, errors, retries.

A call is a generator of steps: it yields a request to send or a pause to make, receives the
outcome, and returns the result. The two clients differ only in how they perform a step.
"""

from __future__ import annotations

import logging
import random
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec
import numpy as np

from mixts import MixturePrior, errors
from mixts.extend import Array, checks
from mixts_serve.calls import Value
from mixts_serve.fallback import Fallback, FallbackLike
from mixts_serve.http.protocol import ActivePriorInfo
from mixts_serve.http.refusals import RESPONSES
from mixts_serve.offers import has_names, is_named, plain_actions, plain_facts
from mixts_serve.records import (
    Activate,
    Decide,
    Decision,
    MadeDecision,
    Operation,
    Receipt,
    Reward,
    checked_metrics,
    checked_outcome,
)

log = logging.getLogger("mixts_serve")

MAX_ITEMS, MAX_BYTES = 1_000, 1_000_000
"""Size of one request of a batch; services accept it by default."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Longest pause before the first retry, which doubles at each retry up to the second number."""

PATHS: dict[type, str] = {
    Decide: "/v1/decide", MadeDecision: "/v1/decisions", Reward: "/v1/reward",
    Activate: "/v1/activate",
}  # fmt: skip
"""Where operations are sent; batches of them, to the same address with ``:batch``."""

RETRIED = frozenset({429, 503})
"""Responses that ask to try again later; all others are final."""

FIRST_REST, LONGEST_REST = 0.25, 8.0
"""Longest pause before a client with a fallback asks again whether the service is back; it doubles,
up to the second number, until a decision comes in time."""

MAX_QUOTED = 200
"""Characters of an unreadable response in an error message."""


# -- steps ----------------------------------------------------------------------------------------


class Request(NamedTuple):
    """Step: send a request, and receive httpx's response or its ``TransportError``."""

    method: str
    path: str
    body: bytes | None
    timeout: float
    within: float | None = None
    """Seconds for the whole request, names and all; httpx's timeout is for each read."""


Steps = Generator[Request | float, Any, Value]
"""Steps of a call that returns a Value; a number is a pause in seconds."""


# -- errors ---------------------------------------------------------------------------------------


class ServiceError(errors.MixtsError):
    """Error of the service that is no error of the library: no access, a fault, another server.

    Attributes
    ----------
    status : int
        Status code of the response.
    code : str or None
        The service's name for the error, if it gave one.
    """

    def __init__(self, message: str, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle needs to make the error again."""
        return type(self), (str(self), self.status, self.code)


class _AwayError(Exception):
    """No final answer came, for this reason."""

    def __init__(self, error: errors.MixtsError) -> None:
        super().__init__(str(error))
        self.error = error


_ERRORS_BY_CODE: dict[str, type[errors.MixtsError]] = {
    "unknown_prior": errors.ParameterError,
    **{code: kind for kind, (_, code, _) in reversed(RESPONSES.items())},
}
"""The first exception of those with the same code."""

_ERRORS_BY_STATUS: dict[int, type[errors.MixtsError]] = {
    409: errors.ConflictError,
    422: errors.ParameterError,
    429: errors.OverloadedError,
    503: errors.StoreUnavailableError,
}
"""For other codes, such as those of a newer service."""


def _error(detail: Any, status: int) -> errors.MixtsError:
    """Return the exception for the ``error`` object of a response."""
    if not isinstance(detail, dict) or not isinstance(detail.get("message"), str):
        return _unexplained(f"the service answered {status} without a reason", status)
    message, code = detail["message"], str(detail.get("code"))
    kind = _ERRORS_BY_CODE.get(code) or _ERRORS_BY_STATUS.get(status)
    return kind(message) if kind else ServiceError(message, status, code)


def _unexplained(message: str, status: int) -> errors.MixtsError:
    """Return the exception for a response of a proxy, or of another server."""
    kind = _ERRORS_BY_STATUS.get(status) if status in RETRIED else None
    return kind(message) if kind else ServiceError(message, status)


# -- requests and responses -----------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Return numpy's strings as Python's."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"got {type(value).__name__}")


_encode_json = msgspec.json.Encoder(enc_hook=_plain).encode


def _encode(request: Operation) -> bytes:
    """Return the JSON of a request; raise the error that the service would give for its arrays."""
    checked = request
    if isinstance(request, Decide):
        checked = _checked_decide(request)
    elif isinstance(request, Reward):
        checked = _checked_reward(request)
    try:
        return _encode_json(checked)
    except (TypeError, UnicodeEncodeError) as error:
        raise errors.ParameterError(f"names and keys must be Unicode text: {error}") from error


def _checked_decide(request: Decide) -> Decide:
    """Return the request with lists instead of arrays, and with a key, so that retries are safe."""
    actions, mask = request.actions, request.mask
    if has_names(actions):
        actions = plain_actions(actions)
    elif actions is not None:
        expected = "actions must be rows of finite numbers"
        actions = _finite(actions, expected, errors.ActionError).tolist()
    if is_named(mask):
        mask = [str(name) for name in mask]
    elif mask is not None:
        mask = np.asarray(mask)
        if mask.dtype != bool:
            raise errors.MaskError(f"mask must be a list of true and false, got type {mask.dtype}")
        mask = mask.tolist()
    key = request.key
    if key is None and not isinstance(request, MadeDecision):  # that has an id
        key = uuid.uuid4().hex
    values, costs = (_checked_amounts(getattr(request, name), name) for name in ("values", "costs"))
    return msgspec.structs.replace(
        request, actions=actions, mask=mask, key=key, values=values, costs=costs,
        context=plain_facts(request.context),
    )  # fmt: skip


def _checked_amounts(amounts: Any, name: str) -> Any:
    """Return values or costs as a list of floats, or as a dictionary of them."""
    if amounts is None:
        return None
    by_name = isinstance(amounts, Mapping)
    given = list(amounts.values()) if by_name else amounts
    array = _finite(given, f"{name} must be finite numbers", errors.ParameterError)
    return dict(zip(amounts, array.tolist(), strict=True)) if by_name else array.tolist()


def _checked_reward(request: Reward) -> Reward:
    value = request.value
    if value is not None:
        value = checked_outcome(value, "a reward must be a finite number")
    metrics = checked_metrics(request) or None
    return msgspec.structs.replace(request, value=value, metrics=metrics)


def _finite(given: Any, expected: str, error: type[errors.MixtsError]) -> Array:
    array = checks.numbers(given, expected, error)
    if not np.isfinite(array).all():
        raise error(f"{expected}, got NaN or infinity")
    return array


def segment(name: str) -> str:
    """Return a task's name as one segment of a path, also ``..`` and names with slashes."""
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError as error:
        raise errors.ParameterError(f"a task's name must be Unicode text, got {name!r}") from error
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


def _decode(response: Any) -> Any:
    """Return the JSON of a response; raise its error if the status is not 2xx."""
    status, body = response.status_code, response.content
    try:
        content = msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        quoted = body[:MAX_QUOTED].decode(errors="replace")
        raise _unexplained(
            f"expected JSON from the service, got {status}: {quoted!r}", status
        ) from error
    if 200 <= status < 300:
        return content
    raise _error(content.get("error") if isinstance(content, dict) else None, status)


def prior_of(content: Any) -> MixturePrior:
    """Return the prior whose file, in JSON, was downloaded."""
    return MixturePrior.from_bytes(msgspec.json.encode(content), "the prior")


def _convert(content: Any, kind: type[Value]) -> Value:
    """Return decoded JSON as a record; ignore fields that a newer service may have added."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ServiceError(
            f"unexpected response: {error}; is it a mixts service of this version?", 200
        ) from error


def _convert_item(item: Any, kind: type[Value]) -> Value | errors.MixtsError:
    """Return one result of a batch: a record, or the exception of a refused item."""
    error = item.get("error") if isinstance(item, dict) else None
    if error is None:
        return _convert(item, kind)
    status = error.get("status") if isinstance(error, dict) else None
    return _error(error, status if isinstance(status, int) else 422)


# -- calls ----------------------------------------------------------------------------------------


class Requests(ABC):
    """Settings of a client, and the steps of its calls."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 4,
        deadline: float = 30.0,
        transport: Any = None,
        fallback: FallbackLike | None = None,
        patience: float = 0.04,
    ) -> None:
        self.url = _checked_url(url)
        if token is not None and not _TOKEN.fullmatch(token):
            raise errors.ParameterError(
                "token must be letters, digits and -._~+/ (is there a space or a line break in it?)"
            )
        if not (timeout > 0 and deadline > 0 and patience > 0 and retries >= 0):
            raise errors.ParameterError(
                "timeout, deadline and patience must be above 0 seconds and retries at least 0, "
                f"got {timeout}, {deadline}, {patience} and {retries}"
            )
        self._fallback = None if fallback is None else Fallback(fallback, _encode)
        self._patience, self._pause = patience, FIRST_REST
        self._timeout, self._retries, self._deadline = timeout, retries, deadline
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        import httpx  # here, because the service imports this module and needs no client

        self._httpx = httpx
        self._http = self._open(base_url=self.url, headers=headers, transport=transport)
        self._clock: Callable[[], float] = time.monotonic

    @abstractmethod
    def _open(self, **options: Any) -> Any:
        """Return httpx's client."""

    @abstractmethod
    def _run(self, steps: Steps[Any]) -> Any:
        """Perform the steps of a call; return its value or, with asyncio, an awaitable of it."""

    @abstractmethod
    def _begin_return(self) -> None:
        """Do in the background what ``_return`` says, until it is done."""

    @property
    def n_queued(self) -> int:
        """Number of decisions and rewards that wait until the service is back."""
        return 0 if self._fallback is None else self._fallback.n_queued

    def _one(self, operation: Operation, kind: type) -> Any:
        fallback = self._fallback
        if fallback is not None and isinstance(operation, Decide):
            return self._run(self._decide_or_fall_back(operation, fallback))
        if fallback is not None and isinstance(operation, Reward):
            return self._run(self._reward_or_keep(operation, fallback))
        return self._run(self._send_one(operation, kind))

    def _many(self, operations: Sequence[Any], kind: type) -> Any:
        return self._run(self._send_batch(operations, kind))

    def _call(
        self, method: str, path: str, kind: Any, body: bytes | None = None,
        read: Callable[[Any], Any] = lambda found: found,
    ) -> Any:  # fmt: skip
        """Send a request, and read its response, which is of a kind."""

        def steps() -> Steps[Any]:
            return read(_convert((yield from self._send(method, path, body)), kind))

        return self._run(steps())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _send(self, method: str, path: str, body: bytes | None = None) -> Steps[Any]:
        """Send a request until a response is final; return its JSON.

        Pauses are exponential with full jitter, so that many clients do not return at the same
        moment, and begin when the service's Retry-After ends. A pause that would end after the
        deadline is not made: the error is raised at once.
        """
        end = self._clock() + self._deadline
        for attempt in count(1):
            timeout = max(min(self._timeout, end - self._clock()), 0.001)
            outcome = yield Request(method, path, body, timeout)
            if not isinstance(outcome, Exception) and outcome.status_code not in RETRIED:
                return _decode(outcome)
            error, pause = self._failure(outcome)
            pause += random.uniform(0, min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE))
            if attempt > self._retries or self._clock() + pause >= end:
                if attempt > 1:
                    error.add_note(f"after {attempt} attempts")
                raise error
            yield pause

    def _failure(self, outcome: Any) -> tuple[errors.MixtsError, float]:
        """Return the error of a failed attempt, and the seconds that the service asks to wait."""
        if isinstance(outcome, Exception):
            reason = type(outcome).__name__ + (f": {outcome}" if str(outcome) else "")
            error: errors.MixtsError = errors.StoreUnavailableError(
                f"no response from the service at {self.url} ({reason})"
            )
            error.__cause__ = outcome
            return error, 0.0
        try:
            _decode(outcome)
        except errors.MixtsError as refused:
            error = refused
        seconds = outcome.headers.get("Retry-After", "").strip()
        # A date, or anything else that is no number, counts as 0.
        return error, float(seconds) if seconds.isascii() and seconds.isdigit() else 0.0

    def _send_one(self, operation: Operation, kind: type[Value]) -> Steps[Value]:
        body = _encode(operation)
        return _convert((yield from self._send("POST", PATHS[type(operation)], body)), kind)

    # -- while the service is away ------------------------------------------------------------

    def _try_once(self, operation: Operation, kind: type[Value]) -> Steps[Value]:
        """Send an operation once; raise ``_AwayError`` if no final answer comes soon."""
        body, seconds = _encode(operation), self._patience
        outcome = yield Request("POST", PATHS[type(operation)], body, seconds, seconds)
        # A proxy whose service is away has a status of its own, such as 502, 504 or 520.
        is_answered = not isinstance(outcome, Exception) and outcome.status_code < 500
        if not is_answered or outcome.status_code in RETRIED:
            raise _AwayError(self._failure(outcome)[0])
        return _convert(_decode(outcome), kind)

    def _decide_or_fall_back(self, request: Decide, fallback: Fallback) -> Steps[Decision]:
        if fallback.is_away:
            error = self._still_away()
        else:
            try:
                decision = yield from self._try_once(request, Decision)
                self._pause = FIRST_REST
                if fallback.note(decision):
                    self._begin_return()
                return decision
            except _AwayError as found:
                error, fallback.is_away = found.error, True
        try:
            return fallback.decide(request, error)
        finally:
            self._begin_return()

    def _reward_or_keep(self, reward: Reward, fallback: Fallback) -> Steps[Receipt]:
        if fallback.must_keep(reward):
            error = self._still_away()
        else:
            try:
                return (yield from self._try_once(reward, Receipt))
            except _AwayError as found:
                error, fallback.is_away = found.error, True
        try:
            return fallback.keep(_checked_reward(reward), error)
        finally:
            self._begin_return()

    def _still_away(self) -> errors.MixtsError:
        return errors.StoreUnavailableError(f"the service at {self.url} is away")

    def _return(self, fallback: Fallback) -> Steps[None]:
        """If the service is back, send what was kept and fetch its prior; else wait for a while."""
        try:
            if fallback.is_away:
                if not (yield from self._is_ready()):
                    raise self._still_away()
                fallback.is_away = False
            yield from self._send_kept(fallback)
            yield from self._fetch_prior(fallback)
        except errors.MixtsError as error:
            if not isinstance(error, errors.StoreUnavailableError | errors.OverloadedError):
                log.error("what was kept for the service cannot be sent: %s", error)
            self._pause = min(2 * self._pause, LONGEST_REST)
            yield random.uniform(0.5, 1.0) * self._pause

    def _send_kept(self, fallback: Fallback) -> Steps[None]:
        while part := fallback.next_part():
            is_decision = part[0].decision is not None
            kind = MadeDecision if is_decision else Reward
            results = yield from self._send_part([kept.body for kept in part], kind)
            if not fallback.settle(part, results):
                raise self._still_away()

    def _fetch_prior(self, fallback: Fallback) -> Steps[None]:
        if not fallback.asks_for_prior:
            return
        try:
            active = _convert((yield from self._send("GET", "/v1/prior")), ActivePriorInfo)
            if active.version == fallback.version:
                fallback.rest()
                return
            content = yield from self._send("GET", f"/v1/priors/{active.version}")
            fallback.learn(prior_of(content), active.version)
        except (ServiceError, errors.FormatError, errors.ParameterError) as error:
            log.error("the active prior cannot be fetched: %s", error)
            fallback.rest()

    # -- batches ------------------------------------------------------------------------------

    def _is_ready(self) -> Steps[bool]:
        outcome = yield Request("GET", "/readyz", None, self._timeout)
        return not isinstance(outcome, Exception) and bool(outcome.is_success)

    def _send_batch(self, operations: Sequence[Any], kind: type) -> Steps[list[Any]]:
        """Send a list in parts; after a failed part, its items and all later ones are its error."""
        parts = list(_split(operations))
        results: list[Any] = []
        for i, part in enumerate(parts):
            try:
                results += yield from self._send_part(part, kind)
            except errors.MixtsError as error:
                if i == 0:
                    raise
                unsent = [item for part in parts[i:] for item in part]
                return results + [error if isinstance(item, bytes) else item for item in unsent]
        return results

    def _send_part(self, part: Sequence[bytes | errors.MixtsError], kind: type) -> Steps[list[Any]]:
        encoded = [item for item in part if isinstance(item, bytes)]
        content = []
        if encoded:
            body = b"[" + b",".join(encoded) + b"]"
            content = yield from self._send("POST", f"{PATHS[kind]}:batch", body)
        if not isinstance(content, list) or len(content) != len(encoded):
            got = len(content) if isinstance(content, list) else type(content).__name__
            raise ServiceError(f"expected {len(encoded)} results from the service, got {got}", 200)
        result = Decision if kind in (Decide, MadeDecision) else Receipt
        results = iter([_convert_item(item, result) for item in content])
        return [next(results) if isinstance(item, bytes) else item for item in part]


def _split(requests: Sequence[Operation]) -> Iterator[list[bytes | errors.MixtsError]]:
    """Yield the encoded requests in parts that fit in one request; some are errors instead."""
    part: list[bytes | errors.MixtsError] = []
    n_bytes = 0
    for request in requests:
        item: bytes | errors.MixtsError
        try:
            item = _encode(request)
        except errors.MixtsError as error:
            item = error
        size = len(item) + 1 if isinstance(item, bytes) else 1
        if part and (len(part) == MAX_ITEMS or n_bytes + size > MAX_BYTES):
            yield part
            part, n_bytes = [], 0
        part.append(item)
        n_bytes += size
    if part:
        yield part


_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Characters of a bearer token (RFC 6750); a line break would begin another header."""


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    # An address may contain a password: refuse it, and do not show it.
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise errors.ParameterError(
            "url must be like http://127.0.0.1:8321, without user and password"
        )
    if parts.query or parts.fragment:
        raise errors.ParameterError(
            "url must be like http://127.0.0.1:8321, with nothing after ? or #"
        )
    return url.rstrip("/")
