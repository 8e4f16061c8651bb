"""The probability that an arm is the best of independent ones, by quadrature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixts._typing import Array, Bool, Float
from mixts.families._kernels.densities import LOG_GAMMA, LOGIT_BETA, MINUS_LOG_GAMMA, NORMAL
from mixts.families._kernels.quadrature import N_NODES, best_arms

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
    """Form of the density after an increasing map to the whole line, with these parameters:
    ``NORMAL``, ``LOGIT_BETA``, ``LOG_GAMMA`` or ``MINUS_LOG_GAMMA``."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Array:
        """Draw each mean once, independently."""

    @abstractmethod
    def mean(self) -> Array:
        """Return the expectations."""

    @abstractmethod
    def variance(self) -> Array:
        """Return the variances; 0 is a certain mean."""

    @abstractmethod
    def quantile(self, probability: float) -> Array:
        """Return the quantiles of this probability."""


def best_arm_probabilities(
    marginal: Marginal, weights: Float[Array, "m L"], mask: Bool[Array, "m K"]
) -> tuple[Float[Array, "m K"], Float[Array, " m"]]:
    """Compute P(arm is best) under each mixture, among the arms of its mask.

    Parameters
    ----------
    marginal
        Distributions of the arms' means, with parameters (2, m, L, K).
    weights
        Weights of the components for each of m decisions.
    mask
        Available arms of each decision.

    Returns
    -------
    probabilities, errors
        The errors are 0 where every arm's mass and every component's sum of probabilities is one,
        as far as the densities of very sharp marginals can be trusted.
    """
    n_rows, n_arms = mask.shape
    result, errors = np.zeros((n_rows, n_arms)), np.zeros(n_rows)
    best_arms(marginal.form, marginal.parameters, weights, mask, result, errors, N_NODES)
    return result, errors
