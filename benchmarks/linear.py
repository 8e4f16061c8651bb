"""The linear bandits: mixts with L components against bayesianbandits with one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from problems import LinearProblem
from rounds import BanditBenchmark, Player

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
    """The context is the action set itself, (1, K, d): arm k's features are its row k.

    This is the least the peer's interface asks of a featurizer, and quicker than its
    ready-made ones, which build the rows from a context and a token.
    """
    from bayesianbandits import ArmFeaturizer

    class Rows(ArmFeaturizer):  # type: ignore[misc, unused-ignore]
        def transform(self, X: Any, *, action_tokens: list[int]) -> Any:
            rows = X[0]
            return rows if len(action_tokens) == len(rows) else rows[action_tokens]

    return Rows()


def peer_player(n_actions: int, variance: float, noise_std: float, seed: int) -> Player:
    """N(0, variance I), the only kind of prior the peer offers, as wide as the mixture."""
    from bayesianbandits import Arm, LipschitzContextualAgent, NormalRegressor, ThompsonSampling

    agent = LipschitzContextualAgent(
        [Arm(k) for k in range(n_actions)],
        ThompsonSampling(),
        row_featurizer(),
        NormalRegressor(alpha=1.0 / variance, beta=1.0 / noise_std**2),
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
