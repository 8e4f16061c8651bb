"""What a prior predicts of tasks' statistics, part by part, whatever the family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._typing import Array, Float, Int
from mixts.prior import MixturePrior


@dataclass(frozen=True)
class Part:
    """One part of the statistics of some tasks, predicted by each component.

    Given the task's earlier parts and how often everything was tried. Densities have no mass: of
    them ``at`` is 0.
    """

    group: str
    """What kind of part it is: rewards, transitions or noise."""
    tasks: Int[Array, " m"]
    """Those that have this part."""
    log_mass: Float[Array, "m L"]
    """ln of the probability, or of the density, of what came."""
    below: Float[Array, "m L"]
    """The probability of less than what came."""
    at: Float[Array, "m L"]
    """The probability of just what came."""


class Predictive(ABC):
    """The statistics of tasks as the prior predicts them, all of which have observations."""

    prior: MixturePrior

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """The parts of the statistics, one after the other."""

    @abstractmethod
    def scores(self) -> Float[Array, " n"]:
        """ln of the probability (density) of each task's statistics under the mixture.

        For counts that is the log evidence and the logarithm of how many histories have the same
        counts; for real numbers the log evidence itself.
        """

    @abstractmethod
    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        """Scores of n new draws from the prior for each of these tasks, the same things tried."""


@dataclass(frozen=True)
class Transforms:
    """Probability integral transforms of all parts of one kind."""

    tasks: Int[Array, " k"]
    values: Float[Array, " k"]


CERTAIN = 1 - 1e-12
"""What has at least this probability could not have been otherwise: it was not predicted."""


def transform(predictive: Predictive, n: int, rng: np.random.Generator) -> dict[str, Transforms]:
    """Each part's transform under the whole mixture, whose weights follow the parts.

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
        open_ended = at < CERTAIN
        pair = (part.tasks[open_ended], np.clip(value[open_ended], 0.0, 1.0))
        found.setdefault(part.group, []).append(pair)
    return {
        group: Transforms(*(np.concatenate(column) for column in zip(*pairs, strict=True)))
        for group, pairs in found.items()
    }
