"""Where rewards and decisions made elsewhere are read from: JSON lines, Parquet, standard input.

A source yields rows with their places, and goes on from a place that a note in the store has. The
note also has a digest of the file's beginning, or of a Parquet file's footer, so that a file that
was replaced is noticed. Whatever is wrong with a row is a part of the row: it does not end the
reading.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import queue
import sys
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from mixts.errors import ParameterError
from mixts_serve.records import MadeDecision, Reward
from mixts_serve.store.export import check_pyarrow

BATCH_ROWS = 1_000
"""Most rows that are written in one transaction: as many as in one request of a batch over HTTP, a
tenth of a second of work. ``benchmarks/service/ingest.py speed`` compares other numbers."""

_CHUNK = 1 << 17
"""Bytes that are read at a time: two batches of ordinary rewards."""

_MOST_CHUNKS = 8
"""Chunks of standard input that wait in memory."""

_LONGEST_LINE = 1_000_000
"""Bytes of a line: a request over HTTP may be as long. Of a longer one the rest is left out."""

_TOO_LONG = f"longer than {_LONGEST_LINE:,} bytes: are these lines of JSON?"

_HEAD = 4096
"""Bytes by which a file is recognised: some tens of rows, each with an id of its own."""


class Place(NamedTuple):
    """A place in a source."""

    offset: int = 0
    """Bytes before it, unpacked; rows of a Parquet file."""
    line: int = 0
    """Lines before it."""


class Note(Struct, frozen=True):
    """What the store has of a source: the place up to which it was read."""

    offset: int
    line: int
    digest: str
    """Digest by which the file is recognised."""


@dataclass(slots=True, eq=False)
class Row:
    """A row of a source."""

    source: Source
    start: Place
    raw: Any
    """The line as it came; of a Parquet file its fields."""
    record: Reward | MadeDecision | None
    reason: str = ""
    """Why there is no record."""
    kind: str = "row"
    """What it is: "reward", "decision", or "row" if that cannot be known."""
    until: float = 0.0
    """When to give it up, if its decision is unknown."""

    @classmethod
    def of(cls, source: Source, start: Place, raw: Any) -> Row:
        """Return the row of a line of JSON, or of the fields of a row of Parquet."""
        try:
            # Some programs begin a file with a mark of the byte order.
            text = raw.removeprefix(codecs.BOM_UTF8) if isinstance(raw, bytes) else None
            fields = raw if text is None else msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return cls(source, start, raw, None, f"not JSON in UTF-8: {error}")
        if not isinstance(fields, dict):
            return cls(source, start, raw, None, "expected an object, such as a reward's")
        is_made = "task" in fields or "action" in fields
        kind = "decision" if is_made else "reward"
        try:
            record: Any = msgspec.convert(fields, MadeDecision if is_made else Reward)
            return cls(source, start, raw, record, "", kind)
        except msgspec.ValidationError as error:
            return cls(source, start, raw, None, f"not a {kind}: {error}", kind)

    @property
    def number(self) -> int:
        """Number of the line, from 1."""
        return self.start.line + 1

    @property
    def text(self) -> str:
        """The row as text; a line as it came."""
        if isinstance(self.raw, bytes):
            return self.raw.decode(errors="replace")
        return msgspec.json.encode(self.raw, enc_hook=str).decode()


class Part(NamedTuple):
    """Rows that were read together, and the place after them."""

    rows: list[Row]
    end: Place


class Source(ABC):
    """A file, or standard input."""

    is_file = True
    remark = ""
    """What to say of it at the end."""

    def __init__(self, name: str) -> None:
        self.name = name

    def parts(self, note: Note | None) -> Iterator[Part]:
        """Yield the rows that come after a note; raise ``ParameterError`` if it is another file."""
        begin = Place() if note is None else Place(note.offset, note.line)
        parts = self._parts(begin)
        first = next(parts)  # opens the file and goes to the place, which the digest needs
        if note is not None and note.digest != self._digest(begin.offset):
            raise self._replaced()
        yield first
        yield from parts

    @abstractmethod
    def _parts(self, begin: Place) -> Iterator[Part]:
        """Yield a part without rows, and then the rows from a place on."""

    @abstractmethod
    def _digest(self, offset: int) -> str:
        """Return a digest by which the file is recognised that was read up to an offset."""

    def note(self, place: Place) -> Note:
        """Return what the store shall have of a place that was read."""
        return Note(place.offset, place.line, self._digest(place.offset))

    def _replaced(self) -> ParameterError:
        return ParameterError(
            f"{self.name} is not the file that was read before: it has become shorter, or begins "
            "with other rows. Give the new file another name, or read it from its beginning with "
            "--again: what is known is not counted twice"
        )


def opened(name: str) -> Source:
    """Return the source with a name: the path of a file, or - for standard input."""
    if name == "-":
        return StandardInput("standard input")
    if not Path(name).is_file():
        raise ParameterError(f"{name} is not a file: expected .jsonl, .jsonl.gz or .parquet, or -")
    path = str(Path(name).absolute())
    return ParquetFile(path) if name.lower().endswith((".parquet", ".pq")) else Lines(path)


# -- JSON lines -----------------------------------------------------------------------------------


class Lines(Source):
    """A file of JSON lines, packed by gzip or not, to which more lines may be appended."""

    _head = b""
    """The first bytes, as far as they were read."""

    def _parts(self, begin: Place) -> Iterator[Part]:
        is_packed = self.name.lower().endswith(".gz")
        try:
            with gzip.open(self.name) if is_packed else open(self.name, "rb") as file:
                self._skip(file, begin.offset)
                yield Part([], begin)
                yield from self._split(iter(lambda: file.read1(_CHUNK), b""), begin)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ParameterError(
                f"{self.name} cannot be unpacked: {error}. Is it complete? What was read before is "
                "in the store, and the next run goes on from there"
            ) from error

    def _skip(self, file: Any, offset: int) -> None:
        """Go to a place that was read before."""
        if offset:
            self._head = bytes(file.read(min(offset, _HEAD)))
            file.seek(offset - 1)
            if not file.read(1):
                raise self._replaced()

    def _digest(self, offset: int) -> str:
        return _digest(self._head[:offset])

    def _split(self, chunks: Iterator[bytes], place: Place) -> Iterator[Part]:
        """Yield the rows of complete lines; a last one without its end counts if it is whole."""
        rest, n_cut = b"", 0
        for chunk in chunks:
            self._head += chunk[: _HEAD - len(self._head)]
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                place, n_cut = Place(place.offset + n_cut, place.line), 0
            for i in range(0, max(len(lines), 1), BATCH_ROWS):
                part = self._part(lines[i : i + BATCH_ROWS], place)
                place = part.end
                yield part
            if (n_over := len(rest) - _LONGEST_LINE) > 1:  # one byte more says that it is too long
                rest, n_cut = rest[: 1 - n_over], n_cut + n_over - 1
        if len(rest) > _LONGEST_LINE:
            raise ParameterError(f"{self.name}, line {place.line + 1} is {_TOO_LONG}")
        if rest.strip():
            last = Row.of(self, place, rest)
            if last.kind == "row":  # the beginning of an object is never an object
                self.remark = f"{self.name}: the last line is not complete and was not read"
            else:
                yield Part([last], Place(place.offset + len(rest), place.line))

    def _part(self, lines: Sequence[bytes], place: Place) -> Part:
        rows = []
        for line in lines:
            if len(line) > _LONGEST_LINE:
                rows.append(Row(self, place, line[:_LONGEST_LINE], None, _TOO_LONG))
            elif line.strip():
                rows.append(Row.of(self, place, line))
            place = Place(place.offset + len(line) + 1, place.line + 1)
        return Part(rows, place)


class StandardInput(Lines):
    """Standard input: whoever writes it knows where to begin again."""

    is_file = False
    pause: ClassVar[float] = 1.0
    """Seconds without a line after which rows that wait have a turn."""

    def _parts(self, begin: Place) -> Iterator[Part]:
        yield Part([], begin)
        yield from self._split(self._chunks(), begin)

    def _chunks(self) -> Iterator[bytes]:
        """Yield what is there as soon as it is there, and nothing when nothing comes."""
        chunks: queue.Queue[bytes | BaseException] = queue.Queue(_MOST_CHUNKS)
        file: Any = sys.stdin.buffer
        # Without its buffer, whose lock a thread that still reads would keep when Python ends.
        read = file.raw.read if hasattr(file, "raw") else file.read1
        threading.Thread(target=_pass_on, args=(read, chunks), daemon=True).start()
        while True:
            try:
                found = chunks.get(timeout=self.pause)
            except queue.Empty:
                yield b""
                continue
            if isinstance(found, BaseException):
                raise found
            if not found:
                return
            yield found


def _pass_on(read: Callable[[int], bytes], chunks: queue.Queue[bytes | BaseException]) -> None:
    """Put what is read into a queue, and at last nothing, or the error."""
    try:
        while chunk := read(_CHUNK):
            chunks.put(chunk)
        chunks.put(b"")
    except BaseException as error:
        chunks.put(error)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


# -- Parquet --------------------------------------------------------------------------------------


def _wire_names(record: type[Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(record))


class ParquetFile(Source):
    """A Parquet file of rewards, or of decisions; its columns are named as the fields."""

    def _parts(self, begin: Place) -> Iterator[Part]:
        check_pyarrow()
        import pyarrow
        import pyarrow.parquet as parquet

        yield Part([], begin)
        try:
            with parquet.ParquetFile(self.name) as file:
                self._check_columns(file.schema_arrow.names)
                done, groups = _groups_after(file, begin.offset)
                for batch in file.iter_batches(BATCH_ROWS, row_groups=groups):
                    places = range(done, done + batch.num_rows)
                    done = places.stop
                    fields = zip(places, batch.to_pylist(), strict=True)
                    rows = [
                        Row.of(self, Place(i, i), _plain(each))
                        for i, each in fields
                        if i >= begin.offset
                    ]
                    yield Part(rows, Place(done, done))
        except pyarrow.ArrowException as error:
            raise ParameterError(f"{self.name} cannot be read as Parquet: {error}") from error

    def _digest(self, offset: int) -> str:
        """Return a digest of the end of the file, which lists its content, and of its size."""
        with open(self.name, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _HEAD))
            return _digest(file.read() + b"%d" % size)

    def _check_columns(self, names: Sequence[str]) -> None:
        is_made = "task" in names or "action" in names
        known = _wire_names(MadeDecision if is_made else Reward)
        needed = ("id", "task", "action") if is_made else ("id",)
        missing = [name for name in needed if name not in names]
        if not is_made and not {"value", "metrics"} & set(names):
            missing.append("value")
        unknown = [name for name in names if name not in known]
        if missing or unknown:
            what = "decisions have" if is_made else "rewards have"
            wrong = f"lacks the column {missing[0]!r}" if missing else f"has {unknown[0]!r}"
            raise ParameterError(
                f"{self.name} {wrong}: {what} the columns {', '.join(known)}, of which "
                f"{', '.join(needed)} are needed; got {', '.join(names)}"
            )


def _groups_after(file: Any, n_rows: int) -> tuple[int, list[int]]:
    """Return the rows of the row groups that were read whole, and the numbers of the others."""
    done, n_groups = 0, file.metadata.num_row_groups
    for group in range(n_groups):
        size = file.metadata.row_group(group).num_rows
        if done + size > n_rows:
            return done, list(range(group, n_groups))
        done += size
    return done, []


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: maps are objects, and what is null is left out."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):
            return {name: _plain(each) for name, each in value if each is not None}
        return [_plain(each) for each in value]
    return value
