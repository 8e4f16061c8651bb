"""The list of deliberate faults: each has a name, the tests that must notice it, and changes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.inject import Change


@dataclass(frozen=True)
class Fault:
    """A plausible mistake, made by changes in the imported modules."""

    name: str
    tests: tuple[str, ...]
    """Paths of test files, or ids of tests, one of which must fail."""
    changes: tuple[Change, ...]

    def check(self) -> None:
        """Raise ``MissingCodeError`` if a change does not fit the sources."""
        for change in self.changes:
            change.check()

    def inject(self) -> None:
        """Make the mistake in this process."""
        for change in self.changes:
            change.inject()


FAULTS: dict[str, Fault] = {}


def fault(name: str, tests: str | tuple[str, ...], *changes: Change) -> None:
    """Add a fault to the catalogue."""
    if name in FAULTS:
        raise ValueError(f"two faults have the name {name!r}")
    FAULTS[name] = Fault(name, (tests,) if isinstance(tests, str) else tests, changes)
