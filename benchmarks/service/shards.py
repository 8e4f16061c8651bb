"""Kill one of two databases under load: nothing is lost, and the other half notices nothing.

    python benchmarks/service/shards.py [--operations 9000] [--tasks 4000] [--outage 5] [--sqlite]

Tasks are divided over two PostgreSQL servers with a service each. Some clients have no fallback and
repeat each call until it is acknowledged; the others decide by themselves while a shard is away.
After a third of the operations the first server is killed (``kill -9``), and it comes back after
``--outage`` seconds. At the end both logs must have what was acknowledged, once, and no task of the
other shard; then a prior is learned from both logs and activated in both stores. With ``--sqlite``
the stores are files, and the first service is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from audit import audit, summary
from mixts_serve import AsyncShardedClient, DecisionStore, ShardedClient
from mixts_serve.shards import Shard
from mixts_serve.store.export import export
from problem import make_prior, true_means
from serving import Server, clean_up_when_terminated, new_server
from traffic import Decided, Traffic

import mixts
from mixts.errors import OverloadedError, StoreUnavailableError, TaskLockedError

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from serve.tests import postgres_server

SHARDS = (Shard(1, 2), Shard(2, 2))
BEFORE, DURING, AFTER = PHASES = ("before", "during", "after")
WORKERS = 12
"""Calls of each kind of client that are under way at the same time."""
THINK = 0.05
"""Mean pause of a client between two calls, in seconds."""
PATIENCE = 15.0
"""Seconds until a client with a fallback gives up: a busy machine is not a dead shard."""
PAUSE = 0.5
"""Seconds until a call that failed is repeated."""
REFUSED = (StoreUnavailableError, OverloadedError, TaskLockedError)


# -- the load -------------------------------------------------------------------------------------


class Work:
    """What all clients share: the phase, the acknowledgements, and how long calls took."""

    def __init__(self, n_tasks: int, operations: int) -> None:
        self.means = true_means(make_prior(), n_tasks)
        self.traffic = [Traffic(self.means) for _ in SHARDS]
        """Acknowledgements by shard, for the audit."""
        self.operations = operations
        self.n_done = 0
        self.phase = BEFORE
        self.seconds: dict[tuple[int, str, str], list[float]] = defaultdict(list)
        """Of acknowledged calls, by shard, kind of client and phase."""
        self.refused: Counter[tuple[int, str, str]] = Counter()
        self.own: Counter[tuple[int, str, str]] = Counter()


class Caller:
    """Decides and rewards by one client, many calls at a time."""

    def __init__(self, kind: str, client: AsyncShardedClient, work: Work, seed: int) -> None:
        self.kind, self.client, self.work = kind, client, work
        self._rng = np.random.default_rng(seed)
        self._again: deque[tuple[float, Any]] = deque()
        self._to_reward: deque[Decided] = deque()
        self._n = 0

    async def run(self) -> None:
        """Work until there were enough operations, and everything is acknowledged."""
        await asyncio.gather(*(self._work() for _ in range(WORKERS)))

    async def _work(self) -> None:
        while True:
            if self._again and self._again[0][0] <= time.perf_counter():
                operation = self._again.popleft()[1]
            elif self._to_reward and self._rng.random() < 0.6:
                operation = self._to_reward.popleft()
            elif self.work.n_done < self.work.operations or self.work.phase != AFTER:
                self._n += 1
                operation = (
                    int(self._rng.integers(len(self.work.means))),
                    f"{self.kind}-{self._n}",
                )
            elif self._to_reward:
                operation = self._to_reward.popleft()
            elif self._again:
                await asyncio.sleep(PAUSE)
                continue
            else:
                return
            await self._perform(operation)
            await asyncio.sleep(self._rng.exponential(THINK))  # its own decisions take no time

    async def _perform(self, operation: Any) -> None:
        task = operation.task if isinstance(operation, Decided) else operation[0]
        shard = 0 if SHARDS[0].holds(Traffic.task_name(task)) else 1
        row, started = (shard, self.kind, self.work.phase), time.perf_counter()
        try:
            if isinstance(operation, Decided):
                await self._reward(operation)
            else:
                await self._decide(operation[1], task, shard, row)
        except REFUSED:
            self.work.refused[row] += 1
            self._again.append((time.perf_counter() + PAUSE, operation))
            return
        self.work.seconds[row].append(time.perf_counter() - started)
        self.work.n_done += 1

    async def _decide(self, key: str, task: int, shard: int, row: Any) -> None:
        made = await self.client.decide(Traffic.task_name(task), key=key)
        decided = Decided(made.id, task, made.action, made.propensity, 0.0)
        decided.own = made.policy == "fallback"
        self.work.own[row] += decided.own
        traffic = self.work.traffic[shard]
        traffic.decided[key] = traffic.by_id[made.id] = decided
        self._to_reward.append(decided)

    async def _reward(self, decided: Decided) -> None:
        chance = self.work.means[decided.task, decided.action]
        # The same at every attempt.
        value = float(np.random.default_rng(int(decided.id, 16)).random() < chance)
        await self.client.reward(decided.id, value)
        decided.reward = value


# -- the shards -----------------------------------------------------------------------------------


class Cluster:
    """A PostgreSQL server that can be killed, and comes back with what it had written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = postgres_server.start(folder)

    def kill(self) -> None:
        """Kill the main process; the others end when they notice."""
        number = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for process in (number, *map(int, children)):
            os.kill(process, signal.SIGKILL)

    def start(self) -> None:
        """Start it again."""
        postgres_server.start(self._folder)

    def stop(self) -> None:
        """Stop it for good."""
        postgres_server.stop(self._folder, "immediate")


@contextmanager
def shards(folder: Path, sqlite: bool) -> Iterator[tuple[list[Server], list[str], Any]]:
    """Run two services, each on a store of its own; yield also what is to be killed."""
    with ExitStack() as stack:
        stores, clusters = [], []
        for shard in SHARDS:
            place = folder / f"{shard.number}"
            place.mkdir()
            if sqlite:
                stores.append(str(place / "decisions.db"))
                continue
            clusters.append(Cluster(place))
            stack.callback(clusters[-1].stop)
            stores.append(clusters[-1].url)
        servers = []
        for shard, store in zip(SHARDS, stores, strict=True):
            options = ["--shard", str(shard)]
            servers.append(new_server(folder, store, f"shard-{shard.number}", options))
            servers[-1].start()
            stack.callback(servers[-1].stop)
        for server in servers:
            server.wait()
        yield servers, stores, servers[0] if sqlite else clusters[0]


async def interrupt(work: Work, victim: Any, client: AsyncShardedClient, seconds: float) -> None:
    """Kill a shard after a third of the operations, and start it again."""
    while work.n_done < work.operations / 3:
        await asyncio.sleep(PAUSE)
    work.phase = DURING
    await asyncio.to_thread(victim.kill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(victim.start)
    while not await client.shards[0].ready():
        await asyncio.sleep(PAUSE)
    work.phase = AFTER


async def run(work: Work, urls: list[str], victim: Any, outage: float) -> None:
    """Run all clients, and return when everything was acknowledged and sent."""
    async with (
        AsyncShardedClient(urls, retries=0) as plain,
        AsyncShardedClient(urls, fallback=make_prior(), patience=PATIENCE) as own,
    ):
        callers = [Caller("plain", plain, work, 1), Caller("fallback", own, work, 2)]
        tasks = [caller.run() for caller in callers]
        await asyncio.gather(interrupt(work, victim, plain, outage), *tasks)
        while own.n_queued:
            await asyncio.sleep(PAUSE)


# -- afterwards -----------------------------------------------------------------------------------


def check(store: DecisionStore, shard: Shard, traffic: Traffic) -> tuple[int, Counter[str]]:
    """Return how many decisions a service made in vain, and the errors of each kind.

    Where a commit was in doubt the client decided by itself: the other decision has no reward.
    """
    wrong = audit(store, traffic)
    rows = store.backend.query("SELECT id, key FROM decisions")
    vain = [key for id, key in rows if bytes(id).hex() not in traffic.by_id]
    in_doubt = sum(key in traffic.decided and traffic.decided[key].own for key in vain)
    wrong["unacknowledged decisions"] -= in_doubt
    names = [name for (name,) in store.backend.query("SELECT name FROM tasks")]
    wrong["tasks of the other shard"] = sum(not shard.holds(name) for name in names)
    return in_doubt, +wrong


def refit(folder: Path, stores: list[str], urls: list[str]) -> list[int]:
    """Learn a prior from the logs of all shards, and activate it in each; return its versions."""
    for i, url in enumerate(stores):
        with DecisionStore(url) as store:
            export(store, folder / f"shard-{i}.csv")
    logs = [folder / f"shard-{i}.csv" for i in range(len(stores))]
    columns = {"task": "task", "arm": "arm", "reward": "reward", "arms": make_prior()}
    fitted = mixts.fit_logs(logs, columns, n_components=2, seed=1)
    with ShardedClient(urls) as client:
        return [shard.upload_prior(fitted.prior, activate=True) for shard in client.shards]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--operations", type=int, default=9_000, help="acknowledged, at least")
    parser.add_argument("--tasks", type=int, default=4_000)
    parser.add_argument("--outage", type=float, default=5.0, help="seconds")
    parser.add_argument("--sqlite", action="store_true", help="files; kill a service")
    options = parser.parse_args()
    clean_up_when_terminated()
    work = Work(options.tasks, options.operations)
    sqlite = options.sqlite or postgres_server.find() is None
    parent = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="mixts-shards-", dir=parent) as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL may run as another user
        with shards(folder, sqlite) as (servers, stores, victim):
            urls = [f"http://{host}:{port}" for host, port in (each.address for each in servers)]
            asyncio.run(run(work, urls, victim, options.outage))
            print_table(work)
            found = []
            for shard, url, traffic in zip(SHARDS, stores, work.traffic, strict=True):
                with DecisionStore(url) as store:
                    found.append(check(store, shard, traffic))
            versions = refit(folder, stores, urls)
    for shard, traffic, (in_doubt, wrong) in zip(SHARDS, work.traffic, found, strict=True):
        n = len(traffic.decided)
        rewards = sum(each.reward is not None for each in traffic.decided.values())
        print(
            f"\nShard {shard}: {n:,} decisions and {rewards:,} rewards acknowledged, {in_doubt} "
            f"decisions in vain. {summary(wrong)}"
        )
    print(f"\nA prior learned from both logs decides in {len(versions)} shards.")
    if any(wrong for _, wrong in found):
        raise SystemExit("WRONG")


def print_table(work: Work) -> None:
    """Print what each kind of client saw of each shard."""
    print(
        "| shard | clients | database 1 | acknowledged | refused | by the client | p50, p99, ms |"
    )
    print("|---" * 7 + "|")
    for shard in range(len(SHARDS)):
        for kind in ("plain", "fallback"):
            for phase in PHASES:
                row = shard, kind, phase
                times = 1e3 * np.array(work.seconds[row] or [np.nan])
                took = f"{np.median(times):.0f}, {np.quantile(times, 0.99):.0f}"
                print(
                    f"| {SHARDS[shard]} | {kind} | {phase} | {len(work.seconds[row]):,} "
                    f"| {work.refused[row]:,} | {work.own[row]:,} | {took} |"
                )


if __name__ == "__main__":
    main()
