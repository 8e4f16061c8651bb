"""Plain text to HTML: code in backticks, links inside the page, everything else escaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[((?:`[^`]+`|[^\[\]`])+)\]\(#([^\s()]+)\)")
_NUMBER = re.compile(r"[<>≤≥≈~±]?\s*[+\-−]?\s*\.?[0-9].*", re.DOTALL)
_NOTHING = {"", "-", "–", "—", "nan", "inf", "-inf", "∞", "−∞"}
"""What stands in a column of numbers where there is none."""


def inline_html(text: str, check: Callable[[str], None]) -> str:
    """Text with code and links; ``check`` is called with each anchor that a link leads to."""
    pieces, end = [], 0
    # Whichever begins first: a link may contain code, and what looks like a link in code is code.
    for match in re.finditer(f"{_LINK.pattern}|{_CODE.pattern}", text):
        pieces.append(escape(text[end : match.start()]))
        words, anchor, code = match.groups()
        if code is not None:
            pieces.append(f"<code>{escape(code)}</code>")
        else:
            check(anchor)
            pieces.append(f'<a href="#{escape(anchor)}">{code_html(words)}</a>')
        end = match.end()
    return "".join([*pieces, escape(text[end:])])


def code_html(text: str) -> str:
    """Text with code and no links: what stands in a heading or is itself a link."""
    # Every other piece of the split was between backticks.
    pieces = [escape(piece) for piece in _CODE.split(text)]
    pieces[1::2] = [f"<code>{piece}</code>" for piece in pieces[1::2]]
    return "".join(pieces)


def command_html(line: str) -> str:
    """A command whose words are marked, so that a line is broken between them, not at a hyphen."""
    # Every other piece of the split is the space between two words.
    pieces = [escape(piece) for piece in re.split(r"(\s+)", line)]
    pieces[::2] = [f"<span>{piece}</span>" if piece else "" for piece in pieces[::2]]
    return "".join(pieces)


def plain(text: str) -> str:
    """Text without backticks, for where nothing can be set: a window's title."""
    return _CODE.sub(r"\1", text)


def is_number(text: str) -> bool:
    """Whether a cell of a table is a number, perhaps with an error or a unit after it."""
    return _NUMBER.fullmatch(text.strip()) is not None


def is_nothing(text: str) -> bool:
    """Whether a cell says that there is no number."""
    return text.strip().lower() in _NOTHING


def duration(seconds: float) -> str:
    """A time as people say it: 0.42 s, 8.3 s, 47 s, 2 min 05 s, 1 h 12 min."""
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def moment(iso: str) -> str:
    """An ISO date as it is, a time to the minute; in UTC where the zone is known."""
    when = datetime.fromisoformat(iso)
    if len(iso) <= len("2000-01-01"):
        return f"{when:%Y-%m-%d}"
    if when.tzinfo is None:
        return f"{when:%Y-%m-%d, %H:%M}"
    return f"{when.astimezone(UTC):%Y-%m-%d, %H:%M} UTC"
