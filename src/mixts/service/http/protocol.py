"""What is said over the wire: the shapes of requests and answers, strictly typed.

A number is a JSON number within a double's range, never ``true`` or ``"1.0"``; fields that are not
known are refused. The OpenAPI document is made of these same types.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from mixts.service.http.limits import Head, Limits, check_actions, check_depth, too_many_actions
from mixts.service.http.refusals import RefusalError
from mixts.service.records import MAX_NAME, Decide, Decision, Receipt, Reward, TaskState
from mixts.service.records import PriorVersion as PriorRow

Name = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_NAME, extra_json_schema={"pattern": "^[^\\u0000]+$"}),
]

# -- requests -------------------------------------------------------------------------------------


class DecideRequest(Struct, forbid_unknown_fields=True):
    """Choose an action for a task."""

    task: Name
    key: Name | None = None
    actions: list[list[float]] | None = None
    mask: list[bool] | None = None


class RewardRequest(Struct, forbid_unknown_fields=True):
    """What came of a decision."""

    id: Name
    value: float


class PriorSettings(Struct):
    """What a family has beside its arrays; one that does not belong to it is its reader's."""

    noise_std: float | UnsetType = UNSET
    covariance_type: str | UnsetType = UNSET
    horizon: int | UnsetType = UNSET


class PriorFile(Struct):
    """The types in a prior's file; whether they make a prior, its reader says."""

    family: str | UnsetType = UNSET
    settings: PriorSettings | UnsetType = UNSET
    names: list[str] | None = None
    arm_names: list[str] | None = None
    retired: list[int] | UnsetType = UNSET
    arrays: dict[str, Raw] | UnsetType = UNSET


class PriorArray(Struct):
    """An array of a prior's file; ``values`` are numbers in lists as deep as its shape is long."""

    dtype: str
    shape: list[int]
    values: Raw


# -- answers --------------------------------------------------------------------------------------


class DecideAnswer(Struct):
    """An action, and with which probability it was taken."""

    id: str
    action: int
    propensity: float
    weights: tuple[float, ...]
    prior_version: int
    arm: str | UnsetType = UNSET


class RewardAnswer(Struct):
    """A reward is kept; ``late``: it is logged, not learned from."""

    duplicate: bool
    late: bool | UnsetType = UNSET


class TaskAnswer(Struct):
    """What is known and believed of a task."""

    task: str
    decisions: int
    rewards: int
    late: int
    weights: tuple[float, ...]
    mean_rewards: tuple[float, ...]
    prior_version: int
    names: tuple[str, ...] | UnsetType = UNSET


class PriorAnswer(Struct):
    """The prior in force."""

    version: int
    family: str
    n_components: int
    weights: list[float]
    names: tuple[str, ...] | None
    arm_names: tuple[str, ...] | None
    n_arms: int | UnsetType = UNSET
    n_features: int | UnsetType = UNSET


class PriorVersion(Struct):
    """A version of the prior that the store has."""

    version: int
    active: bool
    family: str
    n_components: int
    uploaded_at: float


class Activation(Struct):
    """Whether a version of the prior is the one in force."""

    version: int
    active: bool


class HealthAnswer(Struct):
    """Whether the service can do its work, and why not."""

    status: str
    pending: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Fault(Struct):
    """Why a request, or an item of a batch, was refused."""

    code: str
    message: str
    field: str | UnsetType = UNSET
    status: int | UnsetType = UNSET


class ErrorAnswer(Struct):
    """A refusal; ``status`` is inside where it is an item of a batch."""

    error: Fault


encode = msgspec.json.Encoder().encode


def decision(made: Decision) -> DecideAnswer:
    """A decision as it is answered."""
    return DecideAnswer(
        made.id, made.action, made.propensity, made.weights, made.prior_version,
        UNSET if made.arm is None else made.arm,
    )  # fmt: skip


def receipt(given: Receipt) -> RewardAnswer:
    """A receipt as it is answered."""
    return RewardAnswer(given.duplicate, True if given.late else UNSET)


def task_state(state: TaskState, names: tuple[str, ...] | None) -> TaskAnswer:
    """A task's state as it is answered, with the names of the latent states."""
    return TaskAnswer(
        state.task, state.decisions, state.rewards, state.late, state.weights, state.mean_rewards,
        state.prior_version, UNSET if names is None else names,
    )  # fmt: skip


def prior_version(row: PriorRow) -> PriorVersion:
    """A version as it is answered."""
    return PriorVersion(row.version, row.active, row.family, row.n_components, row.uploaded_at)


def error(refused: RefusalError, *, item: bool = False) -> ErrorAnswer:
    """A refusal as it is answered."""
    field = UNSET if refused.field is None else refused.field
    status = refused.status if item else UNSET
    return ErrorAnswer(Fault(refused.code, refused.message, field, status))


# -- reading --------------------------------------------------------------------------------------

_decide = msgspec.json.Decoder(DecideRequest)
_reward = msgspec.json.Decoder(RewardRequest)
_batch = msgspec.json.Decoder(list[Raw])
_prior = msgspec.json.Decoder(PriorFile)
_array = msgspec.json.Decoder(PriorArray)


def check_json(head: Head) -> None:
    """Refuse what is not said to be JSON."""
    kind = head.get(b"content-type", b"")
    if kind != b"application/json":
        media, _, parameter = kind.lower().replace(b" ", b"").partition(b";")
        if media != b"application/json" or parameter not in (b"", b"charset=utf-8"):
            raise RefusalError(415, "media_type", "expected Content-Type: application/json")
    if head.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RefusalError(415, "media_type", "a body that is compressed is not read")


def read_decide(body: bytes | Raw, limits: Limits) -> Decide:
    """The request for one decision."""
    check_actions(bytes(body), limits)
    request: DecideRequest = _read(_decide, body)
    task, key, actions, mask = request.task, request.key, request.actions, request.mask
    _check_name(task, "task")
    if key is not None:
        _check_name(key, "key")
    if actions is not None and len(actions) > limits.actions:
        raise too_many_actions("actions", limits)
    if mask is not None and len(mask) > limits.actions:
        raise too_many_actions("mask", limits)
    return Decide(task, actions, mask, key)


def read_reward(body: bytes | Raw, limits: Limits) -> Reward:
    """The report of one reward."""
    request: RewardRequest = _read(_reward, body)
    _check_name(request.id, "id")
    return Reward(request.id, request.value)


def split_batch(body: bytes, limits: Limits) -> list[Raw]:
    """The items of a list, each to be read for itself."""
    items: list[Raw] = _read(_batch, body)
    if len(items) > limits.batch:
        raise RefusalError(
            422, "too_many", f"a batch has at most {limits.batch:,} items, got {len(items):,}"
        )
    return items


def check_prior(body: bytes, limits: Limits) -> None:
    """Refuse what is not JSON, nested too deep, or has no number where one must be."""
    check_depth(body, limits)
    file: PriorFile = _read(_prior, body)
    arrays = {} if file.arrays is UNSET else file.arrays
    for name, entry in arrays.items():
        array: PriorArray = _read(_array, entry, f".arrays.{name}")
        numbers = _numbers(min(len(array.shape), limits.depth))
        _read(numbers, array.values, f".arrays.{name}.values")


@cache
def _numbers(n_axes: int) -> Any:
    """Reads an array's values."""
    kind: Any = float
    for _ in range(n_axes):
        kind = list[kind]
    return msgspec.json.Decoder(kind)


def _read(decoder: Any, body: bytes | Raw, at: str = "") -> Any:
    """What a body says, or a part of one that is ``at`` this path."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), at) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(bytes(body), str(error)) from None


def _check_name(name: str, field: str) -> None:
    if "\0" in name:
        raise RefusalError(
            422, "invalid", f"the character U+0000 is not allowed - at `$.{field}`", field
        )


_FIELD = re.compile(r"field `(.{1,256})`", re.DOTALL)


def _invalid(text: str, at: str = "") -> RefusalError:
    """What msgspec says of a wrong type, with the path of the field by itself."""
    said, found, path = text.rpartition(" - at `$")
    if found or at:
        said, path = (said, at + path.rstrip("`")) if found else (text, at)
        return RefusalError(422, "invalid", f"{said} - at `${path}`", path.lstrip(".") or None)
    named = _FIELD.search(text)  # a field that is missing, or unknown
    return RefusalError(422, "invalid", text, named[1] if named else None)


# -- JSON that is none ----------------------------------------------------------------------------

_SEARCHED = 1 << 16
"""Bytes of a body that is read again, slowly, to say where it is wrong."""


def _not_json(body: bytes, reason: str) -> RefusalError:
    """Numbers that are none and broken characters get their path; the rest is not JSON at all."""
    if len(body) <= _SEARCHED:
        try:
            place = _impossible(json.loads(body))
        except (ValueError, RecursionError):
            place = None
        if place is not None:
            path, what = place
            return RefusalError(422, "invalid", f"{what} - at `${path}`", path.lstrip(".") or None)
    return RefusalError(400, "not_json", f"the body is not JSON in UTF-8: {reason}")


def _impossible(value: Any, path: str = "") -> tuple[str, str] | None:
    """Where Python's reader let something pass that JSON has no place for."""
    if isinstance(value, float) and not math.isfinite(value):
        return path, f"Expected a finite number, got `{value}`"
    if isinstance(value, str) and not value.isascii() and _broken(value):
        return path, "Expected text, got half of a surrogate pair"
    inside: Any = ()
    if isinstance(value, list):
        inside = ((f"{path}[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, dict):
        inside = ((f"{path}.{name}", item) for name, item in value.items() if not _broken(name))
    found = (_impossible(item, place) for place, item in inside)
    return next((place for place in found if place is not None), None)


def _broken(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
