"""Run tests with both programs: the compiled core, and the plain one that specifies it."""

from __future__ import annotations

import pytest

from mixts import _program
from tests.requirements import require

CORE = _program.core
"""The compiled core; None where it is not installed."""


@pytest.fixture(params=["core", "plain"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once with each program."""
    name: str = request.param
    if name == "plain" and request.node.get_closest_marker("long_in_plain"):
        pytest.skip("takes minutes in the plain program, which shorter tests compare with the core")
    if name == "core":
        require("core", CORE is not None, "the compiled core is not installed")
    monkeypatch.setattr(_program, "core", CORE if name == "core" else None)
    return name
