"""What a latent state promised in an episode of an MDP, and how sure it was."""

from __future__ import annotations

import math

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.belief import Belief
from mixts.bounds import reward_width, transition_width
from mixts.diagnostics.confidence.measures import Measure, Promise
from mixts.families import TabularMDP, TabularStatistics, Trajectory
from mixts.prior import MixturePrior
from mixts.simulation.followers import Decided


class EpisodeMeasure(Measure):
    """The mean value of the policy, and h sum_i (c_t + phi_t)(X_i, A_i, s) along the episode.

    The radius is sqrt(h N log n). App. B writes V_t(pi_t, s) and beta_t inside the sum over past
    episodes: meant are V_l(pi_l, s) and beta_l, of the episode in which s was sampled
    [paper: App. B]. With high probability no V_M(pi), M ~ P_t(. | s), is further above the mean
    than the width's expectation over episodes of M  [paper: Sec. 5.1].
    """

    def __init__(self, prior: MixturePrior, n_rounds: int, n_samples: int) -> None:
        assert isinstance(prior.family, TabularMDP)
        self._family, self._n_rounds, self._n_samples = prior.family, n_rounds, n_samples
        self.radius_factor = math.sqrt(prior.family.horizon * math.log(n_rounds))

    def __call__(self, decided: Decided) -> Promise:
        rng, belief, latent, chosen, (trajectory,) = decided[:5]
        value, error = self.mean_value(rng, belief, latent, chosen)
        return Promise(value - trajectory.returns, self._width(belief, latent, trajectory), error)

    def mean_value(
        self,
        rng: np.random.Generator,
        belief: Belief,
        latent: Int[Array, " n"],
        policy: Int[Array, "n h X"],
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """V_t(pi, s), the mean of V_M(pi) over MDPs M ~ P_t(. | s), and its standard error.

        It is not the value of the mean MDP: a state that is visited more than once makes the value
        a product of what is unknown there  [paper: Sec. 5.1]. The regret of an episode is in
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
        family, statistics = self._family, belief.statistics
        assert isinstance(statistics, TabularStatistics)
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
