"""Long decisions are computed aside: others are served meanwhile, and the record is the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.errors import MixtsError, OverloadedError, ParameterError, StoreError
from mixts.service import Decide, Decider, Decision
from mixts.service import batch as batching
from mixts.service import writer as writing
from mixts.service.aside import Choice
from mixts.service.store.rebuild import rebuild

N_ARMS = 400
COSTS = np.linspace(0.0, 0.1, N_ARMS)
"""A decision with these costs is long, one without them is small."""


def prior() -> mixts.MixturePrior:
    alpha, beta = np.random.default_rng(0).uniform(1, 5, (2, 2, N_ARMS))
    return mixts.MixturePrior(
        mixts.BernoulliArms(alpha, beta), arm_names=[f"arm {k}" for k in range(N_ARMS)]
    )


class Computing:
    """Counts the computations of long decisions, and holds them up while the gate is closed."""

    def __init__(self, choose: Callable[..., Choice]) -> None:
        self._choose = choose
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.threads: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, *arguments: Any) -> Choice:
        if arguments[2][0].costs is not None:
            self.threads.append(threading.current_thread().name)
            self.begun.release()
            assert self.gate.wait(60)
            self.meanwhile()
        return self._choose(*arguments)

    def wait(self) -> None:
        assert self.begun.acquire(timeout=60), "no long decision was begun"


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Computing]:
    found = Computing(batching._choose)
    monkeypatch.setattr(batching, "_choose", found)
    yield found
    found.gate.set()


@pytest.fixture
def decider(store: mixts.DecisionStore, computing: Computing) -> Iterator[Decider]:
    with Decider(prior(), store, policy="ids", seed=0) as decider:
        yield decider


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


Pool = ThreadPoolExecutor


def ask(pool: Pool, decider: Decider, task: str = "long", **more: Any) -> Future[Decision]:
    return pool.submit(decider.decide, task, costs=COSTS, **more)


def check_log(decider: Decider, counts: dict[str, tuple[int, int]]) -> None:
    """The tasks have these decisions and rewards, and the log agrees."""
    for task, (decisions, rewards) in counts.items():
        state = decider.task(task)
        assert (state.decisions, state.rewards) == (decisions, rewards), task
    store = decider.store
    decider.close()
    found = rebuild(store, write=False)
    assert (found.differing, found.damage) == (0, ())


def test_others_are_served_meanwhile(decider: Decider, computing: Computing, pool: Pool) -> None:
    future = ask(pool, decider)
    computing.wait()
    for task in ("other", "long"):
        made = decider.decide(task)
        decider.reward(made.id, 1)
    many = decider.decide_many([Decide(f"task {i}") for i in range(300)])
    assert all(isinstance(one, Decision) for one in many)
    assert not future.done()
    computing.gate.set()
    future.result(60)
    assert set(computing.threads) == {"mixts-aside"}
    check_log(decider, {"other": (1, 1), "long": (2, 1)})


def test_the_law_is_that_of_the_agent(decider: Decider, computing: Computing, pool: Pool) -> None:
    computing.gate.set()
    first = decider.decide("long", costs=COSTS)
    decider.reward(first.id, 0)
    made = decider.decide("long", costs=COSTS)
    agent = mixts.MixIDS(prior())
    agent.update(first.action, 0)
    law, _ = agent.action_probabilities(costs=COSTS)
    assert made.propensity == pytest.approx(law[made.action], rel=1e-12)
    assert made.weights == pytest.approx(agent.belief.weights, rel=1e-12)


def test_a_changed_task_is_decided_again(
    decider: Decider, computing: Computing, pool: Pool
) -> None:
    earlier = decider.decide("long")
    future = ask(pool, decider)
    computing.wait()
    decider.reward(earlier.id, 1)
    computing.gate.set()
    made = future.result(60)
    assert len(computing.threads) == 2
    assert made.weights == pytest.approx(decider.task("long").weights, rel=1e-12)
    check_log(decider, {"long": (2, 1)})


def test_a_task_that_keeps_changing_is_decided(
    decider: Decider, computing: Computing, pool: Pool
) -> None:
    def change() -> None:
        if len(computing.threads) < 10:
            decider.decide("long")

    computing.meanwhile = change
    computing.gate.set()
    ask(pool, decider).result(60)
    assert len(computing.threads) == 3
    check_log(decider, {"long": (4, 0)})


def test_an_arm_that_was_taken_meanwhile_is_not_shown_again(
    store: mixts.DecisionStore, computing: Computing, pool: Pool
) -> None:
    with Decider(prior().replace(repeatable=False), store, policy="ids", seed=0) as decider:
        choose, taken = computing._choose, []

        def choose_what_another_takes(*arguments: Any) -> Choice:
            made = choose(*arguments)
            if arguments[2][0].costs is not None and len(taken) < 3:
                taken.append(made.shown[0][0])
                decider.decide("long", mask=np.arange(N_ARMS) == taken[-1])
            return made

        computing._choose = choose_what_another_takes
        computing.gate.set()
        assert ask(pool, decider).result(60).action not in taken
        assert len(computing.threads) == 4


def test_a_repeated_key_is_computed_once(
    decider: Decider, computing: Computing, pool: Pool
) -> None:
    futures = [ask(pool, decider, key="k") for _ in range(3)]
    computing.wait()
    computing.gate.set()
    ids = {future.result(60).id for future in futures}
    ids.add(decider.decide("long", costs=COSTS, key="k").id)
    assert len(ids) == 1
    check_log(decider, {"long": (1, 0)})


def test_a_new_prior_is_decided_with(decider: Decider, computing: Computing, pool: Pool) -> None:
    future = ask(pool, decider)
    computing.wait()
    taken = [f"arm {k}" for k in range(1, N_ARMS)]
    version = decider.change_arms(retire=taken).version
    computing.gate.set()
    made = future.result(60)
    assert (made.prior_version, made.action) == (version, 0)


def test_decisions_of_a_batch_are_made_in_order(decider: Decider, computing: Computing) -> None:
    computing.gate.set()
    requests = [Decide("long", costs=COSTS, key=str(k)) for k in range(3)]
    made = decider.decide_many([*requests, requests[0], Decide("other")])
    assert [one.task for one in made] == ["long"] * 4 + ["other"]
    assert made[3].id == made[0].id
    assert len(computing.threads) == 3
    check_log(decider, {"long": (3, 0), "other": (1, 0)})


def test_a_failure_is_that_of_one_decision(
    decider: Decider, computing: Computing, pool: Pool
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    computing.meanwhile = fail
    computing.gate.set()
    with pytest.raises(MixtsError, match="internal error"):
        ask(pool, decider).result(60)
    computing.meanwhile = lambda: None
    decider.decide("long", costs=COSTS)
    check_log(decider, {"long": (1, 0)})


def test_a_refused_request_is_not_computed(decider: Decider, computing: Computing) -> None:
    with pytest.raises(ParameterError, match="costs"):
        decider.decide("long", costs=COSTS[1:])
    assert not computing.threads


def test_few_very_long_decisions_may_wait(
    decider: Decider, computing: Computing, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shorter ones are served meanwhile."""
    sizes = decider.active.sizes
    assert writing.MAX_BATCH < sizes.priced < writing.LONG_SIZE
    monkeypatch.setattr(writing, "LONG_SIZE", sizes.priced)
    futures = [ask(pool, decider, f"task {k}", top=1) for k in range(writing.MAX_LONG)]
    computing.wait()
    while decider._writer._n_long < writing.MAX_LONG:
        time.sleep(0.01)
    with pytest.raises(OverloadedError, match="4 decisions"):
        decider.decide("one more", costs=COSTS, top=1)
    shorter = ask(pool, decider, "shorter")
    computing.wait()  # while the first one is still being computed
    computing.gate.set()
    for future in (*futures, shorter):
        future.result(60)
    assert set(computing.threads) == {"mixts-aside", "mixts-aside-long"}
    assert decider._writer._n_long == decider._writer._large_work == 0


def test_closing_does_not_wait_for_long(
    decider: Decider, computing: Computing, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CLOSE_SECONDS", 0.1)
    futures = [ask(pool, decider, f"task {k}") for k in range(3)]
    computing.wait()
    decider.close()
    for future in futures:
        with pytest.raises(StoreError, match=r"nothing was changed|is closed"):
            future.result(10)
    assert not decider.store.tasks()


def test_closing_waits_for_what_is_soon_computed(
    decider: Decider, computing: Computing, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CLOSE_SECONDS", 60.0)
    futures = [ask(pool, decider, f"task {k}") for k in range(3)]
    while decider._writer.pending < 3:
        time.sleep(0.01)
    threading.Timer(0.2, computing.gate.set).start()
    decider.close()
    assert {future.result(10).task for future in futures} == {"task 0", "task 1", "task 2"}


# -- tasks with many distinct rows ----------------------------------------------------------------


def test_a_large_table_of_a_task_counts_as_work(store: mixts.DecisionStore) -> None:
    """Such decisions take tens of milliseconds each: they share no transaction with others.

    Their work is known only when their batch has read the tables; a batch that finds too much of it
    is repeated in pieces, and changes nothing before.
    """
    n_tasks, n_rows, rng = 6, 3_000, np.random.default_rng(1)
    family = mixts.LinearBernoulli([[1.0, 0.0], [0.0, 1.0]], np.stack([np.eye(2)] * 2))
    offered = [[1.0, 0.0], [0.0, 1.0]]
    asked = [Decide(f"large {i}", offered) for i in range(n_tasks)]
    asked.insert(3, Decide("new", offered))
    with mixts.Decider(mixts.MixturePrior(family), store, policy="ts", seed=1) as decider:
        for request in asked[:3] + asked[4:]:
            decider.decide(request.task, offered)
        table = family.empty_statistics(1)
        clicks = table.observations(rng.normal(size=(n_rows, 2)), rng.integers(0, 2, n_rows))
        table.observe(np.zeros(n_rows, np.int64), clicks)
        with store.backend.transaction() as transaction:
            (content,) = table.encode()
            transaction.replace_tasks([(i, 1, 0, 0, 0, 0, content) for i in range(1, n_tasks + 1)])
        before = decider.batches[0]
        made = decider.decide_many(asked)
        n_batches = decider.batches[0] - before
        again = [decider.decide(request.task, offered) for request in asked]
    for decisions in (made, again):
        assert [decision.task for decision in decisions] == [request.task for request in asked]  # type: ignore[union-attr]
    assert n_batches >= n_tasks
    assert store.totals().tasks == n_tasks + 1
    assert store.totals().decisions == n_tasks + 2 * len(asked)
