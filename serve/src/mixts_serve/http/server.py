"""The server process: listen, serve until a signal arrives, finish the accepted requests."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from mixts_serve.http.app import Service
from mixts_serve.http.connections import Connection

STOP_SECONDS = 10
"""Time for open requests to finish after a signal to stop."""

IDLE_SECONDS = 30
"""Time that a connection may rest between two requests. A proxy should close idle ones sooner."""

BACKLOG = 4096

SIGHUP = getattr(signal, "SIGHUP", None)  # not on Windows


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


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        service, http=Connection,
        lifespan="off", ws="none", interface="asgi3", backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS, timeout_graceful_shutdown=STOP_SECONDS,
        log_config=None, access_log=False, proxy_headers=False, server_header=False,
    )  # fmt: skip


class Server(uvicorn.Server):
    """uvicorn in this process, with one event loop.

    It calls ``on_ready`` once it accepts requests. At a SIGHUP it calls ``on_hang_up``, or, if that
    is None, stops as at SIGTERM and SIGINT.
    """

    def __init__(
        self, service: Service, on_ready: Callable[[], None],
        on_hang_up: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(_config(service))
        self._on_ready, self._on_hang_up = on_ready, on_hang_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, then call ``on_ready``."""
        await super().startup(sockets)
        # What the start made lives as long as the process: the collector need not visit it.
        gc.collect()
        gc.freeze()
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the requests that have begun, within some seconds, and end all connections."""
        await super().shutdown(sockets)
        if self.server_state.connections:
            await asyncio.sleep(0.1)  # requests that still wait are refused
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # its client does not read

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals; unlike uvicorn, do not raise them again: the store must be closed.

        Threads other than the main one receive no signals. SIGHUP stays ignored if it is, as under
        nohup, unless there is something to call.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = [signal.SIGINT, signal.SIGTERM]
        if SIGHUP is not None and (self._on_hang_up or signal.getsignal(SIGHUP) != signal.SIG_IGN):
            handled.append(SIGHUP)
        before = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            if SIGHUP is not None:  # the command line held it back until there is a handler
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {SIGHUP})
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Call ``on_hang_up`` at a SIGHUP if there is one; otherwise stop."""
        if sig == SIGHUP and self._on_hang_up is not None:
            self._on_hang_up()
        else:
            super().handle_exit(sig, frame)


def run(
    service: Service,
    listener: socket.socket,
    on_ready: Callable[[], None],
    on_hang_up: Callable[[], None] | None = None,
) -> None:
    """Serve until a signal; see ``Server``."""
    try:
        Server(service, on_ready, on_hang_up).run([listener])
    finally:
        service.close()
        gc.unfreeze()
