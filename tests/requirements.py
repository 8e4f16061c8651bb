"""Programs that tests need: without them a test is skipped, or fails if the environment says so.

``MIXTS_REQUIRE=core,postgres,chromium,nginx`` turns the skips of these into failures, so that no
test can stop running in CI unnoticed.
"""

from __future__ import annotations

import os
import shutil

import pytest

VARIABLE = "MIXTS_REQUIRE"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def require(name: str, found: bool, reason: str) -> None:
    """Skip the test if a program is missing, or fail if ``MIXTS_REQUIRE`` names the program."""
    if found:
        return
    names = [entry.strip() for entry in os.environ.get(VARIABLE, "").split(",")]
    if name in names:
        pytest.fail(f"{reason}, and {VARIABLE} says that {name} must be there", pytrace=False)
    pytest.skip(reason)


def find_chromium() -> str | None:
    """Return the path of Chromium or Chrome, or None."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)
