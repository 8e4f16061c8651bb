"""Random streams by name, for all studies."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def seed_sequence(seed: int, *names: str | int) -> np.random.SeedSequence:
    """Return the seed sequence of a seed and names: independent of all other names."""
    key = tuple(_number(name) for name in names)
    return np.random.SeedSequence(seed, spawn_key=key)


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of a seed and names."""
    return np.random.default_rng(seed_sequence(seed, *names))


def _number(name: str | int) -> int:
    if isinstance(name, int):
        return name
    # A stable hash: Python's own differs from process to process.
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
