"""Random number generators by name, so that no two parts of a program share one.

``stream(7, "paper/width", 3, "rewards")`` always gives the same numbers, independent of other
draws and of the number of workers: a run of the program has one seed, and each block of runs and
each role has its own stream.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from mixts._typing import Seed
from mixts.errors import ParameterError


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the generator of this seed and these names (strings, or non-negative integers)."""
    return np.random.default_rng(seed_sequence(seed, *names))


def seed_sequence(seed: int, *names: str | int) -> np.random.SeedSequence:
    """Return the seed sequence of this seed and these names."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ParameterError(f"seed must be a non-negative integer, got {seed!r}")
    return np.random.SeedSequence(int(seed), spawn_key=tuple(_key(name) for name in names))


def generator(seed: Seed, name: str) -> np.random.Generator:
    """Return a generator for the ``seed`` of a constructor; None takes entropy from the system.

    A number seeds the named stream, so that an agent with seed 0 and a simulation that draws from
    ``numpy.random.default_rng(0)`` use different numbers.
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


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as plain numbers, for files."""
    return _plain(rng.bit_generator.state)


def restored_generator(state: dict[str, Any]) -> np.random.Generator:
    """Return the generator that continues from a state that ``generator_state`` returned."""
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise ValueError(f"unknown bit generator {name!r}; known: {', '.join(_BIT_GENERATORS)}")
    bits = getattr(np.random, name)()
    bits.state = _with_arrays(state)
    return np.random.Generator(bits)


_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.integer)) else value


def _with_arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_arrays(part) for key, part in value.items()}
    return np.array(value, np.uint64) if isinstance(value, list) else value
