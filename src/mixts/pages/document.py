"""The parts of a report: text, tables, claims and figures, already measured, judged and drawn.

Text is plain text in which `` `code` `` and ``[words](#anchor)`` are set as such, where an anchor
is the id of a section or one of ``ANCHORS``. Titles, places, names of settings and columns may have
code but no links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from mixts.errors import ParameterError

Verdict = Literal["holds", "direction only", "undecided", "does not hold"]
"""``undecided``: the estimate is within two standard errors of the threshold."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

ANCHORS = ("contents", "main", "claims", "run")
"""Anchors of the page itself: links may lead there, and no section may have such an id."""

_ID = re.compile(r"[A-Za-z][\w.-]*(/[\w.-]+)*", re.ASCII)
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Figure:
    """A drawing for a page.

    Parameters
    ----------
    svg
        The drawing, an SVG document.
    alt
        Description of the drawing for readers who cannot see it.
    caption
        Text below the drawing.
    files
        Paths of the drawing's files, relative to the page, with forward slashes:
        ``figures/width.svg``.
    """

    svg: bytes
    alt: str
    caption: str
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        svg_size(self.svg)
        if not self.alt.strip():
            raise ParameterError("alt must say what the figure shows, got no text")


@dataclass(frozen=True)
class Table:
    """A table for a page.

    Parameters
    ----------
    columns
        Headings of the columns.
    rows
        Cells as text; the first cell of a row is its heading.
    caption
        Text above the table.
    numeric
        Which columns are numbers, set flush right; by default those in which every cell begins
        with a number.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str
    numeric: tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        width = len(self.columns)
        if width == 0:
            raise ParameterError("a table must have at least one column, got none")
        for index, row in enumerate(self.rows):
            if len(row) != width:
                raise ParameterError(
                    f"row {index} must have {width} cells, one for each column, got {len(row)}"
                )
        if self.numeric is not None and len(self.numeric) != width:
            raise ParameterError(
                f"numeric must have {width} entries, one for each column, got {len(self.numeric)}"
            )


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or of this project, and what was measured.

    Parameters
    ----------
    place
        Where the claim stands, such as "Sec. 6.2".
    claim
        What is claimed.
    measured
        What was measured, with errors.
    verdict
        "holds", "direction only", "undecided" or "does not hold".
    note
        What a reader should know besides.
    """

    place: str
    claim: str
    measured: str
    verdict: Verdict
    note: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ParameterError(f"verdict must be one of {VERDICTS}, got {self.verdict!r}")


@dataclass(frozen=True)
class Section:
    """A section of a page, such as one experiment. Empty parts are not shown.

    Parameters
    ----------
    id
        Anchor of the section, such as ``paper/width``.
    title
        Heading.
    place
        Place in the paper.
    paragraphs, figures, tables, claims
        Contents, in this order.
    settings
        Names and values of settings.
    command
        Command that repeats the section.
    seconds
        Processor time that the section took, over all processes.
    part
        Title of the part of the page to which the section belongs; the sections of a part follow
        each other. Empty: no part.
    """

    id: str
    title: str
    place: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    settings: Mapping[str, str] = field(default_factory=lambda: _NONE)
    command: str = ""
    seconds: float | None = None
    part: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or self.id in ANCHORS:
            raise ParameterError(
                "the id of a section must be words of letters, digits, '.', '_' and '-', separated "
                f"by '/', and none of {ANCHORS}, got {self.id!r}"
            )


@dataclass(frozen=True)
class Report:
    """A whole page.

    Parameters
    ----------
    title
        Heading of the page.
    paragraphs
        Introduction.
    sections
        Sections, whose ids differ.
    versions
        Versions of the software by name.
    settings
        Settings of the whole run, seeds included.
    command
        Command that made the page.
    made
        Date or time at which the page was made, in ISO format.
    seconds
        Time that the command took.
    summary
        A few sentences for readers of the first screen.
    processor_seconds
        Processor time of all sections: more than ``seconds`` where results were kept from earlier.
    warnings
        Sentences for a banner at the top of the page: what to know before reading the numbers.
    """

    title: str
    paragraphs: tuple[str, ...]
    sections: tuple[Section, ...]
    versions: Mapping[str, str]
    settings: Mapping[str, str]
    command: str
    made: str
    seconds: float
    summary: tuple[str, ...] = ()
    processor_seconds: float | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        twice = [name for name, n in Counter(s.id for s in self.sections).items() if n > 1]
        if twice:
            raise ParameterError(f"the ids of sections must differ, got {twice} more than once")

    @property
    def claims(self) -> tuple[tuple[Section, Claim], ...]:
        """All claims with their sections, in the order of the page."""
        return tuple((section, claim) for section in self.sections for claim in section.claims)

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """Number of claims with each verdict."""
        counts = Counter(claim.verdict for _, claim in self.claims)
        return {verdict: counts[verdict] for verdict in VERDICTS}


_SIZE = re.compile(rb'<svg[^>]* width="([0-9.]+)pt"[^>]* height="([0-9.]+)pt"')


def svg_size(svg: bytes) -> tuple[float, float]:
    """Read the width and height of a drawing in CSS pixels, of which a point has 4/3."""
    found = _SIZE.search(svg)
    if found is None:
        raise ParameterError(
            "a figure must be an SVG with its width and height in points, as matplotlib writes "
            f"it, got {svg[:40]!r}"
        )
    return float(found[1]) * 4 / 3, float(found[2]) * 4 / 3
