"""Charts: numbers in, positions out."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixts_serve.dashboard import STYLE
from mixts_serve.dashboard.charts import (
    N_COLOURS,
    Scale,
    colours,
    count_scale,
    labels,
    line,
    number_scale,
    time_scale,
)

from tests.unit.plots.test_style import COLOR_BLINDNESS, lab, linear_rgb

NOON = 1_773_489_600.0
"""2026-03-14 12:00 UTC."""

# -- scales ---------------------------------------------------------------------------------------


def ticks(scale: Scale) -> list[tuple[float, str]]:
    return [(tick.place, tick.label) for tick in scale.ticks]


def test_ticks_are_round_and_few() -> None:
    assert ticks(number_scale([37.9], zero=True)) == [
        (0, "0"), (25, "10"), (50, "20"), (75, "30"), (100, "40"),
    ]  # fmt: skip
    assert ticks(number_scale([0.22, 0.31], 2)) == [
        (0, "0.20"), (33.33, "0.25"), (66.67, "0.30"), (100, "0.35"),
    ]  # fmt: skip
    assert [label for _, label in ticks(number_scale([-3, 2]))] == ["−4", "−2", "0", "2"]
    assert [label for _, label in ticks(number_scale([0.5]))] == ["0.2", "0.4", "0.6", "0.8"]
    assert ticks(number_scale([])) == ticks(number_scale([0, 1]))


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5), st.booleans())
def test_every_number_has_a_place_between_few_ticks(values: list[float], zero: bool) -> None:
    scale = number_scale(values, zero=zero)
    assert 2 <= len(scale.ticks) <= 7
    assert (scale.ticks[0].place, scale.ticks[-1].place) == (0, 100)
    places = [tick.place for tick in scale.ticks]
    assert places == sorted(set(places))
    assert len({tick.label for tick in scale.ticks}) == len(places)
    for value in (value for value in values if abs(value) < 1e300):
        room = 1e-6 * (scale.high - scale.low)
        assert scale.low - room <= value <= scale.high + room
    assert not zero or scale.low <= 0 <= scale.high


def test_times_are_round_in_utc() -> None:
    hour = time_scale(NOON + 120, NOON + 3720)
    assert ticks(hour) == [(21.67, "12:15"), (46.67, "12:30"), (71.67, "12:45"), (96.67, "13:00")]
    week = time_scale(NOON, NOON + 7 * 86400)
    assert ticks(week) == [(21.43, "16 Mar"), (50, "18 Mar"), (78.57, "20 Mar")]
    day = [label for _, label in ticks(time_scale(NOON - 86400, NOON))]
    assert day == ["12:00", "18:00", "14 Mar", "06:00", "12:00"]
    assert ticks(time_scale(NOON, NOON + 20))[1] == (25, "12:00:05")


def test_counts_are_in_the_middle_of_their_slots() -> None:
    assert ticks(count_scale(1, 4)) == [(12.5, "1"), (37.5, "2"), (62.5, "3"), (87.5, "4")]
    assert ticks(count_scale(1801, 2000)) == [
        (24.75, "1,850"), (49.75, "1,900"), (74.75, "1,950"), (99.75, "2,000"),
    ]  # fmt: skip
    assert ticks(count_scale(7, 7)) == [(50, "7")]


# -- lines ----------------------------------------------------------------------------------------


def test_a_line_has_gaps_and_dots() -> None:
    x, y = Scale(0, 10), Scale(0, 4)
    points = [(0, 0.0), (2, 4.0), (4, None), (6, 1.0), (8, float("nan")), (9, 2.0), (10, 3.0)]
    drawn = line("c0", points, x, y)
    assert drawn.path == "M0 100L20 0M90 50L100 25"
    assert drawn.dots == ((60, 75),)


def test_labels_do_not_touch() -> None:
    first, second = labels([("a", 50.0, "c0"), ("b", 51.0, "c1")], 10)
    assert (first.place, second.place) == (45.5, 55.5)
    assert (first.mark, second.mark) == (50, 51)


# -- colours --------------------------------------------------------------------------------------


def test_a_kind_keeps_its_colour_unless_it_is_taken() -> None:
    assert colours([0, 1, 2]) == {0: 0, 1: 1, 2: 2}
    assert colours([9, 1, 4]) == {1: 1, 4: 4, 9: 2}
    assert len(set(colours([0, 8, 16, 24, 32, 40, 48, 56]).values())) == N_COLOURS


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("blindness", COLOR_BLINDNESS)
def test_the_colour_blind_can_tell_kinds_apart(scheme: str, blindness: str) -> None:
    found = re.findall(r"--c(\d): (#[0-9a-f]{6});", STYLE)
    assert [int(n) for n, _ in found] == 2 * list(range(N_COLOURS))
    palette = [color for _, color in found]
    palette = palette[:N_COLOURS] if scheme == "light" else palette[N_COLOURS:]
    seen = [lab(np.array(COLOR_BLINDNESS[blindness]) @ linear_rgb(color)) for color in palette]
    gaps = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)]
    # As for the lines of figures; bands lie side by side and have names besides.
    assert min(gaps) > 15
