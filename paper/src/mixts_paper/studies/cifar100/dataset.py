"""CIFAR-100: 32 by 32 pixels in colour, 100 classes, read from the official files."""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np

from mixts.errors import FormatError, ParameterError
from mixts.extend import Array
from mixts_paper.studies._download import PublishedFile
from mixts_paper.studies.cifar100.pickles import read_pickle, text

N_CLASSES = 100
SIDE = 32
PIXELS = 3 * SIDE * SIDE

FOLDER = "cifar-100-python"

CIFAR100 = PublishedFile(
    name="cifar-100-python.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
)

SIZES = {"train": 256 << 20, "test": 256 << 20, "meta": 1 << 20}
"""The largest that each file may be; the official ones have 155 and 31 million bytes, and 1,526."""

TOTAL = 600 << 20
"""The most that is unpacked of an archive, whatever it says."""


@dataclass(frozen=True, repr=False)
class Cifar100:
    """Images as bytes (n, 3, 32, 32), red, green and blue, with their classes 0 to 99."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array
    classes: tuple[str, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Cifar100:
        """Read the official ``cifar-100-python.tar.gz``, or the folder that is in it."""
        members = read_members(path)
        classes = _class_names(members.pop("meta"), f"{path}: meta")
        # One after the other, so that each pickle's bytes can go before the next is read.
        train = _images(members.pop("train"), f"{path}: train")
        test = _images(members.pop("test"), f"{path}: test")
        return cls(*train, *test, classes)

    def __repr__(self) -> str:
        return (
            f"Cifar100({len(self.train_labels):,} training and {len(self.test_labels):,} test "
            "images)"
        )


def _class_names(content: bytes, name: str) -> tuple[str, ...]:
    names = _entry(read_pickle(content, name), "fine_label_names", name)
    if not isinstance(names, list) or not all(isinstance(word, (str, bytes)) for word in names):
        raise FormatError(f"{name}: fine_label_names must be a list of names")
    words = tuple(text(word) for word in names)
    if len(set(words)) != N_CLASSES or len(words) != N_CLASSES:
        raise FormatError(
            f"{name}: fine_label_names must be {N_CLASSES} different names, got {len(words)}, "
            f"{len(set(words))} of them different"
        )
    return words


def _images(content: bytes, name: str) -> tuple[Array, Array]:
    entries = read_pickle(content, name)
    pixels = _entry(entries, "data", name)
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        got = pixels.shape if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise FormatError(
            f"{name}: data must be an array of bytes (n, {PIXELS}), an image a row, got {got}"
        )
    if len(pixels) == 0:
        raise FormatError(f"{name} has no images")
    labels = _labels(_entry(entries, "fine_labels", name), len(pixels), name)
    return np.ascontiguousarray(pixels).reshape(-1, 3, SIDE, SIDE), labels


def _labels(labels: Any, n_images: int, name: str) -> Array:
    whole = isinstance(labels, list) and all(type(label) is int for label in labels)
    if not whole or len(labels) != n_images:
        raise FormatError(
            f"{name}: fine_labels must be a list of {n_images} whole numbers, one for each image"
        )
    outside = [label for label in labels if not 0 <= label < N_CLASSES]
    if outside:
        raise FormatError(
            f"{name}: fine_labels must be from 0 to {N_CLASSES - 1}, got {outside[0]}"
        )
    return np.array(labels, np.int64)


def _entry(entries: dict[str, Any], key: str, name: str) -> Any:
    if key not in entries:
        raise FormatError(
            f"{name} has no {key!r}, it has {', '.join(sorted(entries)) or 'nothing'}; expected "
            "CIFAR-100 in its Python version"
        )
    return entries[key]


# -- the files ---------------------------------------------------------------------------------


def read_members(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """Return the three files of the ``tar.gz`` or the folder; nothing is extracted to disk."""
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
            f"{path} is not a whole tar.gz archive: {error}. Download it again"
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
    """A stream that raises an error when more is read than the data set has."""

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
