"""Exp4 and CorralExp4: adversarial votes of experts, the baselines of the paper.

Expert s votes for its best action (several best actions share the vote). Actions are drawn from
``p = (1 - gamma) * weighted votes + gamma / K``. The reward estimate of the taken action is
``y / p``, and the weight of an expert is multiplied by ``exp(eta y / p * its vote for it)``.
The other common form estimates losses: ``exp(-eta (1 - y) / p * vote)``, often with gamma = 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np

from mixts import _checks
from mixts._numbers import LARGEST, softmax
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.base import Agent
from mixts.agents.bayesian import belief_state, restored_belief
from mixts.agents.offers import Choice, Offer
from mixts.belief import Belief
from mixts.errors import ActionError, FeedbackError, ObservationError, OutcomeError, ParameterError
from mixts.families.choice import feature_sets
from mixts.families.trajectory import Trajectory
from mixts.prior import MixturePrior

Estimates = Literal["rewards", "losses"]
"""Experts gain by the reward y of their action, or lose by 1 - y."""


def theory_gamma(n_actions: Int[Array, " m"], n_experts: int, n_rounds: int) -> Float[Array, " m"]:
    """Return the mixing of the theory, min(1, sqrt(K ln L / ((e - 1) n)))."""
    share = n_actions * math.log(n_experts) / ((math.e - 1) * n_rounds)
    return np.minimum(1.0, np.sqrt(share))


@dataclass(frozen=True)
class Mixing:
    """Mixing of votes with uniform exploration, and step size of the weights."""

    n_rounds: int | None
    gamma: float | None
    eta: float | None
    estimates: Estimates

    @classmethod
    def checked(cls, n_rounds: Any, gamma: Any, eta: Any, estimates: Any) -> Self:
        """Return the arguments of a constructor as plain numbers, or raise `ParameterError`."""
        if estimates not in get_args(Estimates):
            raise ParameterError(f"estimates must be 'rewards' or 'losses', got {estimates!r}")
        if gamma is None and n_rounds is None:
            raise ParameterError("give gamma, or n_rounds from which the theory's gamma follows")
        if gamma is not None and (
            isinstance(gamma, bool) or not (isinstance(gamma, Real) and 0 <= float(gamma) <= 1)
        ):
            raise ParameterError(f"gamma must be between 0 and 1, got {gamma!r}")
        rate = None if eta is None else _checks.positive_number(eta, "eta")
        rounds = None if n_rounds is None else _checks.count(n_rounds, "n_rounds")
        if gamma == 0 and eta is None:
            raise ParameterError("eta follows from gamma as gamma / K: give eta with gamma = 0")
        return cls(rounds, None if gamma is None else float(gamma), rate, estimates)

    @property
    def baseline(self) -> float:
        """Subtracted from rewards before weights move."""
        return 1.0 if self.estimates == "losses" else 0.0

    def gammas(self, n_available: Int[Array, " m"], n_experts: int) -> Float[Array, " m"]:
        """Return the share of uniform exploration of each decision."""
        if self.gamma is not None:
            return np.full(len(n_available), self.gamma)
        assert self.n_rounds is not None
        return theory_gamma(n_available, n_experts, self.n_rounds)


class VotingAgent(Agent):
    """Base class of Exp4 and CorralExp4: weights of experts, and one pending decision per task.

    Importance weighting needs the probability of each decision, so feedback goes step by step: one
    update after each ``act`` of a task. A further ``act`` of a task replaces its pending decision.
    """

    _ARRAYS = ("log_weights", "chosen", "propensity", "rate", "backing", "taken", "linear")
    """Arrays that a file stores; each has the tasks on its first axis."""

    def __init__(
        self, n_experts: int, n_features: int, mixing: Mixing, n_tasks: int | None, seed: Seed
    ) -> None:
        super().__init__(n_tasks, seed)
        self._mixing = mixing
        self._log_weights = np.zeros((self._axis.size, n_experts))
        self._chosen = np.full(self._axis.size, -1)
        self._propensity = np.ones(self._axis.size)
        self._rate = np.ones(self._axis.size)
        self._backing = np.zeros((self._axis.size, n_experts))
        self._taken = np.zeros((self._axis.size, n_features))
        self._linear = np.zeros(self._axis.size, bool)

    def _settings(self) -> dict[str, Any]:
        return asdict(self._mixing)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {}, {name: getattr(self, f"_{name}") for name in self._ARRAYS}

    def _set_arrays(self, arrays: dict[str, Array]) -> None:
        """Replace weights and pending decisions by those of a file, of the same shapes."""
        for name in self._ARRAYS:
            own, stored = getattr(self, f"_{name}"), arrays[name]
            if stored.shape != own.shape or stored.dtype != own.dtype:
                raise ValueError(f"{name} must be {own.dtype} of shape {own.shape}")
            setattr(self, f"_{name}", stored)

    @property
    def weights(self) -> Float[Array, "..."]:
        """Normalised weights of the experts, (L,) or (n_tasks, L)."""
        return np.asarray(self._axis.squeeze(softmax(self._log_weights)))

    @abstractmethod
    def _expert_scores(
        self, index: Int[Array, " m"], actions: Array | None
    ) -> Float[Array, "m L K"]:
        """Return the score of each action by each expert."""

    def _learn(self, index: Int[Array, " m"], outcomes: Array) -> None:
        """Learn besides the weights, or refuse, before the weights change."""
        return None

    def _offered(
        self,
        tasks: Int[Array, " m"],
        actions: ActionsLike | None,
        mask: ArrayLike | None,
        waiting: Any,
        values: Any,
        costs: Any,
        top: Any,
    ) -> Offer:
        name = type(self).__name__
        if waiting is not None:
            raise ParameterError(f"{name} takes no waiting decisions: leave it out")
        if values is not None or costs is not None:
            raise ParameterError(f"{name} decides by mean rewards: leave values and costs out")
        if top is not None:
            raise ParameterError(f"{name} learns from one decision at a time: leave top out")
        return self._voted(tasks, actions, mask)

    @abstractmethod
    def _voted(
        self, tasks: Int[Array, " m"], actions: ActionsLike | None, mask: ArrayLike | None
    ) -> Offer:
        """Check actions and mask, and return the offer of them."""

    def _probabilities(self, offer: Offer) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        index, actions, mask = offer.tasks, offer.actions, offer.available
        advice = self._advice(index, actions, mask)
        share = np.einsum("ml,mlk->mk", softmax(self._log_weights[index]), advice)
        n_available = mask.sum(axis=1)
        gamma = self._mixing.gammas(n_available, self._log_weights.shape[1])
        mixed = (1 - gamma)[:, None] * share + np.where(mask, (gamma / n_available)[:, None], 0.0)
        eta = self._mixing.eta
        rate = gamma / n_available if eta is None else np.full(len(index), eta)
        self._asked = (advice, rate)
        return mixed / mixed.sum(axis=1, keepdims=True), np.zeros_like(mixed)

    def _advice(
        self, index: Int[Array, " m"], actions: Array | None, mask: Bool[Array, "m K"]
    ) -> Float[Array, "m L K"]:
        """Return each expert's vote, shared among its best actions."""
        scores = np.where(mask[:, None], self._expert_scores(index, actions), -np.inf)
        top = scores.max(axis=2, keepdims=True)
        if not np.isfinite(top).all() or np.isnan(scores).any():
            raise ActionError("available actions must have finite features; mask the padding")
        best = scores == top
        return np.asarray(best / best.sum(axis=2, keepdims=True))

    def _remember(self, offer: Offer, choice: Choice) -> None:
        index, actions, chosen = offer.tasks, offer.actions, choice.actions
        advice, rate = self._asked
        rows = np.arange(len(index))
        self._chosen[index] = chosen
        self._propensity[index] = choice.probabilities[rows, chosen]
        self._backing[index] = advice[rows, :, chosen]
        self._rate[index] = rate
        self._linear[index] = actions is not None
        if actions is not None:
            self._taken[index] = actions[chosen] if actions.ndim == 2 else actions[rows, chosen]

    def update(
        self,
        actions: ActionsLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Learn the outcome of each task's pending decision, whose action must be named."""
        rewards = _checks.numbers(outcomes, "outcomes must be numbers", OutcomeError).reshape(-1)
        index = self._axis.observations(tasks, len(rewards))
        self._check_feedback(index, actions, rewards)
        self._learn(index, rewards)
        step = self._rate[index] * (rewards - self._mixing.baseline) / self._propensity[index]
        moved = self._log_weights[index] + self._backing[index] * step[:, None]
        # Only differences matter: the largest log weight is kept at zero.
        self._log_weights[index] = moved - moved.max(axis=1, keepdims=True)
        self._chosen[index] = -1

    def _check_feedback(self, index: Int[Array, " m"], actions: Any, rewards: Array) -> None:
        bad = ~(np.abs(rewards) <= LARGEST)
        if bad.any():
            raise OutcomeError(
                f"rewards must be finite numbers, up to {LARGEST:g} in size, got {rewards[bad][0]}"
            )
        if len(np.unique(index)) < len(index):
            raise FeedbackError("every decision has one outcome, but a task is named twice")
        waiting = self._chosen[index] >= 0
        if not waiting.all():
            task = int(index[np.argmin(waiting)])
            raise FeedbackError(f"no decision of task {task} waits for an outcome: act first")
        given = _checks.numbers(actions, "actions must be numbers", ActionError)
        taken = self._pending(index)
        if given.size != taken.size or not np.array_equal(given.reshape(taken.shape), taken):
            raise FeedbackError(
                f"update must name the actions that were taken, {taken}, got {actions!r}"
            )

    def _pending(self, index: Int[Array, " m"]) -> Array:
        linear = self._linear[index]
        if linear.any() and not linear.all():
            raise FeedbackError("some of these decisions were of arms and some of action sets")
        return self._taken[index] if linear.any() else self._chosen[index]


class Exp4(VotingAgent):
    """Exp4 whose experts are fixed parameter vectors  [paper: Sec. 6.2].

    Rewards are meant to lie in [0, 1]. The theory's defaults are ``gamma = min(1, sqrt(K ln L /
    ((e - 1) n_rounds)))`` and ``eta = gamma / K``.

    Parameters
    ----------
    experts
        (L, d), to score the action sets given to ``act``; or (L, K), to score K arms.
    n_rounds
        Number of rounds, from which the theory's gamma follows; needed unless gamma is given.
    gamma
        Share of uniform exploration, from 0 to 1.
    eta
        Step size of the log weights.
    n_tasks
        Number of tasks; None for one task without a task axis.
    seed
        Seed of the agent's random numbers.
    estimates
        "rewards", or "losses": the other common form, usually with ``gamma=0`` and an ``eta``.

    Examples
    --------
    Two experts score three arms; each votes for the arm of its highest score.

    >>> import mixts
    >>> agent = mixts.Exp4([[0.9, 0.1, 0.1], [0.1, 0.1, 0.9]], gamma=0.3, seed=1)
    >>> probabilities, _ = agent.action_probabilities()
    >>> probabilities.round(2)
    array([0.45, 0.1 , 0.45])
    >>> arm = agent.act()
    >>> agent.update(arm, 1)
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
        mixing = Mixing.checked(n_rounds, gamma, eta, estimates)
        super().__init__(n_experts, n_features, mixing, n_tasks, seed)

    def _summary(self) -> str:
        return f"{len(self.experts)} experts, {super()._summary()}"

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        header, arrays = super()._state()
        return header, {**arrays, "experts": self.experts}

    @classmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        agent = cls(arrays["experts"], **header["settings"], n_tasks=header["n_tasks"])
        agent._set_arrays(arrays)
        return agent

    def _voted(
        self, tasks: Int[Array, " m"], actions: ActionsLike | None, mask: ArrayLike | None
    ) -> Offer:
        sets, n_actions = None, self.experts.shape[1]
        if actions is not None:
            sets, n_actions = feature_sets(actions, n_actions, len(tasks))
        if mask is not None:
            mask = _checks.action_mask(mask, len(tasks), n_actions)
        return Offer(tasks, n_actions, sets, mask)

    def _expert_scores(
        self, index: Int[Array, " m"], actions: Array | None
    ) -> Float[Array, "m L K"]:
        scores = self.experts if actions is None else self.experts @ np.swapaxes(actions, -1, -2)
        return np.broadcast_to(scores, (len(index), *scores.shape[-2:]))


class CorralExp4(VotingAgent):
    """Exp4 over experts that learn: each follows its component's posterior mean  [paper: Sec. 6.2].

    Every component is updated exactly each round, but an adversarial algorithm switches between
    them.

    Parameters
    ----------
    prior
        The mixture prior of every task; each component is an expert.
    n_rounds, gamma, eta, n_tasks, seed, estimates
        As for :class:`Exp4`.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.CorralExp4(prior, n_rounds=1000, seed=1)
    >>> agent.update(agent.act(), 1)
    >>> agent.weights.shape
    (2,)
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
        if prior.family.plans:
            raise ParameterError(
                "CorralExp4 needs arms or actions with features, but an MDP has policies"
            )
        # Every component's mean is needed in every round: none may be dormant.
        self.belief = Belief(prior, prior.family.empty_statistics(n_tasks), allow_dormant=False)
        """Belief of every component: read it, and let ``update`` change it."""
        n_features = prior.family.n_features or prior.family.n_arms
        assert n_features is not None
        mixing = Mixing.checked(n_rounds, gamma, eta, estimates)
        super().__init__(prior.n_components, n_features, mixing, n_tasks, seed)

    def _summary(self) -> str:
        return f"{self.belief.prior.family!r}, {super()._summary()}"

    def update(
        self,
        actions: ActionsLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Learn the outcome of each task's pending decision, whose action must be named."""
        prior = self.belief.prior
        super().update(prior.action_rows(prior.arms.indices(actions)), outcomes, tasks)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        (header, arrays), (_, votes) = belief_state(self.belief), super()._state()
        return header, {**arrays, **votes}

    @classmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        prior, statistics = restored_belief(header, arrays)
        agent = cls(prior, **header["settings"], n_tasks=header["n_tasks"])
        agent.belief = Belief(prior, statistics, allow_dormant=False)
        agent._set_arrays(arrays)
        return agent

    def _voted(
        self, tasks: Int[Array, " m"], actions: ActionsLike | None, mask: ArrayLike | None
    ) -> Offer:
        return Offer.of(self.belief.prior, tasks, actions, mask)

    def _expert_scores(
        self, index: Int[Array, " m"], actions: Array | None
    ) -> Float[Array, "m L K"]:
        means = self.belief.posterior.component_means(index)
        if actions is not None and actions.ndim == 3:
            actions = actions[:, None]
        return self.belief.prior.family.mean_rewards(means, actions)

    def _learn(self, index: Int[Array, " m"], outcomes: Array) -> None:
        taken = self._pending(index)
        try:
            self.belief.update(
                self._axis.squeeze(taken), self._axis.squeeze(outcomes),
                None if self._axis.single else index,
            )  # fmt: skip
        except ObservationError as error:
            raise type(error)(f"CorralExp4's components refused the outcome: {error}") from error
