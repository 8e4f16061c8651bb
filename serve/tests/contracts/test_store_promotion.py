"""Refits are deployed by their wishes and canaries are judged, once among replicas and for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward, promotion, refit
from mixts_serve.challenger import find_contest, read_account
from mixts_serve.promotion import Promoter, Promotion, read_trial
from mixts_serve.records import Pedigree
from mixts_serve.store.postgres import PostgresBackend
from mixts_serve.versions import logged_prior

import mixts
from mixts.errors import ParameterError
from mixts.origin import Origin
from serve.tests.contracts.stores import Opener, arms, set_clock

START = 1_773_489_600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of all stores, in seconds; it goes on a little at every look."""
    now = [float(START)]

    def look() -> int:
        now[0] += 1e-3
        return int(now[0] * 1e6)

    set_clock(monkeypatch, look)
    monkeypatch.setattr(PostgresBackend, "settle_us", 0)
    monkeypatch.setattr(Promoter, "start", lambda self: None)  # tests call it themselves
    return now


def right() -> mixts.MixturePrior:
    """Tasks of one kind, whose first arm earns nearly always and whose second seldom does."""
    return mixts.MixturePrior(mixts.BernoulliArms([[18, 2]], [[2, 18]]))


def wrong() -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.BernoulliArms([[2, 18]], [[18, 2]]))


def refitted(decider: Decider, prior: mixts.MixturePrior, promote: str, canary: float = 0.0) -> int:
    """Store a prior as a refit does."""
    made = Pedigree("refit", 1, 1, promote=promote, canary=canary)

    def write(transaction: Any) -> int:
        transaction.shape()
        now = transaction.now_us()
        return int(transaction.add_prior(logged_prior(prior, now, made))[0])

    return decider.store.backend.transact(write)


def serve_tasks(
    decider: Decider, name: str, n: int, mean: Callable[[Decision], float], seed: int = 0
) -> None:
    """Decide once for each of some new tasks, and reward it."""
    rng = np.random.default_rng(seed)
    made = decider.decide_many([Decide(f"{name} {i}") for i in range(n)])
    rewards = []
    for one in made:
        assert isinstance(one, Decision)
        rewards.append(Reward(one.id, float(rng.random() < mean(one))))
    decider.reward_many(rewards)


def judge(decider: Decider) -> None:
    """Read the account to its end, and judge."""
    promoter = decider._promoter
    while not promoter.poll():
        pass
    promoter.judge()


def deployed(store: DecisionStore) -> list[tuple[int, float, bool]]:
    """Versions, shares, and whether the service did it by itself."""
    rows = store.backend.query("SELECT version, share, reason FROM activations ORDER BY seq")
    return [(version, share, bool(reason)) for version, share, reason in rows]


def first_arm_earns(one: Decision) -> float:
    return 0.9 if one.action == 0 else 0.1


def test_evidence_promotes_once_among_replicas_and_a_person_wins(
    opened: Opener, clock: list[float]
) -> None:
    one_store, other_store = opened(), opened()
    with (
        Decider(wrong(), one_store, policy="ts", seed=1) as one,
        Decider(None, other_store, policy="ts", seed=2) as other,
    ):
        version = refitted(one, right(), "100")
        judge(one)
        assert deployed(one_store) == [(1, 1.0, False)], "there is no evidence yet"
        serve_tasks(one, "a", 40, first_arm_earns)
        found = read_account(one_store)
        assert found is not None
        assert found.evidence > 100
        # Both replicas have seen the evidence before one of them acts.
        for each in (one, other):
            while not each._promoter.poll():
                pass
        last = one_store.backend.value("SELECT MAX(seq) FROM activations")
        judge(one)
        assert not other.deploy(last, version, 1.0, "too late")
        judge(other)
        assert deployed(one_store) == [(1, 1.0, False), (version, 1.0, True)]
        assert one.prior_version == other.prior_version == version
        one.activate_prior(1)
        for each in (one, other):
            judge(each)
        assert deployed(one_store)[-1] == (1, 1.0, False)
        assert len(deployed(one_store)) == 3


@pytest.mark.parametrize("promote", ["ask", "100"])
def test_a_refit_waits_for_a_person_or_for_evidence(
    store: DecisionStore, clock: list[float], promote: str
) -> None:
    with Decider(right(), store, policy="ts", seed=1) as decider:
        version = refitted(decider, wrong(), promote)
        serve_tasks(decider, "a", 40, first_arm_earns)
        judge(decider)
        assert deployed(store) == [(1, 1.0, False)]
        account = decider.account()
        assert account is not None
        assert account.contest.challenger == version
        decider.activate_prior(version)
        judge(decider)
        assert deployed(store)[1:] == [(version, 1.0, False)]


def test_an_uploaded_prior_or_a_failed_refit_is_never_deployed(
    store: DecisionStore, clock: list[float]
) -> None:
    with Decider(right(), store, policy="ts", seed=1) as decider:
        decider.upload_prior(arms(2))
        judge(decider)
        refitted(decider, arms(2, scale=2.0), "refit")  # "refused" by the refit itself
        judge(decider)
        assert deployed(store) == [(1, 1.0, False)]


@pytest.mark.parametrize(
    ("gain", "final"), [(-0.3, 0.0), (0.3, 1.0), (0.0, 1.0)], ids=["worse", "better", "equal"]
)
def test_a_canary_that_loses_is_withdrawn_and_others_are_promoted(
    opened: Opener, clock: list[float], monkeypatch: pytest.MonkeyPatch, gain: float, final: float
) -> None:
    monkeypatch.setattr(promotion, "CANARY_TASKS", 300)
    store, other_store = opened(), opened()
    with (
        Decider(right(), store, policy="ts", seed=1) as decider,
        Decider(None, other_store, policy="ts", seed=2) as other,
    ):
        version = refitted(decider, arms(2), "refit", 0.5)
        for each in (decider, other):
            judge(each)
        assert deployed(store)[1:] == [(version, 0.5, True)]
        assert find_contest(store).challenger == version  # type: ignore[union-attr]
        waiting = refitted(decider, arms(2, scale=2.0), "refit", 0.5)

        def mean(one: Decision) -> float:
            return 0.5 + (gain if one.prior_version == version else 0.0)

        for i in range(8):
            serve_tasks(decider, f"{i}", 100, mean, seed=i)
            for each in (decider, other):
                judge(each)
            if len(deployed(store)) > 2:
                break
            trial = read_trial(store)
            assert trial is not None
            assert trial.verdict is None
        assert deployed(store)[2] == (version, final, True)
        (reason,) = store.backend.query("SELECT reason FROM activations WHERE seq = 3")[0]
        assert "reward a decision" in reason
        judge(decider)
        # A refit that came meanwhile is next after a canary that lost, and void after one that won.
        assert deployed(store)[3:] == ([] if final else [(waiting, 0.5, True)])
        assert decider.trial() is None or not final


@pytest.mark.parametrize(("n_tasks", "final"), [(20, 1.0), (0, 0.0)], ids=["few", "none"])
def test_few_tasks_promote_a_canary_after_a_time_and_none_withdraw_it(
    store: DecisionStore, clock: list[float], n_tasks: int, final: float
) -> None:
    with Decider(right(), store, policy="ts", seed=1) as decider:
        version = refitted(decider, arms(2), "refit", 0.5)
        judge(decider)
        serve_tasks(decider, "a", n_tasks, first_arm_earns)
        clock[0] += 13 * 86_400
        judge(decider)
        assert len(deployed(store)) == 2
        clock[0] += 86_400
        judge(decider)
        assert deployed(store)[2:] == [(version, final, True)]


@pytest.mark.parametrize("days", [14.0, 30.0])
def test_a_canary_is_not_promoted_before_its_rewards_are_final(
    store: DecisionStore, clock: list[float], days: float
) -> None:
    """Its 14 days are days of decisions that count: they end when the windows of these end."""
    options = {"reward_window": 86_400 * days, "default_reward": 0.0}
    with Decider(right(), store, policy="ts", seed=1, **options) as decider:  # type: ignore[arg-type]
        version = refitted(decider, arms(2), "refit", 0.5)
        judge(decider)
        serve_tasks(decider, "a", 20, first_arm_earns)
        clock[0] += 86_400 * (14 + days) - 60
        serve_tasks(decider, "b", 20, first_arm_earns)
        while decider.end_windows():
            pass
        judge(decider)
        assert len(deployed(store)) == 2
        clock[0] += 120
        judge(decider)
        assert deployed(store)[2:] == [(version, 1.0, True)]


def test_a_reward_that_came_too_late_says_nothing_of_a_canary(
    store: DecisionStore, clock: list[float]
) -> None:
    with Decider(right(), store, policy="ts", seed=1, reward_window=600.0) as decider:
        decider.start_canary(decider.upload_prior(arms(2)), 0.5)
        clock[0] += 1
        made = decider.decide_many([Decide(f"a {i}") for i in range(40)])
        sent = [Reward(one.id, 1.0) for one in made if isinstance(one, Decision)]
        decider.reward_many(sent[:20])
        clock[0] += 700
        decider.reward_many(sent[20:])
        trial = read_trial(store)
        assert trial is not None
        assert trial.rewards.treated.decisions + trial.rewards.control.decisions == 20


def test_refits_follow_the_settings_of_the_service(
    store: DecisionStore, clock: list[float]
) -> None:
    assert Promotion.of(store) == Promotion("refit", 0.0)
    with Decider(right(), store, promote=100, canary=0.1):
        pass
    assert Promotion.of(store) == Promotion("100", 0.1)


@pytest.mark.parametrize("settings", [{"promote": "always"}, {"promote": 0.5}, {"canary": 1.0}])
def test_wrong_settings_are_refused(
    store: DecisionStore, clock: list[float], settings: dict[str, Any]
) -> None:
    with pytest.raises(ParameterError, match="must be"):
        Decider(right(), store, **settings)


def test_a_real_refit_becomes_a_canary(store: DecisionStore, clock: list[float]) -> None:
    origin = Origin(100.0, np.full((2, 2), 50.0))
    prior = mixts.MixturePrior(arms(2).family, origin=origin)
    with Decider(prior, store, policy="ts", seed=1, canary=0.25) as decider:
        serve_tasks(decider, "a", 60, first_arm_earns)
        clock[0] += 1
        found = refit(store)
        assert found.status == "uploaded"
        assert deployed(store) == [(1, 1.0, False)]
        judge(decider)
        assert deployed(store)[1:] == [(found.version, 0.25, True)]
