"""One task, round by round: how MixTS finds the latent state and then sharpens its estimates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mixts import _checks, _random
from mixts._typing import Array, Float, Int
from mixts.agents import MixTS
from mixts.belief import Belief
from mixts.environments import BanditEnvironment
from mixts.errors import ParameterError
from mixts.prior import MixturePrior
from mixts.simulation.followers import check_latent


@dataclass(frozen=True, repr=False)
class Identification:
    """What MixTS believed of one task before its first round and after each, and what it did.

    Arrays over time have ``n_rounds + 1`` entries: entry t is what is believed after t rounds, and
    the first is the prior.
    """

    latent: int
    """S_*, the true latent state."""
    truth: Float[Array, " K"]
    """mu_*(a), the true mean reward of each action."""
    weights: Float[Array, "times L"]
    """P_t(s), the latent weights."""
    means: Float[Array, "times K"]
    """The posterior mean of each action's mean reward, under the mixture."""
    deviations: Float[Array, "times K"]
    """Its posterior standard deviation, under the mixture: within components and between them."""
    sampled: Int[Array, " n_rounds"]
    """S_t, the latent state that was drawn."""
    actions: Int[Array, " n_rounds"]
    """A_t, the index of the action that was taken."""
    rewards: Float[Array, " n_rounds"]
    """Y_t."""
    regret: Float[Array, " n_rounds"]
    """The best true mean reward less that of the action taken."""
    names: tuple[str, ...] | None = None
    """Of the latent states, where the prior has names."""
    action_names: tuple[str, ...] | None = None

    @property
    def n_rounds(self) -> int:
        """How many rounds were played."""
        return len(self.actions)

    def __repr__(self) -> str:
        name = f" ({self.names[self.latent]})" if self.names else ""
        round_ = self.identified()
        when = "never for good" if round_ is None else f"from round {round_} on"
        return (
            f"Identification of latent state {self.latent}{name} of {self.weights.shape[1]} in "
            f"{self.n_rounds} rounds\n"
            f"  its weight is above 0.99 {when}, {self.weights[-1, self.latent]:.4f} at the end\n"
            f"  regret {self.regret.sum():.2f}"
        )

    def identified(self, level: float = 0.99) -> int | None:
        """After how many rounds the true state's weight is above ``level`` for good, or None."""
        doubtful = np.flatnonzero(self.weights[:, self.latent] <= level)
        after = int(doubtful[-1]) + 1 if doubtful.size else 0
        return after if after <= self.n_rounds else None


def identify(
    prior: MixturePrior,
    environment: BanditEnvironment,
    n_rounds: int,
    seed: int,
    *,
    run: int = 0,
    name: str = "MixTS",
) -> Identification:
    """Follow MixTS through one task of a bandit with constant arms or a constant action set.

    The task is, to the bit, run number ``run`` of ``simulate({name: prior}, environment, n_rounds,
    n_runs, seed, block_size=1)``. The environment's latent states must be the prior's components.
    Posterior moments of all actions are worked out after every round: with many components of many
    features this takes much longer than playing.
    """
    actions = _constant_actions(prior, environment)
    n_rounds = _checks.count(n_rounds, "n_rounds")
    run = _checks.count(run, "run", least=0)
    problem = environment.start(partial(_random.stream, seed, "simulate", run), 1)
    latent = int(problem.latent[0])
    check_latent(problem.latent, prior)
    agent = MixTS(prior, 1, _random.seed_sequence(seed, "simulate", run, "agent", name))
    believed, played = [_moments(agent.belief, actions)], []
    for _ in range(n_rounds):
        offered, mask = problem.next_round()
        chosen = agent.act(offered, mask=mask)
        outcome = problem.play(chosen)
        agent.update(*outcome.feedback)
        regret = outcome.best - outcome.values
        played.append((agent.last_latent[0], chosen[0], outcome.rewards[0], regret[0]))
        believed.append(_moments(agent.belief, actions))
    weights, means, deviations = (np.stack(column) for column in zip(*believed, strict=True))
    sampled, taken, rewards, regrets = (np.array(column) for column in zip(*played, strict=True))
    sets = None if actions is None else actions[None]
    return Identification(
        latent,
        environment.prior.family.mean_rewards(problem.parameters, sets)[0],
        weights, means, deviations,
        sampled, taken, rewards, regrets,
        prior.names, prior.arm_names,
    )  # fmt: skip


def _moments(belief: Belief, actions: Array | None) -> tuple[Array, Array, Array]:
    """Latent weights, and mean and standard deviation of each action's mean reward."""
    means = belief.mean_rewards(actions)[0]
    covariance = belief.covariance[0]
    if actions is None:
        variances = np.diagonal(covariance)
    else:
        variances = np.einsum("kp,pq,kq->k", actions, covariance, actions, optimize=True)
    # Rounding may leave a variance of nothing a little below zero.
    return belief.weights[0], means, np.sqrt(np.maximum(variances, 0.0))


def _constant_actions(prior: Any, environment: Any) -> Array | None:
    """The environment's action set, None for arms; refuses what cannot be followed."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    if not isinstance(environment, BanditEnvironment) or callable(environment.actions):
        raise ParameterError(
            "environment must be a BanditEnvironment with arms or one constant action set, whose "
            f"mean rewards can be followed, got {environment!r}"
        )
    if prior.family.plans or prior.family.n_arms != environment.prior.family.n_arms:
        raise ParameterError(
            f"prior must be of the environment's actions, {environment.prior.family!r}, got "
            f"{prior.family!r}"
        )
    return environment.actions
