"""The check of days: what it finds, what it lets pass."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from mixts_serve.data_check import QUARTER, Series, Totals, find_unusual, means
from mixts_serve.snapshot import Days

FIRST = date(2026, 1, 1)


def _clicks(rate: float, n_days: int, seed: int, factors: dict[int, float] | None = None) -> Series:
    """Draw days that vary by a tenth, with livelier weekends."""
    rng = np.random.default_rng(seed)
    days = {}
    for d in range(n_days):
        day = FIRST + timedelta(days=d)
        level = rate * (1.3 if day.weekday() >= 5 else 1.0) * np.exp(0.1 * rng.standard_normal())
        won = rng.binomial(2000, min(level * (factors or {}).get(d, 1.0), 1.0))
        days[day] = Totals(2000, 2000, 0, won, won)
    return means("the mean reward", days, sum(days.values(), Totals()), True, QUARTER)


def _found(series: Series, *, since: int = 0, excluded: tuple[Days, ...] = ()) -> list[str]:
    found = find_unusual([series], FIRST + timedelta(days=since), date.max, excluded)
    return [str(each) for each in found]


def test_a_week_of_rewards_recorded_as_zero_is_found_whole() -> None:
    series = _clicks(0.1, 70, 1, dict.fromkeys(range(40, 47), 0.0))
    (found,) = _found(series)
    assert found.startswith("2026-02-10..2026-02-16: the mean reward fell from 0.1")
    assert found.endswith("to 0")


def test_it_is_found_on_its_first_day() -> None:
    assert len(_found(_clicks(0.1, 41, 1, {40: 0.0}), since=40)) == 1


def test_excluded_days_are_neither_checked_nor_compared_with() -> None:
    series = _clicks(0.1, 70, 1, dict.fromkeys(range(40, 47), 0.0))
    days = Days.parse("2026-02-10..2026-02-16")
    assert _found(series, excluded=(days,)) == []


def test_a_level_that_was_accepted_is_no_news() -> None:
    """Days that a person let pass are the last usual ones, so the next days agree with them."""
    series = _clicks(0.1, 60, 2, dict.fromkeys(range(40, 60), 0.2))
    assert len(_found(series)) == 1
    assert _found(series, since=42) == []


@pytest.mark.parametrize("factor", [0.8, 1.3])
def test_changes_that_happen_pass(factor: float) -> None:
    assert _found(_clicks(0.1, 60, 3, dict.fromkeys(range(40, 60), factor))) == []


def test_few_days_are_not_judged() -> None:
    assert _found(_clicks(0.1, 7, 4, {6: 0.0})) == []
    assert len(_found(_clicks(0.1, 8, 4, {7: 0.0}))) == 1


def test_years_without_faults_are_without_alarms() -> None:
    """Three shops, each a year; ``benchmarks/service/refits.py days`` has the rate."""
    alarms = sum(bool(_found(_clicks(0.1, 365, seed))) for seed in range(100, 103))
    assert alarms == 0


def test_unfinished_days_must_differ_more() -> None:
    series = _clicks(0.1, 41, 1, {40: 0.25})
    today = FIRST + timedelta(days=40)
    assert len(find_unusual([series], today, today + timedelta(days=1))) == 1
    assert find_unusual([series], today, today) == []
    series = _clicks(0.1, 41, 1, {40: 0.0})
    assert len(find_unusual([series], today, today)) == 1


def test_clicks_come_before_the_zeros_of_the_same_day() -> None:
    series = _clicks(0.1, 41, 1, {40: 10.0})
    today = FIRST + timedelta(days=40)
    assert find_unusual([series], today, today) == []
    assert len(find_unusual([series], today, today + timedelta(days=1))) == 1
