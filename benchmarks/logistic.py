"""Clicks with features: mixts with L components against bayesianbandits and Vowpal Wabbit.

Every player has seen each of the 50 items once when the clock starts, so that mixts has 50 distinct
rows of features in every round. The time is that of the processor, because the limit is a time and
other programs on the machine then matter less.
"""

from __future__ import annotations

import random
from functools import cache
from time import process_time
from typing import Any

from benchmark import BanditBenchmark, Player
from linear import peer_with
from problems import ClickProblem

PROBLEM = ClickProblem(n_components=5, n_features=20, n_actions=10, n_items=50)

MOST_SECONDS = 0.5e-3

VW_OPTIONS = "--cb_explore_adf --bag 5 --loss_function logistic --noconstant --quiet"
"""Five models learn from bootstrapped rounds, and one of them chosen at random decides. The method
``mtr``, which is the default, learns from the action taken only; a click has the cost -1 and
silence the cost 1, which are the labels of the logistic loss."""


@cache
def mixture_prior() -> Any:
    import mixts

    return mixts.MixturePrior(mixts.LinearBernoulli(PROBLEM.mean(), PROBLEM.covariance()))


def our_player(seed: int, policy: str = "MixTS") -> Player:
    import mixts

    task = PROBLEM.task(seed)
    agent = getattr(mixts, policy)(mixture_prior(), seed=seed)
    agent.update(task.items, task.history)

    def update(actions: Any, index: int, reward: float) -> None:
        agent.update(actions[index], reward)

    return Player(agent.act, update)


def glm_player(seed: int) -> Player:
    """Return bayesianbandits with the prior N(0, variance I), as wide as the mixture."""
    from bayesianbandits import BayesianGLM

    task = PROBLEM.task(seed)
    variance = PROBLEM.spread**2 + PROBLEM.width**2
    learner = BayesianGLM(alpha=1.0 / variance, link="logit")
    learner.partial_fit(task.items, task.history)
    return peer_with(learner, PROBLEM.n_actions, seed)


def vw_player(seed: int) -> Player:
    """Return Vowpal Wabbit; the text of each item is made before the clock starts."""
    from vowpalwabbit import Workspace

    task, rng = PROBLEM.task(seed), random.Random(seed)
    workspace = Workspace(f"{VW_OPTIONS} --random_seed {seed}")
    texts = {
        row[1]: "| " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row))
        for row in task.items.tolist()
    }
    lines: list[str] = []
    chance = 0.0

    def act(actions: Any) -> int:
        nonlocal lines, chance
        # The second feature tells items apart; the first is 1.
        lines = [texts[x] for x in actions[:, 1].tolist()]
        law = workspace.predict(lines)
        (choice,) = rng.choices(range(len(law)), weights=law)
        chance = law[choice]
        return choice

    def update(actions: Any, index: int, reward: float) -> None:
        lines[index] = f"0:{1.0 - 2.0 * reward}:{chance} {lines[index]}"
        workspace.learn(lines)

    for row, reward in zip(task.items, task.history, strict=True):
        lines, chance = [texts[row[1]]], 1.0
        update(row[None], 0, reward)
    return Player(act, update)


BENCHMARKS = [
    BanditBenchmark(
        name=name,
        title=f"clicks, L = 5, d = 20, 10 of 50 items, beside {peer}",
        problem=PROBLEM,
        ours=our_player,
        peer=player,
        peer_name=description,
        target=None,
        target_time=MOST_SECONDS,
        our_threads=1,
        peer_threads=(1,),
        clock=process_time,
    )
    for name, peer, player, description in (
        (
            "clicks-glm",
            "bayesianbandits",
            glm_player,
            "bayesianbandits LipschitzContextualAgent, BayesianGLM, ThompsonSampling (L = 1)",
        ),
        ("clicks-vw", "Vowpal Wabbit", vw_player, "Vowpal Wabbit --cb_explore_adf --bag 5"),
    )
]
BENCHMARKS.append(
    BanditBenchmark(
        name="clicks-ids",
        title="MixIDS, clicks, L = 5, d = 20, 10 of 50 items",
        problem=PROBLEM,
        ours=lambda seed: our_player(seed, "MixIDS"),
        peer=our_player,
        peer_name="MixTS, act",
        target=None,
        our_threads=1,
        peer_threads=(1,),
        peer_is_ours=True,
        clock=process_time,
    )
)
