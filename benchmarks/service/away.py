"""Time to a decision of a client with a fallback, while the service is there, and while it is not.

    .venv/bin/python benchmarks/service/away.py

The service runs in a process of its own. It is killed, stopped (SIGSTOP), and replaced by an
address that answers no packets: a port whose queue of connections is full. Each time a client makes
decisions one after the other, from the moment when the service is gone. "longest" is mostly the
decision that found out: the circuit breaker answers the others.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from mixts_serve import AsyncClient, Client

import mixts

CODE = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"


def prior() -> mixts.MixturePrior:
    """Three kinds of task that like different ones of ten arms."""
    alpha = np.random.default_rng(1).uniform(1, 10, (3, 10))
    return mixts.MixturePrior(mixts.BernoulliArms(alpha, alpha[::-1]))


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a service; yield its process and its address."""
    prior().save(folder / "prior.json")
    command = [sys.executable, "-c", CODE, "serve", "--port", "0"]
    command += ["--prior", str(folder / "prior.json"), "--store", str(folder / "d.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()[2]
        finally:
            process.kill()


@contextmanager
def silent() -> Iterator[str]:
    """Yield an address that drops what is sent to it: its queue of connections is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        time.sleep(0.1)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def measure(url: str, n: int, end: Callable[[], None] | None, *, awaited: bool) -> list[float]:
    """Return the seconds of n decisions after the end of the service; None: there was none."""
    if awaited:
        return asyncio.run(measure_awaited(url, n, end))
    times = []
    with Client(url, fallback=prior(), timeout=1) as client:
        if end is not None:
            client.decide("warm")
            end()
        for k in range(n):
            started = time.perf_counter()
            client.decide(f"task {k}")
            times.append(time.perf_counter() - started)
            time.sleep(0.002)
    return times


async def measure_awaited(url: str, n: int, end: Callable[[], None] | None) -> list[float]:
    """Return the same of an ``AsyncClient``."""
    times = []
    async with AsyncClient(url, fallback=prior(), timeout=1) as client:
        if end is not None:
            await client.decide("warm")
            end()
        for k in range(n):
            started = time.perf_counter()
            await client.decide(f"task {k}")
            times.append(time.perf_counter() - started)
            await asyncio.sleep(0.002)
    return times


def main() -> None:
    """Print a row for each way to be away and each client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=2000)
    n = parser.parse_args().decisions
    print(f"{'service':<10}{'client':<14}{'p50':>9}{'p99':>9}{'longest':>9}  ms")
    for name in ("there", "killed", "stopped", "silent"):
        for awaited in (False, True):
            with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (process, url):
                ends: dict[str, Callable[[], None] | None] = {
                    "there": lambda: None,
                    "killed": lambda process=process: (process.kill(), process.wait())[0],
                    "stopped": lambda process=process: process.send_signal(signal.SIGSTOP),
                    "silent": None,
                }
                with ExitStack() as stack:
                    target = stack.enter_context(silent()) if name == "silent" else url
                    times = measure(target, n, ends[name], awaited=awaited)
            p50, p99 = 1000 * np.quantile(times, [0.5, 0.99])
            kind = "AsyncClient" if awaited else "Client"
            print(f"{name:<10}{kind:<14}{p50:9.2f}{p99:9.2f}{1000 * max(times):9.2f}", flush=True)


if __name__ == "__main__":
    main()
