"""The interface of a family to learning: its model of past tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, get_args

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError
from mixts.families import Family, Statistics
from mixts.families.population import tasks_known
from mixts.learning.options import Noise
from mixts.learning.two_stage import group_tasks
from mixts.prior import MixturePrior

MODELS: dict[tuple[type[Statistics], Noise], type[Model]] = {}
"""Model of each type of statistics and noise; a subclass registers itself."""


class Elsewhere(ABC):
    """All past tasks, where memory holds only some of them."""

    n_tasks: int

    @abstractmethod
    def total(self, model: Model, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum of ``function(part, *arguments)`` over parts of the tasks, each a model.

        Sums are numbers, arrays, things that add, or tuples of these, see ``added``.
        """

    @abstractmethod
    def memory_of(self, model: Model, start: Any, limits: tuple[float, ...]) -> Any:
        """Return where a climb from this start notes how far it is."""


class Model(ABC):
    """Past tasks of one family, and what they say about a prior.

    The hyperprior is a number of *pseudo-tasks* for each component, ``pseudo``: tasks whose
    parameters are drawn from ``centre``, a family of one component, and observed exactly. Up to a
    constant that is ``-pseudo KL(centre || component)``: a component without tasks equals the
    centre, a component with many tasks forgets it. A refit goes on from an earlier prior: then each
    component has a centre of its own, the earlier one, and as many pseudo-tasks as that was learned
    from.
    """

    statistics_type: ClassVar[type[Statistics]]
    noise: ClassVar[Noise] = "common"
    options: ClassVar[tuple[str, ...]] = ()
    """Options of ``learn`` that this family has."""

    statistics: Statistics
    centre: Family
    """One component: at first as broad as the data, later what all tasks have in common. In a
    refit, the components of the earlier prior."""
    pseudo: float | Float[Array, "L K"] | Float[Array, " L"]
    """Number of pseudo-tasks of each component; in a refit, of each arm of each component."""
    pseudo_weights: float | Float[Array, " L"]
    """The same for the components' weights."""
    continues: bool = False
    """Whether this is a refit."""
    elsewhere: Elsewhere | None = None
    """All tasks, if ``statistics`` are only a sample of them."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "statistics_type" in cls.__dict__:
            MODELS[cls.statistics_type, cls.noise] = cls

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self._prepare()
        self.pseudo = self.pseudo_weights = 1.0
        self.centre = self._broad()

    @classmethod
    def check_options(cls, statistics: Statistics, options: Mapping[str, Any]) -> None:
        """Raise an error for options that contradict the statistics."""
        return None

    @classmethod
    def with_offset(cls, statistics: Statistics, **options: Any) -> Model:
        """Return the model of tasks whose last number of a row is an offset."""
        raise ParameterError(f"offset is for tasks with features, got {statistics!r}: leave it out")

    def _prepare(self) -> None:
        """Bring the statistics of the tasks into the form that the model computes with."""
        return None

    def _copy(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def with_tasks(self, statistics: Statistics) -> Self:
        """Return the model of other tasks, with this hyperprior and what else was learned."""
        other = self._copy()
        other.statistics, other.elsewhere = statistics, None
        other._prepare()
        return other

    def sample_of(self, elsewhere: Elsewhere) -> Self:
        """Return a model of all tasks, of which these are a sample."""
        other = self._copy()
        other.elsewhere = elsewhere
        return other

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum of ``function(part, *arguments)`` over all tasks."""
        if self.elsewhere is None:
            return function(self, *arguments)
        return self.elsewhere.total(self, function, *arguments)

    def about(self, centre: Family, pseudo: Any) -> Self:
        """Return the same tasks with another hyperprior; the tasks' arrays are shared."""
        other = self._copy()
        other.centre, other.pseudo, other.pseudo_weights = centre, pseudo, pseudo
        return other

    def after(self, prior: MixturePrior, pseudo: Array, pseudo_weights: Float[Array, " L"]) -> Self:
        """Return the same tasks as further tasks of an earlier prior, see ``continues``."""
        other = self.about(prior.family, pseudo)
        other.pseudo_weights, other.continues = pseudo_weights, True
        return other

    def quick(self) -> Self | None:
        """Return a model of the same tasks with a faster approximation; None if there is none."""
        return None

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.statistics) if self.elsewhere is None else self.elsewhere.n_tasks

    @abstractmethod
    def _broad(self) -> Family:
        """Return one component as broad as the data."""

    @abstractmethod
    def log_evidence(self, family: Family) -> Float[Array, "n L"]:
        """Compute ln p(task | s), with all constants."""

    @abstractmethod
    def log_hyperprior(self, family: Family) -> float:
        """Compute the log density of the components' parameters, up to a constant."""

    def improve(self, family: Family, share: Float[Array, "n L"]) -> Family:
        """Return components that explain their shares of the tasks and pseudo-tasks better."""
        return self.improved(family, self.sums(family, share))

    def sums(self, family: Family, share: Float[Array, "n L"]) -> Any:
        """Sum over tasks all that ``improved`` must know of them: sums of parts add, see ``added``.

        A model that has only ``improve`` learns from tasks in memory.
        """
        raise ParameterError(
            f"{type(self).__name__} has no sums over tasks, so that it learns only from tasks in "
            "memory: give it statistics, such as those of a sample of the tasks"
        )

    def improved(self, family: Family, sums: Any) -> Family:
        """Return components that explain the tasks of these sums and pseudo-tasks better."""
        raise NotImplementedError

    @abstractmethod
    def pack(self, family: Family) -> Float[Array, " p"]:
        """Return the parameters as unconstrained numbers."""

    @abstractmethod
    def unpack(self, numbers: Float[Array, " p"], n_components: int) -> Family | None:
        """Return the family of unconstrained numbers, or None where they are out of range."""

    def points(self, family: Family) -> Float[Array, "n p"]:
        """Return a point for each task: its posterior under one component, on a common scale."""
        return spread(self.estimates(family))

    @abstractmethod
    def estimates(self, family: Family) -> Float[Array, "n p"]:
        """Return a point for each task on the parameters' own scale."""

    def tasks_known(self, family: Family, share: Float[Array, "n L"]) -> Float[Array, "L *K"]:
        """Return from how many tasks each component is known, or each arm of it."""
        if family.n_arms is None:
            return share.sum(axis=0)
        return tasks_known(family, self.statistics.pulls, share)

    @abstractmethod
    def n_parameters(self, n_components: int) -> int:
        """Return how many numbers a mixture has, its weights included."""

    @abstractmethod
    def two_stage(self, n_components: int, seed: int) -> tuple[MixturePrior, MixturePrior]:
        """Learn in two stages: estimate each task, then fit a mixture  [paper: Sec. 6.2].

        Returns the mixture, and one component of all estimates: the prior of UniTS. Linear tasks:
        least squares with a small ridge, and a Gaussian mixture of the coefficients. Others: groups
        of tasks, and in each group the distribution with the group's moments. Needs scikit-learn.
        """


class MomentModel(Model):
    """Model that can match the moments of groups of tasks."""

    @abstractmethod
    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> Family:
        """Return one component for each group of tasks, with the group's moments.

        An arm or pair that no task of a group has observed gets its parameters from ``pooled``, or
        from ``centre`` if that is None.
        """

    def two_stage(self, n_components: int, seed: int) -> tuple[MixturePrior, MixturePrior]:
        pooled = self.match(np.zeros(self.n_tasks, np.int64), 1)
        if n_components == 1:
            return MixturePrior(pooled), MixturePrior(pooled)
        groups = group_tasks(self.points(pooled), n_components, seed)
        sizes = np.bincount(groups, minlength=n_components) + 1.0 / n_components
        family = self.match(groups, n_components, pooled)
        return MixturePrior(family, sizes / sizes.sum()), MixturePrior(pooled)


def model_of(statistics: Statistics, **options: Any) -> Model:
    """Return the model of these tasks; raise for an option that their family does not have.

    None means that an option was not given.
    """
    noise, offset = options.pop("noise", None), options.pop("offset", False)
    kind = _model_type(statistics, noise)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in kind.options:
            why = f" with noise={noise!r}" if noise == "per-task" else ""
            raise ParameterError(f"{name} has no meaning for {statistics!r}{why}: leave it out")
    return kind.with_offset(statistics, **given) if offset else kind(statistics, **given)


def check_options(statistics: Statistics, options: Mapping[str, Any]) -> None:
    """Raise an error for options that contradict these tasks."""
    _model_type(statistics, options.get("noise")).check_options(statistics, options)


def has_noise(statistics: Statistics) -> bool:
    """Return whether the noise of these tasks may be common or differ between tasks."""
    return (type(statistics), "per-task") in MODELS


def _model_type(statistics: Statistics, noise: Noise | None) -> type[Model]:
    if noise not in (None, *get_args(Noise)):
        raise ParameterError(f"noise must be one of {get_args(Noise)}, got {noise!r}")
    kind = MODELS.get((type(statistics), noise or "common"))
    if kind is None and noise == "per-task" and (type(statistics), "common") in MODELS:
        raise ParameterError(
            f"noise='per-task' is for Gaussian and linear rewards, got {statistics!r}: leave it out"
        )
    if kind is None:
        raise ParameterError(
            f"no prior can be learned from {statistics!r}: their family has no model of learning. "
            "Make the prior from parameters that you know, or write a model "
            "(mixts.extend.models), as docs/how-to/add-a-family.md says"
        )
    return kind


def added(one: Any, other: Any) -> Any:
    """Add sums over different tasks: numbers, arrays, or tuples of sums; None if one is unknown."""
    if one is None or other is None:
        return None
    if not isinstance(one, tuple):
        return one + other
    parts = [added(*pair) for pair in zip(one, other, strict=True)]
    return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)


def positive(logs: Array, largest: float = 60.0) -> Array | None:
    """Return positive numbers from their logarithms, or None where those are out of range."""
    if not (np.abs(logs) < largest).all():
        return None
    return np.exp(logs)


def spread(values: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """Scale columns to unit variance, and columns that do not vary to zero."""
    scale = values.std(axis=0)
    centred = values - values.mean(axis=0)
    # A column that varies only by rounding counts as constant.
    still = scale <= 1e-12 * (np.abs(values).max(axis=0, initial=0.0) + 1e-300)
    return np.asarray(np.where(still, 0.0, centred / np.where(still, 1.0, scale)))
