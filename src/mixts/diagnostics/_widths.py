"""Confidence widths of the proofs, for Gaussian rewards, bounded rewards and episodes.

A measure compares the mean reward that the sampled component predicts with the reward that came,
and computes the width of that prediction.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.belief import Belief
from mixts.bounds import feature_width, reward_width, transition_width
from mixts.errors import ParameterError
from mixts.families import Trajectory
from mixts.families.base import Family
from mixts.prior import MixturePrior
from mixts.simulation.observe import Round


class Measure(ABC):
    """Excess and width of a round; it reads the belief before the update and changes nothing."""

    radius_factor: float
    """r of the radius r sqrt(N_t(s))."""

    @abstractmethod
    def __call__(self, round_: Round) -> dict[str, Float[Array, " n"]]:
        """Measure one round of all runs.

        Returns
        -------
        dict
            ``excess``: the mean under the sampled component minus the reward. ``width``: the width
            of that mean. ``error``: its standard error, 0 where the mean is exact.
        """


class RewardMeasure(Measure):
    """Measure of the action that was taken in a bandit, under the sampled component."""

    def __init__(self, family: Family, n_rounds: int) -> None:
        self._family, self._n_rounds = family, n_rounds

    def __call__(self, round_: Round) -> dict[str, Float[Array, " n"]]:
        latent, (taken, rewards) = round_.sampled, round_.outcome.feedback
        statistics = round_.belief.statistics
        moments = self._family.reward_moments(statistics, taken[:, None], latent)
        mean, variance = (x[:, 0] for x in moments)
        return {
            "excess": mean - rewards,
            "width": self._width(mean, variance),
            "error": np.zeros(len(latent)),
        }

    @abstractmethod
    def _width(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return the width from the posterior mean and variance of the taken action's reward."""


class GaussianMeasure(RewardMeasure):
    """Mean a'theta_{t,s} and width sqrt(2 d log(d n)) ||a||; the radius is 2 sigma sqrt(N log n).

    Gaussian arms are the linear bandit of the unit vectors, so d is the number of arms. App. A
    writes mean and width at time t inside the sum over past rounds, but means the belief of the
    round in which s was sampled  [paper: App. A].
    """

    def __init__(self, family: Family, n_rounds: int) -> None:
        super().__init__(family, n_rounds)
        assert family.noise_std is not None
        self.radius_factor = 2 * family.noise_std * math.sqrt(math.log(n_rounds))
        self._n_features = family.n_features or family.n_arms or 0

    def _width(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> Float[Array, " n"]:
        return feature_width(np.sqrt(variance), self._n_features, self._n_rounds)


class BoundedMeasure(RewardMeasure):
    """Bernoulli arms: the MDP of one state and one step; the width is c_t alone, with h = 1."""

    def __init__(self, family: Family, n_rounds: int) -> None:
        super().__init__(family, n_rounds)
        assert family.n_arms is not None
        self.radius_factor = math.sqrt(math.log(n_rounds))
        self._n_arms = family.n_arms

    def _width(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> Float[Array, " n"]:
        # A beta distribution has variance m (1 - m) / (alpha + beta + 1).
        total = mean * (1 - mean) / variance - 1
        return reward_width(total, 1, self._n_arms, self._n_rounds)


class EpisodeMeasure(Measure):
    """Mean value of the policy, and width h sum_i (c_t + phi_t)(X_i, A_i, s) along the episode.

    The radius is sqrt(h N log n). App. B writes V_t(pi_t, s) and beta_t inside the sum over past
    episodes, but means V_l(pi_l, s) and beta_l of the episode in which s was sampled
    [paper: App. B]. With high probability no V_M(pi), M ~ P_t(. | s), is further above the mean
    than the width's expectation over episodes of M  [paper: Sec. 5.1].
    """

    def __init__(self, family: Any, n_rounds: int, n_samples: int) -> None:
        self._family, self._n_rounds, self._n_samples = family, n_rounds, n_samples
        self.radius_factor = math.sqrt(family.horizon * math.log(n_rounds))

    def __call__(self, round_: Round) -> dict[str, Float[Array, " n"]]:
        (trajectory,) = round_.outcome.feedback
        belief, latent = round_.belief, round_.sampled
        value, error = self.mean_value(round_.rng, belief, latent, round_.chosen)
        width = self._width(belief, latent, trajectory)
        return {"excess": value - trajectory.returns, "width": width, "error": error}

    def mean_value(
        self,
        rng: np.random.Generator,
        belief: Belief,
        latent: Int[Array, " n"],
        policy: Int[Array, "n h X"],
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Return V_t(pi, s), the mean of V_M(pi) over MDPs M ~ P_t(. | s), and its standard error.

        It is not the value of the mean MDP: a state that is visited more than once makes the value
        a product of unknown numbers  [paper: Sec. 5.1]. The regret of an episode is in
        expectation V_*(pi_*) - V_t(pi_*, S_*), and V_t(pi_t, S_t) - V_*(pi_t)  [paper: Eq. 6].
        """
        n, m = len(latent), self._n_samples
        tasks = np.repeat(np.arange(n), m)
        parameters = belief.sample_parameters(rng, np.repeat(latent, m), tasks)
        values = self._family.mdp(parameters).value(np.repeat(policy, m, axis=0)).reshape(n, m)
        return values.mean(axis=1), values.std(axis=1, ddof=1) / math.sqrt(m)

    def _width(
        self, belief: Belief, latent: Int[Array, " n"], trajectory: Trajectory
    ) -> Float[Array, " n"]:
        family, statistics = self._family, cast(Any, belief.statistics)
        size = (family.n_states, family.n_actions, self._n_rounds)
        rewards = (family.reward[latent] + statistics.rewards).sum(axis=3)
        transitions = (family.transition[latent] + statistics.transitions).sum(axis=3)
        both = reward_width(rewards, *size) + transition_width(transitions, *size)
        steps = trajectory.n_steps
        rows = np.arange(len(latent))[:, None]
        along = both[rows, trajectory.states[:, :steps], trajectory.actions]
        if trajectory.lengths is not None:
            along = np.where(np.arange(steps) < trajectory.lengths[:, None], along, 0.0)
        return np.asarray(family.horizon * along.sum(axis=1))


def measure_of(prior: Any, n_rounds: int, n_samples: int) -> Measure:
    """Return the measure of a prior's family; raise ``ParameterError`` if the proofs have none."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    family = prior.family
    if family.plans:
        return EpisodeMeasure(family, n_rounds, n_samples)
    if isinstance(family.noise_std, float):
        return GaussianMeasure(family, n_rounds)
    if family.reward_range is not None:
        return BoundedMeasure(family, n_rounds)
    raise ParameterError(
        f"the proofs have no confidence width for {family!r}: its rewards are neither bounded nor "
        "Gaussian. Sets are defined for LinearGaussian, GaussianArms, BernoulliArms and TabularMDP"
    )
