"""Properties hold for tasks that begin young too, whatever their dimension."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mixts.families.linear_posterior import LinearPosterior


@pytest.fixture(autouse=True, scope="module")
def _young() -> Iterator[None]:
    """Small problems would begin mature: here they begin young, in the oracles' tests mature."""
    before = LinearPosterior.young_from
    LinearPosterior.young_from = 1
    yield
    LinearPosterior.young_from = before
