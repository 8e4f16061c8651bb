"""Bad rows of logs: counted by reason, with a few examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from mixts.errors import LogsError

N_EXAMPLES = 3
"""Number of examples of each reason, the first ones."""

_LONGEST = 40
"""Largest number of characters of a value in an example."""

RAGGED = "a line with another number of columns"
NO_TASK = "no task"
NO_ARM = "no arm"
OTHER_ARM = "an arm that is not listed"
NO_REWARD = "no reward"
NO_TIME = "no time"
BAD_REWARD = "reward is not"
"""Beginning of the reasons for which a reward that is present cannot be used."""
A_NUMBER = "a number"
UNKNOWN_LEVEL = "has an unknown level"


class Example(NamedTuple):
    """A bad row: its file, its number (rows of data from 1, no header), and its value.

    Rows that an engine counts have no number: it is 0.
    """

    file: str
    row: int
    value: str

    def __str__(self) -> str:
        shown = f" ({self.value})" if self.value else ""
        row = f" row {self.row:,}" if self.row else ""
        return f"{self.file}{row}{shown}"

    def moved(self, rows: int) -> Example:
        """Return the same row, found this many rows further down in the file."""
        return self._replace(row=self.row + rows) if self.row else self


@dataclass(frozen=True)
class BadRows:
    """Number of rows that were left out, by reason; a row counts once, for its first reason."""

    counts: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of bad rows."""
        return sum(self.counts.values())

    def __bool__(self) -> bool:
        return self.total > 0

    def __add__(self, other: BadRows) -> BadRows:
        """Return the bad rows of both, with the examples of the left side first."""
        reasons = [*self.counts, *(r for r in other.counts if r not in self.counts)]
        counts = {r: self.counts.get(r, 0) + other.counts.get(r, 0) for r in reasons}
        both = {r: (*self.examples.get(r, ()), *other.examples.get(r, ())) for r in reasons}
        return BadRows(counts, {r: _first(found) for r, found in both.items()})

    def moved(self, rows: int) -> BadRows:
        """Return the same bad rows, found this many rows further down in the file."""
        moved = {
            reason: tuple(example.moved(rows) for example in found)
            for reason, found in self.examples.items()
        }
        return BadRows(self.counts, moved)

    def lines(self) -> list[str]:
        """Return a line for each reason, the most frequent first."""
        ordered = sorted(self.counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return [
            f"{count:,}: {reason}; {_where(self.examples[reason], count)}"
            for reason, count in ordered
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "none"


def without_reward(bad: BadRows, reward_range: tuple[float, float], refused: bool = False) -> str:
    """Say what to do about empty rewards in logs that record only what paid; "" for other logs.

    Parameters
    ----------
    bad
        Bad rows; some of them may have no reward.
    reward_range
        Smallest and largest reward of the other rows.
    refused
        Whether the logs are refused because there are so many bad rows.
    """
    n, (low, high) = bad.counts.get(NO_REWARD, 0), reward_range
    if not n or not 0 < low <= high:
        return ""
    present = f"is {low:g}" if low == high else f"is positive ({low:g} to {high:g})"
    unknown = "; if it means that the reward is unknown, add --allow-bad-rows (allow_bad_rows=True)"
    return (
        f"{n:,} rows have no reward, and every reward that is present {present}: it seems that a "
        "reward was recorded only where there was something to record. If no reward means 0, add "
        f"--missing-reward 0 (missing_reward=0){unknown if refused and low < high else ''}."
    )


WIDER = {"bernoulli": "gaussian", "poisson": "gaussian", "spend": "gaussian", "logistic": "linear"}
"""Family that allows the rewards that another one refuses."""


def unusable_rewards(bad: BadRows, family: str) -> tuple[int, str]:
    """Return the number of rewards that are present and cannot be used, and what to do about them.

    Parameters
    ----------
    bad
        Bad rows. Rewards without a value do not count.
    family
        Family that was asked for.
    """
    counts = {r: n for r, n in bad.counts.items() if r.startswith(BAD_REWARD)}
    if not counts:
        return 0, ""
    if f"{BAD_REWARD} {A_NUMBER}" in counts:
        remedy = (
            "A reward must be a number: 1 for a success and 0 for none, or an amount with a "
            "decimal point, such as 1200.5, without other separators and signs such as % or $."
        )
    elif family in WIDER:
        wider = WIDER[family]
        remedy = f'Correct these rewards, or choose --family {wider} (family="{wider}").'
    else:
        remedy = "Correct these rewards."
    return sum(counts.values()), remedy


_ARMS_PER_ROW = 0.9
"""Number of arms per row from which the column of arms must be an id."""


def refuse_arm_a_row(n_rows: int, n_arms: int, column: str) -> None:
    """Raise `LogsError` if almost every row has an arm of its own."""
    if n_arms >= _ARMS_PER_ROW * n_rows:
        raise LogsError(
            f"{n_rows:,} rows have {n_arms:,} different arms: an arm that occurs once teaches "
            f"nothing. {column!r} seems to identify rows: name the column that says what was "
            "chosen (--arm)"
        )


def shortened(value: object) -> str:
    """Return a value as examples show it."""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def of_reason(reason: str, n: int, examples: Iterable[Example]) -> BadRows:
    """Return bad rows that have one reason."""
    return BadRows({reason: n}, {reason: _first(examples)})


def _where(examples: tuple[Example, ...], count: int) -> str:
    """Return examples in words; an engine's rows have no order, and none of them is the first."""
    said = ", ".join(map(str, examples))
    if not all(example.row for example in examples):
        return f"in {said}"
    return f"first {said}" if count > 1 else said


def _first(examples: Iterable[Example]) -> tuple[Example, ...]:
    """Return the first examples; those without a row number may be the same."""
    return tuple(islice(dict.fromkeys(examples), N_EXAMPLES))
