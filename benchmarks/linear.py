"""The linear bandits: mixts with L components against bayesianbandits with one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from benchmark import BanditBenchmark, Player
from problems import LinearProblem

PEER = "bayesianbandits LipschitzContextualAgent, NormalRegressor, ThompsonSampling (L = 1)"


@cache
def mixture_prior(problem: LinearProblem) -> Any:
    import mixts

    kind = "tied" if problem.tied else "full"
    family = mixts.LinearGaussian(
        problem.mean(), problem.covariance(), problem.noise_std, covariance_type=kind
    )
    return mixts.MixturePrior(family)


def our_player(problem: LinearProblem, seed: int) -> Player:
    import mixts

    agent = mixts.MixTS(mixture_prior(problem), seed=seed)

    def update(actions: Any, index: int, reward: float) -> None:
        agent.update(actions[index], reward)

    return Player(agent.act, update)


@cache
def row_featurizer() -> Any:
    """Return a featurizer for which the context is the action set itself, (1, K, d).

    It does the least that the peer's interface requires, and is faster than the peer's own
    featurizers, which build the rows from a context and a token.
    """
    from bayesianbandits import ArmFeaturizer

    class Rows(ArmFeaturizer):  # type: ignore[misc, unused-ignore]
        def transform(self, X: Any, *, action_tokens: list[int]) -> Any:
            rows = X[0]
            return rows if len(action_tokens) == len(rows) else rows[action_tokens]

    return Rows()


def peer_player(n_actions: int, variance: float, noise_std: float, seed: int) -> Player:
    """Return the peer with the prior N(0, variance I), as wide as the mixture: it has no other."""
    from bayesianbandits import NormalRegressor

    learner = NormalRegressor(alpha=1.0 / variance, beta=1.0 / noise_std**2)
    return peer_with(learner, n_actions, seed)


def peer_with(learner: Any, n_actions: int, seed: int) -> Player:
    """Return the peer with one learner for all actions."""
    from bayesianbandits import Arm, LipschitzContextualAgent, ThompsonSampling

    agent = LipschitzContextualAgent(
        [Arm(k) for k in range(n_actions)],
        ThompsonSampling(),
        row_featurizer(),
        learner,
        random_seed=seed,
    )

    def act(actions: Any) -> int:
        token: int = agent.pull(actions[None])[0]
        return token

    # pull() has already selected the arm it returned for the update.
    def update(actions: Any, index: int, reward: float) -> None:
        agent.update(actions[None], np.array([reward]))

    return Player(act, update)


def linear_benchmark(
    name: str, title: str, problem: LinearProblem, target: float
) -> BanditBenchmark:
    variance = problem.spread**2 + problem.width**2
    return BanditBenchmark(
        name=name,
        title=title,
        problem=problem,
        ours=lambda seed: our_player(problem, seed),
        peer=lambda seed: peer_player(problem.n_actions, variance, problem.noise_std, seed),
        peer_name=PEER,
        target=target,
    )


PAPER_NOISE = 0.1

# L = 30, d = 30, 30 fixed actions: the sizes and the noise of the paper's synthetic bandit. "close"
# is the hardest case for us: with so much noise no component becomes dormant.
BENCHMARKS = [
    *(
        linear_benchmark(
            f"linear-30-{kind}",
            f"linear, L = 30, d = 30, 30 actions, {description}",
            LinearProblem(
                n_components=30,
                n_features=30,
                n_actions=30,
                tied=kind == "tied",
                changing=False,
                noise_std=noise_std,
            ),
            target=10.0,
        )
        for kind, noise_std, description in (
            ("full", PAPER_NOISE, "a full covariance for each component"),
            ("tied", PAPER_NOISE, "one full covariance, tied"),
            ("close", 0.5, "a full covariance for each, too close to tell apart"),
        )
    ),
    linear_benchmark(
        "linear-100-full",
        "linear, L = 100, d = 100, 10 changing actions, a full covariance for each component",
        LinearProblem(n_components=100, n_features=100, n_actions=10, tied=False, changing=True),
        target=1.5,
    ),
]
