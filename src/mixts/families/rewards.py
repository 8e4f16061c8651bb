"""Beliefs about the mean rewards of the actions on offer: all that a policy needs to decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.families.choice import rank_by_scores, top_rows
from mixts.families.quadrature import (
    NEGLIGIBLE,
    Marginal,
    MeanDistribution,
    Money,
    best_arm_probabilities,
    expected_best,
    explain_best,
)
from mixts.families.ranking import Utilities, rank_arms

INFORMATION = ("variance", "best-action", "latent-and-best-action", "mutual-information")
"""Measures of the information in an action, see :class:`mixts.MixIDS`."""

ABOUT_OTHERS = "about-others"
"""Measure of what a reward says about other actions, for actions that are taken at most once."""


class RewardBelief(ABC):
    """Joint distribution of the mean rewards of K actions under a mixture, for m decisions.

    Given the component, each action's mean reward has the distribution ``marginal``; the
    subclass knows how the actions depend on each other. Draws are mean rewards. The rest is about
    the numbers that a policy maximises: here the mean rewards, their utilities in
    :class:`PricedRewards`.
    """

    weights: Float[Array, "m L"]
    """Posterior weights of the components."""

    def priced(self, money: Money | None) -> RewardBelief:
        """Return the belief about the utilities; None: the mean rewards themselves."""
        return self if money is None else PricedRewards(self, money)

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

    def draw_latent(
        self, rng: np.random.Generator, n_samples: int
    ) -> tuple[Int[Array, "m n"], Int[Array, "m n"]]:
        """Draw components for each decision by systematic sampling; return rows and components.

        Each component is drawn as often as its weight says, up to one, and without bias.
        """
        m = len(self.weights)
        total = np.cumsum(self.weights, axis=1)
        place = (np.arange(n_samples) + rng.random((m, 1))) / n_samples * total[:, -1:]
        latent = (place[:, :, None] >= total[:, None, :-1]).sum(axis=2)
        return np.broadcast_to(np.arange(m)[:, None], latent.shape), latent

    def draw_mixture(
        self, rng: np.random.Generator, n_samples: int
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        """Draw components and mean rewards for each decision."""
        rows, latent = self.draw_latent(rng, n_samples)
        drawn = self.draw(rng, rows.reshape(-1), latent.reshape(-1))
        return latent, drawn.reshape(*latent.shape, drawn.shape[1])

    @abstractmethod
    def draw_estimates(
        self, rng: np.random.Generator, n_samples: int, n_more: Int[Array, " m"]
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        """Draw what the mean of each action would be after ``n_more`` observations of it.

        Components and mean rewards are drawn first, then the observations, and the mixture is
        conditioned on these. Without more observations the estimate is the present mean; with
        many, it is the drawn mean reward.
        """

    # -- terms of information-directed sampling -------------------------------------------------

    def terms(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], measure: str, n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the regret E[max_b theta_b - theta_a] and the information of each action.

        Parameters
        ----------
        rng
            Random generator, for terms that are estimated.
        mask
            Available actions.
        measure
            One of ``INFORMATION``.
        n_samples
            Number of draws, for terms that are estimated.
        """
        return self._terms_of(rng, mask, measure, *self.draw_mixture(rng, n_samples))

    def terms_ahead(
        self,
        rng: np.random.Generator,
        mask: Bool[Array, "m K"],
        measure: str,
        n_samples: int,
        n_more: Int[Array, " m"],
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the terms of the estimates after ``n_more`` observations, from draws of these."""
        return self._terms_of(rng, mask, measure, *self.draw_estimates(rng, n_samples, n_more))

    def _terms_of(
        self,
        rng: np.random.Generator,
        mask: Bool[Array, "m K"],
        measure: str,
        latent: Int[Array, "m n"],
        drawn: Float[Array, "m n K"],
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the terms of drawn mean rewards or estimates.

        The gap between the best action and the action of the highest mean is sampled. The other
        differences of regrets come from exact means.
        """
        means, scores = self.means(), self.scores(drawn)
        lead = np.where(mask, means, -np.inf).argmax(axis=1)[:, None]
        top = np.where(mask[:, None], scores, -np.inf).max(axis=2)
        gain = (top - np.take_along_axis(scores, lead[:, None], axis=2)[:, :, 0]).mean(axis=1)
        regret = gain[:, None] + np.take_along_axis(means, lead, axis=1) - means
        if measure == "variance":
            return regret, scores.var(axis=1)
        if measure == ABOUT_OTHERS:
            return regret, self.taught()
        # Estimates of counts are often equal: then chance decides which is called the best.
        ties = mask[:, None] & (scores == top[:, :, None])
        groups = best = np.where(ties, rng.random(drawn.shape), -1.0).argmax(axis=2)
        if measure == "latent-and-best-action":
            groups = best * self.weights.shape[1] + latent
        if measure == "mutual-information":
            return regret, _explained(drawn, groups, self._reward_entropy)
        return regret, _explained(scores, groups, None)

    def _reward_entropy(
        self, mean: Float[Array, "g K"], variance: Float[Array, "g K"], rows: Int[Array, " g"]
    ) -> Float[Array, "g K"]:
        """Return the entropy of a reward if mean rewards have these moments in some decisions."""
        return self.marginal.reward_entropy(mean, variance)

    def taught(self) -> Float[Array, "m K"]:
        """Return I(Y_a; S), what the next reward of an action says about the latent state.

        It is the entropy of the reward minus its entropy given the component. Where entropies are
        those of normal rewards, the difference may be too large: it is at most the entropy of S.
        """
        marginal, w = self.marginal, self.weights
        rows = np.arange(len(w))
        whole = self._reward_entropy(self.means(), self.variances(), rows)
        given = marginal.reward_entropy(marginal.mean(), marginal.variance())
        most = -(w * np.log(np.where(w > 0, w, 1.0))).sum(axis=1, keepdims=True)
        return np.clip(whole - np.einsum("ml,mlk->mk", w, given), 0.0, most)

    # -- rankings -------------------------------------------------------------------------------

    def inclusion(
        self, mask: Bool[Array, "m K"], k: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]] | None:
        """Return P(action is among the best k) and its error by quadrature; None: draw rankings."""
        return None

    def draw_rankings(
        self,
        rng: np.random.Generator,
        mask: Bool[Array, "m K"],
        k: int,
        drawn: Float[Array, "m n K"],
    ) -> tuple[Int[Array, "m k"], Float[Array, "m K"]]:
        """Return the ranking of one of n draws, and how many rankings of all include each action.

        The ranking is that of a draw taken at random: given the draws, these shares are the true
        probabilities of being included.
        """
        m, n, n_actions = drawn.shape
        every = np.repeat(mask, n, axis=0)
        ranked = top_rows(rng, self.scores(drawn).reshape(-1, n_actions), every, k)
        included = np.zeros((m, n_actions))
        np.add.at(included, (np.repeat(np.arange(m), n * k), ranked.reshape(-1)), 1.0 / n)
        taken = ranked.reshape(m, n, k)[np.arange(m), rng.integers(n, size=m)]
        return taken, np.minimum(included, 1.0)


class AverageRewards(RewardBelief):
    """Mean rewards that are learned from the average of an action's rewards."""

    @property
    @abstractmethod
    def marginal(self) -> Marginal:
        """Distributions of the mean rewards given the component, parameters (2, m, L, K)."""

    def draw_estimates(
        self, rng: np.random.Generator, n_samples: int, n_more: Int[Array, " m"]
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        """Draw what the mean of each action would be after ``n_more`` observations of it."""
        latent, drawn = self.draw_mixture(rng, n_samples)
        n = n_more[:, None, None]
        averages = self.marginal.draw_averages(rng, drawn, np.maximum(n, 1))
        return latent, np.where(n > 0, self._estimates(averages, n), self.means()[:, None])

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
    """Mean rewards of arms, whose terms and probabilities are computed by quadrature."""

    @abstractmethod
    def explain(
        self, mask: Bool[Array, "m K"], measure: str, money: Money | None
    ) -> tuple[Float[Array, " m"], Float[Array, "m K"] | None]:
        """Return the expectation of the best mean or utility, and what the best arm explains.

        The second is the information of the measure, and None for the measure "variance".
        """

    @abstractmethod
    def include(
        self, mask: Bool[Array, "m K"], k: int, money: Money | None
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(arm is among the best k) and its error."""

    def terms(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], measure: str, n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return both terms by quadrature; mutual information is estimated."""
        if measure == "mutual-information":
            return super().terms(rng, mask, measure, n_samples)
        return _exact_terms(self, self, mask, measure, None)

    def inclusion(
        self, mask: Bool[Array, "m K"], k: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]] | None:
        return self.include(mask, k, None)


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

    def explain(
        self, mask: Bool[Array, "m K"], measure: str, money: Money | None
    ) -> tuple[Float[Array, " m"], Float[Array, "m K"] | None]:
        of = (self.marginal, self.weights, mask, money)
        if measure == "variance":
            return expected_best(*of), None
        best, explained = explain_best(*of)
        return best, explained[0 if measure == "best-action" else 1]

    def include(
        self, mask: Bool[Array, "m K"], k: int, money: Money | None
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        if k == 1:
            chance, error = best_arm_probabilities(self.marginal, self.weights, mask, money)
        else:
            priced = self.marginal if money is None else Utilities.of(self.marginal, money)
            chance, error = rank_arms(priced, self.weights, mask, k)
        return chance, np.where(mask, error[:, None], 0.0)


@dataclass(frozen=True)
class OnceRewards(RewardBelief):
    """What can be known of an action before it is taken, if each is taken at most once.

    This is ``X_a = E[theta_a | S, one reward of each other action on offer]``: whatever else is
    true of an action, no policy can learn it in time to use it. The mean of ``X_a`` is that of
    ``theta_a``. A policy that explores with ``X`` in place of ``theta`` pays for nothing else:

    - the regret of an action is ``E[max_b X_b] - E[theta_a]``;
    - its information is ``I(Y_a; S, the rewards of the others)``, what its own reward says about
      other actions.
    """

    rewards: RewardBelief
    """Belief about the mean rewards."""

    @property
    def weights(self) -> Float[Array, "m L"]:  # type: ignore[override]
        return self.rewards.weights

    @property
    def marginal(self) -> MeanDistribution:
        return self.rewards.marginal

    def means(self) -> Float[Array, "m K"]:
        return self.rewards.means()

    def draw_estimates(
        self, rng: np.random.Generator, n_samples: int, n_more: Int[Array, " m"]
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        """Draw what can be known as long as decisions follow, and the present means at the end."""
        latent, drawn = self.draw_mixture(rng, n_samples)
        return latent, np.where(n_more[:, None, None] > 0, drawn, self.means()[:, None])

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

    def taught(self) -> Float[Array, "m K"]:
        return self.rewards.taught()

    def explain(
        self, mask: Bool[Array, "m K"], measure: str, money: Money | None
    ) -> tuple[Float[Array, " m"], Float[Array, "m K"] | None]:
        best = np.where(mask[:, None], self._known(money), -np.inf).max(axis=2)
        return (self.weights * best).sum(axis=1), self.taught()

    def include(
        self, mask: Bool[Array, "m K"], k: int, money: Money | None
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        known = self._known(money)
        every = np.repeat(mask, known.shape[1], axis=0)
        chance = rank_by_scores(known.reshape(every.shape), every, k).reshape(known.shape)
        return np.einsum("ml,mlk->mk", self.weights, chance), np.zeros(mask.shape)

    def _known(self, money: Money | None) -> Float[Array, "m L K"]:
        """Return the mean reward, or utility, of each arm given the component."""
        return self.marginal.mean() if money is None else money.of(self.marginal.mean())


@dataclass(frozen=True)
class PricedRewards(RewardBelief):
    """Utilities of actions: value * mean reward - cost. Draws stay mean rewards."""

    rewards: RewardBelief
    money: Money

    @property
    def weights(self) -> Float[Array, "m L"]:  # type: ignore[override]
        return self.rewards.weights

    @property
    def marginal(self) -> MeanDistribution:
        return self.rewards.marginal

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self.rewards.draw(rng, rows, latent)

    def draw_estimates(
        self, rng: np.random.Generator, n_samples: int, n_more: Int[Array, " m"]
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        return self.rewards.draw_estimates(rng, n_samples, n_more)

    def scores(self, outcomes: Float[Array, "m ... K"]) -> Float[Array, "m ... K"]:
        return self.money.of(outcomes)

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

    def terms(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], measure: str, n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the terms of utilities, exact where those of mean rewards are."""
        rewards = self.rewards
        if not isinstance(rewards, ArmRewards) or measure == "mutual-information":
            regret, information = super().terms(rng, mask, measure, n_samples)
            return regret, self.variances() if measure == "variance" else information
        return _exact_terms(self, rewards, mask, measure, self.money)

    def inclusion(
        self, mask: Bool[Array, "m K"], k: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]] | None:
        if not isinstance(self.rewards, ArmRewards):
            return None
        return self.rewards.include(mask, k, self.money)

    def _reward_entropy(
        self, mean: Float[Array, "g K"], variance: Float[Array, "g K"], rows: Int[Array, " g"]
    ) -> Float[Array, "g K"]:
        return self.rewards._reward_entropy(mean, variance, rows)

    def taught(self) -> Float[Array, "m K"]:
        return self.rewards.taught()


def _exact_terms(
    belief: RewardBelief,
    arms: ArmRewards,
    mask: Bool[Array, "m K"],
    measure: str,
    money: Money | None,
) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
    """Return the terms of a belief about the means or utilities of arms."""
    best, explained = arms.explain(mask, measure, money)
    information = belief.variances() if explained is None else explained
    return best[:, None] - belief.means(), information


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


def with_expected_rewards(
    marginal: Marginal, weights: Float[Array, "m L"], counts: Int[Array, "m K"]
) -> IndependentRewards:
    """Return the belief as if ``counts`` more rewards of each arm had come, all of them expected.

    An expected reward is the arm's mean under the mixture: means hardly move, but the variance
    shrinks as it will when the true rewards come.
    """
    expected = IndependentRewards(weights, marginal).means()
    after, log_evidence = marginal.observe(expected[:, None], counts[:, None])
    with np.errstate(divide="ignore"):
        weights = softmax(np.log(weights) + log_evidence.sum(axis=2))
    return IndependentRewards(weights, after)


def _explained(
    drawn: Float[Array, "m n K"],
    groups: Int[Array, "m n"],
    entropy: Callable[[Array, Array, Array], Array] | None,
) -> Float[Array, "m K"]:
    """Return the part of each action's variance that the groups of draws explain.

    With the entropy of a reward, return the mutual information instead: the entropy of a reward,
    minus its entropy given the group.
    """
    rows = np.arange(len(drawn))[:, None]
    keys, index = np.unique(rows * (groups.max() + 1) + groups, return_inverse=True)
    row_of = keys // (groups.max() + 1)
    flat = drawn.reshape(-1, drawn.shape[2])
    order = np.argsort(index.reshape(-1), kind="stable")
    starts = np.searchsorted(index.reshape(-1)[order], np.arange(len(keys)))
    size = np.diff(np.append(starts, len(flat)))[:, None]
    mean = np.add.reduceat(flat[order], starts) / size
    share = size / drawn.shape[1]
    information = np.zeros((len(drawn), drawn.shape[2]))
    inside = np.add.reduceat(flat[order] ** 2, starts) / size - mean * mean
    inside = np.maximum(inside, 0.0)
    if entropy is None:
        gap = mean - drawn.mean(axis=1)[row_of]
        np.add.at(information, row_of, share * gap * gap)
        # The squared errors of the groups' means are no information.
        within, n_groups = np.zeros(information.shape), np.bincount(row_of)[:, None]
        np.add.at(within, row_of, share * inside)
        noise = within * (n_groups - 1) / np.maximum(drawn.shape[1] - n_groups, 1)
        return np.maximum(information - noise, 0.0)
    within = entropy(mean, inside, row_of)
    np.subtract.at(information, row_of, share * within)
    information += entropy(drawn.mean(axis=1), drawn.var(axis=1), np.arange(len(drawn)))
    return np.maximum(information, 0.0)
