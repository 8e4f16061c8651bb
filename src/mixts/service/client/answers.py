"""What the service answered, as the values and exceptions that the library has in process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import fields

from mixts.errors import (
    ActionError,
    ConflictError,
    FormatError,
    MaskError,
    MixtsError,
    ObservationError,
    OutcomeError,
    OverloadedError,
    ParameterError,
    StatisticsError,
    StoreUnavailableError,
    UnknownDecisionError,
    UnknownTaskError,
)

Record = TypeVar("Record")

SHOWN = 200
"""How much of an answer that cannot be read is in a message, in characters."""


class ServiceError(MixtsError):
    """An answer that stands for no error of the library: no access, a fault, or no service of ours.

    ``status`` is HTTP's, and ``code`` the service's name of the error, where it gave one.
    """

    def __init__(self, message: str, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with all that it was made of."""
        return type(self), (str(self), self.status, self.code)


CODES: dict[str, type[MixtsError]] = {
    "action": ActionError,
    "conflict": ConflictError,
    "format": FormatError,
    "mask": MaskError,
    "observation": ObservationError,
    "outcome": OutcomeError,
    "overloaded": OverloadedError,
    "parameter": ParameterError,
    "statistics": StatisticsError,
    "store_unavailable": StoreUnavailableError,
    "unknown_decision": UnknownDecisionError,
    "unknown_prior": ParameterError,
    "unknown_task": UnknownTaskError,
}
"""What the service's names of errors stand for."""

STATUSES: dict[int, type[MixtsError]] = {
    409: ConflictError,
    422: ParameterError,
    429: OverloadedError,
    503: StoreUnavailableError,
}
"""For codes that are not known here, as a proxy's or a newer service's."""


def refusal(error: Any, status: int) -> MixtsError:
    """The exception that an error of the service stands for."""
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return _unknown(f"the service answered {status} without saying why", status)
    message, code = error["message"], str(error.get("code"))
    kind = CODES.get(code) or STATUSES.get(status)
    return kind(message) if kind else ServiceError(message, status, code)


def _unknown(message: str, status: int) -> MixtsError:
    kind = STATUSES.get(status) if status in (429, 503) else None
    return kind(message) if kind else ServiceError(message, status)


def content(status: int, body: bytes) -> Any:
    """The JSON of an answer; an exception where it is not one of 2xx, or not JSON."""
    try:
        answer = json.loads(body) if body else None
    except ValueError as error:
        shown = body[:SHOWN].decode(errors="replace")
        raise _unknown(
            f"expected JSON from the service, got {status}: {shown!r}", status
        ) from error
    if 200 <= status < 300:
        return answer
    raise refusal(answer.get("error") if isinstance(answer, dict) else None, status)


def record(kind: type[Record], answer: Any, **known: Any) -> Record:
    """A record from an answer's fields of the same names; what is not known here is left out."""
    if not isinstance(answer, dict):
        raise ServiceError(f"expected an object with the fields of {kind.__name__}", 200)
    values = dict(known)
    for field in fields(kind):  # type: ignore[arg-type]  # every kind is a struct
        if field.name in answer:
            value = answer[field.name]
            values[field.name] = tuple(value) if isinstance(value, list) else value
        elif field.name not in known and field.required:
            raise ServiceError(
                f"the service's answer has no {field.name!r}: is it a mixts service, of this "
                f"version? It has {', '.join(sorted(answer)) or 'nothing'}",
                200,
            )
    return kind(**values)


def items(answer: Any, reads: Sequence[Callable[[Any], Record]]) -> list[Record | MixtsError]:
    """The answers to a batch, item by item; a refused one is its exception."""
    if not isinstance(answer, list) or len(answer) != len(reads):
        found = f"{len(answer)} of them" if isinstance(answer, list) else type(answer).__name__
        raise ServiceError(f"expected {len(reads)} answers from the service, got {found}", 200)
    results: list[Record | MixtsError] = []
    for item, read in zip(answer, reads, strict=True):
        error = item.get("error") if isinstance(item, dict) else None
        status = error.get("status") if isinstance(error, dict) else None
        if error is not None:
            results.append(refusal(error, status if isinstance(status, int) else 422))
        else:
            results.append(read(item))
    return results
