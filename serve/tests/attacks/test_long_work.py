"""No client with a token may keep others waiting by asking for decisions that take long."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from serve.tests.attacks.attacks import Harm, megabytes, watching

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")

MIXTS = [sys.executable, "-c", "import sys; from mixts.cli import main; sys.exit(main())"]
JSON = {"Content-Type": "application/json"}
PATIENCE = 600.0
"""Seconds that the attacker waits."""

MOST_SECONDS = 0.5
"""Longest time of an honest request on a test machine, which may pause; ``benchmarks/service``
measures it."""
MOST_MEGABYTES = 100.0


class Victim:
    """A service in a process of its own, with a store."""

    def __init__(self, folder: Path, prior: mixts.MixturePrior) -> None:
        prior.save(folder / "prior.json")
        command = [*MIXTS, "serve", "--port", "0"]
        command += ["--prior", str(folder / "prior.json"), "--store", str(folder / "decisions.db")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        port = self.process.stdout.readline().partition("127.0.0.1:")[2].split()[0]
        self.address = "127.0.0.1", int(port)

    def post(self, path: str, content: Any) -> tuple[int, Any]:
        """Send a request; content may be encoded before, which keeps other threads waiting."""
        body = content if isinstance(content, bytes) else json.dumps(content)
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request("POST", path, body, JSON)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def reward(self) -> bytes:
        """Return a request that an honest client may repeat: the reward of a decision."""
        status, made = self.post("/v1/decide", {"task": "honest"})
        assert status == 200, made
        return raw("/v1/reward", {"id": made["id"], "value": 1})

    def suffer(self, attack: Callable[[], object], request: bytes) -> Harm:
        """Return the harm that an attack does to a client that repeats a request."""
        harm, before = Harm(), megabytes([self.process.pid])
        with watching(harm, self.address, request):
            attack()
            harm.grown = megabytes([self.process.pid]) - before
        return harm


def raw(path: str, content: Any) -> bytes:
    """Return a request as it is sent."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@contextmanager
def serving(folder: Path, prior: mixts.MixturePrior) -> Iterator[Victim]:
    victim = Victim(folder, prior)
    try:
        yield victim
    finally:
        victim.process.terminate()
        assert victim.process.wait(30) == 0
        assert victim.process.stdout is not None
        victim.process.stdout.close()
    command = [*MIXTS, "store", "check"]
    subprocess.run([*command, str(folder / "decisions.db")], check=True, capture_output=True)


def arms(n_arms: int) -> mixts.MixturePrior:
    family = mixts.BernoulliArms(*np.random.default_rng(0).uniform(1, 5, (2, 6, n_arms)))
    return mixts.MixturePrior(family)


def linear() -> mixts.MixturePrior:
    mean = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    return mixts.MixturePrior(mixts.LinearGaussian(mean, np.stack([np.eye(2)] * 3), 0.5))


def test_large_decisions_keep_nobody_waiting_for_all_of_them(tmp_path: Path) -> None:
    """Forty clients ask for decisions with prices among 2,000 arms; too many are refused.

    Twenty-six fit into the work that may wait. An honest request waits for the one that is being
    made, and for the interpreter's lock when it arrives and when it is answered: about a thirtieth
    of the attack, and a third when all forty requests have just arrived. In the order of arrival it
    would wait for half of the attack. A busy machine makes all of these longer alike.
    """
    costs = np.linspace(0.0, 0.1, 2_000).tolist()
    statuses: list[int] = []
    times: list[float] = []
    with serving(tmp_path, arms(2_000)) as victim:
        request = victim.reward()
        bodies = [json.dumps({"task": f"large {k}", "costs": costs}).encode() for k in range(40)]

        def ask(body: bytes) -> None:
            started = time.monotonic()
            statuses.append(victim.post("/v1/decide", body)[0])
            times.append(time.monotonic() - started)

        def attack() -> None:
            threads = [threading.Thread(target=ask, args=(body,)) for body in bodies]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        harm = victim.suffer(attack, request)
    assert set(statuses) <= {200, 503}, statuses
    assert statuses.count(200) > 20, statuses
    assert np.median(harm.delays) < max(times) / 8, (harm, times)
    assert harm.delay < max(times), (harm, times)
    assert harm.grown < MOST_MEGABYTES, harm


@pytest.mark.slow
def test_batches_with_many_actions_keep_nobody_waiting(tmp_path: Path) -> None:
    """Eight clients send batches of 13 decisions among 10,000 actions."""
    actions = [[1, 0], [0, 1]] * 5_000
    with serving(tmp_path, linear()) as victim:
        request = raw("/v1/decide", {"task": "honest", "actions": [[1, 0], [0, 1]]})
        bodies = [
            json.dumps([{"task": f"{k} {i}", "actions": actions} for i in range(13)]).encode()
            for k in range(8)
        ]

        def send(body: bytes) -> None:
            while time.monotonic() < ended:
                victim.post("/v1/decide:batch", body)

        def attack() -> None:
            threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        ended = time.monotonic() + 20.0
        harm = victim.suffer(attack, request)
    assert harm.delay < MOST_SECONDS, harm
    assert harm.grown < 2 * MOST_MEGABYTES, harm
