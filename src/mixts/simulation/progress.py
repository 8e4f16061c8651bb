"""A progress bar on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mixts.errors import MissingExtraError
from mixts.simulation.blocks import Advance


@contextmanager
def progress_bar(show: bool, n_decisions: int) -> Iterator[Advance]:
    """Gives what is to be called as decisions are made; quiet unless ``show``."""
    if not show:
        yield lambda n: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError as error:
        raise MissingExtraError(
            "a progress bar needs rich: pip install 'mixts[progress]', or leave progress out"
        ) from error
    # Standard error: what a program prints stays clean.
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("simulating", total=n_decisions)
        yield lambda n: bar.advance(task, n)
