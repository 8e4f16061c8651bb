"""Write image features for ``mixts reproduce paper/images``.

Run it by ``python -m mixts_paper.studies.cifar100``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mixts.errors import MixtsError, ParameterError
from mixts_paper.studies._download import cache_folder, fetch
from mixts_paper.studies.cifar100.dataset import CIFAR100, Cifar100
from mixts_paper.studies.cifar100.features import (
    NETWORKS,
    Done,
    EfficientNetLite,
    ProbedFeatures,
    probed_features,
)

_DESCRIPTION = """\
Compute features of CIFAR-100 with a network that was trained on ImageNet and a linear probe, and
write them to a file. The data set is downloaded, or read from --data. Downloads and embeddings are
kept in a cache folder: to continue after an interruption, run the same command again."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m mixts_paper.studies.cifar100", description=_DESCRIPTION
    )
    add = top.add_argument
    add("--data", type=Path, metavar="PATH", help="the tar.gz, or the folder cifar-100-python")
    add("--url", help="another address to download from; the checksum must be the same")
    add("--network", choices=tuple(NETWORKS), default="lite0", help="EfficientNet-Lite")
    add("--resolution", type=int, metavar="PIXELS", help="smaller than the network's own is faster")
    add("--out", type=Path, metavar="FILE", default=Path("cifar100-features.npz"), help="npz file")
    add("--cache", type=Path, metavar="FOLDER", help="(default: mixts in the user's cache folder)")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute the features and print their accuracy; return the exit status."""
    options = parser().parse_args(arguments)
    try:
        made = _features(options)
    except MixtsError as error:
        print(f"mixts_paper.studies.cifar100: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "\nmixts_paper.studies.cifar100: stopped. To continue, run it again.", file=sys.stderr
        )
        return 130
    features = made.features
    print(
        f"{features.source} (ridge {made.ridge:.2g})\n"
        f"accuracy {made.train_accuracy:.3f} on {len(features.train_labels):,} training images, "
        f"{made.test_accuracy:.3f} on {len(features.test_labels):,} test images\n"
        f"written to {options.out}; use it with\n"
        f"  mixts reproduce paper/images --features {shlex.quote(str(options.out))}"
    )
    return 0


def _features(options: argparse.Namespace) -> ProbedFeatures:
    _check_output(options.out)
    if options.data is not None and options.url is not None:
        raise ParameterError("--url is an address to download from: omit it, or omit --data")
    # Before the download: a missing package or a wrong resolution.
    network = EfficientNetLite(options.network, options.resolution)
    folder = cache_folder("cifar100", options.cache)
    file = CIFAR100 if options.url is None else replace(CIFAR100, url=options.url)
    images = Cifar100.read(options.data or fetch(file, folder))
    sizes = {"training images": len(images.train_labels), "test images": len(images.test_labels)}
    with _progress(sizes) as report:
        made = probed_features(images, network, folder / "embeddings", report)
    made.features.save(options.out)
    return made


@contextmanager
def _progress(sizes: dict[str, int]) -> Iterator[Callable[[str], Done]]:
    """Show a progress bar for each stage where standard error is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars:

        def report(label: str) -> Done:
            task = bars.add_task(label, total=sizes[label])
            return lambda done: bars.update(task, completed=done)

        yield report


def _check_output(path: Path) -> None:
    if path.exists():
        raise ParameterError(f"{path} exists: choose another --out, or remove it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ParameterError(f"cannot write to the folder {path.parent}: choose another --out")


if __name__ == "__main__":
    sys.exit(main())
