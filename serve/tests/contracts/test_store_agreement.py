"""The watch over the prior reads the log: late rewards, windows, restarts and all families."""

from __future__ import annotations

import logging
import math
import threading

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward, agreement
from mixts_serve.agreement import PriorWatch
from mixts_serve.store.postgres import PostgresBackend
from mixts_serve.versions import LoadedPrior

import mixts
from mixts.errors import StoreUnavailableError
from serve.tests.contracts.stores import ACTIONS, arms, linear, set_clock

START = 1_773_489_600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all stores, in seconds."""
    now = [float(START)]
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    monkeypatch.setattr(PostgresBackend, "settle_us", 0)
    return now


def watched(decider: Decider) -> PriorWatch:
    """A watch of this moment that has read the whole log."""
    watch = PriorWatch(decider.store, decider._load)
    while watch.poll():
        pass
    return watch


def expected_by_hand(prior: mixts.MixturePrior, history: list[tuple[int, float]]) -> list[float]:
    """Predictions of a task's rewards, each from those before it."""
    belief, found = prior.belief(), []
    for arm, value in history:
        found.append(float(belief.mean_rewards()[arm]))
        belief.update(arm, value)
    return found


def test_rewards_are_predicted_in_the_order_in_which_decisions_become_final(
    store: DecisionStore, clock: list[float]
) -> None:
    prior, rng = arms(), np.random.default_rng(3)
    settings = {"reward_window": 1800.0, "default_reward": 0.0}
    histories: dict[str, list[tuple[int, float]]] = {}
    with Decider(prior, store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        for _ in range(40):
            clock[0] += 60
            made = decider.decide_many([Decide(f"task {i}") for i in range(6)])
            for one in made:
                assert isinstance(one, Decision)
                clicked = float(rng.random() < 0.4)
                histories.setdefault(one.task, []).append((one.action, clicked))
                if clicked:
                    decider.reward(one.id, 1.0)
            while decider.end_windows():
                pass
        found = watched(decider).agreements(1)
        assert found is not None
        # Final are the decisions of the minutes 1 to 9, whatever became of them.
        final = {task: history[:9] for task, history in histories.items()}
        values = [value for history in final.values() for _, value in history]
        means = [m for history in final.values() for m in expected_by_hand(prior, history)]
        assert found.whole.decisions == len(values) == 54
        assert found.whole.earned == pytest.approx(np.mean(values))
        assert found.whole.expected == pytest.approx(np.mean(means))
        assert sum(one.decisions for one in found.arms.values()) == 54
        assert sum(one.decisions for one in found.kinds.values()) == pytest.approx(54)
        for unit, parts in ((0, found.kinds), (1, found.arms)):
            for index, part in parts.items():
                cells = [one for pair, one in found.cells.items() if pair[unit] == index]
                assert sum(one.decisions for one in cells) == pytest.approx(part.decisions)
                earned = sum(one.decisions * one.earned for one in cells)
                assert earned == pytest.approx(part.decisions * part.earned)
        clock[0] += 1801
        while decider.end_windows():
            pass
    # A new service reads the same from the log.
    with Decider(None, store, policy="ts", seed=1) as decider:
        again = watched(decider).agreements(1)
        assert again is not None
        assert again.whole.decisions == 240
        means = [m for history in histories.values() for m in expected_by_hand(prior, history)]
        assert again.whole.expected == pytest.approx(np.mean(means))


def test_a_default_that_is_not_written_yet_holds_up_the_watch(
    store: DecisionStore, clock: list[float]
) -> None:
    settings = {"reward_window": 60.0, "default_reward": 0.0}
    with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        decider._closer.close()
        decider.decide("silent")
        clock[0] += 1
        decider.reward(decider.decide("loud").id, 1.0)
        clock[0] += 1000
        assert watched(decider).agreements(1) is None, "the click alone would be a biased sample"


def test_rewards_may_come_in_any_order(store: DecisionStore, clock: list[float]) -> None:
    prior, rng = arms(), np.random.default_rng(4)
    with Decider(prior, store, policy="ts", seed=1) as decider:
        made = [decider.decide("a") for _ in range(12)]
        order = rng.permutation(12)
        history = []
        for i in order:
            clock[0] += 1
            value = float(rng.random() < 0.5)
            decider.reward(made[i].id, value)
            history.append((made[i].action, value))
        clock[0] += 1
        found = watched(decider).agreements(1)
    assert found is not None
    assert found.whole.expected == pytest.approx(np.mean(expected_by_hand(prior, history)))
    assert math.isfinite(found.evidence)


def test_a_wrong_prior_raises_the_alarm(store: DecisionStore, clock: list[float]) -> None:
    """It expects 0.44 of an arm, gives it all the traffic, and earns 0.1."""
    family = mixts.BernoulliArms([[8.8, 3, 2]], [[11.2, 17, 18]])
    prior = mixts.MixturePrior(family, arm_names=["boots", "hats", "bags"])
    rng = np.random.default_rng(5)
    with Decider(prior, store, seed=1) as decider:
        made = decider.decide_many([Decide(f"task {i}") for i in range(150)])
        assert {one.arm for one in made} == {"boots"}  # type: ignore[union-attr]
        rewards = (rng.random(150) < 0.1).astype(float)
        decider.reward_many(
            [Reward(one.id, value) for one, value in zip(made, rewards, strict=True)]  # type: ignore[union-attr]
        )
        clock[0] += 1
        assert decider.health().prior_alarm is None
        while decider._watch.poll():
            pass
        found = decider.agreements()
        assert found is not None
        assert found.alarm
        assert found.arms[0].wrong
        assert found.whole.expected == pytest.approx(0.44)
        assert found.whole.earned == pytest.approx(rewards.mean())
        assert decider.health().prior_alarm == (
            "the rewards do not agree with version 1 of the prior: of 150 decisions it expected a "
            f"mean reward of 0.44, and they earned {rewards.mean():.3g}; 'boots' alone was "
            f"expected to earn 0.44 in 150 decisions, and earned {rewards.mean():.3g}"
        )
        # Another version has not earned anything.
        better = mixts.MixturePrior(
            mixts.BernoulliArms([[2, 3, 2]], [[18, 17, 18]]), arm_names=["boots", "hats", "bags"]
        )
        decider.upload_prior(better, activate=True)
        decider._watch.poll()
        assert decider.agreements() is None
        assert decider.health().prior_alarm is None
        assert decider.agreements(1) is not None


def test_rows_of_features_and_real_rewards_are_watched(
    store: DecisionStore, clock: list[float]
) -> None:
    with Decider(linear(), store, policy="ts", seed=1) as decider:
        for i in range(120):
            decision = decider.decide(f"task {i % 40}", ACTIONS)
            decider.reward(decision.id, 9.0)
        clock[0] += 1
        found = watched(decider).agreements(1)
    assert found is not None
    assert (found.whole.decisions, found.whole.earned, found.arms) == (120, 9.0, {})
    assert found.alarm, "no task of this prior earns 9"
    assert found.kinds.keys() == {0, 1}


def test_arms_of_a_later_version_do_not_disturb_an_earlier_one(
    store: DecisionStore, clock: list[float]
) -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2), arm_names=["a", "b"])
    with Decider(prior, store, policy="ts", seed=1) as decider:
        first = decider.decide("x")
        decider.change_arms(add=["c"])
        second = decider.decide("x", mask=["c"])
        for one in (second, first):
            clock[0] += 1
            decider.reward(one.id, 1.0)
        clock[0] += 1
        watch = watched(decider)
    found = [watch.agreements(version) for version in (1, 2)]
    assert [one is not None and one.whole.decisions for one in found] == [1, 1]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)  # threads share the watch
def test_pages_may_read_while_the_watch_bets(store: DecisionStore, clock: list[float]) -> None:
    n_arms = 60
    with Decider(mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms)), store, seed=1) as d:
        watch = PriorWatch(store, d._load)
        for n in (100, 500):
            made = d.decide_many([Decide(f"task {i % 100}") for i in range(n)])
            d.reward_many([Reward(one.id, 1.0) for one in made if isinstance(one, Decision)])
            clock[0] += 1
            if n == 100:
                assert watch.poll()
                assert watch.agreements(1) is None, "not the whole log"
                while watch.poll():
                    pass
        thread = threading.Thread(target=lambda: [None for _ in iter(watch.poll, False)])
        thread.start()
        seen = [0.0]
        while thread.is_alive():
            found = watch.agreements(1)
            seen.append(0.0 if found is None else found.whole.decisions)
        assert seen == sorted(seen)
        found = watch.agreements(1)
    assert found is not None
    assert found.whole.decisions == sum(one.decisions for one in found.arms.values()) == 600


def test_rewards_of_open_windows_do_not_fill_the_memory(
    store: DecisionStore, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "MOST_REWARDS", 20)
    settings = {"reward_window": 1800.0, "default_reward": 0.0}
    with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        watch = PriorWatch(store, decider._load)
        for i in range(60):
            decider.reward(decider.decide(f"task {i}").id, 1.0)
            watch.poll()
            assert len(watch._held) <= 20
        assert 1 in {row.task for row in watch._held}, "the first task is always watched"


def test_rewards_of_other_tasks_are_passed_over_once(
    store: DecisionStore, clock: list[float]
) -> None:
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        watch = PriorWatch(store, decider._load)
        watch._every = 7
        for i in range(5):
            decider.reward(decider.decide(f"task {i}").id, 1.0)
        assert not watch.poll()
        assert (watch._after, len(watch._held)) == (5, 1)


def test_a_store_that_cannot_be_read_for_a_while_loses_no_reward(
    store: DecisionStore, clock: list[float]
) -> None:
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        failures = [StoreUnavailableError("the disk is away")]

        def load(version: int) -> LoadedPrior:
            if failures:
                raise failures.pop()
            return decider._load(version)

        for i in range(5):
            decider.reward(decider.decide(f"task {i}").id, 1.0)
        clock[0] += 1
        watch = PriorWatch(store, load)
        with pytest.raises(StoreUnavailableError):
            watch.poll()
        assert not watch.poll()
        found = watch.agreements(1)
    assert found is not None
    assert found.whole.decisions == 5


def test_a_history_that_the_prior_cannot_use_is_left_out(
    store: DecisionStore, clock: list[float]
) -> None:
    kinds = np.array([[2.0, -1.0], [-1.0, 2.0]])
    exact = mixts.MixturePrior(mixts.LinearBernoulli(kinds, np.stack([np.eye(2)] * 2)))
    vague = mixts.MixturePrior(mixts.LinearBernoulli(0 * kinds, [1e6, 1e6], "spherical"))
    with Decider(exact, store, policy="ts", seed=1) as decider:
        made = [decider.decide("clock", [[1e9, 0.2], [1e9, 0.9]])]
        decider.upload_prior(vague, activate=True)
        made += [decider.decide(task, ACTIONS) for task in ("clock", "u", "v")]
        for one in made:
            clock[0] += 1
            decider.reward(one.id, 1)
        clock[0] += 1
        found = watched(decider).agreements(2)
    assert found is not None
    assert found.whole.decisions == 2


def test_rewards_are_read_when_those_before_them_are_visible(
    store: DecisionStore, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas commit in another order than that of the numbers of their rewards."""
    monkeypatch.setattr(type(store.backend), "settle_us", 30_000_000)
    settings = {"reward_window": 60.0, "default_reward": 0.0}
    with Decider(arms(), store, policy="ts", seed=1, **settings) as decider:  # type: ignore[arg-type]
        watch = PriorWatch(store, decider._load)
        made = [decider.decide(f"task {i}") for i in range(4)]
        decider.reward(made[0].id, 1.0)
        clock[0] += 20
        assert not watch.poll()
        assert watch._after == 0
        clock[0] += 41
        while decider.end_windows():
            pass
        for seconds, expected in ((0, None), (20, None), (20, 4)):
            clock[0] += seconds
            assert not watch.poll()
            found = watch.agreements(1)
            assert (None if found is None else found.whole.decisions) == expected


def test_the_alarm_of_a_second_version_is_logged(
    store: DecisionStore, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    family = mixts.BernoulliArms([[80, 3, 2]], [[20, 17, 18]])
    more_sure = mixts.BernoulliArms([[81, 3, 2]], [[19, 17, 18]])
    with Decider(mixts.MixturePrior(family), store, seed=1) as decider:
        watch = PriorWatch(store, decider._load)
        for version in (1, 2):
            if version == 2:
                decider.upload_prior(mixts.MixturePrior(more_sure), activate=True)
            made = decider.decide_many([Decide(f"task {version} {i}") for i in range(60)])
            decider.reward_many([Reward(one.id, 0.0) for one in made if isinstance(one, Decision)])
            clock[0] += 1
            with caplog.at_level(logging.WARNING, "mixts_serve"):
                while watch.poll():
                    pass
                watch.poll()
    logged = [text for text in caplog.messages if "do not agree" in text]
    assert [text.split(" of the prior")[0][-1] for text in logged] == ["1", "2"]
