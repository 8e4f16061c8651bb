"""A service whose prior is refitted every week in a changing world: benchmarks/service/year.py."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.service import year
from benchmarks.service.year import FIXED, IN_FORCE, ORACLE, PAUSED, REFIT, World


def test_a_service_leaves_out_lost_rewards_and_learns_of_new_items() -> None:
    world = World(3, reach=0.0, come=(9,), go=((5, 2),), lost=(15, 20))
    found = year.run(world, 10, 30, (REFIT,))
    said = found.logs[REFIT]
    (refused,) = [line for line in said if "look wrong" in line]
    assert "the mean reward fell from 0.4" in refused
    assert refused.endswith(
        "(--exclude 2025-01-16..2025-01-20), or learn from them as they are (--force)"
    )
    assert all("days left out: 2025-01-16..2025-01-20" in line for line in said[3:])
    assert any("learned from data for the first time: 'item 8'" in line for line in said)
    assert len(said) == 5
    assert len(found.born) == 10 * 28


@pytest.mark.slow
def test_refits_keep_up_for_a_year() -> None:
    found = year.run(World(), 10, only=(REFIT, ORACLE, FIXED, PAUSED, IN_FORCE))
    behind, error = year.gain([found], REFIT, ORACLE, None)
    assert behind > -2 - 2 * error
    ahead, error = year.gain([found], REFIT, FIXED, None)
    assert ahead > 2 * error
    costs = [year.gain([found], IN_FORCE, PAUSED, month) for month in range(year.MONTHS)]
    assert all(gain > -1 - 2 * error for gain, error in costs)


@pytest.mark.slow
def test_refits_cost_nothing_in_a_world_that_stays_the_same() -> None:
    found = year.run(World.still(), 10, 120, only=(REFIT, ORACLE, FIXED))
    ahead, error = year.gain([found], REFIT, FIXED, None)
    assert ahead > -2 * error
    assert np.isfinite(error)
