"""Progress bars: in a terminal on standard error, in a notebook below the cell."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from html import escape
from typing import Any

_PAUSE = 0.1
"""Seconds between two drawings of bars."""
_LINE_PAUSE = 10.0
"""Seconds between two lines about one step."""
_WIDTH = 28
"""Characters of a bar in a terminal."""


class Bar:
    """A progress bar: a label, and how much of a total is done."""

    def __init__(self, bars: Bars, label: str, total: float, remaining: bool) -> None:
        self.label, self.total, self.done = label, total, 0.0
        self._bars, self._remaining, self._start = bars, remaining, time.monotonic()
        self._end: float | None = None

    def advance(self, amount: float) -> None:
        """Add an amount of finished work."""
        self.set(self.done + amount)

    def set(self, done: float) -> None:
        """Set the amount of finished work."""
        self.done = done
        if done >= self.total and self._end is None:
            self._end = time.monotonic()
        self._bars.draw()

    @property
    def fraction(self) -> float:
        """Fraction of the work that is done."""
        return min(self.done / self.total, 1.0) if self.total else 0.0

    @property
    def times(self) -> str:
        """Percentage, elapsed time and, if asked for, remaining time."""
        elapsed = (time.monotonic() if self._end is None else self._end) - self._start
        minutes, seconds = divmod(round(elapsed), 60)
        left = f", {format_remaining(elapsed, self.fraction)} left" if self._remaining else ""
        return f"{self.fraction:.0%}, {minutes}:{seconds:02d}{left}"


class Bars:
    """Progress bars that are not shown; subclasses show them."""

    pause = _PAUSE

    def __init__(self) -> None:
        self.in_turn = False
        """Whether bars follow each other: then a bar is full when the next one begins."""
        self._bars: list[Bar] = []
        self._drawn = 0.0

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
        if self.in_turn:
            self.fill()
        bar = Bar(self, label, total, remaining)
        self._bars.append(bar)
        self.draw(now=True)
        return bar

    def draw(self, *, now: bool = False) -> None:
        """Show the bars, unless they were shown a moment ago."""
        if now or time.monotonic() - self._drawn >= self.pause:
            self._drawn = time.monotonic()
            self._show()

    def fill(self) -> None:
        """Set every bar to its total: sums of estimated costs reach it only up to rounding."""
        for bar in self._bars:
            bar.set(bar.total)

    def finish(self) -> None:
        """Show the last state of the bars."""
        self._show()

    def _show(self) -> None:
        return None


class _TerminalBars(Bars):
    """Bars on standard error; if that is not a terminal, only their last state."""

    def __init__(self) -> None:
        super().__init__()
        self._n_lines = 0

    def _show(self) -> None:
        if sys.stderr.isatty():
            back = f"\x1b[{self._n_lines}F" if self._n_lines else ""
            self._print(back, "\x1b[2K")
            self._n_lines = len(self._bars)

    def finish(self) -> None:
        self._show() if sys.stderr.isatty() else self._print()

    def _print(self, back: str = "", clear: str = "") -> None:
        width = max((len(bar.label) for bar in self._bars), default=0)
        most = shutil.get_terminal_size().columns - 1
        lines = [
            f"{bar.label:{width}} {'━' * round(_WIDTH * bar.fraction):{_WIDTH}} {bar.times}"[:most]
            for bar in self._bars
        ]
        text = back + "".join(f"{clear}{line}\n" for line in lines)
        print(text, end="", file=sys.stderr, flush=True)


class _NotebookBars(Bars):
    """Bars below the cell of a notebook; the browser chooses colours that suit its page."""

    def __init__(self) -> None:
        super().__init__()
        from IPython import display

        page: Any = display
        self._html = page.HTML
        self._shown = page.display(page.HTML(""), display_id=True)

    def _show(self) -> None:
        lines = (
            f'<div>{escape(bar.label)} <progress value="{bar.fraction:.4f}" max="1"></progress> '
            f"{bar.times}</div>"
            for bar in self._bars
        )
        self._shown.update(self._html("".join(lines)))


class Lines(Bars):
    """Steps as lines of text: one when a step begins, and one every ten seconds of it.

    Parameters
    ----------
    write
        Function that is called with each line.
    """

    pause = _LINE_PAUSE

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def _show(self) -> None:
        bar = self._bars[-1]
        so_far = f": {bar.done:,.0f} of {bar.total:,.0f}" if bar.done else ""
        self._write(f"{bar.label}{so_far}")


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
        True shows bars; False shows none; None shows them where standard error is a terminal.

    Returns
    -------
    A context manager that gives an object to which a program adds bars.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield Bars()
        return
    bars = _NotebookBars() if in_notebook() else _TerminalBars()
    try:
        yield bars
        bars.fill()
    finally:
        bars.finish()


def format_remaining(elapsed: float, fraction: float) -> str:
    """Estimate the remaining time from the fraction done so far, as minutes and seconds.

    The estimate uses the whole time since the start: blocks of runs finish in bursts, and between
    bursts the recent speed is 0.
    """
    if not elapsed or fraction <= 0:
        return "?:??"
    minutes, seconds = divmod(round(elapsed * (1 - fraction) / fraction), 60)
    return f"{minutes}:{seconds:02d}"


# -- steps of long work ---------------------------------------------------------------------------

_SHOWN: ContextVar[Bars] = ContextVar("_SHOWN")
"""Where the steps of long work are shown; unless set, nowhere."""


def step(label: str, total: int = 1) -> Bar:
    """Begin a step of long work, and return its bar.

    Functions deep inside the work call this. The caller of the work decides by :func:`show_steps`
    or :func:`report_steps` where steps are shown; by default they are not.

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
    if not sys.stderr.isatty():
        with _showing(Lines(partial(print, file=sys.stderr, flush=True))):
            yield
        return
    with progress_bars(True) as bars:
        bars.in_turn = True
        with _showing(bars):
            yield
