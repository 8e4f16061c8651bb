"""The interface of a family to checks: its predictions of the statistics of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError
from mixts.families import Family, Statistics
from mixts.prior import MixturePrior


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
