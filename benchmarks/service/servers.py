"""Compare servers below the service: what attacks do to them, and how fast they are.

    python benchmarks/service/servers.py attacks [--servers mixts uvicorn nginx granian hypercorn]
    python benchmarks/service/servers.py half-closed
    python benchmarks/service/servers.py restart [--rounds 5] [--against SRC]
    python benchmarks/service/servers.py speed [--rounds 5] [--seconds 3] [--against SRC]

Every server runs the same service, ``mixts serve`` on SQLite. "mixts" is the project's own; the
others must be installed. "nginx" is uvicorn behind nginx, with the settings that uvicorn's manual
gives and Debian's number of connections; memory is that of both. ``attacks`` starts a server for
each attack of ``tests/attacks``, which needs no token, and prints the memory that the processes
gained, the longest wait of an honest client, and the sockets of the attack that the server closed.
``half-closed`` also prints the response to a token that comes only as a trailer. ``speed`` lets the
servers take turns: closed loop for the operations a second, open loop for the latency. Ratios are
of turns of one round. ``restart`` kills every server under load, and measures how long it takes to
accept requests on copies of that store. ``--against`` is the ``src`` folder of another version.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from generator import Generator
from problem import make_prior, true_means
from serving import Server, clean_up_when_terminated, free_port, new_server
from traffic import Traffic, http_request

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.attacks.attacks import CHUNKED, MEGABYTE, attacks, suffer

OTHER = "other version"
TOKEN = b"a-token-of-some-length"


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["attacks", "half-closed", "restart", "speed"])
    parser.add_argument("--servers", nargs="+", default=["mixts", "nginx", *RUNNERS])
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
    elif options.what == "restart":
        compare_restart(names, options)
    else:
        compare_speed(names, options)


@contextmanager
def serving(
    name: str, options: argparse.Namespace, *words: str, files: Sequence[Path] = ()
) -> Iterator[Server]:
    """Run the service on a server, with a new store or a copy of these files."""
    with tempfile.TemporaryDirectory(prefix="mixts-servers-") as folder:
        for file in files:
            shutil.copy(file, folder)
        store = str(Path(folder) / "decisions.db")
        server = new_server(Path(folder), store, options=["--rate-limit", "0", *words])
        before = os.environ.get("PYTHONPATH", "")
        if name == OTHER:
            os.environ["PYTHONPATH"] = options.against
        elif name != "mixts":
            server.program = (__file__, "run", "uvicorn" if name == "nginx" else name)
        server.start()
        os.environ["PYTHONPATH"] = before
        try:
            server.wait()
            if name == "nginx":
                with behind_nginx(server, Path(folder)):
                    yield server
            else:
                yield server
        finally:
            server.stop() if options.what == "speed" else server.kill()


NGINX = """
user root;
worker_processes auto;
pid {folder}/nginx.pid;
error_log /dev/null;
events {{ worker_connections 768; }}
http {{
  access_log off;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
  server {{
    listen 127.0.0.1:{port} backlog=2048;
    client_max_body_size 4G;
    client_body_temp_path {folder}/nginx;
    location / {{
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_redirect off;
      proxy_buffering off;
      proxy_pass http://127.0.0.1:{upstream};
    }}
  }}
}}
"""


@contextmanager
def behind_nginx(server: Server, folder: Path) -> Iterator[None]:
    """Run nginx before a server, and give the server nginx's address."""
    port, upstream = free_port(), server.address[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, upstream=upstream))
    nginx = subprocess.Popen(["nginx", "-c", str(config), "-g", "daemon off;"])
    try:
        server.address = (server.address[0], port)
        server.wait()
        children = Path(f"/proc/{nginx.pid}/task/{nginx.pid}/children").read_text().split()
        server.pids = [server.pid, nginx.pid, *map(int, children)]
        yield
    finally:
        nginx.terminate()
        nginx.wait()


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
            with token_file() as words, serving(name, options, *words) as server:
                harm = suffer(attack, server.address, server.pids, options.seconds)
            print(
                f"| {name} | {attack.name} | {harm.sent / MEGABYTE:.1f} | {harm.grown:,.0f} "
                f"| {harm.delay:.2f} | {harm.closed} of {attack.sockets} |", flush=True,
            )  # fmt: skip


def compare_half_closed(names: list[str], options: argparse.Namespace) -> None:
    """Print what a client gets that closes its sending side, or sends its token as a trailer."""
    body = b'{"task": "t"}'
    trailing = CHUNKED + b"%x\r\n%b\r\n0\r\nAuthorization: Bearer %b\r\n\r\n"
    requests = {
        "half-closed": http_request("decide", body),
        "token as a trailer": trailing % (len(body), body, TOKEN),
    }
    for name in names:
        for title, content in requests.items():
            with ExitStack() as stack:
                words = stack.enter_context(token_file()) if b"Bearer" in content else ()
                server = stack.enter_context(serving(name, options, *words))
                one = stack.enter_context(socket.create_connection(server.address, 10))
                one.sendall(content)
                if title == "half-closed":
                    one.shutdown(socket.SHUT_WR)
                answer = one.recv(65536)[:12].decode() or "nothing"
            print(f"| {name} | {title} | {answer} |", flush=True)


@contextmanager
def token_file() -> Iterator[tuple[str, str]]:
    """Make a file with one token, and yield the option that names it."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_bytes(TOKEN + b"\n")
        tokens.chmod(0o600)
        yield "--token-file", str(tokens)


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


def compare_restart(names: list[str], options: argparse.Namespace) -> None:
    """Print how long starts on a store take whose server was killed; ratios are to the first."""
    times: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="mixts-killed-") as folder:
        for name in names:
            (Path(folder) / name).mkdir()
            with serving(name, options) as server:
                traffic = Traffic(true_means(make_prior(), 500))
                generator = Generator([server.address], options.connections, traffic)
                generator.run_closed(options.seconds)
                server.kill()
                for file in server.store.parent.glob(f"{server.store.name}*"):
                    shutil.copy(file, Path(folder) / name)
        for _ in range(options.rounds):
            for name in names:
                files = sorted((Path(folder) / name).iterdir())
                times[name].append(start_seconds(name, options, files))
        sizes = {f"{f.parent.name}, {f.name}": f.stat().st_size for f in Path(folder).glob("*/*")}
    print(f"{sizes}\n\n| server | start, s | ratio | start, CPU s | ratio |\n" + "|---" * 5 + "|")
    for name in names:
        cells = [name]
        for title in ("start, s", "start, CPU s"):
            turns, first = (np.array([t[title] for t in times[n]]) for n in (name, names[0]))
            low, middle, high = np.quantile(turns / first, (0.25, 0.5, 0.75))
            cells += [f"{np.median(turns):.3f}", f"{middle:.2f} ({low:.2f} to {high:.2f})"]
        print(f"| {' | '.join(cells)} |")


def start_seconds(
    name: str, options: argparse.Namespace, files: Sequence[Path] = ()
) -> dict[str, float]:
    """Return the time until a server accepts requests, on the clock and of the processor."""
    with serving(name, options, files=files) as server:
        return {"start, s": server.age, "start, CPU s": server.cpu_seconds()}


# -- other servers, with the limits that they have ------------------------------------------------


def run(name: str, *words: str) -> None:
    """Run ``mixts`` with another server."""
    from mixts.cli import main
    from mixts.service.http import server

    def serve(starting: Any, *others: Any, limits: Any) -> None:
        RUNNERS[name](starting.start(), *others, limits=limits)

    server.run = serve  # type: ignore[assignment]
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
