"""The API reference in docs/api names everything that is public."""

from __future__ import annotations

import re
from pathlib import Path

import mixts_paper.bounds
import pytest

import mixts
import mixts.diagnostics
import mixts.extend
from mixts.extend import contracts, models

PAGES = sorted((Path(__file__).parents[2] / "docs" / "api").glob("*.rst"))
ENTRY = re.compile(r"(?:   |\.\. data:: )(?P<name>[\w.]+)")


def reference(*pages: Path) -> set[str]:
    """Names that pages list, as ``import mixts`` gives them: ``MixTS``, ``learning.learn``."""
    names = set()
    for page in pages:
        module = "mixts."
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.split()[-1] + "."
            elif entry := ENTRY.fullmatch(line):
                names.add(f"{module}{entry['name']}".removeprefix("mixts."))
    return names


@pytest.mark.parametrize("name", mixts.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    listed = reference(*PAGES)
    assert {name, f"bounds.{name}"} & listed, f"add {name} to a page of docs/api"


@pytest.mark.parametrize(
    "module", [mixts_paper.bounds, mixts.diagnostics, mixts.extend, contracts, models]
)
def test_every_name_of_these_modules_is_in_the_reference(module) -> None:
    prefix = module.__name__.removeprefix("mixts.")
    missing = {f"{prefix}.{name}" for name in module.__all__} - reference(*PAGES)
    assert missing == set(), f"add these to docs/api/{prefix}.rst"


def test_a_missing_name_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.rst"
    page.write_text(".. currentmodule:: mixts\n\n.. autosummary::\n   :toctree: x\n\n   MixTS\n")
    assert reference(page) == {"MixTS"}
