"""Errors of the HTTP service: a status, a code, a message and the field at fault."""

from __future__ import annotations

import logging

from mixts import errors

log = logging.getLogger("mixts_serve")

MAX_MESSAGE = 500
"""Characters of a message, which may quote the client's request."""

Header = tuple[bytes, bytes]

CLOSE: Header = (b"connection", b"close")
"""Sent when the service reads nothing more from a connection."""


class RefusalError(Exception):
    """A request that gets an error response."""

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
        self.message = (
            message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."
        )
        self.field = field if field is None else field[:MAX_MESSAGE]
        self.headers = headers


def retry_after(seconds: int) -> tuple[Header, ...]:
    """Return the header that says when to try again."""
    return ((b"retry-after", b"%d" % seconds),)


RESPONSES: dict[type, tuple[int, str, str | None]] = {
    errors.ActionError: (422, "action", "actions"),
    errors.MaskError: (422, "mask", "mask"),
    errors.OutcomeError: (422, "outcome", "value"),
    errors.ConflictError: (409, "conflict", None),
    errors.ObservationError: (422, "observation", None),
    errors.ParameterError: (422, "parameter", None),
    errors.StatisticsError: (422, "statistics", None),
    errors.FormatError: (422, "format", None),
    errors.TaskError: (422, "parameter", "task"),
    errors.UnknownTaskError: (404, "unknown_task", "task"),
    errors.UnknownDecisionError: (404, "unknown_decision", "id"),
    errors.OverloadedError: (503, "overloaded", None),
    errors.TaskLockedError: (503, "task_locked", None),
    errors.StoreUnavailableError: (503, "store_unavailable", None),
    errors.StoreError: (503, "store_unavailable", None),
}
"""Status, code and field for the library's exceptions; the nearest base class counts."""

_RETRY_SECONDS = {"overloaded": 1, "task_locked": 2, "store_unavailable": 5}
"""A queue empties soon; a disk or a database takes longer to come back."""


def refusal_for(error: Exception, field: str | None = None) -> RefusalError:
    """Return the error response for an exception.

    Log unknown exceptions, which are faults of the service, and hide their details. ``field`` is
    the field at fault in a conflict.
    """
    if isinstance(error, RefusalError):
        return error
    for kind in type(error).__mro__:
        if kind in RESPONSES:
            status, code, usual = RESPONSES[kind]
            headers = retry_after(_RETRY_SECONDS[code]) if status == 503 else ()
            return RefusalError(status, code, str(error), _field(error, usual, field), headers)
    log.error("a request failed", exc_info=error)
    return RefusalError(500, "internal", "internal error: see the log of the service")


def _field(error: Exception, usual: str | None, conflicting: str | None) -> str | None:
    """Return the field at fault, as far as it is known."""
    named = error.field if isinstance(error, errors.MixtsError) else None
    return named or usual or (conflicting if isinstance(error, errors.ConflictError) else None)


def wrong_method(*allowed: str) -> RefusalError:
    """Return the error for a method that an address does not accept."""
    listed = ", ".join(sorted(allowed))
    header = (b"allow", listed.encode())
    return RefusalError(405, "method_not_allowed", f"expected {listed}", headers=(header,))
