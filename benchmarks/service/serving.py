"""``mixts serve`` as a process of its own, as users run it: started, watched, killed."""

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
"""Seconds between looks whether it is ready."""


def clean_up_when_terminated() -> None:
    """SIGTERM ends a benchmark as Ctrl-C does: servers are stopped, folders are removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Server:
    """One ``mixts serve`` on a store; it keeps its port when it is started again."""

    def __init__(self, store: str, prior: Path, log: Path, options: Sequence[str] = ()) -> None:
        self.address = (HOST, free_port())
        self._words = ["--store", store, "--prior", str(prior), "--port", str(self.address[1])]
        self._words += options
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    def start(self) -> None:
        """Begin to start it."""
        self._started = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", CODE, "serve", *self._words], stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        """Whether it takes requests; asked once, over a connection of its own."""
        try:
            with socket.create_connection(self.address, timeout=5) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                return connection.recv(12) == b"HTTP/1.1 200"
        except OSError:
            return False

    def wait(self) -> float:
        """Wait until it takes requests; how long that took since its start, in seconds."""
        while not self.is_ready():
            if self._process.poll() is not None or self.age > PATIENCE:
                raise RuntimeError(f"mixts serve did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(GLANCE)
        return self.age

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.perf_counter() - self._started

    def kill(self) -> None:
        """End it at once: it cannot finish, flush or say anything."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it as an operator does."""
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
        """Of all its threads so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(options: Sequence[str] = (), folder: str | None = None) -> Iterator[Server]:
    """A server on a new SQLite store in a temporary folder, ready; stopped at the end."""
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
    """A server that is not started yet; its prior and its log are in the folder."""
    prior = folder / "prior.json"
    if not prior.exists():
        make_prior().save(prior)
    return Server(store, prior, folder / f"{name}.log", options)
