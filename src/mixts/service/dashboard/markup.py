"""Names and links as HTML, and the templates that pages are made of; everything is escaped."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from mixts.errors import MissingExtraError
from mixts.service.dashboard import wording
from mixts.service.dashboard.overview import (
    DEFAULT_SPAN,
    LONGEST_SEARCH,
    PAGE_ROWS,
    SPANS,
    Listing,
)
from mixts.service.dashboard.source import PriorFacts, colour, family_words
from mixts.service.records import DecisionRow

_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>"
    "<rect width='16' height='16' rx='3' fill='#0072b2'/>"
    "<path d='M0 9q4-1 8-4t8-2v10a3 3 0 0 1-3 3H3a3 3 0 0 1-3-3z' fill='#e69f00'/>"
    "<path d='M0 12q5 1 9-2t7-2v5a3 3 0 0 1-3 3H3a3 3 0 0 1-3-3z' fill='#009e73'/></svg>"
)


def name_html(name: str) -> Any:
    """A name of anybody's: its direction kept to itself, and what cannot be seen shown."""
    from markupsafe import Markup

    shown = (
        Markup("<i>{}</i>").format(text) if stands_in else Markup.escape(text)
        for text, stands_in in wording.pieces(name)
    )
    return Markup('<bdi class="name" translate="no">{}</bdi>').format(Markup("").join(shown))


def list_link(search: str, offset: int, span: str) -> str:
    """The address of a page of the list of tasks."""
    asked = {"search": search, "offset": max(0, offset), "span": span}
    defaults = {"search": "", "offset": 0, "span": DEFAULT_SPAN}
    query = urlencode({key: value for key, value in asked.items() if value != defaults[key]})
    return f"/?{query}#tasks" if query else "/#tasks"


def span_link(span: str, listing: Listing) -> str:
    """The address of the overview with charts that go back as far as this."""
    return list_link(listing.search, listing.offset, span).removesuffix("#tasks")


def plural(n: int, noun: str) -> str:
    """1 task, 2 tasks."""
    return f"{wording.count(n)} {noun}{'' if n == 1 else 's'}"


def then(row: DecisionRow, facts: PriorFacts) -> Any:
    """The kind that was likeliest at a decision, and its weight."""
    from markupsafe import Markup

    latent = max(range(len(row.weights)), key=lambda s: row.weights[s])
    name = name_html(facts.kind(latent, row.prior_version))
    return Markup("{}, {}").format(name, wording.percent(row.weights[latent]))


def render(template: str, **values: Any) -> str:
    """A page, from a template and what it shows."""
    return str(_environment().get_template(template).render(**values))


@functools.cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("the pages need jinja2: pip install 'mixts[serve]'") from error
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        name=name_html,
        visible=wording.visible,
        count=wording.count,
        number=wording.number,
        percent=wording.percent,
        places=lambda share: f"{100 * min(max(share, 0.0), 1.0):.2f}",
        clock=wording.clock,
        moment=wording.moment,
        iso=wording.iso,
        ago=wording.ago,
        task_link=wording.task_link,
        list_link=list_link,
        span_link=span_link,
        plural=plural,
        family=family_words,
        colour=colour,
        then=then,
    )
    environment.globals.update(
        icon="data:image/svg+xml," + quote(_ICON),
        spans=SPANS,
        default_span=DEFAULT_SPAN,
        page_rows=PAGE_ROWS,
        longest_search=LONGEST_SEARCH,
    )
    return environment


def _template(name: str) -> str:
    folder = resources.files("mixts.service.dashboard") / "templates"
    return (folder / name).read_text(encoding="utf-8")
