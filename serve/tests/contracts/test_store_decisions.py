"""Decisions in every store, on SQLite and on a real PostgreSQL server alike."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Receipt, writer
from mixts_serve.records import Result
from mixts_serve.rules import DEFAULT_EXPLORE
from mixts_serve.store.base import Transaction
from mixts_serve.store.rebuild import rebuild
from msgspec.structs import replace

import mixts
from mixts._typing import Seed
from mixts.errors import StoreUnavailableError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear


def test_a_decision_carries_what_was_promised(store: DecisionStore) -> None:
    with Decider(arms(), store, seed=1) as decider:
        decision = decider.decide("u17")
    (row,) = store.history("u17")
    assert (row.id, row.action) == (decision.id, decision.action)
    assert row.propensity == decision.propensity > 0
    assert row.weights == decision.weights == pytest.approx((0.4, 0.6), abs=1e-12)
    assert (row.prior_version, row.value) == (1, None)
    assert decision.arm is None
    assert not decision.repeated


def test_a_decider_waits_for_another_thread_that_writes(store: DecisionStore) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def write(transaction: Transaction) -> None:
        begun.set()
        assert may_end.wait(60)
        transaction.set_note("refit", "done")

    with Decider(arms(), store) as decider, ThreadPoolExecutor() as pool:
        other = pool.submit(store.backend.transact, write)
        assert begun.wait(60)
        made = pool.submit(decider.decide, "ada")
        assert wait([made], timeout=0.1).not_done
        may_end.set()
        other.result(60)
        assert made.result(60).task == "ada"
    assert store.note("refit") == "done"


def test_arms_have_their_names(store: DecisionStore) -> None:
    named = mixts.MixturePrior(arms().family, arm_names=["low", "middle", "high"])
    with Decider(named, store) as decider:
        decision = decider.decide("u17")
    assert decision.arm == named.arm_names[decision.action]


def test_a_key_stands_for_one_decision(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        first = decider.decide("u17", key="visit 1")
        again = [decider.decide("u17", key="visit 1") for _ in range(3)]
        other = decider.decide("u18", key="visit 1")
        new = decider.decide("u17", key="visit 2")
    assert again == [replace(first, repeated=True)] * 3
    assert len({first.id, other.id, new.id}) == 3
    assert store.totals().decisions == 3


def test_a_key_in_one_batch_is_answered_once(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        results = decider.decide_many(
            [Decide("a", key="k"), Decide("a", key="k"), Decide("a", mask=[True] * 3, key="k")]
        )
    assert isinstance(results[0], Decision)
    assert results[1] == replace(results[0], repeated=True)
    assert isinstance(results[2], mixts.errors.ConflictError)
    assert store.totals().decisions == 1


def test_a_key_for_another_request_is_a_conflict(store: DecisionStore) -> None:
    with Decider(linear(), store) as decider:
        decider.decide("u", ACTIONS, key="k")
        with pytest.raises(mixts.errors.ConflictError, match="take a new key"):
            decider.decide("u", ACTIONS[:2], key="k")
        with pytest.raises(mixts.errors.ConflictError, match="take a new key"):
            decider.decide("u", ACTIONS, [True, True, False], key="k")
        again = decider.decide("u", np.array(ACTIONS), key="k")
    assert again.repeated
    assert store.totals().decisions == 1


def test_a_retry_is_answered_although_the_arm_was_retired_since(
    store: DecisionStore,
) -> None:
    with Decider(arms(), store) as decider:
        only = [True, False, False]
        first = decider.decide("u", mask=only, key="k")
        decider.activate_prior(decider.upload_prior(arms().retire_arms([0])))
        again = decider.decide("u", mask=only, key="k")
        with pytest.raises(mixts.errors.MaskError, match="retired"):
            decider.decide("u", mask=only, key="another")
    assert again == replace(first, repeated=True)


def test_the_action_is_drawn_from_the_logged_law(store: DecisionStore) -> None:
    with Decider(arms(), store, policy="ts", seed=3) as decider:
        decisions = decider.decide_many([Decide(f"t{i}") for i in range(400)])
        agent = mixts.MixTS(arms())
    _, law, _ = agent.act_with_probabilities(floor=DEFAULT_EXPLORE / 3)
    counts = np.bincount([d.action for d in decisions], minlength=3)
    made = [d.propensity for d in decisions]
    np.testing.assert_allclose(made, law[[d.action for d in decisions]], rtol=1e-12)
    # Five standard errors of a binomial count.
    assert np.abs(counts - 400 * law).max() < 5 * np.sqrt(400 * law * (1 - law)).max()


def test_decisions_that_are_drawn_evenly_give_full_support(store: DecisionStore) -> None:
    sure = mixts.MixturePrior(mixts.BernoulliArms([[1e6, 1.0, 1.0]], [[1.0, 1e6, 1e6]]))
    with Decider(sure, store, explore=0.6, seed=1) as decider:
        decisions = decider.decide_many([Decide("t")] * 60)
    assert {d.action for d in decisions} == {0, 1, 2}
    assert min(d.propensity for d in decisions) == pytest.approx(0.2, abs=1e-9)


def test_a_refused_request_leaves_no_trace(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        wrong = [
            Decide(""), Decide("x" * 257), Decide("a\0b"), Decide("\ud800"), Decide("u", key=""),
            Decide("u", actions=[[1.0]]), Decide("u", mask=[False] * 3),
            Decide("u", mask=[True] * 4), Decide("u", mask=[1, 1, 0]),
        ]  # fmt: skip
        results = decider.decide_many(wrong)
        good = decider.decide_many([wrong[0], Decide("fine"), wrong[5]])
    assert all(isinstance(result, mixts.errors.MixtsError) for result in results)
    assert [isinstance(result, Decision) for result in good] == [False, True, False]
    assert [row.task for row in store.tasks()] == ["fine"]


def test_two_replicas_share_tasks_and_keys(opened: Opener) -> None:
    with Decider(arms(), opened()) as one, Decider(arms(), opened()) as two:
        first = one.decide("u", key="k")
        assert two.decide("u", key="k") == replace(first, repeated=True)
        assert two.reward(first.id, 1.0) == Receipt(False)
        assert one.reward(first.id, 1.0) == Receipt(True)
        assert one.task("u") == two.task("u")


def test_many_threads_on_two_replicas_lose_and_double_nothing(opened: Opener) -> None:
    stores = [opened(), opened()]
    with Decider(arms(), stores[0]) as one, Decider(arms(), stores[1]) as two:
        replicas, failures = [one, two], []

        def play(seed: int) -> None:
            rng = np.random.default_rng(seed)
            try:
                for turn in range(12):
                    task, key = f"t{rng.integers(4)}", f"{seed}/{turn}"
                    here, there = rng.permutation(2)
                    first = replicas[here].decide(task, key=key)
                    assert replicas[there].decide(task, key=key).id == first.id
                    value = float(rng.integers(2))
                    receipts = [replicas[i].reward(first.id, value) for i in (here, there)]
                    assert [r.duplicate for r in receipts] == [False, True]
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=play, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
    totals = stores[0].totals()
    assert (totals.decisions, totals.rewards) == (72, 72)
    assert rebuild(stores[0], write=False).differing == 0


def test_one_decider_a_store(store: DecisionStore) -> None:
    with (
        Decider(arms(), store),
        pytest.raises(mixts.errors.StoreError, match="close that one first"),
    ):
        Decider(arms(), store)


def test_overload_is_refused_and_leaves_nothing(store: DecisionStore) -> None:
    with Decider(arms(), store, max_pending=3) as decider:
        with pytest.raises(mixts.errors.ParameterError, match="at most 3 operations"):
            decider.decide_many([Decide("u")] * 4)
        gate, told = threading.Event(), threading.Event()
        busy = threading.Thread(target=decider._writer.run, args=(gate.wait,))
        busy.start()
        decider.submit([Decide("u")] * 2, lambda _: told.set())
        with pytest.raises(mixts.errors.OverloadedError, match="try again later"):
            decider.decide_many([Decide("u")] * 2)
        gate.set()
        busy.join()
        assert told.wait(30)
    assert store.totals().decisions == 2


def test_a_closed_decider_finishes_what_it_accepted(store: DecisionStore) -> None:
    told: list[object] = []
    decider = Decider(arms(), store)
    for _ in range(20):
        decider.submit([Decide("u")], told.extend)
    decider.close()
    assert len(told) == 20
    assert store.totals().decisions == 20
    with pytest.raises(mixts.errors.StoreError, match="closed"):
        decider.decide("u")


def test_a_closed_decider_makes_room_for_another(store: DecisionStore) -> None:
    with pytest.raises(mixts.errors.ParameterError, match="default_reward must be a possible"):
        Decider(arms(), store, reward_window=1.0, default_reward=0.5)
    with Decider(arms(), store) as decider:
        decider.decide("u")
    with Decider(arms(), store) as decider:
        assert decider.task("u").decisions == 1


@pytest.mark.usefixtures("unchecked")
def test_names_that_are_no_names(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        results = decider.decide_many([Decide(["x"], key="k"), Decide("u", key=["k"]), Decide("u")])
    assert [type(result) for result in results] == [
        mixts.errors.ParameterError, mixts.errors.ParameterError, Decision,
    ]  # fmt: skip


def test_the_largest_share_makes_all_decisions_uniform(store: DecisionStore) -> None:
    with Decider(arms(), store, explore=1.0) as decider:
        assert decider.decide("u").propensity == pytest.approx(1 / 3, abs=1e-15)


def test_whatever_a_probe_raises_the_writer_lives_on(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PROBE_SECONDS", 0.01)
    probed = threading.Semaphore(0)

    def probe() -> None:
        probed.release()
        raise ZeroDivisionError("division")

    def fail() -> None:
        raise StoreUnavailableError("a test")

    with Decider(arms(), store) as decider:
        decider._writer._probe = probe
        with pytest.raises(StoreUnavailableError, match="a test"):
            decider._writer.run(fail)
        for _ in range(2):  # the first one was noted before the second began
            assert probed.acquire(timeout=10)
        assert decider.health().reason == "ZeroDivisionError"
        assert decider.decide("u").id
        assert decider.health().writable


@pytest.mark.parametrize("counts", [np.full(6, -5), np.array([1, 2, 3])])
def test_damaged_statistics_are_not_decided_on(store: DecisionStore, counts: np.ndarray) -> None:
    """And those who came in the same group do not suffer from it."""
    with Decider(arms(), store) as decider:
        decider.reward(decider.decide("damaged").id, 1.0)
        with store.backend.transaction() as transaction:
            (entry,), _ = transaction.lock_tasks(["damaged"], [], 0)
            entry.statistics = counts.astype("<i8").tobytes()
            transaction.save_tasks([entry])
        results: list[list[Result]] = []
        told = threading.Semaphore(0)

        def done(result: list[Result]) -> None:
            results.append(result)
            told.release()

        gate = threading.Event()
        busy = threading.Thread(target=decider._writer.run, args=(gate.wait,))
        busy.start()
        for task in ("damaged", "sound"):
            decider.submit([Decide(task)], done)
        gate.set()
        for _ in range(2):
            assert told.acquire(timeout=10)
        busy.join()
    (damaged,), (sound,) = results
    assert isinstance(damaged, mixts.errors.StoreError)
    assert "statistics" in str(damaged)
    assert isinstance(sound, Decision)


def drawn(store: DecisionStore, seed: Seed) -> list[int]:
    """Actions of a decider with this seed for new tasks: only luck tells them apart."""
    start = store.totals().tasks
    with Decider(arms(), store, policy="ts", seed=seed) as decider:
        made = decider.decide_many([Decide(f"new {start + i}") for i in range(40)])
    return [decision.action for decision in made if isinstance(decision, Decision)]


def test_a_seed_has_other_luck_in_every_life_of_a_store(store: DecisionStore) -> None:
    lives = [drawn(store, seed=1) for _ in range(3)]
    lives += [drawn(store, seed=np.random.SeedSequence(1)) for _ in range(2)]
    assert all(len(life) == 40 for life in lives)
    # Any two of ten pairs agree by chance with probability below (1/2)^40.
    assert len({tuple(life) for life in lives}) == 5


def test_the_same_lives_have_the_same_luck(store: DecisionStore, tmp_path: Path) -> None:
    lives = [drawn(store, seed) for seed in (1, 1, 2)]
    with DecisionStore(tmp_path / "other.db") as other:
        assert [drawn(other, seed) for seed in (1, 1, 2)] == lives
    assert drawn(store, np.random.default_rng(5)) == drawn(store, np.random.default_rng(5))


def test_a_large_table_of_a_task_counts_as_work(store: DecisionStore) -> None:
    """Such decisions take tens of milliseconds each: they share no transaction with others.

    Their work is known only when their batch has read the tables; a batch that finds too much of it
    is cut again, and changes nothing before.
    """
    n_tasks, n_rows, rng = 4, 3_000, np.random.default_rng(1)
    family = mixts.LinearBernoulli([[1.0, 0.0], [0.0, 1.0]], np.stack([np.eye(2)] * 2))
    offered = [[1.0, 0.0], [0.0, 1.0]]
    asked = [Decide(f"large {i}", offered) for i in range(n_tasks)]
    asked.insert(3, Decide("new", offered))
    with Decider(mixts.MixturePrior(family), store, policy="ts", seed=1) as decider:
        for request in asked[:3] + asked[4:]:
            decider.decide(request.task, offered)
        table = family.empty_statistics(1)
        clicks = table.observations(rng.normal(size=(n_rows, 2)), rng.integers(0, 2, n_rows))
        table.observe(np.zeros(n_rows, np.int64), clicks)
        with store.backend.transaction() as transaction:
            entries, _ = transaction.lock_tasks([f"large {i}" for i in range(n_tasks)], [], 0)
            for entry in entries:
                (entry.statistics,) = table.encode()
            transaction.save_tasks(entries)
        before = decider.batches[0]
        made = decider.decide_many(asked)
        n_batches = decider.batches[0] - before
        again = [decider.decide(request.task, offered) for request in asked]
    for decisions in (made, again):
        assert [decision.task for decision in decisions] == [request.task for request in asked]  # type: ignore[union-attr]
    assert n_batches >= n_tasks
    assert store.totals().tasks == n_tasks + 1
    assert store.totals().decisions == n_tasks + 2 * len(asked)
