"""Images as vectors: from scikit-learn's digits, or from a file of any network's outputs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from mixts.errors import FormatError
from mixts.extend import Array, Float, Int, files

ARRAYS = ("train_features", "train_labels", "test_features", "test_labels")
"""Arrays that a file must have; ``classes``, the names of the classes, is optional."""

_DIGITS_TRAINING = 1197
"""Number of scikit-learn's 1,797 digits for training; the other 600 are offered to agents."""
_DIGITS_SEED = 0
"""Seed of the split, which is part of the data: the seed of an experiment does not change it."""


@dataclass(frozen=True, repr=False)
class ImageFeatures:
    """Training and test images as rows of features, with their classes as integers from 0.

    Features may be the outputs of any network  [paper: Sec. 6.2].
    """

    train_features: Float[Array, "n d"]
    train_labels: Int[Array, " n"]
    test_features: Float[Array, "m d"]
    test_labels: Int[Array, " m"]
    classes: tuple[str, ...] | None = None
    """Names of the classes."""
    source: str = "arrays"
    """Origin of the images, for readers of a report."""

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            _check_part(part, getattr(self, f"{part}_features"), getattr(self, f"{part}_labels"))
        d, other = self.train_features.shape[1], self.test_features.shape[1]
        if d != other:
            raise FormatError(f"training images have {d} features, test images {other}")
        trained = np.unique(self.train_labels)
        if not np.array_equal(trained, np.arange(len(trained))) or len(trained) < 2:
            raise FormatError(
                "train_labels must have every class from 0 to the last one, at least two, got "
                f"{trained.tolist()}"
            )
        if not np.array_equal(np.unique(self.test_labels), trained):
            raise FormatError("test_labels must have the same classes as train_labels")
        if self.classes is not None and len(self.classes) != len(trained):
            raise FormatError(
                f"classes must name {len(trained)} classes, got {len(self.classes)} names"
            )

    @property
    def n_classes(self) -> int:
        return int(self.train_labels.max()) + 1

    @property
    def n_features(self) -> int:
        return self.train_features.shape[1]

    def __repr__(self) -> str:
        return (
            f"ImageFeatures({self.source}: {self.n_classes} classes, {self.n_features} features, "
            f"{len(self.train_labels):,} training and {len(self.test_labels):,} test images)"
        )

    @classmethod
    def digits(cls) -> ImageFeatures:
        """Return scikit-learn's handwritten digits: 8 by 8 grey levels from 0 to 1, ten classes."""
        from sklearn.datasets import load_digits

        data = load_digits()
        order = np.random.default_rng(_DIGITS_SEED).permutation(len(data.target))
        train, test = order[:_DIGITS_TRAINING], order[_DIGITS_TRAINING:]
        pixels, labels = data.data / 16.0, data.target.astype(np.int64)
        names = tuple(str(name) for name in data.target_names)
        return cls(
            pixels[train], labels[train], pixels[test], labels[test], names, "scikit-learn's digits"
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImageFeatures:
        """Read an ``npz`` file of the arrays in ``ARRAYS``; features have any real type."""
        target = Path(path)
        if not target.is_file():
            raise FormatError(f"{target} is not a file: give an npz file with {', '.join(ARRAYS)}")
        try:
            # Open it here: np.load(path) leaves a file open that it cannot read.
            with target.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
        except (ValueError, OSError, EOFError, TypeError, AttributeError, BadZipFile) as error:
            raise FormatError(f"{target} is not an npz file of arrays: {error}") from error
        missing = [name for name in ARRAYS if name not in found]
        if missing:
            raise FormatError(f"{target} has no array {', '.join(missing)}; it has {list(found)}")
        names = found.get("classes")
        train, labels, test, test_labels = (_typed(found[name], name) for name in ARRAYS)
        classes = None if names is None else tuple(str(name) for name in np.atleast_1d(names))
        return cls(train, labels, test, test_labels, classes, target.name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``npz`` file for ``load``, atomically; features in single precision."""
        arrays: dict[str, Any] = {
            "train_features": self.train_features.astype(np.float32),
            "train_labels": self.train_labels,
            "test_features": self.test_features.astype(np.float32),
            "test_labels": self.test_labels,
        }
        if self.classes is not None:
            arrays["classes"] = np.array(self.classes)
        with files.replacing(path) as part, part.open("wb") as stream:
            np.savez_compressed(stream, **arrays)


def _check_part(part: str, features: Array, labels: Array) -> None:
    if features.ndim != 2 or min(features.shape) == 0 or labels.shape != (len(features),):
        raise FormatError(
            f"{part}_features must be (n, d) and {part}_labels (n,), got {features.shape} and "
            f"{labels.shape}"
        )
    if not np.isfinite(features).all():
        raise FormatError(f"{part}_features must be finite")


def _typed(array: Array, name: str) -> Array:
    """Return features as real numbers and labels as integers; raise an error for other types."""
    kinds, words = ("iu", "integers") if name.endswith("labels") else ("fiu", "real numbers")
    if array.dtype.kind not in kinds:
        raise FormatError(f"{name} must be {words}, got type {array.dtype}")
    return array.astype(np.int64 if kinds == "iu" else np.float64)
