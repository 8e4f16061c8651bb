"""Rewards, and decisions made elsewhere, from files and streams: read again, counted once.

A row is known by its decision's id, so reading it again changes nothing. The place up to which a
file was read is in the store, written by the transaction that writes the rows: a process that is
killed goes on where it was.

A reward may come before its decision, because topics of a stream have no order between them. It
then waits, and the place of its file stays before it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct, json

from mixts.errors import (
    ParameterError,
    StoreUnavailableError,
    TaskLockedError,
    UnknownDecisionError,
)
from mixts.pages import formats
from mixts_serve.batch import Batch
from mixts_serve.records import Decision, MadeDecision, Receipt, Result, Reward
from mixts_serve.rules import Rules
from mixts_serve.sources import BATCH_ROWS, Note, Part, Place, Row, Source
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import Transaction
from mixts_serve.store.rebuild import active_prior
from mixts_serve.trials import Sides
from mixts_serve.versions import LoadedPrior

WAIT_SECONDS = 600.0
"""Time for which a reward waits for its decision, unless the input ends before."""

MOST_WAITING = 10 * BATCH_ROWS
"""Most rewards that wait; of more, the oldest are given up. They are looked for again in about a
second."""

RETRY_SECONDS = 1.0
"""Time between looks for the decisions of rewards that wait."""

PAUSES = tuple(0.1 * 2**k for k in range(8))
"""Pauses between attempts to write to a store that is busy or away: 25 seconds in all, beside the
time for which either database waits by itself. A server restarts in less."""

_NOTE = "ingest {}"


class Counts(Counter[tuple[str, str]]):
    """Numbers of rows, by their kind and by what came of them."""

    @property
    def n_refused(self) -> int:
        """Number of rows that were refused."""
        return sum(n for (_, outcome), n in self.items() if outcome == "refused")

    def lines(self) -> list[str]:
        """Return the counts in words."""
        found = []
        for kind in ("decision", "reward", "row"):
            new, known, refused, late = (
                self[kind, outcome] for outcome in ("new", "known", "refused", "late")
            )
            if total := new + known + refused:
                text = f"ingested {formats.plural(total, kind)}: {new:,} new"
                text += f", {late:,} of them late" * bool(late)
                found.append(f"{text}, {known:,} known before, {refused:,} refused")
        return found or ["there was nothing new to ingest"]


class Progress(Struct):
    """What is safe so far, for whoever writes to standard input."""

    lines: int
    """The first so many lines need not be sent again."""
    waiting: int
    """Number of rewards that wait for their decisions."""


class Rejected(Struct):
    """A line of the file of rejects."""

    source: str
    line: int
    reason: str
    row: str
    """The row as it came."""


class Settled(NamedTuple):
    """What became of rows."""

    refused: list[Row]
    waiting: list[Row]
    counts: Counts

    @classmethod
    def of(cls, rows: Sequence[Row], results: Mapping[Row, Result]) -> Settled:
        """Sort rows by their results; those without a record have none, and are refused."""
        settled = cls([], [], Counts())
        for row in rows:
            result = results.get(row)
            if isinstance(result, UnknownDecisionError):
                row.reason = str(result)
                settled.waiting.append(row)
                continue
            if isinstance(result, Decision | Receipt):
                is_known = result.repeated if isinstance(result, Decision) else result.duplicate
                outcome = "known" if is_known else "new"
                is_late = isinstance(result, Receipt) and result.late and not is_known
                settled.counts[row.kind, "late"] += is_late
            else:
                outcome = "refused"
                row.reason = row.reason if result is None else str(result)
                settled.refused.append(row)
            settled.counts[row.kind, outcome] += 1
        return settled


class Ingest:
    """Writes the rows of sources to a store; the methods of one are called from one thread.

    Without ``rejects``, the first row that is refused raises ``ParameterError``, and the next run
    begins with its batch. With it, rows that are refused are appended to that file; a process that
    is killed may append some of them twice.
    """

    def __init__(
        self,
        store: DecisionStore,
        rejects: Path | None = None,
        *,
        wait: float = WAIT_SECONDS,
        again: bool = False,
        acknowledge: Callable[[Progress], object] = lambda progress: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        active_prior(store)  # or an error
        self._store, self._rejects, self._wait, self._again = store, rejects, wait, again
        self._acknowledge, self._clock = acknowledge, clock
        self._load = cache(partial(LoadedPrior.of, store))
        self._rng = np.random.default_rng()  # nothing is drawn
        self._counts = Counts()
        self._waiting: dict[Row, None] = {}
        """Rewards that wait, oldest first."""
        self._retry_at = 0.0
        self._read: dict[Source, Place] = {}
        """The places up to which sources were read."""
        self._noted: dict[Source, Place] = {}
        """The places that the store has."""
        self._set_aside: list[Row] = []
        """What was appended to the rejects last."""

    def run(self, sources: Iterable[Source]) -> Counts:
        """Read sources to their ends, one after the other, and return what came of their rows."""
        for source in sources:
            for part in source.parts(self._note_of(source)):
                for rows, end in self._portions(part):
                    self._read[source] = end
                    self._noted.setdefault(source, end)
                    if rows:
                        self._write([*rows, *self._awaited(rows)])
                    self._retry_if_due()
        self._retry()
        self._give_up(list(self._waiting))
        if self._noted != self._places():
            self._write([])
        return self._counts

    def _note_of(self, source: Source) -> Note | None:
        note = None if self._again else self._store.note(_NOTE.format(source.name))
        return json.decode(note, type=Note) if note and source.is_file else None

    def _portions(self, part: Part) -> Iterator[Part]:
        """Split rows so that no transaction has more work than that many ordinary rows."""
        version = self._store.active_version()
        assert version is not None
        size_of, size = self._load(version).sizes.of, 0
        rows: list[Row] = []
        for row in part.rows:
            more = 1 if row.record is None else size_of(row.record)
            if rows and size + more > BATCH_ROWS:
                yield Part(rows, row.start)
                rows, size = [], 0
            rows.append(row)
            size += more
        yield Part(rows, part.end)

    def _places(self) -> dict[Source, Place]:
        """Return the places before which all rows are safe."""
        places = dict(self._read)
        for row in self._waiting:
            places[row.source] = min(places[row.source], row.start)
        return places

    # -- rewards that wait --------------------------------------------------------------------

    def _awaited(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rewards that have waited for decisions among these rows."""
        made = {row.record.id for row in rows if isinstance(row.record, MadeDecision)}
        return [row for row in self._waiting if made and _decision_of(row) in made]

    def _retry_if_due(self) -> None:
        if not self._waiting or self._clock() < self._retry_at:
            return
        self._retry()
        now, n_over = self._clock(), len(self._waiting) - MOST_WAITING
        rows = list(self._waiting)
        self._give_up([row for i, row in enumerate(rows) if i < n_over or row.until <= now])
        self._retry_at = self._clock() + RETRY_SECONDS

    def _retry(self) -> None:
        rows = list(self._waiting)
        for i in range(0, len(rows), BATCH_ROWS):
            self._write(rows[i : i + BATCH_ROWS])

    def _give_up(self, rows: Sequence[Row]) -> None:
        for row in rows:
            row.record = None
        if rows:
            self._write(rows)

    # -- writing ------------------------------------------------------------------------------

    def _write(self, rows: Sequence[Row]) -> None:
        """Write rows and the places of their sources, in one transaction."""
        for pause in (*PAUSES, None):
            try:
                settled = self._store.backend.transact(lambda t: self._perform(t, rows))
                break
            except (StoreUnavailableError, TaskLockedError):
                if pause is None:
                    raise
                time.sleep(pause)
        self._counts.update(settled.counts)
        self._noted = self._places()
        for source, place in self._noted.items():
            if not source.is_file:
                self._acknowledge(Progress(place.line, len(self._waiting)))

    def _perform(self, transaction: Transaction, rows: Sequence[Row]) -> Settled:
        """Write rows: decisions first, because rewards of the same batch may be theirs."""
        results: dict[Row, Result] = {}
        decisions = [row for row in rows if isinstance(row.record, MadeDecision)]
        rewards = [row for row in rows if isinstance(row.record, Reward)]
        for group in (decisions, rewards):
            if group:
                results |= zip(group, self._batch(transaction, group), strict=True)
        settled = Settled.of(rows, results)
        until = self._clock() + self._wait
        for row in rows:
            self._waiting.pop(row, None)
        for row in settled.waiting:
            row.until = row.until or until
            self._waiting[row] = None
        self._reject(settled.refused)
        for source, place in self._places().items():
            if source.is_file and place != self._noted[source]:
                note = json.encode(source.note(place)).decode()
                transaction.set_note(_NOTE.format(source.name), note)
        return settled

    def _batch(self, transaction: Transaction, rows: Sequence[Row]) -> list[Result]:
        deployment = transaction.deployment()
        assert deployment is not None
        sides, rules = Sides(None, deployment, b""), Rules.of(transaction)
        batch = Batch(transaction, sides, self._load, rules, self._rng, transaction.now_us())
        results = batch.perform([row.record for row in rows if row.record is not None])
        for result in results:
            if isinstance(result, TaskLockedError):
                raise result  # nothing is written, and all of it is tried again
        return results

    def _reject(self, rows: list[Row]) -> None:
        """Append rows to the rejects, before the store has a place after them."""
        if not rows or rows == self._set_aside:  # which a repeated transaction has done
            return
        if self._rejects is None:
            first, more = rows[0], len(rows) - 1
            raise ParameterError(
                f"{first.source.name}, line {first.number}: {first.reason}"
                + f" (and {more:,} more lines)" * bool(more)
                + ". What came before stays in the store. Correct it and run again, or set such "
                "lines aside with --rejects FILE"
            )
        with self._rejects.open("ab") as file:
            for row in rows:
                rejected = Rejected(row.source.name, row.number, row.reason, row.text)
                file.write(json.encode(rejected) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._set_aside = rows


def _decision_of(row: Row) -> str | None:
    return row.record.decision if isinstance(row.record, Reward) else None
