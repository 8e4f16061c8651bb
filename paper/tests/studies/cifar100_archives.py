"""Small data sets of noise in the layout of CIFAR-100."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = [f"class_{number}" for number in range(100)]
DIALECTS = ("python 2", "protocol 2", "protocol 4")
"""Python 2's own pickles, as the data set has them, and Python 3's for Python 2 and for itself."""


class Python2Pickler(pickle._Pickler):  # type: ignore[misc,name-defined]
    """Writes bytes as Python 2 does its strings."""

    dispatch = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]

    def save_bytes(self, value: bytes) -> None:
        short = len(value) < 256
        head = b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))
        self.write(head + value)
        self.memoize(value)

    dispatch[bytes] = save_bytes


def dumps(value: Any, dialect: str = "python 2") -> bytes:
    """A pickle in one of the dialects; Python 2's also has numpy's old name."""
    if dialect != "python 2":
        return pickle.dumps(value, protocol=int(dialect[-1]))
    stream = io.BytesIO()
    Python2Pickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def part(n_images: int, seed: int, **changes: Any) -> dict[bytes, Any]:
    """Return the content of ``train`` or ``test``; classes take turns."""
    pixels = np.random.default_rng(seed).integers(0, 256, (n_images, 3072), dtype=np.uint8)
    labels = [number % 100 for number in range(n_images)]
    entries = {
        b"filenames": [b"image_%d.png" % number for number in range(n_images)],
        b"batch_label": b"noise",
        b"fine_labels": labels,
        b"coarse_labels": [label // 5 for label in labels],
        b"data": pixels,
    }
    return entries | {name.encode(): value for name, value in changes.items()}


def members(dialect: str = "python 2", n_train: int = 300, n_test: int = 100) -> dict[str, bytes]:
    """The three files."""
    names = [name.encode() for name in CLASSES]
    return {
        "meta": dumps({b"fine_label_names": names, b"coarse_label_names": [b"any"] * 20}, dialect),
        "test": dumps(part(n_test, 2), dialect),
        "train": dumps(part(n_train, 1), dialect),
    }


def pack(files: dict[str, bytes], path: Path, folder: str = "cifar-100-python/") -> Path:
    """A tar.gz of the files, as its home has it."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(folder + name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def unpack(files: dict[str, bytes], folder: Path) -> Path:
    """The files in a folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder
