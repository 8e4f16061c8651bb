"""One style for all figures: legible at a column's width, in print and for the colour-blind."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixts._files import replacing
from mixts.errors import MissingExtraError, ParameterError

COLUMN, PAGE = 3.4, 7.0
"""The width of a column and of a page, in inches."""
FONT = 8.0
LINE = 1.3
INK = "#333333"
GREY = "#767676"
"""Colour of bounds and of everything else that is drawn for comparison."""
PNG_DPI = 200
_NOTEBOOK_DPI = 120
"""Pixels of an inch in a notebook."""

DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (1.3, 1.1)),
    (0, (2.8, 1.3)),
    (0, (6, 1.3, 1.3, 1.3, 1.3, 1.3)),
)
"""Lines differ by dashes as well as by colour, for print without colour."""
VARIANT_DASHES: tuple[Any, ...] = (
    (0, (9, 3)),
    (0, (1.3, 2.8)),
    (0, (9, 2, 3, 2)),
    (0, (3, 3)),
)
VARIANT_SHADES = (0.5, 0.75)
"""Brightness of a variant's colour, from black (0) to the original's (1). At one half, readers who
see no red or no green tell it from the original and from every other agent."""


class Look(NamedTuple):
    """The colour and the dashes of a line."""

    color: str
    dashes: Any


LOOKS = {
    "MixTS": Look("#0072B2", DASHES[0]),
    "UniTS": Look("#009E73", DASHES[1]),
    "TS": Look("#D55E00", DASHES[2]),
    # PSRL is TS for MDPs: the same colour, and never in the same figure.
    "PSRL": Look("#D55E00", DASHES[4]),
    "CorralExp4": Look("#CC79A7", DASHES[4]),
    "Exp4": Look("#E69F00", DASHES[5]),
    "Oracle": Look("#000000", DASHES[3]),
    # Other policies on the belief of MixTS. They are never in a figure with Exp4 and CorralExp4,
    # whose looks two of them have.
    "MixIDS": Look("#E69F00", DASHES[5]),
    "Greedy": Look("#CC79A7", DASHES[4]),
    "BayesUCB": Look("#80BA5A", DASHES[2]),
}
"""Looks of agents by name, the same in every figure. Colours are Okabe and Ito's, but for one."""

MARKERS = ("o", "D", "s", "^", "v", "P")
"""Marks of agents differ in shape as well as in colour."""

PALETTE = ("#882255", "#332288", "#56B4E9")
"""Colours of agents with other names: two of Tol's, and one more of Okabe and Ito's."""

COMPONENTS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#332288", "#882255",
)  # fmt: skip
"""Colours of the components of a prior, side by side: those of the dashboard's kinds."""


def looks(names: Sequence[str], shown: Sequence[str] | None = None) -> dict[str, Look]:
    """Return the look of each agent of a result.

    A name that begins with a name of ``LOOKS``, such as "PSRL, neighbours", is a variant: it has a
    darker shade of the original's colour, and dashes that only variants have. They depend only on
    the number of variants before it among those that are ``shown`` (by default, all).
    """
    result: dict[str, Look] = {}
    n_others = n_variants = 0
    for name in names:
        match = re.match(r"\w+", name)
        original = match.group() if match else ""
        if name in LOOKS:
            result[name] = LOOKS[name]
        elif original in LOOKS:
            result[name] = _variant(LOOKS[original], n_variants)
            n_variants += shown is None or name in shown
        else:
            # Colour and dashes change from agent to agent; the first 18 pairs all differ.
            dashes = DASHES[(n_others + n_others // len(DASHES)) % len(DASHES)]
            result[name] = Look(PALETTE[n_others % len(PALETTE)], dashes)
            n_others += 1
    return result


def _variant(original: Look, rank: int) -> Look:
    row, column = divmod(rank, len(VARIANT_DASHES))
    shade = VARIANT_SHADES[row % len(VARIANT_SHADES)]
    channels = [int(original.color[i : i + 2], 16) for i in (1, 3, 5)]
    if not any(channels):
        # Nothing is darker than black: its variants are shades of grey.
        channels = [0x99] * 3
    color = "#" + "".join(f"{int(shade * channel):02X}" for channel in channels)
    return Look(color, VARIANT_DASHES[column])


def legible(color: str) -> str:
    """Darken a colour for text until its contrast with white is 4.5, as WCAG 2 asks."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    shade = 1.0
    while 1.05 / (_luminance([shade * channel for channel in channels]) + 0.05) < 4.5:
        shade -= 0.02
    return "#" + "".join(f"{int(255 * shade * channel):02X}" for channel in channels)


def _luminance(channels: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def new_figure(width: float = COLUMN, height: float = 2.5) -> Any:
    """Return an empty figure that pyplot does not know, so that nothing has to close it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot needs matplotlib: pip install 'mixts[plots]'") from error
    figure: Any = Figure(figsize=(width, height), layout="constrained", dpi=PNG_DPI)
    figure._repr_png_ = partial(_notebook_png, figure)
    return figure


def _notebook_png(figure: Any) -> tuple[bytes, dict[str, Any]]:
    """Return the picture that notebooks show, with more pixels than its size for dense screens."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    width, height = (round(_NOTEBOOK_DPI * inches) for inches in figure.get_size_inches())
    return stream.getvalue(), {"width": width, "height": height}


def new_axes(width: float = COLUMN, height: float = 2.5) -> Any:
    """Return the axes of a new figure.

    Parameters
    ----------
    width, height
        Size of the figure, in inches.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, in the style of mixts.
    """
    axes = new_figure(width, height).subplots()
    dress(axes)
    return axes


def given_axes(ax: Any, n: int, what: str) -> list[Any]:
    """Return the axes that a caller gave: one, or a list or an array of n."""
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) != n or not all(hasattr(one, "set_xlabel") for one in axes):  # a figure has none
        raise ParameterError(
            f"{what} needs ax to be {'axes' if n == 1 else f'a list or an array of {n} axes'}, as "
            f"from plt.subplots({'' if n == 1 else f'1, {n}'}), got {len(axes)}: {ax!r}"
        )
    return axes


def new_panels(
    n: int, width: float = PAGE, height: float = 2.4, titles: Sequence[str] = ()
) -> list[Any]:
    """Return several axes side by side in a new figure.

    Parameters
    ----------
    n
        Number of panels.
    width, height
        Size of the figure, in inches.
    titles
        Title of each panel.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes, in the style of mixts.
    """
    if titles and len(titles) != n:
        raise ParameterError(f"expected a title for each of {n} panels, got {list(titles)}")
    panels = list(new_figure(width, height).subplots(1, n, squeeze=False)[0])
    panels[0].figure.get_layout_engine().set(wspace=0.04)
    for ax, title in zip(panels, titles or [""] * n, strict=True):
        dress(ax)
        ax.set_title(title, loc="left", size=FONT, color=INK)
    return panels


def dress(ax: Any) -> None:
    """Style axes: two thin spines, small ticks, light horizontal lines."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set(color=INK, linewidth=0.6)
    ax.tick_params(labelsize=FONT - 1, length=2.5, width=0.6, color=INK, labelcolor=INK)
    ax.tick_params(
        which="minor", labelsize=FONT - 2, length=1.5, width=0.4, color=INK, labelcolor=INK
    )
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.5)
    ax.set_axisbelow(True)
    for label in (ax.xaxis.label, ax.yaxis.label, ax.title):
        label.set(size=FONT, color=INK)


def svg_of(figure: Any) -> bytes:
    """Return a figure as SVG; the same figure gives the same bytes.

    Text is drawn as shapes, so that it looks the same everywhere. There is no date, and ids depend
    only on the drawing.
    """
    import matplotlib

    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "mixts"}):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def save_figure(figure: Any, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a figure to ``path``.svg and ``path``.png, atomically and without dates.

    Parameters
    ----------
    figure
        A matplotlib figure, such as :func:`plot` returns.
    path
        Path of the files without their suffixes.

    Returns
    -------
    The paths of the SVG and of the PNG.
    """
    base = Path(path)
    svg, png = base.with_name(f"{base.name}.svg"), base.with_name(f"{base.name}.png")
    with replacing(svg) as part:
        part.write_bytes(svg_of(figure))
    with replacing(png) as part:
        figure.savefig(part, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return svg, png
