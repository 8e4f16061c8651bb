"""Jobs on a cluster of Dask distributed, or on one that is started here.

A job depends on nothing but its arguments, so Dask may play it again where a worker died, and the
numbers stay the same as long as all machines run the same versions. That is checked when an engine
connects, and by every job for itself: workers may join at any time.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from functools import cache
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from mixts import _checks
from mixts._sources import numerical_sources, sources_hash
from mixts._version import __version__
from mixts.engines.base import JOBS_PER_WORKER, Engine
from mixts.engines.workers import ONE_THREAD, environment_variables, n_processors
from mixts.errors import ClusterError, MissingExtraError, ParameterError

CONNECT_SECONDS = 15.0
"""How long a scheduler has to answer."""

PATIENCE_SECONDS = 60.0
"""How long there may be no worker at all."""

_LOOK_SECONDS = 1.0
"""How often the workers are counted."""

_SETTLE_SECONDS = 5.0
"""How long jobs that are abandoned may take to be forgotten."""

_SHOWN_MACHINES = 3
"""More differ in the same way, as a rule."""

_IGNORE_INTERRUPT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""Ctrl-C reaches every process of a terminal, but to stop workers is the engine's business."""


class DaskEngine(Engine):
    """Workers of the Dask cluster whose scheduler is at an address such as ``tcp://host:8786``.

    Without an address, ``n_workers`` processes on this machine (as many as processors unless said
    otherwise), which are its own: a script that makes it so must be guarded by
    ``if __name__ == "__main__":``.
    """

    def __init__(self, scheduler: str | None = None, n_workers: int | None = None) -> None:
        self._distributed = _distributed()
        self._under_way: dict[Future[Any], Any] = {}
        self._shared: dict[int, tuple[Any, Any]] = {}
        self._versions = versions()
        self._given_up: str | None = None
        with ExitStack() as opened:
            if scheduler is None:
                n = n_processors() if n_workers is None else _checks.count(n_workers, "n_workers")
                self._client = _start(self._distributed, n, opened)
                self.name = f"{n} Dask worker{'s' if n > 1 else ''}"
            else:
                if n_workers is not None:
                    raise ParameterError(
                        "n_workers is for a cluster that is started here: the workers of a "
                        "scheduler are as many as there are"
                    )
                self._client = _connect(self._distributed, scheduler, opened)
                _check_machines(self._client, self._versions)
                self.name = f"Dask at {scheduler}"
            self._count(self._client.nthreads())
            watch = asyncio.run_coroutine_threadsafe(self._watch(), self._client.loop.asyncio_loop)
            opened.callback(watch.cancel)
            self._opened = opened.pop_all()

    def share(self, value: Any) -> Any:
        """The value as the result of a job, which Dask repeats where it was lost with a worker.

        What is scattered instead would be lost: Dask's memory manager soon leaves one copy, even
        of what was sent to all.
        """
        if id(value) not in self._shared:
            import dask

            pickle = self._distributed.protocol.pickle
            # The warning is about values that are sent with every job.
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
                made = self._client.submit(pickle.loads, pickle.dumps(value), pure=False)
            self._shared[id(value)] = value, made  # the value too, lest another get its id
        return self._shared[id(value)][1]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        job = self._client.submit(play, self._versions, function, *arguments, pure=False)
        future: Future[Any] = Future()
        self._under_way[future] = job
        future.add_done_callback(self._forget)
        self._client.loop.add_callback(self._follow, job, future)
        return future

    async def _follow(self, job: Any, future: Future[Any]) -> None:
        """Wait for the cluster's future, and tell ours."""
        value, error = None, None
        try:
            value = await job
        except (Exception, asyncio.CancelledError) as reason:
            error = self._explained(reason)
        # Whoever cancelled it until now is told so; from here on nobody can.
        if future.set_running_or_notify_cancel():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        self._under_way.pop(future, None)

    def _forget(self, future: Future[Any]) -> None:
        """What was cancelled here is cancelled there, without waiting for it."""
        job = self._under_way.get(future)
        if future.cancelled() and job is not None:
            with suppress(RuntimeError):  # the loop is closed, and everything with it
                self._client.loop.add_callback(job.cancel)

    def _explained(self, error: BaseException) -> BaseException:
        if isinstance(error, self._distributed.KilledWorker):
            explained = ClusterError(
                f"{error.allowed_failures + 1} Dask workers died one after the other while they "
                "had the same job, so it was given up. Perhaps their memory is too small; the log "
                f"of the last one, {error.last_worker.address}, may say more"
            )
        elif isinstance(error, (CancelledError, asyncio.CancelledError)):
            explained = ClusterError(
                self._given_up
                or f"the Dask scheduler gave up a job, or is gone ({error}): look at its log, and "
                "start again"
            )
        else:
            return error
        explained.__cause__ = error
        return explained

    def _count(self, threads: Mapping[str, int]) -> None:
        # While there is nobody, jobs may wait for the first who comes.
        self.window = JOBS_PER_WORKER * max(1, sum(threads.values()))

    async def _watch(self) -> None:
        """Count the workers, and give up where there are none for long."""
        last_seen = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with suppress(OSError):  # the client itself notices when the scheduler is gone
                threads = await self._client.nthreads()
                self._count(threads)
                if threads or not self._under_way:
                    last_seen, self._given_up = time.monotonic(), None
            if time.monotonic() - last_seen > PATIENCE_SECONDS:
                self._given_up = (
                    f"no Dask worker was left for {PATIENCE_SECONDS:.0f} seconds: look at the "
                    "workers' logs, and start again when there are some"
                )
                await self._client.cancel(list(self._under_way.values()))

    def close(self, *, abandon: bool) -> None:
        """Cancel or await what is under way; a cluster that was started here ends."""
        if abandon:
            for future in list(self._under_way):
                future.cancel()
        futures.wait(list(self._under_way), timeout=_SETTLE_SECONDS if abandon else None)
        self._shared.clear()
        self._opened.close()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError(
            "a Dask cluster needs distributed: pip install 'mixts[dask]'"
        ) from error
    return distributed


def _start(distributed: Any, n_workers: int, opened: ExitStack) -> Any:
    """Processes of one thread that only this machine can reach; nothing is shown in browsers."""
    import dask

    # Dask's nannies set these in this process when they start a worker, also a later one.
    threads = {name: "1" for name in ONE_THREAD if not name.startswith("NUMBA")}
    opened.enter_context(environment_variables({**threads, "PYTHONHASHSEED": "0"}))
    # On a busy machine a worker may take long to start again.
    opened.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}))
    here = {
        "host": "127.0.0.1",
        "protocol": "tcp://",
        "dashboard": False,
        "dashboard_address": "127.0.0.1:0",
        "security": distributed.Security(require_encryption=False),
    }
    quiet = {"silence_logs": logging.CRITICAL}
    worker = {
        "nthreads": 1,
        "memory_limit": 0,
        "env": ONE_THREAD,
        "preload": [_IGNORE_INTERRUPT],
        **here,
        **quiet,
    }
    with dask.config.set({"distributed.nanny.pre-spawn-environ": threads}):
        cluster = distributed.SpecCluster(
            scheduler={"cls": distributed.Scheduler, "options": {"port": 0, **here}},
            workers={i: {"cls": distributed.Nanny, "options": worker} for i in range(n_workers)},
            security=here["security"],
            **quiet,
        )
    opened.callback(cluster.close)
    client = distributed.Client(cluster, set_as_default=False)
    opened.callback(client.close)
    return client


def _connect(distributed: Any, scheduler: str, opened: ExitStack) -> Any:
    address = scheduler if "://" in scheduler else f"tcp://{scheduler}"
    expected = "start one with `dask scheduler`, and give its address, such as tcp://host:8786"
    try:
        parts = urlsplit(address)
        whole = parts.hostname is not None and parts.port is not None
    except ValueError:
        whole = False
    if not whole or parts.scheme not in ("tcp", "tls", "ws", "wss"):
        raise ParameterError(f"{scheduler!r} is no address of a Dask scheduler: {expected}")
    certificates = distributed.Security().get_connection_args("client").get("ssl_context")
    if parts.scheme in ("tls", "wss") and certificates is None:
        raise ParameterError(
            f"{scheduler} needs certificates, and Dask's configuration names none: set "
            "distributed.comm.tls there"
        )
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except OSError as error:
        raise ParameterError(
            f"no Dask scheduler answers at {scheduler} ({error}): {expected}"
        ) from error
    opened.callback(client.close)
    try:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError as error:
        raise ParameterError(
            f"the Dask scheduler at {scheduler} has had no worker for {PATIENCE_SECONDS:.0f} "
            f"seconds: start some with `dask worker {scheduler}`"
        ) from error
    return client


# -- the same versions everywhere -----------------------------------------------------------------

Versions = dict[str, str]


@cache
def versions() -> Versions:
    """Of all that determines numbers to the bit, in this process."""
    found = {"Python": platform.python_version(), "mixts": __version__}
    found |= {name: metadata.version(name) for name in ("numpy", "scipy", "numba")}
    # A version may be in the making: its number stays while its code changes.
    found["mixts' code"] = sources_hash(numerical_sources())
    return found


def play(expected: Versions, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker is asked to do."""
    refuse_others(expected, {f"a worker at {platform.node()}": versions()})
    return function(*arguments)


def refuse_others(here: Versions, there: Mapping[str, Versions | BaseException]) -> None:
    """Refuse machines whose versions differ, or that could not even say which they have."""
    complaints = []
    for machine, found in there.items():
        if isinstance(found, BaseException):
            complaints.append(f"{machine} cannot import mixts ({found})")
        elif found != here:
            changed = ", ".join(
                f"{name} {found.get(name, 'missing')} (here {version})"
                for name, version in here.items()
                if found.get(name) != version
            )
            complaints.append(f"{machine} has {changed}")
    if complaints:
        more = len(complaints) - _SHOWN_MACHINES
        shown = "; ".join(complaints[:_SHOWN_MACHINES]) + (f"; and {more} more" if more > 0 else "")
        raise ParameterError(
            f"{shown}. The same numbers need the same versions: install them on all machines of "
            "the cluster"
        )


def _check_machines(client: Any, here: Versions) -> None:
    """The scheduler reads jobs too, so it needs mixts as workers do."""
    there: dict[str, Versions | BaseException] = {}
    try:
        there["the scheduler"] = client.run_on_scheduler(versions)
    except ImportError as error:
        there["the scheduler"] = error
    for address, found in client.run(versions, on_error="return").items():
        if not isinstance(found, OSError):  # one that just left
            there[f"worker {address}"] = found
    refuse_others(here, there)
