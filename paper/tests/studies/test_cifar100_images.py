"""The data set in its official layout: packed, unpacked, incomplete, damaged or too large."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_paper.studies.cifar100 import Cifar100, dataset

from mixts import errors
from paper.tests.studies.cifar100_archives import (
    CLASSES,
    DIALECTS,
    dumps,
    members,
    pack,
    part,
    unpack,
)


def check(found: Cifar100) -> None:
    assert found.train_images.shape == (300, 3, 32, 32)
    assert found.test_images.shape == (100, 3, 32, 32)
    assert found.train_images.dtype == found.test_images.dtype == np.uint8
    rows = part(300, 1)[b"data"]
    # A row is the red plane, the green one and the blue one, each row by row.
    assert found.train_images[7, 2, 30, 5] == rows[7, 2 * 1024 + 30 * 32 + 5]
    np.testing.assert_array_equal(found.train_images.reshape(300, -1), rows)
    np.testing.assert_array_equal(found.test_images.reshape(100, -1), part(100, 2)[b"data"])
    np.testing.assert_array_equal(found.train_labels, np.arange(300) % 100)
    np.testing.assert_array_equal(found.test_labels, np.arange(100))
    assert found.classes == tuple(CLASSES)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_packed(dialect: str, tmp_path: Path) -> None:
    path = pack(members(dialect), tmp_path / "any name")
    check(Cifar100.read(path))
    check(Cifar100.read(pack(members(dialect), path, "./cifar-100-python/")))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["any name"]


def test_unpacked(tmp_path: Path) -> None:
    folder = unpack(members(), tmp_path / "cifar-100-python")
    check(Cifar100.read(folder))
    check(Cifar100.read(tmp_path))
    assert repr(Cifar100.read(folder)) == "Cifar100(300 training and 100 test images)"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(errors.ParameterError, match=r"nothing does not exist: give the data set's"):
        Cifar100.read(tmp_path / "nothing")


@pytest.mark.parametrize("missing", ["train", "test", "meta"])
def test_a_missing_member(missing: str, tmp_path: Path) -> None:
    files = members()
    del files[missing]
    for path in (pack(files, tmp_path / "packed"), unpack(files, tmp_path / "folder")):
        with pytest.raises(
            errors.FormatError, match=f"has no cifar-100-python/{missing}; expected"
        ):
            Cifar100.read(path)
    with pytest.raises(errors.FormatError, match="has no cifar-100-python/train, "):
        Cifar100.read(pack(members(), tmp_path / "cifar 10", folder="cifar-10-batches-py/"))


def test_a_truncated_archive(tmp_path: Path) -> None:
    path = pack(members(), tmp_path / "packed")
    content = path.read_bytes()
    lengths = [0, 1, 5, 20, 200, *range(1000, len(content), len(content) // 12), len(content) - 1]
    for length in lengths:
        path.write_bytes(content[:length])
        with pytest.raises(errors.FormatError, match="is not a whole tar"):
            Cifar100.read(path)


def test_an_archive_is_read_to_its_end(tmp_path: Path) -> None:
    """Its checksum is behind all that was packed, and behind the padding too."""
    path = pack(members(), tmp_path / "packed")
    content = gzip.compress(gzip.decompress(path.read_bytes()) + bytes(3 << 20), 1)
    path.write_bytes(content)
    check(Cifar100.read(path))
    path.write_bytes(content[:-5])
    with pytest.raises(errors.FormatError, match="is not a whole tar"):
        Cifar100.read(path)


def test_a_turned_byte_in_an_archive(tmp_path: Path) -> None:
    path = pack(members(), tmp_path / "packed")
    content = path.read_bytes()
    for place in range(50, len(content), len(content) // 10):  # after the name in its header
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        with pytest.raises(errors.FormatError):
            Cifar100.read(path)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"text", bytes(5000), gzip.compress(b"text"), members()["train"]):
        path.write_bytes(content)
        with pytest.raises(errors.FormatError, match="file"):
            Cifar100.read(path)


def add(path: Path, name: str, kind: bytes, content: bytes = b"", target: str = "") -> None:
    """An archive whose first entry is the given one, then the data set."""
    with tarfile.open(path, "w:gz") as packed:
        entry = tarfile.TarInfo(f"cifar-100-python/{name}")
        entry.type, entry.linkname, entry.size = kind, target, len(content)
        packed.addfile(entry, io.BytesIO(content))
        for other, plain in members().items():
            entry = tarfile.TarInfo(f"cifar-100-python/{other}")
            entry.size = len(plain)
            packed.addfile(entry, io.BytesIO(plain))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("train", tarfile.SYMTYPE), ("meta", tarfile.LNKTYPE), ("test", tarfile.REGTYPE)],
)
def test_links_and_second_files(name: str, kind: bytes, tmp_path: Path) -> None:
    add(tmp_path / "packed", name, kind, target="/etc/passwd")
    with pytest.raises(errors.FormatError, match=f"{name} must be one plain file"):
        Cifar100.read(tmp_path / "packed")


def test_other_entries_are_not_looked_at(tmp_path: Path) -> None:
    add(tmp_path / "packed", "../../outside", tarfile.REGTYPE, b"content")
    check(Cifar100.read(tmp_path / "packed"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["packed"]


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = members() | {"meta": bytes((1 << 20) + 1)}
    for path in (pack(files, tmp_path / "packed"), unpack(files, tmp_path / "folder")):
        with pytest.raises(errors.FormatError, match="meta has more than 1 MiB"):
            Cifar100.read(path)
    monkeypatch.setattr(dataset, "TOTAL", 2 << 20)
    add(tmp_path / "bomb", "other", tarfile.REGTYPE, bytes(3 << 20))
    with pytest.raises(errors.FormatError, match="unpacks to more than 2 MiB"):
        Cifar100.read(tmp_path / "bomb")


def changed(name: str, value: Any, tmp_path: Path) -> Path:
    return unpack(members() | {name: dumps(value)}, tmp_path / "cifar-100-python")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": np.zeros((300, 3071), np.uint8)}, r"\(n, 3072\), an image a row, got \(300, 30"),
        ({"data": np.zeros((300, 3, 32, 32), np.uint8)}, r"got \(300, 3, 32, 32\)"),
        ({"data": [1, 2, 3]}, "got list"),
        ({"data": np.zeros((299, 3072), np.uint8)}, "a list of 299 whole numbers"),
        ({"data": np.zeros((0, 3072), np.uint8), "fine_labels": []}, "has no images"),
        ({"fine_labels": [0] * 299}, "a list of 300 whole numbers"),
        ({"fine_labels": [0] * 299 + [100]}, "from 0 to 99, got 100"),
        ({"fine_labels": [-1] + [0] * 299}, "from 0 to 99, got -1"),
        ({"fine_labels": [b"0"] * 300}, "a list of 300 whole numbers"),
        ({"fine_labels": [True] * 300}, "a list of 300 whole numbers"),
        ({"fine_labels": b"0" * 300}, "a list of 300 whole numbers"),
    ],
)
def test_wrong_images(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = changed("train", part(300, 1, **changes), tmp_path)
    with pytest.raises(errors.FormatError, match=f"train.*{message}"):
        Cifar100.read(path)


def test_cifar_10_is_not_cifar_100(tmp_path: Path) -> None:
    entries = part(300, 1)
    entries[b"labels"] = entries.pop(b"fine_labels")
    with pytest.raises(
        errors.FormatError, match="train has no 'fine_labels', it has batch_label, "
    ):
        Cifar100.read(changed("train", entries, tmp_path))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([b"a"] * 100, "got 100, 1 of them different"),
        ([name.encode() for name in CLASSES[:99]], "got 99, 99 of them"),
        (b"a" * 100, "must be a list of names"),
        ([*range(100)], "must be a list of names"),
    ],
)
def test_wrong_class_names(names: Any, message: str, tmp_path: Path) -> None:
    path = changed("meta", {b"fine_label_names": names}, tmp_path)
    with pytest.raises(errors.FormatError, match=message):
        Cifar100.read(path)
