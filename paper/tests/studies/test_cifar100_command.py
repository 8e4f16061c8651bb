"""``python -m mixts_paper.studies.cifar100``, with a stand-in for the network."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.studies._download import PublishedFile
from mixts_paper.studies.cifar100 import CIFAR100
from mixts_paper.studies.cifar100 import __main__ as command_line
from mixts_paper.studies.cifar100.__main__ import main

from mixts._typing import Array
from paper.tests.studies.cifar100_archives import CLASSES, members, pack


class Network:
    """In the place of EfficientNet-Lite."""

    n_images = 0
    stops = False

    def __init__(self, name: str, resolution: int | None) -> None:
        self.identity = f"{name} at {resolution}"

    def __repr__(self) -> str:
        return self.identity

    def __call__(self, images: Array) -> Array:
        if Network.stops:
            raise KeyboardInterrupt
        Network.n_images += len(images)
        return images.reshape(len(images), -1)[:, ::32].astype(np.float32)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command_line, "EfficientNetLite", Network)
    monkeypatch.setattr(Network, "n_images", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return pack(members(), tmp_path / "cifar-100-python.tar.gz")


def test_features_are_written_and_used(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(data), "--out", "my features.npz"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0].startswith("CIFAR-100, lite0 at None, linear probe (ridge ")
    assert lines[1].startswith("accuracy ")
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
    for changed in (["--network", "lite1"], ["--resolution", "96"], ["--cache", "elsewhere"]):
        before = Network.n_images
        assert main([*command, "--out", f"{changed[1]}.npz", *changed]) == 0
        assert Network.n_images == before + 400
    assert len(list((tmp_path / "elsewhere" / "embeddings").glob("*.npy"))) == 4


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

    monkeypatch.setattr(command_line, "fetch", fetch)
    assert main([]) == 0
    mirror = "http://mirror.example/cifar-100-python.tar.gz"
    assert main(["--url", mirror, "--out", "2.npz"]) == 0
    folder = tmp_path / "cache" / "mixts" / "cifar100"
    own = CIFAR100
    assert asked == [(own, folder), (replace(own, url=mirror), folder)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "nowhere does not exist: give the data set's tar.gz"),
        (["--data", "damaged"], "damaged is not a whole tar.gz archive"),
        (["--data", "damaged", "--url", "https://mirror.example/"], "omit it, or omit --data"),
        (["--url", "file:///etc/passwd"], "begins with https:// or http://"),
        (["--out", "damaged"], "damaged exists: choose another --out"),
        (["--out", "no/such/folder.npz"], "cannot write to the folder no/such"),
        (["--cache", "damaged"], "the cache folder damaged cannot be created"),
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


@pytest.mark.parametrize("arguments", [["imagenet"], ["--network", "lite9"]])
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
    monkeypatch.setattr(command_line, "fetch", lambda *_: pytest.fail("a download was begun"))
    monkeypatch.chdir(tmp_path)
    assert main(["--cache", "cache"]) == 2
    assert "pip install 'mixts-paper[images]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
