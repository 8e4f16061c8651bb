"""Arms that are added, retired, restored and renamed under live tasks, in every store."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.rules import DEFAULT_EXPLORE
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts import errors
from serve.tests.contracts.stores import Opener, arms, decide_and_reward, linear

NAMES = ("a", "b", "c")


def named() -> mixts.MixturePrior:
    return arms().replace(arm_names=NAMES)


def test_arms_change_in_one_version_under_live_tasks(store: DecisionStore) -> None:
    with Decider(named(), store, policy="ts", seed=1) as decider:
        made = decide_and_reward(decider, "u", [1.0, 0.0, 1.0])
        found = decider.change_arms(add=["d", "e, f"], retire=["b"], rename={"a": "A"})
        assert [(arm.name, arm.retired, arm.new) for arm in found.arms] == [
            ("A", False, False), ("b", True, False), ("c", False, False),
            ("d", False, True), ("e, f", False, True),
        ]  # fmt: skip
        assert (found.version, decider.prior_version) == (2, 2)
        assert decider.arms() == found
        state = decider.task("u")
        taken = {decider.decide("v").arm for _ in range(200)}
    assert taken == {"A", "c", "d", "e, f"}
    belief = named().belief()
    belief.update([d.action for d in made], [1.0, 0.0, 1.0])
    assert state.weights == pytest.approx(belief.weights, abs=1e-12)
    assert rebuild(store, write=False).differing == 0


def test_a_repeated_change_changes_nothing(store: DecisionStore) -> None:
    with Decider(named(), store) as decider:
        for _ in range(2):
            found = decider.change_arms(add=["d"], retire=["b"], rename={"a": "A"})
            assert found.version == 2
        assert decider.change_arms(restore=["b"]).version == 3
        assert decider.change_arms(restore=["b"]).version == 3
        assert decider.change_arms(retire=["b"]).version == 2


def test_a_restart_with_the_first_prior_keeps_arms_that_were_added(store: DecisionStore) -> None:
    with Decider(named(), store) as decider:
        decider.change_arms(add=["d"])
    with Decider(named(), store) as decider:
        assert decider.prior_version == 2
        assert [arm.name for arm in decider.arms().arms] == ["a", "b", "c", "d"]
        with pytest.raises(errors.MixtsError, match="no fewer arms"):
            decider.activate_prior(1)
    with Decider(named(), store, holdback=0.1, baseline="arm:d") as decider:
        assert decider.prior_version == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rename": {"a": "b"}}, "another arm has this name"),
        ({"rename": {"a": "b", "b": "a"}}, "another arm has this name"),
        ({"rename": {"x": "y"}}, "unknown arm 'x'"),
        ({"retire": ["x"]}, "unknown arm 'x'"),
        ({"retire": list(NAMES)}, "at least one must remain"),
        ({"add": ["x"], "retire": ["b"], "restore": ["b"]}, "at once"),
        ({"add": "abc"}, "list of names"),
        ({"add": [""]}, "name of an arm"),
        ({}, "nothing to change"),
    ],
)
def test_a_refused_change_changes_nothing(
    store: DecisionStore, changes: dict, message: str
) -> None:
    with Decider(named(), store) as decider:
        with pytest.raises(errors.ParameterError, match=message):
            decider.change_arms(**changes)
        assert [row.version for row in decider.priors()] == [1]


def test_priors_without_names_or_arms_are_refused(opened: Opener) -> None:
    with Decider(arms(), opened()) as decider:
        assert [arm.name for arm in decider.arms().arms] == [None] * 3
        with pytest.raises(errors.ParameterError, match="no names"):
            decider.change_arms(add=["x"])


def test_features_have_no_arms(store: DecisionStore) -> None:
    with Decider(linear(), store) as decider, pytest.raises(errors.ParameterError, match="no arms"):
        decider.change_arms(add=["x"])


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
def test_two_replicas_change_arms_at_once(opened: Opener) -> None:
    """Each adds arms to what the other has made: no change is lost."""
    with Decider(named(), opened()) as first, Decider(None, opened()) as second:
        threads = [
            threading.Thread(target=lambda d=d, k=k: d.change_arms(add=[f"new {k}"]))
            for k in range(10)
            for d in (first, second)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = first.arms()
        assert found == second.arms()
        assert sorted(arm.name for arm in found.arms[3:]) == [f"new {k}" for k in range(10)]
        assert found.version == 11
        assert first.decide("u").prior_version == second.decide("u").prior_version == 11


def test_the_history_shows_the_present_name(store: DecisionStore, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with Decider(named(), store, seed=1) as decider:
        first = decide_and_reward(decider, "u", [1.0] * 6)
        decider.change_arms(rename={"a": "A", "b": "B"})
        second = decide_and_reward(decider, "u", [1.0] * 2)
        export(store, tmp_path / "log.parquet")
    rows = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    expected = [("A", "B", "c")[d.action] for d in (*first, *second)]
    assert [row["arm"] for row in rows] == expected


def test_new_arms_take_no_more_than_their_share(store: DecisionStore) -> None:
    with Decider(named(), store, policy="ts", new_item_share=0.05) as decider:
        decider.change_arms(add=[f"new {k}" for k in range(10)])
        decisions = [decider.decide(f"task {k}") for k in range(300)]
        free = mixts.MixTS(decider.prior, seed=0).action_probabilities()[0][3:].sum()
    assert free > 0.3
    taken = sum(decision.action >= 3 for decision in decisions)
    # The 99.99 % point of a binomial variable with 300 trials of 5 %.
    assert taken <= 30
    assert all(d.propensity <= 0.05 for d in decisions if d.action >= 3)


def test_new_arms_are_tried_by_a_policy_that_would_not(store: DecisionStore) -> None:
    with Decider(named(), store, policy="ids", new_item_share=(0.5, 0.6)) as decider:
        decider.change_arms(add=["new"])
        decisions = [decider.decide(f"task {k}") for k in range(60)]
        free = mixts.MixIDS(decider.prior, seed=0).action_probabilities()[0][3]
    assert free < 0.01
    tried = [decision for decision in decisions if decision.action == 3]
    # The 99.99 % limits of a binomial variable with 60 trials of one half.
    assert 15 <= len(tried) <= 45
    # Decisions that are drawn evenly do not count towards the share.
    wanted = (1 - DEFAULT_EXPLORE) * 0.5 + DEFAULT_EXPLORE / 4
    assert all(decision.propensity == pytest.approx(wanted) for decision in tried)
