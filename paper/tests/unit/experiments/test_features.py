from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mixts_paper.experiments.features import ARRAYS, ImageFeatures

from mixts.errors import FormatError


def images(**changes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {
        "train_features": rng.normal(size=(6, 3)).astype(np.float16),
        "train_labels": np.array([0, 1, 2, 0, 1, 2]),
        "test_features": rng.normal(size=(3, 3)).astype(np.float16),
        "test_labels": np.array([2, 1, 0], np.uint8),
    }
    return {**arrays, **changes}


def write(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_a_file_of_any_real_type(tmp_path: Path) -> None:
    arrays = images(classes=np.array(["ant", "bee", "cat"]))
    read = ImageFeatures.load(write(tmp_path / "f.npz", arrays))
    assert (read.n_classes, read.n_features, read.source) == (3, 3, "f.npz")
    assert read.classes == ("ant", "bee", "cat")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(read, name), arrays[name])
    assert read.train_features.dtype == np.float64


def test_saved_and_loaded(tmp_path: Path) -> None:
    read = ImageFeatures.load(write(tmp_path / "f.npz", images()))
    read.save(tmp_path / "g.npz")
    again = ImageFeatures.load(tmp_path / "g.npz")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(read, name))
    assert again.classes is None


def test_the_digits() -> None:
    digits = ImageFeatures.digits()
    assert (digits.n_classes, digits.n_features) == (10, 64)
    assert (len(digits.train_labels), len(digits.test_labels)) == (1197, 600)
    assert 0 <= digits.train_features.min() < digits.train_features.max() <= 1
    # No image is on both sides.
    both = np.concatenate([digits.train_features, digits.test_features])
    assert len(np.unique(both, axis=0)) == 1797


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"test_labels": None}, "no array test_labels"),
        ({"train_features": np.zeros((6, 4))}, "4 features, test images 3"),
        ({"train_features": np.zeros((5, 3))}, r"got \(5, 3\) and \(6,\)"),
        ({"train_features": np.zeros(6)}, r"got \(6,\)"),
        ({"train_features": np.full((6, 3), np.inf)}, "finite"),
        ({"train_features": np.array([["a"] * 3] * 6)}, "real numbers"),
        ({"train_labels": np.zeros(6)}, "integers"),
        ({"train_labels": np.zeros(6, int)}, "at least two"),
        ({"train_labels": np.array([0, 1, 3, 0, 1, 3])}, "every class"),
        ({"test_labels": np.array([0, 1, 1])}, "same classes"),
        ({"classes": np.array(["ant"])}, "3 classes, got 1"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, changes: dict, match: str, unchecked: None) -> None:
    with pytest.raises(FormatError, match=match):
        ImageFeatures.load(write(tmp_path / "f.npz", images(**changes)))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is not a file"):
        ImageFeatures.load(tmp_path / "missing.npz")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FormatError, match="not an npz file"):
        ImageFeatures.load(tmp_path / "text")
    whole = write(tmp_path / "f.npz", images()).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-40])
    with pytest.raises(FormatError, match="not an npz file"):
        ImageFeatures.load(tmp_path / "cut.npz")


def test_pickles_are_refused(tmp_path: Path) -> None:
    arrays = images(train_features=np.array([[None] * 3] * 6, dtype=object))
    with pytest.raises(FormatError, match="not an npz file"):
        ImageFeatures.load(write(tmp_path / "f.npz", arrays))
