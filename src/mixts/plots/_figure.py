"""The figure that :func:`mixts.plot` makes: notebooks show it, although pyplot does not know it."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

_PIXELS = 120
"""Pixels of an inch in a notebook; the picture itself has more, for dense screens."""


class NotebookFigure(Figure):
    """A figure that notebooks show as a picture, whether or not pyplot was imported."""

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        width, height = (round(_PIXELS * inches) for inches in self.get_size_inches())
        return stream.getvalue(), {"width": width, "height": height}
