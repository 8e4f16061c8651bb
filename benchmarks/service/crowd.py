"""Measure how long an honest client waits while others ask for very large decisions.

    python benchmarks/service/crowd.py [--cases batches,1000,10000] [--seconds 20] [--source SRC]

*batches*: under a linear prior of 2 features and 3 components, each of 8 clients sends batches of
13 decisions with 10,000 actions each, one after the other, whatever the service responds. The
honest client decides among 5 actions, 10 times a second. *1000* and *10000*: under a prior of so
many Bernoulli arms and 6 components, one client asks for decisions with a cost of its own for each
arm, and the honest client reports rewards.

The line "beside busy processes" shows how much of its wait is due to the machine: the service has
nothing else to do, and every core has a process that computes. The last column leaves out, for each
request, the time that a thread of the service was ready to run and waited for a core (the largest
of all threads, by the kernel's count; Linux only). ``--source`` serves with the package of another
folder, to compare versions.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from serving import Server, clean_up_when_terminated

import mixts

PAUSE = 0.1
"""Seconds between requests of the honest client."""
HEADERS = {"Content-Type": "application/json"}


class Case(NamedTuple):
    """A prior, what the crowd sends, and what the honest client sends."""

    prior: mixts.MixturePrior
    clients: int
    path: str
    body: Callable[[int], bytes]
    """Body of all requests of a client of the crowd, by its number."""
    honest: Callable[[Server], tuple[str, list[bytes]]]
    """Path and bodies of the honest client's requests, which it repeats."""


def encode(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def batches() -> Case:
    mean = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    prior = mixts.MixturePrior(mixts.LinearGaussian(mean, np.stack([np.eye(2)] * 3), 0.5))
    many, few = [[1, 0], [0, 1]] * 5_000, [[1, 0], [0, 1], [0.5, 0.5], [0.2, 0.9], [0.9, 0.2]]

    def body(k: int) -> bytes:
        return encode([{"task": f"crowd {k} {i}", "actions": many} for i in range(13)])

    def honest(server: Server) -> tuple[str, list[bytes]]:
        return "/v1/decide", [encode({"task": f"honest {i}", "actions": few}) for i in range(50)]

    return Case(prior, 8, "/v1/decide:batch", body, honest)


def priced(n_arms: int) -> Case:
    rng = np.random.default_rng(0)
    prior = mixts.MixturePrior(mixts.BernoulliArms(*rng.uniform(1, 5, (2, 6, n_arms))))
    costs = rng.uniform(0.0, 0.1, n_arms).round(4).tolist()

    def honest(server: Server) -> tuple[str, list[bytes]]:
        made = [request(server, "/v1/decide", encode({"task": f"honest {i}"})) for i in range(50)]
        ids = [json.loads(content)["id"] for _, content in made]
        return "/v1/reward", [encode({"id": id, "value": 1}) for id in ids]

    return Case(prior, 1, "/v1/decide", lambda k: encode({"task": "crowd", "costs": costs}), honest)


CASES = {
    "batches": batches,
    "1000": partial(priced, 1_000),
    "10000": partial(priced, 10_000),
}


def request(server: Server, path: str, body: bytes) -> tuple[int, bytes]:
    """Send one request on a new connection, and return the status and the response."""
    connection = http.client.HTTPConnection(*server.address, timeout=300)
    try:
        connection.request("POST", path, body, HEADERS)
        response = connection.getresponse()
        return response.status, response.read()
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
    """Threads that send large requests until they are told to stop."""

    def __init__(self, server: Server, case: Case) -> None:
        self._server, self._case = server, case
        self._stop = threading.Event()
        self.statuses: Counter[int] = Counter()
        for k in range(case.clients):
            threading.Thread(target=self._run, args=(k,), daemon=True).start()

    def _run(self, k: int) -> None:
        body = self._case.body(k)
        with suppress(OSError, http.client.HTTPException):  # the service has ended
            while not self._stop.is_set():
                status, _ = request(self._server, self._case.path, body)
                self.statuses[status] += 1
                if status == 503:
                    time.sleep(1.0)  # Retry-After

    def stop(self) -> None:
        self._stop.set()


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


def measure(server: Server, path: str, bodies: list[bytes], seconds: float) -> Measured:
    """Return how long each request of the honest client took, and the statuses."""
    found = Measured([], [], Counter())
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        before = core_waits(server.pid)
        started = time.perf_counter()
        status, _ = request(server, path, bodies[len(found.delays) % len(bodies)])
        delay = time.perf_counter() - started
        after = core_waits(server.pid)
        found.statuses[status] += 1
        found.delays.append(delay)
        found.without_waits.append(delay - max(after[k] - before.get(k, 0.0) for k in after))
        time.sleep(PAUSE)
    return found


def line(name: str, found: Measured, crowd: Counter[int]) -> str:
    numbers = [*np.percentile(found.delays, [50, 99, 100]), max(found.without_waits)]
    cells = " | ".join(f"{1e3 * number:.0f} ms" for number in numbers)
    return f"| {name} | {len(found.delays)} | {cells} | {dict(found.statuses)} | {dict(crowd)} |"


def run(name: str, folder: Path, seconds: float) -> None:
    """Print the lines of one case."""
    case = CASES[name]()
    case.prior.save(folder / "prior.json")
    server = Server(str(folder / "decisions.db"), folder / "prior.json", folder / "log")
    server.start()
    try:
        server.wait()
        asked = case.honest(server)
        print(line(f"{name}: alone", measure(server, *asked, seconds / 4), Counter()), flush=True)
        with busy_processes() as n:
            found = measure(server, *asked, seconds / 2)
            print(line(f"{name}: beside {n} busy processes", found, Counter()), flush=True)
        crowd = Crowd(server, case)
        found = measure(server, *asked, seconds)
        crowd.stop()
        print(line(f"{name}: with {case.clients} others", found, crowd.statuses), flush=True)
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--source", help="folder of the package to serve with")
    options = parser.parse_args()
    clean_up_when_terminated()
    if options.source:
        os.environ["PYTHONPATH"] = options.source
    titles = ["", "requests", "p50", "p99", "longest", "longest without waits for a core"]
    titles += ["responses", "responses to the crowd"]
    print(f"| {' | '.join(titles)} |\n" + "|---" * len(titles) + "|")
    for name in options.cases.split(","):
        with tempfile.TemporaryDirectory(prefix="mixts-bench-") as folder:
            run(name, Path(folder), options.seconds)


if __name__ == "__main__":
    main()
