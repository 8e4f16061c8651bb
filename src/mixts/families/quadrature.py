"""The probability that an arm is the best of independent ones, by quadrature.

The distributions of arms' means, and the compiled loop over decisions (``_kernels.quadrature``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixts._typing import Array, Bool, Float
from mixts.families._kernels.cells import N_COLUMNS, N_LANES, N_NODES, N_ROWS
from mixts.families._kernels.marginals import LOG_GAMMA, LOGIT_BETA, MINUS_LOG_GAMMA, NORMAL
from mixts.families._kernels.quadrature import best_arms

__all__ = [
    "LOGIT_BETA",
    "LOG_GAMMA",
    "MINUS_LOG_GAMMA",
    "NORMAL",
    "Marginal",
    "best_arm_probabilities",
]


@dataclass(frozen=True)
class Marginal(ABC):
    """Distributions of the arms' means: two parameters each, (2, ..., K)."""

    parameters: Array

    form: ClassVar[int]
    """What the means are, mapped to the whole line by an increasing function, and the parameters:
    ``NORMAL``, ``LOGIT_BETA``, ``LOG_GAMMA`` or ``MINUS_LOG_GAMMA``."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Array:
        """One independent draw of each."""

    @abstractmethod
    def mean(self) -> Array:
        """The expectations."""

    @abstractmethod
    def variance(self) -> Array:
        """The variances; 0 is a certain mean."""

    @abstractmethod
    def quantile(self, probability: float) -> Array:
        """Return the quantiles of this probability."""


def best_arm_probabilities(
    marginal: Marginal, weights: Float[Array, "m L"], mask: Bool[Array, "m K"]
) -> tuple[Float[Array, "m K"], Float[Array, " m"]]:
    """P(arm is best) under each mixture, among the arms of its mask, and how far off at most.

    The error is 0 where every arm's mass and every component's sum of probabilities is one, as far
    as the densities of very sharp marginals can be trusted.
    """
    n_rows, n_arms = mask.shape
    result, errors = np.zeros((n_rows, n_arms)), np.zeros(n_rows)
    scratch = (
        np.empty((N_ROWS, n_arms)), np.empty(n_arms, np.int64), np.empty((3, N_COLUMNS)),
        np.empty((3, n_arms, N_NODES)), np.empty((n_arms, N_LANES)),
    )  # fmt: skip
    best_arms(marginal.form, marginal.parameters, weights, mask, *scratch, result, errors)
    return result, errors
