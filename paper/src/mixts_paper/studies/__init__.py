"""Studies: decisions on other data and other questions than the paper's, each run by hand.

The modules share what is here: published files are downloaded once and kept, and policies are
compared with rivals that never learn.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mixts import MixturePrior
from mixts.cli import INTERRUPTED
from mixts.errors import FormatError, MissingExtraError, MixtsError, ParameterError
from mixts.extend import Array
from mixts.simulation import AgentSpec

# -- published files -------------------------------------------------------------------------------


RETRIES = 3
"""Attempts after the first one."""
TIMEOUT = 30.0
"""Seconds without an answer after which an attempt fails."""


class DownloadError(MixtsError, OSError):
    """A file could not be downloaded."""


@dataclass(frozen=True)
class PublishedFile:
    """A file at an address, identified by its checksum."""

    name: str
    url: str
    sha256: str
    option: str = "--data"
    """Option of the command line that takes a copy of the file."""


def cache_folder(name: str) -> Path:
    """Return the folder of this name below ``mixts`` in the user's cache folder; create it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "mixts" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"the cache folder {folder} cannot be created ({error}): choose another by setting "
            "XDG_CACHE_HOME"
        ) from error
    return folder


def fetch(file: PublishedFile, folder: Path) -> Path:
    """Return the path of the file in the folder; download it unless it is there and whole.

    Raises
    ------
    FormatError
        If the server sends a file with another checksum.
    DownloadError
        If the server does not send a file.
    """
    try:
        import pooch
        from requests import RequestException
    except ImportError as error:
        raise MissingExtraError(
            f"a download needs pooch ({error}): pip install 'mixts-paper[studies]', or give a copy "
            f"with {file.option}"
        ) from error
    pooch.get_logger().setLevel(logging.WARNING)
    cache = pooch.create(
        folder,
        base_url="",
        registry={file.name: f"sha256:{file.sha256}"},
        urls={file.name: file.url},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(headers={"User-Agent": "mixts"}, timeout=TIMEOUT)
    try:
        return Path(cache.fetch(file.name, downloader=downloader))
    except (RequestException, OSError) as error:
        raise DownloadError(
            f"{file.url} could not be downloaded: {error}. Run the command again, or give a copy "
            f"with {file.option}"
        ) from error
    except ValueError as error:  # pooch: another checksum
        raise FormatError(
            f"{file.url} did not send the published file, but something else ({error}): give "
            f"another copy with {file.option}"
        ) from error


# -- commands --------------------------------------------------------------------------------------


def exit_status(program: str, work: Callable[[], None], stopped: str = "stopped") -> int:
    """Do the work of a command and return its exit status; print errors of the user's making."""
    try:
        work()
    except MixtsError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{program}: {stopped}", file=sys.stderr)
        return INTERRUPTED
    return 0


# -- rivals that never learn ----------------------------------------------------------------------


BESTSELLER, IDS = "bestseller", "MixIDS"


class Fixed:
    """An agent that never learns: it takes the available action with the highest score.

    Parameters
    ----------
    scores
        Score of each arm, (K,), or coefficients of a linear score of an action's features, (d,).
    linear
        Whether the scores are coefficients.
    n_tasks, seed
        As for all agents; the seed is not used.
    """

    def __init__(
        self, scores: Array, linear: bool, n_tasks: int | None = None, seed: Any = None
    ) -> None:
        self._scores, self._linear = np.asarray(scores, float), linear
        self._n_rows = 1 if n_tasks is None else n_tasks

    def act(
        self, actions: Array | None = None, tasks: Array | None = None, mask: Array | None = None
    ) -> Array:
        """Return the action with the highest score for each task; the first of several."""
        scores = actions @ self._scores if self._linear and actions is not None else self._scores
        scores = np.broadcast_to(scores, (self._n_rows, scores.shape[-1]))
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        return np.asarray(scores.argmax(axis=1))

    def update(self, actions: Array, outcomes: Array, tasks: Array | None = None) -> None:
        """Ignore the outcomes."""


def bestseller(prior: MixturePrior) -> AgentSpec:
    """Return the spec of the agent that always takes the action with the highest prior mean.

    The prior mean is the mean over the tasks that the prior describes, so this is the best choice
    of an agent that treats all tasks alike.
    """
    mean = prior.weights @ prior.family.parameter_means()
    return partial(Fixed, mean, prior.family.n_arms is None)
