"""Rewards and decisions from files, in every store: each counted once, whatever happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, ingest, sources
from mixts_serve.ingest import Ingest
from mixts_serve.shards import Shard, slot_of
from mixts_serve.sources import opened as source
from mixts_serve.store.rebuild import rebuild

from mixts.errors import ParameterError, StoreUnavailableError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear
from serve.tests.contracts.test_store_context import OLD, PRIOR, offer
from serve.tests.contracts.test_store_locks import HOLD, neighbour
from serve.tests.contracts.test_store_made import made

N = 10


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write three rows at a time, and wait for nothing."""
    monkeypatch.setattr(sources, "BATCH_ROWS", 3)
    monkeypatch.setattr(ingest, "BATCH_ROWS", 3)
    monkeypatch.setattr(ingest, "PAUSES", (0.0, 0.0))


@pytest.fixture
def decisions(store: DecisionStore) -> list[Decision]:
    """Decisions of three tasks that the store has."""
    with Decider(arms(), store, seed=1) as decider:
        return [decider.decide(f"t{k % 3}") for k in range(N)]


def lines(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def reward(decision: Any, value: float = 1.0, **fields: Any) -> dict[str, Any]:
    return {"id": decision if isinstance(decision, str) else decision.id, "value": value, **fields}


def elsewhere(store: DecisionStore, n: int = N) -> list[dict[str, Any]]:
    """Decisions that were made elsewhere, as rows."""
    each = [made(store.now(), number, f"t{number % 3}", number % 3) for number in range(n)]
    return [{"id": one.id, "task": one.task, "action": one.action} for one in each]


def run(store: DecisionStore, *paths: str, **options: Any) -> list[str]:
    return Ingest(store, **options).run([source(path) for path in paths]).lines()


def counted(store: DecisionStore) -> tuple[int, int]:
    """The numbers of decisions and rewards, if all statistics are those of the log."""
    found = rebuild(store, write=False)
    assert not found.damage
    assert found.n_differences == 0
    return found.decisions, found.rewards


def test_rewards_are_counted_once(
    store: DecisionStore, decisions: list[Decision], tmp_path: Path
) -> None:
    first = lines(tmp_path / "a.jsonl", *map(reward, decisions[:8]))
    assert run(store, first) == ["ingested 8 rewards: 8 new, 0 known before, 0 refused"]
    assert run(store, first) == ["there was nothing new to ingest"]
    both = lines(tmp_path / "b.jsonl", *map(reward, decisions), reward(decisions[9]))
    assert run(store, both) == ["ingested 11 rewards: 2 new, 9 known before, 0 refused"]
    again = run(store, first, both, again=True)
    assert again == ["ingested 19 rewards: 0 new, 19 known before, 0 refused"]
    assert counted(store) == (N, N)


def test_a_file_that_grew_is_read_on(
    store: DecisionStore, decisions: list[Decision], tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    for k, decision in enumerate(decisions):
        with path.open("a") as file:
            file.write(json.dumps(reward(decision)) + "\n" * (k % 2))
        assert run(store, str(path)) == ["ingested 1 reward: 1 new, 0 known before, 0 refused"]
        with path.open("a") as file:
            file.write("\n" * (1 - k % 2))
    assert counted(store) == (N, N)


@pytest.mark.parametrize("together", [True, False])
def test_rewards_may_come_before_their_decisions(
    store: DecisionStore, decisions: list[Decision], tmp_path: Path, together: bool
) -> None:
    rows = elsewhere(store)
    rewards = [reward(row["id"]) for row in rows]
    files = [[*rewards, *rows]] if together else [rewards, rows]
    names = [lines(tmp_path / f"{k}.jsonl", *content) for k, content in enumerate(files)]
    assert run(store, *names) == [
        f"ingested {N} decisions: {N} new, 0 known before, 0 refused",
        f"ingested {N} rewards: {N} new, 0 known before, 0 refused",
    ]
    assert run(store, *names) == ["there was nothing new to ingest"]
    assert counted(store) == (2 * N, N)


def test_an_early_reward_is_read_again_by_the_next_run(
    store: DecisionStore, decisions: list[Decision], tmp_path: Path
) -> None:
    rows = elsewhere(store)
    early = [reward(decisions[0]), *(reward(row["id"]) for row in rows), reward(decisions[1])]
    first = lines(tmp_path / "rewards.jsonl", *early)
    with pytest.raises(
        ParameterError, match=r"rewards.jsonl, line 2: no decision .* \(and 9 more lines"
    ):
        run(store, first)
    assert counted(store) == (N, 2)
    second = lines(tmp_path / "decisions.jsonl", *rows)
    found = run(store, second, first)
    assert found[1] == f"ingested {N + 1} rewards: {N} new, 1 known before, 0 refused"
    assert counted(store) == (2 * N, N + 2)


def killed(ingest: Ingest, monkeypatch: pytest.MonkeyPatch, n: int, after: bool) -> None:
    """Let the process end in its transaction number n, before or after the commit."""
    left, perform, backend = [n], ingest._perform, ingest._store.backend
    transact = backend.transact

    def begin(work: Callable[[Any], Any], wait: bool = True) -> Any:
        found = transact(work, wait)
        if left[0] == 0 and after:
            raise KeyboardInterrupt
        return found

    def end(*arguments: Any) -> Any:
        found = perform(*arguments)
        left[0] -= 1
        if left[0] == 0 and not after:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(backend, "transact", begin)
    monkeypatch.setattr(ingest, "_perform", end)


@pytest.mark.parametrize("after", [False, True])
def test_an_end_in_any_transaction_loses_nothing(
    store: DecisionStore,
    decisions: list[Decision],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: bool,
) -> None:
    rows = elsewhere(store)
    rewards = [reward(row["id"], k % 2) for k, row in enumerate(rows)]
    mixed = [*rewards[5:], *rows[:7], *map(reward, decisions), *rows[7:], *rewards[:5], "wrong"]
    path, rejects = lines(tmp_path / "a.jsonl", *mixed), tmp_path / "rejects.jsonl"
    n_killed = 0
    for n in range(1, 100):
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            one = Ingest(store, rejects)
            killed(one, patch, n, after)
            one.run([source(path)])
            break
        n_killed += 1
        before = counted(store)
        assert before[1] <= 2 * N
    assert n_killed >= 3
    run(store, path, rejects=rejects)
    assert counted(store) == (2 * N, 2 * N)
    values = store.backend.query(
        "SELECT d.id, r.value FROM rewards r JOIN decisions d ON d.seq = r.decision"
    )
    expected = {bytes.fromhex(row["id"]): row["value"] for row in rewards}
    expected |= {bytes.fromhex(one.id): 1.0 for one in decisions}
    assert {bytes(id): value for id, value in values} == expected
    refused = {json.loads(line)["line"] for line in rejects.read_text().splitlines()}
    assert refused == {len(mixed)}


def test_a_service_goes_on_beside(
    opened: Opener, decisions: list[Decision], tmp_path: Path
) -> None:
    with Decider(None, opened(), seed=2) as decider:
        late: list[Decision] = []
        other = Ingest(opened())
        for part in (decisions[:5], decisions[5:]):
            late += [decider.decide(one.task) for one in part]
            other.run([source(lines(tmp_path / f"{part[0].id}.jsonl", *map(reward, part)))])
        decider.reward(late[0].id, 0.0)
        assert decider.task("t0").decisions == 8
    assert counted(opened()) == (2 * N, N + 1)


def test_what_is_refused_is_set_aside(
    store: DecisionStore, decisions: list[Decision], tmp_path: Path
) -> None:
    first, second, third = decisions[:3]
    rows = [
        reward(first), reward(first, 0.0), reward("0" * 32), reward(second, 0.5),
        {"id": second.id}, {"id": second.id, "value": "1"}, {"id": second.id, "valeu": 1.0},
        {"task": "t", "id": "f" * 32, "action": 1}, {"task": "t", "action": 1}, [1],
        reward(third, metrics={"returned": 1}), {"id": third.id, "metrics": {"returned": 0}},
    ]  # fmt: skip
    path, rejects = lines(tmp_path / "a.jsonl", *rows), tmp_path / "rejects.jsonl"
    assert run(store, path, rejects=rejects) == [
        "ingested 2 decisions: 0 new, 0 known before, 2 refused",
        "ingested 9 rewards: 2 new, 0 known before, 7 refused",
        "ingested 1 row: 0 new, 0 known before, 1 refused",
    ]
    found = sorted(map(json.loads, rejects.read_text().splitlines()), key=lambda row: row["line"])
    assert [row["line"] for row in found] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 12]
    assert all(row["source"] == path for row in found)
    assert [json.loads(row["row"]) for row in found] == [rows[row["line"] - 1] for row in found]
    reasons = [row["reason"] for row in found]
    for reason, expected in zip(
        reasons,
        [
            "has the reward 1.0, which stays; got 0.0", "no decision '000", "0.5",
            "expected a value, metrics or both", "not a reward: Expected `float | null`, got `str`",
            "unknown field `valeu`", "ahead of the service's clock", "missing required field `id`",
            "expected an object", "has the metric 'returned' with the value 1.0",
        ],
        strict=True,
    ):  # fmt: skip
        assert expected in reason
    assert counted(store) == (N, 2)
    repaired = lines(tmp_path / "b.jsonl", *(json.loads(found[2]["row"]) | {"value": 1.0},))
    assert run(store, repaired) == ["ingested 1 reward: 1 new, 0 known before, 0 refused"]


def test_without_rejects_the_first_refused_row_ends_the_run(
    store: DecisionStore, decisions: list[Decision], tmp_path: Path
) -> None:
    rows = [*map(reward, decisions[:4]), reward(decisions[0], 0.0), *map(reward, decisions[4:])]
    path = lines(tmp_path / "a.jsonl", *rows)
    for _ in range(2):
        with pytest.raises(ParameterError, match=r"line 5: decision .* --rejects FILE"):
            run(store, path)
        assert counted(store) == (N, 3)  # nothing of its batch
    assert run(store, path, rejects=tmp_path / "rejects") == [
        f"ingested {N - 2} rewards: {N - 3} new, 0 known before, 1 refused"
    ]
    assert counted(store) == (N, N)


def test_the_reward_window_of_the_service_applies(store: DecisionStore, tmp_path: Path) -> None:
    with Decider(arms(), store, reward_window=600, default_reward=0.0, seed=1):
        pass
    one = Ingest(store)
    one.run([source(lines(tmp_path / "a.jsonl", *elsewhere(store, 2)))])
    (windows,) = store.backend.query("SELECT COUNT(*), MIN(has_default) FROM open_windows")
    assert windows == (2, 1)
    with Decider(None, store, seed=1):
        pass
    rows = elsewhere(store, 3)[2:]
    one.run([source(lines(tmp_path / "b.jsonl", *rows))])
    (windows,) = store.backend.query("SELECT COUNT(*), MIN(has_default) FROM open_windows")
    assert windows == (2, 1)


def test_decisions_with_features_and_slates(store: DecisionStore, tmp_path: Path) -> None:
    with Decider(linear(), store, seed=1) as decider:
        slate = decider.decide("ada", ACTIONS, top=2)
    offered = [{"id": "x", "features": ACTIONS[0]}, {"id": "y", "features": ACTIONS[1]}]
    one = made(store.now(), action="y")
    row = {"id": one.id, "task": "bob", "action": "y", "actions": offered}
    rows = [row, reward(one.id, 0.3), *(reward(shown.id, 0.7) for shown in slate.shown)]
    assert run(store, lines(tmp_path / "a.jsonl", *rows)) == [
        "ingested 1 decision: 1 new, 0 known before, 0 refused",
        "ingested 3 rewards: 3 new, 0 known before, 0 refused",
    ]
    assert counted(store) == (3, 3)


def test_a_shard_takes_its_own_tasks_only(store: DecisionStore, tmp_path: Path) -> None:
    shard = Shard(1, 2)
    with Decider(arms(), store, seed=1, shard=str(shard)):
        rows = elsewhere(store)
    for row in rows:
        row["id"] = row["id"][:-8] + row["id"][-4:] + slot_of(row["task"]).hex()
    own = [row for row in rows if shard.holds(row["task"])]
    assert 0 < len(own) < len(rows), "the names of the tasks are of both shards"
    path, rejects = lines(tmp_path / "a.jsonl", *rows), tmp_path / "rejects.jsonl"
    n = len(rows) - len(own)
    found = run(store, path, rejects=rejects)
    assert found == [f"ingested {len(rows)} decisions: {len(own)} new, 0 known before, {n} refused"]
    assert "belongs to shard 2/2" in rejects.read_text()


def test_facts_come_with_decisions(store: DecisionStore, tmp_path: Path) -> None:
    with Decider(PRIOR, store, seed=1) as decider:
        one = made(store.now(), action="film", actions=offer(), context=OLD)
        row = {"id": one.id, "task": one.task, "action": "film"}
        facts = {"actions": offer(), "context": OLD}
        run(store, lines(tmp_path / "a.jsonl", {**row, **facts}))
        assert decider.task(one.task).context == OLD


def test_a_store_without_a_prior_is_refused(store: DecisionStore) -> None:
    with pytest.raises(Exception, match="has no prior yet"):
        Ingest(store)


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
def test_a_locked_task_is_tried_again(
    store: DecisionStore, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Decider(arms(), store, seed=0) as decider:
        held, free = decider.decide_many([Decide("held"), Decide("free")])
    assert isinstance(held, Decision)
    assert isinstance(free, Decision)
    path = lines(tmp_path / "a.jsonl", reward(free), reward(held))
    ended = [neighbour(address, HOLD), nullcontext()]
    ended[0].__enter__()

    def sleep(seconds: float) -> None:
        ended.pop(0).__exit__(None, None, None)

    monkeypatch.setattr(ingest, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(ingest, "PAUSES", (7.0, 7.0))
    assert run(store, path) == ["ingested 2 rewards: 2 new, 0 known before, 0 refused"]
    assert len(ended) == 1
    assert counted(store) == (2, 2)


def test_a_store_that_stays_away_ends_the_run(
    store: DecisionStore, decisions: list[Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lines(tmp_path / "a.jsonl", *map(reward, decisions))

    def away(*_: Any) -> Any:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "transact", away)
        with pytest.raises(StoreUnavailableError, match="away"):
            run(store, path)
    assert run(store, path) == [f"ingested {N} rewards: {N} new, 0 known before, 0 refused"]
