"""The interfaces through which pages read, and what they show of a prior and of a policy."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mixts import MixturePrior
from mixts.agents import NewShare
from mixts.pages import descriptions_of, formats
from mixts_serve.agreement import Agreements
from mixts_serve.records import ActionPosteriors, Health, PriorVersion, TaskState
from mixts_serve.rules import Policy, Rules
from mixts_serve.store.views import (
    ActionRow,
    Activity,
    ArmEarnings,
    ArmTraffic,
    DecisionRow,
    Share,
    SpanEarnings,
    TaskRow,
    Totals,
    Unrewarded,
    VersionEarnings,
)


@runtime_checkable
class StoreReader(Protocol):
    """The part of ``DecisionStore`` that pages read."""

    def totals(self) -> Totals: ...
    def activity(self, since: float, bin_seconds: int) -> list[Activity]: ...
    def unrewarded(self, now: float | None = None) -> Unrewarded: ...
    def final_until(self, now: float) -> float: ...
    def earnings(
        self, since: float, bin_seconds: int, final: float = ...
    ) -> list[SpanEarnings]: ...
    def arms(self, since: float, bin_seconds: int, final: float = ...) -> list[ArmEarnings]: ...
    def traffic(self, since: float, bin_seconds: int, arms: Sequence[int]) -> list[ArmTraffic]: ...
    def versions(self, final: float = ...) -> list[VersionEarnings]: ...
    def split(self, version: int) -> list[Share]: ...
    def tasks(self, search: str = "", limit: int = 50, offset: int = 0) -> list[TaskRow]: ...
    def task(self, name: str) -> TaskRow | None: ...
    def history(self, name: str, limit: int = 200) -> list[DecisionRow]: ...
    def actions(self, name: str, limit: int = 10_000, final: float = ...) -> list[ActionRow]: ...


@runtime_checkable
class DeciderReader(Protocol):
    """The part of ``Decider`` that pages read."""

    @property
    def prior(self) -> MixturePrior: ...
    @property
    def prior_version(self) -> int: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def rules(self) -> Rules: ...
    def priors(self) -> list[PriorVersion]: ...
    def health(self) -> Health: ...
    def agreements(self, version: int | None = None) -> Agreements | None: ...
    def task(self, task: str) -> TaskState: ...
    def posterior(self, task: str, best: int | None = None) -> ActionPosteriors: ...
    def weights(self, tasks: Sequence[str]) -> list[tuple[float, ...]]: ...


@dataclass(frozen=True)
class PriorFacts:
    """The active prior as pages show it; kinds and arms without names have numbers.

    Pages show kinds: what belongs to a kind of several components is summed over them.
    """

    version: int
    family: str
    weights: tuple[float, ...]
    """Weight of each kind."""
    names: tuple[str, ...] | None = None
    """Name of each kind."""
    arm_names: tuple[str, ...] | None = None
    retired: tuple[bool, ...] = ()
    new_arms: tuple[bool, ...] = ()
    """Which arms were added, and no prior has been learned from their data since."""
    n_arms: int | None = None
    n_features: int | None = None
    descriptions: tuple[str, ...] = ()
    """A sentence about each kind; empty for priors that have none."""
    kind_indices: tuple[int, ...] | None = None
    """Kind of each component; None if each component is a kind of its own."""

    @property
    def has_kinds(self) -> bool:
        """Whether there is more than one kind: one kind alone needs no drawing."""
        return len(self.weights) > 1

    def by_kind(self, weights: Sequence[float], version: int | None = None) -> tuple[float, ...]:
        """Sum weights of components by kind; the kinds of another version are not known."""
        if self.kind_indices is None or (version is not None and version != self.version):
            return tuple(weights)
        sums = [0.0] * len(self.weights)
        for kind, weight in zip(self.kind_indices, weights, strict=True):
            sums[kind] += weight
        return tuple(sums)

    def about(self, kind: int | None) -> str:
        """Return the sentence about a kind, or nothing."""
        known = kind is not None and kind < len(self.descriptions)
        return self.descriptions[kind] if known and kind is not None else ""

    def is_retired(self, arm: int) -> bool:
        """Return whether an arm is retired."""
        return arm < len(self.retired) and self.retired[arm]

    @property
    def least_reward(self) -> float:
        """The least reward that the family allows."""
        return 0.0 if self.family in _NOT_NEGATIVE else -math.inf

    def is_new(self, arm: int) -> bool:
        """Return whether an arm is new."""
        return arm < len(self.new_arms) and self.new_arms[arm]

    def kind(self, index: int, version: int | None = None) -> str:
        """Return the name of a kind; a component of another version has its number only."""
        if version is not None and version != self.version:
            return f"component {index + 1} of version {version}"
        if self.names and index < len(self.names):
            return self.names[index]
        return f"kind {index + 1}"

    def action(self, index: int) -> str:
        """Return the name of an arm, or of a row of the actions that were offered."""
        if self.arm_names and index < len(self.arm_names):
            return self.arm_names[index]
        return f"{'action' if self.n_arms is None else 'arm'} {index}"

    def weight(self, kind: int) -> float:
        """Return the prior's weight of a kind."""
        return self.weights[kind] if kind < len(self.weights) else 0.0


def prior_facts(prior: MixturePrior, version: int) -> PriorFacts:
    """Return the facts of a prior that pages show."""
    family = prior.family
    return PriorFacts(
        version=version,
        family=family_words(family.kind),
        weights=tuple(map(float, prior.sum_by_kind(prior.weights))),
        names=prior.names if prior.kinds is None else prior.kind_names,
        arm_names=prior.arm_names,
        retired=tuple(map(bool, prior.retired)),
        new_arms=tuple(map(bool, prior.new_arms)),
        n_arms=family.n_arms,
        n_features=family.n_features,
        descriptions=_descriptions(prior),
        kind_indices=None if prior.kinds is None else prior.kind_indices,
    )


@functools.lru_cache(maxsize=8)
def _descriptions(prior: MixturePrior) -> tuple[str, ...]:
    """Describe the kinds of a prior once, not at every refresh of a page."""
    # Names of arms come from anybody: they must not reorder the sentence around them.
    about = dict(
        zip(prior.kind_indices, map(formats.visible, descriptions_of(prior)), strict=False)
    )
    return tuple(about[kind] for kind in sorted(about))


def family_words(kind: str) -> str:
    """Return the name of a family in words: Bernoulli arms, for "bernoulli-arms"."""
    return kind.replace("-", " ").capitalize()


_NOT_NEGATIVE = frozenset(map(family_words, ("bernoulli-arms", "poisson-arms", "spend-arms")))
"""Families whose rewards are 0 or more."""


# -- policies -------------------------------------------------------------------------------------

_POLICIES = {
    "ids": (
        "Information-directed sampling",
        "weighs the reward that an action is expected to lose against how much there is to learn "
        "from it.",
    ),
    "ts": (
        "Thompson sampling",
        "takes each action with the probability that it is the best one.",
    ),
    "greedy": ("Greedy", "takes the action with the highest expected reward."),
    "ucb": (
        "Bayesian upper confidence bounds",
        "takes the action whose reward is highest at an upper quantile of the belief.",
    ),
}
"""Title of each policy, and how it chooses."""


@dataclass(frozen=True)
class PolicyFacts:
    """The policy in force as pages show it."""

    name: str
    horizon: int | None
    floor: float
    new_item_share: NewShare | None
    """Smallest and largest probability of all new arms together; None: no limit."""
    title: str
    how: str
    """How it chooses actions: a sentence without its subject."""

    @property
    def short(self) -> list[str]:
        """The policy in a few words, for the line below a title."""
        words = [f"policy {self.name}"]
        if self.horizon is not None:
            words.append(f"horizon {formats.count(self.horizon)}")
        if self.floor:
            words.append(f"floor {formats.percent(self.floor)}")
        return words


def policy_facts(policy: Policy) -> PolicyFacts:
    """Return what pages show of a policy."""
    title, how = _POLICIES.get(policy.name, (policy.name, "is a policy of your own."))
    return PolicyFacts(policy.name, policy.horizon, policy.floor, policy.new_item_share, title, how)
