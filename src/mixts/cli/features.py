"""``mixts features``: a file of image features for ``mixts reproduce paper/images``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from mixts._progress import Bars, progress_bars
from mixts.bridges import cifar100
from mixts.cli.main import INTERRUPTED
from mixts.download import cache_folder
from mixts.errors import ParameterError

_DESCRIPTION = """\
Compute features of CIFAR-100 with a network that was trained on ImageNet and a linear probe, and
write them to a file. The data set comes from its home, or from --data. What was downloaded and
computed is kept in the cache: an interrupted command is simply repeated."""


def register(commands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "features", help="compute image features for paper/images", description=_DESCRIPTION
    )
    add = parser.add_argument
    add("dataset", choices=("cifar100",), metavar="cifar100", help="the data set")
    add("--data", type=Path, metavar="PATH", help="its tar.gz, or the folder cifar-100-python")
    add("--url", help="another place to download it from; the checksum is the same")
    add("--network", choices=tuple(cifar100.NETWORKS), default="lite0", help="EfficientNet-Lite")
    add("--resolution", type=int, metavar="PIXELS", help="below the network's own it is faster")
    add("--out", type=Path, metavar="FILE", default=Path("cifar100-features.npz"), help="npz file")
    add("--cache", type=Path, metavar="FOLDER", help="(default: mixts in the user's cache folder)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute the features, and say how good they are and what to do with them."""
    _check_output(options.out)
    if options.data is not None and options.url is not None:
        raise ParameterError("--url is where to download from: leave it out, or leave --data out")
    try:
        made = _features(options)
    except KeyboardInterrupt:
        print("\nmixts: stopped. The same command goes on from here.", file=sys.stderr)
        return INTERRUPTED
    features = made.features
    print(
        f"{features.source} (ridge {made.ridge:.2g})\n"
        f"accuracy {made.train_accuracy:.3f} on {len(features.train_labels):,} training images, "
        f"{made.test_accuracy:.3f} on {len(features.test_labels):,} test images\n"
        f"written to {options.out}; use it with\n"
        f"  mixts reproduce paper/images --features {shlex.quote(str(options.out))}"
    )
    return 0


def _features(options: argparse.Namespace) -> cifar100.ProbedFeatures:
    # First what can be missing, then what takes long.
    network = cifar100.EfficientNetLite(options.network, options.resolution)
    folder = cache_folder("cifar100", options.cache)
    with progress_bars() as bars:
        images = cifar100.Cifar100.read(options.data or _downloaded(options.url, folder, bars))
        made = cifar100.probed_features(images, network, folder / "embeddings", bars)
        made.features.save(options.out)
    return made


def _downloaded(url: str | None, folder: Path, bars: Bars) -> Path:
    file = cifar100.CIFAR100 if url is None else replace(cifar100.CIFAR100, url=url)
    return cifar100.fetch(file, folder, bars.add("download", file.size).set)


def _check_output(path: Path) -> None:
    if path.exists():
        raise ParameterError(f"{path} exists: choose another --out, or remove it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ParameterError(
            f"{path.parent} is not a folder that can be written to: choose another --out"
        )
