"""Versions of the prior: which fits the tasks, and what deciding with one needs."""

from __future__ import annotations

from dataclasses import dataclass

from mixts.errors import ParameterError
from mixts.families.arms import ArmFamily
from mixts.mixture import MixturePrior
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
