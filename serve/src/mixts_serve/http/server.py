"""The server process: listen, serve until a signal arrives, finish the accepted requests."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType

import uvicorn

from mixts_serve.http.app import Service
from mixts_serve.http.connections import Connection, WaitingConnections
from mixts_serve.http.limits import Limits

STOP_SECONDS = 10
"""Time for open requests to finish after a signal to stop."""

SILENT_SECONDS = 0.5
"""The same, if no request has begun: connections that rest do not hold the end up."""

BACKLOG = 4096

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
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


@contextmanager
def _signals_wake(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Wake the event loop at every signal: one that arrives as it falls asleep would wait."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    inner, outer = socket.socketpair()
    with inner, outer:
        inner.setblocking(False)
        outer.setblocking(False)
        loop.add_reader(inner, inner.recv, 4096)
        before = signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(inner)


# -- serving --------------------------------------------------------------------------------------


class Server(uvicorn.Server):
    """uvicorn, in this process: it has one event loop and owns the store."""

    def __init__(self, service: Service, limits: Limits) -> None:
        most = _max_connections(limits)
        connection = partial(Connection, service, limits, most, WaitingConnections())
        super().__init__(
            uvicorn.Config(
                service, http=connection, lifespan="off", ws="none",  # type: ignore[arg-type]
                interface="asgi3", backlog=BACKLOG, timeout_keep_alive=limits.seconds,  # type: ignore[arg-type]
                log_config=None, access_log=False, proxy_headers=False, server_header=False,
            )
        )  # fmt: skip

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave signals to ``Signals``."""
        return nullcontext()

    async def finish(self, serving: asyncio.Future[None], hurry: asyncio.Event) -> None:
        """Answer the requests that have begun, within some seconds or until ``hurry`` is set."""
        self.should_exit = True
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not serving.done() and not hurry.is_set():
            tasks = self.server_state.tasks
            if loop.time() - begun > (STOP_SECONDS if tasks else SILENT_SECONDS):
                break
            await asyncio.sleep(0.01)
        for request in list(self.server_state.tasks):
            request.cancel()  # the application refuses the request: the service is stopping
        self.force_exit = True
        await asyncio.wait([serving], timeout=SILENT_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # its client does not read
        serving.cancel()


def run(
    service: Service,
    listener: socket.socket,
    signals: Signals,
    on_ready: Callable[[], None],
    *,
    limits: Limits,
) -> None:
    """Serve until a signal, or ``signals.stop()``; call ``on_ready`` when requests are answered."""
    try:
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(_serve(service, listener, signals, on_ready, limits))
    finally:
        gc.unfreeze()


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes a fast event loop; None where there is none."""
    try:
        import uvloop
    except ImportError:  # Windows has none
        return None
    return uvloop.new_event_loop


async def _serve(
    service: Service,
    listener: socket.socket,
    signals: Signals,
    on_ready: Callable[[], None],
    limits: Limits,
) -> None:
    loop = asyncio.get_running_loop()
    stopping, hurry = asyncio.Event(), asyncio.Event()

    def begin_to_stop() -> None:
        (hurry if stopping.is_set() else stopping).set()

    def stop() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(begin_to_stop)

    server = Server(service, limits)
    with _signals_wake(loop):
        serving = asyncio.ensure_future(server.serve([listener]))
        signals.stop = stop
        try:
            # What the start made lives as long as the process: the collector need not visit it.
            gc.collect()
            gc.freeze()
            while not (server.started or serving.done()):
                await asyncio.sleep(0.001)
            if serving.done():
                await serving  # raises why the server did not start
            on_ready()
            await stopping.wait()
        finally:
            await server.finish(serving, hurry)
            service.close()


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
