"""30 Gaussian arms with known noise: mixts with L = 30 against bayesianbandits' one-hot rows.

MABWiser has no Gaussian Thompson sampling. A linear model whose features are the
arms' unit vectors is the same bandit, and quicker there than one learner an arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from linear import peer_player as linear_peer
from problems import N_ROUNDS, PRIOR_SEED, ArmTask, Array, task_generator
from rounds import WHOLE_RUN, BanditBenchmark, Player


@dataclass(frozen=True)
class GaussianProblem:
    """Components of independent Gaussian arms, their widths different as well."""

    n_components: int = 30
    n_arms: int = 30
    spread: float = 0.5
    noise_std: float = 0.5

    def parameters(self) -> tuple[Array, Array]:
        """Means and variances, (L, K) each."""
        rng = np.random.default_rng(PRIOR_SEED)
        shape = (self.n_components, self.n_arms)
        return self.spread * rng.standard_normal(shape), rng.uniform(0.01, 0.09, shape)

    def task(self, index: int) -> ArmTask:
        rng = task_generator(index)
        mean, variance = self.parameters()
        latent = int(rng.integers(self.n_components))
        means = rng.normal(mean[latent], np.sqrt(variance[latent]))
        return ArmTask(means, rng.normal(means, self.noise_std, (N_ROUNDS, self.n_arms)))

    def fingerprint(self) -> list[float]:
        task = self.task(0)
        parts = (*self.parameters(), task.mean_rewards, task.rewards)
        return [float(np.abs(part).sum()) for part in parts]


PROBLEM = GaussianProblem()


@cache
def mixture_prior() -> Any:
    import mixts

    return mixts.MixturePrior(mixts.GaussianArms(*PROBLEM.parameters(), PROBLEM.noise_std))


def our_player(seed: int) -> Player:
    import mixts

    agent = mixts.MixTS(mixture_prior(), seed=seed)
    return Player(
        lambda actions: agent.act(), lambda actions, index, reward: agent.update(index, reward)
    )


def peer_player(seed: int) -> Player:
    rows = np.eye(PROBLEM.n_arms)
    variance = PROBLEM.spread**2 + float(PROBLEM.parameters()[1].mean())
    act, update = linear_peer(PROBLEM.n_arms, variance, PROBLEM.noise_std, seed)
    return Player(
        lambda actions: act(rows), lambda actions, index, reward: update(rows, index, reward)
    )


BENCHMARKS = [
    BanditBenchmark(
        name="gaussian-30",
        title="30 Gaussian arms, L = 30",
        problem=PROBLEM,
        ours=our_player,
        peer=peer_player,
        peer_name="bayesianbandits LipschitzContextualAgent, one-hot rows (L = 1)",
        target=None,
        windows=WHOLE_RUN,
    )
]
