"""Stores with a few decisions of every sort, and a log whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward
from mixts_serve.store.export import export

import mixts
from mixts._typing import Array

NAMES = ("books", "hats & <b>|:", '_"söme')
RATES = np.array([[0.6, 0.2, 0.1], [0.1, 0.3, 0.7]])


def arms(strength: float = 10.0) -> mixts.MixturePrior:
    """Two kinds of task over three arms with names."""
    family = mixts.BernoulliArms(strength * RATES, strength * (1 - RATES))
    return mixts.MixturePrior(family, names=["early", "late"], arm_names=NAMES)


def more_arms() -> mixts.MixturePrior:
    """The same with three kinds and one arm more."""
    rates = np.hstack([RATES[[0, 1, 1]], np.full((3, 1), 0.5)])
    family = mixts.BernoulliArms(10 * rates, 10 * (1 - rates))
    return mixts.MixturePrior(family, arm_names=[*NAMES, "music"])


def linear() -> mixts.MixturePrior:
    """Two kinds of task over two features."""
    family = mixts.LinearGaussian(np.eye(2), np.full(2, 0.3), 0.5, covariance_type="spherical")
    return mixts.MixturePrior(family)


OFFERS = (
    np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]),
    np.array([[0.5, -0.5], [0.25, 1.0]]),
    np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]),
)


def fill_arms(path: Path) -> list[Decision]:
    """A store with decisions of every sort; rewards are 1, 0, none, 1 (late), 0, 1, none."""
    with DecisionStore(path) as store, Decider(arms(), store, explore=0.3, seed=1) as decider:
        made = decider.decide_many(
            [Decide("u1"), Decide("u2", mask=[True, False, True]), Decide("ü|3\n"), Decide("u1")]
        )
        decider.reward_many([Reward(made[0].id, 1.0), Reward(made[1].id, 0.0)])
    with (
        DecisionStore(path) as store,
        Decider(more_arms(), store, reward_window=1e-6, seed=2) as decider,
    ):
        decider.reward(made[3].id, 1.0)
    with DecisionStore(path) as store, Decider(None, store, seed=3) as decider:
        made += decider.decide_many([Decide("u1", key="a"), Decide("u2"), Decide("u4")])
        decider.reward_many([Reward(made[4].id, 0.0), Reward(made[5].id, 1.0)])
    assert all(isinstance(decision, Decision) for decision in made)
    return made


def fill_linear(path: Path) -> list[Decision]:
    """Three decisions over sets of features, not all of one size; all with a reward."""
    with DecisionStore(path) as store, Decider(linear(), store, explore=0.3, seed=1) as decider:
        made = decider.decide_many([Decide(f"u{i}", offer) for i, offer in enumerate(OFFERS)])
        decider.reward_many([Reward(decision.id, i + 0.5) for i, decision in enumerate(made)])
    return made


def known_log(folder: Path, n_tasks: int = 40, n_rounds: int = 10) -> tuple[Path, Array]:
    """An exported log of Bernoulli arms, and the rates of its tasks (n_tasks, n_arms)."""
    rng = np.random.default_rng(2022)
    _, rates = arms().draw(rng, n_tasks)
    with (
        DecisionStore(folder / "known.db") as store,
        Decider(arms(), store, explore=0.3, seed=4) as decider,
    ):
        for _ in range(n_rounds):
            made = decider.decide_many([Decide(f"u{task}") for task in range(n_tasks)])
            decider.reward_many(
                [
                    Reward(decision.id, float(rng.random() < rates[task, decision.action]))
                    for task, decision in enumerate(made)
                ]
            )
        export(store, folder / "known.parquet")
    return folder / "known.parquet", rates
