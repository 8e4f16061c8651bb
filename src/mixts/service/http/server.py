"""The process: listen, say so, serve until told to stop, finish what was accepted."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, cast

import numpy as np
import uvicorn

from mixts.agents import MixTS
from mixts.errors import MixtsError
from mixts.service.http.app import Service
from mixts.service.http.connection import Connection
from mixts.service.http.limits import Limits
from mixts.service.versions import ActivePrior, some_actions

log = logging.getLogger("mixts.service")

STOP_SECONDS = 10
"""For requests to be answered after the service was told to stop."""

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address, which nobody can connect to yet; port 0 is any free one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        listener = socket.socket(family, kind, number)
    except OSError as error:
        raise OSError(f"cannot listen on {host}: {error.strerror}") from error
    try:
        if sys.platform != "win32":  # where it would let two listen on one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warm_up(active: ActivePrior, floor: float) -> None:
    """Decide, learn, decide and look, so that no client waits for what is compiled or loaded."""
    prior = active.prior
    row = np.zeros(1, np.int64)
    offered = some_actions(prior)
    sets = None if offered is None else offered[None]
    try:
        tasks = active.codec.decode([b""])
        for action in (0 if offered is None else offered[0], None):
            agent = MixTS.resume(prior, tasks, 0)
            agent.act_with_probabilities(sets, row, floor=floor)
            if action is not None:
                tasks.observe(row, tasks.observations(action, 1.0))
        agent.belief.mean_rewards(offered)
        active.codec.encode(tasks)
    except MixtsError as error:
        log.warning("the first requests will be slow: %s", error)


class Stop:
    """Who is told when the process is to end; nobody yet, and it is interrupted."""

    def __init__(self) -> None:
        self.times = 0
        self.tell: Callable[[], None] | None = None

    def signal(self, number: int, frame: FrameType | None) -> None:
        """What a signal does."""
        self.times += 1
        if self.tell is None:
            raise KeyboardInterrupt
        self.tell()


@contextmanager
def told_to_stop() -> Iterator[Stop]:
    """Once the service runs, a signal does not interrupt: what was accepted is finished."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    known = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:  # as nohup has it
        known.append(hang_up)
    before = {number: signal.signal(number, stop.signal) for number in known}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """uvicorn, started and stopped our way."""

    def __init__(self, config: uvicorn.Config, stop: Stop, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # whoever started us has them

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._stop.tell = self._end
        self._ready()

    def _end(self) -> None:
        self.force_exit = self._stop.times > 1
        self.should_exit = True


def run(
    service: Service,
    listener: socket.socket,
    stop: Stop,
    ready: Callable[[], None],
    *,
    limits: Limits,
    access_log: bool = False,
) -> None:
    """Serve until told to stop; ``ready`` is called when connections are accepted."""
    server = _Server(_config(service, limits, access_log), stop, ready)
    # What there is now stays: it need not be looked through again whenever garbage is collected.
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
        # A class, as far as uvicorn can tell.
        http=cast(Any, partial(Connection, limits, _most_connections())),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=access_log,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def _most_connections() -> int:
    """As many as the system allows files for, less those that the store needs."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return max(64, wanted - 256)
    return 1_000
