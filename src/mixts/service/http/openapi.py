"""The OpenAPI document, made of the types that requests and answers are read and written with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from mixts._version import __version__
from mixts.service.http import protocol
from mixts.service.http.limits import Limits

_SCHEMAS = "#/components/schemas/{name}"

_REFUSALS = {
    400: "Not JSON, or not HTTP as it should be",
    401: "No token, or one that is not known",
    403: "A token without the scope that is needed, or a request from elsewhere",
    404: "Not known here",
    405: "Another method is expected",
    408: "The body did not arrive in time",
    409: "A key or a decision that was answered otherwise before",
    413: "The body is too large",
    415: "The body is not application/json",
    422: "A field is wrong; `field` is its path",
    429: "Too many operations a second",
    431: "The headers are too large",
    503: "The store is unavailable, or too much is waiting: try again later",
}

_EVERYWHERE = (400, 401, 403, 405, 429, 431, 503)
_BODY = (408, 413, 415, 422)


@dataclass(frozen=True, slots=True)
class Call:
    """One method of one address."""

    method: str
    path: str
    name: str
    summary: str
    answer: Any
    """The type of the answer, or a media type."""
    request: Any = None
    scope: str | None = "read"
    status: int = 200
    refusals: tuple[int, ...] = ()
    parameters: list[dict[str, Any]] = field(default_factory=list)
    many: bool = False
    """Lists of requests and of answers, and a refused item is its error."""


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


CALLS = (
    Call(
        "post", "/v1/decide", "decide", "Choose an action for a task",
        protocol.DecideAnswer, protocol.DecideRequest, "write", refusals=(409, *_BODY),
    ),
    Call(
        "post", "/v1/reward", "reward", "Report what came of a decision",
        protocol.RewardAnswer, protocol.RewardRequest, "write", refusals=(404, 409, *_BODY),
    ),
    Call(
        "post", "/v1/decide:batch", "decide_batch", "Many decisions, answered item by item",
        protocol.DecideAnswer, protocol.DecideRequest, "write", refusals=_BODY, many=True,
    ),
    Call(
        "post", "/v1/reward:batch", "reward_batch", "Many rewards, answered item by item",
        protocol.RewardAnswer, protocol.RewardRequest, "write", refusals=_BODY, many=True,
    ),
    Call(
        "get", "/v1/tasks/{task}", "task", "What is known and believed of a task",
        protocol.TaskAnswer, refusals=(404, 422),
        parameters=[_parameter("task", "path", {"$ref": _SCHEMAS.format(name="Name")})],
    ),
    Call("get", "/v1/prior", "prior", "The prior in force", protocol.PriorAnswer),
    Call("get", "/v1/priors", "priors", "All versions", list[protocol.PriorVersion]),
    Call(
        "post", "/v1/priors", "upload_prior", "Add a version: a file as MixturePrior.save writes",
        protocol.Activation, dict[str, Any], "admin", 201, _BODY,
        [_parameter("activate", "query", {"type": "string", "enum": ["true", "false"]})],
    ),
    Call(
        "post", "/v1/priors/{version}/activate", "activate_prior", "Put a version in force",
        protocol.Activation, None, "admin", refusals=(404, 422),
        parameters=[_parameter("version", "path", {"type": "integer", "minimum": 1})],
    ),
    Call("get", "/healthz", "alive", "The process answers", protocol.HealthAnswer, scope=None),
    Call("get", "/readyz", "ready", "It can take writes", protocol.HealthAnswer, scope=None),
    Call("get", "/metrics", "metrics", "Counters for Prometheus", "text/plain"),
    Call("get", "/openapi.json", "openapi", "This document", dict[str, Any]),
)  # fmt: skip


def document(limits: Limits, tokens: bool) -> dict[str, Any]:
    """Of a service with these limits, that asks for tokens or not."""
    types = [part for call in CALLS for part in (call.answer, call.request) if _is_type(part)]
    types += [protocol.Name, protocol.ErrorAnswer]
    schemas, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    known = {_key(part): schema for part, schema in zip(types, schemas, strict=True)}
    components = {"Name": known[_key(protocol.Name)], **components}
    _set_lengths(components, limits)
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method] = _operation(call, known, limits, tokens)
    scheme = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mixts",
            "summary": "Decisions by Thompson sampling with a mixture prior",
            "version": __version__,
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": scheme}},
    }


def _key(part: Any) -> str:
    return repr(part)


def _is_type(part: Any) -> bool:
    return part is not None and not isinstance(part, str)


def _set_lengths(components: dict[str, Any], limits: Limits) -> None:
    """The lengths that the operator chose; types know none."""
    fields = components["DecideRequest"]["properties"]
    for name in ("actions", "mask"):
        for form in fields[name]["anyOf"]:
            if form.get("type") == "array":
                form["maxItems"] = limits.actions


def _operation(call: Call, known: dict[str, Any], limits: Limits, tokens: bool) -> dict[str, Any]:
    error = {"application/json": {"schema": known[_key(protocol.ErrorAnswer)]}}
    if isinstance(call.answer, str):
        content: dict[str, Any] = {call.answer: {"schema": {"type": "string"}}}
    else:
        schema = known[_key(call.answer)]
        if call.many:
            either = {"anyOf": [schema, known[_key(protocol.ErrorAnswer)]]}
            schema = {"type": "array", "items": either}
        content = {"application/json": {"schema": schema}}
    answers: dict[str, Any] = {str(call.status): {"description": call.summary, "content": content}}
    for status in sorted({*_EVERYWHERE, *call.refusals}):
        answers[str(status)] = {"description": _REFUSALS[status], "content": error}
    for refused in ("429", "503"):
        seconds = {"type": "integer", "minimum": 1}
        answers[refused]["headers"] = {"Retry-After": {"schema": seconds, "description": "Seconds"}}
    operation: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.summary,
        "responses": answers,
    }
    if call.scope is not None:
        operation["description"] = f"Needs the scope `{call.scope}` where tokens are asked for."
        operation["security"] = [{"token": []}] if tokens else []
    if call.parameters:
        operation["parameters"] = call.parameters
    if call.request is not None:
        schema = known[_key(call.request)]
        if call.many:
            schema = {"type": "array", "items": schema, "maxItems": limits.batch}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return operation
