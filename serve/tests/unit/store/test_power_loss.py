"""Nothing that was acknowledged is lost with the power, nothing is half there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decider, Decision, DecisionStore

from mixts.errors import StoreError, StoreUnavailableError
from serve.tests.power_loss import PAGE, SECTOR, Content, PowerLossDisk
from serve.tests.power_loss_runs import PRIORS, Outcome, run

# Checking shapes takes three quarters of the time, and here they are always the same ones.
pytestmark = pytest.mark.usefixtures("unchecked")

# -- the disk itself ------------------------------------------------------------------------------


def survivors(content: Content, n: int = 200) -> set[bytes]:
    return {content.survivor(np.random.default_rng(seed)) for seed in range(n)}


def test_synced_writes_survive() -> None:
    content = Content()
    content.write(b"a" * 1000, 0)
    content.truncate(700)
    content.sync()
    assert survivors(content) == {b"a" * 700}


def test_unsynced_writes_survive_in_part() -> None:
    content = Content(b"a" * 3 * SECTOR)
    content.write(b"b" * 2 * SECTOR, SECTOR // 2)
    written = b"a" * (SECTOR // 2) + b"b" * 2 * SECTOR + b"a" * (SECTOR // 2)
    parts = [(written[i : i + SECTOR], b"a" * SECTOR) for i in range(0, 3 * SECTOR, SECTOR)]
    every = {a + b + c for a in parts[0] for b in parts[1] for c in parts[2]}
    assert survivors(content) == every


def test_a_later_write_can_be_there_without_an_earlier_one() -> None:
    content = Content(b"a" * 2 * SECTOR)
    content.write(b"b" * SECTOR, 0)
    content.write(b"c" * SECTOR, SECTOR)
    assert b"a" * SECTOR + b"c" * SECTOR in survivors(content)


def test_a_failed_sync_forgets_what_it_did_not_write() -> None:
    content = Content(b"a" * 2 * PAGE)
    content.write(b"b" * PAGE, 0)
    nothing = next(
        rng
        for seed in range(100)
        if content.survivor(np.random.default_rng(seed)) == content.durable
        for rng in [np.random.default_rng(seed)]
    )
    content.forget(nothing)
    content.sync()  # succeeds, and has nothing to do
    assert survivors(content) == {b"a" * 2 * PAGE}
    content.write(b"c", 10)  # the page is written again, as programs see it
    content.sync()
    assert survivors(content) == {b"b" * 10 + b"c" + b"b" * (PAGE - 11) + b"a" * PAGE}


# -- the store on it ------------------------------------------------------------------------------


def assert_nothing_lost(outcomes: dict[int, Outcome]) -> None:
    assert {seed: o.wrong for seed, o in outcomes.items() if o.wrong} == {}
    assert {seed: o.lost for seed, o in outcomes.items() if o.lost} == {}


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    outcomes = {seed: run(seed, tmp_path) for seed in range(12)}
    assert_nothing_lost(outcomes)
    assert sum(outcome.acknowledged for outcome in outcomes.values()) > 100


def test_without_a_sync_at_every_commit_something_is(tmp_path: Path) -> None:
    # Otherwise the test above would test nothing. One run in three loses something.
    runs = (run(seed, tmp_path, "NORMAL") for seed in range(60))
    assert any(outcome.lost for outcome in runs)


def test_syncs_that_fail_lose_nothing(tmp_path: Path) -> None:
    assert_nothing_lost({seed: run(seed, tmp_path, failing=0.1) for seed in range(8)})


@contextmanager
def process(disk: PowerLossDisk, path: Path) -> Iterator[Decider]:
    """Is killed at the end, if not before."""
    disk.begin(10**6)
    with disk.store(path) as store, Decider(PRIORS[0], store) as decider:
        yield decider
        disk.end()


def assert_survives(disk: PowerLossDisk, folder: Path, *acknowledged: Decision) -> None:
    disk.lose_power(folder)
    with DecisionStore(folder / "decisions.db") as store:
        assert [store.history(decision.task)[-1].id for decision in acknowledged] == [
            decision.id for decision in acknowledged
        ]


@pytest.mark.parametrize("acts", range(10, 24))
def test_acknowledged_operations_after_a_kill_survive_a_power_loss(
    acts: int, tmp_path: Path
) -> None:
    # A process is killed at any act of a commit. The next one finds what the first one wrote, and
    # tells it: then it must be on the disk, whether or not the first one had synced it.
    path, after = tmp_path / "decisions.db", tmp_path / "after"
    after.mkdir()
    with PowerLossDisk(np.random.default_rng(acts)) as disk:
        with process(disk, path) as decider:
            disk.begin(acts)
            with suppress(StoreError):
                decider.decide("a", key="k")
        with process(disk, path) as decider:
            acknowledged = decider.decide("a", key="k")
        assert_survives(disk, after, acknowledged)


@pytest.mark.parametrize("seed", range(6))
def test_operations_after_a_failed_sync_survive_a_power_loss(seed: int, tmp_path: Path) -> None:
    # The log is whole in the system's memory, from where the next process reads it, and not on the
    # disk, where no later sync brings it.
    path, after = tmp_path / "decisions.db", tmp_path / "after"
    after.mkdir()
    with PowerLossDisk(np.random.default_rng(seed)) as disk:
        with process(disk, path) as decider:
            first = decider.decide("a")
            disk.failing = 1.0
            with pytest.raises(StoreUnavailableError, match="input or output error"):
                decider.decide("b", key="k")
        disk.failing = 0.0
        with process(disk, path) as decider:
            acknowledged = [first, decider.decide("c"), decider.decide("b", key="k")]
        assert_survives(disk, after, *acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0.0, 0.1])
def test_500_losses_of_power(
    failing: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = {seed: run(seed, tmp_path, failing=failing) for seed in range(500)}
    acknowledged = sum(outcome.acknowledged for outcome in outcomes.values())
    with capsys.disabled():
        print(
            f"\npower lost {len(outcomes)} times, {failing:.0%} of syncs failing: {acknowledged:,} "
            f"operations acknowledged, {sum(o.lost for o in outcomes.values())} lost"
        )
    assert_nothing_lost(outcomes)
    assert acknowledged > 5_000


@pytest.mark.slow
def test_without_a_sync_at_every_commit_the_store_is_whole(tmp_path: Path) -> None:
    outcomes = [run(seed, tmp_path, "NORMAL") for seed in range(100)]
    assert sum((outcome.wrong for outcome in outcomes), Counter()) == Counter()
    assert sum(outcome.lost > 0 for outcome in outcomes) > 10
