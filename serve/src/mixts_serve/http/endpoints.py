"""Endpoints for tasks, priors, health, metrics and pages; ``app`` has decisions and rewards.

An endpoint is a method of ``Endpoints`` with the decorator ``endpoint``: the router and the OpenAPI
document follow from it. Calls that read the store run in threads, so the event loop goes on.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote

from msgspec.structs import asdict

from mixts import MixturePrior
from mixts.errors import OverloadedError, ParameterError, StoreError, UnknownTaskError
from mixts.extend import files
from mixts_serve.http import Receive, Scope, protocol
from mixts_serve.http.metrics import CONTENT_TYPE, Metrics, contest_gauges, lift_gauges
from mixts_serve.http.openapi import BODY_ERRORS, TASK, Endpoint, parameter
from mixts_serve.http.protocol import ActivePriorInfo, HealthStatus, Limits, read_headers
from mixts_serve.http.refusals import Header, RefusalError, retry_after, wrong_method
from mixts_serve.http.security import PAGE_POLICY
from mixts_serve.records import Activation, Erased, PriorVersion, TaskState
from mixts_serve.versions import ArmChanges, ArmList


class Request(NamedTuple):
    """A request, without its body."""

    scope: Scope
    receive: Receive
    parameters: dict[str, str]
    """Segments of the path, by the names of its parameters, as encoded by the client."""

    @property
    def query(self) -> dict[str, str]:
        """Parameters of the query; the last one of a name."""
        text = self.scope["query_string"].decode("latin-1")
        return dict(parse_qsl(text, keep_blank_values=True))


class Response(NamedTuple):
    """A whole response."""

    body: bytes
    status: int = 200
    kind: bytes = b"application/json"
    """The media type."""
    headers: tuple[Header, ...] = ()


Value = TypeVar("Value")
Handler = Callable[[Request], Awaitable[Response]]
Method = TypeVar("Method", bound=Callable[..., Any])

ENDPOINTS: list[Endpoint] = []
"""Documented endpoints of this module, in the order of the document."""


def endpoint(
    method: str, path: str, response: Any, summary: str, **details: Any
) -> Callable[[Method], Method]:
    """Register a method of ``Endpoints`` for an address; ``details`` are fields of ``Endpoint``.

    A parameter of the path is one segment, as encoded by the client.
    """

    def register(function: Method) -> Method:
        ENDPOINTS.append(Endpoint(method, path, function.__name__, summary, response, **details))
        return function

    return register


_UNREWARDED = {
    "waiting": "their window is open, or has no end",
    "deferred": "they were deferred, and not activated",
    "given_up": "their window has ended, and there is no default reward",
    "due": "their window has ended, and the default reward is about to be written",
}

PAGES = {
    "/": "overview_page",
    "/tasks": "task_page",
    "/assets/{name}": "asset",
}
"""Addresses of pages, which the document leaves out."""

PAGE_CHANGES = {"/arms": "change_arms", "/priors/{version}/activate": "activate_prior"}
"""Addresses that scripts of pages post to; see ``security.Gate`` for what protects them."""

THREADS = 4
MAX_WAITING = 64
"""Requests that may wait for one of the threads."""

CLOSE_SECONDS = 5.0
"""Time for calls that run when the service stops; a database that hangs may never answer them."""

VERSION = parameter("version", "path", {"type": "integer", "minimum": 1})
YES_OR_NO = {"type": "string", "enum": ["true", "false"]}

MAX_UPLOADS = 2
"""Priors that are uploaded at the same time: each needs several times its size in memory."""


class Readers:
    """A few threads that read the store; the process does not wait for them when it ends."""

    def __init__(self, threads: int = THREADS, waiting: int = MAX_WAITING) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._capacity = threads + waiting
        self._busy = 0
        self._threads = [
            threading.Thread(target=self._run, name=f"mixts-reader_{k}", daemon=True)
            for k in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """Call a function in a thread; raise ``OverloadedError`` if too many calls wait."""
        if self._busy >= self._capacity:
            raise OverloadedError(f"{self._busy} requests read the store: try again later")
        self._busy += 1
        try:
            future: Future[Value] = Future()
            self._calls.put((future, partial(function, *arguments)))
            return await asyncio.wrap_future(future)
        finally:
            self._busy -= 1

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            del call, future, function  # otherwise the result lives until the next call

    def close(self) -> None:
        """Finish the calls, but wait no longer than ``CLOSE_SECONDS``."""
        for _ in self._threads:
            self._calls.put(None)
        until = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))


class Endpoints:
    """Handlers of all addresses except decisions and rewards."""

    def __init__(
        self,
        decider: Any,
        store: Any,
        limits: Limits,
        metrics: Metrics,
        document: Callable[[], bytes],
        needs_token: bool,
    ) -> None:
        self._decider = decider
        self._store = store
        self._limits = limits
        self._metrics = metrics
        self._document = document
        self._needs_token = needs_token
        self.readers = Readers()
        self._uploads = 0
        """Priors that are being received or stored."""

    def find(self, method: str, path: bytes) -> tuple[str, Handler, dict[str, str]]:
        """Return the name of an endpoint, its handler, and the parameters of the path.

        The path is as it came: an encoded slash is part of a task's name.
        """
        text = path.decode("latin-1")
        for pattern, methods in _ADDRESSES:
            found = pattern.fullmatch(text)
            if found is not None:
                name = methods.get("GET" if method == "HEAD" else method)
                if name is None:
                    raise wrong_method(*methods, *(["HEAD"] if "GET" in methods else []))
                return name, getattr(self, name), found.groupdict()
        raise RefusalError(404, "not_found", "there is nothing at this address")

    # -- tasks and priors ---------------------------------------------------------------------

    @endpoint(
        "GET", "/v1/tasks/{task}", TaskState, "Describe a task: counts, weights, mean rewards",
        errors=(404, 422), parameters=(TASK,),
    )  # fmt: skip
    async def task(self, request: Request) -> Response:
        """Return the counts and the belief of a task."""
        name = path_parameter(request, "task")
        return json_response(await self.readers.run(self._decider.task, name))

    @endpoint(
        "DELETE", "/v1/tasks/{task}", Erased, "Erase a task and everything about it",
        scope="admin", errors=(422,), parameters=(TASK,),
    )  # fmt: skip
    async def erase_task(self, request: Request) -> Response:
        """Erase a task; one that is unknown is no error, so the request may be repeated."""
        name = path_parameter(request, "task")
        return json_response(await self.readers.run(self._decider.erase, name))

    @endpoint("GET", "/v1/prior", ActivePriorInfo, "Describe the active prior")
    async def prior(self, request: Request) -> Response:
        """Return the active prior's description."""
        active = await self.readers.run(lambda: self._decider.active)
        prior, family = active.prior, active.prior.family
        return json_response(
            ActivePriorInfo(
                active.version, family.kind, prior.n_components, prior.weights.tolist(),
                prior.names, prior.arm_names, family.n_arms, family.n_features,
            )
        )  # fmt: skip

    @endpoint("GET", "/v1/priors", list[PriorVersion], "List all versions of the prior")
    async def priors(self, request: Request) -> Response:
        """Return all versions of the prior."""
        return json_response(await self.readers.run(self._decider.priors))

    @endpoint(
        "POST", "/v1/priors", Activation, "Add a version: a file as MixturePrior.save writes it",
        request=dict[str, Any], scope="admin", status=201, errors=BODY_ERRORS,
        parameters=tuple(parameter(name, "query", YES_OR_NO) for name in ("activate", "force")),
    )  # fmt: skip
    async def upload_prior(self, request: Request) -> Response:
        """Store a new version of the prior, and activate it if the query says so."""
        activate, force = _flag(request, "activate"), _flag(request, "force")
        if self._uploads >= MAX_UPLOADS:
            raise OverloadedError(f"{self._uploads} priors are being uploaded: try again later")
        self._uploads += 1
        try:
            body = await _body(request, max(self._limits.prior, self._limits.body))

            def upload() -> Activation:
                prior = protocol.read_prior(body)
                version = self._decider.upload_prior(prior, activate, force)
                return Activation(version, version == self._decider.prior_version)

            return json_response(await self.readers.run(upload), 201)
        finally:
            self._uploads -= 1

    @endpoint(
        "POST", "/v1/priors/{version}/activate", Activation, "Activate a version of the prior",
        scope="admin", errors=(404, 422),
        parameters=(VERSION, parameter("force", "query", YES_OR_NO)),
    )  # fmt: skip
    async def activate_prior(self, request: Request) -> Response:
        """Activate a version of the prior; with force even one that failed its check."""
        force = _flag(request, "force")
        version = await self._known_version(request)
        await self.readers.run(self._decider.activate_prior, version, force)
        return json_response(Activation(version, True))

    @endpoint(
        "GET", "/v1/priors/{version}", dict[str, Any],
        "Download a version of the prior: a file as MixturePrior.save writes it", errors=(404,),
        parameters=(VERSION,),
    )  # fmt: skip
    async def download_prior(self, request: Request) -> Response:
        """Return the file of a version of the prior, in JSON."""
        version = await self._known_version(request)

        def pack() -> bytes:
            prior = MixturePrior.from_bytes(self._store.prior_body(version), "the prior")
            return files.pack_bundle("prior", *prior.bundle(), as_json=True)

        return Response(await self.readers.run(pack))

    async def _known_version(self, request: Request) -> int:
        """Return the version of the prior that the path names."""
        text = path_parameter(request, "version")
        rows = await self.readers.run(self._decider.priors)
        version: int | None = next((row.version for row in rows if str(row.version) == text), None)
        if version is None:
            known = ", ".join(str(row.version) for row in rows[-10:])
            raise RefusalError(
                404, "unknown_prior", f"there is no version {text[:20]!r}; the last are {known}",
                "version",
            )  # fmt: skip
        return version

    @endpoint(
        "GET", "/v1/arms", ArmList, "List the arms: names, and which are retired or new",
        errors=(422,),
    )  # fmt: skip
    async def arms(self, request: Request) -> Response:
        """Return the arms of the active prior."""
        return json_response(await self.readers.run(self._decider.arms))

    @endpoint(
        "POST", "/v1/arms", ArmList, "Add, retire, restore or rename arms, all at once",
        request=ArmChanges, scope="admin", errors=BODY_ERRORS,
    )  # fmt: skip
    async def change_arms(self, request: Request) -> Response:
        """Activate a version of the prior with other arms."""
        changes = protocol.read_arm_changes(await _body(request, self._limits.body))

        def change() -> ArmList:
            found: ArmList = self._decider.change_arms(**asdict(changes))
            return found

        return json_response(await self.readers.run(change))

    # -- health and metrics -------------------------------------------------------------------

    @endpoint("GET", "/healthz", HealthStatus, "Check that the process responds", scope=None)
    async def alive(self, request: Request) -> Response:
        """Return "ok" as long as the process responds."""
        return json_response(HealthStatus("ok"))

    @endpoint("GET", "/readyz", HealthStatus, "Check that the service accepts writes", scope=None)
    async def ready(self, request: Request) -> Response:
        """Return "ok", and the policy in force, if the store can be written to."""
        health = self._decider.health()
        if not health.writable:
            # With tokens, strangers may reach this endpoint: they must not see paths and hosts.
            known = None if self._needs_token else health.reason
            reason = known or "the store cannot be written to"
            raise RefusalError(503, "store_unavailable", reason, headers=retry_after(5))
        alarm = health.prior_alarm
        if alarm is not None and self._needs_token:
            alarm = "the rewards do not agree with the prior: see the dashboard"
        policy = self._decider.policy.name
        return json_response(HealthStatus("ok", health.pending, policy, health.warning, alarm))

    @endpoint("GET", "/metrics", "text/plain", "Counters for Prometheus")
    async def metrics(self, request: Request) -> Response:
        """Return counters, response times and totals."""
        health = self._decider.health()
        batches, operations = self._decider.batches
        gauges: dict[str, tuple[str, float | Mapping[str, float]]] = {
            "writable": ("1 if the store accepts writes, else 0", int(health.writable)),
            "pending_operations": ("Operations that wait for the writer", health.pending),
            "groups": ("Committed batches", batches),
            "group_operations": ("Operations in all committed batches", operations),
            "only_clicks": (
                "1 if rewards seem to come for clicks only, with no default reward, else 0",
                int(health.warning is not None),
            ),
            "prior_alarm": (
                "1 if the rewards do not agree with the active prior, else 0",
                int(health.prior_alarm is not None),
            ),
        }
        with suppress(StoreError):  # the counters of this process are known even so
            gauges |= await self.readers.run(self._store_gauges)
        worth = self._decider.worth()
        if worth is not None:
            gauges |= lift_gauges(worth)
        gauges |= contest_gauges(self._decider.account(), self._decider.trial())
        settings = asdict(self._decider.policy)
        policy = {name: "" if value is None else str(value) for name, value in settings.items()}
        return Response(self._metrics.text(gauges, policy), kind=CONTENT_TYPE)

    def _store_gauges(self) -> dict[str, tuple[str, float]]:
        totals = self._store.totals()
        gauges = {
            f"store_{name}": (f"{name.capitalize()} in the store", getattr(totals, name))
            for name in ("tasks", "decisions", "rewards", "late", "defaults")
        }
        without = asdict(self._store.unrewarded())
        gauges |= {
            f"store_unrewarded_{name}": (f"Decisions without a reward: {_UNREWARDED[name]}", n)
            for name, n in without.items()
        }
        version = self._decider.prior_version
        gauges |= {"prior_version": ("Active version of the prior", version)}
        found = self._decider.agreements(version)
        if found is not None:
            whole, of = found.whole, "of the active prior's final decisions"
            gauges |= {
                "prior_evidence": ("Evidence against the active prior, log10", found.evidence),
                "prior_expected_reward": (f"Mean reward {of}, as predicted", whole.expected),
                "prior_earned_reward": (f"Mean reward {of}", whole.earned),
            }
        return gauges

    @endpoint("GET", "/openapi.json", dict[str, Any], "This document")
    async def openapi(self, request: Request) -> Response:
        """Return the OpenAPI document."""
        return Response(self._document())

    # -- pages --------------------------------------------------------------------------------

    async def overview_page(self, request: Request) -> Response:
        """Return the dashboard."""
        return await self._page(
            lambda: _dashboard().overview_page(
                self._decider, self._store, _dashboard().OverviewQuery.of(request.query),
                now=self._store.now(),
                address=_address(request), token=self._needs_token,
                changes="admin" in request.scope["mixts.scopes"],
            )
        )  # fmt: skip

    async def task_page(self, request: Request) -> Response:
        """Return the page of one task."""
        name = request.query.get("name", "")
        try:
            return await self._page(
                lambda: _dashboard().task_page(
                    self._decider, self._store, name, now=self._store.now(),
                    address=_address(request), token=self._needs_token,
                    imagine=_dashboard().read_outcomes(request.query),
                )
            )  # fmt: skip
        except (UnknownTaskError, ParameterError):
            return page_response(_dashboard().missing_page(name), 404)

    async def _page(self, render: Callable[[], str]) -> Response:
        try:
            return page_response(await self.readers.run(render))
        except StoreError as error:
            return page_response(_dashboard().unavailable_page(str(error)), 503)

    async def asset(self, request: Request) -> Response:
        """Return a style sheet or a script of the pages."""
        found = _dashboard().ASSETS.get(request.parameters["name"])
        if found is None:
            raise RefusalError(404, "not_found", "there is nothing at this address")
        media_type, content = found
        return Response(content, kind=media_type.encode())


# -- requests and responses -----------------------------------------------------------------------


def _addresses() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    """Return a pattern for each address, and the names of its endpoints by method."""
    found: dict[str, dict[str, str]] = {}
    for each in ENDPOINTS:
        found.setdefault(each.path, {})[each.method] = each.name
    found |= {path: {"GET": name} for path, name in PAGES.items()}
    found |= {path: {"POST": name} for path, name in PAGE_CHANGES.items()}
    return [
        (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), methods)
        for path, methods in found.items()
    ]


_ADDRESSES = _addresses()


def _flag(request: Request, name: str) -> bool:
    """Return a flag of the query, false unless it is given."""
    text = request.query.get(name, "false")
    if text not in ("true", "false"):
        raise RefusalError(422, "invalid", f"{name} must be true or false", name)
    return text == "true"


async def _body(request: Request, limit: int) -> bytes:
    """Return the body of a request, which must be JSON."""
    headers = read_headers(request.scope["headers"])
    protocol.check_content_type(headers)
    return await protocol.read_body(request.receive, headers, limit)


def path_parameter(request: Request, name: str) -> str:
    """Return a segment of the path, decoded."""
    try:
        return unquote(request.parameters[name], errors="strict")
    except UnicodeDecodeError:
        raise RefusalError(
            400, "bad_request", f"{name} must be UTF-8, percent-encoded", name
        ) from None


def json_response(content: Any, status: int = 200) -> Response:
    """Return a response in JSON."""
    return Response(protocol.encode(content), status)


def page_response(content: str, status: int = 200) -> Response:
    """Return a response in HTML; with status 503 it says when to try again."""
    headers: tuple[Header, ...] = ((b"content-security-policy", PAGE_POLICY.encode()),)
    if status == 503:
        headers += retry_after(5)
    return Response(content.encode(), status, b"text/html; charset=utf-8", headers)


def _dashboard() -> Any:
    """Import the pages when they are first requested, so that the service starts sooner."""
    from mixts_serve import dashboard

    return dashboard


_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")


def _address(request: Request) -> str:
    """Return the address of the service, for commands on a page, as the client reached it.

    It comes from headers that any client can send: nothing else may depend on it.
    """
    headers = dict(request.scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1")
    scheme = "https" if headers.get(b"x-forwarded-proto") == b"https" else "http"
    prefix = request.scope.get("root_path", "")
    return f"{scheme}://{host if _HOST.fullmatch(host) else '127.0.0.1'}{prefix}"
