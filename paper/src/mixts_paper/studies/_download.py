"""Download a published file once, check it, and keep it in a cache folder."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from mixts.errors import FormatError, MissingExtraError, MixtsError, ParameterError

RETRIES = 3
"""Attempts after the first one."""
TIMEOUT = 30.0
"""Seconds without an answer after which an attempt fails."""


class DownloadError(MixtsError, OSError):
    """A file could not be downloaded."""


@dataclass(frozen=True)
class PublishedFile:
    """A file at an address, identified by its checksum."""

    name: str
    url: str
    sha256: str
    option: str = "--data"
    """Option of the command line that takes a copy of the file."""


def cache_folder(name: str) -> Path:
    """Return the folder of this name below ``mixts`` in the user's cache folder; create it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "mixts" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"the cache folder {folder} cannot be created ({error}): choose another by setting "
            "XDG_CACHE_HOME"
        ) from error
    return folder


def fetch(file: PublishedFile, folder: Path) -> Path:
    """Return the path of the file in the folder; download it unless it is there and whole.

    Raises
    ------
    FormatError
        If the server sends a file with another checksum.
    DownloadError
        If the server does not send a file.
    """
    try:
        import pooch
        from requests import RequestException
    except ImportError as error:
        raise MissingExtraError(
            f"a download needs pooch ({error}): pip install 'mixts-paper[studies]', or give a copy "
            f"with {file.option}"
        ) from error
    pooch.get_logger().setLevel(logging.WARNING)
    cache = pooch.create(
        folder,
        base_url="",
        registry={file.name: f"sha256:{file.sha256}"},
        urls={file.name: file.url},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(headers={"User-Agent": "mixts"}, timeout=TIMEOUT)
    try:
        return Path(cache.fetch(file.name, downloader=downloader))
    except (RequestException, OSError) as error:
        raise DownloadError(
            f"{file.url} could not be downloaded: {error}. Run the command again, or give a copy "
            f"with {file.option}"
        ) from error
    except ValueError as error:  # pooch: another checksum
        raise FormatError(
            f"{file.url} did not send the published file, but something else ({error}): give "
            f"another copy with {file.option}"
        ) from error
