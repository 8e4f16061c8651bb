"""Templates become sections, and mistakes in them are named."""

from __future__ import annotations

import pytest
from mixts_paper.experiments import Analysis, all_experiments
from mixts_paper.experiments.report import number, pm, render_text, signed

from mixts._numbers import Estimate
from mixts.errors import FormatError
from paper.tests.unit.experiments.small_experiment import SmallExperiment

TEMPLATE = """
First {{ value|fmt(".1f") }}
goes on.

Second.

## headline
In
short.

## claim a/b, c (Thm 1)
It is |x| so.

measured: {{ value|fmt("g") }}

## figure curve
alt: A line
rises.

Caption.

## table rows
Words
below.

| x | |y| |
|:--|--:|
| a |b| | 1 |
|  | 2 |
"""


def text(template: str, verdicts: dict | None = None, figures: tuple[str, ...] = ("curve",)):
    experiment = SmallExperiment()
    experiment.template = template
    verdicts = {"a/b, c": "holds"} if verdicts is None else verdicts
    return render_text(
        experiment, Analysis({"value": 2.0}, verdicts, dict.fromkeys(figures, object()))
    )


def test_a_template_is_taken_apart() -> None:
    found = text(TEMPLATE)
    assert found.paragraphs == ("First 2.0 goes on.", "Second.")
    assert found.headline == "In short."
    (claim,) = found.claims
    assert (claim.place, claim.claim, claim.measured) == ("Thm 1", "It is |x| so.", "2")
    assert (claim.verdict, claim.note) == ("holds", "")
    assert found.figures == (("curve", "A line rises.", "Caption."),)
    (table,) = found.tables
    assert table.columns == ("x", "|y|")
    assert table.rows == (("a |b|", "1"), ("", "2"))
    assert table.caption == "Words below."
    assert table.numeric == (False, True)
    plain = text(TEMPLATE.replace("|:--|--:|", "|---|---|"))
    assert plain.tables[0].numeric is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("## headline", "## title", "unknown heading: ## title"),
        ("## claim a/b, c", "## claim other", "a claim without a verdict: other"),
        ("|:--|--:|", "", "table rows: expected a head and a rule below"),
        ("## figure curve", "## figure other", r"shows the figures \['other'\], .* \['curve'\]"),
    ],
)
def test_mistakes_in_templates(old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        text(TEMPLATE.replace(old, new))


def test_every_verdict_has_a_claim() -> None:
    with pytest.raises(FormatError, match="lacks the claims d"):
        text(TEMPLATE, {"a/b, c": "holds", "d": "holds"})


def test_numbers_in_words() -> None:
    assert pm(Estimate(1.234, 0.056)) == "1.23\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.06"
    assert signed(Estimate(-1.2, 0.1), 1).startswith("−1.2")
    assert signed(Estimate(1.2, 0.1), 1).startswith("+1.2")
    assert [number(x) for x in (1234.5, 0.0123, 99.4)] == ["1,234", "0.0123", "99.4"]


def test_every_experiment_of_the_paper_has_a_template() -> None:
    for experiment in all_experiments().values():
        assert experiment.template_path().is_file()
