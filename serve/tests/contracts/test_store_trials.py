"""Trials in every store: who is held back, who tries a challenger, and metrics beside rewards."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore
from mixts_serve.records import Deployment, MetaEntry, Receipt, Reward
from mixts_serve.store.base import FIND_META, TRIAL_KEY
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild
from mixts_serve.trials import CANARY, CONTROL, TREATED, place

import mixts
from mixts.errors import ConflictError, OutcomeError, ParameterError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear

TASKS = [f"visitor {k}" for k in range(200)]


@pytest.fixture(autouse=True)
def key(store: DecisionStore) -> bytes:
    """The key of a store, so that the same tasks are drawn in every run."""
    with store.backend.transaction() as transaction:
        transaction._set(MetaEntry(TRIAL_KEY, bytes(16).hex()))
    return bytes(16)


def sides(store: DecisionStore) -> dict[str, set[str]]:
    """The sides of each task's decisions."""
    found: dict[str, set[str]] = {}
    for task, side in store.backend.query(
        "SELECT t.name, d.side FROM decisions d JOIN tasks t ON t.number = d.task"
    ):
        found.setdefault(task, set()).add(side)
    return found


def decide_all(decider: Decider, tasks: list[str] = TASKS) -> list[mixts.errors.MixtsError]:
    made = decider.decide_many([Decide(task) for task in tasks])
    return [one for one in made if isinstance(one, mixts.errors.MixtsError)]


def decide_each(decider: Decider) -> list[str]:
    """Decide for every task; repeat, as clients do, what meets a task that another one locks."""
    left = TASKS
    for _ in range(50):
        made = decider.decide_many([Decide(task) for task in left])
        failed = [one for one in made if isinstance(one, mixts.errors.MixtsError)]
        assert all(isinstance(one, mixts.errors.TaskLockedError) for one in failed), failed
        pairs = zip(left, made, strict=True)
        left = [task for task, one in pairs if isinstance(one, mixts.errors.TaskLockedError)]
        if not left:
            break
    return left


# -- the holdback ---------------------------------------------------------------------------------


def test_a_task_stays_in_the_control_group(store: DecisionStore, opened: Opener) -> None:
    with Decider(arms(), store, holdback=0.25, seed=1) as decider:
        assert not decide_all(decider)
    held = {task for task, found in sides(store).items() if found == {CONTROL}}
    # 50 of 200, with a standard deviation of 6.1
    assert 30 < len(held) < 70
    assert all(found in ({CONTROL}, {TREATED}) for found in sides(store).values())
    store.close()
    again = opened()
    other = mixts.MixturePrior(mixts.BernoulliArms([[3.0, 1.0, 1.0]], [[1.0, 2.0, 1.0]]))
    with Decider(other, again, holdback=0.25, seed=5) as decider:  # a restart, and another prior
        assert not decide_all(decider)
    assert {task for task, found in sides(again).items() if found == {CONTROL}} == held
    assert rebuild(again, write=False).n_differences == 0


def test_a_larger_share_holds_back_the_same_tasks_and_more(store: DecisionStore) -> None:
    with Decider(arms(), store, holdback=0.2) as decider:
        decide_all(decider)
    small = {task for task, found in sides(store).items() if CONTROL in found}
    with Decider(None, store, holdback=0.4) as decider:
        decide_all(decider)
    assert small < {task for task, found in sides(store).items() if CONTROL in found}


def test_replicas_agree(store: DecisionStore, opened: Opener) -> None:
    """A canary begins and ends while two replicas decide for the same tasks."""
    if store.backend.database == "SQLite":
        pytest.skip("a file has one decider")
    with (
        Decider(arms(), store, holdback=0.2) as one,
        Decider(None, opened(), holdback=0.2) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        version = one.upload_prior(challenger())
        one.start_canary(version, 0.5)
        for _ in range(3):
            assert not any(pool.map(decide_each, (one, other)))
        assert other.end_canary("enough") == version
        assert not decide_all(one)
    found = sides(store)
    assert {CONTROL} in found.values()
    assert all(len(tried - {TREATED}) <= 1 for tried in found.values())
    odd = "SELECT COUNT(*) FROM decisions WHERE (side = 'canary') <> (version = 2)"
    assert store.backend.value(odd) == 0
    rows = store.backend.query("SELECT DISTINCT side, policy FROM decisions ORDER BY side")
    assert rows == [("canary", "ids"), ("control", "bestseller"), ("treated", "ids")]


def test_each_key_draws_other_tasks() -> None:
    keys = bytes(16), bytes(range(16))
    one, other = ([place(key, CONTROL, task) < 0.5 for task in TASKS] for key in keys)
    # Independent: they agree in half of 200 tasks, with a standard deviation of 7.1.
    assert 75 < np.equal(one, other).sum() < 125


def test_a_store_has_one_key(tmp_path: Path) -> None:
    keys = []
    for name in ("a", "b", "a"):
        with DecisionStore(tmp_path / name) as store, Decider(arms(), store):
            keys.append(store.backend.value(FIND_META, (TRIAL_KEY,)))
    assert keys[0] == keys[2] != keys[1]


def test_the_bestseller_is_decided_as_if_every_task_were_new(store: DecisionStore) -> None:
    prior = arms()
    best = int(prior.belief().mean_rewards().argmax())
    with Decider(prior, store, holdback=0.999, explore=0.3, seed=1) as decider:
        for _ in range(3):
            made = decider.decide("u")
            assert (made.policy, made.action, made.propensity) == ("bestseller", best, 1.0)
            decider.reward(made.id, 0)  # does not change the bestseller, but the belief
        elsewhere = decider.decide("u", mask=[k != best for k in range(3)])
        assert elsewhere.action != best
        costly = decider.decide("u", costs=[9.0 * (k == best) for k in range(3)])
        assert costly.action != best
        ranked = decider.decide("u", top=2)
    assert ranked.shown[0].action == best
    assert made.weights != tuple(prior.weights)
    assert decider.store.totals().rewards == 3


def test_a_uniform_baseline(store: DecisionStore) -> None:
    with Decider(arms(), store, holdback=0.999, baseline="uniform", seed=1) as decider:
        made = decider.decide_many([Decide("u")] * 90)
        shown = decider.decide("u", top=2).shown
    taken = np.bincount([one.action for one in made], minlength=3)  # type: ignore[union-attr]
    assert {one.propensity for one in made} == {1 / 3}  # type: ignore[union-attr]
    assert (taken > 15).all()  # 30 each, with a standard deviation of 4.5
    assert [round(one.propensity, 9) for one in shown] == [0.666666667] * 2


def test_a_fixed_arm(store: DecisionStore) -> None:
    prior = arms().replace(arm_names=["a", "b", "c"])
    with Decider(prior, store, holdback=0.999, baseline="arm:b", seed=1) as decider:
        made = decider.decide("u")
        assert (made.arm, made.policy, made.propensity) == ("b", "fixed", 1.0)
        assert decider.decide("u", values=[1e18, 1e17, 1e18]).propensity == 1.0
        assert decider.decide("u", mask=["a", "c"]).arm in "ac"
        with pytest.raises(ParameterError, match="baseline of the holdback is the arm 'b'"):
            decider.change_arms(rename={"b": "d"})
    with pytest.raises(ParameterError, match="arms: a, b, c"):
        Decider(None, store, holdback=0.1, baseline="arm:x")


def test_with_features_the_baseline_is_the_pooled_model(store: DecisionStore) -> None:
    prior = linear()
    best = int(prior.belief().mean_rewards(np.array(ACTIONS)).argmax())
    with Decider(prior, store, holdback=0.999, seed=1) as decider:
        for _ in range(3):
            made = decider.decide("u", actions=ACTIONS)
            assert (made.action, made.propensity) == (best, 1.0)
            decider.reward(made.id, -3.0)


@pytest.mark.parametrize(
    ("holdback", "baseline", "message"),
    [
        (1.0, None, "from 0 to below 1, got 1.0"),
        (-0.1, None, "from 0 to below 1"),
        (True, None, "from 0 to below 1"),
        (0.0, "uniform", "needs a holdback"),
        (0.1, "best", "got 'best'"),
        (0.1, "arm:", "got 'arm:'"),
    ],
)
def test_settings_that_mean_nothing(
    store: DecisionStore, holdback: float, baseline: str | None, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        Decider(arms(), store, holdback=holdback, baseline=baseline)


# -- a canary -------------------------------------------------------------------------------------


def challenger() -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.BernoulliArms([[9.0, 1.0, 1.0]], [[1.0, 9.0, 9.0]]))


def test_a_canary_decides_for_a_share_of_the_new_tasks(store: DecisionStore) -> None:
    old = TASKS[:50]
    with Decider(arms(), store, seed=1) as decider:
        decide_all(decider, old)
        version = decider.upload_prior(challenger())
        decider.start_canary(version, 0.3)
        assert (now := store.deployment()) is not None
        assert (now.version, now.canary, now.share) == (1, version, 0.3)
        assert store.active_version() == decider.prior_version == 1
        decide_all(decider)
        found = sides(store)
        assert {side for task in old for side in found[task]} == {"", TREATED}
        tried = {task for task in TASKS[50:] if found[task] == {CANARY}}
        assert 25 < len(tried) < 65  # 45 of 150, with a standard deviation of 5.6
        versions = {task: store.history(task)[-1].prior_version for task in TASKS}
        assert {task for task, n in versions.items() if n == version} == tried
        with pytest.raises(ParameterError, match="version 1 is active"):
            decider.start_canary(1, 0.3)
        assert decider.end_canary("it lost") == version
        assert decider.end_canary("again") is None
        decide_all(decider)
        assert {store.history(task)[-1].prior_version for task in TASKS} == {1}
        assert {store.history(task)[-1].side for task in TASKS} == {""}
        decider.start_canary(version, 0.3)
        decider.activate_prior(version)
        now = store.deployment()
        assert now is not None
        assert (now.version, now.canary) == (version, None)
    assert rebuild(store, write=False).n_differences == 0


def test_changed_arms_end_a_canary(store: DecisionStore) -> None:
    prior = arms().replace(arm_names=["a", "b", "c"])
    with Decider(prior, store) as decider:
        version = decider.upload_prior(prior.replace(weights=[0.5, 0.5]))
        decider.start_canary(version, 0.5)
        decider.change_arms(add=["d"])
        now = store.deployment()
        assert now is not None
        assert now.canary is None
        with pytest.raises(ParameterError, match="same arms or features"):
            decider.start_canary(version, 0.5)
        for share in (0.0, 1.0, -1.0):
            with pytest.raises(ParameterError, match="above 0 and below 1"):
                decider.start_canary(1, share)


@pytest.mark.parametrize("change", ["retired", "nameless", "once"])
def test_a_canary_has_the_arms_of_the_active_prior(store: DecisionStore, change: str) -> None:
    prior = arms().replace(arm_names=["a", "b", "c"])
    other = {
        "retired": prior.retire_arms(["c"]),
        "nameless": challenger(),
        "once": challenger().replace(arm_names=["a", "b", "c"], repeatable=False),
    }[change]
    with Decider(prior, store) as decider:
        version = decider.upload_prior(other)
        with pytest.raises(ParameterError, match="the same names, the same retired arms"):
            decider.start_canary(version, 0.5)
        with pytest.raises(ParameterError, match="above 0 and below 1, got '5%'"):
            decider.start_canary(version, "5%")  # type: ignore[arg-type]
        assert store.deployment() == Deployment(1)


def test_a_fixed_arm_that_another_replica_renamed(store: DecisionStore, opened: Opener) -> None:
    prior = arms().replace(arm_names=["a", "b", "c"])
    with (
        Decider(prior, store, holdback=0.5, baseline="arm:b") as decider,
        opened() as second,
        Decider(None, second) as other,
    ):
        other.change_arms(rename={"b": "z"})
        assert not decide_all(decider)
        held = [task for task, found in sides(store).items() if found == {CONTROL}]
        assert {store.history(task)[-1].action for task in held} == {0}  # the bestseller


def test_a_canary_leaves_the_control_group_alone(store: DecisionStore, key: bytes) -> None:
    with Decider(arms(), store, holdback=0.3) as decider:
        version = decider.upload_prior(challenger())
        decider.start_canary(version, 0.5)
        decide_all(decider)
    for task, found in sides(store).items():
        assert (found == {CONTROL}) == (place(key, CONTROL, task) < 0.3)
    assert {side for found in sides(store).values() for side in found} == {
        CONTROL, TREATED, CANARY,
    }  # fmt: skip


# -- metrics --------------------------------------------------------------------------------------


def test_metrics_come_with_a_reward_or_later(store: DecisionStore, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    with Decider(arms(), store) as decider:
        made = [decider.decide("u") for _ in range(3)]
        first = made[0].id
        before = decider.weights(["u"])
        assert not decider.reward(first, metrics={"returned": 1}).duplicate
        assert decider.weights(["u"]) == before  # never learned from
        assert decider.reward(first, metrics={"returned": 1.0}).duplicate
        assert not decider.reward(first, 1, {"returned": 1, "margin": 2.5}).duplicate
        assert decider.reward(first, 1, {"margin": 2.5}).duplicate
        with pytest.raises(ConflictError, match=r"'returned' with the value 1\.0, which"):
            decider.reward(made[1].id, 1, {"returned": 1}) and decider.reward(
                made[1].id, 1, {"new": 3, "returned": 0}
            )
        results = decider.reward_many(
            [Reward(made[2].id, None, {"x": 1}), Reward(made[2].id, 0, {"x": 2})]
        )
        assert isinstance(results[1], ConflictError)
        assert decider.task("u").rewards == 2  # the refused reward changed nothing
    rows = store.backend.query("SELECT decision, name, value FROM metrics ORDER BY decision, name")
    assert rows == [(1, "margin", 2.5), (1, "returned", 1.0), (2, "returned", 1.0), (3, "x", 1.0)]
    export(store, tmp_path / "log.parquet")
    exported = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert json.loads(exported[0]["metrics"]) == {"margin": 2.5, "returned": 1.0}
    assert [row["side"] for row in exported] == [None] * 3
    assert rebuild(store, write=False).n_differences == 0


@pytest.mark.parametrize(
    ("value", "metrics", "message"),
    [
        (None, None, "a value, metrics or both"),
        (None, {}, "a value, metrics or both"),
        (1, {"x": float("nan")}, "metric 'x' must be a finite number"),
        (1, {"x": "much"}, "metric 'x' must be a finite number"),
        (1, {f"m{k}": 1.0 for k in range(21)}, "at most 20 metrics"),
        (1, ["returned"], r"numbers by their names, got \['returned'\]"),
    ],
)
def test_reports_that_are_refused_whole(
    store: DecisionStore, value: float | None, metrics: Any, message: str
) -> None:
    with Decider(arms(), store) as decider:
        made = decider.decide("u")
        other, wrong = (decider.decide("u").id for _ in range(2))
        results = decider.reward_many([Reward(wrong, value, metrics), Reward(other, 1.0)])
        assert list(map(type, results)) == [OutcomeError, Receipt]
        with pytest.raises(OutcomeError, match=message):
            decider.reward(made.id, value, metrics)
        with pytest.raises(ParameterError, match="the name of a metric"):
            decider.reward(made.id, 1, {"": 1})
        assert decider.task("u").rewards == 1
