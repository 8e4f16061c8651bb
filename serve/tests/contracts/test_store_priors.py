"""Versions of the prior in every store, and what can be read of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.views import ActionRow, Among

import mixts
from mixts import errors
from mixts.agents import POLICIES
from mixts.origin import Origin
from serve.tests.contracts.stores import ACTIONS, Opener, arms, decide_and_reward, linear


def test_a_better_prior_is_swapped_in_under_live_tasks(store: DecisionStore) -> None:
    better = arms(scale=5.0)
    with Decider(arms(), store) as decider:
        made = decide_and_reward(decider, "u", [1.0, 0.0, 1.0])
        version = decider.upload_prior(better)
        assert (version, decider.prior_version) == (2, 1)
        decider.activate_prior(version)
        state = decider.task("u")
        after = decider.decide("u")
    belief = better.belief()
    belief.update([d.action for d in made], [1.0, 0.0, 1.0])
    assert (after.prior_version, state.prior_version) == (2, 2)
    assert state.weights == pytest.approx(belief.weights, abs=1e-12)
    assert after.weights == pytest.approx(belief.weights, abs=1e-12)
    assert [row.active for row in store.priors()] == [False, True]


def test_a_prior_with_more_arms_goes_on(store: DecisionStore) -> None:
    more = mixts.BernoulliArms(np.full((2, 2), 50.0), np.ones((2, 2)))
    with Decider(arms(), store, seed=1) as decider:
        decide_and_reward(decider, "u", [1.0, 0.0])
        decider.activate_prior(decider.upload_prior(arms().with_arms(more)))
        state = decider.task("u")
        actions = {decider.decide("u").action for _ in range(10)}
        with pytest.raises(errors.ParameterError, match="no fewer arms"):
            decider.activate_prior(1)
    assert len(state.mean_rewards) == 5
    assert actions <= {3, 4}
    assert rebuild(store, write=False).differing == 0


def test_a_prior_that_does_not_fit_is_refused(store: DecisionStore) -> None:
    mdp = mixts.MixturePrior(mixts.TabularMDP.uniform(2, 2, 3))
    gaussian = mixts.MixturePrior(mixts.GaussianArms(np.zeros((1, 3)), np.ones((1, 3)), 1.0))
    with Decider(arms(), store) as decider:
        for wrong in (mdp, gaussian, arms(2), linear()):
            with pytest.raises(errors.ParameterError):
                decider.upload_prior(wrong)
        with pytest.raises(errors.ParameterError, match="known: \\[1\\]"):
            decider.activate_prior(7)
        assert [row.version for row in decider.priors()] == [1]


def _failed() -> mixts.MixturePrior:
    """Return a prior that failed its check."""
    prior = arms(scale=5.0)
    known = np.full((prior.n_components, prior.family.n_arms or 0), 10.0)
    verdict = "Do not use this prior: it is worse."
    return prior.replace(origin=Origin(20.0, known, passed=False, verdict=verdict))


def test_a_prior_that_failed_its_check_is_activated_by_force(
    store: DecisionStore,
) -> None:
    failed = _failed()
    with Decider(arms(), store) as decider:
        for attempt in (
            lambda: decider.upload_prior(failed, activate=True),
            lambda: decider.activate_prior(decider.upload_prior(failed)),
        ):
            with pytest.raises(errors.ParameterError, match="it is worse"):
                attempt()
            assert decider.decide("u").prior_version == 1
        decider.activate_prior(2, force=True)
        assert decider.decide("u").prior_version == 2
        decider.activate_prior(1)
        assert decider.upload_prior(failed, activate=True, force=True) == 2
        assert decider.prior_version == 2
    with Decider(failed, store) as decider:  # it is in force already
        assert decider.prior_version == 2
        assert decider.prior.origin is not None
        assert not decider.prior.origin.passed


def test_a_service_does_not_begin_with_a_prior_that_failed(
    store: DecisionStore,
) -> None:
    with pytest.raises(errors.ParameterError, match="failed its check"):
        Decider(_failed(), store)
    assert store.priors() == []
    with Decider(_failed(), store, force=True) as decider:
        assert [row.active for row in decider.priors()] == [True]


def test_an_arm_keeps_its_place_and_its_name(store: DecisionStore) -> None:
    def named(*names: str) -> mixts.MixturePrior:
        return mixts.MixturePrior(arms(len(names)).family, arm_names=names)

    with Decider(named("a", "b"), store) as decider:
        for wrong in (named("a", "aa", "b"), named("b", "a")):
            with pytest.raises(errors.ParameterError, match="must come first and in their order"):
                decider.upload_prior(wrong)
        assert decider.upload_prior(named("a", "b", "aa")) == 2


@pytest.mark.parametrize("wrong", [{"max_work": 0}, {"max_work": "9"}, {"max_pending": -1}])
def test_refused_settings_leave_the_store_free(
    store: DecisionStore, wrong: dict[str, Any], unchecked: None
) -> None:
    with pytest.raises(errors.ParameterError, match="must be a whole number"):
        Decider(arms(), store, **wrong)
    with Decider(arms(), store) as decider:
        assert decider.decide("u").prior_version == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_prior_that_cannot_be_computed_with(store: DecisionStore, policy: str) -> None:
    huge = mixts.MixturePrior(mixts.BernoulliArms(np.full((1, 3), 1e75), np.full((1, 3), 1e75)))
    vars(huge.family)["alpha"] = np.full((1, 3), 1e308)
    with Decider(arms(), store, policy=policy) as decider:
        with pytest.raises(errors.ParameterError, match="too large, or too small"):
            decider.upload_prior(huge)
        assert decider.decide("u").prior_version == 1


def test_a_batch_that_began_with_an_old_prior_is_retried(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = mixts.BernoulliArms(np.full((2, 1), 9.0), np.ones((2, 1)))
    with Decider(arms(), opened()) as one, Decider(arms(), opened()) as two:
        first = two.decide("u")
        version = two.upload_prior(arms().with_arms(more))
        load, done = one._load, []

        def activated_meanwhile(number: int) -> object:
            if not done and one.store.backend.name.startswith("postgresql"):
                done.append(two.activate_prior(version))
                two.reward(first.id, 1.0)
            return load(number)

        monkeypatch.setattr(one, "_load", activated_meanwhile)
        decision = one.decide("u")
    assert decision.prior_version == (version if done else 1)


def test_the_store_remembers_its_prior(opened: Opener) -> None:
    with Decider(arms(), opened()) as decider:
        decider.activate_prior(decider.upload_prior(arms(scale=2.0)))
    with Decider(arms(), opened()) as again:
        assert again.prior_version == 2, "a prior that the store knows changes nothing"
    with Decider(None, opened()) as without:
        assert without.prior.family.alpha[0, 0] == 2.0
    with Decider(arms(scale=3.0), opened()) as new:
        assert new.prior_version == 3, "one that is new becomes the active one"


@pytest.mark.parametrize("n_before", [0, 1])
def test_a_start_that_fails_leaves_no_prior_behind(
    n_before: int, store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that is stored and not active would be known at the next start, and never be put in force.
    if n_before:
        Decider(arms(), store).close()
    before = store.priors()
    with store.backend.transaction() as transaction:
        kind = type(transaction)

    def fails(*arguments: object) -> None:
        raise errors.StoreUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "activate", fails)
        with pytest.raises(errors.StoreUnavailableError, match="the disk is full"):
            Decider(arms(scale=2.0), store)
    assert store.priors() == before
    with Decider(arms(scale=2.0), store) as decider:
        assert decider.prior.family.alpha[0, 0] == 2.0
        assert decider.decide("u").prior_version == decider.prior_version
    assert [row.active for row in store.priors()] == [False] * n_before + [True]


def test_a_store_without_a_prior_needs_one(store: DecisionStore) -> None:
    with pytest.raises(errors.StoreError, match="has no prior: give one"):
        Decider(None, store)


def test_totals_activity_and_split_agree_with_what_happened(
    store: DecisionStore,
) -> None:
    with Decider(arms(), store) as decider:
        decide_and_reward(decider, "a", [1.0, 1.0, 0.0])
        decide_and_reward(decider, "b", [1.0])
        decider.decide("c")
        decider.activate_prior(decider.upload_prior(arms(scale=2.0)))
        decider.decide("c")
    totals, spans = store.totals(), store.activity(0, 60)
    assert (totals.tasks, totals.decisions, totals.rewards, totals.late) == (3, 6, 4, 0)
    assert sum(span.decisions for span in spans) == 6
    assert sum(span.reward_sum for span in store.earnings(0, 600)) == 3.0
    assert {share.latent: share.tasks for share in store.split(2)} == {1: 1, None: 2}
    assert sum(share.tasks for share in store.split(1)) == 3


def test_tasks_are_found_by_any_part_of_their_name(store: DecisionStore) -> None:
    names = ["Ünal", "50% off", "50x off", "under_score", "UPPER", "back\\slash", "<b>", "täsk"]
    with Decider(arms(), store) as decider:
        for name in names:
            decider.decide(name)
    assert [row.task for row in store.tasks(limit=3)] == ["täsk", "<b>", "back\\slash"]
    assert [row.task for row in store.tasks(limit=2, offset=5)] == ["50x off", "50% off"]
    assert [row.task for row in store.tasks("50% o")] == ["50% off"]
    assert [row.task for row in store.tasks("r_s")] == ["under_score"]
    assert [row.task for row in store.tasks("upp")] == ["UPPER"]
    assert [row.task for row in store.tasks("Ünal")] == ["Ünal"]
    assert [row.task for row in store.tasks("\\")] == ["back\\slash"]
    assert store.tasks("nobody") == []
    assert store.task("nobody") is None


def test_tasks_are_found_by_kind_and_by_arm(store: DecisionStore) -> None:
    prior = arms()
    with Decider(prior, store, seed=1) as decider:
        for k in range(12):
            decider.decide(f"u{k}", mask=[k % 3 == 0, k % 3 == 1, k % 3 == 2])
    names = {f"u{k}" for k in range(12)}
    every = {row.task for row in store.tasks(among=Among(1))}
    assert every == names
    by_kind = [{row.task for row in store.tasks(among=Among(1, (s,)))} for s in range(2)]
    assert by_kind[0] | by_kind[1] == names
    assert not by_kind[0] & by_kind[1]
    second = {f"u{k}" for k in range(1, 12, 3)}
    assert {row.task for row in store.tasks(among=Among(1, arm=1))} == second
    found = {row.task for row in store.tasks("u1", among=Among(1, (0, 1), 1))}
    assert found == {"u1", "u10"}
    assert not store.tasks(among=Among(2)) + store.tasks(among=Among(1, (-1,)))


def test_actions_are_counted(store: DecisionStore) -> None:
    with Decider(arms(), store, policy="ts", seed=1) as decider:
        made = decide_and_reward(decider, "u", [1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
        made += [decider.decide("u"), decider.decide("u")]
        decide_and_reward(decider, "another", [1.0])
    values = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, None, None]

    def counted(last: int) -> list[ActionRow]:
        rows = list(zip([decision.action for decision in made], values, strict=True))[-last:]
        rewards = {k: [v for a, v in rows if a == k and v is not None] for k in range(3)}
        taken = {k: sum(a == k for a, _ in rows) for k in range(3)}
        return [
            ActionRow(k, taken[k], len(rewards[k]), sum(rewards[k])) for k in range(3) if taken[k]
        ]

    assert len({decision.action for decision in made}) > 1
    assert store.actions("u") == counted(8)
    assert store.actions("u", limit=4) == counted(4)
    assert store.actions("nobody") == []


def test_unknown_tasks(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        for look in (decider.task, decider.posterior):
            with pytest.raises(errors.UnknownTaskError):
                look("nobody")


def test_posteriors_of_actions(store: DecisionStore) -> None:
    with Decider(linear(), store, seed=1) as decider:
        assert decider.decide("u", ACTIONS).action in (0, 1, 2)
        state, posterior = decider.task("u"), decider.posterior("u")
    assert state.mean_rewards == pytest.approx((0.5, 0.5, 0.7), abs=1e-12)
    assert posterior.mean == state.mean_rewards
    # Under the mixture the first action's mean reward is N(1, 1) or N(0, 1), each with weight 1/2;
    # the 5 % point of 2,000 draws is off by at most a few hundredths.
    assert posterior.low[0] == pytest.approx(-1.306, abs=0.15)
    assert posterior.high[0] == pytest.approx(2.306, abs=0.15)
