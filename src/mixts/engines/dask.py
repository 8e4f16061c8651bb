"""An engine that runs jobs on a Dask cluster: an existing one, or one that it starts.

A job depends on nothing but its arguments, so Dask may run it again after a worker died. The
numbers stay the same as long as all machines run the same versions: the engine checks them when it
connects, and every job checks its worker, because workers may join at any time.
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
from mixts._version import __version__
from mixts.engines._workers import ONE_THREAD, environment_variables, n_processors
from mixts.engines.base import JOBS_PER_WORKER, Engine
from mixts.errors import ClusterError, MissingExtraError, ParameterError
from mixts.sources import LIBRARY, sources_hash

CONNECT_SECONDS = 15.0
"""Longest wait for the answer of a scheduler."""

PATIENCE_SECONDS = 60.0
"""Longest time without any worker."""

_COUNT_SECONDS = 1.0
"""Time between two counts of the workers."""

_CANCEL_SECONDS = 5.0
"""Longest wait for abandoned jobs to be cancelled."""

_SHOWN_MACHINES = 3
"""Machines that an error message lists; the others usually differ in the same way."""

_IGNORE_INTERRUPT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""Ctrl-C reaches every process of a terminal, but the engine stops its workers itself."""


class DaskEngine(Engine):
    """The workers of a Dask cluster.

    Parameters
    ----------
    scheduler
        Address of the scheduler, such as ``"tcp://host:8786"``, or a client of Dask, which stays
        open. None starts a cluster on this machine; a script that does so must be guarded by
        ``if __name__ == "__main__":``.
    n_workers
        Number of processes of a cluster that is started here; by default one for each processor.
    """

    def __init__(self, scheduler: Any = None, n_workers: int | None = None) -> None:
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
                        "n_workers is for a cluster that is started here: a scheduler that runs "
                        "already has its own workers"
                    )
                self._client = _connect(self._distributed, scheduler, opened)
                _check_machines(self._client, self._versions)
                self.name = f"Dask at {self._client.scheduler.address}"
            self._count(self._client.nthreads())
            watch = asyncio.run_coroutine_threadsafe(self._watch(), self._client.loop.asyncio_loop)
            opened.callback(watch.cancel)
            self._opened = opened.pop_all()

    def share(self, value: Any) -> Any:
        """Return the value as the result of a Dask job, which Dask repeats if a worker dies.

        A scattered value would be lost with its worker: Dask's memory manager soon leaves one
        copy, even of a value that was sent to all workers.
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
        """Wait for the cluster's future, and pass its result to ours."""
        value, error = None, None
        try:
            value = await job
        except (Exception, asyncio.CancelledError) as reason:
            error = self._explained(reason)
        # From here on the future can no longer be cancelled.
        if future.set_running_or_notify_cancel():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        self._under_way.pop(future, None)

    def _forget(self, future: Future[Any]) -> None:
        """Cancel the cluster's job if ours was cancelled, without waiting for it."""
        job = self._under_way.get(future)
        if future.cancelled() and job is not None:
            with suppress(RuntimeError):  # the loop is closed, and everything with it
                self._client.loop.add_callback(job.cancel)

    def _explained(self, error: BaseException) -> BaseException:
        """Return an error that says what to do where Dask's own does not."""
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
        # Without any worker, some jobs wait for the first that joins.
        self.window = JOBS_PER_WORKER * max(1, sum(threads.values()))

    async def _watch(self) -> None:
        """Count the workers, and give up when there have been none for long."""
        last_seen = time.monotonic()
        while True:
            await asyncio.sleep(_COUNT_SECONDS)
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
        """Cancel the jobs or wait for them; end a cluster that was started here."""
        if abandon:
            for future in list(self._under_way):
                future.cancel()
        futures.wait(list(self._under_way), timeout=_CANCEL_SECONDS if abandon else None)
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
    """Start workers of one thread that only this machine can reach, without a dashboard."""
    import dask

    # Dask's nannies set these in this process when they start a worker, also a later one.
    opened.enter_context(environment_variables({**ONE_THREAD, "PYTHONHASHSEED": "0"}))
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
    with dask.config.set({"distributed.nanny.pre-spawn-environ": ONE_THREAD}):
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


def _connect(distributed: Any, scheduler: Any, opened: ExitStack) -> Any:
    """Return a client of the scheduler with at least one worker; a given client is checked."""
    if isinstance(scheduler, distributed.Client):
        if scheduler.asynchronous:
            raise ParameterError("the Dask client is asynchronous: use Client(address)")
        client, scheduler = scheduler, scheduler.scheduler.address
    else:
        client = _client_at(distributed, scheduler)
        opened.callback(client.close)
    try:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError as error:
        raise ParameterError(
            f"the Dask scheduler at {scheduler} has had no worker for {PATIENCE_SECONDS:.0f} "
            f"seconds: start some with `dask worker {scheduler}`"
        ) from error
    return client


def _client_at(distributed: Any, scheduler: str) -> Any:
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
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except OSError as error:
        raise ParameterError(
            f"no Dask scheduler answers at {scheduler} ({error}): {expected}"
        ) from error


# -- the same versions everywhere -----------------------------------------------------------------

Versions = dict[str, str]


@cache
def versions() -> Versions:
    """Return the versions of all that determines numbers to the bit, in this process."""
    found = {"Python": platform.python_version(), "mixts": __version__}
    found |= {name: metadata.version(name) for name in ("numpy", "scipy")}
    # During development the code changes while the version stays.
    found["mixts' code"] = sources_hash(LIBRARY.numerical())
    return found


def play(expected: Versions, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a job on a worker, if the worker has the same versions."""
    refuse_others(expected, {f"a worker at {platform.node()}": versions()})
    return function(*arguments)


def refuse_others(here: Versions, there: Mapping[str, Versions | BaseException]) -> None:
    """Raise ``ParameterError`` for machines with other versions, or without mixts."""
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
    """Compare the versions of all machines; the scheduler reads jobs too, so it needs mixts."""
    there: dict[str, Versions | BaseException] = {}
    try:
        there["the scheduler"] = client.run_on_scheduler(versions)
    except ImportError as error:
        there["the scheduler"] = error
    for address, found in client.run(versions, on_error="return").items():
        if not isinstance(found, OSError):  # a worker that just left
            there[f"worker {address}"] = found
    refuse_others(here, there)
