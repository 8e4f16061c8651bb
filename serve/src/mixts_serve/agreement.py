"""Do the rewards agree with the prior? A test that may be watched all the time.

Before a reward is known, the prior predicts it from the task's earlier rewards. Fictitious bettors
stake money against these predictions at fair odds. If the prior is right, their money is a
martingale that begins at 1, whatever the policy, and it ever reaches 1 / ``ALPHA`` with a
probability of at most ``ALPHA`` (Ville's inequality). So an alarm at that level needs no
correction for looking again and again. docs/numerics.md has the derivation.

Everything is computed from the log, in the order in which decisions become final: by the end of
their window, not by the arrival of their reward. Clicks come first, zeros after the window, and
bettors who see the clicks first would win against a right prior.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from mixts import Belief, MixturePrior
from mixts.errors import StatisticsError
from mixts.extend import Array, Float, Int, random
from mixts_serve.periodic import Periodic
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import Backend
from mixts_serve.store.tables import OFFERED, Query
from mixts_serve.versions import LoadedPrior

log = logging.getLogger("mixts_serve")

ALPHA = 0.01
"""Largest probability that a version of the prior that is right ever raises an alarm."""
_ALARM = -math.log(ALPHA)

SHIFTS = np.array([-2.0, -1.0, -0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 1.0, 2.0])
"""What the bettors believe: the log odds of all rewards differ by so much from the predicted ones.
A tenth of the money belongs to each of them."""

FIRST_DECISIONS = 500
"""Only so many decisions of a task count: later ones are predicted from its own data, and say
little about the prior."""

MOST_REWARDS = 200_000
"""Backlog of rewards, with those of open windows, from which on only some of the tasks are watched:
which ones depends on their numbers, not on their rewards. It is about a minute of work."""

MOST_VERSIONS = 4
"""Versions of the prior that are watched: the newest, and the active one. Priors may be large."""

POLL_SECONDS = 5.0
_PIECE = 4
"""Rewards at a time, a few milliseconds of work, in which decisions wait for the interpreter."""
_REST = 9.0
"""Pause after a piece, in times of its own duration: the watch takes a tenth of a core at most."""

_N_DRAWS = 19
"""Draws among which a real reward is ranked."""

_LAST = "SELECT COALESCE(MAX(seq), 0) FROM rewards WHERE at <= ?"
_NEWEST = "SELECT version FROM priors ORDER BY version DESC LIMIT ?"
_FINAL_AT = (
    "CASE WHEN COALESCE(a.default_reward, d.default_reward) IS NULL THEN r.at "
    "ELSE COALESCE(a.due, d.due) END"
)


class _Final(NamedTuple):
    """A reward in the log, in the order in which decisions become final."""

    final_at: int
    decision: int
    task: int
    version: int
    reward: int
    """Number of the reward."""
    at: int


class Observed(NamedTuple):
    """A decision of a task, and its reward, which was learned from."""

    decision: int
    made_at: int
    action: int
    action_set: int | None
    value: float
    rewarded_at: int
    final_at: int


_REWARDS = Query(
    _Final,
    {
        "reward": "r.seq", "at": "r.at", "final_at": _FINAL_AT,
        "decision": "d.seq", "task": "d.task", "version": "d.version",
    },
    "rewards r JOIN decisions d ON d.seq = r.decision "
    "LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE r.seq > ? AND r.late = 0 AND (d.task - 1) % ? = 0 ORDER BY r.seq LIMIT ?",
)  # fmt: skip
_HISTORY = Query(
    Observed,
    {
        "decision": "d.seq", "made_at": "d.at", "action": "d.action", "action_set": "d.action_set",
        "value": "r.value", "rewarded_at": "r.at", "final_at": _FINAL_AT,
    },
    "(SELECT seq, at, action, action_set, due, default_reward FROM decisions WHERE task = ? "
    "ORDER BY seq LIMIT ?) d JOIN rewards r ON r.decision = d.seq "
    f"LEFT JOIN activated a ON a.decision = d.seq WHERE r.late = 0 ORDER BY {_FINAL_AT}, d.seq",
)  # fmt: skip


def read_history(backend: Backend, task: int) -> list[Observed]:
    """Return the first decisions of a task that have a reward, in the order of becoming final."""
    return backend.read(_HISTORY, (task, FIRST_DECISIONS))


def taken_actions(backend: Backend, rows: Sequence[Observed]) -> Array:
    """Return what decisions took: arms (m,), or rows of features (m, d)."""
    numbers = tuple({row.action_set for row in rows if row.action_set is not None})
    if not numbers:
        return np.array([row.action for row in rows], np.int64)
    wanted = f" WHERE s.number IN ({', '.join('?' * len(numbers))})"
    sets = {each.number: each.rows for each in backend.read(OFFERED, numbers, wanted)}
    return np.array([sets[row.action_set or 0][row.action] for row in rows])


class Agreement(Struct, frozen=True):
    """What the prior expected of some decisions, and what they earned."""

    decisions: float
    """Number of decisions; of a kind, the sum of its probabilities."""
    expected: float
    """Mean of the rewards as they were predicted, each from the earlier rewards of its task."""
    earned: float
    wrong: bool = False
    """Whether these decisions alone show that the prior is wrong."""


class Agreements(Struct, frozen=True):
    """Agreement of the rewards with one version of the prior."""

    whole: Agreement
    arms: dict[int, Agreement]
    """By arm; arms without decisions are left out."""
    kinds: dict[int, Agreement]
    cells: dict[tuple[int, int], Agreement]
    """By kind and arm; pairs without decisions are left out."""
    evidence: float
    """Logarithm, to base 10, of the evidence against the prior: a right one ever reaches 2 with a
    probability of at most 1 %."""
    alarm: bool
    """Whether the evidence ever was that high."""


# -- bets -----------------------------------------------------------------------------------------


class Bet(NamedTuple):
    """A reward, and what was predicted of it before it was known."""

    value: float
    mean: float
    """Predicted mean reward."""
    rank: float | None
    """Randomised rank of a real reward among draws from the prediction, uniform between 0 and 1 if
    the prior is right; None for rewards between 0 and 1, on whose means the bettors bet."""
    arm: int | None
    kinds: Float[Array, " G"]
    """Probability of each kind."""


def log_factors(shares: Float[Array, " n"], bet: Bet) -> Float[Array, "n S"]:
    """Return the logarithm of what each bettor's money is multiplied with.

    ``shares`` between 0 and 1 make bets smaller. With m = E[r] and a shift h, the factor of a
    reward in [0, 1] is exp(h r) / (1 - m + m exp(h)), whose mean is 1 for r in {0, 1} and at
    most 1 otherwise, because exp is convex. That of a uniform u is exp(h u) h / (exp(h) - 1).
    """
    steps = np.multiply.outer(shares, SHIFTS)
    growth = np.expm1(steps)
    if bet.rank is None:
        return np.asarray(steps * bet.value - np.log1p(bet.mean * growth))
    fair = np.log(np.divide(growth, steps, out=np.ones_like(steps), where=steps != 0))
    return np.asarray(steps * bet.rank - fair)


class VersionWatch:
    """The bets against one version of the prior.

    There are units of decisions: all of them, those of each arm and those of each kind. A third of
    the money is on the first, a third is spread over the arms and a third over the kinds: the sum
    is a martingale again, so that several units need no other correction.
    """

    def __init__(self, n_arms: int | None, n_kinds: int) -> None:
        sizes = (1, n_arms or 0, n_kinds if n_kinds > 1 else 0)
        self._arms = range(1, 1 + sizes[1])
        self._kinds = range(1 + sizes[1], sum(sizes))
        n_used = np.count_nonzero(sizes)
        self._log_weights = -np.log(np.concatenate([np.full(n, n_used * n) for n in sizes]))
        self._log_money = np.zeros((sum(sizes), len(SHIFTS)))
        self._sums = np.zeros((sum(sizes), 3))
        """Of each unit: number of decisions, and sums of predicted and of earned rewards."""
        self._cells = np.zeros((sizes[2], sizes[1], 3))
        """The same sums of each kind and arm, on which nobody bets."""
        self.alarmed = False
        """Whether ``judge`` ever found the prior to be wrong."""

    def add(self, bet: Bet) -> None:
        """Settle the bet on a reward that is final."""
        arm = [] if bet.arm is None else [self._arms[bet.arm]]
        units = np.array([0, *arm, *self._kinds])
        shares = np.ones(len(units))
        if self._kinds:
            shares[-len(self._kinds) :] = bet.kinds
        self._log_money[units] += log_factors(shares, bet)
        self._sums[units] += np.multiply.outer(shares, (1.0, bet.mean, bet.value))
        if bet.arm is not None and self._kinds:
            self._cells[:, bet.arm] += np.multiply.outer(bet.kinds, (1.0, bet.mean, bet.value))

    @property
    def _log_evidence(self) -> Float[Array, " U"]:
        """Logarithm of the money on each unit, as a part of all money."""
        mean = np.logaddexp.reduce(self._log_money, axis=1) - math.log(len(SHIFTS))
        return np.asarray(mean + self._log_weights)

    @property
    def log_evidence(self) -> float:
        """Logarithm of all money, which was 1 at first."""
        return float(np.logaddexp.reduce(self._log_evidence))

    def judge(self) -> None:
        """Set ``alarmed`` for good if the money reaches 1 / ``ALPHA``, after all final rewards."""
        self.alarmed = self.alarmed or self.log_evidence >= _ALARM

    def agreements(self) -> Agreements:
        """Return what was expected and earned of all decisions, each arm and each kind."""
        wrong = self._log_evidence >= _ALARM
        found = {
            unit: Agreement(n, expected / n, earned / n, bool(wrong[unit]))
            for unit, (n, expected, earned) in enumerate(self._sums.tolist())
            if n
        }
        arms, kinds = (
            {i: found[unit] for i, unit in enumerate(units) if unit in found}
            for units in (self._arms, self._kinds)
        )
        cells = {
            (int(g), int(k)): Agreement(n, expected / n, earned / n)
            for g, k in np.argwhere(self._cells[..., 0] > 0)
            for n, expected, earned in [self._cells[g, k].tolist()]
        }
        evidence = self.log_evidence / math.log(10)
        return Agreements(found[0], arms, kinds, cells, evidence, self.alarmed)


def predict(
    belief: Belief, actions: Array, values: Float[Array, " n"], rng: np.random.Generator
) -> list[Bet]:
    """Return the bet on one reward of each task of a belief that has not seen these rewards.

    ``actions`` are arms (n,) or rows of features (n, d).
    """
    prior, n = belief.prior, len(values)
    has_arms = prior.family.n_arms is not None
    sets = None if has_arms else actions[:, None]
    chosen = actions if has_arms else np.zeros(n, np.int64)
    means = belief.mean_rewards(sets)[np.arange(n), chosen].tolist()
    ranks: list[Any] = [None] * n
    if prior.family.support != "0 or 1":
        ranks = _ranks(belief, sets, chosen, values, rng).tolist()
    arms = chosen.tolist() if has_arms else [None] * n
    kinds = prior.sum_by_kind(belief.weights)
    return [Bet(*one) for one in zip(values.tolist(), means, ranks, arms, kinds, strict=True)]


def _ranks(
    belief: Belief, sets: Array | None, chosen: Int[Array, " n"], values: Float[Array, " n"],
    rng: np.random.Generator,
) -> Float[Array, " n"]:  # fmt: skip
    """Return the rank of each reward among draws from its prediction, ties broken at random.

    If the prior is right, reward and draws are exchangeable, and the rank is exactly uniform.
    """
    family, tasks = belief.prior.family, np.repeat(np.arange(len(values)), _N_DRAWS)
    parameters = belief.sample_parameters(rng, belief.sample_latent(rng, tasks), tasks)
    means = family.mean_rewards(parameters, None if sets is None else sets[tasks])
    taken = means[np.arange(len(tasks)), chosen[tasks]]
    laws = family.reward_parameters(parameters, chosen[tasks], taken)
    drawn = family.outcomes(rng, laws).reshape(len(values), _N_DRAWS)
    below, equal = ((each(drawn, values[:, None])).sum(axis=1) for each in (np.less, np.equal))
    return np.asarray((below + rng.random(len(values)) * (equal + 1)) / (_N_DRAWS + 1))


# -- the watch ------------------------------------------------------------------------------------


class PriorWatch(Periodic):
    """Bets against versions of the prior in its own thread, at a tenth of a core.

    It keeps nothing: a new service reads the log again.
    """

    thread_name = "mixts-agreement"
    trouble = "rewards cannot be compared with the prior"

    def __init__(self, store: DecisionStore, load: Callable[[int], LoadedPrior]) -> None:
        super().__init__(POLL_SECONDS)
        self._store = store
        self._load = load
        self._versions: dict[int, VersionWatch] = {}
        self._held: list[_Final] = []
        """Rewards whose decisions are not final, in order."""
        self._after = 0
        """Number of the last reward that was read."""
        self._every = 1
        """Only one of so many tasks is watched, beginning with the first."""
        self._ended: deque[tuple[int, int]] = deque()
        """Times of polls, and the times before which all windows had ended then."""
        self._is_complete = False
        """Whether the whole log was read once."""
        self._rng = random.stream(0, "decider", "agreement")
        self._polling, self._reading = threading.Lock(), threading.Lock()
        """Held by ``poll``, and while the bets change or are read: never while the store is."""
        self.warning: str | None = None
        """What is wrong with the active prior; None if nothing was found."""

    def agreements(self, version: int) -> Agreements | None:
        """Return what a version expected and earned; None if none of its decisions is final.

        None also until the whole log was read once: its begin has more clicks than zeros.
        """
        with self._reading:
            found = self._versions.get(version) if self._is_complete else None
            return None if found is None else found.agreements()

    def work(self) -> float:
        """Poll once, and rest."""
        started = time.monotonic()
        has_more = self.poll()
        return _REST * (time.monotonic() - started) if has_more else self.pause()

    def pause(self) -> float:
        """Return the time between two polls of a log that was read."""
        return POLL_SECONDS

    def poll(self) -> bool:
        """Bet on the next rewards that are final; return whether there are more.

        Alarms are raised only when everything final is in: what is read first must not depend on
        the rewards.
        """
        with self._polling:
            now = self._store.backend.now_us()
            settled = now - self._store.backend.settle_us
            until = self._ended_until(now, settled)
            is_read = self._read(settled)
            n_ready = min(bisect_left(self._held, (until,)), 2 * _PIECE)
            # Reads the store, and may fail, before any money changes hands.
            bets = list(self._bets(self._held[:n_ready]))
            del self._held[:n_ready]
            is_done = is_read and n_ready < 2 * _PIECE
            with self._reading:
                for version, n_arms, bet in bets:
                    new = VersionWatch(n_arms, len(bet.kinds))
                    self._versions.setdefault(version, new).add(bet)
                if is_done and until:
                    for watch in self._versions.values():
                        watch.judge()
                    self._is_complete = True
            if is_done and until:
                self.warning = self._warning()
            return not is_done

    def _ended_until(self, now: int, settled: int) -> int:
        """Return the time before which all windows had ended at a time that is settled; or 0.

        The default rewards of windows that ended later may be among the rewards not read yet.
        """
        self._ended.append((now, self._store.ended_until(now)))
        while len(self._ended) > 1 and self._ended[1][0] <= settled:
            self._ended.popleft()
        at, until = self._ended[0]
        return until if at <= settled else 0

    def _read(self, settled: int) -> bool:
        """Read the next rewards; return whether there are no more that are settled."""
        backend = self._store.backend
        last = backend.value(_LAST, (settled,))
        backlog = last - self._after + len(self._held) * self._every
        every = -(-backlog // MOST_REWARDS)
        if every > self._every:
            self._every = every
            self._held = [row for row in self._held if (row.task - 1) % every == 0]
        found = backend.read(_REWARDS, (self._after, self._every, _PIECE))
        rows = list(takewhile(lambda row: row.at <= settled, found))
        for row in rows:
            insort(self._held, row)
            self._after = row.reward
        if len(found) < _PIECE and len(rows) == len(found):  # the others are of other tasks
            self._after = max(self._after, last)
        return len(rows) < _PIECE

    def _bets(self, ready: Sequence[_Final]) -> Iterator[tuple[int, int | None, Bet]]:
        """Yield bets on rewards that are final, with their versions and the numbers of arms."""
        newest = self._store.backend.query(_NEWEST, (MOST_VERSIONS,))
        recent = {version for (version,) in newest} | {self._store.active_version()}
        wanted: dict[tuple[int, int], set[int]] = {}
        for row in ready:
            if row.version in recent:
                wanted.setdefault((row.version, row.task), set()).add(row.decision)
        for (version, task), decisions in wanted.items():
            prior = self._load(version).prior
            for bet in self._replay(prior, task, decisions):
                yield version, prior.family.n_arms, bet

    def _replay(self, prior: MixturePrior, task: int, wanted: set[int]) -> Iterator[Bet]:
        """Replay a task; yield bets on the wanted decisions before the task learns from them."""
        family, start = prior.family, 0
        statistics = family.empty_statistics(0).decode([self._base(task)])
        decisions, actions, values = self._history(prior, task)
        for place in (i for i, seq in enumerate(decisions) if seq in wanted):
            if place > start:
                observed = statistics.observations(actions[start:place], values[start:place])
                statistics.observe(np.zeros(place - start, np.int64), observed)
                start = place
            try:
                family.check_statistics(statistics)
            except StatisticsError:  # the prior cannot compute with this history
                continue
            here = slice(place, place + 1)
            (bet,) = predict(prior.condition(statistics), actions[here], values[here], self._rng)
            if math.isfinite(bet.mean):
                yield bet

    def _base(self, task: int) -> bytes:
        """Return the statistics that the archived rewards of a task gave."""
        sql = "SELECT statistics FROM bases WHERE task = ?"
        return bytes(self._store.backend.value(sql, (task,)) or b"")

    def _history(self, prior: MixturePrior, task: int) -> tuple[list[int], Array, Array]:
        """Return decisions, actions and rewards of a task in the order in which they became final.

        An action is an arm or a row of features.
        """
        rows, n_arms = read_history(self._store.backend, task), prior.family.n_arms
        if n_arms is not None:
            # Arms that a later version added are unknown to this one.
            rows = [row for row in rows if row.action < n_arms]
        values = np.array([row.value for row in rows], float)
        actions = taken_actions(self._store.backend, rows)
        return [row.decision for row in rows], actions, values

    def _warning(self) -> str | None:
        version = self._store.active_version()
        watch = None if version is None else self._versions.get(version)
        if watch is None or version is None or not watch.alarmed:
            return None
        words = in_words(watch.agreements(), self._load(version).prior.arm_names)
        begin = f"the rewards do not agree with version {version} of the prior: "
        if not (self.warning or "").startswith(begin):
            log.warning("%s%s", begin, words)
        return begin + words


def in_words(found: Agreements, names: Sequence[str] | None) -> str:
    """Return what was expected and earned, of all decisions and of the worst arm."""
    whole = found.whole
    words = (
        f"of {whole.decisions:,.0f} decisions it expected a mean reward of {whole.expected:.3g}, "
        f"and they earned {whole.earned:.3g}"
    )
    wrong = {arm: one for arm, one in found.arms.items() if one.wrong}
    if wrong:
        arm, one = max(
            wrong.items(),
            key=lambda pair: pair[1].decisions * abs(pair[1].earned - pair[1].expected),
        )
        name = f"arm {arm}" if names is None else repr(names[arm])
        words += (
            f"; {name} alone was expected to earn {one.expected:.3g} in {one.decisions:,.0f} "
            f"decisions, and earned {one.earned:.3g}"
        )
    return words
