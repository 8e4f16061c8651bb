"""30 Bernoulli arms: mixts with L = 30 against MABWiser's Thompson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from problems import N_ROUNDS, PRIOR_SEED, ArmTask, Array, task_generator
from rounds import WHOLE_RUN, BanditBenchmark, Player


@dataclass(frozen=True)
class BernoulliProblem:
    """Components of independent Beta arms, each worth ``strength`` observations."""

    n_components: int = 30
    n_arms: int = 30
    strength: float = 8.0

    def counts(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(PRIOR_SEED)
        means = rng.uniform(0.1, 0.9, (self.n_components, self.n_arms))
        return self.strength * means, self.strength * (1.0 - means)

    def task(self, index: int) -> ArmTask:
        rng = task_generator(index)
        alpha, beta = self.counts()
        latent = int(rng.integers(self.n_components))
        means = rng.beta(alpha[latent], beta[latent])
        rewards = rng.random((N_ROUNDS, self.n_arms)) < means
        return ArmTask(means, rewards.astype(np.float64))

    def fingerprint(self) -> list[float]:
        task = self.task(0)
        return [float(part.sum()) for part in (*self.counts(), task.mean_rewards, task.rewards)]


PROBLEM = BernoulliProblem()


@cache
def mixture_prior() -> Any:
    import mixts

    return mixts.MixturePrior(mixts.BernoulliArms(*PROBLEM.counts()))


def our_player(seed: int) -> Player:
    import mixts

    agent = mixts.MixTS(mixture_prior(), seed=seed)
    return Player(
        lambda actions: agent.act(), lambda actions, index, reward: agent.update(index, reward)
    )


def peer_player(seed: int) -> Player:
    """Beta(1, 1) arms. The peer must be fitted once before it acts: a success and a failure
    for every arm, outside the timing."""
    from mabwiser.mab import MAB, LearningPolicy

    arms = list(range(PROBLEM.n_arms))
    agent = MAB(arms, LearningPolicy.ThompsonSampling(), seed=seed)
    agent.fit(decisions=arms + arms, rewards=[0] * len(arms) + [1] * len(arms))
    return Player(
        lambda actions: agent.predict(),
        lambda actions, index, reward: agent.partial_fit([index], [reward]),
    )


BENCHMARKS = [
    BanditBenchmark(
        name="bernoulli-30",
        title="30 Bernoulli arms, L = 30",
        problem=PROBLEM,
        ours=our_player,
        peer=peer_player,
        peer_name="MABWiser ThompsonSampling (L = 1)",
        target=10.0,
        windows=WHOLE_RUN,
    )
]
