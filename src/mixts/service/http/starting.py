"""The service before it is ready: it says so, while a thread compiles what decisions need."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from starlette.types import Receive, Scope, Send

from mixts.service.http import protocol
from mixts.service.http.app import Sender, Service
from mixts.service.http.refusals import RefusalError, retry_after

_NOT_READY = RefusalError(
    503, "starting", "the service is starting: it compiles, or loads, the code that decides",
    headers=retry_after(1),
)  # fmt: skip


class Starting:
    """An ASGI application that refuses all requests but ``/healthz``, until the service is ready.

    ``start`` opens the service, and may take long.
    """

    def __init__(self, start: Callable[[], Service]) -> None:
        self.start = start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request, without a look at who sends it: everybody is told the same."""
        sender = Sender(send)
        if scope["path"] == "/healthz":
            await sender.respond(200, protocol.encode(protocol.HealthStatus("ok")))
        else:
            await sender.refuse(_NOT_READY)

    async def ready(self) -> Service:
        """Start the service in a thread, which the process does not wait for if it ends."""
        started: Future[Service] = Future()
        started.set_running_or_notify_cancel()  # so that nobody can cancel it

        def start() -> None:
            try:
                started.set_result(self.start())
            except BaseException as error:
                started.set_exception(error)

        threading.Thread(target=start, name="mixts-start", daemon=True).start()
        return await asyncio.wrap_future(started)
