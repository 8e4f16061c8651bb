"""Bernoulli arms: rewards 0 or 1, a Beta prior on each arm's mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ParameterError
from mixts.families.arms import ArmFamily, ArmStatistics
from mixts.families.marginals import LOGIT_BETA, Marginal, parameter
from mixts.families.special import beta_evidence, draw_log_gamma
from mixts.families.statistics import stored

LEAST_SHAPE = 0.1
"""A gamma variable of this shape underflows with a probability of 1e-31."""


class BernoulliStatistics(ArmStatistics):
    """Successes and failures of each arm, (tasks, arms). Histories merge by adding the counts."""

    kind: ClassVar[str] = "bernoulli-arms"
    fields: ClassVar[dict[str, Any]] = {"successes": np.int64, "failures": np.int64}
    support: ClassVar[str] = "0 or 1"
    core_count: ClassVar[str] = "count_bernoulli"

    successes = stored("successes", "Number of rewards 1 of each arm.")
    failures = stored("failures", "Number of rewards 0 of each arm.")

    @property
    def pulls(self) -> Int[Array, "n K"]:
        """Number of observations of each arm, task axis first."""
        return self.array("successes") + self.array("failures")

    def accepts(self, rewards: Float[Array, " m"]) -> Bool[Array, " m"]:
        return (rewards == 0) | (rewards == 1)

    def count_rewards(self, at: tuple[Array, Array], rewards: Float[Array, " m"]) -> None:
        np.add.at(self.array("successes"), at, rewards == 1)
        np.add.at(self.array("failures"), at, rewards == 0)


@dataclass(frozen=True)
class BetaMarginal(Marginal):
    """Beta(a, b) distributions of arms' means.

    A draw is ``G / (G + H)`` with gamma variables G of shape a and H of shape b.
    """

    form: ClassVar[int] = LOGIT_BETA
    whole: ClassVar[bool] = True
    lowest: ClassVar[float] = 0.0
    highest: ClassVar[float] = 1.0

    a = parameter(0)
    b = parameter(1)

    def sample(self, rng: np.random.Generator) -> Array:
        # With small shapes both gamma variables may underflow: rng.beta then works with logarithms.
        # Otherwise keep the quotient: changing it would change the numbers of a seed.
        if self.parameters.min(initial=1.0) < LEAST_SHAPE:
            return rng.beta(self.a, self.b)
        won, lost = rng.standard_gamma(self.parameters)
        return np.asarray(won / (won + lost))

    def sample_mapped(self, rng: np.random.Generator) -> Array:
        """Draw the logits of the means: many means of small shapes round to exactly 0 or 1."""
        won, lost = draw_log_gamma(rng, self.parameters)
        return np.asarray(won - lost)

    def mean(self) -> Array:
        return self.a / (self.a + self.b)

    def variance(self) -> Array:
        total = self.a + self.b
        return self.a * self.b / (total * total * (total + 1))

    def quantile(self, probability: float | Array) -> Array:
        return np.asarray(scipy.special.betaincinv(self.a, self.b, probability))

    def cdf(self, value: Array) -> Array:
        return np.asarray(scipy.special.betainc(self.a, self.b, value))

    def observe(self, average: Array, n: Array) -> tuple[Self, Array]:
        won, lost = n * average, n * (1 - average)
        after = np.stack(np.broadcast_arrays(self.a + won, self.b + lost))
        return replace(self, parameters=after), beta_evidence(self.a, self.b, won, lost)

    def draw_averages(self, rng: np.random.Generator, means: Array, n: Array) -> Array:
        return np.asarray(rng.binomial(n, means) / n)

    def reward_entropy(self, mean: Array, variance: Array) -> Array:
        return np.asarray(scipy.special.entr(mean) + scipy.special.entr(1 - mean))


class BernoulliArms(ArmFamily):
    """Family of K arms with rewards 0 or 1 and Beta priors on their means, for L components.

    Components are conjugate  [paper: Sec. 3]. With w ones and l zeros, in their order, and the beta
    function B, these are for an arm:

    *Log evidence*::

        ln B(alpha + w, beta + l) - ln B(alpha, beta)

    *Posterior of the mean reward*: Beta(alpha + w, beta + l), see ``BetaMarginal``.

    Parameters
    ----------
    alpha, beta
        Parameters of the Beta prior of each arm's mean under each component, (L, K), above 0.

    Examples
    --------
    Visitors of the first kind click the first banner, those of the second kind the second one.

    >>> import mixts
    >>> family = mixts.BernoulliArms(alpha=[[8, 2], [2, 8]], beta=[[2, 8], [8, 2]])
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([0, 0, 1], [1, 1, 0])
    >>> belief.weights.round(3)
    array([0.98, 0.02])
    """

    kind: ClassVar[str] = "bernoulli-arms"
    array_names: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    statistics_type: ClassVar[type[ArmStatistics]] = BernoulliStatistics
    reward_range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    core_class: ClassVar[str] = "BernoulliArms"

    def __init__(self, alpha: ArrayLike, beta: ArrayLike) -> None:
        self.alpha: Float[Array, "L K"] = _checks.parameter_array(alpha, "alpha", 2)
        self.beta: Float[Array, "L K"] = _checks.parameter_array(beta, "beta", 2)
        _checks.same_shape(self.alpha, self.beta, "alpha and beta")
        _checks.positive(self.alpha, "alpha")
        _checks.positive(self.beta, "beta")

    @classmethod
    def uniform(cls, n_arms: int) -> Self:
        """Return the uninformed prior of plain TS, one component: Beta(1, 1) on every arm.

        Parameters
        ----------
        n_arms
            Number of arms, K.

        Returns
        -------
        BernoulliArms
            A family of one component.
        """
        n_arms = _checks.count(n_arms, "n_arms")
        return cls(np.ones((1, n_arms)), np.ones((1, n_arms)))

    def relative_evidence(self, statistics: BernoulliStatistics) -> Float[Array, "n L"]:
        """Return the sum of the arms' log evidence."""
        won, lost = (counts[:, None] for counts in statistics.stored)
        each = beta_evidence(self.alpha, self.beta, won, lost)
        return np.asarray(each.sum(axis=2))

    def posterior_parameters(
        self, statistics: BernoulliStatistics, tasks: Int[Array, "..."], latent: Int[Array, "..."]
    ) -> Float[Array, "2 ... K"]:
        won, lost = statistics.stored
        return np.stack([self.alpha[latent] + won[tasks], self.beta[latent] + lost[tasks]])

    def marginal(self, parameters: Float[Array, "2 ... K"]) -> BetaMarginal:
        return BetaMarginal(parameters)

    @classmethod
    def match(cls, mean: Array, variance: Array, settings: dict[str, Any]) -> Self:
        total = mean * (1 - mean) / variance - 1
        if (total < -1e-9).any():
            raise ParameterError(
                "no Beta distribution has these moments: the variance must be below mean (1 - mean)"
            )
        # Rounding may leave a negative total: then the mean is almost certainly 0 or 1.
        total = np.maximum(total, 1e-12)
        return cls(mean * total, (1 - mean) * total)

    def broaden(self, weights: Float[Array, " L"], factor: float) -> BernoulliArms:
        """Return Beta(1, 1) for every arm: a reward has no more room than that."""
        return BernoulliArms.uniform(self.n_arms)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return (rng.random(means.shape) < means).astype(float)
