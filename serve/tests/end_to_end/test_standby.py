"""Commands that only read, on a read replica of PostgreSQL, which refuses every write."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward

from mixts.cli import main
from serve.tests import postgres_server
from serve.tests.contracts.stores import arms
from tests.requirements import require

N_TASKS = 50


@pytest.fixture
def standby() -> Iterator[str]:
    """The address of a standby of a server with a store."""
    reason = "no PostgreSQL server is installed (initdb was not found)"
    require("postgres", postgres_server.find() is not None, reason)
    with ExitStack() as stack:
        first, copy = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixts-pg-", dir="/tmp")))
            for _ in range(2)
        )
        url = postgres_server.start(first)
        stack.callback(postgres_server.stop, first, "immediate")
        with DecisionStore(url) as store, Decider(arms(), store, seed=1, holdback=0.2) as decider:
            made = decider.decide_many([Decide(f"task {i}") for i in range(N_TASKS)])
            decider.reward_many([Reward(each.id, 1.0) for each in made])
        yield postgres_server.start_standby(copy, first)
        postgres_server.stop(copy, "immediate")


def test_a_read_replica_shows_exports_and_reports(
    standby: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "show", standby]) == 0
    assert f"{N_TASKS} tasks, {N_TASKS} decisions" in capsys.readouterr().out
    assert main(["store", "export", standby, str(tmp_path / "d.csv")]) == 0
    assert len((tmp_path / "d.csv").read_text().splitlines()) == N_TASKS + 1
    assert main(["store", "report", standby]) == 0
    assert "held back" in capsys.readouterr().out
