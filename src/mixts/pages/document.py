"""The parts of a report: what a page shows, already measured, judged and drawn.

Text is plain text in which `` `code` `` and ``[words](#anchor)`` are set as such, where an anchor
is the id of a section or one of ``ANCHORS``; see :mod:`mixts.pages.text`. Titles, places, names of
settings and columns may have code but no links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import get_args
from urllib.parse import urlsplit

from mixts.bounds import Verdict
from mixts.errors import ParameterError
from mixts.pages.svg import svg_size

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

ANCHORS = ("contents", "main", "claims", "run")
"""Of the page itself; a link may lead there, a section may not take their names."""

_ID = re.compile(r"[A-Za-z][\w.-]*(/[\w.-]+)*", re.ASCII)
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Figure:
    """A drawing (SVG), its description for those who cannot see it, and the files beside the page.

    ``files`` are relative to the report, with forward slashes: ``figures/width.svg``.
    """

    svg: bytes
    alt: str
    caption: str
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        svg_size(self.svg)
        if not self.alt.strip():
            raise ParameterError("alt must say what the figure shows, got no text")
        for file in self.files:
            _check_file(file)


@dataclass(frozen=True)
class Table:
    """Cells as text, the first of a row its heading.

    ``numeric`` says which columns are numbers, set flush right; by default those in which every
    cell begins with one.
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
    """What is said at a place of the paper, or here, what was measured, and whether it is so."""

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
    """One experiment: its id (``paper/width``) is the anchor, its place is that in the paper.

    ``seconds`` are processor time, which is what it takes anew, in however many processes. What is
    empty is not shown, and neither are they when there are none.
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

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or self.id in ANCHORS:
            raise ParameterError(
                "the id of a section must be words of letters, digits, '.', '_' and '-', separated "
                f"by '/', and none of {ANCHORS}, got {self.id!r}"
            )
        _check_seconds(self.seconds)


@dataclass(frozen=True)
class Report:
    """The whole page. ``settings`` are those of the whole run, seeds included; ``made`` is ISO.

    ``seconds`` is how long the command took that made the page, and ``processor_seconds`` what the
    parts took to compute: the one may be far less where results were there already. ``summary`` is
    a few sentences for those who read no further than the first screen.
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
    """Sentences for a banner at the top of the page: what a reader must know before the numbers."""

    def __post_init__(self) -> None:
        twice = [name for name, n in Counter(s.id for s in self.sections).items() if n > 1]
        if twice:
            raise ParameterError(f"the ids of sections must differ, got {twice} more than once")
        try:
            datetime.fromisoformat(self.made)
        except ValueError as error:
            raise ParameterError(f"made must be an ISO date, got {self.made!r}") from error
        _check_seconds(self.seconds)
        _check_seconds(self.processor_seconds)

    @property
    def claims(self) -> tuple[tuple[Section, Claim], ...]:
        """Every claim with its section, in the order of the page."""
        return tuple((section, claim) for section in self.sections for claim in section.claims)

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """How many claims have each verdict."""
        counts = Counter(claim.verdict for _, claim in self.claims)
        return {verdict: counts[verdict] for verdict in VERDICTS}


def _check_file(file: str) -> None:
    """A path below the report's folder, on any system: never an address, never out of it."""
    path = PurePosixPath(file)
    absolute = path.is_absolute() or PureWindowsPath(file).anchor or urlsplit(file).scheme
    if absolute or "\\" in file or ".." in path.parts or not path.name:
        raise ParameterError(
            f"files must be paths below the report's folder, such as 'width.svg', got {file!r}"
        )


def _check_seconds(seconds: float | None) -> None:
    if seconds is not None and not 0 <= seconds < float("inf"):
        raise ParameterError(f"seconds must be a time, at least 0, got {seconds!r}")
