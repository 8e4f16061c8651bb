"""What can be asked of the service: each call's request, and how its answer is read."""

from __future__ import annotations

import json
import os
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np

from mixts import _checks
from mixts._files import pack_bundle
from mixts.errors import ActionError, MaskError, MixtsError, OutcomeError, ParameterError
from mixts.prior import MixturePrior
from mixts.service.client.answers import ServiceError, content, items, record
from mixts.service.records import Decide, Decision, PriorVersion, Receipt, Reward, TaskState

Answer = TypeVar("Answer")
Request = TypeVar("Request")

MOST_ITEMS, MOST_BYTES = 1_000, 1_000_000
"""Of one request, as the service takes them unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request that is safe to send again, and the meaning of its answer."""

    method: str
    path: str
    read: Callable[[Any], Answer]
    body: bytes | None = None
    known: Answer | None = None
    """The answer, where nobody has to be asked."""
    lost: Callable[[MixtsError], Answer] | None = None
    """The answer of a part of a list that did not get through: this error for its items."""

    def result(self, status: int, body: bytes) -> Answer:
        """What was answered, or the exception that it stands for."""
        return self.read(content(status, body))


# -- decisions and rewards ------------------------------------------------------------------------


def decide(request: Decide) -> Call[Decision]:
    """One decision; without a key it gets one of its own, so that it can be sent again."""
    return Call("POST", "/v1/decide", _decision(request), _encoded(_decide(request)))


def reward(request: Reward) -> Call[Receipt]:
    """One reward; the service counts it once, however often it comes."""
    return Call("POST", "/v1/reward", _receipt(request), _encoded(_reward(request)))


def decide_many(requests: Sequence[Decide]) -> list[Call[list[Decision | MixtsError]]]:
    """A list of decisions, in parts that the service takes."""
    return [part.call("/v1/decide:batch") for part in _parts(requests, _decide, _decision)]


def reward_many(requests: Sequence[Reward]) -> list[Call[list[Receipt | MixtsError]]]:
    """A list of rewards, in parts that the service takes."""
    return [part.call("/v1/reward:batch") for part in _parts(requests, _reward, _receipt)]


@dataclass
class _Part(Generic[Answer]):
    """Some items of a list.

    What cannot be written as JSON is refused here, item by item as the service does.
    """

    n: int = 0
    n_bytes: int = 0
    written: list[bytes] = field(default_factory=list)
    reads: list[Callable[[Any], Answer]] = field(default_factory=list)
    refused: dict[int, MixtsError] = field(default_factory=dict)

    def has_room_for(self, item: bytes) -> bool:
        return self.n == 0 or (self.n < MOST_ITEMS and self.n_bytes + len(item) < MOST_BYTES)

    def call(self, path: str) -> Call[list[Answer | MixtsError]]:
        known = None if self.written else self._read([])
        body = b"[" + b",".join(self.written) + b"]"
        return Call("POST", path, self._read, body, known, self._lost)

    def _read(self, answer: Any) -> list[Answer | MixtsError]:
        answered = iter(items(answer, self.reads))
        return [self.refused[i] if i in self.refused else next(answered) for i in range(self.n)]

    def _lost(self, error: MixtsError) -> list[Answer | MixtsError]:
        return [self.refused.get(i, error) for i in range(self.n)]


def _parts(
    requests: Sequence[Request],
    write: Callable[[Request], dict[str, Any]],
    reader: Callable[[Request], Callable[[Any], Answer]],
) -> list[_Part[Answer]]:
    parts: list[_Part[Answer]] = []
    for request in requests:
        item, error = b"", None
        try:
            item = _encoded(write(request))
        except MixtsError as refused:
            error = refused
        if not parts or not parts[-1].has_room_for(item):
            parts.append(_Part())
        part = parts[-1]
        if error is not None:
            part.refused[part.n] = error
        else:
            part.written.append(item)
            part.reads.append(reader(request))
        part.n += 1
        part.n_bytes += len(item) + 1
    return parts


def _decide(request: Decide) -> dict[str, Any]:
    written: dict[str, Any] = {
        "task": request.task,
        "key": uuid.uuid4().hex if request.key is None else request.key,
    }
    if request.actions is not None:
        expected = "actions must be rows of finite numbers"
        rows = _checks.numbers(request.actions, expected, ActionError)
        if not np.isfinite(rows).all():
            raise ActionError(f"{expected}, got NaN or infinity")
        written["actions"] = rows.tolist()
    if request.mask is not None:
        mask = np.asarray(request.mask)
        if mask.dtype != bool:
            raise MaskError(f"mask must be a list of true and false, got type {mask.dtype}")
        written["mask"] = mask.tolist()
    return written


def _decision(request: Decide) -> Callable[[Any], Decision]:
    return lambda answer: record(Decision, answer, task=request.task)


def _reward(request: Reward) -> dict[str, Any]:
    expected = "a reward must be a finite number"
    value = _checks.numbers(request.value, expected, OutcomeError)
    if value.ndim or not np.isfinite(value):
        raise OutcomeError(f"{expected}, got {request.value!r}")
    return {"id": request.decision, "value": value.item()}


def _receipt(_: Reward) -> Callable[[Any], Receipt]:
    return lambda answer: record(Receipt, answer)


class Answers(Generic[Answer]):
    """The answers to the parts of a list, in order."""

    def __init__(self, parts: Sequence[Call[list[Answer]]]) -> None:
        self._left = deque(parts)
        self._is_first = True
        self.found: list[Answer] = []

    def add(self, answers: list[Answer]) -> None:
        """Those of the next part."""
        self._left.popleft()
        self._is_first = False
        self.found += answers

    def cut_short(self, error: MixtsError) -> list[Answer]:
        """What is known of all items, if the next part did not get through; the first must."""
        if self._is_first:
            raise error
        lost = [answer for part in self._left if part.lost for answer in part.lost(error)]
        return [*self.found, *lost]


# -- tasks and priors -----------------------------------------------------------------------------


def task(name: str) -> Call[TaskState]:
    """What is known and believed of a task."""
    return Call("GET", f"/v1/tasks/{_segment(name)}", lambda a: record(TaskState, a, task=name))


def priors() -> Call[list[PriorVersion]]:
    """Every version of the prior."""

    def read(answer: Any) -> list[PriorVersion]:
        if not isinstance(answer, list):
            raise ServiceError(f"expected a list of priors, got {type(answer).__name__}", 200)
        return [record(PriorVersion, row) for row in answer]

    return Call("GET", "/v1/priors", read)


def upload_prior(prior: MixturePrior | str | os.PathLike[str], activate: bool) -> Call[int]:
    """A prior, or the file of one, and whether to decide by it; the answer is its version."""
    loaded = prior if isinstance(prior, MixturePrior) else MixturePrior.load(prior)
    path = "/v1/priors?activate=true" if activate else "/v1/priors"
    return Call("POST", path, _version, pack_bundle("prior", *loaded.bundle(), as_json=True))


def activate_prior(version: int) -> Call[int]:
    """Decide by this version from now on."""
    return Call("POST", f"/v1/priors/{_checks.count(version, 'version')}/activate", _version)


def _version(answer: Any) -> int:
    version = answer.get("version") if isinstance(answer, dict) else None
    if not isinstance(version, int):
        raise ServiceError(f"expected the version of a prior, got {answer!r:.200}", 200)
    return version


# -- as text --------------------------------------------------------------------------------------


def _encoded(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _segment(name: str) -> str:
    """A task's name as one part of a path, also ``..`` and what has slashes."""
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError as error:
        raise ParameterError(f"a task's name must be Unicode text, got {name!r}") from error
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
