"""Numbers, times, names and text as pages show them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from html import escape
from itertools import takewhile
from typing import NamedTuple

from mixts._html import name_html as name_html
from mixts._html import short as short
from mixts._html import visible as visible

MINUS = "\N{MINUS SIGN}"
_SMALLEST = 1e-6
"""Smaller numbers are written with an exponent."""
_RARE = 0.001
"""Smaller probabilities are only said to be smaller."""


# -- numbers --------------------------------------------------------------------------------------


def count(n: int) -> str:
    """Return a count with separators: 1,234,567."""
    return f"{n:,}"


def plural(n: int, noun: str) -> str:
    """Return a count with its noun: 1 task, 2 tasks."""
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def number(value: float) -> str:
    """Return a number with three digits, whole ones as they are: 1, 0.312, 4.07, 1,234, 1.2e−07."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size >= 1e6 or 0 < size < _SMALLEST:
        text = f"{value:.3g}"
    elif value == int(value):
        text = f"{value + 0.0:,.0f}"
    else:
        power = math.floor(math.log10(size))
        if size >= 1e-3:
            power = max(power, -1)  # three decimals are enough
        text = f"{value:,.{max(0, 2 - power)}f}"
    return signed(text)


class Bounds(NamedTuple):
    """A number and the ends of an interval, as text; in print, too, the number lies between."""

    low: str
    value: str
    high: str


def bounds(low: float, value: float, high: float) -> Bounds:
    """Return a number and the ends of its interval with the same digits.

    The ends are rounded outwards. If the number lies outside, as the mean of a skewed distribution
    may lie outside a central interval, the interval is extended to it.

    Parameters
    ----------
    low, high
        Ends of the interval.
    value
        The number.
    """
    low, high = min(low, value), max(high, value)
    size = max(abs(low), abs(high))
    if not math.isfinite(size) or size >= 1e6 or size < _SMALLEST:
        return Bounds(number(low), number(value), number(high))
    digits = max(0, 2 - math.floor(math.log10(size)))
    # Digits of the shortest decimal that is this float: 0.3 must not become 0.299 or 0.301.
    below, middle, above = (
        Decimal(repr(float(x))).quantize(Decimal(1).scaleb(-digits), rounding)
        for x, rounding in ((low, ROUND_FLOOR), (value, ROUND_HALF_EVEN), (high, ROUND_CEILING))
    )
    return Bounds(*(signed(f"{x + 0:,.{digits}f}") if x else "0" for x in (below, middle, above)))


def signed(text: str) -> str:
    """Replace hyphens of a formatted number by minus signs, which are as wide as a plus."""
    return text.replace("-", MINUS)


def percent(share: float) -> str:
    """Return a share as a percentage, never rounded to nothing or to everything."""
    if 0 < share < _RARE:
        return "< 0.1 %"
    if 1 - _RARE < share < 1:
        return "> 99.9 %"
    exact = round(share, 9)  # weights of components are right up to rounding
    near_an_end = 0 < exact < 0.01 or 0.99 < exact < 1
    return f"{100 * share:.{int(near_an_end)}f} %"


class RateUnit(NamedTuple):
    """Unit of time of a rate."""

    seconds: int
    name: str


_RATE_UNITS = (RateUnit(1, "a second"), RateUnit(60, "a minute"), RateUnit(3600, "an hour"))


def rate_unit(per_second: float) -> RateUnit:
    """Choose the shortest unit in which a rate is at least 0.1."""
    if per_second <= 0:
        return _RATE_UNITS[0]
    return next((unit for unit in _RATE_UNITS if per_second * unit.seconds >= 0.1), _RATE_UNITS[-1])


# -- times ----------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Return a duration in at most two units: 0.42 s, 8.3 s, 47 s, 2 min 05 s, 1 h 12 min."""
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def date_time(iso: str) -> str:
    """Return an ISO date as it is, an ISO time to the minute; in UTC where the zone is known."""
    when = datetime.fromisoformat(iso)
    if len(iso) <= len("2000-01-01"):
        return f"{when:%Y-%m-%d}"
    if when.tzinfo is None:
        return f"{when:%Y-%m-%d, %H:%M}"
    return f"{when.astimezone(UTC):%Y-%m-%d, %H:%M} UTC"


def moment(at: float) -> str:
    """Return the date and time of a Unix time, to the second, in UTC."""
    return f"{_utc(at):%Y-%m-%d %H:%M:%S}"


def iso(at: float) -> str:
    """Return a Unix time in ISO format."""
    return f"{_utc(at):%Y-%m-%dT%H:%M:%SZ}"


def clock(at: float) -> str:
    """Return the time of day with seconds: 12:03:04."""
    return f"{_utc(at):%H:%M:%S}"


def minute(at: float) -> str:
    """Return the time of day: 12:03."""
    return f"{_utc(at):%H:%M}"


def day(at: float) -> str:
    """Return the day: 14 Mar."""
    return f"{_utc(at).day} {_utc(at):%b}"


def brief_moment(at: float) -> str:
    """Return the day and the time of day: 14 Mar, 12:03."""
    return f"{day(at)}, {minute(at)}"


def ago(at: float, now: float) -> str:
    """Return the time that has passed, in one unit; a moment in the future counts as now."""
    seconds = max(0.0, now - at)
    if seconds < 1:
        return "now"
    for limit, size, name in ((60, 1, "s"), (3600, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)} {name} ago"
    return f"{int(seconds // 86400):,} days ago"


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


# -- text -----------------------------------------------------------------------------------------

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[((?:`[^`]+`|[^\[\]`])+)\]\(#([^\s()]+)\)")
_NUMBER = re.compile(r"[<>≤≥≈~±]?\s*[+\-−]?\s*\.?[0-9].*", re.DOTALL)
_NOTHING = {"", "-", "–", "—", "nan", "inf", "-inf", "∞", "−∞"}
"""Cells of a column of numbers that hold no number."""


def inline_html(text: str) -> str:
    """Return text as HTML, with `` `code` `` and ``[words](#anchor)`` set as such."""
    pieces, end = [], 0
    # Whichever begins first: a link may contain code, and brackets inside code are no link.
    for match in re.finditer(f"{_LINK.pattern}|{_CODE.pattern}", text):
        pieces.append(escape(text[end : match.start()]))
        words, anchor, code = match.groups()
        if code is not None:
            pieces.append(f"<code>{escape(code)}</code>")
        else:
            pieces.append(f'<a href="#{escape(anchor)}">{code_html(words)}</a>')
        end = match.end()
    return "".join([*pieces, escape(text[end:])])


def code_html(text: str) -> str:
    """Return text as HTML, with code but no links: for headings and the words of links."""
    # Every other piece of the split was between backticks.
    pieces = [escape(piece) for piece in _CODE.split(text)]
    pieces[1::2] = [f"<code>{piece}</code>" for piece in pieces[1::2]]
    return "".join(pieces)


def command_html(line: str) -> str:
    """Return a command as HTML whose lines break between words, not at hyphens."""
    # Every other piece of the split is the space between two words.
    pieces = [escape(piece) for piece in re.split(r"(\s+)", line)]
    pieces[::2] = [f"<span>{piece}</span>" if piece else "" for piece in pieces[::2]]
    return "".join(pieces)


def without_code(text: str) -> str:
    """Return text without backticks, for places without markup such as a window's title."""
    return _CODE.sub(r"\1", text)


def literal(text: str) -> str:
    """Return text of others, such as a task's name, in which nothing is set as code or link."""
    return text.replace("`", "'").replace("[", "(").replace("]", ")")


def short_names(names: Sequence[str], length: int) -> list[str]:
    """Return at most ``length`` characters of each name, so that names that differ still differ.

    Where a name is too long, the words with which all of them begin are left out, and then its
    middle.
    """
    shown = [visible(name) for name in names]
    if max(map(len, shown), default=0) <= length:
        return shown
    start = _n_alike(shown) if len(set(shown)) > 1 else 0
    while start and shown[0][start - 1].isalnum():
        start -= 1
    found = [_fit(name[start:], length, "…" if start else "") for name in shown]
    for text in {text for text in found if found.count(text) > 1}:
        alike = [i for i, other in enumerate(found) if other == text]
        apart = sorted({shown[i] for i in alike})
        if len(apart) > 1:  # their difference was left out: begin with it, whatever the word
            at = _n_alike(apart)
            for i in alike:
                found[i] = _fit(shown[i][at:] or shown[i][-length:], length, "…", cut_end=True)
    return found


def _n_alike(names: Sequence[str]) -> int:
    """Return the number of characters with which all names begin."""
    pairs = zip(min(names), max(names), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _fit(name: str, length: int, before: str, *, cut_end: bool = False) -> str:
    room = length - len(before)
    if len(name) <= room:
        return before + name
    end = 0 if cut_end else (room - 1) // 2
    return f"{before}{name[: room - 1 - end].rstrip()}…{name[len(name) - end :].lstrip()}"


def listed(words: Sequence[str]) -> str:
    """Join words as a sentence does: a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def is_number(text: str) -> bool:
    """Return whether a cell of a table is a number, perhaps with an error or a unit after it."""
    return _NUMBER.fullmatch(text.strip()) is not None


def is_nothing(text: str) -> bool:
    """Return whether a cell of a table says that there is no number."""
    return text.strip().lower() in _NOTHING
