"""What maximising the evidence needs to know of a family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.families import Family, Statistics

MODELS: dict[type[Statistics], type[Model]] = {}
"""The model of each kind of statistics; a subclass registers itself."""


class Model(ABC):
    """Past tasks of one family, seen from the prior that is to be learned from them.

    The hyperprior is a number of *pseudo-tasks* for each component, ``pseudo``: tasks whose
    parameters are drawn from ``centre``, a family of one component, and seen exactly. Up to a
    constant that is ``-pseudo KL(centre || component)``: a component with no tasks is the centre,
    one with many forgets it.
    """

    statistics_type: ClassVar[type[Statistics]]
    options: ClassVar[tuple[str, ...]] = ()
    """Of those that learning knows, what this family has."""

    statistics: Statistics
    centre: Family
    """One component: at first as broad as the data, then what all tasks have in common."""
    pseudo: float

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "statistics_type" in cls.__dict__:
            MODELS[cls.statistics_type] = cls

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.pseudo = 1.0
        self.centre = self._broad()

    def about(self, centre: Family, pseudo: float) -> Self:
        """The same tasks with another hyperprior; the tasks' arrays are shared."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.centre, other.pseudo = centre, pseudo
        return other

    @property
    def n_tasks(self) -> int:
        return len(self.statistics)

    @abstractmethod
    def _broad(self) -> Family:
        """One component as broad as the data: the centre of what all tasks have in common."""

    @abstractmethod
    def log_evidence(self, family: Family) -> Float[Array, "n L"]:
        """ln p(task | s), with all constants."""

    @abstractmethod
    def log_hyperprior(self, family: Family) -> float:
        """What the components' parameters lose or gain, up to a constant."""

    @abstractmethod
    def improve(self, family: Family, share: Float[Array, "n L"]) -> Family:
        """Components that explain their shares of the tasks better, hyperprior included."""

    @abstractmethod
    def pack(self, family: Family) -> Float[Array, " p"]:
        """The parameters as numbers that may all be anything."""

    @abstractmethod
    def unpack(self, numbers: Float[Array, " p"], n_components: int) -> Family | None:
        """The family of such numbers; None where they are beyond all bounds."""

    @abstractmethod
    def points(self, family: Family) -> Float[Array, "n p"]:
        """A point for each task: what is believed of it under one component, to a common scale."""

    @abstractmethod
    def estimates(self, family: Family) -> Float[Array, "n p"]:
        """Another view of the same: estimates in the parameters' own scale."""

    @abstractmethod
    def n_parameters(self, n_components: int) -> int:
        """How many numbers a mixture has, its weights included."""


class MomentModel(Model):
    """A model that also knows the prior with given moments."""

    @abstractmethod
    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> Family:
        """The prior of each group of tasks that has its moments, for learning in two stages.

        What a group never saw is taken from the pooled prior, or where there is none from the
        centre.
        """


def positive(logs: Array, largest: float = 60.0) -> Array | None:
    """Positive numbers from their logarithms; None where those are beyond all bounds."""
    if not (np.abs(logs) < largest).all():
        return None
    return np.exp(logs)


def spread(values: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """Columns to unit variance, those that never vary to zero."""
    scale = values.std(axis=0)
    centred = values - values.mean(axis=0)
    # A column that only rounding moves says nothing.
    still = scale <= 1e-12 * (np.abs(values).max(axis=0, initial=0.0) + 1e-300)
    return np.asarray(np.where(still, 0.0, centred / np.where(still, 1.0, scale)))
