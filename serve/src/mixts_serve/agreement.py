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

import heapq
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from mixts import Belief, MixturePrior
from mixts.errors import StatisticsError
from mixts.extend import Array, Float, Int, random
from mixts_serve.periodic import Periodic
from mixts_serve.store import DecisionStore
from mixts_serve.store.tables import OFFERED
from mixts_serve.versions import ActivePrior

log = logging.getLogger("mixts_serve")

ALPHA = 0.01
"""Largest probability that a version of the prior that is right ever raises an alarm."""

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
_PIECE = 32
"""Rewards at a time, some milliseconds of work."""
_REST = 9.0
"""Pause after a piece, in times of its own duration: the watch takes a tenth of a core at most."""

_N_DRAWS, _MOST_NUMBERS = 19, 200_000
"""Draws among which a real reward is ranked, and most numbers that are drawn at a time."""

_LAST = "SELECT COALESCE(MAX(seq), 0) FROM rewards WHERE at <= ?"
_NEWEST = "SELECT version FROM priors ORDER BY version DESC LIMIT ?"
_FINAL_AT = (
    "CASE WHEN COALESCE(a.default_reward, d.default_reward) IS NULL THEN r.at "
    "ELSE COALESCE(a.due, d.due) END"
)
_REWARDS = (
    f"SELECT r.seq, r.at, {_FINAL_AT}, d.seq, d.task, d.version FROM rewards r "
    "JOIN decisions d ON d.seq = r.decision LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE r.seq > ? AND r.late = 0 AND (d.task - 1) % ? = 0 ORDER BY r.seq LIMIT ?"
)
_HISTORY = (
    f"SELECT d.seq, d.action, d.action_set, r.value FROM (SELECT seq, action, action_set, due, "
    "default_reward FROM decisions WHERE task = ? ORDER BY seq LIMIT ?) d "
    "JOIN rewards r ON r.decision = d.seq LEFT JOIN activated a ON a.decision = d.seq "
    f"WHERE r.late = 0 ORDER BY {_FINAL_AT}, d.seq"
)


# -- bets -----------------------------------------------------------------------------------------


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
    evidence: float
    """Logarithm, to base 10, of the evidence against the prior: a right one ever reaches 2 with a
    probability of at most 1 %."""
    alarm: bool
    """Whether the evidence ever was that high."""


class Bets(NamedTuple):
    """Some rewards, and what was predicted of them before they were known."""

    values: Float[Array, " n"]
    means: Float[Array, " n"]
    """Predicted mean rewards."""
    ranks: Float[Array, " n"] | None
    """Randomised ranks of real rewards among draws from the prediction, uniform between 0 and 1 if
    the prior is right; None for rewards between 0 and 1, on whose means the bettors bet."""
    arms: Int[Array, " n"] | None
    kinds: Float[Array, "n G"]
    """Probability of each kind before the reward was known."""

    def some(self, which: Any) -> Bets:
        """Return the bets at some places."""
        ranks = None if self.ranks is None else self.ranks[which]
        arms = None if self.arms is None else self.arms[which]
        return Bets(self.values[which], self.means[which], ranks, arms, self.kinds[which])

    def log_factors(self, shares: Float[Array, " n"]) -> Float[Array, "n S"]:
        """Return the logarithm of what each bettor's money is multiplied with.

        ``shares`` between 0 and 1 make bets smaller. With m = E[r] and a shift h, the factor of a
        reward in [0, 1] is exp(h r) / (1 - m + m exp(h)), whose mean is 1 for r in {0, 1} and at
        most 1 otherwise, because exp is convex. That of a uniform u is exp(h u) h / (exp(h) - 1).
        """
        steps = np.multiply.outer(shares, SHIFTS)
        growth = np.expm1(steps)
        if self.ranks is None:
            return steps * self.values[:, None] - np.log1p(self.means[:, None] * growth)
        fair = np.log(np.divide(growth, steps, out=np.ones_like(steps), where=steps != 0))
        return np.asarray(steps * self.ranks[:, None] - fair)


class _Unit:
    """Some decisions: the money of the bettors, and what was expected and earned."""

    def __init__(self) -> None:
        self._log_money = np.zeros(len(SHIFTS))
        self._sums = np.zeros(3)

    def add(self, bets: Bets, shares: Float[Array, " n"]) -> None:
        self._log_money += bets.log_factors(shares).sum(axis=0)
        for i, each in enumerate((np.ones_like(shares), bets.means, bets.values)):
            self._sums[i] += shares @ each

    @property
    def log_evidence(self) -> float:
        """Logarithm of the mean money of all bettors."""
        return float(np.logaddexp.reduce(self._log_money)) - math.log(len(SHIFTS))

    def agreement(self, weight: float) -> Agreement:
        """Return expected and earned means; ``weight`` is the share of all money that is here."""
        n, expected, earned = self._sums.tolist()
        wrong = self.log_evidence + math.log(weight) >= -math.log(ALPHA)
        return Agreement(n, expected / n if n else 0.0, earned / n if n else 0.0, wrong)


class VersionWatch:
    """The bets against one version of the prior.

    A third of the money is on all decisions, a third is spread over the arms and a third over the
    kinds: the sum is a martingale again, so that several units need no other correction.
    """

    def __init__(self, n_arms: int | None, n_kinds: int) -> None:
        self._sizes = {"all": 1, "arm": n_arms or 0, "kind": n_kinds if n_kinds > 1 else 0}
        self._sizes = {name: n for name, n in self._sizes.items() if n}
        self._units: dict[tuple[str, int], _Unit] = {("all", 0): _Unit()}
        self.alarmed = False
        """Whether ``judge`` ever found the prior to be wrong."""

    def add(self, bets: Bets) -> None:
        """Settle bets on rewards that are final."""
        every = np.ones(len(bets.values))
        self._units["all", 0].add(bets, every)
        if "arm" in self._sizes:
            assert bets.arms is not None
            for arm in np.unique(bets.arms).tolist():
                self._unit("arm", arm).add(bets, (bets.arms == arm).astype(float))
        for kind in range(self._sizes.get("kind", 0)):
            self._unit("kind", kind).add(bets, bets.kinds[:, kind])

    def _unit(self, name: str, index: int) -> _Unit:
        return self._units.setdefault((name, index), _Unit())

    def _weight(self, name: str) -> float:
        return 1 / (len(self._sizes) * self._sizes[name])

    @property
    def log_evidence(self) -> float:
        """Logarithm of all money, which was 1 at first."""
        logs = [
            unit.log_evidence + math.log(self._weight(name))
            for (name, _), unit in self._units.items()
        ]
        unseen = 1 - math.fsum(self._weight(name) for name, _ in self._units)
        return float(np.logaddexp.reduce([*logs, math.log(unseen) if unseen > 1e-12 else -np.inf]))

    def judge(self) -> None:
        """Raise the alarm, for good, if there is too much money. All final rewards must be in."""
        self.alarmed = self.alarmed or self.log_evidence >= -math.log(ALPHA)

    def agreements(self) -> Agreements:
        """Return what was expected and earned of all decisions, each arm and each kind."""
        found = {key: unit.agreement(self._weight(key[0])) for key, unit in self._units.items()}
        return Agreements(
            found["all", 0],
            {index: one for (name, index), one in found.items() if name == "arm"},
            {index: one for (name, index), one in found.items() if name == "kind"},
            self.log_evidence / math.log(10), self.alarmed,
        )  # fmt: skip


def predict(
    belief: Belief, actions: Array, values: Float[Array, " n"], rng: np.random.Generator
) -> Bets:
    """Return bets on one reward of each task of a belief that has not seen these rewards.

    ``actions`` are arms (n,) or rows of features (n, d).
    """
    prior, rows = belief.prior, np.arange(len(values))
    has_arms = prior.family.n_arms is not None
    sets = None if has_arms else actions[:, None]
    chosen = actions if has_arms else np.zeros(len(values), np.int64)
    means = belief.mean_rewards(sets)[rows, chosen]
    ranks = None
    if prior.family.support != "0 or 1":
        ranks = _ranks(belief, sets, chosen, values, rng)
    return Bets(
        values, means, ranks, chosen if has_arms else None, prior.sum_by_kind(belief.weights)
    )


def _ranks(
    belief: Belief, sets: Array | None, chosen: Int[Array, " n"], values: Float[Array, " n"],
    rng: np.random.Generator,
) -> Float[Array, " n"]:  # fmt: skip
    """Return the rank of each reward among draws from its prediction, ties broken at random.

    If the prior is right, reward and draws are exchangeable, and the rank is exactly uniform.
    """
    family, found = belief.prior.family, []
    size = max(1, _MOST_NUMBERS // (_N_DRAWS * (family.n_arms or family.n_features or 1)))
    for start in range(0, len(values), size):
        part = np.arange(start, min(start + size, len(values)))
        tasks = np.repeat(part, _N_DRAWS)
        parameters = belief.sample_parameters(rng, belief.sample_latent(rng, tasks), tasks)
        means = family.mean_rewards(parameters, None if sets is None else sets[tasks])
        taken = means[np.arange(len(tasks)), chosen[tasks]]
        laws = family.reward_parameters(parameters, chosen[tasks], taken)
        drawn = family.outcomes(rng, laws).reshape(len(part), _N_DRAWS)
        own = values[part, None]
        below, equal = (drawn < own).sum(axis=1), (drawn == own).sum(axis=1)
        found.append((below + rng.random(len(part)) * (equal + 1)) / (_N_DRAWS + 1))
    return np.concatenate(found)


# -- the watch ------------------------------------------------------------------------------------


class _Final(NamedTuple):
    """A reward in the log, in the order in which decisions become final."""

    final_at: int
    decision: int
    task: int
    version: int


class _Replay(NamedTuple):
    """The history of a task, and the places of the rewards to bet on."""

    version: int
    prior: MixturePrior
    history: list[tuple[Any, float]]
    wanted: list[int]


class PriorWatch(Periodic):
    """Bets against versions of the prior in its own thread, at a tenth of a core.

    It keeps nothing: a new service reads the log again.
    """

    thread_name = "mixts-agreement"
    trouble = "rewards cannot be compared with the prior"

    def __init__(self, store: DecisionStore, load: Callable[[int], ActivePrior]) -> None:
        super().__init__(POLL_SECONDS)
        self._store = store
        self._load = load
        self._versions: dict[int, VersionWatch] = {}
        self._held: list[_Final] = []
        """Heap of rewards whose decisions are not final."""
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
            smallest = heapq.nsmallest(2 * _PIECE, self._held)
            ready = [row for row in smallest if row.final_at < until]
            replays = self._replays(ready)  # reads the store, and may fail, before any bet
            for _ in ready:
                heapq.heappop(self._held)
            for replay in replays:
                self._bet(replay)
            if not is_read or len(ready) == 2 * _PIECE:
                return True
            if until:
                self._judge()
            return False

    def _judge(self) -> None:
        with self._reading:
            for watch in self._versions.values():
                watch.judge()
            self._is_complete = True
        self.warning = self._warning()

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
        query = self._store.backend.query
        ((last,),) = query(_LAST, (settled,))
        backlog = int(last) - self._after + len(self._held) * self._every
        every = max(self._every, -(-backlog // MOST_REWARDS))
        if every > self._every:
            self._every = every
            self._held = [row for row in self._held if (row.task - 1) % every == 0]
            heapq.heapify(self._held)
        found = query(_REWARDS, (self._after, self._every, _PIECE))
        rows = list(takewhile(lambda row: row[1] <= settled, found))
        for _, _, *row in rows:
            heapq.heappush(self._held, _Final(*map(int, row)))
        if rows:
            self._after = int(rows[-1][0])
        if len(found) < _PIECE and len(rows) == len(found):  # the others are of other tasks
            self._after = max(self._after, int(last))
        return len(rows) < _PIECE

    # -- replays ------------------------------------------------------------------------------

    def _replays(self, ready: Sequence[_Final]) -> list[_Replay]:
        """Return the histories of tasks up to rewards that are final, of the newest versions."""
        newest = self._store.backend.query(_NEWEST, (MOST_VERSIONS,))
        recent = {int(row[0]) for row in newest} | {self._store.active_version()}
        wanted: dict[tuple[int, int], set[int]] = {}
        for row in ready:
            if row.version in recent:
                wanted.setdefault((row.version, row.task), set()).add(row.decision)
        found = []
        for (version, task), decisions in wanted.items():
            prior = self._load(version).prior
            found.append(_Replay(version, prior, *self._history(prior, task, decisions)))
        return found

    def _history(
        self, prior: MixturePrior, task: int, wanted: set[int]
    ) -> tuple[list[tuple[Any, float]], list[int]]:
        """Return actions and rewards of a task as they became final, and the places to bet on.

        An action is an arm or a row of features.
        """
        rows = self._store.backend.query(_HISTORY, (task, FIRST_DECISIONS))
        n_arms = prior.family.n_arms
        if n_arms is not None:
            # Arms that a later version added are unknown to this one.
            rows = [row for row in rows if row[1] < n_arms]
            history = [(k, y) for _, k, _, y in rows]
        else:
            sets = self._action_sets({row[2] for row in rows})
            history = [(sets[number][k], y) for _, k, number, y in rows]
        return history, [i for i, row in enumerate(rows) if row[0] in wanted]

    def _action_sets(self, numbers: set[int]) -> dict[int, Float[Array, "K d"]]:
        if not numbers:
            return {}
        sql = f"{OFFERED.sql} WHERE s.number IN ({', '.join('?' * len(numbers))})"
        found = self._store.backend.query(sql, tuple(numbers))
        return {row[-1]: OFFERED.read(row).rows for row in found}

    def _bet(self, replay: _Replay) -> None:
        """Replay a task, and bet on the wanted rewards before the task learns from them."""
        prior, family = replay.prior, replay.prior.family
        statistics, start = family.empty_statistics(1), 0
        for place in replay.wanted:
            if place > start:
                actions, values = _arrays(replay.history[start:place])
                observed = statistics.observations(actions, values)
                statistics.observe(np.zeros(place - start, np.int64), observed)
                start = place
            try:
                family.check_statistics(statistics)
            except StatisticsError:  # the prior cannot compute with this history
                continue
            asked = _arrays(replay.history[place : place + 1])
            bets = predict(prior.condition(statistics), *asked, self._rng)
            if np.isfinite(bets.means).all():
                new = VersionWatch(family.n_arms, bets.kinds.shape[1])
                with self._reading:
                    self._versions.setdefault(replay.version, new).add(bets)

    def _warning(self) -> str | None:
        version = self._store.active_version()
        watch = None if version is None else self._versions.get(version)
        if watch is None or version is None or not watch.alarmed:
            return None
        names = self._load(version).prior.arm_names
        words = in_words(watch.agreements(), names)
        begin = f"the rewards do not agree with version {version} of the prior: "
        if not (self.warning or "").startswith(begin):
            log.warning("%s%s", begin, words)
        return begin + words


def in_words(found: Agreements, names: Sequence[str] | None) -> str:
    """Return what was expected and earned, of all decisions and of the worst arm."""
    whole = found.whole
    words = (
        f"of {whole.decisions:.0f} decisions it expected a mean reward of {whole.expected:.3g}, "
        f"and they earned {whole.earned:.3g}"
    )
    wrong = {arm: one for arm, one in found.arms.items() if one.wrong}
    if wrong:
        gap = {arm: one.decisions * abs(one.earned - one.expected) for arm, one in wrong.items()}
        arm = max(gap, key=lambda arm: gap[arm])
        name = f"arm {arm}" if names is None else repr(names[arm])
        words += (
            f"; {name} alone was expected to earn {wrong[arm].expected:.3g} in "
            f"{wrong[arm].decisions:.0f} decisions, and earned {wrong[arm].earned:.3g}"
        )
    return words


def _arrays(history: Sequence[tuple[Any, float]]) -> tuple[Array, Array]:
    actions, values = zip(*history, strict=True)
    return np.array(actions), np.array(values, float)
