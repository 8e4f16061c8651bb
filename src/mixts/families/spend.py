"""Spend arms: revenue with many zeros. A purchase happens or not, and its spend is log-normal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _checks
from mixts._numbers import LARGEST, softmax
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.families.arms import (
    ArmFamily,
    ArmPosterior,
    ArmStatistics,
    count_moments,
    merge_moments,
)
from mixts.families.base import Posterior
from mixts.families.rewards import RewardBelief
from mixts.families.special import beta_evidence
from mixts.families.spend_marginal import (
    LEVELS,
    SpendMarginal,
    learn_spends,
    log_sum,
    spend_evidence,
)
from mixts.families.statistics import Statistics, stored


class SpendStatistics(ArmStatistics):
    """Purchases, misses, and average and squared deviations of log spends, (tasks, arms).

    Histories merge by adding the misses, and by Chan's formula (``arms.merge_moments``) for the
    others.
    """

    kind: ClassVar[str] = "spend-arms"
    fields: ClassVar[dict[str, Any]] = {
        "purchases": np.int64,
        "misses": np.int64,
        "average": float,
        "squares": float,
    }
    support: ClassVar[str] = f"numbers from 0 to {LARGEST:g}"
    core_count: ClassVar[str] = "count_spend"

    purchases = stored("purchases", "Number of rewards above 0 of each arm.")
    misses = stored("misses", "Number of rewards 0 of each arm.")
    average = stored("average", "Average logarithm of each arm's spends; 0 without purchases.")
    squares = stored("squares", "Sum of squared deviations of the logarithms from their average.")

    @property
    def pulls(self) -> Int[Array, "n K"]:
        """Number of observations of each arm, task axis first."""
        return self.array("purchases") + self.array("misses")

    def accepts(self, rewards: Float[Array, " m"]) -> Bool[Array, " m"]:
        return np.asarray((rewards >= 0) & (rewards <= LARGEST))

    def count_rewards(self, at: tuple[Array, Array], rewards: Float[Array, " m"]) -> None:
        bought, (tasks, arms) = rewards > 0, at
        purchases, misses, average, squares = self.stored
        np.add.at(misses, at, ~bought)
        spent = tasks[bought], arms[bought]
        count_moments((purchases, average, squares), spent, np.log(rewards[bought]))

    def _merge(self, other: Self) -> dict[str, Array]:
        """Merge by Chan's formula, like Gaussian arms."""
        merged = merge_moments(
            *((x.array("purchases"), x.array("average"), x.array("squares")) for x in (self, other))
        )
        misses = self.array("misses") + other.array("misses")
        return dict(zip(self.fields, (merged[0], misses, *merged[1:]), strict=True))


# -- beliefs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpendRewards(RewardBelief):
    """Mean rewards of spend arms, which are independent given the component."""

    weights: Float[Array, "m L"]
    distributions: SpendMarginal

    @property
    def marginal(self) -> SpendMarginal:
        return self.distributions

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        p, mu, variance = self.marginal.draw_parameters(rng, rows, latent)
        return np.asarray(p * np.exp(mu + variance / 2))

    def draw_estimates(
        self, rng: np.random.Generator, latent: Int[Array, "m n"], n_more: Int[Array, " m"]
    ) -> Float[Array, "m n K"]:
        """Draw what the mean of each arm would be after ``n_more`` rewards of it."""
        rows = np.repeat(np.arange(len(latent)), latent.shape[1])
        drawn = self.marginal.draw_parameters(rng, rows, latent.reshape(-1))
        p, mu, variance = (part.reshape(*latent.shape, -1) for part in drawn)
        n = n_more[:, None, None]
        purchases = rng.binomial(n, p)
        average = mu + np.sqrt(variance / np.maximum(purchases, 1)) * rng.standard_normal(mu.shape)
        squares = variance * 2 * rng.standard_gamma(np.maximum(purchases - 1, 0) / 2)
        weights, marginal = self._relevant()
        assert isinstance(marginal, SpendMarginal)
        statistics = (purchases, n - purchases, average, squares)
        after, log_evidence = marginal.expand(1).learn(*(x[:, :, None] for x in statistics))
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)[:, None, :, None]
        after_weights = softmax(np.moveaxis(log_weights + log_evidence, 2, -1))
        estimates = np.einsum("mnkl,mnlk->mnk", after_weights, after.mean())
        return np.where(n > 0, estimates, self.means()[:, None])

    def expecting(self, counts: Int[Array, "m K"]) -> SpendRewards:
        """Return the belief as if ``counts`` more rewards of each arm had come, all expected.

        Means hardly move, but the variance shrinks.
        """
        statistics = self.marginal.expected(counts[:, None], self.weights)
        after, log_evidence = self.marginal.learn(*statistics)
        with np.errstate(divide="ignore"):
            weights = softmax(np.log(self.weights) + log_evidence.sum(axis=2))
        return SpendRewards(weights, after)


class SpendPosterior(ArmPosterior):
    """Posteriors of spend arms; parameters are mean rewards, purchase rates and mu."""

    rewards_type: ClassVar[Any] = SpendRewards

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw the parameters of all arms, given the one component of each task.

        Draw sigma^2 from its levels, mu ~ N(m, sigma^2 / r) and p ~ Beta(alpha, beta), with the
        parameters of the posterior. Return ``p exp(mu + sigma^2 / 2)``, p and mu.
        """
        found = self.prior.marginals(self.statistics, tasks, latent)
        return _stacked(*found.draw_parameters(rng))

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return E[theta | history, s]."""
        return self._marginals(tasks).parameter_means()

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[theta | history, s]; different arms are independent."""
        blocks = self._marginals(tasks).parameter_covariances()
        n = self.prior.n_arms
        out = np.zeros((*blocks.shape[2:4], 3, n, 3, n))
        arms = np.arange(n)
        for i, j in np.ndindex(3, 3):
            out[:, :, i, arms, j, arms] = blocks[i, j]
        return out.reshape(*out.shape[:2], 3 * n, 3 * n)


def _stacked(p: Array, mu: Array, variance: Array) -> Float[Array, "... p"]:
    return np.concatenate([p * np.exp(mu + variance / 2), p, mu], axis=-1)


# -- the family ----------------------------------------------------------------------------------


class SpendArms(ArmFamily):
    """K arms whose rewards are 0 or a log-normal spend, for L components.

    A reward is above 0, a purchase, with probability p, which is Beta(alpha, beta). The logarithm
    of a spend is N(mu, sigma^2), both unknown. Let m, r, a and b be ``log_spend``, ``strength``,
    ``shape`` and ``scale``. Given sigma, mu is N(m, sigma^2 / r). sigma takes 61 values from 0.1 to
    2, evenly spaced in ln sigma, with probabilities proportional to
    ``sigma^(-2 a) exp(-b / sigma^2)``: the inverse-gamma density *of ln sigma^2*. So the mean
    reward ``p exp(mu + sigma^2 / 2)`` has a finite mean and variance.

    Components are conjugate  [paper: Sec. 3]: this is Beta-binomial times normal-inverse-gamma
    (Gelman et al., Bayesian Data Analysis, Sec. 3.3), where the integral over sigma^2 is a sum.
    With k purchases among n rewards, and average y and squared deviations M2 of their logarithms,
    these are for an arm:

    *Posterior*: of the same kind, with::

        alpha' = alpha + k      m' = m + k (y - m) / r'      a' = a + k/2
        beta' = beta + n - k    r' = r + k                   b' = b + (M2 + r k / r' (y - m)^2) / 2

    *Log evidence*, with the beta function B, and the sum Z(a, b) of
    ``sigma^(-2 a) exp(-b / sigma^2)`` over the values of sigma. Its lines are for the purchases,
    for the logarithms of spends, and for the Jacobian of these logarithms::

        ln B(alpha', beta') - ln B(alpha, beta)
        + ln Z(a', b') - ln Z(a, b) + (ln(r / r') - k ln(2 pi)) / 2
        - k y

    *Mean reward*: it and its square have these means, with the expectation E over sigma. After a
    history, all parameters are those of the posterior::

        alpha / (alpha + beta) exp(m) E exp((1/2 + 1 / (2 r)) sigma^2)
        alpha (alpha + 1) / ((alpha + beta) (alpha + beta + 1)) exp(2 m) E exp((1 + 2 / r) sigma^2)

    Its distribution function comes from quadrature: given sigma, its logarithm is ln p plus a
    normal variable (``spend_marginal.SpendMarginal``).

    The parameters of a task are the mean rewards of the arms, then their p, then their mu.

    Parameters
    ----------
    alpha, beta
        Parameters of the Beta prior of each arm's purchase rate, (L, K), above 0.
    log_spend
        Prior mean of mu: the logarithm of a typical spend, (L, K).
    strength
        How many purchases ``log_spend`` is worth, (L, K), above 0.
    shape, scale
        Parameters of the prior of sigma^2, (L, K), above 0. sigma^2 is about ``scale / shape``;
        this prior counts as much as ``2 shape`` purchases.

    Examples
    --------
    Customers of the first kind buy the first offer for about 20 each, those of the second kind the
    second offer.

    >>> import numpy as np
    >>> import mixts
    >>> alpha, beta = np.array([[5, 1], [1, 5]]), np.array([[5, 9], [9, 5]])
    >>> log_spend, ones = np.full((2, 2), np.log(20)), np.ones((2, 2))
    >>> family = mixts.SpendArms(alpha, beta, log_spend, 4 * ones, shape=4 * ones, scale=ones)
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([0, 0, 1], [0.0, 23.5, 0.0])
    >>> belief.weights.round(3)
    array([0.833, 0.167])
    """

    kind: ClassVar[str] = "spend-arms"
    array_names: ClassVar[tuple[str, ...]] = (
        "alpha", "beta", "log_spend", "strength", "shape", "scale",
    )  # fmt: skip
    statistics_type: ClassVar[type[ArmStatistics]] = SpendStatistics
    posterior_type: ClassVar[type[Posterior]] = SpendPosterior
    core_class: ClassVar[str] = "SpendArms"

    def __init__(
        self,
        alpha: ArrayLike,
        beta: ArrayLike,
        log_spend: ArrayLike,
        strength: ArrayLike,
        shape: ArrayLike,
        scale: ArrayLike,
    ) -> None:
        self.alpha: Float[Array, "L K"] = _checks.parameter_array(alpha, "alpha", 2)
        self.beta: Float[Array, "L K"] = _checks.parameter_array(beta, "beta", 2)
        self.log_spend: Float[Array, "L K"] = _checks.parameter_array(log_spend, "log_spend", 2)
        self.strength: Float[Array, "L K"] = _checks.parameter_array(strength, "strength", 2)
        self.shape: Float[Array, "L K"] = _checks.parameter_array(shape, "shape", 2)
        self.scale: Float[Array, "L K"] = _checks.parameter_array(scale, "scale", 2)
        for name, array in self.arrays().items():
            _checks.same_shape(self.alpha, array, f"alpha and {name}")
            if name != "log_spend":
                _checks.positive(array, name)

    @property
    def task_bytes(self) -> int:
        return 8 * (self.n_components + 2 * self.n_arms * len(LEVELS))

    @property
    def core_parameters(self) -> tuple[tuple[Array, ...], tuple[Any, ...]]:
        arrays = (*self.arrays().values(), self._norms)
        by_arm = (np.ascontiguousarray(array.T) for array in arrays)
        return (), (*by_arm, np.log(LEVELS), 1 / LEVELS)

    def relative_evidence(self, statistics: SpendStatistics) -> Float[Array, "n L"]:
        """Return the log evidence without the terms -k (y + ln(2 pi) / 2) that all share."""
        purchases, misses, average, squares = statistics.stored
        won, lost = purchases[:, None], misses[:, None]
        each = beta_evidence(self.alpha, self.beta, won, lost)
        # Sums over the levels only of arms that were bought.
        row, arm = np.nonzero(purchases)
        before = self._spends[:, :, arm]
        after = learn_spends(before, purchases[row, arm], average[row, arm], squares[row, arm])
        (_, strength, _, _), (_, strength_after, shape_after, scale_after) = before, after
        norms = self._norms[:, arm], log_sum(shape_after, scale_after)
        each[row, :, arm] += spend_evidence(strength, strength_after, *norms).T
        return np.asarray(each.sum(axis=2))

    def posterior_parameters(
        self, statistics: SpendStatistics, tasks: Int[Array, "..."], latent: Int[Array, "..."]
    ) -> Float[Array, "6 ... K"]:
        """Return each arm's alpha, beta, log_spend, strength, shape and scale after its history."""
        purchases, misses, average, squares = (array[tasks] for array in statistics.stored)
        alpha, beta = self.alpha[latent] + purchases, self.beta[latent] + misses
        after = learn_spends(self._spends[:, latent], purchases, average, squares)
        return np.stack([alpha, beta, *after])

    @cached_property
    def _spends(self) -> Float[Array, "4 L K"]:
        return np.stack([self.log_spend, self.strength, self.shape, self.scale])

    @cached_property
    def _norms(self) -> Float[Array, "L K"]:
        """ln Z(a, b) of every arm's prior."""
        return log_sum(self.shape, self.scale)

    def marginal(self, parameters: Float[Array, "q ... K"]) -> SpendMarginal:
        return SpendMarginal(parameters)

    def _prior(self) -> SpendMarginal:
        return SpendMarginal(np.stack(list(self.arrays().values())))

    def evidence_constant(self, statistics: Statistics) -> Float[Array, " n"]:
        purchases, average = statistics.array("purchases"), statistics.array("average")
        return np.asarray(-(purchases * (average + 0.5 * math.log(2 * math.pi))).sum(axis=1))

    # -- moments --------------------------------------------------------------------------------

    def parameter_means(self) -> Float[Array, "L p"]:
        """Return the prior means of mean rewards, purchase rates and mu under each component."""
        return self._prior().parameter_means()

    def parameter_variances(self) -> Float[Array, "L p"]:
        """Return the prior variances of mean rewards, purchase rates and mu."""
        covariances = self._prior().parameter_covariances()
        return np.concatenate([covariances[i, i] for i in range(3)], axis=1)

    def parameter_quantiles(self, probability: float) -> Float[Array, "L p"]:
        """Return a prior quantile of mean rewards, purchase rates and mu."""
        prior = self._prior()
        rates = scipy.special.betaincinv(self.alpha, self.beta, probability)
        spends = prior.log_spend_quantile(probability)
        return np.concatenate([prior.quantile(probability), rates, spends], axis=1)

    def explain_mean(self, component: int, arm: int) -> str:
        """Say how often the arm is bought, and for how much."""
        rate = self._prior().purchase_rate()[component, arm]
        spend = math.exp(self.log_spend[component, arm])
        share = f"{100 * rate:.3g}% of decisions are purchases"
        return f"{share}, and half of these spend above {spend:.3g}"

    def collapse(self, weights: Float[Array, " L"]) -> Self:
        """Keep the mean and variance of each arm's mean reward.

        Before these are set, purchase rate, mu and sigma^2 get the moments that they have in the
        mixture.
        """
        prior, w = self._prior(), weights[:, None]
        mean = (w * prior.mean()).sum(axis=0, keepdims=True)
        square = (w * (prior.variance() + (prior.mean() - mean) ** 2)).sum(axis=0, keepdims=True)
        return self.from_parameters(prior.pool(w).spread(mean, square).parameters, {})

    def broaden(self, weights: Float[Array, " L"], factor: float) -> Self:
        """Return the mixture's mean rewards with ``factor`` times their variances."""
        one = self.collapse(weights)._prior()
        return self.from_parameters(one.spread(one.mean(), factor * one.variance()).parameters, {})

    @classmethod
    def match(cls, mean: Array, variance: Array, settings: dict[str, Any]) -> Self:
        """Return arms with these mean rewards, of which half are purchases."""
        plain = np.multiply.outer([1.0, 1.0, 0.0, 1.0, 2.0, 1.0], np.ones(mean.shape))
        return cls.from_parameters(SpendMarginal(plain).spread(mean, variance).parameters, settings)

    def like(self, mean: Float[Array, "L k"], variance: Float[Array, "L k"]) -> Self:
        """Return arms with these moments, and this family's average purchase rate and spread."""
        by_arm = np.swapaxes(self._prior().parameters, 1, 2)
        pooled = SpendMarginal(by_arm).pool(np.full((self.n_arms, 1), 1 / self.n_arms))
        typical = np.swapaxes(pooled.parameters, 1, 2) * np.ones(mean.shape)
        return self.from_parameters(SpendMarginal(typical).spread(mean, variance).parameters, {})

    # -- acting and simulating --------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw mean rewards, purchase rates and mu from the prior of each given component."""
        return _stacked(*self._prior().draw_parameters(rng, latent))

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return the first K parameters."""
        return np.asarray(parameters[..., : self.n_arms])

    def reward_parameters(
        self, parameters: Float[Array, "n p"], arms: Int[Array, " n"], means: Float[Array, " n"]
    ) -> Float[Array, "n 3"]:
        """Return mean reward, purchase rate and mu of each arm."""
        by_parameter = parameters.reshape(len(parameters), 3, self.n_arms)
        return np.asarray(by_parameter[np.arange(len(arms)), :, arms])

    def outcomes(self, rng: np.random.Generator, means: Float[Array, "n 3"]) -> Float[Array, " n"]:
        """Draw rewards by inversion.

        One uniform number decides whether there is a purchase, and its amount.
        """
        mean, rate, log_spend = np.moveaxis(means, -1, 0)
        with np.errstate(divide="ignore"):
            variance = 2 * (np.log(mean) - np.log(rate) - log_spend)
        deviation = np.sqrt(np.clip(variance, LEVELS[0], LEVELS[-1]))
        place = (rng.random(mean.shape) - (1 - rate)) / rate
        score = scipy.special.ndtri(np.maximum(place, 1e-16))
        return np.where(place > 0, np.exp(log_spend + deviation * score), 0.0)
