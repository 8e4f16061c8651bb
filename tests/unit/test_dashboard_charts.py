"""Charts of the dashboard: numbers in, places out."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixts.service.dashboard import STYLE
from mixts.service.dashboard.bands import weight_chart
from mixts.service.dashboard.charts import labels, line, rate_chart, reward_chart
from mixts.service.dashboard.overview import Bin
from mixts.service.dashboard.scales import Scale, count_scale, number_scale, time_scale
from mixts.service.dashboard.source import N_COLOURS, colours, prior_facts
from mixts.service.records import DecisionRow
from tests.unit.sample_dashboards import arm_prior
from tests.unit.test_plots_style import COLOR_BLINDNESS, lab, linear_rgb

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


def bins(*counts: tuple[int, int, float]) -> tuple[Bin, ...]:
    return tuple(Bin(NOON + 30 * i, 30, *count) for i, count in enumerate(counts))


def test_rates_are_drawn_from_zero() -> None:
    chart = rate_chart(bins((300, 0, 0.0), (600, 300, 100.0)))
    assert chart.title == "Decisions and rewards a second"
    decided, rewarded = chart.lines
    # Ten and twenty decisions a second, on a scale up to 20, at the middles of two bins.
    assert decided.path == "M25 50L75 0"
    assert rewarded.path == "M25 100L75 50"
    assert [label.text for label in chart.labels] == ["decisions", "rewards"]
    assert decided.look != rewarded.look
    assert chart.description == (
        "From 2026-03-14 12:00:00 to 2026-03-14 12:01:00 UTC, a second. "
        "Decisions: between 10 and 20, last 20. Rewards: between 0 and 10, last 10."
    )
    assert [(slot.x, slot.width) for slot in chart.slots] == [(0, 50), (50, 50)]
    assert chart.slots[0].text == "12:00:00: 10 decisions, 0 rewards a second"


def test_slow_rates_are_told_by_the_hour() -> None:
    chart = rate_chart(tuple(Bin(NOON + 7200 * i, 7200, i) for i in range(12)))
    assert chart.title == "Decisions and rewards an hour"
    assert chart.slots[3].text == "14 Mar, 18:00: 1.50 decisions, 0 rewards an hour"


def test_the_mean_reward_stands_beside_the_mean_of_all() -> None:
    shown = bins((9, 4, 1.0), (9, 0, 0.0), (9, 4, 3.0))
    chart = reward_chart(shown, 0.5)
    # 0.25 and 0.75 between 0.2 and 0.8: a twelfth of the height from its ends.
    assert [tick.label for tick in chart.y_ticks] == ["0.2", "0.4", "0.6", "0.8"]
    assert chart.lines[0].dots == ((16.67, 91.67), (83.33, 8.33))
    assert chart.lines[0].path == ""
    assert chart.reference == 50
    assert chart.labels[0].text == "mean 0.500"
    assert [slot.text for slot in chart.slots] == [
        "12:00:00: 0.250, the mean of 4 rewards",
        "12:00:30: no rewards",
        "12:01:00: 0.750, the mean of 4 rewards",
    ]


# -- bands ----------------------------------------------------------------------------------------


def decision(i: int, weights: tuple[float, ...], version: int = 1) -> DecisionRow:
    return DecisionRow(f"{i:032x}", NOON + i, 0, 0.5, weights, version, None, None, False)


def test_weights_are_stacked_from_the_top() -> None:
    facts = prior_facts(arm_prior(2), 1)
    history = [decision(0, (0.5, 0.5)), decision(1, (0.2, 0.8))]
    chart = weight_chart(history, 1, facts)
    whole, below = chart.bands
    assert whole.path == "M0 100V0H100V100Z"
    assert below.path == "M0 100V50H50V20H100V100Z"
    assert [label.text for label in chart.labels] == ["bargain hunters", "night owls"]
    assert [label.mark for label in chart.labels] == [10, 60]
    assert chart.changes == ()
    assert chart.slots[1].text == (
        "decision 2, 2026-03-14 12:00:01: night owls 80 %, bargain hunters 20 %"
    )
    assert chart.description == (
        "Decisions 1 to 2, prior version 1: at first bargain hunters 50 %, at last night owls 80 %."
    )


def test_a_new_version_begins_with_kinds_of_its_own() -> None:
    facts = prior_facts(arm_prior(2), 2)
    history = [decision(i, (0.1, 0.2, 0.7)) for i in range(3)]
    history += [decision(3, (0.6, 0.4), version=2)]
    chart = weight_chart(history, 11, facts)
    assert [(change.place, change.label) for change in chart.changes] == [(0, "v1"), (75, "v2")]
    assert [band.old for band in chart.bands] == [True] * 3 + [False] * 2
    assert chart.bands[3].path == "M75 100V0H100V100Z"
    assert [tick.label for tick in chart.x_ticks] == ["11", "12", "13", "14"]
    assert [label.text for label in chart.labels] == ["bargain hunters", "night owls"]
    assert "at last kind 3 of version 1 70 %. Decisions 14 to 14, prior version 2" in (
        chart.description
    )


def test_changes_that_are_close_have_one_label() -> None:
    facts = prior_facts(arm_prior(2), 9)
    history = [decision(i, (0.5, 0.5), version=1 + i // 10) for i in range(20)]
    history += [decision(20, (0.5, 0.5), version=5)]
    assert [change.label for change in weight_chart(history, 1, facts).changes] == [
        "v1",
        "v2",
        "v5",
    ]
    history += [decision(i, (0.5, 0.5), version=6) for i in range(21, 40)]
    labelled = [change.label for change in weight_chart(history, 1, facts).changes]
    assert labelled == ["v1", "v2", "", "v6"]


def test_of_many_kinds_the_heaviest_have_bands() -> None:
    weights = np.full(100, 0.001)
    weights[[3, 11, 40]] = 0.3, 0.3, 0.303
    facts = prior_facts(arm_prior(100, 2, named=False), 1)
    chart = weight_chart([decision(0, tuple(weights.tolist()))], 1, facts)
    assert len(chart.bands) == N_COLOURS
    assert chart.bands[-1].look == "rest"
    assert len({band.look for band in chart.bands}) == N_COLOURS
    assert [label.text for label in chart.labels] == ["kind 4", "kind 12", "kind 41", "93 others"]
    # 3 and 11 would have the same colour, and stand side by side.
    assert chart.labels[0].look != chart.labels[1].look
    # The first three kinds are above the fourth: of equal ones, those with the lowest numbers.
    assert chart.labels[0].mark == pytest.approx(100 * (0.003 + 0.15))


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
