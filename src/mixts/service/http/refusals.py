"""What is not done, and how a client is told: a status, a code, a message and the field."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException

from mixts.errors import (
    ActionError,
    ConflictError,
    FormatError,
    MaskError,
    ObservationError,
    OutcomeError,
    OverloadedError,
    ParameterError,
    StatisticsError,
    StoreError,
    StoreUnavailableError,
    TaskError,
    UnknownDecisionError,
    UnknownTaskError,
)

log = logging.getLogger("mixts.service")

LONGEST = 500
"""Characters of a message: it may repeat what the client sent, which may be long."""

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
CLOSE: Header = (b"connection", b"close")
"""For who is not listened to any further."""


class RefusalError(Exception):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None = None,
        headers: tuple[Header, ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message if len(message) <= LONGEST else message[: LONGEST - 3] + "..."
        self.field = field if field is None else field[:LONGEST]
        self.headers = headers


def try_later(seconds: int) -> tuple[Header, ...]:
    """The header that says when."""
    return ((b"retry-after", b"%d" % seconds),)


_ANSWERS: dict[type, tuple[int, str, str | None]] = {
    ActionError: (422, "action", "actions"),
    MaskError: (422, "mask", "mask"),
    OutcomeError: (422, "outcome", "value"),
    ConflictError: (409, "conflict", None),
    ObservationError: (422, "observation", None),
    ParameterError: (422, "parameter", None),
    StatisticsError: (422, "statistics", None),
    FormatError: (422, "format", None),
    TaskError: (422, "parameter", "task"),
    UnknownTaskError: (404, "unknown_task", "task"),
    UnknownDecisionError: (404, "unknown_decision", "id"),
    OverloadedError: (503, "overloaded", None),
    StoreUnavailableError: (503, "store_unavailable", None),
    StoreError: (503, "store_unavailable", None),
}
"""How the library's exceptions are told, the nearest of an exception's classes."""

_LATER = {"overloaded": 1, "store_unavailable": 5}
"""Seconds: a queue empties soon, a disk or a database takes longer to come back."""


def told(error: Exception, field: str | None = None) -> RefusalError:
    """What a client is told of an exception; if it is a fault of ours, no more than that.

    ``field`` is the one in question where the exception does not say so by its class.
    """
    if isinstance(error, RefusalError):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            return wrong_method((error.headers or {}).get("Allow", "GET"))
        return RefusalError(error.status_code, "not_found", "there is nothing at this address")
    for kind in type(error).__mro__:
        if kind in _ANSWERS:
            status, code, usual = _ANSWERS[kind]
            headers = try_later(_LATER[code]) if status == 503 else ()
            return RefusalError(status, code, str(error), usual or field, headers)
    log.error("a request failed", exc_info=error)
    return RefusalError(500, "internal", "the service has a fault: its log says more")


def wrong_method(allowed: str) -> RefusalError:
    """What is said of a method that an address does not know."""
    listed = ", ".join(sorted(allowed.split(", ")))
    header = (b"allow", listed.encode())
    return RefusalError(405, "method_not_allowed", f"expected {listed}", headers=(header,))
