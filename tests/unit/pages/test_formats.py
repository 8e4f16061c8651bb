"""Numbers as people read them, and names that mean harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixts.pages import formats
from mixts.pages.formats import name_html
from serve.tests.unit.dashboard.sample_dashboards import HOSTILE

# -- numbers and times ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (0.3124, "0.312"), (0.05, "0.050"), (4.071, "4.07"),
        (37.94, "37.9"), (1234.5, "1,234"), (0.001, "0.001"), (-0.25, "−0.250"), (-3.0, "−3"),
        (1.234e-5, "0.0000123"), (1.234e-7, "1.23e−07"), (2.5e7, "2.5e+07"),
        (float("inf"), "∞"), (float("-inf"), "−∞"),
    ],
)  # fmt: skip
def test_numbers(value: float, said: str) -> None:
    assert formats.number(value) == said


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0 %"), (1e-172, "< 0.1 %"), (0.0009, "< 0.1 %"), (0.004, "0.4 %"), (0.42, "42 %"),
     (0.987, "99 %"), (0.996, "99.6 %"), (0.9995, "> 99.9 %"), (1, "100 %")],
)  # fmt: skip
def test_a_share_is_never_rounded_to_nothing_or_to_all(share: float, said: str) -> None:
    assert formats.percent(share) == said


def value_of(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


@given(st.floats(0, 1))
def test_a_percentage_is_near_its_share(share: float) -> None:
    text = formats.percent(share)
    assert "e" not in text
    number = value_of(text.strip("<> %"))
    if text.startswith("<"):
        assert 0 < share < 0.001
    elif text.startswith(">"):
        assert 0.999 < share < 1
    else:
        assert abs(number - 100 * share) <= 0.5
        assert (number == 0) == (share == 0)
        assert (number == 100) == (share == 1)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((1.86e-186, 0.0234, 0.0881), ("0", "0.0234", "0.0881")),
        ((0.1471, 0.3444, 0.5257), ("0.147", "0.344", "0.526")),
        ((0.3, 0.3, 0.3), ("0.300", "0.300", "0.300")),
        # The mean of a skewed distribution, beyond its 95 % point.
        ((0.0, 0.2, 0.1), ("0", "0.200", "0.200")),
        ((-12.34, -3.0, 123.4), ("−13", "−3", "124")),
        ((0.0, 0.0, 0.0), ("0", "0", "0")),
        ((1.0, 2.0, float("inf")), ("1", "2", "∞")),
    ],
)
def test_an_interval_is_printed_with_the_digits_of_its_size(
    numbers: tuple[float, float, float], said: tuple[str, str, str]
) -> None:
    assert formats.bounds(*numbers) == said


ENDS = st.floats(-1e9, 1e9) | st.floats(0, 1) | st.floats(0, 1e-150)


@given(ENDS, ENDS, ENDS)
def test_a_printed_number_lies_inside_its_printed_interval(a: float, b: float, c: float) -> None:
    low, value, high = formats.bounds(a, b, c)
    assert value_of(low) <= value_of(value) <= value_of(high)
    # The interval in print holds the one that was given, up to rounding by exponents.
    least, most = min(a, b), max(b, c)
    if 1e-6 <= max(abs(least), abs(most)) < 1e6:
        assert value_of(low) <= least
        assert value_of(high) >= most
        assert "e" not in low + value + high


@pytest.mark.parametrize(
    ("rate", "unit"),
    [(0.0, "a second"), (0.1, "a second"), (0.09, "a minute"), (0.001, "an hour"),
     (1e-9, "an hour")],
)  # fmt: skip
def test_a_rate_has_the_unit_in_which_it_can_be_read(rate: float, unit: str) -> None:
    assert formats.rate_unit(rate).name == unit


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "now"), (0.4, "now"), (1.9, "1 s ago"), (59.9, "59 s ago"), (60, "1 min ago"),
     (3600, "1 h ago"), (47.9 * 3600, "47 h ago"), (48 * 3600, "2 days ago")],
)  # fmt: skip
def test_how_long_ago(seconds: float, said: str) -> None:
    assert formats.ago(1e9, 1e9 + seconds) == said


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("plain", "plain"),
        (HOSTILE["rtl"], "user[U+202E]txt.exe[U+2066]"),
        (HOSTILE["newline"], r"first\nsecond\tthird"),
        (HOSTILE["spaces"], "··two ·spaces·"),
        ("a\x1bb\x7f", "a[U+001B]b[U+007F]"),
        ("zero\u200bwidth\ufeff", "zero[U+200B]width[U+FEFF]"),
        ("half \ud800", "half [U+D800]"),
        ("\u3000a\u3000b", "[U+3000]a\u3000b"),
        (HOSTILE["emoji"], HOSTILE["emoji"]),
        (HOSTILE["arabic"], HOSTILE["arabic"]),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_invisible_characters_get_stand_ins(name: str, seen: str) -> None:
    assert formats.visible(name) == seen


def test_a_name_is_isolated_escaped_and_marked() -> None:
    assert (name_html("<b>\n'")) == (
        '<bdi class="name" translate="no">&lt;b&gt;<i>\\n</i>&#x27;</bdi>'
    )


LETTERS = (
    "aé世🎉<>&\"'/ "
    "\u00a0\u0301\n\x00\x1f\x7f\x85\u200b\u200d\u200e\u202e\u2028\u2066\ud800\ufeff\U000e0067"
)


@given(st.text(st.sampled_from(LETTERS), max_size=12))
def test_no_name_brings_markup_or_a_direction_of_its_own(name: str) -> None:
    html = name_html(name)
    inside = html.removeprefix('<bdi class="name" translate="no">').removesuffix("</bdi>")
    bare = inside.replace("<i>", "").replace("</i>", "")
    assert not set(bare) & set("<>\"'")
    assert not set(bare) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
    assert all(character >= " " for character in bare)
    bare.encode()


def test_a_short_name_ends_where_there_is_no_more_room() -> None:
    assert formats.short("window shoppers", 15) == "window shoppers"
    assert formats.short("window shoppers", 8) == "window…"


def test_names_that_differ_still_differ_when_they_are_short() -> None:
    seasons = [f"Autumn/Winter collection, {x}" for x in ("wool coats", "rain boots", "scarves")]
    assert formats.short_names(seasons, 15) == ["…wool coats", "…rain boots", "…scarves"]
    assert formats.short_names(["boots", "hats"], 15) == ["boots", "hats"], "there is room"
    assert formats.short_names(["boots"], 4) == ["bo…s"], "alone, it keeps its beginning and end"
    ends = ["coats of the last winter", "coats of the last summer", "a hat"]
    assert formats.short_names(ends, 12) == ["coats…inter", "coats…ummer", "a hat"]
    middles = ["the red coats of winter", "the blue coats of winter", "the old coats of winter"]
    assert formats.short_names(middles, 9) == ["…red…ter", "…blue…ter", "…old…ter"]
    inside = ["coats-of-our-red-winter-sale", "coats-of-our-wet-winter-sale"] * 2
    assert formats.short_names([*inside, "x" * 20], 9) == ["…red-win…", "…wet-win…"] * 2 + [
        "xxxx…xxxx"
    ]


@given(st.lists(st.text("ab-… é\u202e", min_size=1, max_size=40), max_size=8), st.integers(6, 20))
def test_short_names_are_short_whatever_they_are(names: list[str], length: int) -> None:
    found = formats.short_names(names, length)
    assert len(found) == len(names)
    assert all(len(text) <= length for text in found)
    assert len(set(found)) <= len(set(names))
