"""The interval of the lift misses the truth in 5 % of the streams at most, watched all the time."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_serve import lift
from scipy import stats

from benchmarks.service.lift import LIFT, REGIMES, Regime, missed

SMALL = REGIMES[1]
GO_ON = next(regime for regime in REGIMES if regime.life == "long")


def rarely(n: int, streams: int) -> bool:
    """Whether a share is at most 5 %, up to chance of one in a thousand."""
    return bool(n <= stats.binom.ppf(0.999, streams, lift.ALPHA))


@pytest.mark.parametrize("effect", [0.0, LIFT])
def test_an_interval_rarely_ever_misses_the_truth(effect: float) -> None:
    check(GO_ON, effect, 25)


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, LIFT])
@pytest.mark.parametrize("regime", REGIMES, ids=lambda regime: regime.name)
def test_an_interval_rarely_ever_misses_the_truth_in_any_regime(
    regime: Regime, effect: float
) -> None:
    check(regime, effect, 200)


def check(regime: Regime, effect: float, streams: int) -> None:
    """Watch streams after every batch of tasks."""
    found = [missed(regime, effect, np.random.default_rng([7, i])) for i in range(streams)]
    assert any(one.known for one in found)
    for name in ("difference", "relative", "per_task"):
        assert rarely(sum(getattr(one, name) for one in found), streams)


def test_a_large_lift_is_found_and_shuffled_sides_have_none() -> None:
    regime = SMALL
    for i in range(8):
        streams = (np.random.default_rng([8, i, k]) for k in range(2))
        assert missed(regime, 0.5, next(streams)).excludes
        assert not missed(regime, 0.5, next(streams), shuffled=True).excludes


def crossings(paths: np.ndarray, times: np.ndarray) -> float:
    """Return the share of paths that are ever beyond the boundary."""
    bounds = np.array([lift.boundary(t) for t in times]) * np.sqrt(times)
    return float((np.abs(paths) > bounds).any(axis=1).mean())


def test_correlated_estimates_cross_the_boundary_less_often_than_brownian_motion() -> None:
    rng, times = np.random.default_rng(9), np.geomspace(1, 1e6, 300)
    steps = np.sqrt(np.diff(times, prepend=0)) * rng.normal(size=(10_000, 300))
    brownian = crossings(steps.cumsum(axis=1), times)
    # Old tasks that go on: a part of the error stays as it was at first.
    stays = np.sqrt(0.5) * rng.normal(size=(10_000, 1)) * np.sqrt(times)
    correlated = crossings(np.sqrt(0.5) * steps.cumsum(axis=1) + stays, times)
    assert correlated < brownian < lift.ALPHA
    # The promise is used: a looser boundary would break it.
    assert brownian > 0.6 * lift.ALPHA


def test_a_right_share_rarely_seems_a_mismatch() -> None:
    rng, streams = np.random.default_rng(10), 200
    control = (rng.random((streams, 5_000)) < 0.05).cumsum(axis=1)
    alarms = 0
    for row in control:
        looked = range(10, 5_000, 25)
        alarms += any(lift.mismatch(int(row[n]), n + 1 - int(row[n]), 0.05) >= lift.MISMATCH
                      for n in looked)  # fmt: skip
    assert alarms <= stats.binom.ppf(0.999, streams, 0.01)
