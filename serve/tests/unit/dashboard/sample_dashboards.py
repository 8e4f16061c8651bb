"""Deciders and stores to draw pages of: made-up numbers behind the real records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from mixts_serve.agreement import Agreements
from mixts_serve.challenger import Account
from mixts_serve.imagine import Outcome, Outlook
from mixts_serve.promotion import Trial
from mixts_serve.records import (
    COUNTED,
    ActionPosteriors,
    Counts,
    Health,
    PriorActivation,
    PriorVersion,
    TaskState,
)
from mixts_serve.rules import Policy, Rules
from mixts_serve.store.views import (
    ActionRow,
    Activity,
    Among,
    ArmTraffic,
    DecisionRow,
    Earnings,
    Share,
    SpanEarnings,
    TaskRow,
    Totals,
    Unrewarded,
    VersionEarnings,
)
from mixts_serve.trials import Holdback
from mixts_serve.worth import Worth
from msgspec.structs import replace

import mixts
from mixts.errors import UnknownTaskError

NOW = 1_773_490_984.0
"""2026-03-14 12:23:04 UTC."""
KINDS = ("bargain hunters", "night owls", "regulars", "gift buyers", "window shoppers")
ARMS = (
    "free shipping", "10 % off", "new arrivals", "best sellers", "bundle", "loyalty points",
    "gift wrap", "flash sale", "reviews", "nothing",
)  # fmt: skip

MEAN = 0.24
"""Mean reward of all decisions, over time."""

HOSTILE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "quotes": "\"' onmouseover='alert(3)' x=\"",
    "rtl": "user\u202etxt.exe\u2066",
    "arabic": "مرحبا بالعالم",
    "emoji": "👩‍👩‍👧 family 🎉",
    "newline": "first\nsecond\tthird",
    "slashes": "a/b//c\\d?e=f&g#h",
    "dots": "..",
    "dot": ".",
    "encoded": "%2F..%2F%00",
    "date": "2024-01-02",
    "long": "x" * 200,
    "zalgo": "z" + "\u0301\u0316" * 60,
    "spaces": "  two  spaces ",
    "template": "{{ 7 * 7 }}{% raw %}",
    "entity": "&lt;b&gt;&amp;",
    "closing": "</title></svg></desc><svg onload=alert(4)>",
}


@dataclass
class FakeStore:
    """A store that holds what it was given."""

    rows: list[TaskRow] = field(default_factory=list)
    histories: dict[str, list[DecisionRow]] = field(default_factory=dict)
    spans: list[Activity] = field(default_factory=list)
    """Counts in spans of ten seconds."""
    open_seconds: float = 0.0
    """Time for which decisions are not final; 0 without default rewards."""

    notes: dict[str, str] = field(default_factory=dict)

    def transitions(self, limit: int) -> list[PriorActivation]:
        return []

    def note(self, name: str) -> str | None:
        return self.notes.get(name)

    def totals(self) -> Totals:
        return Totals(len(self.rows), **sums(self.rows))

    def activity(self, since: float, bin_seconds: int) -> list[Activity]:
        bins: dict[float, list[Activity]] = {}
        for span in self.spans:
            if span.start >= since:
                bins.setdefault(bin_seconds * (span.start // bin_seconds), []).append(span)
        return [Activity(start, **sums(spans)) for start, spans in bins.items()]

    def final_until(self, now: float) -> float:
        return now - self.open_seconds if self.open_seconds else math.inf

    def earnings(
        self, since: float, bin_seconds: int, final: float = math.inf
    ) -> list[SpanEarnings]:
        bins: dict[float, int] = {}
        for span in self.spans:
            if since <= span.start < final - 10:
                start = bin_seconds * (span.start // bin_seconds)
                bins[start] = bins.get(start, 0) + span.rewards
        return [SpanEarnings(start, n, MEAN * n) for start, n in bins.items() if n]

    def unrewarded(self, now: float | None = None) -> Unrewarded:
        totals = self.totals()
        return Unrewarded(totals.decisions - totals.rewards, 0, 0, 0)

    def arms(self, since: float, bin_seconds: int, final: float = math.inf) -> dict[int, Earnings]:
        found: dict[int, list[DecisionRow]] = {}
        for row in self._since(since):
            found.setdefault(row.action, []).append(row)
        return {arm: earnings_of(rows, final) for arm, rows in found.items()}

    def traffic(self, since: float, bin_seconds: int, arms: Sequence[int]) -> list[ArmTraffic]:
        counts: dict[tuple[float, int | None], int] = {}
        for row in self._since(since):
            start = bin_seconds * (row.at // bin_seconds)
            for arm in (None, row.action):
                if arm is None or arm in arms:
                    counts[start, arm] = counts.get((start, arm), 0) + 1
        return [ArmTraffic(start, arm, n) for (start, arm), n in counts.items()]

    def versions(self, final: float = math.inf) -> list[VersionEarnings]:
        found: dict[tuple[int, str], list[DecisionRow]] = {}
        for row in self._since(0.0):
            found.setdefault((row.prior_version, row.policy), []).append(row)
        return [
            VersionEarnings(*key, min(r.at for r in rows), max(r.at for r in rows),
                            earnings_of(rows, final))
            for key, rows in found.items()
        ]  # fmt: skip

    def _since(self, since: float) -> list[DecisionRow]:
        rows = [row for history in self.histories.values() for row in history]
        return [row for row in rows if row.at >= since]

    def split(self, version: int) -> list[Share]:
        shares: dict[int | None, Share] = {}
        for row in self.rows:
            latent = row.latent if row.version == version else None
            share = shares.get(latent, Share(latent, 0, 0))
            sure = latent is not None and row.certainty >= 0.9
            shares[latent] = replace(share, tasks=share.tasks + 1, sure=share.sure + sure)
        return list(shares.values())

    def tasks(
        self, search: str = "", limit: int = 50, offset: int = 0, among: Among | None = None
    ) -> list[TaskRow]:
        found = [row for row in self.rows if search.lower() in row.task.lower()]
        if among is not None:
            found = [row for row in found if row.latent in among.components]
        found.sort(key=lambda row: -row.last_at)
        return found[offset : offset + limit]

    def task(self, name: str) -> TaskRow | None:
        return next((row for row in self.rows if row.task == name), None)

    def history(self, name: str, limit: int = 200) -> list[DecisionRow]:
        return self.histories.get(name, [])[-limit:]

    def actions(self, name: str, limit: int = 10_000, final: float = math.inf) -> list[ActionRow]:
        rows = self.history(name, limit)
        known = [row for row in rows if row.value is not None and row.at < final]
        values = {
            k: [row.value for row in known if row.action == k and row.value is not None]
            for k in sorted({row.action for row in rows})
        }
        return [
            ActionRow(k, sum(row.action == k for row in rows), len(seen), math.fsum(seen))
            for k, seen in values.items()
        ]


def sums(rows: Sequence[Counts]) -> dict[str, int]:
    return {name: sum(getattr(row, name) for row in rows) for name in COUNTED}


def earnings_of(rows: Sequence[DecisionRow], final: float = math.inf) -> Earnings:
    """What some decisions earned."""
    came = [row for row in rows if row.value is not None]
    values = [row.value for row in came if row.value is not None and row.at < final]
    return Earnings(
        decisions=len(rows), rewards=len(came), late=sum(row.late for row in rows),
        reward_sum=math.fsum(values), reward_squares=math.fsum(v * v for v in values),
        counted=len(values),
    )  # fmt: skip


@dataclass
class FakeDecider:
    """A decider whose beliefs are those of the last decisions."""

    prior: mixts.MixturePrior
    store: FakeStore
    prior_version: int = 1
    policy: Policy = Policy("ids", 50, 0.01)  # noqa: RUF009  # frozen
    writable: bool = True
    reason: str | None = None
    pending: int = 0
    warning: str | None = None
    window: float | None = None
    default: float | None = None
    alarm: str | None = None
    found: Agreements | None = None
    lift: Worth | None = None
    rivals: Account | None = None
    canary: Trial | None = None
    holdback: Holdback | None = None

    @property
    def rules(self) -> Rules:
        window_us = None if self.window is None else int(1e6 * self.window)
        return Rules(self.policy, window_us, self.default, self.holdback)

    def weights(self, tasks: Sequence[str]) -> list[tuple[float, ...]]:
        return [self.task(task).weights for task in tasks]

    def priors(self) -> list[PriorVersion]:
        kind, n = self.prior.family.kind, self.prior.n_components
        return [
            PriorVersion(
                v, NOW - 86400 * 3 ** (self.prior_version - v), v == self.prior_version, kind, n
            )
            for v in range(1, self.prior_version + 1)
        ]

    def health(self) -> Health:
        return Health(
            self.writable, self.reason, self.pending, self.warning, prior_alarm=self.alarm
        )

    def worth(self) -> Worth | None:
        return self.lift

    def agreements(self, version: int | None = None) -> Agreements | None:
        return self.found if version in (None, self.prior_version) else None

    def account(self) -> Account | None:
        return self.rivals

    def trial(self) -> Trial | None:
        return self.canary

    def task(self, task: str) -> TaskState:
        row = self.store.task(task)
        if row is None:
            raise UnknownTaskError(f"no task {task!r}")
        history = self.store.history(task)
        weights = history[-1].weights if history else tuple(self.prior.weights.tolist())
        if len(weights) != self.prior.n_components:
            weights = tuple(self.prior.weights.tolist())
        mean = self.posterior(task).mean
        return TaskState(
            task, row.decisions, row.rewards, row.late, weights, mean, self.prior_version
        )

    def posterior(self, task: str, best: int | None = None) -> ActionPosteriors:
        n = self.prior.family.n_arms or 6
        rng = np.random.default_rng(len(task))
        mean = 0.05 + 0.5 * rng.beta(1.2, 3, n)
        width = 0.02 + 0.12 * rng.random(n)
        low, high = np.maximum(mean - width, 0.001), np.minimum(mean + 1.3 * width, 0.99)
        shown = np.sort(np.argsort(-mean, kind="stable")[:best])
        found = (tuple(x[shown].tolist()) for x in (mean, low, high, np.arange(n)))
        return ActionPosteriors(*found, n_actions=n)

    def imagine(self, task: str, outcomes: Sequence[Outcome] = ()) -> tuple[Outlook, Outlook]:
        mean = self.posterior(task).mean
        one = Outlook(self.task(task).weights, mean, tuple(1 / len(mean) for _ in mean))
        return one, one


def arm_prior(n_kinds: int = 5, n_arms: int = 10, *, named: bool = True) -> mixts.MixturePrior:
    """Bernoulli arms; the weights fall."""
    rng = np.random.default_rng(7)
    family = mixts.BernoulliArms(
        rng.uniform(1, 5, (n_kinds, n_arms)), np.full((n_kinds, n_arms), 6.0)
    )
    weights = 0.75 ** np.arange(n_kinds)
    return mixts.MixturePrior(
        family, weights / weights.sum(), KINDS[:n_kinds] if named else None,
        ARMS[:n_arms] if named else None,
    )  # fmt: skip


def linear_prior(n_features: int = 4) -> mixts.MixturePrior:
    """Three kinds without names."""
    mean = np.arange(3 * n_features, dtype=float).reshape(3, n_features)
    return mixts.MixturePrior(mixts.LinearGaussian(mean, np.ones(3), 0.5, "spherical"))


def spans_of(rng: np.random.Generator, now: float, seconds: int, rate: float) -> list[Activity]:
    """Activity that grows and wavers; some of it late."""
    last = 10 * math.floor(now / 10)
    found = []
    for i, start in enumerate(range(last - seconds, last + 1, 10)):
        share = i * 10 / seconds
        level = rate * (0.55 + 0.35 * share + 0.15 * math.sin(12 * share))
        decisions = int(rng.poisson(10 * level))
        rewards = int(rng.binomial(decisions, 0.86))
        late = int(rng.binomial(rewards, 0.01))
        found.append(Activity(start, decisions=decisions, rewards=rewards, late=late))
    return found


def history_of(
    rng: np.random.Generator, n: int, kind: int, versions: Sequence[tuple[int, int]], end: float,
    n_arms: int = 10, step: float = 3600.0,
) -> list[DecisionRow]:  # fmt: skip
    """Decisions whose weights become sure of a kind; versions are (how many kinds, how many)."""
    rows = []
    logits = np.zeros(1)
    begin = end - step * n
    for version, (n_kinds, until) in enumerate(versions, 1):
        logits = rng.normal(0, 0.8, n_kinds)
        for _ in range(until):
            i = len(rows)
            logits[kind % n_kinds] += rng.normal(0.11, 0.25)
            weights = np.exp(logits - logits.max())
            weights /= weights.sum()
            value = None if i >= n - 3 else float(rng.random() < 0.3)
            at = begin + step * (i + 1) + float(rng.uniform(-0.3, 0.3)) * step
            rows.append(
                DecisionRow(
                    f"{i:032x}", min(at, end), int(rng.integers(n_arms)),
                    float(rng.uniform(0.05, 0.9)),
                    tuple(weights.tolist()), version, value,
                    None if value is None else min(at, end) + 60.0, i % 41 == 40,
                    "ts" if version == 1 else "ids",
                )
            )  # fmt: skip
    return rows


def row_of(task: str, history: Sequence[DecisionRow]) -> TaskRow:
    """The line of a task with these decisions, as the store keeps it."""
    weights = history[-1].weights
    latent = max(range(len(weights)), key=lambda s: weights[s])
    return TaskRow(
        task, latent, weights[latent], history[-1].prior_version, history[0].at, history[-1].at,
        decisions=len(history), rewards=sum(row.value is not None for row in history),
        late=sum(row.late for row in history),
    )  # fmt: skip


def typical(
    n_tasks: int = 300,
    *,
    names: Sequence[str] = (),
    prior: mixts.MixturePrior | None = None,
    longest: int = 120,
) -> tuple[FakeDecider, FakeStore]:
    """A service in the middle of its life: two versions of the prior, tasks of all ages."""
    rng = np.random.default_rng(11)
    prior = prior or arm_prior()
    n_kinds, n_arms = prior.n_components, prior.family.n_arms or 6
    store = FakeStore(spans=spans_of(rng, NOW, 7200, 32.0))
    for i in range(n_tasks):
        name = names[i] if i < len(names) else f"customer-{10_000 + 37 * i % 9973}"
        n = int(rng.integers(6, longest))
        end = NOW - 3.0 * i**1.6
        before = int(n * rng.uniform(0.2, 1.4))
        versions = [(max(1, n_kinds - 1), min(before, n)), (n_kinds, max(0, n - before))]
        kind = int(rng.choice(n_kinds, p=prior.weights))
        rows = history_of(rng, n, kind, versions, end, n_arms)
        store.histories[name] = rows
        store.rows.append(row_of(name, rows))
    return FakeDecider(prior, store, prior_version=2), store
