"""The page of a learned prior: what kinds of task there are, in words."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mixts._files import replacing
from mixts.pages.document import Report
from mixts.pages.kinds import Kind
from mixts.pages.page import page_environment


@dataclass(frozen=True)
class PriorPage:
    """A prior as a page tells it.

    ``report`` has the title, the summary, the sections after the kinds, and how all of it was made;
    ``facts`` stand below the title, ``legend`` says how to read the drawings, and ``code`` is how
    the prior is used.
    """

    report: Report
    kinds: tuple[Kind, ...]
    item: str
    """What an arm or a feature is called at the head of a column."""
    mean: str
    """And the numbers beside it."""
    facts: tuple[str, ...]
    legend: str
    code: str


def write_prior_page(page: PriorPage, path: str | os.PathLike[str]) -> None:
    """Write the page atomically: the file is either the old one or the whole new one."""
    content = render_prior_page(page).encode()
    with replacing(path) as part:
        part.write_bytes(content)


def render_prior_page(page: PriorPage) -> str:
    """The page as text: HTML that needs nothing beside itself, neither script nor network."""
    template = page_environment(page.report).get_template("prior.html")
    return str(template.render(page=page, report=page.report))
