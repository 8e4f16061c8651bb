"""Measure what a policy costs the service, with and without decisions that wait for their rewards.

    python benchmarks/service/policies.py [--policies ts ids] [--waiting 0 20 100] [--rounds 5]
        [--seconds 3] [--against SRC]

Every policy and every number of waiting decisions has a server and a store of its own. Before the
measurement each task gets the waiting decisions, whose rewards never come. The load is that of
``load.py``: closed loop, decisions and rewards one to one. The servers take turns, a few seconds
each, so that all of them share what else the machine does; ratios are of turns of the same round.
``--against`` is the ``src`` folder of another version, measured without waiting decisions.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from generator import Generator
from mixts_serve import Decide, Decider, DecisionStore
from problem import make_prior, true_means
from serving import Server, clean_up_when_terminated, new_server
from traffic import Traffic

WARM_UP = 2.0
"""Seconds before the measurement."""


@dataclass
class Case:
    """A server under load, and what each of its turns measured."""

    name: str
    waiting: int
    server: Server
    generator: Generator
    cpu: list[float] = field(default_factory=list)
    """Microseconds of the server's CPU for an operation."""
    rate: list[float] = field(default_factory=list)
    """Operations a second."""
    latency: list[float] = field(default_factory=list)
    """Median milliseconds of a decision."""

    def run(self, seconds: float) -> None:
        """Take a turn."""
        traffic, generator = self.generator.traffic, self.generator
        generator.forget()
        n, cpu = traffic.n_acknowledged, self.server.cpu_seconds()
        started = time.perf_counter()
        generator.run_closed(seconds)
        generator.finish()
        seconds = time.perf_counter() - started
        n, cpu = traffic.n_acknowledged - n, self.server.cpu_seconds() - cpu
        self.cpu.append(1e6 * cpu / n)
        self.rate.append(n / seconds)
        self.latency.append(1e3 * float(np.median(generator.latencies["decide"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--policies", nargs="+", default=["ts", "ids"])
    parser.add_argument(
        "--waiting", type=int, nargs="+", default=[0, 20, 100], help="for each task"
    )
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one turn")
    parser.add_argument("--against", metavar="SRC", help="the src folder of another version")
    options = parser.parse_args()
    clean_up_when_terminated()
    with ExitStack() as stack:
        cases = [
            start(stack, policy, waiting, options)
            for waiting in options.waiting
            for policy in options.policies
        ]
        if options.against:
            cases.insert(0, start(stack, None, 0, options))
        for case in cases:
            case.generator.run_closed(WARM_UP)
            case.generator.finish()
        for _ in range(options.rounds):
            for case in cases:
                case.run(options.seconds)
    report(cases)


def start(stack: ExitStack, policy: str | None, waiting: int, options: argparse.Namespace) -> Case:
    """Start a server; without a policy, that of the other version."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixts-policies-")))
    store = folder / "decisions.db"
    if waiting:
        fill(store, options.tasks, waiting)
    words = [] if policy is None else ["--policy", policy]
    server = new_server(folder, str(store), options=words)
    before = os.environ.get("PYTHONPATH", "")
    if policy is None:
        os.environ["PYTHONPATH"] = options.against
    server.start()
    os.environ["PYTHONPATH"] = before
    stack.callback(server.stop)
    server.wait()
    traffic = Traffic(true_means(make_prior(), options.tasks))
    generator = Generator([server.address], options.connections, traffic)
    return Case(policy or "other version", waiting, server, generator)


def fill(path: Path, n_tasks: int, n_waiting: int) -> None:
    """Create a store whose tasks have this many decisions without a reward."""
    requests = [Decide(Traffic.task_name(task)) for task in range(n_tasks)]
    with (
        DecisionStore(path) as store,
        Decider(make_prior(), store, policy="ts", seed=1) as decider,
    ):
        for _ in range(n_waiting):
            decider.decide_many(requests)


def report(cases: list[Case]) -> None:
    """Print the medians of all turns; ratios are to the first case."""
    print("| policy | waiting a task | operations a second | ratio | decide p50, ms | ratio "
          "| CPU us an operation | ratio |\n" + "|---" * 8 + "|")  # fmt: skip
    first = cases[0]
    for case in cases:
        cells = [case.name, str(case.waiting)]
        for name, digits in (("rate", 0), ("latency", 2), ("cpu", 0)):
            turns = np.array(getattr(case, name))
            low, middle, high = np.quantile(turns / getattr(first, name), (0.25, 0.5, 0.75))
            cells.append(f"{np.median(turns):,.{digits}f}")
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        print(f"| {' | '.join(cells)} |")
    failures = sum(case.generator.failures.total() for case in cases)
    contradictions = sum(len(case.generator.traffic.contradictions) for case in cases)
    print(f"\nrefused or broken: {failures}; contradictions: {contradictions}")


if __name__ == "__main__":
    main()
