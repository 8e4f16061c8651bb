"""Decisions and rewards on a disk that loses its power; is what was told there afterwards?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
from msgspec.structs import replace

import mixts
from mixts.errors import MixtsError, StoreError
from mixts.service.records import Decide, Decision, Receipt, Reward
from mixts.service.store import _sqlite_log as sqlite_log
from mixts.service.store.rebuild import rebuild
from tests.power_loss import PowerLossDisk

CALLS = 25
ACTS = 600
"""A process of so many calls does about as much to its files; it ends at any of it."""
KILLED = 0.3
"""How often the process ends without the power, and another one goes on."""
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
class Told:
    """What callers were told, and which calls failed: those may or may not have happened."""

    decisions: dict[str, Decision] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    version: int | None = None
    failed: list[list[Item]] = field(default_factory=list)
    """The last ones of this process: what is written next is written over them."""
    failed_before: list[list[Item]] = field(default_factory=list)
    """The last ones of processes that ended."""
    failed_versions: set[int] = field(default_factory=set)

    @property
    def n(self) -> int:
        return len(self.decisions) + len(self.rewards)

    @property
    def doubtful(self) -> list[list[Item]]:
        """Calls that may have happened: all of what they asked for, or nothing."""
        return self.failed_before + self.failed

    def knows(self, item: Item) -> bool:
        if isinstance(item, Reward):
            return item.decision in self.rewards
        return (item.task, item.key) in self.keys


@dataclass(frozen=True)
class Outcome:
    told: int
    """Operations that were acknowledged."""
    lost: int
    """Those of them that are gone."""
    wrong: Counter[str]
    """What else is not as it must be."""


def run(seed: int, folder: Path, synchronous: str = "FULL", failing: float = 0.0) -> Outcome:
    """Play until the power is lost, and look at what is left."""
    rng = np.random.default_rng([seed, 1])
    before, after = folder / f"{seed}-before", folder / f"{seed}-after"
    before.mkdir()
    after.mkdir()
    told = Told()
    with short_logs(rng), PowerLossDisk(rng, failing) as disk:
        while True:
            disk.begin(int(rng.integers(1, ACTS)))
            while not disk.dead:
                with suppress(StoreError):  # it cannot be opened: try again
                    play(before / "decisions.db", disk, rng, told, synchronous)
                    break
            disk.end()
            if rng.random() > KILLED:
                break
        disk.lose_power(after)
    return look(after / "decisions.db", told)


@contextmanager
def short_logs(rng: np.random.Generator) -> Iterator[None]:
    """Checkpoints after a few pages: beside the writer, by the writer itself, or by both."""
    moves, resets = [(8, 10**6), (10**6, 20), (8, 40)][rng.integers(3)]
    with mock.patch.multiple(sqlite_log, CHECKPOINT_PAGES=moves, RESET_PAGES=resets):
        yield


# -- before ---------------------------------------------------------------------------------------


def play(
    path: Path, disk: PowerLossDisk, rng: np.random.Generator, told: Told, synchronous: str
) -> None:
    """A process that decides and takes rewards."""
    told.failed_before += told.failed
    told.failed = []
    with disk.store(path, synchronous) as store:
        with mixts.Decider(PRIORS[0], store, seed=int(rng.integers(2**32))) as decider:
            told.version = decider.prior_version
            if rng.random() < 0.7:  # callers who were not told try again
                for call in list(told.failed_before):
                    _ask(decider, call, told)
            for _ in range(CALLS):
                if disk.dead:
                    break
                _call(decider, rng, told)
        if rng.random() < 0.5:  # otherwise closed, with its last checkpoint
            disk.end()


def _call(decider: mixts.Decider, rng: np.random.Generator, told: Told) -> None:
    """Something that a caller may do."""
    waiting = [id for id in told.decisions if id not in told.rewards]
    what = rng.choice(["decide", "reward", "again", "prior"], p=[0.45, 0.4, 0.1, 0.05])
    n = int(rng.choice([1, 1, 4]))
    if what == "prior":
        _activate(decider, rng, told)
    elif what == "reward" and waiting:
        chosen = rng.choice(waiting, min(len(waiting), n), replace=False).tolist()
        _ask(decider, [Reward(id, _value(id)) for id in chosen], told)
    elif what == "again" and told.rewards:
        id = str(rng.choice(list(told.rewards)))
        _ask(decider, [Reward(id, _value(id))], told)
    else:
        tasks = [f"task {task}" for task in rng.integers(5, size=n)]
        keys: list[str | None] = [str(key) for key in rng.integers(30, size=n)]
        if n == 1 and rng.random() < 0.5:
            keys = [None]
        asked = [Decide(task, key=key) for task, key in zip(tasks, keys, strict=True)]
        _ask(decider, list(asked), told)


def _value(id: str) -> float:
    """What comes of a decision is the same whenever it is said."""
    return float(int(id, 16) % 2)


def _ask(decider: mixts.Decider, call: list[Item], told: Told) -> None:
    """A call of many decisions or many rewards, and what is told of it."""
    many = decider.decide_many if isinstance(call[0], Decide) else decider.reward_many
    results = many(call)  # type: ignore[operator]
    if isinstance(results[0], MixtsError):
        assert all(result is results[0] for result in results), "a call fails as a whole"
        told.failed.append(call)
        return
    if not all(told.knows(item) for item in call):
        told.failed = []
    for item, result in zip(call, results, strict=True):
        if isinstance(item, Decide):
            assert isinstance(result, Decision)
            told.decisions.setdefault(result.id, result)
            if item.key is not None:
                assert told.keys.setdefault((item.task, item.key), result.id) == result.id
        else:
            assert isinstance(result, Receipt)
            # Somebody may have asked before without being told.
            doubtful = any(item in call for call in told.failed_before)
            assert doubtful or result.duplicate == told.knows(item)
            told.rewards[item.decision] = item.value


def _activate(decider: mixts.Decider, rng: np.random.Generator, told: Told) -> None:
    try:
        version = decider.upload_prior(PRIORS[rng.integers(2)])
        told.failed_versions.add(version)
        decider.activate_prior(version)
    except StoreError:
        return
    told.version = version
    told.failed_versions = set()


# -- after ----------------------------------------------------------------------------------------


def look(path: Path, told: Told) -> Outcome:
    """Compare a store with what was told."""
    wrong: Counter[str] = Counter()
    with mixts.DecisionStore(path) as store:
        wrong["damage"] += store.backend.query("PRAGMA quick_check") != [("ok",)]
        version = store.active_version()
        lost = int(
            told.version is not None and version not in {told.version, *told.failed_versions}
        )
        with mixts.Decider(PRIORS[0] if version is None else None, store) as decider:
            wrong["tasks unlike their log"] += rebuild(store, write=False).differing
            lost += _compare_log(store, told, wrong)
            _ask_again(decider, told, wrong)
    return Outcome(told.n, lost, +wrong)


def _compare_log(store: mixts.DecisionStore, told: Told, wrong: Counter[str]) -> int:
    rows = {bytes(id).hex(): rest for id, *rest in store.backend.query(LOG)}
    lost = 0
    for id, decision in told.decisions.items():
        if id not in rows:
            lost += 1
            continue
        made = [decision.task, decision.action, decision.propensity, decision.prior_version]
        wrong["decisions changed"] += rows[id][:4] != made
    values = {id: row[5] for id, row in rows.items() if row[5] is not None}
    for id, value in told.rewards.items():
        lost += id not in values
        wrong["rewards changed"] += values.get(id, value) != value
    untold = [Decide(row[0], key=row[4]) for id, row in rows.items() if id not in told.decisions]
    more = [Reward(id, value) for id, value in values.items() if id not in told.rewards]
    _explain([*untold, *more], told, wrong)
    totals = store.totals()
    wrong["totals"] += (totals.decisions, totals.rewards) != (len(rows), len(values))
    return lost


def _explain(found: list[Item], told: Told, wrong: Counter[str]) -> None:
    """What is there and nobody was told of was asked for by calls that failed, never by halves."""
    asked = Counter(item for call in told.doubtful for item in call)
    for call in told.doubtful:
        if not any(told.knows(item) for item in call):
            there = {item in found for item in call if asked[item] == 1}
            wrong["halves of calls"] += len(there) == 2
    wrong["what nobody asked for"] += (Counter(found) - asked).total()


def _ask_again(decider: mixts.Decider, told: Told, wrong: Counter[str]) -> None:
    """What is repeated must change nothing, where the first time was not lost."""
    rows = decider.store.backend.query("SELECT id FROM decisions")
    there = {bytes(id).hex() for (id,) in rows}
    keys = {pair: id for pair, id in told.keys.items() if id in there}
    again = decider.decide_many([Decide(task, key=key) for task, key in keys])
    for id, decision in zip(keys.values(), again, strict=True):
        wrong["keys forgotten"] += decision != replace(told.decisions[id], repeated=True)
    rewards = [Reward(id, value) for id, value in told.rewards.items() if id in there]
    for result in decider.reward_many(rewards):
        wrong["rewards refused"] += not isinstance(result, Receipt)
