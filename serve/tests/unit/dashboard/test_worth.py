"""The lift in words: tiles, report, JSON, and gauges for Prometheus."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import DecisionStore
from mixts_serve.dashboard import report_page
from mixts_serve.dashboard.worth import Words, tiles, words_of
from mixts_serve.http.metrics import Metrics, lift_gauges
from mixts_serve.lift import Difference, compare
from mixts_serve.worth import Worth

from benchmarks.service.lift import sums
from mixts.cli import main
from serve.tests.unit.dashboard.dashboard_pages import Page


def clicks(n: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(n), (np.arange(n) < n * rate).astype(float)


def worth(rates: tuple[float, float], *, metric: str = "returned", doubts: bool = False) -> Worth:
    rewards = compare(sums(*clicks(1000, rates[0])), sums(*clicks(9000, rates[1])))
    returns = compare(sums(*clicks(1000, 0.1)), sums(*clicks(9000, 0.3)))
    warnings = ("too few tasks",) if doubts else ()
    return Worth("bestseller", 0.1, 1.6e9, math.inf, rewards, {metric: returns}, warnings)


@pytest.mark.parametrize(
    ("low", "lift", "high", "words"),
    [
        (0.08, 0.12, 0.16, Words("+12 %", "8 to 16", "", "up")),
        (-0.16, -0.12, -0.08, Words("−12 %", "−16 to −8", "", "down")),
        (-0.04, 0.02, 0.09, Words("−4 to +9 %", "not known yet", "", "")),
        (0.003, 0.05, 0.1, Words("+5.0 %", "0.3 to 10.0", "", "up")),
        (0.0121, 0.0134, 0.0148, Words("+1.34 %", "1.21 to 1.48", "", "up")),
        (3.1, 4.0, 5.2, Words("+400 %", "310 to 520", "", "up")),
    ],
)
def test_a_lift_in_words(low: float, lift: float, high: float, words: Words) -> None:
    found = Difference(1.0, 1.0 + lift, (low, high), (low, high))
    assert words_of(found, optimised=True) == words
    assert words_of(found).look == ""  # a guardrail is no success


def test_what_is_not_known_says_how_many_tasks_are_missing() -> None:
    found = Difference(0.2, 0.21, next_lift=0.1, tasks_needed=12_345)
    line = "not known yet, a lift of 10 % needs about 12,000 more tasks"
    assert words_of(found).line == line
    assert (
        words_of(Difference(1.0, 1.0)).line == "not known yet, too few decisions with unlike values"
    )
    assert words_of(None).value == "not known yet"


def test_rewards_below_zero_are_compared_without_per_cent() -> None:
    found = Difference(-0.5, -0.2, (0.21, 0.39))
    assert words_of(found, optimised=True) == Words("+0.30", "0.21 to 0.39", "", "up")
    near = Difference(0.0, 0.0, (-0.107, 0.106))  # not -0.2 to +0.2
    assert words_of(near).value == "−0.11 to +0.11"


def test_tiles_and_page_name_both_sides_and_escape_names() -> None:
    (title, first), (guardrail, second) = tiles(worth((0.2, 0.3)))
    assert title == "Lift over the bestseller"
    assert first.note == "reward a decision, 9,000 tasks against 1,000 held back"
    assert (first.look, second.look) == ("up", "")
    assert guardrail == "Guardrail: returned"
    page = report_page(worth((0.2, 0.3), metric="<b>", doubts=True), "decisions.db", 1.7e9)
    assert "<b> a decision" not in page
    assert "&lt;b&gt; a decision" in page
    assert "too few tasks" in page
    assert 'class="tile up lift"' in page
    found = Page(page).tags
    assert not {"script", "img"} & {tag for tag, _ in found}
    # One file, without network: the only links are the icon's and the one to the content.
    links = [attributes["href"] or "" for _, attributes in found if "href" in attributes]
    assert all(link.startswith(("data:", "#")) for link in links)
    assert 'class="tile up' not in report_page(worth((0.3, 0.3)), "decisions.db", 1.7e9)
    assert "No decision was held back" in report_page(None, "decisions.db", 1.7e9)


def test_prometheus_gets_what_is_known() -> None:
    text = Metrics().text(lift_gauges(worth((0.2, 0.3))), {}).decode()
    assert "mixts_lift_difference 0.09999" in text
    assert "mixts_lift_relative_low 0." in text
    assert "mixts_lift_control_tasks 1000.0" in text
    assert 'mixts_guardrail_difference_high{name="returned"} 0.2' in text
    alike = compare(sums(*clicks(9, 1)), sums(*clicks(9, 1)))
    unknown = Worth("arm:<b>", 0.1, 1.6e9, math.inf, alike, {}, ended=1.65e9)
    page = report_page(unknown, "decisions.db", 1.7e9)
    assert "Lift over the arm &lt;b&gt;" in page
    assert "ended at 2022-04-15" in page
    text = Metrics().text(lift_gauges(unknown), {}).decode()
    assert "mixts_lift_difference 0.0" in text
    assert "_low" not in text


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[str]:
    with DecisionStore(tmp_path / "decisions.db"):
        yield str(tmp_path / "decisions.db")


def test_report_of_a_store_without_a_holdback(
    empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "report", empty, "--out", str(tmp_path / "page.html")]) == 0
    assert "mixts serve --holdback" in capsys.readouterr().out
    assert "No decision was held back" in (tmp_path / "page.html").read_text()
    assert main(["store", "report", empty, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"challenger": None, "canary": None}


def test_report(
    empty: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = worth((0.2, 0.3), doubts=True)
    monkeypatch.setattr("mixts_serve.worth.read_worth", lambda *_: found)
    assert main(["store", "report", empty]) == 0
    first, second, warning = capsys.readouterr().out.splitlines()
    assert first.startswith("Lift over the bestseller: +50 %, ")
    assert second.startswith("Guardrail: returned: +200 %, ")
    assert warning == "warning: too few tasks"
    assert main(["store", "report", empty, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["treated"] == {"tasks": 9000, "decisions": 9000, "total": 2700.0}
    assert told["per_decision"]["excludes_zero"] is True
    assert told["per_decision"]["lift"] == pytest.approx(0.5)
    assert told["metrics"]["returned"]["per_task"]["difference"] == pytest.approx(0.2)
    assert told["until"] is None
