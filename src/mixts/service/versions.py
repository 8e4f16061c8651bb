"""Versions of the prior: which fits the tasks, and what deciding with one needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts._typing import Array, Float
from mixts.agents import MixTS
from mixts.errors import ParameterError
from mixts.families import LinearGaussian
from mixts.families.arms import ArmFamily
from mixts.prior import MixturePrior
from mixts.service.encoding import StatisticsCodec


@dataclass(frozen=True, slots=True)
class ActivePrior:
    """A version of the prior, ready to decide with."""

    version: int
    prior: MixturePrior
    codec: StatisticsCodec

    @classmethod
    def load(cls, version: int, body: bytes) -> ActivePrior:
        """From the store."""
        prior = MixturePrior.from_bytes(body, f"version {version} of the prior")
        return cls(version, prior, StatisticsCodec(prior.family))

    def arm_name(self, action: int) -> str | None:
        """The name of an arm, where arms have names."""
        names = self.prior.arm_names
        return names[action] if names is not None else None


def check_servable(prior: object) -> MixturePrior:
    """Refuse what the service cannot decide with."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {prior!r}")
    if prior.family.plans:
        raise ParameterError(
            f"the decision service takes priors of arms and linear ones, got {prior.family!r}: "
            "policies of an MDP have no propensities; use mixts.MixTS in process"
        )
    return prior


def check_arms(prior: MixturePrior, before: MixturePrior | None) -> None:
    """Refuse to give one arm's statistics to another: names stay, in their order, or are added."""
    old = None if before is None else before.arm_names
    new = prior.arm_names
    if old is None or new is None or new[: len(old)] == old:
        return
    place = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(new))
    raise ParameterError(
        f"arm {place} is {old[place]!r} in the prior in force and "
        f"{new[place] if place < len(new) else 'missing'!r} in this one: tasks have statistics by "
        "the arm's place, so the arms in force must come first and in their order (mixts fit "
        "--arms says which), new ones after them"
    )


def some_actions(prior: MixturePrior) -> Float[Array, "2 d"] | None:
    """Actions to decide on before anybody asks."""
    family = prior.family
    return np.eye(2, family.n_features) if isinstance(family, LinearGaussian) else None


def check_decides(prior: MixturePrior) -> None:
    """Refuse a prior whose first decision has no probabilities."""
    actions = some_actions(prior)
    try:
        with np.errstate(all="ignore"):
            _, law, _ = MixTS(prior, seed=0, n_samples=10).act_with_probabilities(actions)
    except ZeroDivisionError:
        law = np.array(np.nan)
    if not np.isfinite(law).all():
        raise ParameterError(
            "the prior has no probabilities for a new task: its parameters are too large, or too "
            "small, to compute with"
        )


def fitted_shape(prior: MixturePrior, shape: str | None) -> str:
    """The shape of tasks' statistics under a prior, if it fits the ones that are there.

    They stay as they are: a prior may bring more arms, never fewer, and no other family.
    """
    kind, (size,) = prior.family.statistics_type.kind, prior.family.empty_statistics(1).shape
    mine = f"{kind} {size}"
    if shape is None or shape == mine:
        return mine
    old_kind, old_size = shape.split()
    if kind == old_kind and isinstance(prior.family, ArmFamily) and size > int(old_size):
        return mine
    raise ParameterError(
        f"the tasks of this store have statistics of {old_kind} with {old_size} "
        f"{'arms' if old_kind.endswith('arms') else 'features'}, which {prior.family!r} cannot go "
        "on from: use a prior of the same family with no fewer arms, or another store"
    )
