"""The official layout: a folder with ``train``, ``test`` and ``meta``, packed or not."""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any, cast

from mixts.download import PublishedFile
from mixts.errors import FormatError, ParameterError

FOLDER = "cifar-100-python"

CIFAR100 = PublishedFile(
    name="cifar-100-python.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    size=169_001_437,
    md5="eb9058c3a382ffc7106e4002c42a8d85",  # as its home has it
    sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
)

SIZES = {"train": 256 << 20, "test": 256 << 20, "meta": 1 << 20}
"""The largest that each file may be; the official ones have 155 and 31 million bytes, and 1,526."""

TOTAL = 600 << 20
"""The most that is unpacked of an archive, whatever it says."""


def read_members(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The three files, from the ``tar.gz`` or the folder; nothing is extracted to disk."""
    source = Path(path)
    if source.is_dir():
        return _from_folder(source)
    if source.is_file():
        return _from_archive(source)
    raise ParameterError(
        f"{source} does not exist: give the data set's tar.gz, or the folder {FOLDER} in it"
    )


def _from_folder(folder: Path) -> dict[str, bytes]:
    # The folder itself, or the one that it was unpacked into.
    home = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    _check_complete({name for name in SIZES if (home / name).is_file()}, home)
    members = {}
    for name, limit in SIZES.items():
        with (home / name).open("rb") as stream:
            members[name] = stream.read(limit + 1)
        _check_size(len(members[name]), name, home)
    return members


def _from_archive(path: Path) -> dict[str, bytes]:
    try:
        with path.open("rb") as packed, gzip.GzipFile(fileobj=packed) as unpacked:
            stream = _Bounded(unpacked, path)
            members = _members(stream, path)
            # To the end, where the checksum of all that was read is.
            while stream.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise FormatError(
            f"{path} is not a whole tar.gz archive: {error}. Take it from its home again"
        ) from error
    _check_complete(members, path)
    return members


def _members(stream: _Bounded, path: Path) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    wanted = {PurePosixPath(FOLDER, name): name for name in SIZES}
    # From front to back, never by a position that the archive gives.
    with tarfile.open(fileobj=cast(Any, stream), mode="r|", bufsize=1 << 20) as archive:
        for entry in archive:
            name = wanted.get(PurePosixPath(entry.name))
            if name is None:
                continue
            content = archive.extractfile(entry) if entry.isreg() and not entry.issparse() else None
            if content is None or name in members:
                raise FormatError(f"{path}: {entry.name} must be one plain file in the archive")
            _check_size(entry.size, name, path)
            members[name] = content.read()
    return members


class _Bounded:
    """A stream that ends in an error when more is read than any honest archive has."""

    def __init__(self, stream: gzip.GzipFile, path: Path) -> None:
        self._stream = stream
        self._path = path
        self._left = TOTAL

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise FormatError(
                f"{self._path} unpacks to more than {TOTAL >> 20} MiB: it is not the data set"
            )
        return content


def _check_complete(found: set[str] | dict[str, bytes], path: Path) -> None:
    missing = [name for name in SIZES if name not in found]
    if missing:
        raise FormatError(
            f"{path} has no {', '.join(f'{FOLDER}/{name}' for name in missing)}; expected the "
            f"data set in its Python version, with {', '.join(SIZES)}"
        )


def _check_size(size: int, name: str, path: Path) -> None:
    if size > SIZES[name]:
        raise FormatError(
            f"{path}: {name} has more than {SIZES[name] >> 20} MiB: it is not the data set"
        )
