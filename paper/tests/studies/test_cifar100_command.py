"""``python -m mixts_paper.studies.cifar100``, with a stand-in for the network and the data set."""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.studies import PublishedFile, cifar100
from mixts_paper.studies.cifar100 import Cifar100, main

from mixts import errors
from mixts._typing import Array

CLASSES = [f"class_{number}" for number in range(100)]


class Python2Pickler(pickle._Pickler):  # type: ignore[misc,name-defined]
    """Writes bytes as Python 2 does its strings."""

    dispatch = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]

    def save_bytes(self, value: bytes) -> None:
        short = len(value) < 256
        head = b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))
        self.write(head + value)
        self.memoize(value)

    dispatch[bytes] = save_bytes


def dumps(value: Any) -> bytes:
    """A pickle of Python 2, with numpy's old name, as the data set has them."""
    stream = io.BytesIO()
    Python2Pickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def part(n_images: int, seed: int) -> dict[bytes, Any]:
    """Return the content of ``train`` or ``test``; classes take turns."""
    pixels = np.random.default_rng(seed).integers(0, 256, (n_images, 3072), dtype=np.uint8)
    return {b"fine_labels": [number % 100 for number in range(n_images)], b"data": pixels}


class Network:
    """In the place of EfficientNet-Lite."""

    n_images = 0
    stops = False

    identity = "network lite0"

    def __repr__(self) -> str:
        return self.identity

    def __call__(self, images: Array) -> Array:
        if Network.stops:
            raise KeyboardInterrupt
        Network.n_images += len(images)
        return images.reshape(len(images), -1)[:, ::32].astype(np.float32)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small archive in the layout of the published one, whose checksum is the expected one."""
    monkeypatch.setattr(cifar100, "EfficientNetLite", Network)
    monkeypatch.setattr(Network, "n_images", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "cifar-100-python.tar.gz"
    members = {
        "meta": {b"fine_label_names": [name.encode() for name in CLASSES]},
        "test": part(100, 2),
        "train": part(300, 1),
    }
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, value in members.items():
            content = dumps(value)
            entry = tarfile.TarInfo(f"cifar-100-python/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(cifar100, "CIFAR100", replace(cifar100.CIFAR100, sha256=sha256))
    return path


def test_the_images(data: Path) -> None:
    found = Cifar100.read(data)
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


class Harmful:
    def __reduce__(self) -> Any:
        return (Path("harm").touch, ())


def test_no_other_file_is_unpickled(data: Path) -> None:
    content = pickle.dumps(Harmful())
    with tarfile.open("other.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("cifar-100-python/train")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    with pytest.raises(errors.FormatError, match=r"other\.tar\.gz is not the published"):
        Cifar100.read(Path("other.tar.gz"))
    assert not Path("harm").exists()


def test_features_are_written_and_used(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(data), "--out", "my features.npz"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0].startswith("CIFAR-100, network lite0, linear probe (ridge ")
    assert lines[1].endswith(" on 100 test images")
    assert lines[-1] == "  mixts reproduce paper/images --features 'my features.npz'"
    found = ImageFeatures.load("my features.npz")
    assert found.train_features.shape == (300, 100)
    assert found.test_features.shape == (100, 100)
    assert found.classes == tuple(CLASSES)
    np.testing.assert_array_equal(found.train_labels, np.arange(300) % 100)
    accuracy = np.mean(found.train_features.argmax(1) == found.train_labels)
    assert lines[1].startswith(f"accuracy {accuracy:.3f} on 300 training images, ")


def test_what_was_computed_is_kept(data: Path, tmp_path: Path) -> None:
    command = ["--data", str(data)]
    assert main(command) == 0
    assert Network.n_images == 400
    assert len(list((tmp_path / "cache/mixts/cifar100/embeddings").glob("*.npy"))) == 4
    first = Path("cifar100-features.npz").read_bytes()
    assert main([*command, "--out", "again.npz"]) == 0
    assert Network.n_images == 400
    assert Path("again.npz").read_bytes() == first


def test_an_interrupted_command(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Network, "stops", True)
    assert main(["--data", str(data)]) == 130
    assert "To continue, run it again" in capsys.readouterr().err
    assert not Path("cifar100-features.npz").exists()


def test_the_data_set_is_downloaded(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(file: PublishedFile, folder: Path) -> Path:
        asked.append((file, folder))
        return data

    monkeypatch.setattr(cifar100, "fetch", fetch)
    assert main([]) == 0
    assert asked == [(cifar100.CIFAR100, tmp_path / "cache" / "mixts" / "cifar100")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "nowhere is not a file: give the data set's cifar-100-python.tar"),
        (["--data", "damaged"], "damaged is not the published cifar-100-python.tar.gz"),
        (["--out", "damaged"], "damaged exists: choose another --out"),
        (["--out", "no/such/folder.npz"], "cannot write to the folder no/such"),
    ],
)
def test_mistakes_get_a_message_and_status_2(
    data: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("damaged").write_bytes(data.read_bytes()[:1000])
    assert main([*arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("mixts_paper.studies.cifar100: ")
    assert message in printed.err
    assert Path("damaged").read_bytes() == data.read_bytes()[:1000]
    assert not Path("cifar100-features.npz").exists()


@pytest.mark.parametrize("arguments", [["imagenet"], ["--network"]])
def test_wrong_use(data: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m mixts_paper.studies.cifar100" in capsys.readouterr().err


def test_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before anything is downloaded."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(cifar100, "fetch", lambda *_: pytest.fail("a download was begun"))
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2
    assert "pip install 'mixts-paper[images]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
