"""The interfaces of a family to learning and to checks: its model, and its predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
from scipy import special

from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError
from mixts.families import Family, Statistics
from mixts.families.population import tasks_known
from mixts.learning.options import Noise
from mixts.learning.two_stage import group_tasks
from mixts.prior import MixturePrior

MODELS: dict[tuple[type[Statistics], Noise], type[Model]] = {}
"""Model of each type of statistics and noise; a subclass registers itself."""


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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "statistics_type" in cls.__dict__:
            MODELS[cls.statistics_type, cls.noise] = cls

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.pseudo = self.pseudo_weights = 1.0
        self.centre = self._broad()

    @classmethod
    def check_options(cls, statistics: Statistics, options: Mapping[str, Any]) -> None:
        """Raise an error for options that contradict the statistics."""
        return None

    def about(self, centre: Family, pseudo: Any) -> Self:
        """Return the same tasks with another hyperprior; the tasks' arrays are shared."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
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
        return len(self.statistics)

    @abstractmethod
    def _broad(self) -> Family:
        """Return one component as broad as the data."""

    @abstractmethod
    def log_evidence(self, family: Family) -> Float[Array, "n L"]:
        """Compute ln p(task | s), with all constants."""

    @abstractmethod
    def log_hyperprior(self, family: Family) -> float:
        """Compute the log density of the components' parameters, up to a constant."""

    @abstractmethod
    def improve(self, family: Family, share: Float[Array, "n L"]) -> Family:
        """Return components that explain their shares of the tasks and pseudo-tasks better."""

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
    noise = options.pop("noise", None)
    kind = _model_type(statistics, noise)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in kind.options:
            why = f" with noise={noise!r}" if noise == "per-task" else ""
            raise ParameterError(f"{name} has no meaning for {statistics!r}{why}: leave it out")
    return kind(statistics, **given)


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
            "(mixts.learning.models), as docs/how-to/add-a-family.md says"
        )
    return kind


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


# -- predictions: what a prior check compares ---------------------------------------------------


def mixture_evidence(prior: MixturePrior, statistics: Statistics) -> Float[Array, " n"]:
    """Compute each task's log evidence under the mixture, ln sum_s w_s p(task | s).

    Parameters
    ----------
    prior
        The prior.
    statistics
        Statistics of tasks, of the prior's family.

    Returns
    -------
    array
        One number for each task; -inf where every component rules the task out.
    """
    joint = prior.log_weights + prior.family.log_evidence(statistics)
    return np.asarray(special.logsumexp(joint, axis=1))


PREDICTIVES: dict[type[Family], type[Predictive]] = {}
"""Predictive of each family; a subclass registers itself."""

BLOCK = 1 << 18
"""Numbers of replicated statistics at a time: tasks times draws times arms."""

CERTAIN = 1 - 1e-12
"""An outcome with at least this probability was not a prediction, and gets no transform."""

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Prediction:
    """One part of the statistics of some tasks, predicted by each component.

    Predictions are given the task's earlier parts, and how often everything was tried. Densities
    have no mass: for them ``at`` is 0.
    """

    group: str
    """Kind of prediction: "rewards", "transitions" or "noise"."""
    tasks: Int[Array, " m"]
    """Tasks that have this part."""
    log_mass: Float[Array, "m L"]
    """ln of the probability, or of the density, of the observed value."""
    below: Float[Array, "m L"]
    """Probability of less than the observed value."""
    at: Float[Array, "m L"]
    """Probability of exactly the observed value."""


class Rates(NamedTuple):
    """Predicted click rates of rows, each given the task's earlier rows, and what came."""

    mean: Array
    """(N,)."""
    variance: Array
    """(N,): of the rate, not of clicks."""
    trials: Array
    """(N,)."""
    successes: Array
    """(N,)."""


class Predictive(ABC):
    """Predictions of the statistics of tasks; every task has observations."""

    family_type: ClassVar[type[Family]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "family_type" in cls.__dict__:
            PREDICTIVES[cls.family_type] = cls

    def __init__(self, prior: MixturePrior, statistics: Any) -> None:
        self.prior, self.statistics = prior, statistics
        self.family: Any = prior.family

    @abstractmethod
    def parts(self) -> Iterator[Prediction]:
        """Yield the parts of the statistics one after the other."""

    @abstractmethod
    def scores(self) -> Float[Array, " n"]:
        """Compute ln of the probability (density) of each task's statistics under the mixture.

        For counts it is the log evidence plus the logarithm of how many histories have the same
        counts; for real numbers it is the log evidence.
        """

    def rates(self) -> Rates | None:
        """Return predicted click rates; None for rewards that are no clicks with features."""
        return None

    @abstractmethod
    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        """Draw each of these tasks n times from the prior, the same things tried; return scores."""


def predictive_of(prior: MixturePrior, statistics: Statistics) -> Predictive:
    """Return the predictions of a prior for tasks."""
    kind = PREDICTIVES.get(type(prior.family))
    if kind is None:
        *names, last = sorted(known.__name__ for known in PREDICTIVES)
        raise ParameterError(
            f"check_prior checks priors of {', '.join(names)} and {last}, got {prior.family!r}"
        )
    return kind(prior, statistics)


@dataclass(frozen=True)
class Transforms:
    """Probability integral transforms of all parts of one group."""

    tasks: Int[Array, " k"]
    values: Float[Array, " k"]


def transform(predictive: Predictive, n: int, rng: np.random.Generator) -> dict[str, Transforms]:
    """Compute each part's transform under the mixture; component weights follow the parts.

    ``u = sum_s P(s | earlier parts) (P(less | s) + V P(equal | s))`` with a uniform V: if the prior
    is right, all of them are independent and uniform (Rosenblatt; Czado, Gneiting and Held).
    """
    log_weights = np.tile(predictive.prior.log_weights, (n, 1))
    found: dict[str, list[tuple[Array, Array]]] = {}
    for part in predictive.parts():
        if not len(part.tasks):
            continue
        share = special.softmax(log_weights[part.tasks], axis=1)
        at = (share * part.at).sum(axis=1)
        value = (share * part.below).sum(axis=1) + rng.random(len(at)) * at
        log_weights[part.tasks] += part.log_mass
        uncertain = at < CERTAIN
        pair = (part.tasks[uncertain], np.clip(value[uncertain], 0.0, 1.0))
        found.setdefault(part.group, []).append(pair)
    return {
        group: Transforms(*(np.concatenate(column) for column in zip(*pairs, strict=True)))
        for group, pairs in found.items()
    }


class ArmPredictive(Predictive):
    """Predictions of arms one after the other, given how often each was tried."""

    def __init__(self, prior: MixturePrior, statistics: Statistics) -> None:
        super().__init__(prior, statistics)
        self.pulls: Int[Array, "n K"] = statistics.pulls

    def parts(self) -> Iterator[Prediction]:
        for arm in range(self.pulls.shape[1]):
            tasks = np.flatnonzero(self.pulls[:, arm])
            yield Prediction("rewards", tasks, *self._predict(arm, tasks))

    def scores(self) -> Float[Array, " n"]:
        return mixture_evidence(self.prior, self.statistics) + self._orders(self.statistics)

    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        out = np.empty((len(tasks), n))
        rows = max(1, BLOCK // (self.pulls.shape[1] * n))
        for start in range(0, len(tasks), rows):
            part = tasks[start : start + rows]
            # Arms that none of these tasks tried say nothing: of many arms, most.
            arms = np.flatnonzero(self.pulls[part].any(axis=0))
            prior = self._among(arms)
            pulls = np.repeat(self.pulls[np.ix_(part, arms)], n, axis=0)
            _, means = prior.draw(rng, len(pulls))
            drawn = self._draw(rng, pulls, means)
            score = mixture_evidence(prior, drawn) + self._orders(drawn)
            out[start : start + rows] = score.reshape(len(part), n)
        return out

    def _among(self, arms: Int[Array, " k"]) -> MixturePrior:
        """Return the prior of some arms."""
        if len(arms) == self.pulls.shape[1]:
            return self.prior
        return MixturePrior(self.family.arms(arms), self.prior.weights)

    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        """Compute ln p(statistic), p(less) and p(equal) of an arm for these tasks, (m, L) each.

        Unless ``parts`` predicts arms otherwise.
        """
        raise NotImplementedError

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        """Compute ln of the number (or measure) of histories with the same statistics."""
        return np.zeros(len(statistics))

    @abstractmethod
    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        """Draw statistics of arms with these numbers of pulls and mean rewards, (m, K) each."""


def noise_part(spare: Int[Array, " n"], squares: Float[Array, " n"]) -> Prediction:
    """Return the part of squared residuals, in units of the noise.

    They are chi-squared with ``spare`` degrees of freedom, the same under every component.
    """
    tasks = np.flatnonzero(spare)
    less = special.gammainc(spare[tasks, None] / 2, squares[tasks, None] / 2)
    return Prediction("noise", tasks, np.zeros_like(less), less, np.zeros_like(less))


def chi_squared(rng: np.random.Generator, freedom: Int[Array, "..."]) -> Float[Array, "..."]:
    """Draw chi-squared variables; 0 for no degrees of freedom."""
    return 2 * rng.standard_gamma(freedom / 2)
