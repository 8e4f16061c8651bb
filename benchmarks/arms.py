"""30 arms with L = 30: Bernoulli against MABWiser, Gaussian against bayesianbandits.

MABWiser has no Gaussian Thompson sampling. A linear model whose features are the arms' unit vectors
is the same bandit, and faster in bayesianbandits than one learner for each arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from benchmark import WHOLE_RUN, BanditBenchmark, Benchmark, Player
from linear import peer_player as linear_peer
from problems import N_ROUNDS, PRIOR_SEED, ArmTask, Array, task_generator


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


BERNOULLI_PROBLEM = BernoulliProblem()


@cache
def bernoulli_prior() -> Any:
    import mixts

    return mixts.MixturePrior(mixts.BernoulliArms(*BERNOULLI_PROBLEM.counts()))


def bernoulli_ours(seed: int) -> Player:
    import mixts

    agent = mixts.MixTS(bernoulli_prior(), seed=seed)
    return Player(
        lambda actions: agent.act(), lambda actions, index, reward: agent.update(index, reward)
    )


def bernoulli_peer(seed: int) -> Player:
    """Return MABWiser's agent with Beta(1, 1) arms.

    The peer must be fitted once before it acts: it gets a success and a failure of every arm,
    outside the timing.
    """
    from mabwiser.mab import MAB, LearningPolicy

    arms = list(range(BERNOULLI_PROBLEM.n_arms))
    agent = MAB(arms, LearningPolicy.ThompsonSampling(), seed=seed)
    agent.fit(decisions=arms + arms, rewards=[0] * len(arms) + [1] * len(arms))
    return Player(
        lambda actions: agent.predict(),
        lambda actions, index, reward: agent.partial_fit([index], [reward]),
    )


@dataclass(frozen=True)
class GaussianProblem:
    """Components of independent Gaussian arms, their widths different as well."""

    n_components: int = 30
    n_arms: int = 30
    spread: float = 0.5
    noise_std: float = 0.5

    def parameters(self) -> tuple[Array, Array]:
        """Return the means and variances, (L, K) each."""
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


GAUSSIAN_PROBLEM = GaussianProblem()


@cache
def gaussian_prior() -> Any:
    import mixts

    return mixts.MixturePrior(
        mixts.GaussianArms(*GAUSSIAN_PROBLEM.parameters(), GAUSSIAN_PROBLEM.noise_std)
    )


def gaussian_ours(seed: int) -> Player:
    import mixts

    agent = mixts.MixTS(gaussian_prior(), seed=seed)
    return Player(
        lambda actions: agent.act(), lambda actions, index, reward: agent.update(index, reward)
    )


def gaussian_peer(seed: int) -> Player:
    rows = np.eye(GAUSSIAN_PROBLEM.n_arms)
    variance = GAUSSIAN_PROBLEM.spread**2 + float(GAUSSIAN_PROBLEM.parameters()[1].mean())
    act, update = linear_peer(GAUSSIAN_PROBLEM.n_arms, variance, GAUSSIAN_PROBLEM.noise_std, seed)
    return Player(
        lambda actions: act(rows), lambda actions, index, reward: update(rows, index, reward)
    )


N_MANY = 100_000


@dataclass(frozen=True, kw_only=True)
class ManyTasks(Benchmark):
    """One ``act`` for many tasks of Bernoulli arms, on all processors; the peer has one thread."""

    n_rounds: int = 3
    peer_threads: tuple[int, ...] = (1,)
    peer_is_ours: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        return ("decision",)

    def chunk(self, side: str, index: int) -> dict[str, Any]:
        import mixts

        rng = np.random.default_rng(index)
        alpha, beta = BERNOULLI_PROBLEM.counts()
        means = rng.beta(*(x[rng.integers(len(x), size=N_MANY)] for x in (alpha, beta)))
        agent = mixts.MixTS(bernoulli_prior(), N_MANY, seed=index)
        every, seconds = np.arange(N_MANY), []
        for _ in range(self.n_rounds):
            started = perf_counter()
            arms = agent.act()
            seconds.append((perf_counter() - started) / N_MANY)
            agent.update(arms, (rng.random(N_MANY) < means[every, arms]).astype(float))
        lost = float((means.max(axis=1) - means[every, arms]).mean())
        uniform = float((means.max(axis=1) - means.mean(axis=1)).mean())
        # The first act also makes the belief.
        return {"seconds": {"decision": min(seconds[1:])}, "regret": lost / uniform}

    def fingerprint(self) -> list[float]:
        return BERNOULLI_PROBLEM.fingerprint()


BENCHMARKS: list[Benchmark] = [
    BanditBenchmark(
        name="bernoulli-30",
        title="30 Bernoulli arms, L = 30",
        problem=BERNOULLI_PROBLEM,
        ours=bernoulli_ours,
        peer=bernoulli_peer,
        peer_name="MABWiser ThompsonSampling (L = 1)",
        target=20.0,
        windows=WHOLE_RUN,
    ),
    BanditBenchmark(
        name="gaussian-30",
        title="30 Gaussian arms, L = 30",
        problem=GAUSSIAN_PROBLEM,
        ours=gaussian_ours,
        peer=gaussian_peer,
        peer_name="bayesianbandits LipschitzContextualAgent, one-hot rows (L = 1)",
        target=20.0,
        windows=WHOLE_RUN,
    ),
    ManyTasks(
        name="bernoulli-many",
        title=f"30 Bernoulli arms, L = 30, {N_MANY:,} tasks at once",
        peer_name="mixts on one thread",
        target=None,
    ),
]
