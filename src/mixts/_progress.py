"""Progress bars: in a terminal on standard error, in a notebook below the cell.

In a terminal the output of a program stays clean. A notebook needs no other library: rich would
need widgets there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
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


_NOTEBOOK_PAUSE = 0.1
"""Seconds between two drawings of the bars of a notebook."""


class _NotebookBar(Bar):
    def __init__(self, bars: _NotebookBars, label: str, total: float, remaining: bool) -> None:
        self._bars, self._label, self._remaining = bars, label, remaining
        self.total, self._done, self._start = total, 0.0, time.monotonic()

    def advance(self, amount: float) -> None:
        self.set(self._done + amount)

    def set(self, done: float) -> None:
        self._done = done
        self._bars.draw()

    def html(self) -> str:
        """Return the bar; the browser chooses colours that suit its page."""
        fraction = min(self._done / self.total, 1.0) if self.total else 0.0
        elapsed = time.monotonic() - self._start
        minutes, seconds = divmod(round(elapsed), 60)
        left = f", {format_remaining(elapsed, fraction)} left" if self._remaining else ""
        return (
            f'<div>{escape(self._label)} <progress value="{fraction:.4f}" max="1"></progress> '
            f"{fraction:.0%}, {minutes}:{seconds:02d}{left}</div>"
        )


class _NotebookBars(Bars):
    def __init__(self) -> None:
        from IPython import display

        page: Any = display
        self._bars: list[_NotebookBar] = []
        self._html = page.HTML
        self._shown = page.display(page.HTML(""), display_id=True)
        self._drawn = -_NOTEBOOK_PAUSE

    def add(self, label: str, total: float, *, remaining: bool = True) -> Bar:
        bar = _NotebookBar(self, label, total, remaining)
        self._bars.append(bar)
        self.draw()
        return bar

    def draw(self, *, now: bool = False) -> None:
        """Draw the bars, unless they were drawn a moment ago."""
        if now or time.monotonic() - self._drawn >= _NOTEBOOK_PAUSE:
            self._drawn = time.monotonic()
            self._shown.update(self._html("".join(bar.html() for bar in self._bars)))

    def fill(self) -> None:
        """Set every bar to its total: sums of estimated costs reach it only up to rounding."""
        for bar in self._bars:
            bar.set(bar.total)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    # Hosted notebooks, such as Colab, have subclasses.
    kinds = () if shell is None else type(shell.get_ipython()).__mro__
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in kinds)


@contextmanager
def progress_bars(show: bool | None = None) -> Iterator[Bars]:
    """Show progress bars until the block ends.

    Parameters
    ----------
    show
        True shows bars, and needs rich, except in a notebook; False shows none; None shows them
        where standard error is a terminal and rich is installed.

    Returns
    -------
    A context manager that gives an object to which a program adds bars.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield Bars()
        return
    if in_notebook():
        found = _NotebookBars()
        try:
            yield found
            found.fill()
        finally:
            found.draw(now=True)
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


# -- steps of long work ---------------------------------------------------------------------------

LINE_PAUSE = 10.0
"""Seconds between two lines about one step."""


class Lines(Bars):
    """Steps as lines of text: one when a step begins, and one every ten seconds of it.

    Parameters
    ----------
    write
        Function that is called with each line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def add(self, label: str, total: float, *, remaining: bool = True) -> Bar:
        self._write(label)
        return _Line(self._write, label, total)


class _Line(Bar):
    def __init__(self, write: Callable[[str], None], label: str, total: float) -> None:
        self._write, self._label, self._total = write, label, total
        self._done, self._written = 0.0, time.monotonic()

    def advance(self, amount: float) -> None:
        self.set(self._done + amount)

    def set(self, done: float) -> None:
        self._done = done
        if time.monotonic() - self._written >= LINE_PAUSE:
            self._written = time.monotonic()
            self._write(f"{self._label}: {done:,.0f} of {self._total:,.0f}")


class _Steps(Bars):
    """Bars of steps that follow each other: a bar is full when the next step begins."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._finish: Callable[[], None] = lambda: None

    def add(self, label: str, total: float, *, remaining: bool = True) -> Bar:
        self._finish()
        bar = self._bars.add(label, total, remaining=remaining)
        self._finish = lambda: bar.set(total)
        return bar


_SHOWN: ContextVar[Bars] = ContextVar("_SHOWN")
"""Where the steps of long work are shown; unless set, nowhere."""


def step(label: str, total: int = 1) -> Bar:
    """Begin a step of long work, and return its bar.

    Functions deep inside the work call this; whoever began the work decides by
    :func:`show_steps` or :func:`report_steps` where steps are shown, and by default nobody sees
    them.

    Parameters
    ----------
    label
        What the step does.
    total
        Number of parts, to which the caller advances the bar; 1 if they cannot be counted.
    """
    return _SHOWN.get(Bars()).add(label, total, remaining=total > 1)


@contextmanager
def _showing(bars: Bars) -> Iterator[None]:
    token = _SHOWN.set(bars)
    try:
        yield
    finally:
        _SHOWN.reset(token)


@contextmanager
def report_steps(write: Callable[[str], None] | None) -> Iterator[None]:
    """Call a function with a line about each step until the block ends; None changes nothing."""
    if write is None:
        yield
        return
    with _showing(Lines(write)):
        yield


@contextmanager
def show_steps(show: bool) -> Iterator[None]:
    """Show steps on standard error until the block ends: bars in a terminal, otherwise lines."""
    if not show:
        yield
        return
    with progress_bars() as bars:
        silent = type(bars) is Bars
        with _showing(Lines(_print_line) if silent else _Steps(bars)):
            yield


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
