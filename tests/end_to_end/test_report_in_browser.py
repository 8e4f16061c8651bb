"""The report in a real browser: wide and narrow, light and dark, on screen and on paper."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mixts.pages import write_report
from tests.requirements import find_chromium, require
from tests.unit.pages.sample_reports import COMMAND, hostile_report, typical_report

WIDE, NARROW = (1400, 900), (390, 844)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip

# Every piece of text that can be seen: its colour, and the first colour behind it.
COLOURS = """() => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.data.trim();
        const element = walker.currentNode.parentElement;
        if (!text || !element.checkVisibility()) continue;
        let behind = element;
        const colour = (e) => getComputedStyle(e).backgroundColor;
        while (behind && colour(behind) === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
        const verdict = element.classList.contains('badge');
        found.push([text, verdict, getComputedStyle(element).color, colour(behind)]);
    }
    return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = find_chromium()
    require("chromium", path is not None, "no Chromium is installed")
    require("chromium", find_spec("playwright") is not None, "playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two pages, loaded once; what they asked for and complained of stays with them."""
    folder = tmp_path_factory.mktemp("report")
    reports = {"typical": typical_report(), "hostile": hostile_report()[0]}
    loaded = {}
    for name, report in reports.items():
        write_report(report, folder / f"{name}.html")
        page = loaded[name] = browser.new_page()
        page.asked, page.complaints = [], []
        page.on("request", lambda request, page=page: page.asked.append(request.url[:99]))
        for event in ("console", "pageerror", "requestfailed"):
            page.on(event, lambda what, page=page: page.complaints.append(str(what)))
        page.goto((folder / f"{name}.html").as_uri(), wait_until="networkidle")
    return loaded


@pytest.fixture
def page(pages: dict[str, Any]) -> Any:
    """The typical page in a wide window, at its top and with nothing in focus."""
    page = pages["typical"]
    page.emulate_media(media="screen", color_scheme="light")
    resize(page, WIDE)
    page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    return page


def resize(page: Any, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})


@pytest.mark.parametrize("name", ["typical", "hostile"])
def test_the_page_asks_for_nothing_and_complains_of_nothing(
    pages: dict[str, Any], name: str
) -> None:
    page = pages[name]
    assert page.complaints == []
    address = page.url.partition("#")[0]  # another test may have followed a link inside it
    assert {url for url in page.asked if not url.startswith("data:")} <= {address}
    assert page.title() != "taken"
    widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert len(widths) >= 2
    assert min(widths) > 0


@pytest.mark.parametrize("name", ["typical", "hostile"])
def test_the_page_fits_its_window(pages: dict[str, Any], name: str) -> None:
    for size in (WIDE, NARROW, (320, 600), (760, 900), (1100, 800)):
        resize(pages[name], size)
        assert pages[name].evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    colours = page.evaluate(COLOURS)
    ratios = {text: contrast(ink, behind) for text, _, ink, behind in colours}
    assert {text: ratio for text, ratio in ratios.items() if ratio < 4.5} == {}
    badges = {(text, ink) for text, verdict, ink, _ in colours if verdict}
    assert {text for text, _ in badges} == {"holds", "direction only", "does not hold"}
    assert len({ink for _, ink in badges}) == 3
    paper = luminance(next(behind for text, _, _, behind in colours if text == "Contents"))
    assert (paper > 0.8) if scheme == "light" else (paper < 0.05)


def test_headings_and_landmarks(page: Any) -> None:
    script = "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => Number(h.tagName[1]))"
    levels = page.evaluate(script)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(after - before for before, after in pairwise(levels)) == 1
    for selector in ("main", "nav", "body > div > header"):
        assert page.locator(selector).count() == 1


def test_contents_are_beside_the_text_where_there_is_room(page: Any) -> None:
    contents, main = page.locator(".contents"), page.locator("main")
    assert contents.bounding_box()["x"] < main.bounding_box()["x"] - 200
    page.evaluate("scrollTo(0, 2000)")
    assert contents.bounding_box()["y"] == 0
    assert main.bounding_box()["y"] < -1000


def test_contents_are_folded_on_a_phone(page: Any) -> None:
    link = page.locator(".contents a:visible", has_text="RiverSwim")
    assert link.count() == 1
    resize(page, NARROW)
    summary, contents = page.locator(".summary"), page.locator(".contents")
    top, folded, main = (e.bounding_box() for e in (summary, contents, page.locator("main")))
    assert top["y"] + top["height"] <= folded["y"]
    assert folded["y"] + folded["height"] <= main["y"]
    assert folded["y"] + folded["height"] < NARROW[1]
    assert link.count() == 0
    contents.locator("summary").click()
    assert link.count() == 1
    assert contents.bounding_box()["height"] > 2 * folded["height"]
    contents.locator("summary").click()


def test_a_wide_figure_is_shaded_where_it_goes_on(page: Any) -> None:
    resize(page, NARROW)
    card = page.locator(".wide .card")
    card.scroll_into_view_if_needed()
    # White in place of the drawing, which has no white to see the shade through.
    cover = "e => e.querySelector('img').style.filter = 'brightness(0) invert(1)'"
    card.evaluate(cover)
    left, right = edges(card.screenshot())
    assert left > 0.95
    assert right < 0.85
    card.evaluate("e => e.scrollLeft = e.scrollWidth")
    left, right = edges(card.screenshot())
    assert left < 0.85
    assert right > 0.95
    card.evaluate("e => (e.scrollLeft = 0, e.querySelector('img').style.filter = '')")


def test_figures_are_softer_in_the_dark(page: Any) -> None:
    drawing = page.locator(".card").first
    drawing.scroll_into_view_if_needed()
    drawing.locator("img").evaluate("e => e.style.filter = 'brightness(0) invert(1)'")
    light = middle(drawing.screenshot())
    page.emulate_media(color_scheme="dark")
    dark = middle(drawing.screenshot())
    drawing.locator("img").evaluate("e => e.style.filter = ''")
    assert light == 1.0
    assert 0.8 < dark < 0.95


def test_rules_go_on_below_cells_that_stick(page: Any) -> None:
    """At each rule the first cell, which sticks, and the second have it, wherever pixels begin."""
    resize(page, NARROW)
    page.emulate_media(color_scheme="dark")
    box = page.locator(".scroll")
    box.scroll_into_view_if_needed()
    cells = box.locator("tbody tr").first.locator("th, td")
    start = box.bounding_box()["x"]
    places = [cells.nth(i).bounding_box() for i in (0, 1)]
    # In the space that each cell has after its words.
    columns = [int(place["x"] + place["width"] - start) - 6 for place in places]
    for step in range(8):
        page.evaluate("step => document.body.style.paddingTop = `${step / 8}px`", step)
        pixels = grey_levels(box.screenshot())
        rules = [np.flatnonzero(pixels[:, x] > pixels.min() + 0.05).tolist() for x in columns]
        assert len(rules[1]) >= 4
        assert rules[0] == rules[1], step
    page.evaluate("document.body.style.paddingTop = ''")


def test_claims_are_a_table_or_cards(page: Any) -> None:
    script = """() => {
        const table = document.querySelector('table.claims').getBoundingClientRect();
        const cells = [...document.querySelectorAll('table.claims tbody td[data-label]')];
        return cells.map(cell => cell.getBoundingClientRect().width / table.width);
    }"""
    assert max(page.evaluate(script)) < 0.45
    resize(page, NARROW)
    assert min(page.evaluate(script)) > 0.95


def test_a_wide_table_scrolls_in_its_own_box(page: Any) -> None:
    resize(page, NARROW)
    box = page.locator(".scroll")
    box.focus()
    assert box.evaluate("e => e === document.activeElement && e.scrollWidth > 3 * e.clientWidth")
    caption = page.locator(".table figcaption").bounding_box()
    assert caption["x"] + caption["width"] <= NARROW[0]
    heading = page.locator(".scroll tbody th").first
    before = heading.bounding_box()["x"]
    box.evaluate("e => e.scrollLeft = 500")
    assert box.evaluate("e => e.scrollLeft") == 500
    assert heading.bounding_box()["x"] == before


def test_a_claim_leads_to_its_section(page: Any) -> None:
    page.locator("table.claims a").last.click()
    assert page.evaluate("decodeURIComponent(location.hash)") == "#paper/riverswim"
    top = page.locator("[id='paper/riverswim']").bounding_box()["y"]
    assert 0 <= top < WIDE[1]


def test_the_keyboard_reaches_the_content_first(page: Any) -> None:
    page.goto(page.url.partition("#")[0])
    page.keyboard.press("Tab")
    skip = page.locator(".skip")
    assert skip.evaluate("e => e === document.activeElement")
    assert skip.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_one_click_selects_a_command(page: Any) -> None:
    resize(page, NARROW)
    page.locator(".command code").first.click()
    assert page.evaluate("getSelection().toString()") == COMMAND


def test_on_paper(page: Any) -> None:
    """A page as wide as A4 between its margins, in a dark window."""
    resize(page, (665, 900))
    page.emulate_media(media="print", color_scheme="dark")
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert page.evaluate(style.format("html", "backgroundColor")) == "rgb(255, 255, 255)"
    assert page.evaluate(style.format("figure", "breakInside")) == "avoid"
    assert page.evaluate(style.format("main a", "textDecorationLine")) == "none"
    assert not page.locator(".contents").is_visible()
    assert page.evaluate(style.format("table.claims tbody tr", "display")) == "table-row"


def grey_levels(png: bytes) -> Any:
    """The pixels of a picture, from 0 to 1."""
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("L"), float) / 255


def edges(png: bytes) -> tuple[float, float]:
    """Return the lightness of a card at its left and right edge, inside the border."""
    pixels = grey_levels(png)
    row = pixels[len(pixels) // 2]
    return float(row[3]), float(row[-4])


def middle(png: bytes) -> float:
    """Return the lightness of a card in its middle."""
    pixels = grey_levels(png)
    return float(pixels[len(pixels) // 2, pixels.shape[1] // 2])


def contrast(first: str, second: str) -> float:
    """The ratio of contrast of two opaque colours, from 1 to 21, as WCAG 2 defines it."""
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of ``rgb(r, g, b)``."""
    match = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour)
    assert match, colour
    channels = [int(value) / 255 for value in match.groups()]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
