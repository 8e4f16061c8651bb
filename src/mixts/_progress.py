"""Progress bars in a terminal, on standard error, so that the output of a program stays clean."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mixts.errors import MissingExtraError


class Bar:
    """A progress bar that shows nothing."""

    def advance(self, amount: float) -> None:
        """Add an amount of finished work."""

    def set(self, done: float) -> None:
        """Set the amount of finished work."""


class Bars:
    """Progress bars that show nothing."""

    def add(self, label: str, total: float, *, remaining: bool = True) -> Bar:
        """Add a bar.

        Parameters
        ----------
        label
            Text at the left of the bar.
        total
            Amount at which the bar is full.
        remaining
            Whether to show an estimate of the remaining time.
        """
        return Bar()


class _RichBar(Bar):
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress = progress
        self._task = task

    def advance(self, amount: float) -> None:
        self._progress.advance(self._task, amount)

    def set(self, done: float) -> None:
        self._progress.update(self._task, completed=done)


class _RichBars(Bars):
    def __init__(self, progress: Any) -> None:
        self._progress = progress

    def add(self, label: str, total: float, *, remaining: bool = True) -> Bar:
        task = self._progress.add_task(label, total=total, show_remaining=remaining)
        return _RichBar(self._progress, task)

    def fill(self) -> None:
        """Set every bar to its total: sums of estimated costs reach it only up to rounding."""
        for task in self._progress.tasks:
            self._progress.update(task.id, completed=task.total)


@contextmanager
def progress_bars(show: bool | None = None) -> Iterator[Bars]:
    """Show progress bars until the block ends.

    Parameters
    ----------
    show
        True shows bars, and needs rich; False shows none; None shows them where standard error is a
        terminal and rich is installed.

    Returns
    -------
    A context manager that gives :class:`Bars`, to which a program adds bars.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield Bars()
        return
    try:
        progress = _rich_progress()
    except ImportError as error:
        if show:
            raise MissingExtraError(
                "a progress bar needs rich: pip install 'mixts[progress]', or leave progress out"
            ) from error
        yield Bars()
        return
    with progress:
        bars = _RichBars(progress)
        yield bars
        bars.fill()


def format_remaining(elapsed: float | None, fraction: float) -> str:
    """Estimate the remaining time from the fraction done so far, as minutes and seconds.

    The estimate uses the whole time since the start: blocks of runs finish in bursts, and between
    bursts the recent speed is 0.
    """
    if not elapsed or fraction <= 0:
        return "?:??"
    minutes, seconds = divmod(round(elapsed * (1 - min(fraction, 1.0)) / fraction), 60)
    return f"{minutes}:{seconds:02d}"


def _rich_progress() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Remaining(ProgressColumn):
        def render(self, task: Task) -> Text:
            if not task.fields["show_remaining"]:
                return Text("")
            fraction = task.completed / task.total if task.total else 0.0
            return Text(f"{format_remaining(task.elapsed, fraction)} left")

    return Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=28),
        TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn(), Remaining(),
        console=Console(stderr=True),
    )  # fmt: skip
