"""CIFAR-100: 32 by 32 pixels in colour, 100 classes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts._typing import Array, Int
from mixts.bridges.cifar100.archive import read_members
from mixts.bridges.cifar100.pickles import read_pickle, text
from mixts.errors import FormatError

N_CLASSES = 100
SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True, repr=False)
class Cifar100:
    """Images as bytes (n, 3, 32, 32), red, green and blue, with their classes 0 to 99."""

    train_images: Array
    train_labels: Int[Array, " n"]
    test_images: Array
    test_labels: Int[Array, " m"]
    classes: tuple[str, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Cifar100:
        """From the official ``cifar-100-python.tar.gz``, or the folder that is in it."""
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
