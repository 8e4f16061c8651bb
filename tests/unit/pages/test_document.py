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


def test_the_size_of_what_matplotlib_draws() -> None:
    import io

    from mixts.plots.style import new_axes

    stream = io.BytesIO()
    new_axes(3.4, 2.5).figure.savefig(stream, format="svg")
    assert svg_size(stream.getvalue()) == pytest.approx((3.4 * 96, 2.5 * 96))


@pytest.mark.parametrize(
    ("svg", "message"),
    [
        (b"", "must be an SVG with .* got b''"),
        (b"\x89PNG\r\n", "must be an SVG with .* got b'.x89PNG"),
        (b"<html></html>", "must be an SVG"),
        (b'<svg width="10%" height="3pt"/>', "must be an SVG with its width and height in points"),
    ],
)
def test_drawings_that_are_none(svg: bytes, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Figure(svg, "alt", "caption")


def claim(verdict: Any) -> Claim:
    return Claim("Sec. 6", "a", "b", verdict)


def figure(alt: str) -> Figure:
    return Figure(DRAWING, alt, "caption")


def report(**changes: Any) -> Any:
    return replace(typical_report(), **changes)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: claim("measured"), "verdict must be one of .* got 'measured'"),
        (lambda: figure(" "), "alt must say"),
        (lambda: Table((), (), ""), "at least one column"),
        (lambda: Table(("a", "b"), (("1", "2"), ("3",)), ""), "row 1 must have 2 cells.* got 1"),
        (lambda: Table(("a",), (), "", (True, False)), "numeric must have 1 entries.* got 2"),
        (lambda: Section("a b", "", ""), "id of a section must be .* got 'a b'"),
        (lambda: Section("claims", "", ""), "none of .* got 'claims'"),
        (lambda: Section("/a", "", ""), "id of a section"),
        (lambda: report(sections=(Section("a", "", ""),) * 2), r"must differ, got \['a'\]"),
    ],
)
def test_what_cannot_be_shown(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()
