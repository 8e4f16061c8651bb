"""Everything but decisions and rewards: tasks, priors, health, metrics and pages.

Whatever reads the store runs in a thread, and the event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mixts.errors import OverloadedError, ParameterError, StoreError, UnknownTaskError
from mixts.families import LinearGaussian
from mixts.prior import MixturePrior
from mixts.service.http import protocol
from mixts.service.http.limits import Limits, read_body, read_head
from mixts.service.http.metrics import CONTENT_TYPE, Metrics
from mixts.service.http.refusals import RefusalError, try_later
from mixts.service.http.security import PAGE_POLICY
from mixts.service.records import MAX_NAME

THREADS = 4
WAITING = 64
"""Requests that may wait for a thread."""

Value = TypeVar("Value")


class Readers:
    """A few threads for what reads the store."""

    def __init__(self, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, "mixts-reader")
        self._most = threads + waiting
        self._busy = 0

    async def run(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """Call a function in a thread, if not too many wait for one."""
        if self._busy >= self._most:
            raise OverloadedError(f"{self._busy} requests read the store: try again later")
        self._busy += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, function, *arguments)
        finally:
            self._busy -= 1

    def close(self) -> None:
        """Finish what is running."""
        self._pool.shutdown()


class Endpoints:
    """The rest of the service's addresses."""

    def __init__(
        self,
        decider: Any,
        store: Any,
        limits: Limits,
        metrics: Metrics,
        document: bytes,
        token: bool,
    ) -> None:
        self._decider = decider
        self._store = store
        self._limits = limits
        self._metrics = metrics
        self._document = document
        self._token = token
        self.readers = Readers()

    def routes(self) -> list[Route]:
        """Where they are; a parameter is one part of the path, as it is encoded there."""
        return [
            Route("/healthz", self.alive),
            Route("/readyz", self.ready),
            Route("/v1/tasks/{task}", self.task),
            Route("/v1/prior", self.prior),
            Route("/v1/priors", self.priors, methods=["GET", "POST"]),
            Route("/v1/priors/{version}/activate", self.activate, methods=["POST"]),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.openapi),
            Route("/", self.overview_page),
            Route("/tasks", self.task_page),
            Route("/tasks/{task}", self.task_page),
            Route("/assets/{name}", self.asset),
        ]

    # -- tasks --------------------------------------------------------------------------------

    async def task(self, request: Request) -> Response:
        """A task's state."""
        name = path_parameter(request, "task")

        def read() -> protocol.TaskAnswer:
            state, active = self._decider.state(name), self._decider.active
            same = active.version == state.prior_version  # and not just activated
            return protocol.task_state(state, active.prior.names if same else None)

        return answer(await self.readers.run(read))

    # -- priors -------------------------------------------------------------------------------

    async def prior(self, request: Request) -> Response:
        """The prior in force."""
        active = await self.readers.run(lambda: self._decider.active)
        prior, family = active.prior, active.prior.family
        told = protocol.PriorAnswer(
            active.version, family.kind, prior.n_components, prior.weights.tolist(), prior.names,
            prior.arm_names,
        )  # fmt: skip
        if family.n_arms is not None:
            told.n_arms = family.n_arms
        if isinstance(family, LinearGaussian):
            told.n_features = family.n_features
        return answer(told)

    async def priors(self, request: Request) -> Response:
        """All versions, or one more."""
        if request.method == "POST":
            return await self._upload(request)
        rows = await self.readers.run(self._decider.priors)
        return answer([protocol.prior_version(row) for row in rows])

    async def _upload(self, request: Request) -> Response:
        activate = request.query_params.get("activate", "false")
        if activate not in ("true", "false"):
            raise RefusalError(422, "invalid", "activate must be true or false", "activate")
        head = read_head(request.scope["headers"], self._limits)
        protocol.check_json(head)
        limits = self._limits
        body = await read_body(request.receive, head, max(limits.prior, limits.body))

        def upload() -> protocol.Activation:
            protocol.check_prior(body, limits)
            version = self._decider.upload(MixturePrior.from_bytes(body, "the prior"))
            if activate == "true":
                self._decider.activate(version)
            return protocol.Activation(version, version == self._decider.prior_version)

        return answer(await self.readers.run(upload), 201)

    async def activate(self, request: Request) -> Response:
        """Put a version in force."""
        text = path_parameter(request, "version")
        rows = await self.readers.run(self._decider.priors)
        version = next((row.version for row in rows if str(row.version) == text), None)
        if version is None:
            known = ", ".join(str(row.version) for row in rows[-10:])
            raise RefusalError(
                404, "unknown_prior", f"there is no version {text[:20]!r}; the last are {known}",
                "version",
            )  # fmt: skip
        await self.readers.run(self._decider.activate, version)
        return answer(protocol.Activation(version, True))

    # -- for those who run the service --------------------------------------------------------

    async def alive(self, request: Request) -> Response:
        """The process answers."""
        return answer(protocol.HealthAnswer("ok"))

    async def ready(self, request: Request) -> Response:
        """Whether it can take writes."""
        health = self._decider.health()
        if not health.writable:
            # With tokens, this is open to strangers, to whom paths and hosts are no concern.
            told = None if self._token else health.reason
            reason = told or "the store cannot be written to"
            raise RefusalError(503, "store_unavailable", reason, headers=try_later(5))
        return answer(protocol.HealthAnswer("ok", health.pending))

    async def metrics(self, request: Request) -> Response:
        """Counters, times and totals."""
        health = self._decider.health()
        groups, operations = self._decider.groups
        gauges: dict[str, tuple[str, float]] = {
            "writable": ("Whether the store takes writes", int(health.writable)),
            "pending_operations": ("Operations that wait for the writer", health.pending),
            "groups": ("Groups that were committed", groups),
            "group_operations": ("Operations in all of these groups", operations),
        }
        with suppress(StoreError):  # what is counted here is told even so
            gauges |= await self.readers.run(self._stored)
        return Response(self._metrics.text(gauges), headers={"content-type": CONTENT_TYPE})

    def _stored(self) -> dict[str, tuple[str, float]]:
        totals = self._store.totals()
        stored = {
            f"store_{name}": (f"{name.capitalize()} in the store", getattr(totals, name))
            for name in ("tasks", "decisions", "rewards", "late")
        }
        version = self._decider.prior_version
        return stored | {"prior_version": ("The version of the prior in force", version)}

    async def openapi(self, request: Request) -> Response:
        """What this service understands."""
        return Response(self._document, media_type="application/json")

    # -- pages --------------------------------------------------------------------------------

    async def overview_page(self, request: Request) -> Response:
        """What happens now."""
        query = request.query_params
        search = query.get("search", "").replace("\0", "")[:MAX_NAME]
        offset = query.get("offset", "0")
        return await self._page(
            lambda: _dashboard().overview_page(
                self._decider, self._store, now=time.time(), search=search,
                offset=int(offset) if _OFFSET.fullmatch(offset) else 0,
                span=query.get("span", ""), address=_address(request), token=self._token,
            )
        )  # fmt: skip

    async def task_page(self, request: Request) -> Response:
        """One task."""
        if "task" in request.path_params:
            name = path_parameter(request, "task")
        else:
            name = request.query_params.get("name", "")
        try:
            return await self._page(
                lambda: _dashboard().task_page(
                    self._decider, self._store, name, now=time.time(),
                    address=_address(request), token=self._token,
                )
            )  # fmt: skip
        except (UnknownTaskError, ParameterError):
            return page(_dashboard().missing_page(name), 404)

    async def _page(self, render: Callable[[], str]) -> Response:
        try:
            return page(await self.readers.run(render))
        except StoreError as error:
            return page(_dashboard().unavailable_page(str(error)), 503)

    async def asset(self, request: Request) -> Response:
        """What pages need beside themselves."""
        found = _dashboard().ASSETS.get(request.path_params["name"])
        if found is None:
            raise RefusalError(404, "not_found", "there is nothing at this address")
        media_type, content = found
        return Response(content, headers={"content-type": media_type})


# -- requests and answers -------------------------------------------------------------------------


def path_parameter(request: Request, name: str) -> str:
    """A part of the path, decoded; routes match the path as it was sent."""
    try:
        return unquote(request.path_params[name], errors="strict")
    except UnicodeDecodeError:
        raise RefusalError(
            400, "bad_request", f"{name} must be UTF-8, percent-encoded", name
        ) from None


def answer(content: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(protocol.encode(content), status, media_type="application/json")


def page(content: str, status: int = 200) -> Response:
    """An answer in HTML; one that is for a while only says when to try again."""
    headers = {"content-security-policy": PAGE_POLICY}
    if status == 503:
        headers["retry-after"] = "5"
    return Response(content, status, headers, "text/html")


def _dashboard() -> Any:
    """The pages, imported when somebody looks: a service that starts again need not wait for it."""
    from mixts.service import dashboard

    return dashboard


_OFFSET = re.compile("[0-9]{1,12}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")


def _address(request: Request) -> str:
    """Where the client reaches the service, as far as it says so."""
    host = request.headers.get("host", "")
    return f"http://{host}" if _HOST.fullmatch(host) else "http://127.0.0.1"
