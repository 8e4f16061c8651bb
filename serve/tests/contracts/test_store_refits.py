"""Refits of a store's prior: all tasks once, whole or not at all, and only from sound data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward, refit, refits
from mixts_serve.refits import Learning, Lineage
from mixts_serve.refitter import note_of
from mixts_serve.snapshot import Days, Snapshot
from mixts_serve.store.archive import erase

import mixts
from mixts import errors
from mixts.families import Statistics
from mixts.learning import refit_prior
from mixts.origin import Origin
from serve.tests.contracts.stores import Opener, set_clock

DAY = 86_400.0
RATES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


def _prior(rates: np.ndarray = RATES, n_tasks: float = 100.0) -> mixts.MixturePrior:
    family = mixts.BernoulliArms(15 * rates, 15 * (1 - rates))
    origin = Origin(n_tasks, np.full(rates.shape, n_tasks / len(rates)))
    return mixts.MixturePrior(
        family, names=["early", "late"], arm_names=["mail", "call", "visit"], origin=origin
    )


def _play(
    decider: Decider,
    prefix: str,
    n: int,
    seed: int,
    n_rounds: int = 4,
    rates: np.ndarray = RATES,
    outcome: Callable[[float], float] = float,
) -> None:
    """Decide for new tasks of the kinds with these rates, and report rewards of 0 or 1."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(len(rates), size=n)
    tasks = [Decide(f"{prefix}{i}") for i in range(n)]
    for _ in range(n_rounds):
        rewards = []
        for i, made in enumerate(decider.decide_many(tasks)):
            assert not isinstance(made, Exception)
            rate = [*rates[kind[i]], 0.5][made.action]
            rewards.append(Reward(made.id, outcome(rng.random() < rate)))
        decider.reward_many(rewards)


def test_all_tasks_count_once_however_often_one_refits(opened: Opener) -> None:
    store, other = opened(), opened()
    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 60, 1)
        first = refit(other)
        assert (first.status, first.version, first.tasks) == ("activated", 2, 60)
        assert decider.decide("new").prior_version == 2
        again = refit(other)
        assert (again.status, again.version) == ("unchanged", 2)
        _play(decider, "b", 60, 2)
        second = refit(other)
        assert (second.parent, second.root, second.new_tasks) == (2, 1, 61)
        active = Lineage.of(store).load(1)
        tasks = Snapshot.of(store, active, []).statistics
        expected = refit_prior(_prior(), tasks[np.flatnonzero(tasks.n_observations)])
        found = decider.prior
        for name, values in expected.family.arrays().items():
            np.testing.assert_allclose(found.family.arrays()[name], values, rtol=1e-9)
        assert found.names == ("early", "late")
        assert found.origin is not None
        assert found.origin.n_tasks == 220
        pedigree = store.priors()[2].pedigree
        assert pedigree is not None
        assert (pedigree.root, pedigree.tasks, pedigree.last_decision) == (1, 121, 481)
        note = note_of(store)
        assert note is not None
        assert note.result.startswith("refitted: version 3 is active")


def test_changes_of_arms_are_carried_over(store: DecisionStore) -> None:
    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 60, 1)
        refit(store)
        decider.change_arms(add=["gift"], retire=["call"], rename={"mail": "letter"})
        _play(decider, "b", 60, 2)
        assert refit(store).arms == ""  # too few tasks have tried the gift
        assert decider.prior.arms.new.tolist() == [False, False, False, True]
        for i in range(25):
            decider.reward(decider.decide(f"b{i}", mask=["gift"]).id, 1.0)
        done = refit(store)
        assert done.arms == "learned from data for the first time: 'gift'"
        assert decider.prior.arm_names == ("letter", "call", "visit", "gift")
        assert decider.prior.arms.retired.tolist() == [False, True, False, False]
        assert not decider.prior.arms.new.any()
        made = [row.pedigree and row.pedigree.change for row in store.priors()]
        assert made == [None, "refit", "arms", "refit", "refit"]


def test_an_uploaded_prior_is_a_new_root(store: DecisionStore) -> None:
    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 60, 1)
        refit(store)
        decider.upload_prior(_prior(n_tasks=500.0), activate=True)
        done = refit(store)
        assert (done.root, done.parent, done.status) == (3, 3, "activated")
        assert decider.prior.origin is not None
        assert decider.prior.origin.n_tasks == 560


def test_excluded_days_are_as_if_they_had_not_been(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_700_000_000.0 // DAY * DAY]
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    with Decider(_prior(), store, seed=1) as decider:
        for day in range(3):
            _play(decider, "same", 20, day)
            now[0] += DAY
        active = Lineage.of(store).load(1)
        days = [Days.parse("2023-11-15")]
        found = Snapshot.of(store, active, days)
        everything = Snapshot.of(store, active, []).statistics
        assert found.statistics.n_observations.sum() == 160
        assert everything.n_observations.sum() == 240
        expected = np.zeros((20, 3, 2), int)
        names = store.backend.query("SELECT name FROM tasks ORDER BY number")
        for i, (name,) in enumerate(names):
            for row in store.history(name):
                if not DAY <= row.at - 1_699_920_000 < 2 * DAY:
                    assert row.value is not None
                    expected[i, row.action, int(row.value)] += 1
        np.testing.assert_array_equal(found.statistics.array("successes"), expected[:, :, 1])
        np.testing.assert_array_equal(found.statistics.array("failures"), expected[:, :, 0])
        done = refit(store, exclude=["2023-11-15"])
        assert done.excluded == ("2023-11-15",)
        assert refit(store).status == "unchanged"  # the days stay left out
        back = refit(store, exclude=["none"])
        assert (back.status, back.excluded) == ("activated", ())


def test_days_of_wrong_data_are_refused(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_700_006_400.0]  # 2023-11-15
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    with Decider(_prior(), store, seed=1) as decider:
        for day in range(12):
            wrong = 8 <= day < 10
            _play(decider, f"{day} ", 25, day, 2, outcome=(lambda _: 0.0) if wrong else float)
            now[0] += DAY
        with pytest.raises(errors.LogsError, match=r"2023-11-23\.\.2023-11-24: the mean reward"):
            refit(store)
        assert decider.prior_version == 1
        note = note_of(store)
        assert note is not None
        assert "--exclude 2023-11-23..2023-11-24" in note.result
        done = refit(store, exclude=["2023-11-23..2023-11-24"])
        assert done.status == "activated"
        _play(decider, "later", 25, 13, 2)
        assert refit(store).excluded == ("2023-11-23..2023-11-24",)


def test_days_are_checked_after_a_clock_was_ahead(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_700_006_400.0]  # 2023-11-15
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    with Decider(_prior(), store, seed=1) as decider:
        for day in range(8):
            _play(decider, f"{day} ", 25, day, 2)
            now[0] += DAY
        now[0] += 3650 * DAY
        assert refit(store).status == "activated"
        now[0] -= 3650 * DAY
        _play(decider, "right ", 25, 8, 2)
        refit(store)
        now[0] += DAY
        _play(decider, "wrong ", 25, 9, 2, outcome=lambda _: 0.0)
        now[0] += DAY
        with pytest.raises(errors.LogsError, match="2023-11-24: the mean reward"):
            refit(store)


def test_a_prior_that_predicts_worse_is_not_activated(store: DecisionStore) -> None:
    with Decider(_prior(n_tasks=20.0), store, seed=1) as decider:
        _play(decider, "old", 80, 1, 8, rates=1 - RATES)
        _play(decider, "new", 20, 2, 8)
        done = refit(store)
        assert (done.status, decider.prior_version) == ("refused", 1)
        assert "worse than the prior in force" in done.verdict
        body = store.prior_body(done.version)
        assert body is not None
        origin = mixts.MixturePrior.from_bytes(body).origin
        assert origin is not None
        assert (origin.passed, origin.verdict) == (False, done.verdict)
    pedigree = store.priors()[-1].pedigree
    assert pedigree is not None
    assert pedigree.promote == "ask"  # whatever was wished for: only a person may activate it


@pytest.mark.parametrize(("loss", "status"), [(0.004, "activated"), (0.006, "refused")])
def test_a_slight_loss_is_no_reason_to_refuse(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch, loss: float, status: str
) -> None:
    def evidence(prior: mixts.MixturePrior, tasks: Statistics) -> np.ndarray:
        is_active = np.array_equal(prior.family.parameter_means(), means)
        return np.full(len(tasks), 0.0 if is_active else -loss)

    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 60, 1)
        means = decider.prior.family.parameter_means()
        monkeypatch.setattr(refits, "mixture_evidence", evidence)
        assert refit(store).status == status


def test_a_refused_prior_is_not_activated_by_the_next_refit(store: DecisionStore) -> None:
    with Decider(_prior(n_tasks=20.0), store, seed=1) as decider:
        _play(decider, "old", 80, 1, 8, rates=1 - RATES)
        _play(decider, "new", 20, 2, 8)
        assert refit(store).status == "refused"
        _play(decider, "few", 5, 3, 8)
        again = refit(store)
        assert (again.status, again.new_tasks, decider.prior_version) == ("refused", 5, 1)
        assert "predicts 21 held-out tasks worse" in again.verdict
        decider.change_arms(add=["gift"])
        _play(decider, "fewer", 2, 4, 8)
        assert refit(store).status == "refused"
        assert decider.prior.arm_names == ("mail", "call", "visit", "gift")


def test_only_tasks_since_the_prior_in_force_compare_it(store: DecisionStore) -> None:
    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 60, 1)
        refit(store)
        decider.change_arms(add=["gift"])
        _play(decider, "b", 4, 2)
        done = refit(store)
        assert (done.new_tasks, done.verdict[:16]) == (4, "4 held-out tasks")


def test_erased_tasks_are_forgotten(store: DecisionStore) -> None:
    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 60, 1)
        refit(store)
        _play(decider, "b", 3, 2)
        erase(store, [f"a{i}" for i in range(20)])
        done = refit(store)
        assert (done.status, done.tasks, done.new_tasks) == ("activated", 43, 3)
        assert decider.prior.origin is not None
        assert decider.prior.origin.n_tasks == 143


@pytest.mark.parametrize(("promote", "wish"), [("ask", "ask"), (100, "100")])
def test_a_wish_for_promotion_is_kept(
    store: DecisionStore, promote: str | float, wish: str
) -> None:
    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 20, 1)
        done = refit(store, promote=promote)  # type: ignore[arg-type]
        assert (done.status, decider.prior_version) == ("uploaded", 1)
    pedigree = store.priors()[-1].pedigree
    assert pedigree is not None
    assert pedigree.promote == wish


def test_a_refit_gives_way_to_another(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = Learning.learned

    def slow(self: Learning) -> object:
        monkeypatch.setattr(Learning, "learned", learned)
        assert refit(store).version == 2
        return learned(self)

    with Decider(_prior(), store, seed=1) as decider:
        _play(decider, "a", 20, 1)
        monkeypatch.setattr(Learning, "learned", slow)
        done = refit(store)
        assert (done.status, done.version, len(store.priors())) == ("unchanged", 2, 2)
        assert done.lines[0].endswith("version 2 stays active")


def test_arms_that_change_during_a_refit_are_not_lost(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = Learning.learned
    with Decider(_prior(), store, seed=1) as decider:

        def slow(self: Learning) -> object:
            decider.change_arms(add=["gift"])
            return learned(self)

        _play(decider, "a", 20, 1)
        monkeypatch.setattr(Learning, "learned", slow)
        assert refit(store).version == 3
        assert decider.prior.arm_names == ("mail", "call", "visit", "gift")


def test_a_person_who_goes_back_during_a_refit_wins(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = Learning.learned
    with Decider(_prior(), store, seed=1) as decider:

        def slow(self: Learning) -> object:
            decider.activate_prior(1)
            return learned(self)

        _play(decider, "a", 60, 1)
        refit(store)
        _play(decider, "b", 20, 2)
        monkeypatch.setattr(Learning, "learned", slow)
        assert refit(store).status == "unchanged"
        assert decider.prior_version == 1


def test_arms_that_change_before_the_tasks_are_read_are_no_damage(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Snapshot.of
    with Decider(_prior(), store, seed=1) as decider:

        def late(*arguments: object) -> Snapshot:
            decider.change_arms(add=["gift"])
            _play(decider, "b", 5, 2)
            return read(*arguments)  # type: ignore[arg-type]

        _play(decider, "a", 20, 1)
        monkeypatch.setattr(Snapshot, "of", staticmethod(late))
        assert refit(store).reason == "the prior or its arms were changed meanwhile"


def test_bad_requests_change_nothing(store: DecisionStore) -> None:
    with pytest.raises(errors.StoreError, match="no prior yet"):
        refit(store)
    with Decider(mixts.MixturePrior(mixts.BernoulliArms.uniform(3)), store) as decider:
        assert refit(store).reason == "there are no rewards to learn from"
        _play(decider, "a", 20, 1)
        with pytest.raises(errors.ParameterError, match="--root-tasks 50"):
            refit(store)
        for days in ("2023-11", "2023-11-02..2023-11-01"):
            with pytest.raises(errors.ParameterError, match="days must be as 2026-03-01"):
                refit(store, exclude=[days])
        with pytest.raises(errors.ParameterError, match="promote must be"):
            refit(store, promote="later")  # type: ignore[arg-type]
        with pytest.raises(errors.ParameterError, match="root_tasks must be a number"):
            refit(store, root_tasks="many")  # type: ignore[arg-type]
        with pytest.raises(errors.ParameterError, match="seed must be a whole number"):
            refit(store, root_tasks=10, seed=-1)
        every = refit(store, root_tasks=10, exclude=["0001-01-01..9999-12-31"])
        assert every.reason == "there are no rewards to learn from"
        assert refit(store, root_tasks="20").status == "activated"  # type: ignore[arg-type]
        assert store.priors()[-1].pedigree.root_tasks == 20.0  # type: ignore[union-attr]


def _families() -> dict[str, mixts.Family]:
    wide = np.full(RATES.shape, 0.3)
    spends = (1 + RATES, *(np.full(RATES.shape, x) for x in (6.0, 4.0, 2.0)))
    mean, square = np.array([[1.0, -1.0], [-1.0, 1.5]]), np.stack([0.3 * np.eye(2)] * 2)
    return {
        "gaussian": mixts.GaussianArms(4 * RATES, wide, 0.8),
        "student": mixts.StudentArms(4 * RATES, wide, [0.8, 0.5], [12.0, 8.0]),
        "poisson": mixts.PoissonArms(12 * RATES, np.full(RATES.shape, 4.0)),
        "spend": mixts.SpendArms(8 * RATES, 8 * (1 - RATES), *spends),
        "linear": mixts.LinearGaussian(mean, square, 0.7),
        "linear, tied": mixts.LinearGaussian(mean, square[0], 0.7, "tied"),
        "linear student": mixts.LinearStudent(mean, square, [0.7, 0.5], [12.0, 8.0]),
        "linear clicks": mixts.LinearBernoulli(mean, square),
    }


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)  # the arithmetic is that of both
def test_a_window_is_used_where_the_newest_tasks_differ(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_700_006_400.0]
    set_clock(monkeypatch, lambda: int(now[0] * 1e6))
    with Decider(_prior(n_tasks=50.0), store, seed=1) as decider:
        for day in range(8):
            rates = RATES if day < 3 else 1 - RATES
            _play(decider, f"{day} ", 20, day, 6, rates=rates)
            now[0] += DAY
        assert refit(store, window=4 * DAY, force=True).window == 4 * DAY
        with pytest.raises(errors.ParameterError, match="window must be"):
            refit(store, window=-1.0)


@pytest.mark.parametrize("name", _families())
def test_every_family_is_refitted(store: DecisionStore, name: str) -> None:
    family = _families()[name]
    known = np.full(RATES.shape if family.n_arms else 2, 40.0)
    prior = mixts.MixturePrior(family, origin=Origin(80.0, known))
    rng = np.random.default_rng(1)
    rows = None if family.n_arms else [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    with Decider(prior, store, seed=1) as decider:
        for _ in range(3):
            made = decider.decide_many([Decide(f"u{i}", rows) for i in range(30)])
            values = rng.integers(0, 2, 30) * 1.0
            decider.reward_many(
                [Reward(m.id, v) for m, v in zip(made, values, strict=True)]  # type: ignore[union-attr]
            )
        done = refit(store, force=True)
        assert (done.status, decider.prior_version) == ("activated", 2)
        assert decider.decide("u0", rows).prior_version == 2
