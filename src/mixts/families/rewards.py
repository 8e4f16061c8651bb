"""Beliefs about the mean rewards of the actions on offer: all that a policy needs to decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.families.best_arms import best_arms
from mixts.families.choice import Draws, Strata
from mixts.families.marginals import (
    NEGLIGIBLE,
    Marginal,
    MeanDistribution,
    Money,
)


class RewardBelief(ABC):
    """Joint distribution of the mean rewards of K actions under a mixture, for m decisions.

    Given the component, each action's mean reward has the distribution ``marginal``; the
    subclass knows how the actions depend on each other. All else is about the numbers that a policy
    maximises: here the mean rewards, their utilities in ``PricedRewards``, and what will be
    known of them at the horizon in ``RewardsAhead``.
    """

    weights: Float[Array, "m L"]
    """Posterior weights of the components."""

    def priced(self, money: Money | None) -> RewardBelief:
        """Return the belief about the utilities; None: the mean rewards themselves."""
        return self if money is None else PricedRewards(self, money)

    def ahead(
        self, n_more: Int[Array, " m"], rng: np.random.Generator, n_samples: int
    ) -> RewardBelief:
        """Return the belief about the estimates after ``n_more`` observations, from draws."""
        return RewardsAhead(self, n_more, rng, n_samples)

    def scores(self, outcomes: Float[Array, "m ... K"]) -> Float[Array, "m ... K"]:
        """Return what a policy maximises, given mean rewards."""
        return outcomes

    def once(self, mask: Bool[Array, "m K"]) -> RewardBelief:
        """Return what can be known of these actions if each is taken at most once."""
        return OnceArms(self)

    @property
    @abstractmethod
    def marginal(self) -> MeanDistribution:
        """Distributions of the mean rewards given the component, parameters (q, m, L, K)."""

    @abstractmethod
    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        """Draw the mean rewards of all actions for pairs of a decision and a component."""

    def means(self) -> Float[Array, "m K"]:
        """Return the mean of each action's mean reward."""
        return np.einsum("ml,mlk->mk", self.weights, self.marginal.mean())

    def variances(self) -> Float[Array, "m K"]:
        """Return the variance of each action's mean reward: within and between components."""
        means, w = self.marginal.mean(), self.weights
        gap = means - np.einsum("ml,mlk->mk", w, means)[:, None]
        return np.einsum("ml,mlk->mk", w, self.marginal.variance() + gap * gap)

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the quantile of each action's mean reward under the mixture.

        The quantiles of the components bracket that of the mixture.
        """
        weights, marginal = self._relevant()
        return marginal.mixture_quantiles(weights, probability)

    def _relevant(self) -> tuple[Float[Array, "m k"], MeanDistribution]:
        """Return weights and distributions of the components that are not negligible everywhere."""
        n_kept = int((self.weights > NEGLIGIBLE).sum(axis=1).max(initial=1))
        if n_kept == self.weights.shape[1]:
            return self.weights, self.marginal
        kept = np.argsort(-self.weights, axis=1, kind="stable")[:, :n_kept]
        weights = np.take_along_axis(self.weights, kept, axis=1)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights, self.marginal.select(np.arange(len(kept))[:, None], kept)

    def draw_given(
        self, rng: np.random.Generator, latent: Int[Array, "m n"]
    ) -> Float[Array, "m n K"]:
        """Draw the mean rewards of each decision, given components."""
        rows = np.repeat(np.arange(len(latent)), latent.shape[1])
        drawn = self.draw(rng, rows, latent.reshape(-1))
        return drawn.reshape(*latent.shape, drawn.shape[1])

    def draws(self, rng: np.random.Generator, n_samples: int) -> Draws:
        """Draw what a policy maximises about ``n_samples`` times; components are summed exactly."""
        strata = Strata.of(self.weights, n_samples, NEGLIGIBLE)
        return Draws(strata, self.draw_given(rng, strata.latent))

    @abstractmethod
    def draw_estimates(
        self, rng: np.random.Generator, latent: Int[Array, "m n"], n_more: Int[Array, " m"]
    ) -> Float[Array, "m n K"]:
        """Draw what the mean of each action would be after ``n_more`` observations of it.

        Mean rewards are drawn first, given components, then the observations, and the mixture is
        conditioned on these. Without more observations the estimate is the present mean; with
        many, it is the drawn mean reward.
        """

    def best(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(action is the best) and its standard error, from draws unless it is exact.

        Parameters
        ----------
        rng
            Random generator.
        mask
            Available actions.
        n_samples
            Number of draws.
        """
        return self.draws(rng, n_samples).inclusion(mask, 1)

    # -- terms of information-directed sampling -------------------------------------------------

    def regrets(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> Float[Array, "m K"]:
        """Return E[max_b theta_b - theta_a] of each action, from draws unless it is exact.

        Parameters
        ----------
        rng
            Random generator.
        mask
            Available actions.
        n_samples
            Number of draws.
        """
        means = self.means()
        lead = np.where(mask, means, -np.inf).argmax(axis=1)
        gain = self.gains(rng, mask, lead, n_samples)
        # Only the gain is estimated: the other differences of regrets come from exact means.
        return gain[:, None] + np.take_along_axis(means, lead[:, None], 1) - means

    def gains(
        self,
        rng: np.random.Generator,
        mask: Bool[Array, "m K"],
        lead: Int[Array, " m"],
        n_samples: int,
    ) -> Float[Array, " m"]:
        """Return E[max_b theta_b - theta_lead] over available actions, from draws."""
        return self.draws(rng, n_samples).gains(mask, lead)

    def _reward_entropy(self) -> Float[Array, "m K"]:
        """Return the entropy of the next reward of each action."""
        return self.marginal.reward_entropy(self.means(), self.variances())

    def taught(self) -> Float[Array, "m K"]:
        """Return I(Y_a; S), what the next reward of an action says about the latent state.

        It is the entropy of the reward minus its entropy given the component. Where entropies are
        those of normal rewards, the difference may be too large: it is at most the entropy of S.
        """
        marginal, w = self.marginal, self.weights
        given = marginal.reward_entropy(marginal.mean(), marginal.variance())
        most = -(w * np.log(np.where(w > 0, w, 1.0))).sum(axis=1, keepdims=True)
        return np.clip(self._reward_entropy() - np.einsum("ml,mlk->mk", w, given), 0.0, most)


class AverageRewards(RewardBelief):
    """Mean rewards that are learned from the average of an action's rewards."""

    @property
    @abstractmethod
    def marginal(self) -> Marginal:
        """Distributions of the mean rewards given the component, parameters (2, m, L, K)."""

    def draw_estimates(
        self, rng: np.random.Generator, latent: Int[Array, "m n"], n_more: Int[Array, " m"]
    ) -> Float[Array, "m n K"]:
        """Draw what the mean of each action would be after ``n_more`` observations of it."""
        n, drawn = n_more[:, None, None], self.draw_given(rng, latent)
        averages = self.marginal.draw_averages(rng, drawn, np.maximum(n, 1))
        return np.where(n > 0, self._estimates(averages, n), self.means()[:, None])

    def _estimates(
        self, averages: Float[Array, "m n K"], n_more: Int[Array, "m 1 1"]
    ) -> Float[Array, "m n K"]:
        """Return E[theta_a | the average of n observations of a], each action on its own."""
        if self.marginal.whole:
            # Few sums are possible in a short time: one estimate for each of them.
            sums = np.rint(averages * n_more).astype(np.int64)
            if (most := int(sums.max(initial=0)) + 1) < averages.shape[1]:
                possible = np.arange(most)[:, None] / np.maximum(n_more, 1)
                possible = np.minimum(possible, self.marginal.highest)
                table = self._estimate(np.broadcast_to(possible, (len(sums), most, 1)), n_more)
                return np.take_along_axis(table, sums, axis=1)
        return self._estimate(averages, n_more)

    def _estimate(
        self, averages: Float[Array, "m n _"], n_more: Int[Array, "m 1 1"]
    ) -> Float[Array, "m n K"]:
        weights, marginal = self._relevant()
        assert isinstance(marginal, Marginal)
        return marginal.estimates(weights, averages, n_more)


class ArmRewards(RewardBelief):
    """Mean rewards of arms, the best of which is known by quadrature."""

    @abstractmethod
    def expected_best(self, mask: Bool[Array, "m K"]) -> Float[Array, " m"]:
        """Return the expectation of the best mean of the arms of the mask."""

    def regrets(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> Float[Array, "m K"]:
        """Return the exact regrets."""
        return self.expected_best(mask)[:, None] - self.means()


@dataclass(frozen=True)
class IndependentRewards(ArmRewards, AverageRewards):
    """Mean rewards of arms, which are independent given the component."""

    weights: Float[Array, "m L"]
    distributions: Marginal

    @property
    def marginal(self) -> Marginal:
        return self.distributions

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self.marginal.select(rows, latent).sample(rng)

    def best(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(arm is the best) by quadrature, and its errors: 0 wherever it converged.

        Rankings break ties at random between means that round to exactly 0 or 1 (small priors, such
        as Beta(0.1, 0.1)); neither the quadrature nor ``act`` for one action sees such ties.
        """
        found = best_arms(self.marginal.form, self.marginal.parameters, self.weights, mask)
        return found.chance, np.where(mask, found.error[:, None], 0.0)

    def expected_best(self, mask: Bool[Array, "m K"]) -> Float[Array, " m"]:
        return best_arms(self.marginal.form, self.marginal.parameters, self.weights, mask).best

    def expecting(self, counts: Int[Array, "m K"]) -> IndependentRewards:
        """Return the belief as if ``counts`` more rewards of each arm had come, all expected.

        An expected reward is the arm's mean under the mixture: means hardly move, but the variance
        shrinks as it will when the true rewards come.
        """
        after, log_evidence = self.marginal.observe(self.means()[:, None], counts[:, None])
        with np.errstate(divide="ignore"):
            weights = softmax(np.log(self.weights) + log_evidence.sum(axis=2))
        return IndependentRewards(weights, after)


@dataclass(frozen=True)
class _Wrapped(RewardBelief):
    """A belief about something else than the mean rewards of another belief."""

    rewards: RewardBelief

    @property
    def weights(self) -> Float[Array, "m L"]:  # type: ignore[override]
        return self.rewards.weights

    @property
    def marginal(self) -> MeanDistribution:
        return self.rewards.marginal

    def means(self) -> Float[Array, "m K"]:
        return self.rewards.means()

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self.rewards.draw(rng, rows, latent)

    def draw_estimates(
        self, rng: np.random.Generator, latent: Int[Array, "m n"], n_more: Int[Array, " m"]
    ) -> Float[Array, "m n K"]:
        return self.rewards.draw_estimates(rng, latent, n_more)

    def taught(self) -> Float[Array, "m K"]:
        return self.rewards.taught()


@dataclass(frozen=True)
class OnceRewards(_Wrapped):
    """What can be known of an action before it is taken, if each is taken at most once.

    This is ``X_a = E[theta_a | S, one reward of each other action on offer]``: whatever else is
    true of an action, no policy can learn it in time to use it. The mean of ``X_a`` is that of
    ``theta_a``. A policy that explores with ``X`` in place of ``theta`` pays for nothing else:

    - the regret of an action is ``E[max_b X_b] - E[theta_a]``;
    - its information is ``I(Y_a; S, the rewards of the others)``, what its own reward says about
      other actions.
    """

    def draw_estimates(
        self, rng: np.random.Generator, latent: Int[Array, "m n"], n_more: Int[Array, " m"]
    ) -> Float[Array, "m n K"]:
        """Draw what can be known as long as decisions follow, and the present means at the end."""
        drawn = self.draw_given(rng, latent)
        return np.where(n_more[:, None, None] > 0, drawn, self.means()[:, None])

    def _between(self) -> Float[Array, "m K"]:
        """Return the variance of the components' means."""
        means = self.marginal.mean()
        gap = means - self.means()[:, None]
        return np.einsum("ml,mlk->mk", self.weights, gap * gap)


@dataclass(frozen=True)
class OnceArms(ArmRewards, OnceRewards):
    """What can be known of arms that are taken at most once: ``X_a = E[theta_a | S]``.

    Given the component, arms are independent: the others' rewards say nothing more.
    """

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return np.asarray(self.marginal.mean()[rows, latent])

    def variances(self) -> Float[Array, "m K"]:
        return self._between()

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the least mean of a component such that those up to it have the probability."""
        means = self.marginal.mean()
        order = np.argsort(means, axis=1)
        total = np.take_along_axis(self.weights[:, :, None], order, axis=1).cumsum(axis=1)
        place = (total < probability[:, None, None] * total[:, -1:]).sum(axis=1, keepdims=True)
        return np.take_along_axis(means, np.take_along_axis(order, place, axis=1), axis=1)[:, 0]

    def expected_best(self, mask: Bool[Array, "m K"]) -> Float[Array, " m"]:
        best = np.where(mask[:, None], self.marginal.mean(), -np.inf).max(axis=2)
        return np.asarray((self.weights * best).sum(axis=1))


@dataclass(frozen=True)
class RewardsAhead(_Wrapped):
    """Estimates of the mean rewards that the agent could have after more observations."""

    n_more: Int[Array, " m"]
    rng: np.random.Generator
    n_samples: int

    @cached_property
    def _drawn(self) -> Draws:
        return super().draws(self.rng, self.n_samples)

    def draw_given(
        self, rng: np.random.Generator, latent: Int[Array, "m n"]
    ) -> Float[Array, "m n K"]:
        return self.rewards.draw_estimates(rng, latent, self.n_more)

    def draws(self, rng: np.random.Generator, n_samples: int) -> Draws:
        """Return the same draws every time."""
        return self._drawn

    def variances(self) -> Float[Array, "m K"]:
        return self._drawn.variances()

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        return self._drawn.quantiles(probability)


@dataclass(frozen=True)
class PricedRewards(_Wrapped):
    """Utilities of actions: value * mean reward - cost. ``draw`` still draws mean rewards."""

    money: Money

    def scores(self, outcomes: Float[Array, "m ... K"]) -> Float[Array, "m ... K"]:
        return self.money.of(outcomes)

    def draw_given(
        self, rng: np.random.Generator, latent: Int[Array, "m n"]
    ) -> Float[Array, "m n K"]:
        return self.rewards.draw_given(rng, latent)

    def draws(self, rng: np.random.Generator, n_samples: int) -> Draws:
        """Draw utilities."""
        drawn = self.rewards.draws(rng, n_samples)
        return Draws(drawn.strata, self.money.of(drawn.values))

    def means(self) -> Float[Array, "m K"]:
        return self.money.of(self.rewards.means())

    def variances(self) -> Float[Array, "m K"]:
        return self.money.values**2 * self.rewards.variances()

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the quantile of each utility: of the lower tail of what is sold at a loss."""
        found = self.rewards.quantiles(probability)
        if (self.money.values < 0).any():
            found = np.where(self.money.values < 0, self.rewards.quantiles(1 - probability), found)
        return self.money.of(found)


def reweighed(
    weights: Float[Array, "m L"], after: Float[Array, "m L"], before: Float[Array, "m L"]
) -> Float[Array, "m L"]:
    """Return the weights after the log evidence has changed; those that were 0 stay 0.

    Evidence has an error. If it leaves no component that is possible both before and after, the
    change is not known, and a row keeps its weights.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(weights) + (after - before)
    change = np.where(weights > 0, change, -np.inf)
    known = np.isfinite(change.max(axis=-1, keepdims=True))
    return np.where(known, softmax(np.where(known, change, 0.0)), weights)
