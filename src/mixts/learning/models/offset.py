"""Tasks with an offset: a part of each action's effect that is known, and the same in all tasks."""

from __future__ import annotations

from typing import Self

from mixts._typing import Array, Float
from mixts.families import Family, Statistics
from mixts.learning.models.base import Model
from mixts.prior import MixturePrior


class OffsetModel(Model):
    """Tasks whose last coefficient is 1: a model of the other coefficients does the work.

    Parameters
    ----------
    statistics
        Statistics of rows whose last number is the offset.
    rest
        Model of the other coefficients, which knows the offsets.
    """

    def __init__(self, statistics: Statistics, rest: Model) -> None:
        self.rest = rest
        self._last: tuple[Family, Family] | None = None
        """The last family, and its coefficients without the offset's: models know families that
        they have seen."""
        self.noise = rest.noise  # type: ignore[misc]
        super().__init__(statistics)

    def _broad(self) -> Family:
        return self.rest.centre.with_offset()

    def about(self, centre: Family, pseudo: object) -> Self:
        other = super().about(centre, pseudo)
        other.rest = self.rest.about(centre.without_offset(), pseudo)
        return other

    def after(self, prior: MixturePrior, pseudo: Array, pseudo_weights: Array) -> Self:
        other = super().after(prior, pseudo, pseudo_weights)
        known = MixturePrior(prior.family.without_offset(), prior.weights)
        other.rest = self.rest.after(known, pseudo, pseudo_weights)
        return other

    def quick(self) -> Self | None:
        rest = self.rest.quick()
        if rest is None:
            return None
        other = type(self).__new__(type(self))
        other.__dict__.update({**self.__dict__, "rest": rest})
        return other

    def log_evidence(self, family: Family) -> Float[Array, "n L"]:
        return self.rest.log_evidence(self._without_offset(family))

    def log_hyperprior(self, family: Family) -> float:
        return self.rest.log_hyperprior(self._without_offset(family))

    def improve(self, family: Family, share: Float[Array, "n L"]) -> Family:
        found = self.rest.improve(self._without_offset(family), share)
        self._last = found.with_offset(), found
        return self._last[0]

    def pack(self, family: Family) -> Float[Array, " p"]:
        return self.rest.pack(self._without_offset(family))

    def unpack(self, numbers: Float[Array, " p"], n_components: int) -> Family | None:
        found = self.rest.unpack(numbers, n_components)
        return None if found is None else found.with_offset()

    def points(self, family: Family) -> Float[Array, "n p"]:
        return self.rest.points(self._without_offset(family))

    def estimates(self, family: Family) -> Float[Array, "n p"]:
        return self.rest.estimates(self._without_offset(family))

    def tasks_known(self, family: Family, share: Float[Array, "n L"]) -> Float[Array, " L"]:
        return self.rest.tasks_known(self._without_offset(family), share)

    def _without_offset(self, family: Family) -> Family:
        if self._last is None or self._last[0] is not family:
            self._last = family, family.without_offset()
        return self._last[1]

    def n_parameters(self, n_components: int) -> int:
        return self.rest.n_parameters(n_components)

    def two_stage(self, n_components: int, seed: int) -> tuple[MixturePrior, MixturePrior]:
        mixture, one = (
            prior.replace(family=prior.family.with_offset())
            for prior in self.rest.two_stage(n_components, seed)
        )
        return mixture, one
