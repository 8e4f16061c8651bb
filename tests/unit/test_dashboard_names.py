"""Words of the dashboard: numbers as people read them, and names that mean harm."""

from __future__ import annotations

import json
import shlex
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixts.service.dashboard import task_link, wording
from mixts.service.dashboard.commands import decide_command, reward_command
from mixts.service.dashboard.markup import list_link, name_html
from mixts.service.dashboard.source import PriorFacts, prior_facts
from tests.unit.sample_dashboards import HOSTILE, arm_prior, linear_prior

ARMS = prior_facts(arm_prior(), 1)

# -- numbers and times ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (0.3124, "0.312"), (0.05, "0.050"), (4.071, "4.07"),
        (37.94, "37.9"), (1234.5, "1,234"), (0.001, "0.001"), (-0.25, "−0.250"), (-3.0, "−3"),
        (1.234e-5, "1.23e−05"), (2.5e7, "2.5e+07"), (float("inf"), "∞"), (float("-inf"), "−∞"),
    ],
)  # fmt: skip
def test_numbers(value: float, said: str) -> None:
    assert wording.number(value) == said


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0 %"), (0.004, "<1 %"), (0.42, "42 %"), (0.9949, "99 %"), (0.996, ">99 %"),
     (1, "100 %")],
)  # fmt: skip
def test_a_share_is_never_rounded_to_nothing_or_to_all(share: float, said: str) -> None:
    assert wording.percent(share) == said


@pytest.mark.parametrize(
    ("rate", "unit"),
    [(0.0, "a second"), (0.1, "a second"), (0.09, "a minute"), (0.001, "an hour"),
     (1e-9, "an hour")],
)  # fmt: skip
def test_a_rate_has_the_unit_in_which_it_can_be_read(rate: float, unit: str) -> None:
    assert wording.rate_unit(rate).name == unit


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "now"), (0.4, "now"), (1.9, "1 s ago"), (59.9, "59 s ago"), (60, "1 min ago"),
     (3600, "1 h ago"), (47.9 * 3600, "47 h ago"), (48 * 3600, "2 days ago")],
)  # fmt: skip
def test_how_long_ago(seconds: float, said: str) -> None:
    assert wording.ago(1e9, 1e9 + seconds) == said


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
def test_what_cannot_be_seen_is_shown(name: str, seen: str) -> None:
    assert wording.visible(name) == seen


def test_a_name_is_isolated_escaped_and_marked() -> None:
    assert str(name_html("<b>\n'")) == (
        '<bdi class="name" translate="no">&lt;b&gt;<i>\\n</i>&#39;</bdi>'
    )


LETTERS = (
    "aé世🎉<>&\"'/ "
    "\u00a0\u0301\n\x00\x1f\x7f\x85\u200b\u200d\u200e\u202e\u2028\u2066\ud800\ufeff\U000e0067"
)


@given(st.text(st.sampled_from(LETTERS), max_size=12))
def test_no_name_brings_markup_or_a_direction_of_its_own(name: str) -> None:
    html = str(name_html(name))
    inside = html.removeprefix('<bdi class="name" translate="no">').removesuffix("</bdi>")
    bare = inside.replace("<i>", "").replace("</i>", "")
    assert not set(bare) & set("<>\"'")
    assert not set(bare) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
    assert all(character >= " " for character in bare)
    bare.encode()


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_link_leads_to_the_task_of_that_name(name: str) -> None:
    """As a browser and the service take it apart: the path by its slashes, then decoded."""
    parts = urlsplit(task_link(name))
    assert not parts.fragment
    if parts.query:
        assert parts.path == "/tasks"
        assert unquote(parts.query.removeprefix("name=")) == name
        return
    empty, tasks, encoded = parts.path.split("/")
    assert (empty, tasks, unquote(encoded, errors="strict")) == ("", "tasks", name)
    # Browsers resolve these, also when they are encoded.
    assert unquote(encoded) not in (".", "..")


def test_only_what_differs_from_the_usual_is_in_a_link() -> None:
    assert list_link("", 0, "hour") == "/#tasks"
    assert list_link("", -25, "hour") == "/#tasks"
    assert list_link("a&b #", 25, "day") == "/?search=a%26b+%23&offset=25&span=day#tasks"


def test_a_short_name_ends_where_there_is_no_more_room() -> None:
    assert wording.short("window shoppers", 15) == "window shoppers"
    assert wording.short("window shoppers", 8) == "window…"


# -- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_command_can_be_pasted_whatever_the_name(name: str) -> None:
    command = decide_command("http://127.0.0.1:8321/", name, ARMS, False)
    assert command.isascii()
    program, address, *rest = shlex.split(command.replace("\\\n", ""))
    assert (program, address) == ("curl", "http://127.0.0.1:8321/v1/decide")
    assert rest[:3] == ["-H", "Content-Type: application/json", "-d"]
    assert json.loads(rest[3]) == {"task": name}


def test_commands_fit_the_prior_and_the_token() -> None:
    facts = prior_facts(linear_prior(), 1)
    words = shlex.split(decide_command("http://h", "u", facts, True).replace("\\\n", ""))
    assert "Authorization: Bearer $TOKEN" in words
    assert json.loads(words[-1]) == {"task": "u", "actions": [[1, 0, 0, 0], [0, 1, 0, 0]]}
    wide = prior_facts(linear_prior(50), 1)
    assert "[[... 50 numbers ...], ...]" in decide_command("http://h", "u", wide, False)
    words = shlex.split(reward_command("http://h", "0a", False).replace("\\\n", ""))
    assert json.loads(words[-1]) == {"id": "0a", "value": 1}


def test_kinds_and_actions_have_a_number_where_they_have_no_name() -> None:
    assert ARMS.kind(1) == "night owls"
    assert ARMS.kind(1, version=2) == "kind 2 of version 2"
    assert ARMS.action(2) == "new arrivals"
    bare = PriorFacts(1, "Bernoulli arms", (0.5, 0.5), n_arms=2)
    assert (bare.kind(1), bare.action(1)) == ("kind 2", "arm 1")
    assert PriorFacts(1, "Linear gaussian", (1.0,), n_features=3).action(0) == "action 0"
