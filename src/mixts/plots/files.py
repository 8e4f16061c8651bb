"""Figures to files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mixts._files import replacing

PNG_DPI = 200


def save_figure(figure: Any, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write ``path``.svg and ``path``.png, atomically, and return their paths.

    Text is drawn as shapes, so that it looks the same everywhere. The same figure gives the same
    bytes: no dates, and names inside the SVG that depend on nothing but what is drawn.
    """
    import matplotlib

    base = Path(path)
    svg, png = base.with_name(f"{base.name}.svg"), base.with_name(f"{base.name}.png")
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "mixts"}):
        with replacing(svg) as part:
            figure.savefig(part, format="svg", metadata={"Date": None, "Creator": None})
        with replacing(png) as part:
            figure.savefig(part, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return svg, png
