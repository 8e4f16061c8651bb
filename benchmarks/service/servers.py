"""Compare servers below the service: what attacks do to them, and how fast they are.

    python benchmarks/service/servers.py attacks [--servers mixts nginx]
    python benchmarks/service/servers.py restart [--rounds 5] [--against SRC]
    python benchmarks/service/servers.py speed [--rounds 5] [--seconds 3] [--against SRC]

Every server runs the same service, ``mixts serve`` on SQLite. "mixts" is the command as it is, and
"nginx" is the same behind nginx, with the configuration that the project ships. ``attacks`` starts
a server for each attack of the tests, which needs no token, and prints the memory that the
processes gained, the longest wait of an honest client, and the sockets that the server closed.
``speed`` lets the servers take turns: closed loop for the operations a second, open loop for the
latency. Ratios are of turns of one round. ``restart`` kills every server under load, and measures
how long it takes to accept requests on copies of that store. ``--against`` is the ``src`` folder of
another version, or several with a colon between them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from generator import Generator
from problem import make_prior, true_means
from serving import Server, clean_up_when_terminated, free_port, new_server
from traffic import Traffic

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from serve.tests.attacks.attacks import MEGABYTE, attacks, suffer
from serve.tests.attacks.proxy import nginx, plain

OTHER = "other version"
TOKEN = b"a-token-of-some-length"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["attacks", "restart", "speed"])
    parser.add_argument("--servers", nargs="+", default=["mixts", "nginx"])
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
        server = new_server(Path(folder), store, options=words)
        before = os.environ.get("PYTHONPATH", "")
        if name == OTHER:
            os.environ["PYTHONPATH"] = options.against
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


@contextmanager
def behind_nginx(server: Server, folder: Path) -> Iterator[None]:
    """Run nginx before a server, and give the server nginx's address."""
    port = free_port()
    with nginx(folder, plain(port, server.address[1])) as pids:
        server.address = (server.address[0], port)
        server.wait()
        server.pids = [server.pid, *pids]
        yield


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


if __name__ == "__main__":
    main()
