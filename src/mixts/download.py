"""A file from its home: what came stays when the line is cut, and is checked when it is whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mixts.errors import FormatError, MixtsError, ParameterError

Moved = Callable[[int], None]
"""Called with how much is done, which may also go back to 0."""

ATTEMPTS = 4
"""In a row that bring nothing, before a download is given up."""
PAUSE = 1.0
"""Seconds before the second attempt; twice that before the third, and so on."""
TIMEOUT = 30.0
_AT_ONCE = 1 << 18


class DownloadError(MixtsError, OSError):
    """A file could not be had from its home."""


@dataclass(frozen=True)
class PublishedFile:
    """A file at an address, with the size and checksums that make it that file."""

    name: str
    url: str
    size: int
    md5: str | None
    """None where its publisher gives no such sum."""
    sha256: str
    option: str = "--data"
    """Of the command line, for those who have a copy."""

    def __post_init__(self) -> None:
        try:
            address = urllib.parse.urlsplit(self.url)
            web = address.scheme in ("http", "https") and bool(address.hostname)
        except ValueError:
            web = False
        if not web:
            raise ParameterError(
                f"expected an address that begins with https:// or http://, got {self.url!r}"
            )


def cache_folder(name: str, given: Path | None = None) -> Path:
    """Where downloads of this name are kept: the given folder, or the user's own cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = given or Path(base) / "mixts" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = "another with --cache" if given else "another by setting XDG_CACHE_HOME"
        raise ParameterError(
            f"the cache folder {folder} cannot be made ({error}): choose {where}"
        ) from error
    return folder


def fetch(file: PublishedFile, folder: Path, moved: Moved = lambda done: None) -> Path:
    """The file in the folder, fetched unless it is there; begun downloads are continued."""
    target = folder / file.name
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        _complete(file, part, moved)
        _check(file, part)
        os.replace(part, target)
    else:
        _check(file, target)
    moved(file.size)
    return target


def _complete(file: PublishedFile, part: Path, moved: Moved) -> None:
    failures, most = 0, _size(part)
    while _size(part) < file.size:
        reason: Exception | str = "the connection was closed too early"
        try:
            _continue(file, part, moved)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 and error.code not in (408, 429):
                raise DownloadError(f"{file.url}: the server answers {error}") from error
            reason = error
        except DownloadError:
            raise
        except (OSError, http.client.HTTPException) as error:
            reason = error
        failures = 0 if _size(part) > most else failures + 1
        most = max(most, _size(part))
        if failures == ATTEMPTS:
            raise DownloadError(
                f"{file.url} could not be fetched: {reason}. {_size(part):,} of {file.size:,} "
                f"bytes are kept: run the command again to go on, or give a copy with {file.option}"
            )
        if failures:
            time.sleep(PAUSE * 2 ** (failures - 1))


def _continue(file: PublishedFile, part: Path, moved: Moved) -> None:
    """One request for what is missing; whatever comes is kept."""
    offset = _size(part)
    headers = {"Accept-Encoding": "identity", "User-Agent": "mixts"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    request = urllib.request.Request(file.url, headers=headers)
    try:
        response = _opener().open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if not offset or error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        part.unlink()  # a server that cannot go on from here may begin anew
        return
    with response:
        if not _continues(response, offset, file):
            if response.status == http.HTTPStatus.PARTIAL_CONTENT:
                part.unlink(missing_ok=True)  # another piece than was asked for
                return
            offset = 0  # the whole file, from a server that knows no pieces
        with part.open("ab" if offset else "wb") as stream:
            while offset < file.size:
                content = response.read(min(_AT_ONCE, file.size - offset))
                if not content:
                    return
                stream.write(content)
                offset += len(content)
                moved(offset)


def _continues(response: http.client.HTTPResponse, offset: int, file: PublishedFile) -> bool:
    """Whether an answer goes on where the file ends; one with something else is refused."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        piece = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        return bool(piece and int(piece[1]) == offset and piece[2] in ("*", str(file.size)))
    length = response.headers.get("Content-Length")
    if response.status != http.HTTPStatus.OK or length not in (None, str(file.size)):
        raise DownloadError(
            f"{file.url}: expected {file.size:,} bytes, the server answers {response.status} with "
            f"{length}. It may have moved, or something on the way answers in its place: give a "
            f"copy with {file.option}"
        )
    return False


def _opener() -> urllib.request.OpenerDirector:
    """Of http and https only, wherever an answer redirects to."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _check(file: PublishedFile, path: Path) -> None:
    digests = {"md5": hashlib.md5(usedforsecurity=False), "sha256": hashlib.sha256()}
    with path.open("rb") as stream:
        while content := stream.read(_AT_ONCE):
            for digest in digests.values():
                digest.update(content)
    for kind, digest in digests.items():
        expected, found = getattr(file, kind), digest.hexdigest()
        if expected is not None and found != expected:
            raise FormatError(
                f"{path} is not the file that was published: expected {kind} {expected}, got "
                f"{found} ({_size(path):,} bytes, expected {file.size:,}). It is kept as it is: "
                f"remove it and run the command again, or give another copy with {file.option}"
            )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
