"""Links and commands of the dashboard, whatever the names of tasks are."""

from __future__ import annotations

import json
import shlex
from urllib.parse import unquote, urlsplit

import pytest
from mixts_serve.dashboard import task_link
from mixts_serve.dashboard.layout import (
    PriorFacts,
    decide_command,
    prior_facts,
    reward_command,
)
from mixts_serve.dashboard.overview import OverviewQuery

from serve.tests.unit.dashboard.sample_dashboards import HOSTILE, arm_prior, linear_prior

ARMS = prior_facts(arm_prior(), 1)

# -- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_link_leads_to_the_task_of_that_name(name: str) -> None:
    parts = urlsplit(task_link(name))
    assert (parts.path, parts.fragment) == ("tasks", "")
    assert unquote(parts.query.removeprefix("name="), errors="strict") == name


def test_only_what_differs_from_the_usual_is_in_a_link() -> None:
    assert OverviewQuery().link("#tasks") == "./#tasks"
    assert OverviewQuery().link("#tasks", offset=-25) == "./#tasks"
    query = OverviewQuery("a&b #", 25, "day", "c")
    assert query.link("#tasks") == "./?search=a%26b+%23&offset=25&span=day&arm=c#tasks"
    assert query.link(search="", offset=0, span="", arm="") == "./"
    assert query.link("#arms", arms=50) == (
        "./?search=a%26b+%23&offset=25&span=day&arm=c&arms=50#arms"
    )
    assert query.kept("search", "arms") == [("search", "a&b #")]


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
    assert ARMS.kind(1, version=2) == "component 2 of version 2"
    assert ARMS.action(2) == "new arrivals"
    bare = PriorFacts(1, "Bernoulli arms", (0.5, 0.5), n_arms=2)
    assert (bare.kind(1), bare.action(1)) == ("kind 2", "arm 1")
    assert PriorFacts(1, "Linear gaussian", (1.0,), n_features=3).action(0) == "action 0"
