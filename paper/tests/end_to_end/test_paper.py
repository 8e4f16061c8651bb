"""All of the paper's experiments, played a little: the whole way from the command to the report."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from mixts_paper.experiments import Reproduction, report, reproduce
from mixts_paper.experiments.base import chosen
from mixts_paper.experiments.paper import images

from mixts.cli import parser

SECTION_6 = [
    ("paper/width", "shape of the regret as a function of the prior width"),
    ("paper/components", "shape of the regret as a function of the number of latent states"),
    ("paper/images", "greatly outperforms UniTS, especially during the cold start"),
    ("paper/images", "greatly outperforms TS, especially during the cold start"),
    ("paper/images", "MixTS also outperforms Exp4"),
    ("paper/images", "against Exp4 tuned by hand"),
    ("paper/images", "MixTS also outperforms CorralExp4"),
    ("paper/images", "against CorralExp4 tuned by hand"),
    ("paper/riverswim", "MixTS greatly outperforms PSRL, which has a uniform prior"),
    ("paper/riverswim", "knows which states are neighbours"),
    ("paper/riverswim", "identifies the direction of the current"),
    ("paper/riverswim", "The optimal policy swims against the current"),
]
"""The claims of the paper's Section 6, and the experiment that measures each."""


def save_svg(figure: Any, path: Path) -> tuple[Path]:
    """Save a figure with neither a PNG nor a layout, which other tests look at.

    Drawing takes most of the time.
    """
    svg = path.with_name(f"{path.name}.svg")
    figure.set_layout_engine("none")
    with matplotlib.rc_context({"svg.hashsalt": "mixts"}):
        figure.savefig(svg, metadata={"Date": None})
    return (svg,)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reproduction]:
    """Every experiment with few runs and rounds, and a prior for images from few past tasks."""
    out = tmp_path_factory.mktemp("paper") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "save_figure", save_svg)
        patch.setattr(images, "N_TASKS", 60)
        yield reproduce(out=out, n_runs=3, n_rounds=6, engine=1)


def test_every_experiment_has_a_section_with_a_figure(played: Reproduction) -> None:
    assert [section.id for section in played.sections] == list(chosen(()))
    for section in played.sections:
        assert section.figures
        assert section.tables
        for figure in section.figures:
            for file in figure.files:
                assert (played.folder / file).stat().st_size > 1000
        assert section.command.startswith(f"mixts reproduce {section.id} --runs 3 --rounds 6")


@pytest.mark.parametrize(("id", "words"), SECTION_6)
def test_each_claim_of_section_6_has_a_row(played: Reproduction, id: str, words: str) -> None:
    (section,) = (section for section in played.sections if section.id == id)
    matching = [claim for claim in section.claims if re.search(words, claim.claim)]
    assert len(matching) == 1
    assert matching[0].place.startswith("Sec. 6")


def test_every_claim_has_what_was_measured_and_a_verdict(played: Reproduction) -> None:
    assert len(played.claims) >= len(SECTION_6) + 4
    for claim in played.claims:
        assert re.search(r"\d", claim.measured)
        assert not re.search(r"\b(nan|inf)\b", claim.measured + claim.note)
        assert claim.verdict in ("holds", "direction only", "undecided", "does not hold")


def test_every_printed_command_is_one(played: Reproduction) -> None:
    commands = re.findall(r'<pre class="command".*?</pre>', played.report.read_text(), re.DOTALL)
    assert len(commands) == len(played.sections) + 1
    for command in commands:
        words = shlex.split(html.unescape(re.sub("<[^>]+>", "", command)))
        assert words[0] == "mixts"
        options = parser().parse_args(words[1:])
        assert (options.runs, options.rounds, options.seed) == (3, 6, 1)


class Page(HTMLParser):
    """Parser that collects a page's text and the addresses that it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "src" or (tag == "link" and name == "href"):
                self.loaded.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_report_stands_alone(played: Reproduction) -> None:
    page = Page()
    page.feed(played.report.read_text(encoding="utf-8"))
    assert page.loaded
    assert all(source.startswith("data:") for source in page.loaded)
    text = " ".join(page.text)
    for words in ("not the full scale", "numpy", "seed", "Theorem 1", "PSRL, neighbours"):
        assert words in text


def test_the_command_of_a_section_repeats_it(played: Reproduction, tmp_path: Path) -> None:
    again = reproduce(["paper/width"], tmp_path, n_runs=3, n_rounds=6, engine=1)
    (before,) = (section for section in played.sections if section.id == "paper/width")
    (section,) = again.sections
    assert section.tables == before.tables
    assert section.claims == before.claims
    assert [figure.svg for figure in section.figures] == [figure.svg for figure in before.figures]
