"""Measure how long an honest client waits while others send batches with very many actions.

    python benchmarks/service/crowd.py [--clients 8] [--seconds 20] [--source SRC]

A linear prior of 2 features and 3 components. Every client of the crowd sends batches of 13
decisions with 10,000 actions each, one after the other, whatever the service responds. The honest
client decides among 5 actions, 10 times a second. The line "beside busy processes" shows how much
of its wait is due to the machine: the service has nothing else to do, and every core has a process
that computes. The last column leaves out, for each request, the time that a thread of the service
was ready to run and waited for a core (the largest of all threads, by the kernel's count; Linux
only). ``--source`` serves with the package of another folder, to compare versions.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from serving import Server, clean_up_when_terminated

import mixts

PAUSE = 0.1
"""Seconds between requests of the honest client."""
HEADERS = {"Content-Type": "application/json"}


def make_prior() -> mixts.MixturePrior:
    """Return a linear prior of 2 features and 3 components."""
    mean = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    return mixts.MixturePrior(mixts.LinearGaussian(mean, np.stack([np.eye(2)] * 3), 0.5))


def post(server: Server, path: str, body: bytes) -> int:
    """Send one request on a new connection, and return the status."""
    connection = http.client.HTTPConnection(*server.address, timeout=300)
    try:
        connection.request("POST", path, body, HEADERS)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


@contextmanager
def busy_processes() -> Iterator[int]:
    """Keep every core busy with a process that has nothing to do with the service."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield len(busy)
    finally:
        for one in busy:
            one.kill()
            one.wait()


class Crowd:
    """Threads that send large batches until they are told to stop."""

    def __init__(self, server: Server, n: int) -> None:
        self._server = server
        self._stop = threading.Event()
        self.statuses: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._run, args=(k,)) for k in range(n)]
        for thread in self._threads:
            thread.start()

    def _run(self, k: int) -> None:
        actions = [[1, 0], [0, 1]] * 5_000
        items = [{"task": f"crowd {k} {i}", "actions": actions} for i in range(13)]
        body = json.dumps(items, separators=(",", ":")).encode()
        while not self._stop.is_set():
            status = post(self._server, "/v1/decide:batch", body)
            self.statuses[status] += 1
            if status == 503:
                time.sleep(1.0)  # Retry-After

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def core_waits(pid: int) -> dict[str, float]:
    """Return the seconds that each thread of a process was ready to run without a core."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return found


class Measured(NamedTuple):
    """Requests of the honest client."""

    delays: list[float]
    without_waits: list[float]
    """The same without the time that the service waited for a core."""
    statuses: Counter[int]


def measure(server: Server, seconds: float) -> Measured:
    """Return how long each request of the honest client took, and the statuses."""
    actions = [[1, 0], [0, 1], [0.5, 0.5], [0.2, 0.9], [0.9, 0.2]]
    found = Measured([], [], Counter())
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        task = f"honest {len(found.delays) % 50}"
        body = json.dumps({"task": task, "actions": actions}).encode()
        before = core_waits(server.pid)
        started = time.perf_counter()
        found.statuses[post(server, "/v1/decide", body)] += 1
        delay = time.perf_counter() - started
        after = core_waits(server.pid)
        found.delays.append(delay)
        found.without_waits.append(delay - max(after[k] - before.get(k, 0.0) for k in after))
        time.sleep(PAUSE)
    return found


def line(name: str, found: Measured, crowd: Counter[int]) -> str:
    numbers = [*np.percentile(found.delays, [50, 99, 100]), max(found.without_waits)]
    cells = " | ".join(f"{1e3 * number:.0f} ms" for number in numbers)
    return f"| {name} | {len(found.delays)} | {cells} | {dict(found.statuses)} | {dict(crowd)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--source", help="folder of the package to serve with")
    options = parser.parse_args()
    clean_up_when_terminated()
    with tempfile.TemporaryDirectory(prefix="mixts-bench-") as name:
        folder = Path(name)
        make_prior().save(folder / "prior.json")
        if options.source:
            os.environ["PYTHONPATH"] = options.source
        server = Server(str(folder / "decisions.db"), folder / "prior.json", folder / "log")
        server.start()
        try:
            server.wait()
            titles = ["", "requests", "p50", "p99", "longest", "longest without waits for a core"]
            titles += ["responses", "responses to the crowd"]
            print(f"| {' | '.join(titles)} |\n" + "|---" * len(titles) + "|")
            print(line("alone", measure(server, options.seconds / 4), Counter()), flush=True)
            with busy_processes() as n:
                found = measure(server, options.seconds / 2)
                print(line(f"beside {n} busy processes", found, Counter()), flush=True)
            crowd = Crowd(server, options.clients)
            found = measure(server, options.seconds)
            crowd.stop()
            print(line(f"with {options.clients} others", found, crowd.statuses))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
