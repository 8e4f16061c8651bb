"""The size of a drawing, read from its root, so that a page keeps the place for it."""

from __future__ import annotations

import re
from xml.parsers import expat

from mixts.errors import ParameterError

_PIXELS = {"": 1.0, "px": 1.0, "pt": 4 / 3, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4}
"""CSS pixels in a unit of length; an inch is 96 of them."""
_LENGTH = re.compile(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def svg_size(svg: bytes) -> tuple[float, float]:
    """Width and height in CSS pixels, from the root's attributes or else from its view box."""
    root = _root(svg)
    sizes = [_pixels(root.get("width", "")), _pixels(root.get("height", ""))]
    if None in sizes:
        box = root.get("viewBox", "").replace(",", " ").split()
        sizes = [_pixels(length) for length in box[2:4]]
    width, height = sizes if len(sizes) == 2 else (None, None)
    if not width or not height:
        raise ParameterError(
            "an SVG must say how large it is, with width and height or with a viewBox; "
            f"its root has {root}"
        )
    return width, height


def _pixels(length: str) -> float | None:
    match = _LENGTH.fullmatch(length)
    unit = _PIXELS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        return None
    try:
        return float(match[1]) * unit
    except ValueError:
        return None


class _FoundRootError(Exception):
    """Stops the parser at the first tag: the rest of a drawing may be large."""


def _root(svg: bytes) -> dict[str, str]:
    found: dict[str, str] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] != "svg":
            raise ParameterError(f"a figure must be an SVG, got a document of <{tag}>")
        found.update(attributes)
        raise _FoundRootError

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    try:
        parser.Parse(svg, True)
    except _FoundRootError:
        return found
    except expat.ExpatError as error:
        raise ParameterError(f"a figure must be an SVG, got {svg[:40]!r}: {error}") from error
    raise ParameterError("a figure must be an SVG, got a document without a root")
