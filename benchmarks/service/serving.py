"""``mixts serve`` as a separate process, as users run it: start, watch and kill it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from problem import make_prior

CODE = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"
HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds that a server may take to be ready."""
GLANCE = 0.005
"""Seconds between checks whether a server is ready."""


def clean_up_when_terminated() -> None:
    """Make SIGTERM end a benchmark as Ctrl-C does: stop servers, remove folders."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Server:
    """A process of ``mixts serve`` on a store; it keeps its port when it is restarted."""

    program: Sequence[str] = ("-c", CODE)
    """What Python runs; ``mixts serve`` unless somebody sets another."""

    def __init__(self, store: str, prior: Path, log: Path, options: Sequence[str] = ()) -> None:
        self.address = (HOST, free_port())
        self.store = Path(store)
        self._words = ["--store", store, "--prior", str(prior), "--port", str(self.address[1])]
        self._words += options
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self.pids: list[int] = []
        """Processes whose memory counts: this one, and a proxy before it."""

    def start(self) -> None:
        """Start the process, without waiting until it is ready."""
        self._started = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.program, "serve", *self._words], stdout=log, stderr=log
            )
        self.pids = [self.pid]

    def is_ready(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            with socket.create_connection(self.address, timeout=5) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                return connection.recv(12) == b"HTTP/1.1 200"
        except OSError:
            return False

    def wait(self) -> float:
        """Wait until the server accepts requests; return the seconds since its start."""
        while not self.is_ready():
            if self._process.poll() is not None or self.age > PATIENCE:
                raise RuntimeError(f"mixts serve did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(GLANCE)
        return self.age

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._started

    def kill(self) -> None:
        """Kill the process: it cannot finish or flush anything."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop the process with SIGTERM, as an operator does."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        if code != 0:
            raise RuntimeError(f"mixts serve ended with {code}:\n{self._log.read_text()[-3000:]}")

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Return the memory that the process holds."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def serving(options: Sequence[str] = (), folder: str | None = None) -> Iterator[Server]:
    """Run a server on a new SQLite store in a temporary folder, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="mixts-bench-", dir=folder) as name:
        server = new_server(Path(name), str(Path(name) / "decisions.db"), options=options)
        server.start()
        try:
            server.wait()
            yield server
        finally:
            server.stop()


def new_server(
    folder: Path, store: str, name: str = "server", options: Sequence[str] = ()
) -> Server:
    """Return a server that is not started yet; its prior and its log are in the folder."""
    prior = folder / "prior.json"
    if not prior.exists():
        make_prior().save(prior)
    return Server(store, prior, folder / f"{name}.log", options)
