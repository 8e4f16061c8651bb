"""The report's page: what was given is on it, escaped; what it needs is in it."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mixts.errors import MissingExtraError, ParameterError
from mixts.pages import Claim, Report, Section, Table, render, write_report
from mixts.pages import page as page_module
from mixts.pages.page import heading_widths
from tests.unit.pages.sample_reports import hostile_report, typical_report

VOID = {"meta", "link", "img", "br"}


@dataclass
class Element:
    """A tag with its attributes, and all the text in it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    inside: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """The elements of a page; every tag that is opened must be closed, in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        element.inside = [outer.tag for outer in self._open]
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Elements of a tag; ``class_`` must be one of the element's classes."""
        wanted = attributes.pop("class_", None)
        return [
            element
            for element in self.elements
            if element.tag == tag
            and (wanted is None or wanted in element.attributes.get("class", "").split())
            and all(element.attributes.get(name) == value for name, value in attributes.items())
        ]


def page_of(**changes: Any) -> Page:
    """The page of a report with one section, of which some fields are given."""
    section = Section(**{"id": "one", "title": "One", "place": "", **changes})
    report = replace(typical_report(), sections=(section,), paragraphs=(), summary=())
    return Page(render(report))


def test_every_text_is_shown_as_it_was_given() -> None:
    report, traps = hostile_report()
    page = Page(render(report))
    values = [element.text for element in page.elements]
    values += [value for element in page.elements for value in element.attributes.values()]
    assert [trap for trap in traps if not any(trap in value for value in values)] == []
    assert len(traps) > 30


def test_no_text_becomes_a_tag() -> None:
    typical = typical_report()
    in_parts = tuple(replace(section, part="A part") for section in typical.sections)
    calm = Page(render(replace(typical, sections=in_parts)))
    hostile = Page(render(hostile_report()[0]))
    assert {element.tag for element in hostile.elements} <= {e.tag for e in calm.elements}
    names = {name for element in hostile.elements for name in element.attributes}
    assert names <= {name for element in calm.elements for name in element.attributes}
    assert "script" not in {element.tag for element in calm.elements}


def test_code_and_links() -> None:
    text = "a `b < c` and [the `two`](#claims) < `[x](#y)` [not](http://a) `odd"
    page = page_of(paragraphs=(text,), claims=typical_report().sections[0].claims)
    paragraph = next(e for e in page.all("p") if e.text.startswith("a b < c"))
    assert paragraph.text == "a b < c and the two < [x](#y) [not](http://a) `odd"
    inside = page.elements[page.elements.index(paragraph) + 1 :][:4]
    assert [(e.tag, e.text) for e in inside] == [
        ("code", "b < c"), ("a", "the two"), ("code", "two"), ("code", "[x](#y)"),
    ]  # fmt: skip
    assert inside[1].attributes == {"href": "#claims"}


def test_a_part_is_announced_once_in_the_text_the_contents_and_the_claims() -> None:
    claim = Claim("Sec. 6.1", "It is so.", "1", "holds")
    parts = ("First part", "First part", "Second part", "")
    sections = tuple(
        Section(f"s{i}", f"Title {i}", "", claims=(claim,), part=part)
        for i, part in enumerate(parts)
    )
    report = replace(typical_report(), sections=sections, paragraphs=(), summary=())
    page = Page(render(report))
    for tag, n_times in (("h2", 1), ("tr", 1), ("li", 2)):  # contents are there twice
        shown = [element.text for element in page.all(tag, class_="part")]
        assert shown == n_times * ["First part", "Second part"]
    assert page_of(part="").all("h2", class_="part") == []


def test_a_title_has_code_but_no_link() -> None:
    page = page_of(title="`code` [a](#b)")
    heading = next(element for element in page.all("h2") if "code" in element.text)
    assert heading.text == "code [a](#b)"
    assert [e.text for e in page.all("code") if e.inside[-1] == "h2"] == ["code"]
    assert all("a" not in link.inside for link in page.all("a"))


def test_a_link_to_nowhere_is_an_error() -> None:
    report = typical_report()
    with pytest.raises(ParameterError, match=r"#paper/wide, .* it has .*'paper/width'"):
        render(replace(report, paragraphs=("See [this](#paper/wide).",)))
    with pytest.raises(ParameterError, match="leads to #claims"):
        page_of(paragraphs=("Without claims there is no [table of them](#claims).",))


def test_every_link_leads_somewhere_on_the_page() -> None:
    page = Page(render(typical_report()))
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert [name for name, n in Counter(ids).items() if n > 1] == []
    links = [e.attributes["href"] for e in page.all("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert [link for link in links if not link.startswith("#")] == [
        "fig/width.svg", "fig/width.png",
    ]  # fmt: skip
    labels = {e.attributes.get("aria-labelledby", ids[0]) for e in page.elements}
    assert labels <= set(ids)
    assert len(labels) > len(typical_report().sections)


@pytest.mark.parametrize("report", [typical_report(), hostile_report()[0]])
def test_nothing_is_loaded_from_outside(report: Report) -> None:
    page = Page(render(report))
    files = {"fig/width.svg", "fig/width.png", "a%20b%26%3C%22%3E%27%23%3F.svg"}
    for element in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            value = element.attributes.get(name, "#")
            assert value.startswith(("#", "data:")) or value in files, (element.tag, value[:80])
    (style,) = page.all("style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy.attributes["content"].startswith(
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    )


def test_warnings_stand_above_the_summary() -> None:
    report = replace(typical_report(), warnings=("Numbers of `older` code.",))
    page = Page(render(report))
    (banner,) = (e for e in page.all("div") if e.attributes.get("class") == "warnings")
    assert banner.text.strip() == "Numbers of older code."
    assert render(report).index("older") < render(report).index("In short")
    assert 'class="warnings"' not in render(typical_report())


def test_an_undecided_claim_has_a_badge_and_a_place_in_the_tally() -> None:
    report = typical_report()
    section = report.sections[0]
    claim = replace(section.claims[0], verdict="undecided")
    changed = replace(report, sections=(replace(section, claims=(claim,)),))
    page = Page(render(changed))
    assert ["1", "undecided"] in [e.text.split(maxsplit=1) for e in page.all("li")]


def test_the_claims_and_their_verdicts() -> None:
    report = typical_report()
    assert report.verdicts == {
        "holds": 2, "direction only": 1, "undecided": 0, "does not hold": 1
    }  # fmt: skip
    page = Page(render(report))
    tally = [e.text.split(maxsplit=1) for e in page.all("li") if "main" in e.inside][:3]
    assert tally == [["2", "holds"], ["1", "direction only"], ["1", "does not hold"]]
    rows = [e for e in page.all("tr", role="row") if "tbody" in e.inside]
    shown = [" ".join(row.text.split()) for row in rows]
    assert shown == [
        f"{claim.place} {claim.claim} {claim.measured}{claim.note} {claim.verdict} {section.title}"
        for section, claim in report.claims
    ]
    # In the tally, in the table of all claims and in the section of each.
    badges = Counter(e.text for e in page.all("span", class_="badge"))
    assert badges == {"holds": 5, "direction only": 3, "does not hold": 3}


def test_a_claim_and_its_measurement_lead_to_each_other() -> None:
    report = typical_report()
    page = Page(render(report))
    numbers = [
        (section.id, i) for section in report.sections for i in range(1, len(section.claims) + 1)
    ]
    links = [e.attributes["href"] for e in page.all("a") if e.inside[-1] == "td"]
    assert links[::2] == [f"#{id}:claim-{i}" for id, i in numbers]
    assert links[1::2] == [f"#{id}" for id, _ in numbers]
    rows = [e.attributes["id"] for e in page.all("tr", role="row") if "id" in e.attributes]
    assert rows == [f"{id}:measured-{i}" for id, i in numbers]
    back = [e.attributes["href"] for e in page.all("a") if e.text == "measured"]
    assert back == [f"#{row}" for row in rows]


def test_a_section_has_claims_without_what_was_measured() -> None:
    page = Page(render(typical_report()))
    shown = [" ".join(e.text.split()) for e in page.all("li", class_="claim")]
    assert shown == [
        "holds Sec. 6.1 measured The shape is right. Flat below 1.",
        "direction only Thm 1 measured It scales correctly.",
        "holds Sec. 6.3 measured MixTS is better.",
        "does not hold Thm 2 measured The bound is near.",
    ]
    assert [e.inside[-1] for e in page.all("p", class_="note")] == ["td", "li"]


def test_the_summary_comes_before_the_contents() -> None:
    report = typical_report()
    page = Page(render(report))
    (summary,) = page.all("section", class_="summary")
    assert " ".join(summary.text.split()) == ("In short It holds, mostly. See MixTS in the table.")
    assert summary.inside[-1] == "header"
    assert page.elements.index(summary) < page.elements.index(page.all("nav")[0])
    assert Page(render(replace(report, summary=()))).all("section", class_="summary") == []
    with pytest.raises(ParameterError, match="leads to #nowhere"):
        render(replace(report, summary=("See [this](#nowhere).",)))


def test_the_contents_are_there_folded_and_unfolded() -> None:
    page = Page(render(typical_report()))
    links = [e for e in page.all("a") if "nav" in e.inside]
    folded = [e.attributes["href"] for e in links if "details" in e.inside]
    assert folded == [e.attributes["href"] for e in links if "details" not in e.inside]
    assert folded == ["#claims", "#paper/width", "#paper/riverswim", "#limits", "#run"]
    assert page.all("details")[0].attributes == {"class": "folded"}


def test_what_is_empty_is_not_shown() -> None:
    page = page_of()
    assert [e.text for e in page.all("h2")] == ["Contents", "One", "How all of it was run"]
    assert [e.text for e in page.all("h3")] == ["Settings and seeds", "Versions"]
    assert not page.all("table") + page.all("figure") + page.all("a", href="#claims")


def test_settings_commands_and_times() -> None:
    page = Page(render(typical_report()))
    texts = {e.text for e in page.elements}
    assert [e.text for e in page.all("pre")] == [
        typical_report().sections[0].command, "mixts reproduce paper/riverswim",
        "mixts reproduce --seed 0",
    ]  # fmt: skip
    assert {"It took 2 min 05 s of processor time.", "runs", "200", "seed", "0.1.0"} <= texts
    assert [e.text for e in page.all("p", class_="time")][-1] == (
        "The parts took 5 min 03 s of processor time. This command took 23 s; "
        "the report was made on 2026-02-03, 14:05 UTC."
    )
    assert page.all("p", class_="byline")[0].text == (
        "2026-02-03, 14:05 UTC 2 parts 4 claims 5 min 03 s of processor time"
    )
    unknown = Page(render(replace(typical_report(), processor_seconds=None)))
    assert unknown.all("p", class_="byline")[0].text == "2026-02-03, 14:05 UTC 2 parts 4 claims"
    assert unknown.all("p", class_="time")[-1].text.startswith("This command took 23 s;")
    assert [e.text for e in page.all("time")] == ["2026-02-03, 14:05 UTC"] * 2
    assert page.all("time")[0].attributes == {"datetime": "2026-02-03T14:05:11+00:00"}


def test_figures() -> None:
    page = Page(render(typical_report()))
    images = page.all("img")
    assert [e.attributes["alt"] for e in images] == [
        "Regret over width.", "Regret over rounds.", "One task.",
    ]  # fmt: skip
    assert {e.attributes["src"][:26] for e in images} == {"data:image/svg+xml;base64,"}
    # 244.8 pt by 180 pt are 326.4 by 240 pixels, shown 1.6 times as large.
    assert (images[0].attributes["width"], images[0].attributes["height"]) == ("522", "384")
    classes = [e.attributes.get("class") for e in page.all("figure")]
    assert classes == [None, None, "wide", "table"]


@pytest.mark.parametrize(
    ("cells", "numeric", "expected"),
    [
        (("1", "-2.5", "1,000 ± 3", "−4 %", "<0.1", "1e-3", ".5"), None, True),
        (("1", "—", "", "nan", "∞"), None, True),
        (("1", "MixTS"), None, False),
        (("—", ""), None, False),
        ((), None, False),
        (("L = 1",), True, True),
        (("1",), False, False),
    ],
)
def test_numbers_are_set_as_such(
    cells: tuple[str, ...], numeric: bool | None, expected: bool
) -> None:
    given = None if numeric is None else (False, numeric)
    table = Table(("name", "value"), tuple(("row", cell) for cell in cells), "Caption.", given)
    page = page_of(tables=(table,))
    classes = [e.attributes.get("class") for e in page.all("td")]
    assert classes == ["number" if expected else None] * len(cells)
    assert [e.attributes["scope"] for e in page.all("th")] == ["col", "col", *["row"] * len(cells)]
    assert page.all("figcaption")[0].text == "Caption."


def test_headings_have_room_but_no_more_than_they_need() -> None:
    rows = (("a heading of many words", "1"), ("`b`", "2"))
    table = Table(("name", "a long name of a column"), rows, "Caption.")
    assert heading_widths(table) == (14, 10)
    assert heading_widths(Table(("n", "x"), (("`MixTS`", "1"),), "")) == (5, 1)
    assert heading_widths(Table(("width",), (), "")) == (5,)
    columns = page_of(tables=(table,)).all("th", scope="col")
    assert [e.attributes["style"] for e in columns] == ["--heading: 14ch", "--heading: 10ch"]


def test_the_file_is_whole_or_untouched(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report = typical_report()
    write_report(report, path)
    before = path.read_bytes()
    assert before.decode() == render(report)
    assert b"\r" not in before
    write_report(report, str(path))
    assert path.read_bytes() == before
    with pytest.raises(ParameterError):
        write_report(replace(report, paragraphs=("[a](#nowhere)",)), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_without_jinja2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jinja2":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    page_module._environment.cache_clear()
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'mixts[logs]'")):
        write_report(typical_report(), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_claims_of_all_sections_in_the_order_of_the_page() -> None:
    first, second = Claim("1", "a", "b", "holds"), Claim("2", "c", "d", "holds")
    sections = (Section("x", "X", "", claims=(first,)), Section("y", "Y", "", claims=(second,)))
    report = replace(typical_report(), sections=sections)
    assert report.claims == ((sections[0], first), (sections[1], second))
