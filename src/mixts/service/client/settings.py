"""What the two clients have in common: how they are made, and when they try again."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from mixts.errors import MissingExtraError, MixtsError, ParameterError, StoreUnavailableError
from mixts.service.client.answers import content
from mixts.service.client.attempts import Attempts

AGAIN = frozenset({429, 503})
"""Answers that say: not now. Every other one is the last word."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What a bearer token may have (RFC 6750); a line's end in it would begin another header."""


class Settings(ABC):
    """Where the service is, who asks, and how patiently."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 4,
        deadline: float = 30.0,
        transport: Any = None,
    ) -> None:
        self.url = _address(url)
        if token is not None and not _TOKEN.fullmatch(token):
            raise ParameterError(
                "token must be letters, digits and -._~+/ (is there a space or a line's end in it?)"
            )
        if not (timeout > 0 and deadline > 0 and retries >= 0):
            raise ParameterError(
                "timeout and deadline must be above 0 seconds and retries at least 0, got "
                f"{timeout}, {deadline} and {retries}"
            )
        self._timeout, self._retries, self._deadline = timeout, retries, deadline
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._httpx = _httpx()
        self._http = self._open(base_url=self.url, headers=headers, transport=transport)
        self._clock: Callable[[], float] = time.monotonic

    @abstractmethod
    def _open(self, **options: Any) -> Any:
        """httpx's client."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _attempts(self) -> Attempts:
        return Attempts(self._retries, self._timeout, self._deadline, self._clock)

    def _pause(self, attempts: Attempts, outcome: Any) -> float | None:
        """How long to wait before asking again; None where a response is the last word.

        The outcome is httpx's response, or its exception where none came.
        """
        if isinstance(outcome, Exception):
            error: MixtsError = self._unreachable(outcome)
            error.__cause__ = outcome
            return attempts.pause(error)
        if outcome.status_code not in AGAIN:
            return None
        try:
            content(outcome.status_code, outcome.content)
        except MixtsError as refused:
            error = refused
        return attempts.pause(error, outcome.headers.get("Retry-After"))

    def _unreachable(self, reason: Exception) -> StoreUnavailableError:
        said = f"{type(reason).__name__}: {reason}" if str(reason) else type(reason).__name__
        return StoreUnavailableError(f"no answer from the service at {self.url} ({said})")


def _address(url: str) -> str:
    parts = urlsplit(url)
    # An address may hold a password: it is refused, and not shown.
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ParameterError("url must be like http://127.0.0.1:8000, without user and password")
    if parts.query or parts.fragment:
        raise ParameterError("url must be like http://127.0.0.1:8000, with nothing after ? or #")
    return url.rstrip("/")


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError("a client needs httpx: pip install 'mixts[client]'") from error
    return httpx
