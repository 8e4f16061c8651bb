"""The list of deliberate faults: each has a name, the tests that must notice it, and the fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A plausible mistake; ``inject`` makes it in the imported modules."""

    name: str
    tests: tuple[str, ...]
    inject: Callable[[], None]


FAULTS: dict[str, Fault] = {}


def fault(name: str, *tests: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add a function that injects a fault to the catalogue."""

    def add(inject: Callable[[], None]) -> Callable[[], None]:
        if name in FAULTS:
            raise ValueError(f"two faults have the name {name!r}")
        FAULTS[name] = Fault(name, tests, inject)
        return inject

    return add
