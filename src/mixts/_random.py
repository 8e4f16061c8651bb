"""Seeds to generators: streams made by name, so that no two parts of a program share one.

``stream(7, "paper/width", 3, "rewards")`` is always the same generator, whatever else was drawn
before and on however many workers: a run of the program has one seed, and each block of runs and
each role has its own stream.
"""

from __future__ import annotations

import hashlib

import numpy as np

from mixts._typing import Seed
from mixts.errors import ParameterError


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The generator of this seed and these names (strings, or non-negative integers)."""
    return np.random.default_rng(seed_sequence(seed, *names))


def seed_sequence(seed: int, *names: str | int) -> np.random.SeedSequence:
    """The seed sequence of this seed and these names, for what makes its own generator."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ParameterError(f"seed must be a non-negative integer, got {seed!r}")
    return np.random.SeedSequence(int(seed), spawn_key=tuple(_key(name) for name in names))


def generator(seed: Seed, name: str) -> np.random.Generator:
    """A generator from what a constructor accepts as ``seed``; ``None`` asks the system.

    A number is a seed of the named stream: an agent with seed 0 has nothing in common with a
    simulation that draws from ``numpy.random.default_rng(0)``.
    """
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, (bool, np.bool_)):
        return stream(int(seed), name)
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "seed must be None, a non-negative integer, a SeedSequence or a Generator, "
            f"got {seed!r}"
        ) from error


def _key(name: str | int) -> int:
    if isinstance(name, str):
        # 32 bits of a stable hash: Python's own differs from run to run.
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return int(name)
