"""Names beside what they name: at the ends of lines, moved apart where they would touch."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from mixts._spacing import spread
from mixts.plots.style import FONT, legible

_DISTANCE = 8.0
"""From the axes to the labels, in points: room for a line that leads to one that was moved."""
_FORMULA = re.compile(r"\$[^$]+\$")
_UNSEEN = dict.fromkeys(map(ord, "${}^_"))
_HOLD, _HELD = "\ue000", "\ue001"
"""Where formulas stand while a name is broken; no name has these characters, which mean nothing."""
_RAISED = 0.4
"""How much taller a line is for what is raised or lowered in it, or has a root above it."""


class End(NamedTuple):
    """Where a line ends, and what it is called."""

    name: str
    color: str
    x: float
    y: float


def label_ends(ax: Any, ends: Sequence[End], size: float = FONT) -> None:
    """Names at the right of the axes, each with a thin line to the end of what it names.

    They find their places anew whenever the figure is drawn, so limits, scales and sizes may
    change after the call.
    """
    texts = [_broken(end.name, _line_length(ax)) for end in ends]
    heights = [size * _height(text) for text in texts]
    for i, (end, text) in enumerate(zip(ends, texts, strict=True)):
        ax.annotate(
            text, (0, 0), xycoords=partial(_mark, end, ax), xytext=(0, 0),
            textcoords=partial(_place, i, ends, heights, ax), va="center", ha="left", size=size,
            color=legible(end.color), annotation_clip=False, linespacing=1.1,
            arrowprops={
                "arrowstyle": "-", "color": end.color, "linewidth": 0.6, "relpos": (0, 0.5),
                "shrinkA": 0, "shrinkB": 0,
            },
        )  # fmt: skip


def _height(text: str) -> float:
    """Of a label, in sizes of its letters."""
    lines = text.split("\n")
    return 0.2 + sum(1.15 + _RAISED * bool(_FORMULA.search(line)) for line in lines)


def _line_length(ax: Any) -> int:
    """Characters in a line of a label: longer ones would take too much of a panel's width."""
    return 16 if ax.bbox.width / ax.figure.dpi > 2.0 else 11


def _broken(name: str, length: int) -> str:
    """Into lines; a factor stays with its sign, and breaks that are there are kept.

    What is set as mathematics stays whole, and counts as long as it will look.
    """
    formulas = _FORMULA.findall(name)
    whole = re.sub("([/×=]) ", "\\1\N{NO-BREAK SPACE}", _FORMULA.sub(_HOLD, name))
    for formula in formulas:
        signs = re.sub(r"\\[A-Za-z]+ ?", "x", formula).translate(_UNSEEN)
        whole = whole.replace(_HOLD, _HELD * min(len(signs), length), 1)
    broken = "\n".join(textwrap.fill(line, length) for line in whole.split("\n"))
    rest = iter(formulas)
    return re.sub(f"{_HELD}+", lambda _: next(rest), broken)


def _mark(end: End, ax: Any, renderer: Any = None) -> Any:
    """The transform to where a line ends or, if that is not in sight, leaves the axes."""
    from matplotlib.transforms import Affine2D

    box = ax.bbox
    x, y = ax.transData.transform((end.x, end.y))
    return Affine2D().translate(min(max(x, box.x0), box.x1), min(max(y, box.y0), box.y1))


def _place(i: int, ends: Sequence[End], heights: Sequence[float], ax: Any, renderer: Any) -> Any:
    """The transform to where label i belongs as the axes are now."""
    from matplotlib.transforms import Affine2D

    scale, box = renderer.points_to_pixels(1.0), ax.bbox
    marks = [float(_mark(end, ax).transform((0, 0))[1]) for end in ends]
    places = spread(marks, [scale * height for height in heights], box.y0, box.y1)
    return Affine2D().translate(box.x1 + scale * _DISTANCE, places[i])
