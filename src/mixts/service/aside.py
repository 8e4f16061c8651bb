"""Decisions that take long are computed aside: by threads of their own, outside of transactions.

A store has one writer, so nobody else could write while a decision is computed in a transaction.
The batch of a long decision therefore runs twice. The first time it finds out what the decision
depends on, and changes nothing. Then a thread computes the decision, mostly in compiled loops that
release the interpreter's lock. The second time the batch logs it, if its task is as it was;
otherwise the decision is computed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from mixts._typing import Array, Bool, Float

_ATTEMPTS = 3
"""A task that changes during each of so many computations is decided by the belief with which the
last one began: the changes count as made after the decision, which was submitted before them."""

LONG_SIZE = 10_000
"""Decisions with more work, a second or two, have a thread of their own."""


class Choice(NamedTuple):
    """What an agent chose for a group of requests."""

    shown: list[list[int]]
    """Actions to show for each request."""
    law: Float[Array, "m K"]
    """Probabilities of the actions."""
    weights: Float[Array, "m L"]
    """Probabilities of the components."""


class TaskMark(NamedTuple):
    """Changes whenever something happens that a decision of the task depends on."""

    version: int
    """The active version of the prior."""
    decisions: int
    rewards: int
    defaults: int
    late: int
    deferred: int


class ComputeAsideError(Exception):
    """A batch needs a decision that must be computed aside first; nothing was changed."""


class MoreWorkError(Exception):
    """A batch has found more work than the estimates say; nothing was changed, and they now do."""


class Aside:
    """One decision that is computed outside of the transaction that logs it."""

    def __init__(self) -> None:
        self._mark: TaskMark | None = None
        self._compute: Callable[[], Choice] | None = None
        self._choice: Choice | None = None
        self._error: BaseException | None = None
        self._attempts = 0

    def choice(
        self,
        mark: TaskMark,
        ask: Callable[[], Callable[[], Choice]],
        mask: Bool[Array, " K"] | None = None,
    ) -> Choice:
        """Return the decision of a task, or raise ``ComputeAsideError`` to have it computed.

        ``ask`` reads what the decision depends on, and returns the function that computes it.
        ``mask`` are the actions that are available now: the task may have taken some meanwhile.
        """
        if self._error is not None:
            raise self._error
        choice = self._choice
        if (
            choice is not None
            and self._is_valid(mark)
            and (mask is None or mask[choice.shown].all())
        ):
            return choice
        self._choice, self._mark, self._compute = None, mark, ask()
        raise ComputeAsideError

    def _is_valid(self, mark: TaskMark) -> bool:
        assert self._mark is not None
        is_last = self._attempts >= _ATTEMPTS and mark.version == self._mark.version
        return is_last or mark == self._mark

    def compute(self) -> None:
        """Compute the decision that the batch asked for; the batch raises the error if it fails."""
        compute, self._compute = self._compute, None
        if compute is None:  # it was dropped
            return
        self._attempts += 1
        try:
            self._choice = compute()
        except BaseException as error:
            self._error = error

    def drop(self) -> None:
        """Compute nothing: nobody waits for the decision any more."""
        self._compute = None


class Lane:
    """A thread that computes decisions one after the other; it starts with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[tuple[Aside, Callable[[], None]] | None] = SimpleQueue()
        self._is_running = False

    def put(self, aside: Aside, done: Callable[[], None]) -> None:
        """Compute a decision, then call ``done`` in the lane's thread."""
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._work.put((aside, done))

    def close(self) -> None:
        """End the thread after what it has to compute; the process does not wait for it."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            aside, done = work
            aside.compute()
            done()
            del work, aside, done  # or they would live until the next decision
