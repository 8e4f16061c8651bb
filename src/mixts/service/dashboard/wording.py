"""Numbers, times and names as people read them; names come from anybody."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

MINUS = "\N{MINUS SIGN}"
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
"""Not seen, but part of emoji and of words in some scripts."""
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


# -- numbers --------------------------------------------------------------------------------------


def count(n: int) -> str:
    """1,234,567."""
    return f"{n:,}"


def number(value: float) -> str:
    """Whole numbers as they are, others with three digits: 1, 0.312, 4.07, 1,234, 1.2e−05."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        text = f"{value:.3g}"
    elif value == int(value):
        text = f"{value + 0.0:,.0f}"
    else:
        before = math.floor(math.log10(size)) if size else 0
        text = f"{value:,.{max(0, 2 - max(before, -1))}f}"
    return text.replace("-", MINUS)


def percent(share: float) -> str:
    """A share as people say it, never rounded to nothing or to all."""
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


class Unit(NamedTuple):
    """Of a rate: how many seconds it is of, and how it is said."""

    seconds: int
    name: str
    short: str


UNITS = (Unit(1, "a second", "/s"), Unit(60, "a minute", "/min"), Unit(3600, "an hour", "/h"))


def rate_unit(per_second: float) -> Unit:
    """The unit in which a rate can be read: a second, unless that is nearly nothing."""
    if per_second <= 0:
        return UNITS[0]
    return next((unit for unit in UNITS if per_second * unit.seconds >= 0.1), UNITS[-1])


# -- times ----------------------------------------------------------------------------------------


def clock(at: float) -> str:
    """The time of day, 12:03:04."""
    return f"{_utc(at):%H:%M:%S}"


def moment(at: float) -> str:
    """A date and a time to the second."""
    return f"{_utc(at):%Y-%m-%d %H:%M:%S}"


def iso(at: float) -> str:
    """As a machine reads it."""
    return f"{_utc(at):%Y-%m-%dT%H:%M:%SZ}"


def day(at: float) -> str:
    """14 Mar."""
    return f"{_utc(at).day} {_utc(at):%b}"


def minute(at: float) -> str:
    """12:03."""
    return f"{_utc(at):%H:%M}"


def ago(at: float, now: float) -> str:
    """How long it is, in one unit; clocks that disagree a little make nothing of the future."""
    seconds = max(0.0, now - at)
    if seconds < 1:
        return "now"
    for limit, size, name in ((60, 1, "s"), (3600, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)} {name} ago"
    return f"{int(seconds // 86400):,} days ago"


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


# -- names ----------------------------------------------------------------------------------------


def pieces(name: str) -> Iterator[tuple[str, bool]]:
    """A name as text and stand-ins: true marks what stands for a character that is not seen.

    Control characters, those that change the direction of text, other formats and lone surrogates
    would hide, reorder or break what is around them. Spaces are shown where they would collapse.
    """
    if name.isprintable() and "  " not in name and name.strip() == name:
        # Nearly all names, and pages have hundreds of them.
        yield name, False
        return
    plain = ""
    for i, character in enumerate(name):
        shown = _stand_in(character, name[i - 1 : i] in ("", " ") or i == len(name) - 1)
        if shown is None:
            plain += character
            continue
        if plain:
            yield plain, False
            plain = ""
        yield shown, True
    if plain:
        yield plain, False


def visible(name: str) -> str:
    """The same as plain text, for where nothing can be marked: a window's title."""
    return "".join(text for text, _ in pieces(name))


def _stand_in(character: str, edge: bool) -> str | None:
    code = ord(character)
    if character == " ":
        return "·" if edge else None
    if edge and unicodedata.category(character) == "Zs":
        return f"[U+{code:04X}]"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in _JOINERS:
        return None
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return f"[U+{code:04X}]"
    return None


def task_link(name: str) -> str:
    """The address of a task's page.

    Browsers take the segments "." and ".." for folders, also when they are percent-encoded, so
    these two names go into the query.
    """
    encoded = quote(name, safe="", errors="replace")
    return f"/tasks?name={encoded}" if name in ("", ".", "..") else f"/tasks/{encoded}"


def short(name: str, length: int) -> str:
    """The beginning of a name where there is little room."""
    whole = visible(name)
    return whole if len(whole) <= length else whole[: length - 1].rstrip() + "…"
