"""Log lines: their times, text or JSON, and no names of tasks.

A task's name may be that of a person, and must not outlive the task. So messages hold no names, and
of an exception whose message might quote a request, only the type and the places in the code.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from mixts.errors import StoreError, TaskLockedError

OWN = ("mixts", "mixts_serve", "uvicorn.error")
"""Loggers that the chosen level applies to; of all others, warnings are written."""

FORMATS = ("text", "json")

_TELLING = (OSError, apsw.Error, StoreError)
"""Exceptions whose messages say what is wrong with a disk or a database, and quote no request."""


def described(error: BaseException) -> str:
    """Return the message of an exception, or only its type if the message may quote a request."""
    name = type(error).__name__
    if not isinstance(error, _TELLING) or isinstance(error, TaskLockedError):
        return name
    return str(error) or name


def _traceback(record: logging.LogRecord) -> str | None:
    """Return the places and the types of an exception and its causes, the first cause first."""
    error, parts = record.exc_info[1] if record.exc_info else None, []
    while error is not None:
        places = "".join(traceback.format_tb(error.__traceback__))
        name, words = type(error).__name__, described(error)
        parts.append(f"{places}{name}" + f": {words}" * (words != name))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n\nafter\n\n".join(reversed(parts)) or None


def _time(record: logging.LogRecord) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"


class Text(logging.Formatter):
    """A line of text: time, level and message; a traceback follows."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = f"{_time(record)} mixts: {record.levelname}: {record.getMessage()}"
        return "\n".join(filter(None, [line, _traceback(record)]))


class Json(logging.Formatter):
    """A line of JSON: time, level, logger, message and, for an exception, its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": _time(record), "level": record.levelname.lower(),
            "logger": record.name, "message": record.getMessage(),
        }  # fmt: skip
        if record.exc_info:
            line["traceback"] = _traceback(record)
        return msgspec.json.encode(line).decode()


@contextmanager
def to_stderr(level: str, form: str) -> Iterator[None]:
    """Write the messages of this process to standard error, inside the ``with`` block."""
    handler = logging.StreamHandler()
    handler.setFormatter(Json() if form == "json" else Text())
    root, loggers = logging.getLogger(), [logging.getLogger(name) for name in OWN]
    before = [logger.level for logger in loggers]
    root.addHandler(handler)
    logging.captureWarnings(True)
    for logger in loggers:
        logger.setLevel(level.upper())
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
        for logger, was in zip(loggers, before, strict=True):
            logger.setLevel(was)
