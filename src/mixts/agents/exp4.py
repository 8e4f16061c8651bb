"""Exp4 and CorralExp4: adversarial votes of experts, the baselines of the paper.

Expert s votes for its best action (several best ones share the vote);
``p = (1 - gamma) * weighted votes + gamma / K``; the reward estimate of the taken action is
``y / p``, and the weight of an expert is multiplied by ``exp(eta y / p * its vote for it)``.
The other common form estimates losses: ``exp(-eta (1 - y) / p * its vote)``, often with gamma = 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks
from mixts._numbers import softmax
from mixts._typing import Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.base import Agent, draw_rows, without_retired
from mixts.belief import Belief
from mixts.errors import ActionError, FeedbackError, ObservationError, OutcomeError, ParameterError
from mixts.families._kernels.roots import LARGEST
from mixts.families.choice import feature_sets
from mixts.families.tabular import TabularMDP
from mixts.families.trajectory import Trajectory
from mixts.prior import MixturePrior

Estimates = Literal["rewards", "losses"]
"""Whether experts gain by what their action earned, or lose by what it failed to earn of 1."""


def theory_gamma(n_actions: Int[Array, " m"], n_experts: int, n_rounds: int) -> Float[Array, " m"]:
    """The mixing of the theory, min(1, sqrt(K ln L / ((e - 1) n)))."""
    share = n_actions * math.log(n_experts) / ((math.e - 1) * n_rounds)
    return np.minimum(1.0, np.sqrt(share))


class VotingAgent(Agent):
    """What Exp4 and CorralExp4 share: weights of experts, and one pending decision a task.

    Importance weighting needs the probability of each decision, so feedback goes step by step: one
    update after each act of a task. A further act of a task forgets the one that waited.
    """

    def __init__(
        self,
        n_experts: int,
        n_features: int,
        n_rounds: int | None,
        gamma: float | None,
        eta: float | None,
        n_tasks: int | None,
        seed: Seed,
        estimates: Estimates,
    ) -> None:
        super().__init__(n_tasks, seed)
        if estimates not in get_args(Estimates):
            raise ParameterError(f"estimates must be 'rewards' or 'losses', got {estimates!r}")
        self._baseline = 1.0 if estimates == "losses" else 0.0
        if gamma is None and n_rounds is None:
            raise ParameterError("give gamma, or n_rounds from which the theory's gamma follows")
        if gamma is not None and (
            isinstance(gamma, bool) or not (isinstance(gamma, Real) and 0 <= gamma <= 1)
        ):
            raise ParameterError(f"gamma must be between 0 and 1, got {gamma!r}")
        self._gamma = gamma
        self._eta = None if eta is None else _checks.positive_number(eta, "eta")
        self._n_rounds = None if n_rounds is None else _checks.count(n_rounds, "n_rounds")
        if gamma == 0 and eta is None:
            raise ParameterError("eta follows from gamma as gamma / K: give eta with gamma = 0")
        self._log_weights = np.zeros((self._axis.size, n_experts))
        self._chosen = np.full(self._axis.size, -1)
        self._propensity = np.ones(self._axis.size)
        self._rate = np.ones(self._axis.size)
        self._backing = np.zeros((self._axis.size, n_experts))
        self._taken = np.zeros((self._axis.size, n_features))
        self._linear = np.zeros(self._axis.size, bool)

    @property
    def weights(self) -> Float[Array, "..."]:
        """The normalised weights of the experts, (L,) or (n_tasks, L)."""
        return np.asarray(self._axis.squeeze(softmax(self._log_weights)))

    @abstractmethod
    def _expert_scores(
        self, index: Int[Array, " m"], actions: Array | None
    ) -> Float[Array, "m L K"]:
        """What each expert thinks of each action."""

    def _learn(self, index: Int[Array, " m"], outcomes: Array) -> None:
        """What an agent learns besides the weights; may refuse, before they change."""
        return None

    def act(
        self,
        actions: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> Any:
        """Draw an action from the mixed votes."""
        index = self._axis.decisions(tasks)
        sets, n_actions = self._action_sets(actions, len(index))
        available = self._full_mask(mask, len(index), n_actions)
        probabilities, _ = self._probabilities(index, sets, available)
        chosen = draw_rows(self._rng, probabilities)
        self._remember(index, sets, chosen, probabilities)
        return self._axis.squeeze(chosen)

    def _mixing(self, n_available: Int[Array, " m"]) -> Float[Array, " m"]:
        if self._gamma is not None:
            return np.full(len(n_available), float(self._gamma))
        assert self._n_rounds is not None
        return theory_gamma(n_available, self._log_weights.shape[1], self._n_rounds)

    def _probabilities(
        self, index: Int[Array, " m"], actions: Array | None, mask: Bool[Array, "m K"]
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        advice = self._advice(index, actions, mask)
        share = np.einsum("ml,mlk->mk", softmax(self._log_weights[index]), advice)
        n_available = mask.sum(axis=1)
        gamma = self._mixing(n_available)
        mixed = (1 - gamma)[:, None] * share + np.where(mask, (gamma / n_available)[:, None], 0.0)
        rate = gamma / n_available if self._eta is None else np.full(len(index), self._eta)
        self._asked = (advice, rate)
        return mixed / mixed.sum(axis=1, keepdims=True), np.zeros_like(mixed)

    def _advice(
        self, index: Int[Array, " m"], actions: Array | None, mask: Bool[Array, "m K"]
    ) -> Float[Array, "m L K"]:
        """Each expert's vote; one that has several best actions shares it among them."""
        scores = np.where(mask[:, None], self._expert_scores(index, actions), -np.inf)
        top = scores.max(axis=2, keepdims=True)
        if not np.isfinite(top).all() or np.isnan(scores).any():
            raise ActionError("available actions must have finite features; mask what is padding")
        best = scores == top
        return np.asarray(best / best.sum(axis=2, keepdims=True))

    def _remember(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        chosen: Int[Array, " m"],
        probabilities: Float[Array, "m K"],
    ) -> None:
        advice, rate = self._asked
        rows = np.arange(len(index))
        self._chosen[index] = chosen
        self._propensity[index] = probabilities[rows, chosen]
        self._backing[index] = advice[rows, :, chosen]
        self._rate[index] = rate
        self._linear[index] = actions is not None
        if actions is not None:
            self._taken[index] = actions[chosen] if actions.ndim == 2 else actions[rows, chosen]

    def update(
        self,
        actions: ArrayLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """The outcome of each task's last decision; the action must be the one that was taken."""
        rewards = _checks.numbers(outcomes, "outcomes must be numbers", OutcomeError).reshape(-1)
        index = self._axis.observations(tasks, len(rewards))
        self._check_feedback(index, actions, rewards)
        self._learn(index, rewards)
        step = self._rate[index] * (rewards - self._baseline) / self._propensity[index]
        moved = self._log_weights[index] + self._backing[index] * step[:, None]
        # Only differences matter: the largest is kept at zero.
        self._log_weights[index] = moved - moved.max(axis=1, keepdims=True)
        self._chosen[index] = -1

    def _check_feedback(self, index: Int[Array, " m"], actions: Any, rewards: Array) -> None:
        bad = ~(np.abs(rewards) <= LARGEST)
        if bad.any():
            raise OutcomeError(
                f"rewards must be finite numbers, up to {LARGEST:g} in size, got {rewards[bad][0]}"
            )
        if len(np.unique(index)) < len(index):
            raise FeedbackError("one outcome a decision: a task was named twice")
        waiting = self._chosen[index] >= 0
        if not waiting.all():
            task = int(index[np.argmin(waiting)])
            raise FeedbackError(f"no decision of task {task} waits for an outcome: act first")
        given = _checks.numbers(actions, "actions must be numbers", ActionError)
        taken = self._what_was_taken(index)
        if given.size != taken.size or not np.array_equal(given.reshape(taken.shape), taken):
            raise FeedbackError(
                f"update must name the actions that were taken, {taken}, got {actions!r}"
            )

    def _what_was_taken(self, index: Int[Array, " m"]) -> Array:
        linear = self._linear[index]
        if linear.any() and not linear.all():
            raise FeedbackError("some of these decisions were of arms and some of action sets")
        return self._taken[index] if linear.any() else self._chosen[index]


class Exp4(VotingAgent):
    """Exp4 whose experts are fixed parameter vectors  [paper: Sec. 6.2].

    ``experts`` (L, d) score action sets given to ``act``, or (L, K) score K arms where none are
    given. The theory's defaults are ``gamma = min(1, sqrt(K ln L / ((e - 1) n_rounds)))`` and
    ``eta = gamma / K``: gamma or n_rounds is needed. Rewards are meant to lie in [0, 1].
    ``estimates="losses"`` is the other common form, usually with ``gamma=0`` and an ``eta``.
    """

    def __init__(
        self,
        experts: ArrayLike,
        n_rounds: int | None = None,
        gamma: float | None = None,
        eta: float | None = None,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        estimates: Estimates = "rewards",
    ) -> None:
        self.experts: Float[Array, "L p"] = _checks.real_array(experts, "experts", 2)
        n_experts, n_features = self.experts.shape
        super().__init__(n_experts, n_features, n_rounds, gamma, eta, n_tasks, seed, estimates)

    def _action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        n_features = self.experts.shape[1]
        if actions is None:
            return None, n_features
        return feature_sets(actions, n_features, n_rows)

    def _expert_scores(
        self, index: Int[Array, " m"], actions: Array | None
    ) -> Float[Array, "m L K"]:
        scores = self.experts if actions is None else self.experts @ np.swapaxes(actions, -1, -2)
        return np.broadcast_to(scores, (len(index), *scores.shape[-2:]))


class CorralExp4(VotingAgent):
    """Exp4 over experts that learn: each follows its component's posterior mean  [paper: Sec. 6.2].

    Every component is updated exactly each round, but an adversarial algorithm switches between
    them. The other arguments are those of :class:`Exp4`.
    """

    def __init__(
        self,
        prior: MixturePrior,
        n_rounds: int | None = None,
        gamma: float | None = None,
        eta: float | None = None,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        estimates: Estimates = "rewards",
    ) -> None:
        if not isinstance(prior, MixturePrior):
            raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
        if isinstance(prior.family, TabularMDP):
            raise ParameterError("CorralExp4 chooses among arms or actions: an MDP has policies")
        # Every mean is needed in every round: no component may be dormant.
        self.belief = Belief(prior, prior.family.empty_statistics(n_tasks), allow_dormant=False)
        n_features = self.belief.component_mean.shape[-1]
        super().__init__(
            prior.n_components, n_features, n_rounds, gamma, eta, n_tasks, seed, estimates
        )

    def _action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        return self.belief.prior.family.action_sets(actions, n_rows)

    def _available(
        self, mask: ArrayLike | None, n_rows: int, n_actions: int
    ) -> Bool[Array, "m K"] | None:
        mask = without_retired(self.belief.prior, mask, n_rows, n_actions)
        return super()._available(mask, n_rows, n_actions)

    def _expert_scores(
        self, index: Int[Array, " m"], actions: Array | None
    ) -> Float[Array, "m L K"]:
        means = self.belief.component_means(index)
        if actions is not None and actions.ndim == 3:
            actions = actions[:, None]
        return self.belief.prior.family.mean_rewards(means, actions)

    def _learn(self, index: Int[Array, " m"], outcomes: Array) -> None:
        taken = self._what_was_taken(index)
        try:
            self.belief.update(
                self._axis.squeeze(taken), self._axis.squeeze(outcomes),
                None if self._axis.single else index,
            )  # fmt: skip
        except ObservationError as error:
            raise type(error)(f"CorralExp4's components refused the outcome: {error}") from error
