"""The identities of Algorithm 1 at several episodes, for mixtures of tabular MDPs.

Each test looks at one identity over all episodes at once: none of its deviations may exceed the
Bonferroni limit for their number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.statistical.identities import Record
from tests.statistical.standard_errors import assert_within
from tests.statistical.tabular_identities import (
    EVERYWHERE,
    WITHOUT_ZEROS,
    TabularSetting,
    faint,
    mild,
    play,
    sparse,
)

N_TASKS, N_EPISODES = 2000, 8

SETTINGS: dict[str, tuple[Callable[[], TabularSetting], int, tuple[str, ...]]] = {
    "mild": (mild, 201, EVERYWHERE + WITHOUT_ZEROS),
    "sparse": (sparse, 202, EVERYWHERE),
    "faint": (faint, 203, EVERYWHERE),
}


@cache
def record(name: str) -> Record:
    make, seed, _ = SETTINGS[name]
    return play(make(), N_TASKS, N_EPISODES, seed)


@pytest.mark.parametrize(
    ("name", "identity"), [(name, one) for name, (_, _, all_) in SETTINGS.items() for one in all_]
)
def test_identity(name: str, identity: str) -> None:
    found = record(name)[identity]
    assert len(found) in (N_EPISODES, 2 * N_EPISODES)
    assert_within(found)
