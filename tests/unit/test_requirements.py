"""A test that cannot run is skipped with the reason, or fails where it must run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.requirements import find_chromium, require


def test_a_found_program_lets_the_test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXTS_REQUIRE", "chromium")
    # Neither a skip nor a failure, which are exceptions.
    assert require("chromium", True, "never said") is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("names", [None, "", "postgres", "chromium-driver"])
def test_a_missing_program_skips_the_test(
    monkeypatch: pytest.MonkeyPatch, names: str | None
) -> None:
    monkeypatch.delenv("MIXTS_REQUIRE", raising=False)
    if names is not None:
        monkeypatch.setenv("MIXTS_REQUIRE", names)
    with pytest.raises(pytest.skip.Exception, match="no browser"):
        require("chromium", False, "no browser here")


@pytest.mark.parametrize("names", ["chromium", "postgres, chromium"])
def test_a_missing_required_program_fails_the_test(
    monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    monkeypatch.setenv("MIXTS_REQUIRE", names)
    with pytest.raises(pytest.fail.Exception, match="no browser here, and MIXTS_REQUIRE says"):
        require("chromium", False, "no browser here")


def test_chromium_is_found_by_its_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium() is None
    browser = tmp_path / "google-chrome"
    browser.touch(mode=0o755)
    assert find_chromium() == str(browser)
