"""The server process: listen, serve until a signal arrives, finish the accepted requests."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from asyncio import TimerHandle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, cast

import numpy as np
import uvicorn
from prometheus_client import disable_created_metrics
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mixts.errors import MixtsError
from mixts.service.http import protocol
from mixts.service.http.app import Service
from mixts.service.http.limits import Limits, headers_too_large
from mixts.service.http.refusals import CLOSE, JSON, RefusalError, retry_after
from mixts.service.http.security import SECURITY_HEADERS
from mixts.service.policy import Policy
from mixts.service.versions import ActivePrior, some_actions

log = logging.getLogger("mixts.service")

STOP_SECONDS = 10
"""Time for open requests to finish after a signal to stop."""

IDLE_SECONDS = 75
"""Time after which a connection without a request is closed."""

BACKLOG = 2048


# -- connections ----------------------------------------------------------------------------------


class BufferedTransport:
    """Transport that sends the headers of a response together with the beginning of its body.

    uvicorn writes headers and body separately, so that a client wakes up twice. One write saves
    about 0.04 to 0.09 ms of the 0.26 to 0.52 ms that a request over loopback takes.
    """

    __slots__ = ("_headers", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._headers = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send a body; keep headers, which end with an empty line, until the body or ``flush``."""
        data = self._headers + data
        is_headers = data.endswith(b"\r\n\r\n") and not data.startswith(_CONTINUE)
        self._headers = data if is_headers else b""
        if not is_headers:
            self._transport.write(data)

    def flush(self) -> None:
        """Send what was kept: the response is complete."""
        kept, self._headers = self._headers, b""
        if kept:
            self._transport.write(kept)

    def close(self) -> None:
        """Send what was kept, and close."""
        self.flush()
        self._transport.close()


_CONTINUE = b"HTTP/1.1 100"
"""Clients wait for this response before they send the body."""


class Connection(HttpToolsProtocol):
    """A connection that limits size, time and number, which no option of uvicorn does.

    uvicorn's httptools parser collects headers of any size and waits for a request for ever (its
    ``h11_max_incomplete_event_size`` is for the slower h11 parser), and its ``limit_concurrency``
    refuses requests, not connections. Each override prevents an attack or a delay, and a test in
    ``tests/unit/service/http/test_connection.py`` fails without it:

    - headers without end, which fill the memory (``test_headers_without_end_are_431``);
    - requests sent byte by byte, which hold connections for ever ("slowloris";
      ``test_a_request_that_comes_too_slowly_is_408``), and connections that send nothing
      (``test_a_silent_connection_is_closed``);
    - as many connections as the process may have open files, after which the store cannot open
      its own (``test_too_many_connections_are_refused``);
    - an error for a malformed request before the response to the valid one sent ahead of it, which
      the client would take for that response (``test_the_request_before_is_answered_first``);
    - a second packet for each response (``BufferedTransport``).
    """

    def __init__(self, limits: Limits, max_connections: int, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._max_connections = max_connections
        self._n_bytes = 0
        """Bytes received since the last complete request."""
        self._in_headers = self._in_request = False
        self._deadline: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # transports of uvloop have no common class
        super().connection_made(cast(Any, BufferedTransport(transport)))
        # uvicorn starts this timer only after the first response.
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )
        if len(self.connections) > self._max_connections:
            busy = f"there are {self._max_connections:,} connections already: try again later"
            self._refuse(RefusalError(503, "overloaded", busy, headers=retry_after(1)))

    def data_received(self, data: bytes) -> None:
        self._n_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._n_bytes > self._limits.head:
            self._refuse(headers_too_large(self._limits))
        elif self._in_request:
            if self._deadline is None:
                self._deadline = self.loop.call_later(self._limits.seconds, self._time_out)
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = self._in_request = True

    def on_headers_complete(self) -> None:
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._n_bytes = 0
        self._in_request = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        cast(BufferedTransport, self.transport).flush()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn leaves it running after a reset

    def _time_out(self) -> None:
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            expected = f"a request must arrive within {self._limits.seconds:g} seconds"
            self._refuse(RefusalError(408, "timeout", expected))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            # Respond to the request before this one, then close.
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        self._refuse(RefusalError(400, "bad_request", "expected a request of HTTP/1.1"))

    def _refuse(self, refusal: RefusalError) -> None:
        """Send an error without the application, and close."""
        body = protocol.encode(protocol.error_response(refusal))
        length = (b"content-length", b"%d" % len(body))
        headers = dict([JSON, length, *SECURITY_HEADERS, *refusal.headers, CLOSE])
        lines = [b": ".join(header) + b"\r\n" for header in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[refusal.status], *lines, b"\r\n", body]))
        self.transport.close()


# -- sockets and signals --------------------------------------------------------------------------


def bind(host: str, port: int) -> socket.socket:
    """Return a socket with this address, which accepts no connections yet; port 0: any free one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        listener = socket.socket(family, kind, number)
    except OSError as error:
        raise OSError(f"cannot listen on {host}: {error.strerror}") from error
    try:
        if sys.platform != "win32":  # where two processes could then use the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class StopSignals:
    """Handler of the signals that stop the process.

    Before the service runs a signal interrupts the start; then it calls ``stop``, and the
    accepted requests are finished.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], None] | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.stop is None:
            raise KeyboardInterrupt
        self.stop()


@contextmanager
def handle_stop_signals() -> Iterator[StopSignals]:
    """Handle SIGINT, SIGTERM and SIGHUP inside the ``with`` block; other threads than the main one
    receive no signals."""
    signals = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    handled = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:  # set by nohup
        handled.append(hang_up)
    before = {number: signal.signal(number, signals.handle) for number in handled}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- serving --------------------------------------------------------------------------------------


def warm_up(active: ActivePrior, policy: Policy) -> None:
    """Decide and learn once, so that no client waits for compiled code to load."""
    prior = active.prior
    row = np.zeros(1, np.int64)
    offered = some_actions(prior)
    sets = None if offered is None else offered[None]
    try:
        tasks = active.codec.decode([b""])
        action = 0 if offered is None else offered[0]
        for waiting in (None, (np.array([action]), row)):
            agent = policy.resume(prior, tasks, 0)
            agent.act_with_probabilities(sets, row, None, policy.floor, waiting)
            if waiting is None:
                tasks.observe(row, tasks.observations(action, 1.0))
        agent.belief.mean_rewards(offered)
        active.codec.encode(tasks)
    except MixtsError as error:
        log.warning("the first requests will be slow: %s", error)


def run(
    service: Service,
    listener: socket.socket,
    signals: StopSignals,
    on_ready: Callable[[], None],
    *,
    limits: Limits,
    access_log: bool = False,
) -> None:
    """Serve until a signal, or ``signals.stop()``; call ``on_ready`` when clients can connect."""
    server = uvicorn.Server(_config(service, limits, access_log))

    def stop() -> None:
        server.force_exit = server.should_exit  # at the second signal
        server.should_exit = True

    # uvicorn handles SIGINT and SIGTERM itself, and raises them again at the end: for ``signals``,
    # which then does nothing more.
    signals.stop = stop
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter
    # From now on connections succeed; they wait until the event loop runs.
    listener.listen(BACKLOG)
    on_ready()
    # The objects of the start live as long as the process: the collector need not visit them.
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(server.serve([listener]))
    finally:
        gc.unfreeze()
        service.close()


def _config(service: Service, limits: Limits, access_log: bool) -> uvicorn.Config:
    return uvicorn.Config(
        service,
        # uvicorn calls it like a class.
        http=cast(Any, partial(Connection, limits, _max_connections())),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=access_log,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def _max_connections() -> int:
    """Return the number of files that the system allows, less those that the store needs."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return max(64, wanted - 256)
    return 1_000
