"""Files of named arrays and a small header, in an open format without pickle.

Such a file, a bundle, has one of two encodings: JSON, for people and other languages, or a zip of
``.npy`` arrays (numpy's ``npz``), for size and speed. ``write_bundle`` writes JSON if the path ends
in ``.json``, else the zip; ``read_bundle`` recognises the encoding by the content.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from mixts._typing import Array
from mixts.errors import FormatError

VERSION = 1
"""Version of the format; readers refuse newer versions."""

_HEADER = "header.json"

_LONGEST_EMPTY = 10**7
"""Longest axis of an array without numbers, such as the counts of no tasks for many arms."""

_COUNTER = itertools.count()

_DAMAGE = (
    KeyError, ValueError, TypeError, AttributeError, EOFError, OSError, NotImplementedError,
    RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Exceptions that reading a damaged file may raise."""

_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compressions that are read; each other one has exceptions of its own for damaged bytes."""


def write_bundle(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write a bundle atomically: readers see the old file or the whole new file."""
    target = Path(path)
    content = pack_bundle(kind, header, arrays, as_json=target.suffix == ".json")
    with replacing(target) as part:
        part.write_bytes(content)


def pack_bundle(
    kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array], *, as_json: bool
) -> bytes:
    """Return a bundle as bytes."""
    top = {"format": f"mixts/{kind}", "version": VERSION, **header}
    return _to_json(top, arrays) if as_json else _to_zip(top, arrays)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success, move that file to the target."""
    target = Path(path)
    # Threads that write one path at the same time each need a file of their own.
    unique = f"{os.getpid()}-{threading.get_ident()}-{next(_COUNTER)}"
    temporary = target.with_name(f".{target.name}.{unique}.part")
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_bundle(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and the arrays of a bundle of this kind."""
    return unpack_bundle(read_content(path), kind, str(path))


def read_content(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file, unless they would not fit into the memory."""
    n_bytes = os.stat(path).st_size
    if n_bytes > _most_bytes():
        raise FormatError(f"{path} is too large: {_too_large(n_bytes)}")
    return Path(path).read_bytes()


def unpack_bundle(
    content: bytes, kind: str, source: str
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and the arrays of a bundle's bytes; error messages name ``source``.

    A zip that would take more than half of the machine's memory is refused before it is unpacked.
    """
    try:
        header, arrays = _from_zip(content) if content[:2] == b"PK" else _from_json(content)
    except _DAMAGE as error:
        raise FormatError(f"{source} is not a mixts {kind} file, or is damaged: {error}") from error
    check_format(header, kind, source)
    return header, arrays


def check_format(header: Mapping[str, Any], kind: str, source: str) -> None:
    """Raise ``FormatError`` unless a header is of this kind, and of a version that is known."""
    if header.get("format") != f"mixts/{kind}":
        raise FormatError(
            f"{source}: expected a file of format 'mixts/{kind}', got {header.get('format')!r}"
        )
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{source}: the version must be a positive integer, got {version!r}")
    if version > VERSION:
        raise FormatError(
            f"{source} has format version {version}; this mixts reads up to {VERSION}: "
            "upgrade mixts"
        )


def _to_json(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    encoded = {
        name: {"dtype": str(a.dtype), "shape": list(a.shape), "values": a.tolist()}
        for name, a in arrays.items()
    }
    text = json.dumps({**header, "arrays": encoded}, allow_nan=False, ensure_ascii=False)
    return (text + "\n").encode()


def _from_json(content: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    header = json.loads(content)
    if not isinstance(header, dict):
        raise ValueError("the top of the file is not an object")
    if not str(header.get("format", "")).startswith("mixts/"):
        return header, {}
    arrays = {}
    for name, entry in header.pop("arrays").items():
        dtype = np.dtype(entry["dtype"])
        _check_numeric(dtype, name)
        # Nested lists show their shape unless a dimension is zero; a wrong shape raises here.
        values = np.array(entry["values"]).reshape(entry["shape"])
        array = values.astype(dtype)
        if values.dtype.kind not in "biuf" or not np.array_equal(array, values):
            raise ValueError(f"the values of {name!r} are not of type {dtype}")
        _check_empty(array.shape, name)
        arrays[name] = array
    return header, arrays


def _to_zip(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add_member(archive, _HEADER, json.dumps(dict(header), ensure_ascii=False).encode())
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=False)
            _add_member(archive, f"{name}.npy", member.getvalue())
    return buffer.getvalue()


def _add_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # A fixed date, so that the same bundle gives the same bytes.
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def _from_zip(content: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if any(member.compress_type not in _COMPRESSIONS for member in archive.infolist()):
            raise ValueError("its members must be deflated, or not compressed")
        # Python reads no more of a member than these sizes say.
        n_bytes = sum(member.file_size for member in archive.infolist())
        if n_bytes > _most_bytes():
            raise ValueError(_too_large(n_bytes))
        header = json.loads(archive.read(_HEADER))
        if not isinstance(header, dict):
            raise ValueError("the header is not an object")
        arrays = {}
        for member in archive.namelist():
            if member != _HEADER:
                name = member.removesuffix(".npy")
                arrays[name] = _read_array(archive.read(member), name)
    return header, arrays


def _read_array(content: bytes, name: str) -> Array:
    """Return the array of an ``.npy`` file; numpy would allocate whatever its header says."""
    stream = io.BytesIO(content)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = readers[npy.read_magic(stream)](stream)
    _check_numeric(dtype, name)
    _check_empty(shape, name)
    expected, found = math.prod(shape) * dtype.itemsize, len(content) - stream.tell()
    if expected != found:
        raise ValueError(
            f"array {name!r} of shape {shape} needs {expected:,} bytes, and the file has {found:,}"
        )
    stream.seek(0)
    array: Array = np.load(stream, allow_pickle=False)
    return array


def _check_empty(shape: tuple[int, ...], name: str) -> None:
    """Refuse an array without numbers whose shape would make other arrays huge."""
    if 0 in shape and max(shape) > _LONGEST_EMPTY:
        raise ValueError(f"array {name!r} has the shape {shape}, but no numbers")


def _most_bytes() -> int:
    """Return the number of bytes that a file may take in memory: half of the machine's."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return 2**32


def _too_large(n_bytes: int) -> str:
    return (
        f"it takes {n_bytes:,} bytes in memory, and at most {_most_bytes():,}, half of this "
        "machine's, are read"
    )


def _check_numeric(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind not in "biuf":
        raise ValueError(f"array {name!r} has type {dtype}; a bundle holds only numbers")
