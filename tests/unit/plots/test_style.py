"""One style: looks that tell agents apart, labels that can be read, files that are the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_paper.analysis.identification import Identification

import mixts
from mixts import errors
from mixts.plots import draw_intervals, new_panels, save_figure
from mixts.plots.lines import End, draw_lines, label_ends, spread
from mixts.plots.style import DASHES, LOOKS, PALETTE, legible, looks, new_axes
from mixts.simulation import Estimate
from mixts.simulation.results import Sweep

# -- looks --------------------------------------------------------------------------------------

COLOR_BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""Maps of linear RGB to what colour-blind people see (Machado et al. 2009, severity 1)."""
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear_rgb(color: str) -> np.ndarray:
    c = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("blindness", COLOR_BLINDNESS)
def test_the_colour_blind_can_tell_colours_apart(blindness: str) -> None:
    colors = {look.color for look in LOOKS.values()} | set(PALETTE)
    assert len(colors) == 10
    seen = [lab(np.array(COLOR_BLINDNESS[blindness]) @ linear_rgb(color)) for color in colors]
    gaps = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)]
    # 2.3 is the least difference that is noticed side by side; thin lines far apart need more.
    assert min(gaps) > 15


def test_the_papers_agents_look_the_same_everywhere() -> None:
    assert looks(["PSRL", "MixTS"])["MixTS"] == looks(["MixTS", "x", "TS"])["MixTS"]
    assert looks(list(LOOKS)) == LOOKS
    # In any figure of the paper they differ by dashes alone, as in a copy without colour.
    for names in (
        {"MixTS", "UniTS", "TS", "CorralExp4", "Exp4", "Oracle"},
        {"MixTS", "UniTS", "PSRL", "Oracle"},
        {"MixTS", "MixIDS", "Greedy", "BayesUCB", "UniTS", "Oracle"},
    ):
        assert len({LOOKS[name].dashes for name in names}) == len(names)
        assert len({LOOKS[name].color for name in names}) == len(names)


def test_variants_have_a_shade_of_their_originals_colour_and_dashes_of_their_own() -> None:
    names = ["PSRL, neighbours", "PSRL", "UniTS", "Exp4 (tuned)", "Exp4, loss", "Exp4"]
    style = looks(names)
    assert list(style) == names
    # #D55E00 and #E69F00, halved and rounded down.
    assert style["PSRL, neighbours"].color == "#6A2F00"
    assert style["Exp4 (tuned)"].color == style["Exp4, loss"].color == "#734F00"
    assert len({look.dashes for look in style.values()}) == 6
    assert looks(["Oracle, late"])["Oracle, late"].color == "#4C4C4C"
    many = looks([f"TS {i}" for i in range(8)])
    assert len(set(many.values())) == 8


def test_a_variant_looks_the_same_whoever_is_beside_it() -> None:
    agents = ["MixTS", "Exp4, a", "Exp4, b", "Exp4", "Exp4, c"]
    shown = looks(agents, ["Exp4", "Exp4, c"])
    assert shown["Exp4, c"] == looks(["Exp4, c"])["Exp4, c"] == looks(agents)["Exp4, a"]
    assert shown["Exp4"] == LOOKS["Exp4"]


@pytest.mark.parametrize("blindness", COLOR_BLINDNESS)
def test_the_colour_blind_can_tell_a_variant_from_the_papers_agents(blindness: str) -> None:
    def seen(color: str) -> np.ndarray:
        return lab(np.array(COLOR_BLINDNESS[blindness]) @ linear_rgb(color))

    variants = [looks([f"{name}, other"])[f"{name}, other"].color for name in LOOKS]
    gaps = {
        (variant, look.color): float(np.linalg.norm(seen(variant) - seen(look.color)))
        for variant in variants
        for look in LOOKS.values()
    }
    assert min(gaps.values()) > 15


def test_other_agents_take_other_colours() -> None:
    names = [f"agent{i}" for i in range(18)]
    style = looks(["MixTS", *names, "MixTSy"])
    taken = {look.color for look in LOOKS.values()}
    assert not taken & {style[name].color for name in (*names, "MixTSy")}
    assert len({style[name] for name in names}) == 18
    assert looks(["?"])["?"] == (PALETTE[0], DASHES[0])


def test_text_is_dark_enough_to_be_read() -> None:
    luminance = np.array([0.2126, 0.7152, 0.0722])
    for color in (*(look.color for look in LOOKS.values()), *PALETTE):
        text = legible(color)
        # Rounded down to whole channels: never lighter than asked.
        assert 1.05 / (luminance @ linear_rgb(text) + 0.05) >= 4.5
    assert legible("#000000") == "#000000"
    assert legible("#0072B2") == "#0072B2"


# -- labels -------------------------------------------------------------------------------------


def learning(ends: dict[str, float], n_rounds: int = 500) -> mixts.Results:
    """Results whose curves end at these mean rewards."""
    rng = np.random.default_rng(0)
    rise = 1 - np.exp(-np.arange(n_rounds) / 60)
    reward = {n: end * rise * rng.uniform(0.9, 1.1, (10, n_rounds)) for n, end in ends.items()}
    settings = {"n_runs": 10, "n_rounds": n_rounds, "seed": 0}
    regret = {name: 1 - array for name, array in reward.items()}
    return mixts.Results(regret, reward, np.zeros(10, np.int64), settings)


IMAGES = learning(
    {
        "MixTS": 0.9, "UniTS": 0.88, "TS": 0.5, "CorralExp4": 0.46, "Exp4": 0.45,
        "Exp4, tuned by hand": 0.45, "Oracle": 0.91,
    }
)  # fmt: skip
WIDTHS = np.array([0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5])
SWEEP = Sweep("prior width", WIDTHS, {"MixTS": 10 + np.outer(WIDTHS, np.arange(50.0))})
TWO_AGENTS = Sweep("width", WIDTHS, {"MixTS": SWEEP.totals["MixTS"], "Oracle": np.ones((10, 50))})
BOUNDS = {"Theorem 1 / 30": 40 * WIDTHS + 11, "Theorem 1, appendix / 30": 40 * WIDTHS + 10}


def made_up_identification(n_rounds: int = 200, n_actions: int = 30) -> Identification:
    rng = np.random.default_rng(0)
    weights = np.full((n_rounds + 1, 4), 0.25)
    weights[20:] = [1, 0, 0, 0]
    means = rng.normal(size=(n_rounds + 1, n_actions))
    return Identification(
        0, rng.normal(size=n_actions), weights, means, np.ones_like(means),
        rng.integers(4, size=n_rounds), rng.integers(n_actions, size=n_rounds),
        np.zeros(n_rounds), np.zeros(n_rounds), ("a class of a very long name", "b", "c", "d"),
    )  # fmt: skip


def three_panels() -> Any:
    left, middle, right = new_panels(3, titles=["prior width", "prior width, log", "images"])
    mixts.plot(SWEEP, left, bounds=BOUNDS)
    mixts.plot(SWEEP, middle, bounds=BOUNDS).set_yscale("log")
    mixts.plot(IMAGES, right, quantity="reward")
    return left.figure


def two_panels() -> Any:
    river = learning({"Oracle": 0.999, "MixTS": 0.998, "UniTS": 0.997, "PSRL": 0.1})
    left, right = new_panels(2, titles=["regret", "the same"])
    mixts.plot(river, left, rounds="episode")
    mixts.plot(river, right, log=True, rounds="episode")
    return left.figure


def formulas() -> Any:
    """Labels that are taller than letters, one above the other."""
    ax, x = new_axes(), np.array([1.0, 2.0])
    names = [r"order $d^{3/2}\sqrt{n}$", r"$\sum_{t=1}^n \sigma_t$", "Theorem 1", r"$\sqrt{L n}$"]
    draw_lines(ax, x, dict.fromkeys(names, x), "round", "bound")
    return ax.figure


def intervals() -> Any:
    """Rows of estimates with groups of rows, and lines to compare with."""
    ax = new_axes(5.4, 3.0)
    rows = ["the paper's counts", "counts × 10", "", "+ 0.1, transitions only"]
    some = [Estimate(2.0, 0.2), Estimate(5.0, 0.5), Estimate(np.nan, np.nan), Estimate(19.0, 1.0)]
    draw_intervals(
        ax, rows, {"MixTS": some, "UniTS": some}, "regret", log=True, lines={"PSRL": 200.0}
    )
    return ax.figure


def changed_later() -> Any:
    """Limits and sizes that change after the drawing."""
    figure = mixts.plot(IMAGES, quantity="reward")
    figure.axes[0].set_ylim(-3, 5)
    figure.set_size_inches(3.4, 2.0)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "images": lambda: mixts.plot(IMAGES, quantity="reward"),
    "regret": lambda: mixts.plot(IMAGES),
    "sweep": lambda: mixts.plot(SWEEP, bounds=BOUNDS),
    "three panels": three_panels,
    "two panels": two_panels,
    "identification": lambda: mixts.plot(made_up_identification()),
    "changed later": changed_later,
    "formulas": formulas,
    "intervals": intervals,
    "medians": lambda: mixts.plot(TWO_AGENTS),
}


def text_boxes(figure: Any) -> dict[str, Any]:
    """Where all that can be read is, in pixels; ticks that are out of sight are not drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    boxes = {}
    for i, ax in enumerate(figure.axes):
        texts = [*ax.texts, ax.xaxis.label, ax.yaxis.label, ax.title, ax._left_title]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [tick.label1 for tick in ticks if tick.label1.get_visible()]
        for j, text in enumerate(texts):
            if text.get_text():
                boxes[f"{text.get_text()} ({i}, {j})"] = text_extent(text, renderer)
    return boxes


def text_extent(text: Any, renderer: Any) -> Any:
    """Of the letters alone: an annotation's own extent includes the line to what it names."""
    from matplotlib.text import Text

    if hasattr(text, "update_positions"):
        text.update_positions(renderer)
    return Text.get_window_extent(text, renderer)


@pytest.mark.parametrize("name", FIGURES)
def test_texts_neither_touch_nor_leave_the_figure(name: str) -> None:
    figure = FIGURES[name]()
    boxes = text_boxes(figure)
    assert len(boxes) > 8
    for (one, box), (other, second) in itertools.combinations(boxes.items(), 2):
        assert not box.overlaps(second), (one, other)
    width, height = figure.bbox.width, figure.bbox.height
    for one, box in boxes.items():
        assert box.x0 >= 0, one
        assert box.y0 >= 0, one
        assert box.x1 <= width, one
        assert box.y1 <= height, one


def test_axes_keep_most_of_a_column() -> None:
    figure = FIGURES["images"]()
    figure.draw_without_rendering()
    ax = figure.axes[0]
    assert ax.bbox.width > 0.5 * figure.bbox.width
    assert ax.bbox.height > 0.7 * figure.bbox.height


def test_labels_stand_beside_the_ends_of_their_lines() -> None:
    ax = new_axes()
    ends = {"high": 9.0, "middle": 5.0, "low": 1.0}
    ax.set(xlim=(0, 10), ylim=(0, 10))
    label_ends(ax, [End(name, "#000000", 10.0, y) for name, y in ends.items()])
    for scale in ("linear", "log"):
        ax.set_yscale(scale)
        ax.set_ylim(0.5, 10)
        boxes = text_boxes(ax.figure)
        for i, (name, y) in enumerate(ends.items()):
            box = boxes[f"{name} (0, {i})"]
            mark = ax.transData.transform((10, y))
            # Half a point: letters without descenders are centred with their line.
            assert abs((box.y0 + box.y1) / 2 - mark[1]) < 0.5 * ax.figure.dpi / 72
            assert box.x0 > mark[0]


def test_long_names_are_broken_before_a_factor() -> None:
    wide, *_, narrow = new_axes(), *new_panels(3)
    for ax, expected in (
        (wide, ["Theorem 1 ×_1/30", "Theorem 1,\nappendix /_30", "kept\nas it is"]),
        (narrow, ["Theorem 1\n×_1/30", "Theorem 1,\nappendix\n/_30", "kept\nas it is"]),
    ):
        names = ["Theorem 1 × 1/30", "Theorem 1, appendix / 30", "kept\nas it is"]
        label_ends(ax, [End(name, "#000000", 0.0, 0.0) for name in names])
        shown = [text.get_text().replace("\N{NO-BREAK SPACE}", "_") for text in ax.texts]
        assert shown == expected


def test_formulas_are_kept_whole_and_count_as_they_look() -> None:
    wide, *_, narrow = new_axes(), *new_panels(3)
    root = r"$d^{3/2} \sqrt{n}$"
    for ax, expected in ((wide, [f"order {root}"]), (narrow, [f"order\n{root}"])):
        label_ends(ax, [End(f"order {root}", "#000000", 0.0, 0.0)])
        assert [text.get_text() for text in ax.texts] == expected
    label_ends(wide, [End("$a b$ and $c$", "#000000", 0.0, 0.0)])
    assert wide.texts[-1].get_text() == "$a b$ and $c$"


def test_a_line_out_of_sight_is_labelled_at_the_edge() -> None:
    ax = new_axes()
    ax.set(xlim=(0, 10), yscale="log", ylim=(0.1, 10))
    label_ends(ax, [End("nothing", "#000000", 10.0, 0.0), End("much", "#000000", 10.0, 1e9)])
    boxes = text_boxes(ax.figure)
    nothing, much = boxes["nothing (0, 0)"], boxes["much (0, 1)"]
    assert ax.bbox.y0 - 1 <= nothing.y0 < nothing.y1 < ax.bbox.y0 + 0.2 * ax.bbox.height
    assert ax.bbox.y1 - 0.2 * ax.bbox.height < much.y0 < much.y1 <= ax.bbox.y1 + 1
    for annotation in ax.texts:
        ends = annotation.arrow_patch.get_path().vertices
        assert np.isfinite(ends).all()
        assert ends[:, 1].max() < ax.figure.bbox.height


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([0.0, 1.0], [0.0, 1.0]),
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.55, 0.5, 0.0], [0.575, 0.475, 0.0]),
        ([0.5, 0.5, 0.5, 0.9], [0.4, 0.5, 0.6, 0.9]),
        ([0.5, 0.52, 0.63], [0.45, 0.55, 0.65]),
    ],
)
def test_labels_move_apart(positions: list[float], expected: list[float]) -> None:
    moved = spread(positions, [0.1] * len(positions))
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    assert np.diff(sorted(moved)).min() > 0.1 - 1e-12


def test_labels_of_several_sizes_between_bounds() -> None:
    # The larger one takes 0.2 on each side of its middle.
    np.testing.assert_allclose(spread([0.5, 0.5], [0.4, 0.2]), [0.35, 0.65])
    np.testing.assert_allclose(spread([0.0, 1.0], [0.4, 0.2], 0.0, 1.0), [0.2, 0.9])
    np.testing.assert_allclose(spread([0.0, 0.0], [0.4, 0.2], 0.0, 1.0), [0.2, 0.5])
    # Too many for the room: centred.
    np.testing.assert_allclose(spread([0.0, 0.0], [1.0, 1.0], 0.0, 1.0), [0.0, 1.0])


def test_least_squares_is_what_moves_labels() -> None:
    from scipy.optimize import minimize

    rng = np.random.default_rng(1)
    positions, sizes = np.sort(rng.random(6)), rng.uniform(0.05, 0.2, 6)
    gaps = (sizes[1:] + sizes[:-1]) / 2
    best = minimize(
        lambda x: ((x - positions) ** 2).sum(), positions, method="SLSQP", options={"ftol": 1e-12},
        constraints=[{"type": "ineq", "fun": lambda x: np.diff(x) - gaps}],
    )  # fmt: skip
    np.testing.assert_allclose(spread(positions.tolist(), sizes.tolist()), best.x, atol=1e-5)


# -- figures and files --------------------------------------------------------------------------


def test_panels() -> None:
    panels = new_panels(3, width=6.0, height=2.0, titles=["a", "b", "c"])
    assert [ax.get_title(loc="left") for ax in panels] == ["a", "b", "c"]
    assert {id(ax.figure) for ax in panels} == {id(panels[0].figure)}
    assert panels[0].figure.get_size_inches().tolist() == [6.0, 2.0]
    with pytest.raises(errors.ParameterError, match=r"each of 2 panels, got \['a'\]"):
        new_panels(2, titles=["a"])


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    first = save_figure(FIGURES["sweep"](), tmp_path / "one.a")
    second = save_figure(FIGURES["sweep"](), tmp_path / "two")
    assert first == (tmp_path / "one.a.svg", tmp_path / "one.a.png")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([*first, *second])


def test_files_are_of_the_right_kind(tmp_path: Path) -> None:
    from PIL import Image

    svg, png = save_figure(FIGURES["sweep"](), str(tmp_path / "figure"))
    text = svg.read_text()
    assert "<svg" in text
    assert "<text" not in text
    assert "dc:date" not in text
    with Image.open(png) as image:
        assert image.size == (680, 500)


def test_a_figure_that_cannot_be_drawn_leaves_the_old_file(tmp_path: Path) -> None:
    figure = new_axes().figure
    svg, png = save_figure(figure, tmp_path / "figure")
    before = svg.read_bytes(), png.read_bytes()
    figure.axes[0].set_title("$\\nonsense$")
    with pytest.raises(ValueError, match="nonsense"):
        save_figure(figure, tmp_path / "figure")
    assert (svg.read_bytes(), png.read_bytes()) == before
    assert sorted(tmp_path.iterdir()) == [png, svg]
