"""Embeddings of images, computed once: they are kept by content, and found by any later command."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from mixts._files import replacing
from mixts._typing import Array, Float

CHUNK = 100
"""Images a file: what an interrupted command loses at most."""


@runtime_checkable
class Embedding(Protocol):
    """A function of images (n, 3, 32, 32) to vectors (n, d)."""

    identity: str
    """All that its outputs depend on besides the images."""

    def __call__(self, images: Array) -> Float[Array, "n d"]: ...


def embed(
    images: Array,
    embedding: Embedding,
    folder: Path,
    moved: Callable[[int], None] = lambda done: None,
) -> Float[Array, "n d"]:
    """Embeddings in single precision; ``moved`` is called with the number of images done."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for start in range(0, len(images), CHUNK):
        chunk = np.ascontiguousarray(images[start : start + CHUNK])
        path = folder / f"{_key(chunk, embedding.identity)}.npy"
        values = _read(path, len(chunk))
        if values is None:
            # Half precision has more digits than these differences mean, and half the size.
            # Kept or computed, the numbers are the same.
            values = embedding(chunk).astype(np.float16)
            with replacing(path) as part, part.open("wb") as stream:
                np.save(stream, values, allow_pickle=False)
        rows.append(values.astype(np.float32))
        moved(min(start + CHUNK, len(images)))
    return np.concatenate(rows)


def _key(chunk: Array, identity: str) -> str:
    content = hashlib.sha256(f"{identity}\n{chunk.shape}\n".encode())
    content.update(chunk.tobytes())
    return content.hexdigest()


def _read(path: Path, n_images: int) -> Array | None:
    """What was kept, or nothing: a damaged file is computed again."""
    try:
        # numpy leaves a file that it opened itself, and cannot read, open.
        with path.open("rb") as stream:
            values = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = values.dtype == np.float16 and values.ndim == 2 and len(values) == n_images
    return values if whole and np.isfinite(values).all() else None
