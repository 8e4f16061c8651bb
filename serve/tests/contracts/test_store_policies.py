"""The policy of a decider in every store: logged with each decision, aware of late feedback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore
from mixts_serve import tasks as tasks_module
from mixts_serve.records import Reward
from mixts_serve.rules import DEFAULT_EXPLORE, DEFAULT_POLICY
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts.agents import POLICIES, Choice, Offer
from mixts.errors import ParameterError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, doubtful, linear, set_clock

Seen = list[tuple[list[int], tuple[list[Any], list[int]] | None]]
"""Calls of an agent: the tasks to decide for, and the decisions that wait, with their tasks."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Calls of ``MixIDS.decide``, in order."""
    calls: Seen = []
    decide = mixts.MixIDS.decide

    def spy(self: mixts.MixIDS, offer: Offer) -> Choice:
        if self.n_tasks is not None:  # not the trial decision at the start
            waiting = offer.waiting
            waits = None if waiting is None else (waiting.actions.tolist(), waiting.tasks.tolist())
            calls.append((offer.tasks.tolist(), waits))
        return decide(self, offer)

    monkeypatch.setattr(mixts.MixIDS, "decide", spy)
    return calls


def only(arm: int) -> list[bool]:
    """A mask that leaves one arm, so that a test knows which arm was taken."""
    return [k == arm for k in range(3)]


def settings(policy: str) -> dict[str, Any]:
    return {"policy": policy, "explore": 0.03, "seed": 1}


# -- the choice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_every_decision_is_logged_with_its_policy(
    store: DecisionStore, tmp_path: Path, policy: str
) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    with Decider(arms(), store, **settings("ts")) as decider:
        first = decider.decide("u", key="k")
    with Decider(None, store, **settings(policy)) as decider:
        assert decider.policy.name == policy
        made = decider.decide("u")
        again = decider.decide("u", key="k")
    assert (first.policy, made.policy) == ("ts", policy)
    assert (again.repeated, again.policy) == (True, "ts")
    assert [row.policy for row in store.history("u")] == ["ts", policy]
    export(store, tmp_path / "log.parquet")
    rows = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["policy"] for row in rows] == ["ts", policy]
    assert rebuild(store, write=False).differing == 0


def test_a_decider_that_names_no_policy(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        assert decider.decide("u").policy == DEFAULT_POLICY == "ids"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("policy", ["thompson", "", "IDS", None, 7])
def test_an_unknown_policy_is_refused(store: DecisionStore, policy: str) -> None:
    with pytest.raises(ParameterError, match="greedy"):
        Decider(arms(), store, policy=policy)
    with Decider(arms(), store) as decider:  # the store was not claimed
        assert decider.decide("u").policy == DEFAULT_POLICY


@pytest.mark.parametrize("policy", [name for name, kind in POLICIES.items() if kind.deterministic])
def test_a_deterministic_policy_needs_exploration(store: DecisionStore, policy: str) -> None:
    with pytest.raises(ParameterError, match=r"off-policy evaluation: .*--explore 1%"):
        Decider(arms(), store, policy=policy, explore=0.0)
    with Decider(arms(), store, policy=policy, explore=0.3) as decider:
        made = [decider.decide(f"t{i}").propensity for i in range(30)]
    # The best arm has what the other two leave.
    assert set(np.round(made, 12)) <= {0.1, 0.8}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_propensity_is_that_of_the_law_that_was_drawn_from(
    store: DecisionStore, policy: str
) -> None:
    with Decider(doubtful(), store, **settings(policy)) as decider:
        made = decider.decide_many([Decide(f"t{i}") for i in range(400)])
    law, _ = POLICIES[policy](doubtful()).action_probabilities()
    law = 0.01 + (1 - 0.03) * law
    counts = np.bincount([d.action for d in made], minlength=3)
    np.testing.assert_allclose([d.propensity for d in made], law[[d.action for d in made]])
    # Five standard errors of a binomial count.
    assert (np.abs(counts - 400 * law) < 5 * np.sqrt(400 * law * (1 - law))).all()


def test_by_default_every_available_action_can_be_drawn(store: DecisionStore) -> None:
    """The first decision of a task has no propensity of 1, under a mask or without."""
    certain = mixts.MixturePrior(mixts.BernoulliArms([[9e6, 5e6, 1e6]], [[1e6, 5e6, 9e6]]))
    with Decider(certain, store, seed=1) as decider:
        for i in range(9):
            decider.decide(f"t{i}")
            decider.decide(f"t{i}", mask=[True, False, True])
            decider.decide(f"t{i}", top=2)
    wanted = [
        np.array([0.99, 0.0, 0.0]) + DEFAULT_EXPLORE / 3,
        np.array([0.99, 0.0, 0.0]) + np.array([1.0, 0.0, 1.0]) * DEFAULT_EXPLORE / 2,
        np.array([0.99, 0.99, 0.0]) + 2 * DEFAULT_EXPLORE / 3,
    ]
    for i in range(9):
        once, masked, *slate = store.history(f"t{i}")
        for row, law in zip((once, masked, *slate), (*wanted, wanted[-1]), strict=True):
            assert row.propensity == pytest.approx(law[row.action], abs=1e-12)


def test_an_arm_that_was_taken_leaves_its_share_to_the_others(store: DecisionStore) -> None:
    with Decider(doubtful().replace(repeatable=False), store, explore=0.3, seed=1) as decider:
        made = decider.decide_many([Decide("u")] * 3)
    laws = [
        np.frombuffer(bytes(law))
        for (law,) in store.backend.query("SELECT probabilities FROM decisions ORDER BY seq")
    ]
    for n_left, decision, law in zip((3, 2, 1), made, laws, strict=True):
        assert isinstance(decision, Decision)
        assert decision.propensity == law[decision.action]
        assert law[law > 0].min() >= 0.3 / n_left - 1e-12
        assert np.count_nonzero(law) == n_left
        assert law.sum() == pytest.approx(1.0)


def test_the_last_decision_within_the_horizon_is_greedy(store: DecisionStore) -> None:
    best = int(np.argmax(doubtful().belief().mean_rewards()))
    requests = [Decide(f"t{i}") for i in range(20)]
    with Decider(doubtful(), store, policy="ids", horizon=1, explore=0.0, seed=1) as decider:
        last = decider.decide_many(requests)
    with Decider(None, store, policy="ids", horizon=50, explore=0.0, seed=1) as decider:
        later = decider.decide_many([Decide(f"new {request.task}") for request in requests])
    assert {(d.action, d.propensity) for d in last} == {(best, 1.0)}
    assert len({d.action for d in later}) == 2


@pytest.mark.parametrize("policy", ["ids", "ts"])
def test_decisions_whose_rewards_never_come_use_up_the_horizon(
    store: DecisionStore, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reward window of each has passed when the next is made: none waits, all were made."""
    now = 1_000_000_000_000_000
    set_clock(monkeypatch, lambda: now)
    best = int(np.argmax(doubtful().belief().mean_rewards()))
    how: dict[str, Any] = {"policy": policy, "horizon": 4, "reward_window": 1.0, "seed": 1}
    how["explore"] = 0.0
    with Decider(doubtful(), store, **how) as decider:
        made = []
        for _ in range(5):
            made.append(decider.decide("u"))
            now += 2_000_000
        fresh = decider.decide_many([Decide(f"t{i}") for i in range(20)])
    assert [(d.action, d.propensity) for d in made[3:]] == [(best, 1.0)] * 2
    assert min(d.propensity for d in fresh) < 1


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("horizon", [0, -1, 1.5, True, "ten"])
def test_a_horizon_is_a_whole_number(store: DecisionStore, horizon: int) -> None:
    with pytest.raises(ParameterError, match="horizon"):
        Decider(arms(), store, policy="ids", horizon=horizon)


def test_a_policy_that_does_not_explore_has_no_horizon(store: DecisionStore) -> None:
    with pytest.raises(ParameterError, match="leave the horizon out"):
        Decider(arms(), store, policy="greedy", horizon=10)


# -- decisions whose rewards have not come --------------------------------------------------------


def test_decisions_that_wait_reach_the_agent(store: DecisionStore, seen: Seen) -> None:
    with Decider(arms(), store, policy="ids", seed=1) as decider:
        made = [decider.decide("u", mask=only(arm)) for arm in (2, 0, 1)]
        decider.reward(made[1].id, 1.0)
        decider.decide("u")
        decider.decide("other")
    assert seen == [
        ([0], None),
        ([0], ([2], [0])),
        ([0], ([2, 0], [0, 0])),
        ([0], ([2, 1], [0, 0])),
        ([0], None),
    ]


def test_decisions_that_wait_change_the_law(store: DecisionStore) -> None:
    with Decider(arms(), store, policy="ids", seed=1) as decider:
        made = [decider.decide("u") for _ in range(12)]
    taken: list[int] = []
    for decision in made:
        waiting = (np.array(taken, int), np.zeros(len(taken), int)) if taken else None
        agent = mixts.MixIDS(arms(), n_tasks=1, seed=0)
        _, law, _ = agent.act_with_probabilities(None, [0], None, DEFAULT_EXPLORE / 3, waiting)
        assert decision.propensity == pytest.approx(law[0, decision.action], abs=1e-12)
        taken.append(decision.action)
    # Without them the policy would repeat its first decision.
    assert len({d.propensity for d in made}) > 3


def test_what_waits_is_known_after_a_restart_and_to_every_replica(
    opened: Opener, seen: Seen
) -> None:
    with Decider(arms(), opened(), policy="ids", seed=1) as one:
        first = one.decide("u", mask=only(2))
    with (
        Decider(None, opened(), policy="ids", seed=2) as two,
        Decider(None, opened(), policy="ids", seed=3) as three,
    ):
        two.decide("u", mask=only(0))
        three.decide("u", mask=only(1))
        three.reward(first.id, 1.0)
        two.decide("u")
    waits = [None if waiting is None else waiting[0] for _, waiting in seen]
    assert waits == [None, [2], [2, 0], [0, 1]]


def test_requests_of_one_batch_know_of_each_other(store: DecisionStore, seen: Seen) -> None:
    with Decider(arms(), store, policy="ids", seed=1) as decider:
        decider.decide("b", mask=only(1))
        seen.clear()
        requests = [("a", 2), ("b", 1), ("a", 1), ("c", 0), ("a", 0)]
        made = decider.decide_many([Decide(task, mask=only(arm)) for task, arm in requests])
    a, b, c = seen[0][0]  # the order of tasks is the database's
    assert seen == [
        ([a, b, c], ([1], [b])),
        ([a], ([2], [a])),
        ([a], ([2, 1], [a, a])),
    ]
    assert [(d.task, d.action) for d in made] == requests


def test_a_reward_of_the_same_batch_ends_the_wait(store: DecisionStore, seen: Seen) -> None:
    with Decider(arms(), store, policy="ids", seed=1) as decider:
        made = [decider.decide("u", mask=only(arm)) for arm in (2, 1)]
        seen.clear()
        submit_together(decider, [Reward(made[1].id, 1.0), Decide("u", mask=only(0))])
        submit_together(decider, [Reward(made[0].id, 1.0), Decide("u")])
    assert seen == [([0], ([2], [0])), ([0], ([0], [0]))]


def test_after_the_reward_window_nothing_waits(
    store: DecisionStore, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000_000_000_000
    set_clock(monkeypatch, lambda: now)
    with Decider(arms(), store, policy="ids", reward_window=60.0, seed=1) as decider:
        decider.decide("u", mask=only(2))
        now += 60_000_000
        decider.decide("u", mask=only(1))
        now += 1
        decider.decide("u", mask=only(0))
        now += 60_000_000
        decider.decide("u")
    assert [waiting for _, waiting in seen] == [
        None, ([2], [0]), ([1], [0]), ([0], [0]),
    ]  # fmt: skip


def test_a_reward_window_that_is_set_later_counts_for_earlier_decisions(
    store: DecisionStore, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000_000_000_000
    set_clock(monkeypatch, lambda: now)
    with Decider(arms(), store, policy="ids", seed=1) as decider:
        decider.decide("u", mask=only(2))
        now += 30_000_000
        decider.decide("u", mask=only(1))
    now += 30_000_001
    with Decider(None, store, policy="ids", reward_window=60.0, seed=1) as decider:
        decider.decide("u")
    assert seen[-1][1] == ([1], [0])


def test_the_last_decisions_of_a_task_are_looked_through(
    store: DecisionStore, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixts_serve.batch.MOST_WAITING", 4)
    monkeypatch.setattr(tasks_module, "MOST_WAITING", 4)
    with Decider(arms(), store, policy="ids", seed=1) as decider:
        made = [decider.decide("u", mask=only(arm)) for arm in (0, 0, 1, 2, 0, 1, 2)]
        decider.reward(made[5].id, 0.0)
        decider.decide("u")
        decider.decide_many([Decide("u")] * 6)
    assert seen[6][1] == ([1, 2, 0, 1], [0] * 4)
    assert seen[7][1] == ([2, 0, 2], [0] * 3)
    assert max(len(waiting[0]) for _, waiting in seen if waiting) == 4


def test_features_of_decisions_that_wait(store: DecisionStore, seen: Seen) -> None:
    with Decider(linear(), store, policy="ids", seed=1) as decider:
        first = decider.decide("u", ACTIONS)
        second, third, _ = decider.decide_many(
            [Decide("u", ACTIONS[:2]), Decide("u", ACTIONS), Decide("v", ACTIONS)]
        )
    rows = [ACTIONS[first.action], ACTIONS[second.action]]
    assert {d.policy for d in (first, second, third)} == {"ids"}
    assert seen == [
        ([0], None), ([0], (rows[:1], [0])), ([1], None), ([0], (rows, [0, 0])),
    ]  # fmt: skip


def test_thompson_sampling_looks_for_nothing(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its law does not depend on what waits: no query, and one call for a whole batch."""
    calls: list[int] = []
    decide = mixts.MixTS.decide

    def spy(self: mixts.MixTS, offer: Offer) -> Choice:
        calls.append(len(offer.tasks))
        return decide(self, offer)

    with Decider(arms(), store, policy="ts", seed=1) as decider:
        monkeypatch.setattr(mixts.MixTS, "decide", spy)
        with store.backend.transaction() as transaction:
            kind = type(transaction)
        monkeypatch.setattr(kind, "find_waiting", None)
        decider.decide("u")
        decider.decide_many([Decide("u")] * 5)
    assert calls == [1, 5]


def submit_together(decider: Decider, operations: list[Any]) -> None:
    """Perform operations in one batch."""
    done: list[Any] = []
    decider._writer.run(lambda: done.extend(decider._perform(operations, wait=True)))
    assert not [result for result in done if isinstance(result, Exception)]
