"""Champion against challenger: an account of the evidence that may be watched all the time.

ln E = sum over new tasks of ln p(history | challenger) - ln p(history | champion). If the champion
is right, E is a martingale that begins at 1, whatever the policy, because its probabilities are the
same under both and cancel. So E ever reaches 100 with a probability of at most 1 % (Ville's
inequality). docs/numerics.md has the derivation.

A task is new if it was born after both versions were made: neither has learned from it. Only
decisions that are final count, with all earlier decisions of their task on which they could depend.
Clicks come first and zeros after the window, and an account that counts the clicks at once would
depend on the rewards that it waits for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from mixts import MixturePrior
from mixts.errors import StatisticsError
from mixts.extend import Array, Float
from mixts_serve.agreement import Observed, read_history, taken_actions
from mixts_serve.periodic import Periodic
from mixts_serve.store import DecisionStore
from mixts_serve.versions import LoadedPrior

MOST_TASKS = 50_000
"""Tasks that count, the first ones: a gain of a ten-thousandth of a nat a task shows by then."""

MOST_POINTS = 200
"""Points of the curve."""

POLL_SECONDS = 5.0
_PIECE = 16
"""Tasks at a time, a few milliseconds of work, in which decisions wait for the interpreter."""
_REST = 9.0
"""Pause after a piece, in times of its own duration: a tenth of a core at most."""

_WAITING = (
    "SELECT MAX(version) FROM priors WHERE version NOT IN (SELECT version FROM activations) "
    "AND uploaded_at > (SELECT COALESCE(MAX(at), 0) FROM activations WHERE share = 1)"
)
_BEFORE = (
    "SELECT version FROM activations WHERE share = 1 AND version <> ? ORDER BY seq DESC LIMIT 1"
)
_BOTH_MADE = "SELECT MAX(uploaded_at) FROM priors WHERE version IN (?, ?)"
_NEW_TASKS = "SELECT number FROM tasks WHERE number > ? AND first_at > ? ORDER BY number LIMIT ?"


# -- mathematics ----------------------------------------------------------------------------------


class History(NamedTuple):
    """Final decisions of a task."""

    actions: Array
    """Arms (m,), or rows of features (m, d)."""
    values: Float[Array, " m"]
    """Their rewards."""


def log_ratios(
    champion: MixturePrior, challenger: MixturePrior, histories: Sequence[History]
) -> Float[Array, " n"]:
    """Return ln p(history | challenger) - ln p(history | champion) of tasks.

    Histories have decisions of arms that both priors know; one of them may know more.
    """
    return _log_evidence(challenger, histories) - _log_evidence(champion, histories)


def _log_evidence(prior: MixturePrior, histories: Sequence[History]) -> Float[Array, " n"]:
    """Return ln p(history | prior) = ln sum_s P_0(s) p(history | s) of each task."""
    statistics = prior.family.empty_statistics(len(histories))
    actions, values = (np.concatenate(parts) for parts in zip(*histories, strict=True))
    tasks = np.repeat(np.arange(len(histories)), [len(each.values) for each in histories])
    statistics.observe(tasks, statistics.observations(actions, values))
    prior.family.check_statistics(statistics)
    evidence = prior.condition(statistics).log_evidence
    return np.asarray(np.logaddexp.reduce(prior.log_weights + evidence, axis=1))


# -- the account ----------------------------------------------------------------------------------


class Contest(Struct, frozen=True):
    """Two versions of the prior that are compared."""

    champion: int
    challenger: int
    since: int
    """Time at which both were made, in microseconds since 1970: tasks born later are new."""


class Account(Struct, frozen=True):
    """Evidence for the challenger from the final decisions of new tasks."""

    contest: Contest
    tasks: int
    """New tasks with a final reward."""
    log_evidence: float
    """ln E: positive for the challenger, negative for the champion."""
    curve: tuple[tuple[int, float], ...]
    """Numbers of tasks, in the order of their births, and ln E of so many."""
    left_out: int = 0
    """Tasks with histories that one of the priors cannot compute with."""

    @property
    def evidence(self) -> float:
        """E; infinite if it is too large for a number."""
        return math.exp(self.log_evidence) if self.log_evidence < 700 else math.inf

    @property
    def words(self) -> str:
        """The evidence in words, such as "evidence 14 to 1 for version 4 over version 3"."""
        better, worse = self.contest.challenger, self.contest.champion
        if self.log_evidence < 0:
            better, worse = worse, better
        return (
            f"evidence {odds(abs(self.log_evidence))} to 1 for version {better} over version "
            f"{worse} after {self.tasks:,} new {'task' if self.tasks == 1 else 'tasks'}"
        )


def odds(log_evidence: float) -> str:
    """Return exp(log_evidence), which is 1 or more, with two digits."""
    if log_evidence > math.log(1e6):
        return "more than a million"
    value = math.exp(log_evidence)
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def find_contest(store: DecisionStore) -> Contest | None:
    """Return which versions to compare; None if there is only one.

    The challenger is the canary; else the newest version that was uploaded since the active one was
    activated, and that was not withdrawn. If there is none, the active version goes on being
    compared with the one that was active before it.
    """
    deployment = store.deployment()
    if deployment is None:
        return None
    champion, challenger = deployment.version, deployment.canary
    if challenger is None:
        challenger = waiting_version(store)
    if challenger is None:
        before = store.backend.value(_BEFORE, (champion,))
        if before is None:
            return None
        champion, challenger = before, champion
    since = store.backend.value(_BOTH_MADE, (champion, challenger))
    return Contest(champion, challenger, since)


def waiting_version(store: DecisionStore) -> int | None:
    """Return the newest version that was uploaded since the last activation and never deployed."""
    found: int | None = store.backend.value(_WAITING)
    return found


class Reading:
    """One reading of the log, a piece at a time.

    Everything is read again each time. So an erased task is gone from the next account, a service
    that was restarted and all replicas have the same account, and a command can read it too.
    """

    def __init__(
        self, store: DecisionStore, contest: Contest, load: Callable[[int], LoadedPrior]
    ) -> None:
        self._backend = store.backend
        self.contest = contest
        self._champion, self._challenger = (
            load(version).prior for version in (contest.champion, contest.challenger)
        )
        settled = self._backend.now_us() - self._backend.settle_us
        self._until = store.ended_until(settled)
        """Decisions that became final before this time count."""
        self._after = 0
        """Number of the last task that was read."""
        self._n_read = 0
        self._ratios: list[float] = []
        self._left_out = 0

    def read(self) -> Account | None:
        """Read the next tasks; return the account if these were the last ones."""
        limit = min(_PIECE, MOST_TASKS - self._n_read)
        parameters = (self._after, self.contest.since, limit)
        numbers = [number for (number,) in self._backend.query(_NEW_TASKS, parameters)]
        histories = [self._history(number) for number in numbers]
        self._add([history for history in histories if len(history.values)])
        self._n_read += len(numbers)
        if len(numbers) < _PIECE:
            return self._account()
        self._after = numbers[-1]
        return None

    def _history(self, task: int) -> History:
        """Return the final decisions of a task that count.

        A decision may depend on all rewards that came before it was made. It counts if these do:
        not if one of them is not final yet, or is of an arm that one of the versions does not know.
        """
        rows, until = read_history(self._backend, task), self._until
        known = min(p.family.n_arms or math.inf for p in (self._champion, self._challenger))
        has_arms = self._champion.family.n_arms is not None

        def is_usable(row: Observed) -> bool:
            return row.final_at < until and not (has_arms and row.action >= known)

        end = min((row.rewarded_at for row in rows if not is_usable(row)), default=math.inf)
        rows = [row for row in rows if is_usable(row) and row.made_at < end]
        values = np.array([row.value for row in rows], float)
        return History(taken_actions(self._backend, rows), values)

    def _add(self, histories: Sequence[History]) -> None:
        if not histories:
            return
        try:
            found = log_ratios(self._champion, self._challenger, histories)
        except StatisticsError:
            found = np.array([math.nan])
        if np.isfinite(found).all():
            self._ratios += found.tolist()
        elif len(histories) > 1:
            for history in histories:
                self._add([history])
        else:
            self._left_out += 1

    def _account(self) -> Account:
        """Return the account of the tasks that were read."""
        n = len(self._ratios)
        sums = np.cumsum([0.0, *self._ratios])
        places = np.unique(np.linspace(0, n, min(n + 1, MOST_POINTS)).round().astype(int))
        curve = tuple(zip(places.tolist(), sums[places].tolist(), strict=True))
        return Account(self.contest, n, float(sums[-1]), curve, self._left_out)


def read_account(store: DecisionStore) -> Account | None:
    """Return the account of a store at this moment; None if there is no challenger.

    Parameters
    ----------
    store : DecisionStore
        The store.

    Returns
    -------
    Account or None
        The evidence for the challenger.
    """
    contest = find_contest(store)
    if contest is None:
        return None

    reading = Reading(store, contest, partial(LoadedPrior.of, store))
    while True:
        account = reading.read()
        if account is not None:
            return account


class ContestWatch(Periodic):
    """Reads the account again and again in its own thread, at a tenth of a core."""

    thread_name = "mixts-contest"
    trouble = "champion and challenger cannot be compared"

    def __init__(self, store: DecisionStore, load: Callable[[int], LoadedPrior]) -> None:
        super().__init__(POLL_SECONDS)
        self._store = store
        self._load = load
        self._reading: Reading | None = None
        self._seconds = 0.0
        """Duration of the last piece."""
        self.account: Account | None = None
        """The last account that was read; None if there is no challenger, or none was read yet."""

    def work(self) -> float:
        """Read a piece, and rest."""
        return self.pause() if self.poll() else self.rest()

    def rest(self) -> float:
        """Return the pause after a piece."""
        return _REST * self._seconds

    def pause(self) -> float:
        """Return the time between two readings."""
        return POLL_SECONDS

    def poll(self) -> bool:
        """Read a piece; return whether the account is complete."""
        started = time.monotonic()
        try:
            return self._poll()
        finally:
            self._seconds = time.monotonic() - started

    def _poll(self) -> bool:
        contest = find_contest(self._store)
        if self.account is not None and self.account.contest != contest:
            self.account = None
        if contest is None:
            self._reading = None
            return True
        if self._reading is None or self._reading.contest != contest:
            self._reading = Reading(self._store, contest, self._load)
        account = self._reading.read()
        if account is None:
            return False
        self.account, self._reading = account, None
        return True
