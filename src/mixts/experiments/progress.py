"""How far a reproduction is: bars with the remaining time in a terminal, otherwise nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixts.experiments.runner import Job
    from mixts.experiments.store import Store


class Progress:
    """Is told of every block; this one says nothing."""

    def advance(self, store: Store, cost: float) -> None:
        """A block of this experiment was kept."""
        return None


class Bars(Progress):
    """A bar for each experiment and one for all of them."""

    def __init__(self, bars: Any, jobs: Sequence[Job]) -> None:
        self._bars = bars
        costs: dict[str, float] = {}
        for job in jobs:
            id = job.store.id
            costs[id] = costs.get(id, 0.0) + job.cost
        self._all = bars.add_task("all", total=sum(costs.values()))
        self._tasks = {id: bars.add_task(f"  {id}", total=cost) for id, cost in costs.items()}

    def advance(self, store: Store, cost: float) -> None:
        self._bars.advance(self._all, cost)
        self._bars.advance(self._tasks[store.id], cost)


def remaining(elapsed: float | None, share: float) -> str:
    """Of a work of which this share took so long, as minutes and seconds.

    From the beginning on: blocks arrive in bursts, between which any recent speed is 0.
    """
    if not elapsed or share <= 0:
        return "?:??"
    minutes, seconds = divmod(round(elapsed * (1 - min(share, 1.0)) / share), 60)
    return f"{minutes}:{seconds:02d}"


@contextmanager
def progress_of(jobs: Sequence[Job], show: bool | None) -> Iterator[Progress]:
    """Bars on standard error if it is a terminal, or if asked for; without rich, nothing."""
    wanted = sys.stderr.isatty() if show is None else show
    if not (wanted and jobs):
        yield Progress()
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress
        from rich.text import Text
    except ImportError:
        yield Progress()
        return

    class Remaining(ProgressColumn):
        """Only of the whole: which experiment plays next is nobody's business."""

        def render(self, task: Task) -> Text:
            if task.id != 0:
                return Text("")
            share = task.completed / task.total if task.total else 0.0
            return Text(f"{remaining(task.elapsed, share)} left")

    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=28),
        TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn(), Remaining(),
    )  # fmt: skip
    with RichProgress(*columns, console=Console(stderr=True)) as bars:
        yield Bars(bars, jobs)
        for task in bars.tasks:
            bars.update(task.id, completed=task.total)
