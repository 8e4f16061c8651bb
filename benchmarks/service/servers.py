"""Compare servers below the service: what attacks do to them, and how fast they are.

    python benchmarks/service/servers.py attacks [--servers mixts uvicorn granian hypercorn]
    python benchmarks/service/servers.py half-closed
    python benchmarks/service/servers.py speed [--rounds 5] [--seconds 3] [--against SRC]

Every server runs the same service, ``mixts serve`` on SQLite. "mixts" is the project's own; the
others must be installed. ``attacks`` starts a server for each attack of ``tests/attacks``, which
needs no token, and prints the memory that the process gained, the longest wait of an honest client,
and the sockets of the attack that the server closed. ``speed`` lets the servers take turns: closed
loop for the operations a second, open loop for the latency. Ratios are of turns of one round.
``--against`` is the ``src`` folder of another version.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from generator import Generator
from problem import make_prior, true_means
from serving import Server, clean_up_when_terminated, new_server
from traffic import Traffic, http_request

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.attacks.attacks import MEGABYTE, attacks, suffer

OTHER = "other version"


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["attacks", "half-closed", "speed"])
    parser.add_argument("--servers", nargs="+", default=["mixts", *RUNNERS])
    parser.add_argument("--against", metavar="SRC", help="the src folder of another version")
    parser.add_argument("--only", default="", help="attacks whose names contain this")
    parser.add_argument("--seconds", type=float, default=5.0, help="of an attack or a turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float, default=300.0, help="of the open loop")
    options = parser.parse_args()
    clean_up_when_terminated()
    names = [OTHER, *options.servers] if options.against else options.servers
    if options.what == "attacks":
        compare_attacks(names, options)
    elif options.what == "half-closed":
        compare_half_closed(names, options)
    else:
        compare_speed(names, options)


@contextmanager
def serving(name: str, options: argparse.Namespace, *words: str) -> Iterator[Server]:
    """Run the service on a server, with a new store."""
    with tempfile.TemporaryDirectory(prefix="mixts-servers-") as folder:
        store = str(Path(folder) / "decisions.db")
        server = new_server(Path(folder), store, options=["--rate-limit", "0", *words])
        before = os.environ.get("PYTHONPATH", "")
        if name == OTHER:
            os.environ["PYTHONPATH"] = options.against
        elif name != "mixts":
            server.program = (__file__, "run", name)
        server.start()
        os.environ["PYTHONPATH"] = before
        try:
            server.wait()
            yield server
        finally:
            server.stop() if options.what == "speed" else server.kill()


# -- attacks --------------------------------------------------------------------------------------


def compare_attacks(names: list[str], options: argparse.Namespace) -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(
        "| server | attack | MB sent | MB grown | longest wait, s | closed |\n" + "|---" * 6 + "|"
    )
    for attack in attacks(silent=7960, unread=50, slow=500, n_bytes=24 * MEGABYTE):
        for name in names if options.only in attack.name else ():
            with tempfile.TemporaryDirectory() as folder:
                tokens = Path(folder) / "tokens"
                tokens.write_text("a-token-of-some-length\n")
                tokens.chmod(0o600)
                with serving(name, options, "--token-file", str(tokens)) as server:
                    harm = suffer(attack, server.address, server.pid, options.seconds)
            print(
                f"| {name} | {attack.name} | {harm.sent / MEGABYTE:.1f} | {harm.grown:,.0f} "
                f"| {harm.delay:.2f} | {harm.closed} of {attack.sockets} |", flush=True,
            )  # fmt: skip


def compare_half_closed(names: list[str], options: argparse.Namespace) -> None:
    """Print whether a client that closes its sending side gets its response."""
    for name in names:
        with serving(name, options) as server, socket.create_connection(server.address, 10) as one:
            one.sendall(http_request("decide", b'{"task": "t"}'))
            one.shutdown(socket.SHUT_WR)
            print(f"| {name} | {one.recv(65536)[:12].decode() or 'nothing'} |", flush=True)


# -- speed ----------------------------------------------------------------------------------------


@dataclass
class Case:
    """A server under load, and what each of its turns measured."""

    name: str
    server: Server
    generator: Generator
    results: dict[str, list[float]] = field(default_factory=dict)

    def run(self, seconds: float, rate: float, rng: np.random.Generator) -> None:
        """Take a turn: closed loop, then open loop."""
        generator, traffic = self.generator, self.generator.traffic
        generator.forget()
        n, cpu, started = traffic.n_acknowledged, self.server.cpu_seconds(), perf_counter()
        generator.run_closed(seconds)
        generator.finish()
        elapsed = perf_counter() - started
        n, cpu = traffic.n_acknowledged - n, self.server.cpu_seconds() - cpu
        generator.forget()
        generator.run_open(rate, seconds, rng)
        times = 1e3 * np.concatenate([np.array(each) for each in generator.latencies.values()])
        found = {
            "operations a second": n / elapsed,
            "CPU us an operation": 1e6 * cpu / n,
            "p50, ms": float(np.quantile(times, 0.5)),
            "p99, ms": float(np.quantile(times, 0.99)),
        }
        for name, value in found.items():
            self.results.setdefault(name, []).append(value)


def compare_speed(names: list[str], options: argparse.Namespace) -> None:
    starts: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for _ in range(options.rounds):
        for name in names:
            for title, seconds in start_seconds(name, options).items():
                starts[name].setdefault(title, []).append(seconds)
    with ExitStack() as stack:
        cases = []
        for name in names:
            server = stack.enter_context(serving(name, options))
            generator = Generator(
                [server.address], options.connections, Traffic(true_means(make_prior(), 500))
            )
            cases.append(Case(name, server, generator, starts[name]))
            generator.run_closed(2.0)
            generator.finish()
        rng = np.random.default_rng(1)
        for _ in range(options.rounds):
            for case in cases:
                case.run(options.seconds, options.rate, rng)
    titles = list(cases[0].results)
    print("| server | " + " | ".join(f"{title} | ratio" for title in titles) + " |")
    print("|---" * (1 + 2 * len(titles)) + "|")
    for case in cases:
        cells = [case.name]
        for title in titles:
            turns = np.array(case.results[title])
            ratios = turns / np.array(cases[0].results[title])
            low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
            cells.append(f"{np.median(turns):,.4g}")
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        print(f"| {' | '.join(cells)} |")
    print(f"\nrefused or broken: {[case.generator.failures.total() for case in cases]}")


def start_seconds(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the time until a server accepts requests, on the clock and of the processor."""
    with serving(name, options) as server:
        return {"start, s": server.age, "start, CPU s": server.cpu_seconds()}


# -- other servers, with the limits that they have ------------------------------------------------


def run(name: str, *words: str) -> None:
    """Run ``mixts`` with another server."""
    from mixts.cli import main
    from mixts.service.http import server

    server.run = RUNNERS[name]  # type: ignore[assignment]
    sys.exit(main(list(words)))


def run_uvicorn(
    service: Any, listener: Any, signals: Any, ready: Callable[[], None], *, limits: Any
) -> None:
    import uvicorn

    listener.listen(2048)
    ready()
    config = uvicorn.Config(
        service, loop="uvloop", http="httptools", lifespan="off", ws="none", log_config=None,
        access_log=False, timeout_keep_alive=int(limits.idle), limit_concurrency=7936,
    )  # fmt: skip
    one = uvicorn.Server(config)
    signals.stop = lambda: setattr(one, "should_exit", True)
    one.run([listener])


def run_hypercorn(
    service: Any, listener: Any, signals: Any, ready: Callable[[], None], *, limits: Any
) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.keep_alive_timeout, config.read_timeout = limits.idle, int(limits.seconds)
    config.errorlog = None

    async def serve_until_stopped() -> None:
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        signals.stop = lambda: loop.call_soon_threadsafe(stopping.set)
        await serve(service, config, shutdown_trigger=stopping.wait)

    _run_in_uvloop(serve_until_stopped(), ready)


def run_granian(
    service: Any, listener: Any, signals: Any, ready: Callable[[], None], *, limits: Any
) -> None:
    from granian.constants import Interfaces
    from granian.http import HTTP1Settings
    from granian.server.embed import Server

    host, port = listener.getsockname()[:2]
    ready()
    listener.close()  # it takes no socket, and so binds its own

    async def serve_until_stopped() -> None:
        one = Server(
            service, host, port, interface=Interfaces.ASGINL, websockets=False, backlog=2048,
            http1_settings=HTTP1Settings(header_read_timeout=int(1000 * limits.seconds)),
            log_enabled=False,
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        signals.stop = lambda: loop.call_soon_threadsafe(one.stop)
        await one.serve()

    _run_in_uvloop(serve_until_stopped(), ready)


def _run_in_uvloop(serving: Any, ready: Callable[[], None]) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)


RUNNERS = {"uvicorn": run_uvicorn, "granian": run_granian, "hypercorn": run_hypercorn}


if __name__ == "__main__":
    main()
