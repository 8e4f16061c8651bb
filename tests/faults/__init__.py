"""Deliberate faults, and the tests that must notice each of them: see ``tests.faults.__main__``."""

from __future__ import annotations

from tests.faults import best_arms, bounds, core, families, learning, linear, mdp, service, student
from tests.faults.catalogue import FAULTS, Fault

__all__ = [
    "FAULTS",
    "Fault",
    "best_arms",
    "bounds",
    "core",
    "families",
    "learning",
    "linear",
    "mdp",
    "service",
    "student",
]
