"""One task, round by round: how MixTS finds the latent state and refines its estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts import Belief, MixturePrior
from mixts.environments import BanditEnvironment, Problem
from mixts.errors import ParameterError
from mixts.extend import Array, Float, Int, checks
from mixts.simulation import Observer, Round, RoundRecorder, check_latent, prepare


@dataclass(frozen=True, repr=False)
class Identification:
    """Beliefs and actions of MixTS in one task.

    Arrays over time have ``n_rounds + 1`` entries: entry t is the belief after t rounds, and the
    first entry is the prior.

    Attributes
    ----------
    latent : int
        S_*, the true latent state.
    truth : (K,) array
        mu_*(a), the true mean reward of each action.
    weights : (times, L) array
        P_t(s), the latent weights.
    means : (times, K) array
        Posterior mean of each action's mean reward, under the mixture.
    deviations : (times, K) array
        Posterior standard deviation of the same, within components and between them.
    sampled : (n_rounds,) array of int
        S_t, the latent state that MixTS sampled.
    actions : (n_rounds,) array of int
        A_t, the index of the action that MixTS took.
    rewards : (n_rounds,) array
        Y_t, the rewards.
    regret : (n_rounds,) array
        Best true mean reward minus that of the action taken.
    names : tuple of str or None
        Names of the latent states, if the prior has names.
    action_names : tuple of str or None
        Names of the arms, if the prior has names.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper.analysis import identify
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> task = identify(prior, mixts.BanditEnvironment(prior), n_rounds=20, seed=1)
    >>> task.weights[[0, 1, 5], task.latent].round(3)
    array([0.5  , 0.1  , 0.786])
    >>> task.identified(level=0.9)
    6
    """

    latent: int
    truth: Float[Array, " K"]
    weights: Float[Array, "times L"]
    means: Float[Array, "times K"]
    deviations: Float[Array, "times K"]
    sampled: Int[Array, " n_rounds"]
    actions: Int[Array, " n_rounds"]
    rewards: Float[Array, " n_rounds"]
    regret: Float[Array, " n_rounds"]
    names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
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
        """Return the number of rounds after which the true state's weight stays above ``level``.

        Parameters
        ----------
        level
            Weight, between 0 and 1.

        Returns
        -------
        int or None
            Number of rounds; None if the weight is not above ``level`` at the end.
        """
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
) -> Identification:
    """Follow MixTS through one task of a bandit with constant arms or a constant action set.

    The task is, to the bit, run number ``run`` of ``simulate({"MixTS": prior}, environment,
    n_rounds, n_runs, seed, block_size=1)``. The posterior moments of all actions are computed after
    every round: with many components of many features this takes much longer than playing.

    Parameters
    ----------
    prior
        The prior of MixTS. The environment's latent states must be its components.
    environment, n_rounds, seed
        As in :func:`mixts.simulate`.
    run
        Index of the run.

    Returns
    -------
    Identification
        Beliefs before the first round and after each, and what MixTS did.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper.analysis import identify
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> identify(prior, mixts.BanditEnvironment(prior), n_rounds=20, seed=1)
    Identification of latent state 1 of 2 in 20 rounds
      its weight is above 0.99 from round 7 on, 1.0000 at the end
      regret 4.24
    """
    actions = _constant_actions(prior, environment)
    run = checks.count(run, "run", least=0)
    simulation = prepare(
        {"MixTS": prior}, environment, n_rounds, run + 1, seed,
        block_size=1, observe=_IdentificationObserver(prior, actions),
    )  # fmt: skip
    played = simulation.play(run)
    observed = {key: array[0] for key, array in played.observed["MixTS"].items()}
    return Identification(
        **observed,
        latent=int(played.latent[0]),
        rewards=played.reward["MixTS"][0],
        regret=played.regret["MixTS"][0],
        names=prior.names,
        action_names=prior.arm_names,
    )


class _IdentificationObserver(Observer):
    """Observer of MixTS that records its belief about a fixed set of actions."""

    def __init__(self, prior: MixturePrior, actions: Array | None) -> None:
        self._prior, self._actions = prior, actions

    def start(self, agent: Any, problem: Problem) -> _IdentificationRecorder:
        check_latent(problem.latent, self._prior)
        return _IdentificationRecorder(agent.belief, problem, self._actions)


class _IdentificationRecorder(RoundRecorder):
    """Recorder of one task."""

    def __init__(self, belief: Belief, problem: Any, actions: Array | None) -> None:
        super().__init__()
        self._actions, self._problem = actions, problem
        self._moments = [_moments(belief, actions)]

    def measure(self, round_: Round) -> dict[str, Array]:
        return {"sampled": round_.sampled, "actions": round_.chosen}

    def after_update(self, round_: Round) -> None:
        self._moments.append(_moments(round_.belief, self._actions))

    def arrays(self) -> dict[str, Array]:
        moments = (np.stack(column)[None] for column in zip(*self._moments, strict=True))
        names = ("weights", "means", "deviations")
        return {
            **super().arrays(),
            **dict(zip(names, moments, strict=True)),
            "truth": self._problem.means,
        }


def _moments(belief: Belief, actions: Array | None) -> tuple[Array, Array, Array]:
    """Return latent weights, and mean and standard deviation of each action's mean reward."""
    means = belief.mean_rewards(actions)[0]
    covariance = belief.covariance[0]
    if actions is None:
        variances = np.diagonal(covariance)
    else:
        variances = np.einsum("kp,pq,kq->k", actions, covariance, actions, optimize=True)
    # Rounding may leave a variance of 0 a little below 0.
    return belief.weights[0], means, np.sqrt(np.maximum(variances, 0.0))


def _constant_actions(prior: Any, environment: Any) -> Array | None:
    """Return the action set, None for arms; raise `ParameterError` if the actions may change."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    if not isinstance(environment, BanditEnvironment) or callable(environment.actions):
        raise ParameterError(
            "environment must be a BanditEnvironment with arms or one constant action set, got "
            f"{environment!r}"
        )
    if prior.family.plans or prior.family.n_arms != environment.prior.family.n_arms:
        raise ParameterError(
            f"prior must be of the environment's actions, {environment.prior.family!r}, got "
            f"{prior.family!r}"
        )
    return environment.actions
