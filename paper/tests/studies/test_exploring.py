"""Decisions that are drawn evenly: their cost where nothing is to be learned, and their worth."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_paper.studies import exploring
from mixts_paper.studies.exploring import NONE, NOTHING, Plan, Terms


def test_where_nothing_is_to_be_learned_the_cost_is_the_gap_to_a_uniform_choice() -> None:
    """The best arm has 0.5 and all arms 0.3 on average, so a share e costs 0.2 e."""
    plans = [Plan(0.01), Plan(0.01, per_action=True), Plan(1.0)]
    [without, *lost] = exploring.costs(NOTHING, plans, n_tasks=3, seed=1)
    assert without[1][0].mean == pytest.approx(0.5, abs=1e-3)
    for (_, found), share in zip(lost, (0.01, 0.05, 1.0), strict=True):
        assert found[0].mean == pytest.approx(0.2 * share, rel=1e-2)


def test_a_floor_of_each_action_is_at_most_that_of_a_uniform_choice() -> None:
    assert Plan(0.05, per_action=True).floor(40) == 1 / 40
    assert Plan(0.05).floor(40) == pytest.approx(0.05 / 40)
    assert [str(plan) for plan in (NONE, Plan(0.01), Plan(0.01, per_action=True))] == [
        "none, MixIDS", "1 % of decisions", "1 % of each action",
    ]  # fmt: skip


def test_only_logs_with_decisions_drawn_evenly_evaluate_a_uniform_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exploring, "N_TASKS", 100)
    found = {
        plan: exploring.evaluation("clicks, 5 arms", plan, n_logs=2, seed=1)["uniform"]
        for plan in (NONE, Plan(1.0))
    }
    # The estimators leave out arms that were never taken: a bias, far above the errors of logs.
    assert found[NONE].rmse[0] > 0.1
    assert found[NONE].coverage[0] == 0
    # A uniform log of 2,000 clicks: the standard error of a mean is about 0.011, and that of the
    # arms' mean rewards, which 20 clicks of a task share, about as much.
    assert (found[Plan(1.0)].rmse < 5 * 0.016).all()
    assert found[Plan(1.0)].effective == pytest.approx(1.0)


def test_equal_weights_give_the_mean() -> None:
    rng = np.random.default_rng(1)
    clicks = rng.integers(0, 2, (50, 4)).astype(float)
    ones = np.full(50, 4.0)
    terms = Terms(clicks.sum(axis=1), ones, ones, clicks.sum(axis=1), clicks.sum(axis=1))
    for mean, error in exploring.Estimates.of(terms, 4):
        assert mean == pytest.approx(clicks.mean())
        assert error == pytest.approx(clicks.mean(axis=1).std() / np.sqrt(50), rel=0.02)


@pytest.mark.slow
def test_a_refit_finds_an_arm_that_rose_only_if_it_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exploring, "N_LIVE", 500)
    monkeypatch.setattr(exploring, "N_FRESH", 200)
    name = "clicks, 5 arms"
    mean, error = exploring.gain(name, Plan(0.2), NONE, rises=True, anew=False, n=1)
    assert mean > 5 * error
    exploring.live_log.cache_clear()
    exploring.fresh_rewards.cache_clear()
