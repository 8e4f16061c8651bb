"""Measure how long an honest client waits while others send batches with very many actions.

    python benchmarks/service/crowd.py [--clients 8] [--seconds 20] [--source SRC]

A linear prior of 2 features and 3 components. Every client of the crowd sends batches of 13
decisions with 10,000 actions each, one after the other, whatever the service responds. The honest
client decides among 5 actions, 10 times a second. ``--source`` serves with the package of another
folder, to compare versions.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

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


def measure(server: Server, seconds: float) -> tuple[list[float], Counter[int]]:
    """Return how long each request of the honest client took, and the statuses."""
    actions = [[1, 0], [0, 1], [0.5, 0.5], [0.2, 0.9], [0.9, 0.2]]
    delays, statuses = [], Counter[int]()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        body = json.dumps({"task": f"honest {len(delays) % 50}", "actions": actions}).encode()
        started = time.perf_counter()
        statuses[post(server, "/v1/decide", body)] += 1
        delays.append(time.perf_counter() - started)
        time.sleep(PAUSE)
    return delays, statuses


def line(name: str, delays: list[float], statuses: Counter[int], crowd: Counter[int]) -> str:
    p50, p99 = np.percentile(delays, [50, 99])
    numbers = f"{1e3 * p50:.0f} ms | {1e3 * p99:.0f} ms | {1e3 * max(delays):.0f} ms"
    return f"| {name} | {len(delays)} | {numbers} | {dict(statuses)} | {dict(crowd)} |"


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
            print("| | requests | p50 | p99 | longest | responses | responses to the crowd |")
            print("|---|---|---|---|---|---|---|")
            print(line("alone", *measure(server, options.seconds / 4), Counter()), flush=True)
            crowd = Crowd(server, options.clients)
            found = measure(server, options.seconds)
            crowd.stop()
            print(line(f"with {options.clients} others", *found, crowd.statuses))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
