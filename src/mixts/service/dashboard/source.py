"""What the pages ask of a decider and of its store, and what they say of the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mixts.families import LinearGaussian
from mixts.prior import MixturePrior
from mixts.service.records import (
    ActionPosteriors,
    ActionRow,
    Activity,
    DecisionRow,
    Health,
    PriorVersion,
    Share,
    TaskRow,
    TaskState,
    Totals,
)

N_COLOURS = 8
"""As many kinds can be told apart by colour; the style sheet has them."""


@runtime_checkable
class Reader(Protocol):
    """The part of ``DecisionStore`` that pages read."""

    def totals(self) -> Totals: ...
    def activity(self, since: float, bin_seconds: int) -> list[Activity]: ...
    def split(self, version: int) -> list[Share]: ...
    def tasks(self, search: str = "", limit: int = 50, offset: int = 0) -> list[TaskRow]: ...
    def task(self, name: str) -> TaskRow | None: ...
    def history(self, name: str, limit: int = 200) -> list[DecisionRow]: ...
    def actions(self, name: str, limit: int = 10_000) -> list[ActionRow]: ...


@runtime_checkable
class Believer(Protocol):
    """The part of ``Decider`` that pages read."""

    @property
    def prior(self) -> MixturePrior: ...
    @property
    def prior_version(self) -> int: ...
    def priors(self) -> list[PriorVersion]: ...
    def health(self) -> Health: ...
    def state(self, task: str) -> TaskState: ...
    def posterior(self, task: str) -> ActionPosteriors: ...


@dataclass(frozen=True)
class PriorFacts:
    """The active prior as pages tell it: its names, and a number where it has none."""

    version: int
    family: str
    weights: tuple[float, ...]
    names: tuple[str, ...] | None = None
    arm_names: tuple[str, ...] | None = None
    retired: tuple[bool, ...] = ()
    n_arms: int | None = None
    n_features: int | None = None

    def kind(self, latent: int, version: int | None = None) -> str:
        """The name of a latent state; one of another version is told by its number."""
        if version is not None and version != self.version:
            return f"kind {latent + 1} of version {version}"
        if self.names and latent < len(self.names):
            return self.names[latent]
        return f"kind {latent + 1}"

    def action(self, index: int) -> str:
        """The name of an arm, or of a row of the actions that were offered."""
        if self.arm_names and index < len(self.arm_names):
            return self.arm_names[index]
        return f"{'action' if self.n_arms is None else 'arm'} {index}"

    def weight(self, latent: int) -> float:
        """The prior's own weight of a latent state."""
        return self.weights[latent] if latent < len(self.weights) else 0.0


def prior_facts(prior: MixturePrior, version: int) -> PriorFacts:
    """What pages say of a prior."""
    family = prior.family
    return PriorFacts(
        version=version,
        family=family_words(family.kind),
        weights=tuple(map(float, prior.weights)),
        names=prior.names,
        arm_names=prior.arm_names,
        retired=tuple(map(bool, prior.retired)),
        n_arms=family.n_arms,
        n_features=family.n_features if isinstance(family, LinearGaussian) else None,
    )


def family_words(kind: str) -> str:
    """Bernoulli arms, for "bernoulli-arms"."""
    return kind.replace("-", " ").capitalize()


def colour(latent: int) -> int:
    """The number of a latent state's colour, where it stands alone."""
    return latent % N_COLOURS


def colours(latents: list[int]) -> dict[int, int]:
    """The numbers of latent states' colours side by side: their own, or else the next free one."""
    taken: dict[int, int] = {}
    for latent in sorted(latents):
        own = [(colour(latent) + step) % N_COLOURS for step in range(N_COLOURS)]
        taken[latent] = next((c for c in own if c not in taken.values()), own[0])
    return taken
