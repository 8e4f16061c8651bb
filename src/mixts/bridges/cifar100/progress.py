"""A bar for each stage of the work, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Stage = Callable[[str, int], Callable[[int], None]]
"""``moved = stage(label, total)`` begins one; ``moved(done)`` says how far it is."""


def quiet(label: str, total: int) -> Callable[[int], None]:
    """Stages that show nothing."""
    return lambda done: None


@contextmanager
def stages(show: bool) -> Iterator[Stage]:
    """Bars with the remaining time if they are to be shown and rich is there, otherwise nothing."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        show = False
    if not show:
        yield quiet
        return
    columns = (
        TextColumn("{task.description:<16}"),
        BarColumn(),
        TextColumn("{task.completed:>11,.0f} of {task.total:,.0f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:

        def stage(label: str, total: int) -> Callable[[int], None]:
            task = bars.add_task(label, total=total)
            return lambda done: bars.update(task, completed=done)

        yield stage
