"""HTML pages from templates: reports, the page of a learned prior, and those of the dashboard.

A report and the page of a prior are one file each, which needs no script and no network.
"""

from __future__ import annotations

import functools
import os
import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mixts._files import replacing
from mixts.errors import MissingExtraError, ParameterError
from mixts.pages import formats
from mixts.pages.document import ANCHORS, VERDICTS, Figure, Report, Table, Verdict, svg_size

_SCALE = 1.6
"""A figure is larger on a screen than in print: 8 pt become 17 pixels, the size of the text."""
_WIDE = 480.0
"""CSS pixels (5 inches): a figure that is wider at its own size has a row for itself."""

_ROW_HEADING, _COLUMN_HEADING = 14, 10
"""Characters that a heading has room for, however narrow the table."""

_VERDICT_CLASSES: dict[Verdict, str] = {
    "holds": "holds",
    "direction only": "direction",
    "undecided": "undecided",
    "does not hold": "fails",
}
"""CSS classes of verdicts."""


# -- pages ----------------------------------------------------------------------------------------


def write_report(report: Report, path: str | os.PathLike[str], **page: Any) -> None:
    """Write the page of a report atomically: the file is the old page or the whole new one.

    Parameters
    ----------
    report
        The report.
    path
        File to write.
    **page
        Another template than that of a report, and its values.
    """
    content = render(report, **page).encode()
    with replacing(path) as part:
        part.write_bytes(content)


def render(report: Report, *, template: str = "report.html.jinja", **values: Any) -> str:
    """Return a report as HTML. Raise `ParameterError` for a link to an anchor that is not there.

    Parameters
    ----------
    report
        The report.
    template
        Name of the template.
    **values
        What the template shows besides the report.

    Returns
    -------
    str
        The page.
    """
    html: str = _environment().get_template(template).render(report=report, **values)
    ids = set(re.findall(r' id="([^"]*)"', html))
    for anchor in re.findall(r' href="#([^"]*)"', html):
        if anchor not in ids:
            known = sorted(ids & {*ANCHORS, *(section.id for section in report.sections)})
            raise ParameterError(
                f"a link leads to #{anchor}, which the report does not have; it has {known}"
            )
    return html


def check_installed() -> None:
    """Raise `MissingExtraError` if pages cannot be rendered, before anything takes long."""
    try:
        import jinja2  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingExtraError("a page needs jinja2: pip install 'mixts[logs]'") from error


# -- templates ------------------------------------------------------------------------------------


def new_environment(*packages: str) -> Any:
    """Return a jinja2 environment with the filters that all pages share.

    Parameters
    ----------
    *packages
        Packages whose ``templates`` folders are searched, before that of this package.
    """
    check_installed()
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def html(format: Callable[[str], str]) -> Callable[[str], Markup]:
        return lambda text: Markup(format(text))

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "mixts.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        {name: getattr(formats, name) for name in _FORMATS},
        inline=html(formats.inline_html),
        code=html(formats.code_html),
        command=html(formats.command_html),
        name=html(formats.name_html),
        image=image,
        link=lambda file: quote(file),
        places=lambda share: f"{100 * min(max(share, 0.0), 1.0):.2f}",
        last_name=lambda file: file.rpartition("/")[2],
        numeric=numeric_columns,
        heading_widths=heading_widths,
    )
    environment.globals.update(verdict_classes=_VERDICT_CLASSES, verdicts=VERDICTS)
    return environment


_FORMATS = (
    "ago", "brief_moment", "clock", "count", "date_time", "duration", "iso", "moment", "number",
    "percent", "plural", "visible", "without_code",
)  # fmt: skip
"""Functions of :mod:`mixts.pages.formats` that templates use by their own names."""


@functools.cache
def _environment() -> Any:
    return new_environment()


def image(figure: Figure) -> dict[str, Any]:
    """Return the attributes of a figure's image, and whether it has a row for itself."""
    width, height = svg_size(figure.svg)
    return {
        "source": "data:image/svg+xml;base64," + b64encode(figure.svg).decode(),
        "width": round(width * _SCALE),
        "height": round(height * _SCALE),
        "wide": width > _WIDE,
    }


def numeric_columns(table: Table) -> tuple[bool, ...]:
    """Return which columns are set as numbers: as the table says, or those of numbers only."""
    if table.numeric is not None:
        return table.numeric
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    return tuple(
        any(map(formats.is_number, cells))
        and all(formats.is_number(cell) or formats.is_nothing(cell) for cell in cells)
        for cells in columns
    )


def heading_widths(table: Table) -> tuple[int, ...]:
    """Return the least width of each column in characters, so that headings stay readable.

    It is never more than the heading needs: numbers may stand closer than words.
    """
    widths = [min(_COLUMN_HEADING, len(formats.without_code(name))) for name in table.columns]
    longest = max((len(formats.without_code(row[0])) for row in table.rows), default=0)
    return (max(widths[0], min(_ROW_HEADING, longest)), *widths[1:])
