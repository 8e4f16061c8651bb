"""The server process: listen, serve until a signal arrives, finish the accepted requests."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

from prometheus_client import disable_created_metrics

from mixts.service.http.app import Service
from mixts.service.http.connection import Connection
from mixts.service.http.connections import Connections
from mixts.service.http.limits import Limits
from mixts.service.http.starting import Starting

STOP_SECONDS = 10
"""Time for open requests to finish after a signal to stop."""

BACKLOG = 2048

OTHER_FILES = 256
"""Open files that the store and the rest of the process may need."""


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


class Signals:
    """Handler of the signals that stop the process, or make it read its tokens again.

    Before the service runs a signal interrupts the start; then it calls ``stop``, and the
    accepted requests are finished. With ``reads_tokens``, SIGHUP calls what ``on_hang_up`` was
    given instead, as soon as there is something to call.
    """

    def __init__(self, *, reads_tokens: bool = False) -> None:
        self.stop: Callable[[], None] | None = None
        self._reads_tokens = reads_tokens
        self._hang_up: Callable[[], None] | None = None
        self._has_hung_up = False

    def on_hang_up(self, call: Callable[[], None]) -> None:
        """Call a function at every SIGHUP, and now if one came before."""
        self._hang_up = call
        if self._has_hung_up:
            call()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if number == SIGHUP and self._reads_tokens:
            self._has_hung_up = True
            if self._hang_up is not None:
                self._hang_up()
        elif self.stop is None:
            raise KeyboardInterrupt
        else:
            self.stop()


SIGHUP = getattr(signal, "SIGHUP", None)  # not on Windows


@contextmanager
def handle_signals(*, reads_tokens: bool = False) -> Iterator[Signals]:
    """Handle SIGINT, SIGTERM and SIGHUP inside the ``with`` block; other threads than the main one
    receive no signals.

    SIGHUP stays ignored if it is, as under nohup, unless it makes the service read its tokens.
    """
    signals = Signals(reads_tokens=reads_tokens)
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    handled = [signal.SIGINT, signal.SIGTERM]
    if SIGHUP is not None and (reads_tokens or signal.getsignal(SIGHUP) is not signal.SIG_IGN):
        handled.append(SIGHUP)
    before = {number: signal.signal(number, signals.handle) for number in handled}
    try:
        if SIGHUP is not None:  # the command line held it back until there is a handler
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {SIGHUP})
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- serving --------------------------------------------------------------------------------------


def run(
    service: Service | Starting,
    listener: socket.socket,
    signals: Signals,
    on_ready: Callable[[], None],
    *,
    limits: Limits,
) -> None:
    """Serve until a signal, or ``signals.stop()``; call ``on_ready`` when the service is ready.

    A signal before that raises ``KeyboardInterrupt``.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter
    try:
        with asyncio.Runner(loop_factory=_new_event_loop) as runner:
            was_ready = runner.run(_serve(service, listener, signals, on_ready, limits))
    finally:
        gc.unfreeze()
    if not was_ready:
        raise KeyboardInterrupt


async def _serve(
    service: Service | Starting,
    listener: socket.socket,
    signals: Signals,
    on_ready: Callable[[], None],
    limits: Limits,
) -> bool:
    """Serve; return whether the service was ready before a signal to stop arrived."""
    loop = asyncio.get_running_loop()
    stopping, hurry = asyncio.Event(), asyncio.Event()

    def begin_to_stop() -> None:
        (hurry if stopping.is_set() else stopping).set()

    def stop() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(begin_to_stop)

    connections = Connections(service, limits, _max_connections(limits))
    server = await loop.create_server(
        partial(Connection, connections), sock=listener, backlog=BACKLOG
    )
    signals.stop = stop
    try:
        if isinstance(service, Starting):
            opened = await _opened(service, stopping)
            if opened is None:
                return False
            connections.app = service = opened
        # The objects of the start live as long as the process: the collector need not visit them.
        gc.collect()
        gc.freeze()
        on_ready()
        await stopping.wait()
    finally:
        server.close()
        await connections.stop(STOP_SECONDS, hurry)
        if isinstance(service, Service):
            service.close()
    return True


async def _opened(starting: Starting, stopping: asyncio.Event) -> Service | None:
    """Return the service when it is ready; None if a signal to stop arrives before."""
    ready = asyncio.ensure_future(starting.ready())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([ready, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if ready.done():
        return ready.result()
    ready.cancel()
    return None


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _max_connections(limits: Limits) -> int:
    """Return the number of connections, less than the files that the system allows."""
    files = limits.connections + OTHER_FILES
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = files if hard == resource.RLIM_INFINITY else min(files, hard)
        if soft != resource.RLIM_INFINITY and soft < files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return min(limits.connections, max(64, files - OTHER_FILES))
