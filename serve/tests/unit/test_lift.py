"""The lift of one side of tasks over another, from sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mixts_serve import lift
from mixts_serve.lift import (
    Difference,
    Mean,
    Sums,
    boundary,
    compare,
    fieller,
    mismatch,
    needed_information,
)

from benchmarks.service.lift import sums


def side(rng: np.random.Generator, n: int, rate: float) -> Sums:
    made = rng.integers(1, 9, n)
    return sums(made.astype(float), rng.binomial(made, rng.beta(9 * rate, 9 - 9 * rate, n)) + 0.0)


def per_decision(control: Sums, treated: Sums) -> Difference:
    found = compare(control, treated).per_decision
    assert found is not None
    return found


def test_a_mean_per_decision_has_the_variance_of_a_ratio_over_tasks() -> None:
    control = sums(np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 2.0]))
    mean = lift._mean(3, 6, 3, control.decision_squares, control.decision_fourths)
    # residuals 1/2, -1, 1/2: 1.5 / 36 * 3/2
    assert mean.value == 0.5
    assert math.isclose(mean.variance, 1.5 / 36 * 1.5)
    assert math.isclose(mean.effective, 1.5**2 / (1 + 2 / 16))


def test_the_variance_agrees_with_repeated_samples() -> None:
    rng = np.random.default_rng(1)
    means, variances = [], []
    for _ in range(2000):
        one = side(rng, 150, 0.3)
        mean = lift._mean(one.total, one.decisions, one.tasks, one.decision_squares, 1.0)
        means.append(mean.value)
        variances.append(mean.variance)
    # A sample variance of 2,000 has a relative error of 3.2 %.
    assert np.mean(variances) == pytest.approx(np.var(means), rel=0.1)


def test_few_tasks_are_not_compared_and_the_number_that_is_missing_is_told() -> None:
    rng = np.random.default_rng(2)
    found = per_decision(side(rng, 50, 0.3), side(rng, 1000, 0.3))
    assert found.interval is None
    assert found.direction == 0
    assert (found.tasks_needed or 0) >= 1050
    rare = sums(np.full(1000, 1.0), np.r_[np.ones(5), np.zeros(995)])
    assert per_decision(rare, rare).interval is None
    none = sums(np.full(1000, 1.0), np.zeros(1000))
    often = sums(np.full(1000, 1.0), np.r_[np.ones(300), np.zeros(700)])
    assert per_decision(none, often).direction == 1  # a baseline that earns nothing is compared
    assert compare(Sums(), side(rng, 1000, 0.3)).per_decision is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_values_that_are_all_alike_say_nothing(value: float) -> None:
    alike = sums(np.ones(500), np.full(500, value))
    found = per_decision(alike, alike)
    assert found.interval is None
    assert found.tasks_needed is None


def test_rewards_below_zero_have_no_relative_lift() -> None:
    rng = np.random.default_rng(3)
    control = _of(-1 + rng.normal(size=5000))
    found = per_decision(control, _of(rng.normal(size=5000)))
    assert found.relative is None
    assert found.lift is None
    assert found.direction == 1
    assert per_decision(_of(rng.normal(size=5000)), control).direction == -1


def _of(rewards: np.ndarray) -> Sums:
    n, e = len(rewards), (rewards - rewards.mean()) ** 2
    squares, fourths = float(e.sum()), float((e**2).sum())
    return Sums(
        n, n, rewards.sum(), abs(rewards).sum(), squares, fourths, squares, fourths
    )  # fmt: skip


def test_the_relative_interval_has_the_ratios_that_are_not_refuted() -> None:
    control, treated, z = Mean(0.5, 0.01, 99), Mean(0.8, 0.02, 99), 2.0
    found = fieller(control, treated, z)
    assert found is not None
    grid = np.linspace(0, 10, 200_001)
    kept = grid[(0.8 - grid * 0.5) ** 2 <= z**2 * (0.02 + grid**2 * 0.01)] - 1
    assert found == pytest.approx((kept.min(), kept.max()), abs=1e-4)
    assert fieller(control, treated, 5.1) is None  # control may earn nothing


def test_both_intervals_agree_on_zero() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        one = per_decision(side(rng, 1000, 0.3), side(rng, 1000, rng.uniform(0.25, 0.35)))
        assert one.relative is not None
        low, high = one.relative
        assert one.direction == int(low > 0) - int(high < 0)


def test_a_scale_of_the_rewards_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    made, earned = np.ones((2, 2000)), rng.lognormal(size=(2, 2000))
    one, other = (per_decision(*map(sums, made, scale * earned)) for scale in (1.0, 1e6))
    assert one.relative is not None
    assert other.relative == pytest.approx(one.relative, rel=1e-9)


@pytest.mark.parametrize("small", lift.LIFTS)
def test_the_needed_information_is_where_the_sequence_is_as_narrow_as_the_lift(
    small: float,
) -> None:
    information = needed_information(small)
    assert boundary(information) / math.sqrt(information) == pytest.approx(small, rel=1e-6)


def test_evidence_of_a_mismatch_is_a_martingale() -> None:
    for control, treated, share in ((0, 0, 0.05), (3, 40, 0.05), (100, 90, 0.5)):
        now = math.exp(mismatch(control, treated, share))
        after = share * math.exp(mismatch(control + 1, treated, share))
        after += (1 - share) * math.exp(mismatch(control, treated + 1, share))
        assert after == pytest.approx(now, rel=1e-9)
    assert mismatch(0, 0, 0.05) == 0
    assert mismatch(600, 9400, 0.05) > lift.MISMATCH > mismatch(520, 9480, 0.05)
