"""Measure a prior of many arms in every step of its life: files, decisions, a service, learning.

python -m benchmarks.many_arms            # 10,000 arms
python -m benchmarks.many_arms --arms 1000
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mixts_serve import Client, Decider, DecisionStore, dashboard
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild
from mixts_serve.versions import ArmChanges

import mixts
from mixts.agents import POLICIES
from mixts.cli import main as command


def many(n_arms: int, n_components: int = 3) -> mixts.MixturePrior:
    """Return a prior of named arms with means of some per cent."""
    rng = np.random.default_rng(1)
    mean = 0.04 * np.exp(0.4 * rng.standard_normal((n_components, n_arms)))
    family = mixts.BernoulliArms(60 * mean, 60 * (1 - mean))
    return mixts.MixturePrior(family, arm_names=[f"sku-{k}" for k in range(n_arms)])


def row(name: str, value: str) -> None:
    """Print one line of the table."""
    print(f"| {name} | {value} |", flush=True)


def timed(name: str, function: Callable[[], Any], repeats: int = 1) -> Any:
    """Print elapsed and processor time of a call, after a first call to warm up if it repeats.

    On a busy machine the processor time says more. Worker processes count when they have ended.
    """
    result = function() if repeats > 1 else None
    start, used = time.perf_counter(), processor_seconds()
    for _ in range(repeats):
        result = function()
    seconds = (time.perf_counter() - start) / repeats
    row(name, f"{text(seconds)} | {text((processor_seconds() - used) / repeats)}")
    return result


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def text(seconds: float) -> str:
    """Return a time with its unit."""
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def measure_files(prior: mixts.MixturePrior, folder: Path) -> None:
    """Measure files of the prior, and changes of its arms."""
    for suffix in ("json", "zip"):
        path = folder / f"prior.{suffix}"
        timed(f"save .{suffix}", lambda path=path: prior.save(path))
        timed(f"load .{suffix}", lambda path=path: mixts.MixturePrior.load(path))
        row(f"size of .{suffix}", f"{path.stat().st_size / 1e6:,.2f} MB | ")
    timed("add an arm", lambda: ArmChanges.checked(add=["new"]).applied(prior), 3)


def measure_policies(prior: mixts.MixturePrior) -> None:
    """Measure decisions of every policy, for a task with some observations."""
    for name, policy in sorted(POLICIES.items()):
        agent = policy(prior, seed=1)
        agent.update(np.arange(20), np.zeros(20))
        timed(f"act, {name}", agent.act, 3)
        timed(f"act_with_probabilities, {name}", agent.act_with_probabilities, 3)


def measure_service(prior: mixts.MixturePrior, folder: Path, policy: str) -> None:
    """Measure a store with decisions and rewards, its pages and its export."""
    with (
        DecisionStore(folder / f"{policy}.db") as store,
        Decider(prior, store, policy=policy, seed=1) as decider,
    ):
        made = timed(f"service, {policy}: decide", lambda: decider.decide("ada"), 5)
        timed(f"service, {policy}: reward", lambda: decider.reward(made.id, 1))
        ids = [decider.decide(f"task {k}").id for k in range(20)]
        for id in ids:
            decider.reward(id, 0)
        n_bytes = sum(path.stat().st_size for path in folder.glob(f"{policy}.db*"))
        row(f"service, {policy}: store, 26 decisions of 21 tasks", f"{n_bytes / 1e6:,.1f} MB | ")
        timed(f"service, {policy}: change_arms", lambda: decider.change_arms(add=["one", "two"]))
        pages = {
            "overview": lambda: dashboard.overview_page(decider, store, now=time.time()),
            "task": lambda: dashboard.task_page(decider, store, "ada", now=time.time()),
        }
        for name, render in pages.items():
            page = timed(f"service, {policy}: {name} page", render)
            row(f"service, {policy}: size of the {name} page", f"{len(page) / 1e3:,.0f} kB | ")
        timed(f"service, {policy}: export", lambda: export(store, folder / f"{policy}.parquet"))
    with DecisionStore(folder / f"{policy}.db") as store:
        timed(f"service, {policy}: check", lambda: rebuild(store, write=False))


@contextlib.contextmanager
def served(prior: Path, store: Path) -> Iterator[str]:
    """Start `mixts serve`, and yield its address."""
    start = "import sys; from mixts.cli import main; sys.exit(main())"
    words = ["serve", "--prior", prior, "--store", store, "--port", 0]
    process = subprocess.Popen(
        [sys.executable, "-c", start, *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = None
        while found is None:
            found = re.search(r"http://[0-9.:]+", process.stdout.readline())
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def measure_commands(folder: Path) -> None:
    """Measure `mixts arms` on a file and on a service, and decisions over HTTP."""
    prior = folder / "prior.json"

    def arms(*words: object) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            command(["arms", *map(str, words)])

    timed("mixts arms list FILE", lambda: arms("list", prior))
    timed("mixts arms add FILE", lambda: arms("add", prior, "added", "--out", folder / "a.json"))
    with served(prior, folder / "served.db") as address, Client(address) as client:
        made = timed("HTTP: decide, ids", lambda: client.decide("ada"), 3)
        timed("HTTP: reward", lambda: client.reward(made.id, 1))
        timed("mixts arms add --service", lambda: arms("add", "--service", address, "new"))
        timed("HTTP: decide, ids, after that", lambda: client.decide("ada"), 3)


def measure_fit(n_arms: int, folder: Path, n_rows: int = 100_000, n_tasks: int = 500) -> None:
    """Measure `mixts fit` with two kinds on a log."""
    rng = np.random.default_rng(2)
    log = folder / "log.csv"
    arms, tasks = rng.integers(n_arms, size=n_rows), rng.integers(n_tasks, size=n_rows)
    rewards = rng.random(n_rows) < 0.04
    lines = (f"{t},sku-{a},{int(r)}" for t, a, r in zip(tasks, arms, rewards, strict=True))
    log.write_text("task,arm,reward\n" + "\n".join(lines) + "\n")
    words = ["fit", log, "--task", "task", "--arm", "arm", "--reward", "reward", "--components", 2]
    words += ["--out", folder / "fitted.json", "--quiet", "--force"]
    timed(
        f"mixts fit, {n_rows:,} rows of {n_tasks} tasks, 2 kinds",
        lambda: command([str(word) for word in words]),
    )


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--arms", type=int, default=10_000)
    parser.add_argument("--no-fit", action="store_true", help="skip the slowest part")
    options = parser.parse_args(arguments)
    prior = many(options.arms)
    print(f"| {options.arms:,} arms, 3 components | elapsed | processor |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure_files(prior, folder)
        measure_policies(prior)
        for policy in ("ids", "ts"):
            measure_service(prior, folder, policy)
        measure_commands(folder)
        if not options.no_fit:
            measure_fit(options.arms, folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    row("largest memory of this process", f"{peak:,.0f} MB | ")


if __name__ == "__main__":
    main()
