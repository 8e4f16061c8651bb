"""Measure ``mixts store ingest``, and kill it: nothing is lost, nothing is counted twice.

    python benchmarks/service/ingest.py speed [--rows 40000] [--rounds 3]
    python benchmarks/service/ingest.py kills [--kills 30] [--rows 40000] [--store postgresql://...]
    python benchmarks/service/ingest.py kafka [--kills 30] [--rows 40000]

``speed`` prints rows a second from files, with several sizes of a transaction, beside rewards that
a client sends to ``POST /v1/reward:batch``; and how long one client of a service on the same file
waits for its decisions meanwhile. ``kills`` kills the command again and again while it reads files,
and as often while it reads standard input from a topic, which a file stands for: after a kill, the
topic delivers again what was not acknowledged. ``kafka`` runs the program of the page
docs/how-to/rewards-from-a-stream.md on the broker of librdkafka's tests (pip install
confluent-kafka).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from mixts_serve import Client, Decide, Decider, DecisionStore, Reward, ingest, sources
from mixts_serve.store.rebuild import rebuild
from problem import N_ARMS, make_prior
from pyarrow import parquet
from serving import CODE, HOST, clean_up_when_terminated, serving

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/rewards-from-a-stream.md"
N_TASKS = 2_000
FEWEST_TIMES = 500
"""Decisions whose times are measured without anything beside them."""
SIZES = (250, 1_000, 4_000)
"""Rows in a transaction."""
LONGEST_PAUSE = 0.05
"""Largest random delay of a kill, in seconds: several transactions."""
DISORDER = 3_000
"""Rewards that may come between a decision and its reward: several transactions."""
PATIENCE = 60.0
"""Seconds without progress after which something is wrong."""

Rows = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["speed", "kills", "kafka"])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--store", help="address of an empty PostgreSQL database (default: a file)")
    parser.add_argument("--rounds", type=int, default=3, help="of speed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    clean_up_when_terminated()
    with tempfile.TemporaryDirectory(prefix="mixts-ingest-") as name:
        run = {"speed": print_speed, "kills": print_kills, "kafka": print_kafka}[options.what]
        run(Path(name), options)


# -- rows -----------------------------------------------------------------------------------------


def decided(store: DecisionStore, n: int) -> list[str]:
    """Let the store have n decisions; return their ids."""
    with Decider(make_prior(), store, seed=1) as decider:
        requests = [Decide(f"task {k % N_TASKS}") for k in range(n)]
        parts = [decider.decide_many(requests[i : i + 1000]) for i in range(0, n, 1000)]
    return [decision.id for part in parts for decision in part]


def made_elsewhere(n: int) -> Rows:
    now = time.time_ns() // 1_000_000
    return [
        {"id": f"{now:012x}{k:020x}", "task": f"task {k % N_TASKS}", "action": k % N_ARMS}
        for k in range(n)
    ]


def rewards_of(ids: list[str], rng: np.random.Generator) -> Rows:
    values = rng.integers(0, 2, len(ids)).tolist()
    return [{"id": id, "value": float(value)} for id, value in zip(ids, values, strict=True)]


def write_lines(path: Path, rows: Rows) -> Path:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return path


# -- speed ----------------------------------------------------------------------------------------


def print_speed(folder: Path, options: argparse.Namespace) -> None:
    rng, rates, waits = np.random.default_rng(options.seed), {}, {}
    for turn in range(options.rounds):
        for size in SIZES:
            for title, rate in rates_of(folder / f"{turn} {size}.db", size, options.rows, rng):
                rates.setdefault((title, f"{size:,}"), []).append(rate)
        over_http = "`POST /v1/reward:batch`, one client", "1,000 a request"
        rates.setdefault(over_http, []).append(rate_over_http(folder, options.rows, rng))
        for size in (None, *SIZES):
            waits.setdefault(size, []).extend(waits_beside(folder, size, options.rows, rng))
    print("| source | rows in a transaction | rows a second: median (least to most) |")
    print("|---|---|---|")
    for (title, size), found in rates.items():
        spread = f"{min(found):,.0f} to {max(found):,.0f}"
        print(f"| {title} | {size} | {np.median(found):,.0f} ({spread}) |")
    print("\n| a decision waits, ms | p50 | p90 | p99 |\n|---|---|---|---|")
    for size, times in waits.items():
        title = f"beside transactions of {size:,} rewards" if size else "alone"
        quantiles = " | ".join(f"{q:.1f}" for q in np.quantile(times, (0.5, 0.9, 0.99)))
        print(f"| {title} | {quantiles} |", flush=True)


def rates_of(
    path: Path, size: int, n: int, rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Yield the rows a second of several files, with transactions of one size."""
    ingest.BATCH_ROWS = sources.BATCH_ROWS = size
    folder, table = path.parent, path.with_suffix(".parquet")
    with DecisionStore(path) as store:
        rewards = rewards_of(decided(store, n), rng)
        parquet.write_table(pa.Table.from_pylist(rewards[: n // 2]), table)
        files = {
            "rewards, JSON lines": write_lines(folder / "r.jsonl", rewards[n // 2 :]),
            "rewards, Parquet": table,
            "decisions made elsewhere": write_lines(folder / "d.jsonl", made_elsewhere(n // 2)),
            "rewards, all known before": write_lines(folder / "k.jsonl", rewards),
        }
        for title, name in files.items():
            started = time.perf_counter()
            found = ingest.Ingest(store).run([sources.opened(str(name))])
            yield title, found.total() / (time.perf_counter() - started)


def rate_over_http(folder: Path, n: int, rng: np.random.Generator) -> float:
    """Return the rewards a second that one client sends in batches."""
    with (
        serving(folder=str(folder)) as server,
        Client(f"http://{HOST}:{server.address[1]}") as client,
    ):
        made = client.decide_many([Decide(f"task {k % N_TASKS}") for k in range(n)])
        rewards = rewards_of([decision.id for decision in made], rng)
        reports = [Reward(row["id"], row["value"]) for row in rewards]
        started = time.perf_counter()
        client.reward_many(reports)
        return n / (time.perf_counter() - started)


def waits_beside(folder: Path, size: int | None, n: int, rng: np.random.Generator) -> list[float]:
    """Return how long decisions take, in ms, while rewards are ingested into the same file."""
    with (
        serving(folder=str(folder)) as server,
        Client(f"http://{HOST}:{server.address[1]}") as client,
    ):
        ids = [one.id for one in client.decide_many([Decide(f"task {k}") for k in range(n)])]
        path = write_lines(folder / "beside.jsonl", rewards_of(ids, rng))
        code = (
            "import sys; from mixts_serve import ingest, sources; "
            f"ingest.BATCH_ROWS = sources.BATCH_ROWS = {size}; "
        )
        words = [sys.executable, "-c", code + CODE, "store", "ingest", str(server.store), str(path)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL) if size else None
        times = []
        while process.poll() is None if process else len(times) < FEWEST_TIMES:
            started = time.perf_counter()
            client.decide(f"task {len(times)}")
            times.append(1e3 * (time.perf_counter() - started))
        return times


# -- kills ----------------------------------------------------------------------------------------


class Work:
    """Rows in an order of their own: a service's decisions, and others made elsewhere."""

    def __init__(self, address: str, n: int, rng: np.random.Generator) -> None:
        self.address = address
        with DecisionStore(address) as store:
            ids = decided(store, n // 2)
        made = made_elsewhere(n // 2)
        self.rewards = rewards_of([*ids, *(row["id"] for row in made)], rng)
        # Each reward comes near its decision, before it or after it, and some rows come twice.
        ordered = {row["id"]: k for k, row in enumerate(self.rewards)}
        rows = [*made, *self.rewards]
        rows += [rows[i] for i in rng.integers(0, len(rows), n // 20)]
        places = [ordered[row["id"]] + rng.uniform(0, DISORDER) for row in rows]
        self.rows = [rows[i] for i in np.argsort(places)]
        self.n_decisions, self.n_rewards = 2 * (n // 2), len(self.rewards)

    def done(self, store: DecisionStore) -> int:
        """Return how much of it a store has."""
        rows = "SELECT COALESCE(MAX(seq), 0) FROM {}"
        return sum(int(store.backend.value(rows.format(t))) for t in ("decisions", "rewards"))

    @property
    def total(self) -> int:
        """What ``done`` returns at the end."""
        return self.n_decisions + self.n_rewards

    def audit(self) -> str:
        """Return in words whether a store has each row once."""
        with DecisionStore(self.address) as store:
            found = rebuild(store, write=False)
            sql = "SELECT d.id, r.value FROM rewards r JOIN decisions d ON d.seq = r.decision"
            log = [(bytes(id).hex(), value) for id, value in store.backend.query(sql)]
        expected = {row["id"]: row["value"] for row in self.rewards}
        wrong = {
            "lost": len(expected.keys() - dict(log).keys()),
            "twice": len(log) - len(dict(log)),
            "with another value": sum(expected.get(id) != value for id, value in log),
            "decisions too many or too few": abs(found.decisions - self.n_decisions),
            "differences from the log": found.n_differences,
            "damaged": len(found.damage),
        }
        named = ", ".join(f"{n} {what}" for what, n in wrong.items() if n)
        return f"WRONG: {named}" if named else "nothing lost, nothing twice"


def kill_again(
    work: Work, kills: int, rng: np.random.Generator, start: Callable[[], subprocess.Popen[bytes]]
) -> tuple[int, int]:
    """Kill a process and its children as often, at any moment of its work, then let it finish.

    Return the number of kills, and of those before the work was done.
    """
    n_useful = 0
    with DecisionStore(work.address) as store:
        begin = work.done(store)
        for _ in range(kills):
            before, share = work.done(store), (work.total - begin) / kills
            with killed_at_last(start()):
                wait_until(store, work, min(before + int(rng.uniform(0, 1.5 * share)), work.total))
                time.sleep(rng.uniform(0, LONGEST_PAUSE))
            n_useful += work.done(store) < work.total
        with killed_at_last(start()):
            wait_until(store, work, work.total)
    return kills, n_useful


@contextmanager
def killed_at_last(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process and its children at the end of the ``with`` block."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(store: DecisionStore, work: Work, n: int) -> None:
    """Wait until a store has so many rows, or no more come."""
    since, last = time.monotonic(), -1
    while (now := work.done(store)) < n:
        if now != last:
            since, last = time.monotonic(), now
        if time.monotonic() - since > PATIENCE:
            raise SystemExit(f"no progress at {now:,} of {work.total:,} rows")
        time.sleep(0.001)


def print_kills(folder: Path, options: argparse.Namespace) -> None:
    rng = np.random.default_rng(options.seed)
    print("| source | rows | kills | of them before the end | |\n|---|---|---|---|---|")
    for title in ("files", "standard input"):
        if options.store and title != "files":
            break  # the database must be empty
        work = Work(options.store or str(folder / f"{title}.db"), options.rows, rng)
        start = from_files(folder, work) if title == "files" else from_topic(folder, work)
        kills, useful = kill_again(work, options.kills, rng, start)
        print(f"| {title} | {len(work.rows):,} | {kills} | {useful} | {work.audit()} |", flush=True)


def command(work: Work, *words: str) -> list[str]:
    return [sys.executable, "-c", CODE, "store", "ingest", work.address, *words]


def from_files(folder: Path, work: Work) -> Callable[[], subprocess.Popen[bytes]]:
    """Read a file of lines, a packed one, and two of Parquet."""
    import gzip

    third = len(work.rows) // 3
    first = write_lines(folder / "a.jsonl", work.rows[:third])
    packed = folder / "b.jsonl.gz"
    lines = write_lines(folder / "b.jsonl", work.rows[third : 2 * third]).read_bytes()
    packed.write_bytes(gzip.compress(lines))
    rest = work.rows[2 * third :]
    tables = {}
    for kind, is_made in (("decisions", True), ("rewards", False)):
        tables[kind] = folder / f"{kind}.parquet"
        rows = [row for row in rest if ("task" in row) == is_made]
        parquet.write_table(pa.Table.from_pylist(rows), tables[kind], row_group_size=3_000)
    files = [first, packed, *tables.values()]
    words = command(work, *map(str, files))
    return lambda: subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)


def from_topic(folder: Path, work: Work) -> Callable[[], subprocess.Popen[bytes]]:
    """Send the rows after the committed offset, and commit what is acknowledged."""
    topic = write_lines(folder / "topic.jsonl", work.rows).read_bytes().splitlines(keepends=True)
    committed = [0]

    def start() -> subprocess.Popen[bytes]:
        words = command(work, "-")
        pipe = subprocess.PIPE
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, start_new_session=True)
        begin = committed[0]

        def send() -> None:
            try:
                for line in topic[begin:]:
                    process.stdin.write(line)
                process.stdin.close()
            except BrokenPipeError:
                return

        def hear() -> None:
            for line in process.stdout:
                if line.endswith(b"\n"):
                    committed[0] = max(committed[0], begin + json.loads(line)["lines"])

        for each in (send, hear):
            threading.Thread(target=each, daemon=True).start()
        return process

    return start


# -- Kafka ----------------------------------------------------------------------------------------


@contextmanager
def broker() -> Iterator[str]:
    """Run the broker that librdkafka has for its tests, in this process; yield its address."""
    from confluent_kafka import Producer

    owner = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (found,) = owner.list_topics(timeout=10).brokers.values()
    yield f"{found.host}:{found.port}"
    owner.flush()


def print_kafka(folder: Path, options: argparse.Namespace) -> None:
    from confluent_kafka import Producer

    rng = np.random.default_rng(options.seed)
    (program,) = re.findall(r"```python no-run\n(.*?confluent_kafka.*?)```", PAGE.read_text(), re.S)
    path = folder / "consumer.py"
    # Consumers that were killed leave their group after this time, not after 45 seconds.
    path.write_text(program.replace('"mixts",', '"mixts", "session.timeout.ms": 6000,', 1))
    work = Work(options.store or str(folder / "decisions.db"), options.rows, rng)
    with broker() as address:
        producer = Producer({"bootstrap.servers": address, "log_level": 0})
        for row in work.rows:
            topic = "decisions" if "task" in row else "rewards"
            producer.produce(topic, json.dumps(row).encode(), key=row["id"])
            producer.poll(0)
            while len(producer) > 10_000:
                producer.poll(0.1)
        producer.flush()

        def start() -> subprocess.Popen[bytes]:
            words = [sys.executable, str(path), address, work.address, "decisions", "rewards"]
            place = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            return subprocess.Popen(
                words, cwd=folder, env=os.environ | {"PATH": place}, start_new_session=True
            )

        kills, useful = kill_again(work, options.kills, rng, start)
        rejects = folder / "rejects.jsonl"
        n_rejected = len(rejects.read_text().splitlines()) if rejects.exists() else 0
    print("| messages | kills | of them before the end | rejects | |\n|---|---|---|---|---|")
    print(f"| {len(work.rows):,} | {kills} | {useful} | {n_rejected} | {work.audit()} |")


if __name__ == "__main__":
    main()
