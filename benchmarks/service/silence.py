"""Check that no default reward is lost or doubled while clients report clicks only.

    python benchmarks/service/silence.py [--kills 50] [--operations 20000] [--every 3] [--seed 1]

Decisions without a click get the reward 0 after two seconds. A quarter of the decisions is
deferred, and half of those are never shown. First one server on a SQLite file is killed under this
load and restarted, many times; then two replicas on one PostgreSQL database are killed in turn.
At the end every decision must have exactly the reward that the times of its events demand.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from audit import summary
from generator import Generator
from mixts_serve import DecisionStore
from mixts_serve.store.rebuild import rebuild
from msgspec.json import decode
from problem import make_prior, true_means
from replicas import Killer
from serving import clean_up_when_terminated, new_server
from traffic import REWARD, Decided, Operation, Traffic, http_request

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from serve.tests import postgres_server

ACTIVATE = "activate"
WINDOW = 2.0
OPTIONS = ("--reward-window", f"{WINDOW:g}s", "--default-reward", "0")
PATIENCE = 120.0
"""Seconds in which all requests must be answered and all windows must end, after the last kill."""
N_TASKS = 500

LOG = (
    "SELECT d.key, d.deferred, a.at, r.value, r.is_default, r.late, l.value FROM decisions d "
    "LEFT JOIN activated a ON a.decision = d.seq LEFT JOIN rewards r ON r.decision = d.seq "
    "LEFT JOIN late_rewards l ON l.decision = d.seq"
)
TWICE = {
    "rewards of one decision": "SELECT COUNT(*) - COUNT(DISTINCT decision) FROM rewards",
    "late rewards of one decision": "SELECT COUNT(*) - COUNT(DISTINCT decision) FROM late_rewards",
    "activations of one decision": "SELECT COUNT(*) - COUNT(DISTINCT decision) FROM activated",
}


class ClickTraffic(Traffic):
    """Decisions, and clicks on some of them; every fourth decision is deferred."""

    def __init__(self, seed: int, twice: float = 0.0) -> None:
        means = true_means(make_prior(), N_TASKS)
        super().__init__(means, seed=seed, delay=0.1, twice=twice)
        self.deferred: set[str] = set()
        """Keys of decisions that were deferred."""
        self.activated: set[str] = set()
        """Ids of decisions that were activated, or rewarded."""
        self.silent: set[str] = set()
        """Ids of decisions that nobody clicks on."""
        self.late: set[str] = set()
        """Ids of decisions whose click came late."""

    def next(self, now: float) -> Operation:
        queue = self._to_reward
        while queue and queue[0].at + self._delay <= now and self._is_silent(queue[0]):
            queue.popleft()
        return super().next(now)

    def _is_silent(self, decided: Decided) -> bool:
        """Return whether nothing more happens to a decision."""
        if decided.deferred and decided.id not in self.activated:
            return False
        return decided.id in self.silent

    def _decide(self) -> Operation:
        operation = super()._decide()
        if self._n_asked % 4 == 0:
            self.deferred.add(operation.name)
            task = self.task_name(int(operation.about))
            body = f'{{"task":"{task}","key":"{operation.name}","defer":true}}'.encode()
            operation.request = http_request("decide", body)
        return operation

    def _reward(self, decided: Decided) -> Operation:
        """Return what the user does with a decision: see it, or click on it."""
        if decided.deferred and decided.id not in self.activated:
            self.activated.add(decided.id)
            body = f'{{"id":"{decided.id}"}}'.encode()
            self._to_reward.append(decided)
            return Operation(ACTIVATE, decided.id, 0.0, http_request("activate", body))
        body = f'{{"id":"{decided.id}","value":1}}'.encode()
        return Operation(REWARD, decided.id, 1.0, http_request("reward", body))

    def acknowledged(self, operation: Operation, body: bytes, now: float) -> None:
        if operation.kind is ACTIVATE:
            self.n_acknowledged += 1
            return
        super().acknowledged(operation, body, now)
        if operation.kind is REWARD and decode(body).get("late"):
            self.late.add(operation.name)

    def _acknowledged_decision(self, operation: Operation, answer: dict, now: float) -> None:
        is_new = operation.name not in self.decided
        super()._acknowledged_decision(operation, answer, now)
        decided = self.decided[operation.name]
        decided.deferred = operation.name in self.deferred
        if is_new and self._uniform() >= self._means[decided.task, decided.action]:
            self.silent.add(decided.id)
        if is_new and decided.deferred and self._uniform() < 0.5:
            self._to_reward.remove(decided)  # it is never shown


def audit_silence(store: DecisionStore, traffic: ClickTraffic) -> Counter[str]:
    """Count the errors of each kind."""
    wrong: Counter[str] = Counter()
    wrong["contradictory answers"] = len(traffic.contradictions)
    for what, sql in TWICE.items():
        wrong[f"several {what}"] = int(store.backend.query(sql)[0][0])
    log = {row[0]: row[1:] for row in store.backend.query(LOG)}
    wrong["decisions lost or added"] = len(log.keys() ^ traffic.decided.keys())
    for key, decided in traffic.decided.items():
        _, activated, *rewards = log[key]
        expected: list = [0.0, 1, 0, None]  # silence
        if decided.deferred and decided.id not in traffic.activated:
            expected = [None] * 4
        elif decided.id in traffic.late:
            expected[3] = 1.0
        elif decided.reward is not None:
            expected = [1.0, 0, 0, None]
        wrong["decisions with other rewards than their events"] += rewards != expected
        shown = decided.deferred and decided.id in traffic.activated
        wrong["activations lost or added"] += (activated is not None) != shown
    found = rebuild(store, write=False)
    wrong["tasks that a rebuild would change"] = found.differing
    wrong["windows that a rebuild would change"] = found.windows
    wrong["windows that never ended"] = len(store.backend.query("SELECT * FROM open_windows"))
    defaults = sum(row[3] == 1 for row in log.values())
    wrong["total of defaults"] = abs(store.totals().defaults - defaults)
    return +wrong


def wait_for_windows(store: str) -> None:
    """Wait until every window has ended; the audit finds those that do not end."""
    end = time.perf_counter() + PATIENCE
    with DecisionStore(store) as opened:
        while opened.has_open_defaults() and time.perf_counter() < end:
            time.sleep(WINDOW / 10)


def kill_one(options: argparse.Namespace, folder: Path) -> tuple[ClickTraffic, Counter[str], int]:
    """Kill a server on a file many times."""
    traffic = ClickTraffic(options.seed)
    rng = np.random.default_rng(options.seed)
    store = str(folder / "decisions.db")
    server = new_server(folder, store, options=OPTIONS)
    generator = Generator([server.address], options.connections, traffic)
    try:
        for kill in range(options.kills + 1):
            server.start()
            server.wait()
            end = traffic.n_acknowledged + options.operations // (options.kills + 1)
            generator.run_while(lambda now, end=end: traffic.n_acknowledged < end)
            if kill == options.kills:
                break
            # Some kills hit the moment at which windows end, and some the catching up.
            generator.run_closed(rng.uniform(0, 0.02))
            server.kill()
            generator.hear_out(0)
        generator.finish()
        wait_for_windows(store)
    finally:
        server.stop()
    with DecisionStore(store) as opened:
        return traffic, audit_silence(opened, traffic), options.kills


def kill_replicas(
    options: argparse.Namespace, folder: Path
) -> tuple[ClickTraffic, Counter[str], int]:
    """Kill two replicas in turn."""
    traffic = ClickTraffic(options.seed, twice=0.05)
    with postgres_server.running() as url:
        servers = [new_server(folder, url, f"replica-{i}", OPTIONS) for i in range(2)]
        generator = Generator([s.address for s in servers], options.connections, traffic)
        try:
            for server in servers:
                server.start()
            for server in servers:
                server.wait()
            killer = Killer(servers, generator, options.every, options.kills)

            def goes_on(now: float) -> bool:
                killer.look(now)
                return not killer.is_done or traffic.n_acknowledged < options.operations

            generator.run_while(goes_on)
            generator.finish(PATIENCE)  # the last killed replica has to come back
            wait_for_windows(url)
        finally:
            for server in servers:
                server.kill()
        with DecisionStore(url) as store:
            return traffic, audit_silence(store, traffic), killer.kills


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=50, help="of each part")
    parser.add_argument(
        "--operations", type=int, default=20_000, help="of each part, about; more until all kills"
    )
    parser.add_argument(
        "--every", type=float, default=3.0, help="seconds between kills of replicas"
    )
    parser.add_argument("--replicas-only", action="store_true", help="leave out the SQLite file")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    clean_up_when_terminated()
    parts = {} if options.replicas_only else {"1, SQLite": kill_one}
    if postgres_server.find() is not None:
        parts["2, PostgreSQL"] = kill_replicas
    print("| servers | kills | decisions | clicks | late | defaults | never shown | audit |")
    print("|---|---|---|---|---|---|---|---|")
    for name, part in parts.items():
        with tempfile.TemporaryDirectory(prefix="mixts-silence-") as folder:
            traffic, wrong, kills = part(options, Path(folder))
        decided = traffic.decided.values()
        clicks = sum(each.reward is not None for each in decided)
        hidden = sum(each.deferred and each.id not in traffic.activated for each in decided)
        defaults = len(decided) - clicks + len(traffic.late) - hidden
        print(
            f"| {name} | {kills} | {len(decided):,} | {clicks:,} | {len(traffic.late):,} "
            f"| {defaults:,} | {hidden:,} | {'nothing wrong' if not wrong else summary(wrong)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
