"""Stores of decisions to test against: a new SQLite file, or a new database of a real server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decider, Decision, DecisionStore
from mixts_serve.store.postgres import PostgresBackend, PostgresTransaction
from mixts_serve.store.sqlite import SQLiteBackend, SQLiteTransaction

import mixts
from serve.tests import postgres_server
from tests.requirements import require

KINDS = ("sqlite", "postgres")

_NUMBERS = itertools.count()
_FREE: list[str] = []
"""Addresses of empty databases of this process's server."""

Opener = Callable[[], DecisionStore]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a server that the tests of one worker share."""
    reason = "no PostgreSQL server is installed (initdb was not found)"
    require("postgres", postgres_server.find() is not None, reason)
    with postgres_server.running(fsync=False) as url:
        yield url


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Path or address at which a test can create a store."""
    if request.param == "sqlite":
        yield str(tmp_path / "decisions.db")
        return
    server: str = request.getfixturevalue("postgres")
    # A new database is 7 MB of files; to empty one that a test left takes a fifth of the time.
    url = _FREE.pop() if _FREE else postgres_server.database(server, f"store{next(_NUMBERS)}")
    yield url
    postgres_server.clear(url)
    _FREE.append(url)


@pytest.fixture
def opened(address: str) -> Iterator[Opener]:
    """Open the same store, as often as wanted; closed at the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(DecisionStore(address))


@pytest.fixture
def store(opened: Opener) -> DecisionStore:
    """A new store."""
    return opened()


def set_clock(monkeypatch: pytest.MonkeyPatch, now_us: Callable[[], int]) -> None:
    """Give all stores a clock, which returns microseconds since 1970."""
    for kind in (PostgresBackend, PostgresTransaction, SQLiteBackend, SQLiteTransaction):
        monkeypatch.setattr(kind, "now_us", lambda self: now_us())


def arms(n_arms: int = 3, scale: float = 1.0) -> mixts.MixturePrior:
    """Two kinds of task that like opposite arms."""
    alpha = scale * np.array([np.arange(1, n_arms + 1), np.arange(n_arms, 0, -1)], float)
    family = mixts.BernoulliArms(alpha, alpha[::-1])
    return mixts.MixturePrior(family, [0.4, 0.6], ["rising", "falling"])


def doubtful() -> mixts.MixturePrior:
    """A sure arm and a doubtful one, between which information-directed sampling draws lots."""
    family = mixts.BernoulliArms([[8, 2, 7], [8, 1, 3]], [[6, 1, 5], [6, 7, 8]])
    return mixts.MixturePrior(family)


def linear() -> mixts.MixturePrior:
    """Two kinds of task over two features."""
    family = mixts.LinearGaussian([[1.0, 0.0], [0.0, 1.0]], np.stack([np.eye(2)] * 2), 0.5)
    return mixts.MixturePrior(family)


ACTIONS = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
"""To offer under the linear prior."""


def decide_and_reward(decider: Decider, task: str, values: list[float]) -> list[Decision]:
    """Decide and reward, one after the other."""
    made = []
    for value in values:
        made.append(decider.decide(task))
        decider.reward(made[-1].id, value)
    return made
