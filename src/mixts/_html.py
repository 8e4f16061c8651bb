"""Names and tables in HTML, for pages and for notebooks.

Names of tasks and arms come from anybody: :func:`name_html` escapes them, shows characters that
cannot be seen, and keeps their direction to themselves. Tables of notebooks have no colours of
their own, so that they can be read on a light and on a dark page.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from itertools import takewhile

# -- names ----------------------------------------------------------------------------------------

_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
"""Invisible, but part of emoji and of words in some scripts."""
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Unicode categories of control, format, surrogate and private characters and line separators."""


def visible(name: str) -> str:
    """Return a name with stand-ins for characters that cannot be seen."""
    return "".join(text for text, _ in _pieces(name))


def short(name: str, length: int) -> str:
    """Return at most ``length`` characters of a name, its beginning."""
    whole = visible(name)
    return whole if len(whole) <= length else whole[: length - 1].rstrip() + "…"


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


def name_html(name: str) -> str:
    """Return a name as HTML: escaped, isolated in its direction, stand-ins in italics."""
    shown = (
        f"<i>{escape(text)}</i>" if stands_in else escape(text) for text, stands_in in _pieces(name)
    )
    return f'<bdi class="name" translate="no">{"".join(shown)}</bdi>'


def _pieces(name: str) -> Iterator[tuple[str, bool]]:
    """Split a name into text (false) and stand-ins for characters that cannot be seen (true).

    Control characters, those that change the direction of text, other formats and lone surrogates
    would hide, reorder or break the text around them. Spaces have a stand-in where they would
    collapse.
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


def _stand_in(character: str, edge: bool) -> str | None:
    code, category = ord(character), unicodedata.category(character)
    if character == " ":
        return "·" if edge else None
    if edge and category == "Zs":
        return f"[U+{code:04X}]"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in _JOINERS or category not in _INVISIBLE:
        return None
    return f"[U+{code:04X}]"


# -- notebooks ------------------------------------------------------------------------------------

MOST_ROWS = 10
"""Rows of a table in a notebook, and its columns of arms or features."""
LONGEST = 40
"""Characters of a name in a notebook."""
_CELL = "padding: 0.2em 0.7em; border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.35)"


def label(name: str) -> str:
    """Return the beginning of a name as HTML."""
    return name_html(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…")


def more(n: int, noun: str) -> str:
    """Return the number of things that are not shown, in words; "" if there are none."""
    return "" if n <= 0 else f"… and {n:,} more {noun}{'' if n == 1 else 's'}"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    n_names: int = 1,
) -> str:
    """Return a table in HTML; its first columns hold names and the others hold numbers.

    Parameters
    ----------
    head
        Titles of the columns, as HTML.
    rows
        Cells of each row, as HTML.
    notes
        Lines below the table, as text; empty ones are left out.
    n_names
        Number of columns with names, which begin at the left.
    """
    sides = ["left" if i < n_names else "right" for i in range(len(head))]
    lines = [_row("th", head, sides), *(_row("td", row, sides) for row in rows)]
    below = "".join(note_html(note) for note in notes if note)
    style = "border-collapse: collapse; margin: 0.4em 0; font-variant-numeric: tabular-nums"
    return f'<table style="{style}">{"".join(lines)}</table>{below}'


def note_html(text: str) -> str:
    """Return a line of text in HTML, less prominent than a table."""
    return f'<div style="opacity: 0.75">{escape(text)}</div>'


def card(title: str, *parts: str) -> str:
    """Return what a notebook shows of an object: a title, as text, and parts in HTML."""
    return f"<div><div><b>{escape(title)}</b></div>{''.join(parts)}</div>"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    found = (
        f'<{tag} style="{_CELL}; text-align: {side}">{cell}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(found)}</tr>"
