"""The parts of a report refuse what cannot be shown; times, dates and drawings are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mixts.errors import ParameterError
from mixts.pages import Claim, Figure, Section, Table
from mixts.pages.document import svg_size
from mixts.pages.formats import command_html, date_time, duration
from tests.unit.pages.sample_reports import DRAWING, typical_report


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0.00 s"), (0.994, "0.99 s"), (0.996, "1.0 s"), (9.94, "9.9 s"), (9.96, "10 s"),
        (59.4, "59 s"), (59.6, "1 min 00 s"), (125.0, "2 min 05 s"), (3599.6, "1 h 00 min"),
        (4321.0, "1 h 12 min"), (90_000.0, "25 h 00 min"),
    ],
)  # fmt: skip
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("iso", "expected"),
    [
        ("2026-02-03", "2026-02-03"),
        ("2026-02-03T04:05:06", "2026-02-03, 04:05"),
        ("2026-02-03T04:05:06.789+00:00", "2026-02-03, 04:05 UTC"),
        ("2026-02-03T04:05:06+05:30", "2026-02-02, 22:35 UTC"),
    ],
)
def test_moments(iso: str, expected: str) -> None:
    assert date_time(iso) == expected


def test_the_words_of_a_command() -> None:
    shown = command_html(" a --b  'c<d'\n")
    assert shown == " <span>a</span> <span>--b</span>  <span>&#x27;c&lt;d&#x27;</span>\n"


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("width='72pt' height='36pt'", (96, 48)),
        ("width='1in' height='2.54cm'", (96, 96)),
        ("width='100' height='50px' viewBox='0 0 1 1'", (100, 50)),
        ("viewBox='0 0 30 20'", (30, 20)),
        ("width='100%' height='100%' viewBox='0,0,3e1,20'", (30, 20)),
    ],
)
def test_sizes_of_drawings(root: str, expected: tuple[float, float]) -> None:
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' {root}><g/></svg>".encode()
    assert svg_size(svg) == pytest.approx(expected)


def test_the_size_of_what_matplotlib_draws() -> None:
    import io

    from mixts.plots.style import new_axes

    stream = io.BytesIO()
    new_axes(3.4, 2.5).figure.savefig(stream, format="svg")
    assert svg_size(stream.getvalue()) == pytest.approx((3.4 * 96, 2.5 * 96))


@pytest.mark.parametrize(
    ("svg", "message"),
    [
        (b"", "must be an SVG, got b''"),
        (b"\x89PNG\r\n", "must be an SVG, got b'.x89PNG"),
        (b"<html></html>", "got a document of <html>"),
        (b"<svg width='10%' height='3'/>", "must have a size"),
        (b"<svg width='0' height='3'/>", "must have a size"),
        (b"<svg width='1.2.3' height='3'/>", "must have a size"),
        (b"<svg viewBox='0 0 3'/>", "must have a size"),
    ],
)
def test_drawings_that_are_none(svg: bytes, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Figure(svg, "alt", "caption")


def claim(verdict: Any) -> Claim:
    return Claim("Sec. 6", "a", "b", verdict)


def figure(*files: str, alt: str = "alt") -> Figure:
    return Figure(DRAWING, alt, "caption", files)


def report(**changes: Any) -> Any:
    return replace(typical_report(), **changes)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: claim("measured"), "verdict must be one of .* got 'measured'"),
        (lambda: figure(alt=" "), "alt must say"),
        (lambda: figure("http://a.b/c.svg"), "files must be paths below"),
        (lambda: figure("javascript:alert(1)"), "files must be paths below"),
        (lambda: figure("//a.b/c.svg"), "files must be paths below"),
        (lambda: figure("/etc/x.svg"), "files must be paths below"),
        (lambda: figure("C:/x.svg"), "files must be paths below"),
        (lambda: figure("a\\b.svg"), "files must be paths below"),
        (lambda: figure("a/../../b.svg"), "files must be paths below"),
        (lambda: figure("."), "files must be paths below"),
        (lambda: Table((), (), ""), "at least one column"),
        (lambda: Table(("a", "b"), (("1", "2"), ("3",)), ""), "row 1 must have 2 cells.* got 1"),
        (lambda: Table(("a",), (), "", (True, False)), "numeric must have 1 entries.* got 2"),
        (lambda: Section("a b", "", ""), "id of a section must be .* got 'a b'"),
        (lambda: Section("claims", "", ""), "none of .* got 'claims'"),
        (lambda: Section("/a", "", ""), "id of a section"),
        (lambda: Section("a", "", "", seconds=-1.0), "seconds must be a time"),
        (lambda: report(seconds=float("nan")), "seconds must be a time"),
        (lambda: report(processor_seconds=-1.0), "seconds must be a time"),
        (lambda: report(made="3 February"), "made must be an ISO date, got '3 February'"),
        (lambda: report(sections=(Section("a", "", ""),) * 2), r"must differ, got \['a'\]"),
    ],
)
def test_what_cannot_be_shown(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_files_below_the_report() -> None:
    assert figure("width.svg", "figures/a b.png").files == ("width.svg", "figures/a b.png")
