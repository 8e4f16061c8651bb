"""Runs of a decider on a disk that loses its power: is everything acknowledged still there?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
from mixts_serve import Decider, DecisionStore
from mixts_serve.records import Decide, Decision, Receipt, Reward
from mixts_serve.store import _sqlite_log as sqlite_log
from mixts_serve.store.rebuild import rebuild
from msgspec.structs import replace

import mixts
from mixts.errors import MixtsError, StoreError
from serve.tests.power_loss import PowerLossDisk

CALLS = 25
ACTS = 600
"""About the number of file operations in ``CALLS`` calls; a process ends at a random one."""
KILLED = 0.3
"""Probability that only the process ends, and another process goes on."""
PRIORS = [
    mixts.MixturePrior(mixts.BernoulliArms([[a, 1.0], [1.0, a]], [[1.0, a], [a, 1.0]]))
    for a in (3.0, 5.0)
]
LOG = (
    "SELECT d.id, t.name, d.action, d.propensity, d.version, d.key, r.value FROM decisions d "
    "JOIN tasks t ON t.number = d.task LEFT JOIN rewards r ON r.decision = d.seq"
)

Item = Decide | Reward


@dataclass
class Record:
    """Responses that callers received, and calls that failed, which may have happened or not."""

    decisions: dict[str, Decision] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    version: int | None = None
    failed: list[list[Item]] = field(default_factory=list)
    """Last failed calls of this process; its next successful write overwrites them."""
    failed_before: list[list[Item]] = field(default_factory=list)
    """Last failed calls of processes that ended."""
    failed_versions: set[int] = field(default_factory=set)

    @property
    def n(self) -> int:
        return len(self.decisions) + len(self.rewards)

    @property
    def doubtful(self) -> list[list[Item]]:
        """Failed calls: all of their items are stored, or none."""
        return self.failed_before + self.failed

    def knows(self, item: Item) -> bool:
        if isinstance(item, Reward):
            return item.decision in self.rewards
        return (item.task, item.key) in self.keys


@dataclass(frozen=True)
class Outcome:
    acknowledged: int
    """Number of acknowledged operations."""
    lost: int
    """Number of acknowledged operations that are missing."""
    wrong: Counter[str]
    """Number of other errors, by kind."""


def run(seed: int, folder: Path, synchronous: str = "FULL", failing: float = 0.0) -> Outcome:
    """Run processes until the power is lost, and inspect the remaining store."""
    rng = np.random.default_rng([seed, 1])
    before, after = folder / f"{seed}-before", folder / f"{seed}-after"
    before.mkdir()
    after.mkdir()
    record = Record()
    with short_logs(rng), PowerLossDisk(rng, failing) as disk:
        while True:
            disk.begin(int(rng.integers(1, ACTS)))
            while not disk.dead:
                with suppress(StoreError):  # the store cannot be opened: try again
                    play(before / "decisions.db", disk, rng, record, synchronous)
                    break
            disk.end()
            if rng.random() > KILLED:
                break
        disk.lose_power(after)
    try:
        return inspect_store(after / "decisions.db", record)
    except StoreError:
        if synchronous == "FULL":
            raise
        # Whole transactions are missing in the middle of the log, which is rightly refused.
        return Outcome(record.n, record.n, Counter())


@contextmanager
def short_logs(rng: np.random.Generator) -> Iterator[None]:
    """Make checkpoints after a few pages: in their thread, by the writer, or in both ways."""
    moves, resets = [(8, 10**6), (10**6, 20), (8, 40)][rng.integers(3)]
    with mock.patch.multiple(sqlite_log, CHECKPOINT_PAGES=moves, RESET_PAGES=resets):
        yield


# -- before ---------------------------------------------------------------------------------------


def play(
    path: Path,
    disk: PowerLossDisk,
    rng: np.random.Generator,
    record: Record,
    synchronous: str,
) -> None:
    """Play a process that makes decisions and receives rewards."""
    record.failed_before += record.failed
    record.failed = []
    with disk.store(path, synchronous) as store:
        with Decider(PRIORS[0], store, seed=int(rng.integers(2**32))) as decider:
            record.version = decider.prior_version
            if rng.random() < 0.7:  # callers without a response try again
                for call in list(record.failed_before):
                    _ask(decider, call, record)
            for _ in range(CALLS):
                if disk.dead:
                    break
                _call(decider, rng, record)
        if rng.random() < 0.5:  # otherwise closed, with its last checkpoint
            disk.end()


def _call(decider: Decider, rng: np.random.Generator, record: Record) -> None:
    """Make a random call."""
    waiting = [id for id in record.decisions if id not in record.rewards]
    what = rng.choice(["decide", "reward", "again", "prior"], p=[0.45, 0.4, 0.1, 0.05])
    n = int(rng.choice([1, 1, 4]))
    if what == "prior":
        _activate(decider, rng, record)
    elif what == "reward" and waiting:
        chosen = rng.choice(waiting, min(len(waiting), n), replace=False).tolist()
        _ask(decider, [Reward(id, _value(id)) for id in chosen], record)
    elif what == "again" and record.rewards:
        id = str(rng.choice(list(record.rewards)))
        _ask(decider, [Reward(id, _value(id))], record)
    else:
        tasks = [f"task {task}" for task in rng.integers(5, size=n)]
        keys: list[str | None] = [str(key) for key in rng.integers(30, size=n)]
        if n == 1 and rng.random() < 0.5:
            keys = [None]
        asked = [Decide(task, key=key) for task, key in zip(tasks, keys, strict=True)]
        _ask(decider, list(asked), record)


def _value(id: str) -> float:
    """Return the reward of a decision, which is always the same."""
    return float(int(id, 16) % 2)


def _ask(decider: Decider, call: list[Item], record: Record) -> None:
    """Call ``decide_many`` or ``reward_many``, and record the responses."""
    many = decider.decide_many if isinstance(call[0], Decide) else decider.reward_many
    results = many(call)  # type: ignore[operator]
    if isinstance(results[0], MixtsError):
        assert all(result is results[0] for result in results), "a call fails as a whole"
        record.failed.append(call)
        return
    if not all(record.knows(item) for item in call):
        record.failed = []
    for item, result in zip(call, results, strict=True):
        if isinstance(item, Decide):
            assert isinstance(result, Decision)
            record.decisions.setdefault(result.id, result)
            if item.key is not None:
                assert record.keys.setdefault((item.task, item.key), result.id) == result.id
        else:
            assert isinstance(result, Receipt)
            # The reward may have been stored by a call that failed.
            doubtful = any(item in call for call in record.failed_before)
            assert doubtful or result.duplicate == record.knows(item)
            record.rewards[item.decision] = item.value


def _activate(decider: Decider, rng: np.random.Generator, record: Record) -> None:
    try:
        version = decider.upload_prior(PRIORS[rng.integers(2)])
        record.failed_versions.add(version)
        decider.activate_prior(version)
    except StoreError:
        return
    record.version = version
    record.failed_versions = set()


# -- after ----------------------------------------------------------------------------------------


def inspect_store(path: Path, record: Record) -> Outcome:
    """Compare a store with the acknowledged operations."""
    wrong: Counter[str] = Counter()
    with DecisionStore(path) as store:
        wrong["damage"] += store.backend.query("PRAGMA quick_check") != [("ok",)]
        version = store.active_version()
        lost = int(
            record.version is not None and version not in {record.version, *record.failed_versions}
        )
        with Decider(PRIORS[0] if version is None else None, store) as decider:
            wrong["tasks unlike their log"] += rebuild(store, write=False).differing
            lost += _compare_log(store, record, wrong)
            _check_retries(decider, record, wrong)
    return Outcome(record.n, lost, +wrong)


def _compare_log(store: DecisionStore, record: Record, wrong: Counter[str]) -> int:
    rows = {bytes(id).hex(): rest for id, *rest in store.backend.query(LOG)}
    lost = 0
    for id, decision in record.decisions.items():
        if id not in rows:
            lost += 1
            continue
        made = [decision.task, decision.action, decision.propensity, decision.prior_version]
        wrong["decisions changed"] += rows[id][:4] != made
    values = {id: row[5] for id, row in rows.items() if row[5] is not None}
    for id, value in record.rewards.items():
        lost += id not in values
        wrong["rewards changed"] += values.get(id, value) != value
    untold = [Decide(row[0], key=row[4]) for id, row in rows.items() if id not in record.decisions]
    more = [Reward(id, value) for id, value in values.items() if id not in record.rewards]
    _check_unacknowledged([*untold, *more], record, wrong)
    totals = store.totals()
    wrong["totals"] += (totals.decisions, totals.rewards) != (len(rows), len(values))
    return lost


def _check_unacknowledged(found: list[Item], record: Record, wrong: Counter[str]) -> None:
    """Check that unacknowledged rows belong to failed calls, and to none of them in part."""
    asked = Counter(item for call in record.doubtful for item in call)
    for call in record.doubtful:
        if not any(record.knows(item) for item in call):
            there = {item in found for item in call if asked[item] == 1}
            wrong["partial calls"] += len(there) == 2
    wrong["rows without a call"] += (Counter(found) - asked).total()


def _check_retries(decider: Decider, record: Record, wrong: Counter[str]) -> None:
    """Check that repeated calls change nothing, unless the first one was lost."""
    rows = decider.store.backend.query("SELECT id FROM decisions")
    there = {bytes(id).hex() for (id,) in rows}
    keys = {pair: id for pair, id in record.keys.items() if id in there}
    again = decider.decide_many([Decide(task, key=key) for task, key in keys])
    for id, decision in zip(keys.values(), again, strict=True):
        wrong["keys forgotten"] += decision != replace(record.decisions[id], repeated=True)
    rewards = [Reward(id, value) for id, value in record.rewards.items() if id in there]
    for result in decider.reward_many(rewards):
        wrong["rewards refused"] += not isinstance(result, Receipt)
