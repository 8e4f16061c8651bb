"""The page: a report set in HTML that needs nothing beside itself, neither script nor network."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable
from importlib import resources
from typing import Any
from urllib.parse import quote

from mixts._files import replacing
from mixts.bounds import Verdict
from mixts.errors import MissingExtraError, ParameterError
from mixts.pages import text
from mixts.pages.document import ANCHORS, VERDICTS, Figure, Report, Table
from mixts.pages.svg import svg_size

_SCALE = 1.6
"""On a screen a figure is larger than in print: 8 pt become 17 pixels, the size of the text."""
_WIDE = 480.0
"""A figure wider than this, in CSS pixels at its own size, has a row for itself: 5 inches."""

_ROW_HEADING, _COLUMN_HEADING = 14, 10
"""Characters that a heading has room for at least, however narrow the table."""

_VERDICT_NAMES: dict[Verdict, str] = {
    "holds": "holds",
    "direction only": "direction",
    "undecided": "undecided",
    "does not hold": "fails",
}
"""As names of classes and icons."""


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page atomically: the file is either the old one or the whole new one."""
    content = render(report).encode()
    with replacing(path) as part:
        part.write_bytes(content)


def check_installed() -> None:
    """Refuse early what a report needs and is not there, before anything takes long."""
    try:
        import jinja2  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingExtraError("a report needs jinja2: pip install 'mixts[paper]'") from error


def render(report: Report) -> str:
    """The page as text. A link to an anchor that the page does not have is an error."""
    template = page_environment(report).get_template("report.html")
    return str(template.render(report=report))


def page_environment(report: Report) -> Any:
    """The templates' environment, with the filters that set text, figures and tables."""
    check_installed()
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    check = _anchor_check(report)
    environment.filters.update(
        inline=lambda words: Markup(text.inline_html(words, check)),
        code=lambda words: Markup(text.code_html(words)),
        command=lambda line: Markup(text.command_html(line)),
        plain=text.plain,
        duration=text.duration,
        moment=text.moment,
        image=image,
        link=lambda file: quote(file),
        last_name=lambda file: file.rpartition("/")[2],
        numeric=numeric_columns,
        heading_widths=heading_widths,
    )
    environment.globals.update(verdict_names=_VERDICT_NAMES, verdicts=VERDICTS)
    return environment


def _template(name: str) -> str:
    folder = resources.files("mixts.pages") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def _anchor_check(report: Report) -> Callable[[str], None]:
    known = {*ANCHORS, *(section.id for section in report.sections)}
    if not report.claims:
        known.remove("claims")

    def check(anchor: str) -> None:
        if anchor not in known:
            raise ParameterError(
                f"a link leads to #{anchor}, which the report does not have; it has {sorted(known)}"
            )

    return check


def image(figure: Figure) -> dict[str, Any]:
    """The attributes of a figure's image, and whether it has a row for itself."""
    width, height = svg_size(figure.svg)
    return {
        "source": "data:image/svg+xml;base64," + b64encode(figure.svg).decode(),
        "width": round(width * _SCALE),
        "height": round(height * _SCALE),
        "wide": width > _WIDE,
    }


def numeric_columns(table: Table) -> tuple[bool, ...]:
    """Which columns are set as numbers: as the table says, or those that are nothing else."""
    if table.numeric is not None:
        return table.numeric
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    return tuple(
        any(map(text.is_number, cells))
        and all(text.is_number(cell) or text.is_nothing(cell) for cell in cells)
        for cells in columns
    )


def heading_widths(table: Table) -> tuple[int, ...]:
    """The least width of each column in characters, so that headings are not broken at each word.

    It is never more than the heading needs: numbers may stand closer than words.
    """
    widths = [min(_COLUMN_HEADING, len(text.plain(name))) for name in table.columns]
    longest = max((len(text.plain(row[0])) for row in table.rows), default=0)
    return (max(widths[0], min(_ROW_HEADING, longest)), *widths[1:])
