"""The OpenAPI document, generated from the endpoints and the types of their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mixts_serve._version import __version__
from mixts_serve.http.protocol import ErrorResponse, Limits
from mixts_serve.records import Name

_SCHEMAS = "#/components/schemas/{name}"

_ERRORS = {
    400: "Malformed JSON or HTTP",
    401: "Missing or unknown token",
    403: "A token without the required scope, or a request of another origin",
    404: "Unknown address, task, decision or version",
    405: "Another method is expected",
    409: "The key or the decision was used before, with other contents",
    413: "The body is too large",
    415: "The body is not application/json",
    422: "A field is wrong; `field` is its path",
    503: "The store is unavailable, or too many operations are waiting: try again later",
}

BODY_ERRORS = (413, 415, 422)
"""Errors of requests that have a body."""

_COMMON_ERRORS = (400, 401, 403, 405, 503)


def parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a parameter in the path or the query."""
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


TASK = parameter("task", "path", {"$ref": _SCHEMAS.format(name="Name")})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one address."""

    method: str
    path: str
    name: str
    summary: str
    response: Any
    """Type of the response, or a media type."""
    request: Any = None
    scope: str | None = "read"
    """Scope that a token needs; None: no token is needed."""
    status: int = 200
    errors: tuple[int, ...] = ()
    """Status codes beyond those that every endpoint may return."""
    parameters: tuple[dict[str, Any], ...] = ()
    is_batch: bool = False
    """True if request and response are lists; a refused item is its error."""


def document(
    endpoints: Sequence[Endpoint], limits: Limits, tokens: bool, prefix: str = ""
) -> dict[str, Any]:
    """Return the document of a service with these limits, which needs tokens or not."""
    bodies = [body for each in endpoints for body in (each.response, each.request)]
    types = [body for body in bodies if body is not None and not isinstance(body, str)]
    types += [Name, ErrorResponse]
    found, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    schemas = {repr(kind): schema for kind, schema in zip(types, found, strict=True)}
    components = {"Name": schemas[repr(Name)], **components}
    _shorten_descriptions(components)
    _set_lengths(components, limits)
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        operation = _operation(each, schemas, limits, tokens)
        paths.setdefault(each.path, {})[each.method.lower()] = operation
    scheme = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mixts",
            "summary": "Decisions by Thompson sampling with a mixture prior",
            "version": __version__,
        },
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": scheme}},
    }


def _shorten_descriptions(components: dict[str, Any]) -> None:
    """Keep the first paragraph of each docstring: the rest is about Python."""
    for component in components.values():
        if "description" in component:
            component["description"] = component["description"].partition("\n\n")[0]


def _set_lengths(components: dict[str, Any], limits: Limits) -> None:
    """Add the operator's limits, which the types do not know."""
    for record in ("Decide", "MadeDecision"):
        fields = components[record]["properties"]
        for name in ("actions", "mask", "values", "costs", "probabilities"):
            for form in fields.get(name, {}).get("anyOf", ()):
                if form.get("type") == "array":
                    form["maxItems"] = limits.actions


def _operation(
    endpoint: Endpoint, schemas: dict[str, Any], limits: Limits, tokens: bool
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.scope is not None:
        operation["description"] = f"Needs a token with the scope `{endpoint.scope}`, if any."
        operation["security"] = [{"token": []}] if tokens else []
    if endpoint.parameters:
        operation["parameters"] = list(endpoint.parameters)
    if endpoint.request is not None:
        schema = schemas[repr(endpoint.request)]
        if endpoint.is_batch:
            schema = {"type": "array", "items": schema, "maxItems": limits.batch}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    error = schemas[repr(ErrorResponse)]
    if isinstance(endpoint.response, str):
        content: dict[str, Any] = {endpoint.response: {"schema": {"type": "string"}}}
    else:
        schema = schemas[repr(endpoint.response)]
        if endpoint.is_batch:
            schema = {"type": "array", "items": {"anyOf": [schema, error]}}
        content = {"application/json": {"schema": schema}}
    responses: dict[str, Any] = {
        str(endpoint.status): {"description": endpoint.summary, "content": content}
    }
    for status in sorted({*_COMMON_ERRORS, *endpoint.errors}):
        responses[str(status)] = {
            "description": _ERRORS[status],
            "content": {"application/json": {"schema": error}},
        }
    seconds = {"type": "integer", "minimum": 1}
    responses["503"]["headers"] = {"Retry-After": {"schema": seconds, "description": "Seconds"}}
    return responses
