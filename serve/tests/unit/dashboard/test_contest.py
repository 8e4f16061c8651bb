"""The overview says who leads, by how much, and what the service did by itself."""

from __future__ import annotations

from typing import Any

import pytest
from mixts_serve import lift
from mixts_serve.challenger import Account, Contest
from mixts_serve.dashboard import overview_page
from mixts_serve.dashboard.contest import evidence_words, report_lines, transition_words
from mixts_serve.promotion import Trial
from mixts_serve.records import Deployment, Pedigree, PriorActivation, PriorVersion
from msgspec.structs import replace

from serve.tests.unit.dashboard.dashboard_pages import Page, overview
from serve.tests.unit.dashboard.sample_dashboards import NOW, typical

ACCOUNT = Account(Contest(1, 2, 0), 120, 2.6390573, ((0, 0.0), (60, 1.0), (120, 2.6390573)), 1)
SUMS = lift.Sums(500, 5000, 2500.0, 2500.0, 1000.0, 5000.0, 1000.0, 5000.0)
TRIAL = Trial(Deployment(1, 2, 0.1, int(1e6 * (NOW - 86_400))), lift.compare(SUMS, SUMS), 1.0)


def version(active: bool, **pedigree: Any) -> PriorVersion:
    made = Pedigree("refit", 1, 1, **pedigree) if pedigree else None
    return PriorVersion(2, 0.0, active, "bernoulli-arms", 3, made)


@pytest.mark.parametrize(
    ("challenger", "end"),
    [
        (version(False, promote="100"), "; 100 to 1 promotes it."),
        (version(False, promote="ask"), "A person decides whether to activate version 2."),
        (version(False), "A person decides whether to activate version 2."),
        (version(False, promote="refit", canary=0.1), "cannot compute with)."),
        (version(True), "Version 2 is active."),
    ],
)
def test_the_evidence_says_what_it_leads_to(challenger: PriorVersion, end: str) -> None:
    words = evidence_words(ACCOUNT, challenger, has_canary=False)
    assert words.startswith("Evidence 14 to 1 for version 2 over version 1 after 120 new tasks")
    assert "1 more task that one of them cannot compute with" in words
    assert words.endswith(end)
    # A canary is judged by its rewards, whoever began it.
    asked = evidence_words(ACCOUNT, version(False), has_canary=True)
    assert "A person decides" not in asked


def test_nobody_need_decide_about_a_canary() -> None:
    decider, store = typical(20)
    object.__setattr__(decider, "rivals", replace(ACCOUNT, contest=Contest(2, 1, 0)))
    assert "A person decides whether to activate version 1." in overview(decider, store).text
    on_trial = replace(TRIAL, deployment=replace(TRIAL.deployment, version=2, canary=1))
    object.__setattr__(decider, "canary", on_trial)
    text = overview(decider, store).text
    assert "Version 1 decides for 10 % of the tasks" in text
    assert "difference −" in text
    assert "A person decides" not in text


def test_the_overview_shows_evidence_and_canary_and_admins_may_activate() -> None:
    decider, store = typical(20)
    object.__setattr__(decider, "rivals", replace(ACCOUNT, contest=Contest(2, 1, 0)))
    object.__setattr__(decider, "canary", TRIAL)
    shown = overview(decider, store)
    assert "Evidence 14 to 1 for version 1 over version 2" in shown.text
    assert "No learned prior is exactly right" in shown.text
    assert "Version 2 decides for 10 % of the tasks born since" in shown.text
    assert "Activate version 1" not in shown.text
    by_admin = Page(overview_page(decider, store, now=NOW, changes=True))  # type: ignore[arg-type]
    (form,) = [attributes for attributes in by_admin.of("form") if attributes.get("data-version")]
    assert form == {"id": "activate-prior", "data-version": "1", "hidden": None}


def test_transitions_are_told_with_their_reasons() -> None:
    told = [transition_words(PriorActivation(3, 0, share, "why")) for share in (1.0, 0.1, 0.0)]
    assert told == [
        "Version 3 was activated: why.",
        "Version 3 was given to 10 % of the new tasks: why.",
        "Version 3 was withdrawn: why.",
    ]


def test_a_report_has_both() -> None:
    first, second = report_lines(ACCOUNT, TRIAL)
    assert first.startswith("Evidence 14 to 1")
    assert "withdrawn when its interval is below zero" in second
    assert report_lines(None, None) == []
