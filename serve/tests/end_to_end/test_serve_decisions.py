"""The page "Serve decisions", as a reader follows it: from a CSV of clicks to a running service."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.end_to_end.reader import (
    free_port,
    page_blocks,
    serving,
    shell,
    with_kinds,
    write_scripts,
)

PAGE = "serve-decisions.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder but for the scripts that the page shows."""
    folder = tmp_path_factory.mktemp("reader")
    write_scripts(PAGE, folder)
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> str:
    """Instead of the page's, which may be taken; in the scripts too."""
    return free_port(folder / "visit.py")


@pytest.fixture(scope="module")
def served(folder: Path, port: str) -> Iterator[str]:
    """Run the first commands, the last of which serves, and yield the line that it prints."""
    with serving(with_kinds(page_blocks(PAGE, "sh")[0], 3), folder, port) as said:
        yield said


def test_the_service_says_that_it_is_ready(served: str, port: str) -> None:
    (said, *_) = page_blocks(PAGE, "text")
    assert served == said.replace("8321", port)


def test_a_decision_and_a_reward(served: str, folder: Path, port: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    ask, visit = (block.replace("8321", port) for block in page_blocks(PAGE, "sh")[1:])
    decision = json.loads(shell(ask, folder, folder / "bin"))
    (shown,) = page_blocks(PAGE, "json")
    assert decision.keys() == json.loads(shown).keys()
    assert re.fullmatch("[0-9a-f]{32}", decision["id"])
    printed = shell(visit, folder, folder / "bin")
    assert printed == page_blocks(PAGE, "text")[1]


def test_the_dashboard(served: str, port: str) -> None:
    with urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
        text = page.read().decode()
        policy = page.headers["Content-Security-Policy"]
    assert "<h1" in text
    assert "default-src 'none'" in policy


def test_the_kinds_are_found(served: str, folder: Path) -> None:
    prior = json.loads((folder / "prior.json").read_text())
    assert len(prior["names"]) == 3
    assert prior["arm_names"] == ["books", "games", "music", "shoes"]
