"""What logs become: the statistics of tasks, with the names of everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mixts.families import Statistics
from mixts.logs.bad_rows import BadRows

LogFamily = Literal["bernoulli", "gaussian", "poisson", "linear"]

_WHOLE = re.compile(r"-?[0-9]+")
_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class TaskLogs:
    """Past tasks, read from logs."""

    statistics: Statistics
    """Task i of these is ``tasks[i]``; arm k is ``arms[k]``, or feature k ``features[k]``."""
    tasks: tuple[str, ...]
    """Sorted, whatever the order of rows and files; numbers in names count by their size."""
    arms: tuple[str, ...] | None
    """As they were given, or sorted like tasks; None for linear tasks."""
    features: tuple[str, ...] | None
    """For linear tasks; "intercept" comes first where one was asked for."""
    family: LogFamily
    why: str
    """What speaks for this family, in a sentence."""
    n_rows: int
    """All of them, bad ones too."""
    bad_rows: BadRows
    files: tuple[str, ...] = field(repr=False)


def sorted_order(names: Sequence[str]) -> list[int]:
    """Indices that sort names, numbers in them by size: "item 2" comes before "item 10"."""
    if all(_WHOLE.fullmatch(name) for name in names):
        return sorted(range(len(names)), key=lambda i: (int(names[i]), names[i]))
    return sorted(range(len(names)), key=lambda i: (_natural(names[i]), names[i]))


def _natural(name: str) -> list[str | int]:
    # Text and numbers take turns, so that only like is compared with like.
    return [int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(name))]
