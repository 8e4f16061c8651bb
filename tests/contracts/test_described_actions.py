"""Every agent decides and learns from descriptions as it does from their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.extend._agents import readings

FEATURES = mixts.Features(
    [
        mixts.NumberFeature("price", centre=3.0, scale=2.0),
        mixts.LevelFeature("brand", ("acme", "bolt", "core"), reference="bolt"),
    ],
    intercept=True,
)
OFFER = [{"price": 1.0 + k, "brand": ["acme", "bolt", "core"][k % 3]} for k in range(5)]


def prior() -> mixts.MixturePrior:
    mean = np.random.default_rng(3).normal(size=(3, 4))
    family = mixts.LinearGaussian(mean, np.full((3, 4), 0.3), 0.5, "diag")
    return mixts.MixturePrior(family, features=FEATURES)


AGENTS: dict[str, Callable[..., Any]] = {
    "MixTS": mixts.MixTS,
    "MixIDS": mixts.MixIDS,
    "Greedy": mixts.Greedy,
    "BayesUCB": mixts.BayesUCB,
    "CorralExp4": lambda prior, **kw: mixts.CorralExp4(prior, n_rounds=20, **kw),
    "Oracle": lambda prior, **kw: mixts.Oracle(prior, latent=1, **kw),
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("n_tasks", [None, 2])
def test_descriptions_stand_for_their_rows(name: str, n_tasks: int | None) -> None:
    rows = FEATURES.rows(OFFER)
    found = []
    for described in (True, False):
        agent = AGENTS[name](prior(), n_tasks=n_tasks, seed=7)
        every: Any = OFFER if described else rows
        offer = every if n_tasks is None else [every, every[::-1]]
        for t in range(6):
            chosen = agent.act(offer)
            if n_tasks is None:
                agent.update(offer[chosen], 0.1 * t)
            else:
                taken = [offer[i][k] for i, k in enumerate(chosen)]
                agent.update(taken, [0.1 * t, 0.5])
        found.append((readings(agent), agent.action_probabilities(offer)))
    for one, other in zip(*found, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_mean_rewards_and_waiting_decisions_take_descriptions() -> None:
    rows = FEATURES.rows(OFFER)
    belief = prior().belief()
    np.testing.assert_array_equal(belief.mean_rewards(OFFER), belief.mean_rewards(rows))
    laws = [
        mixts.MixIDS(prior(), seed=1).action_probabilities(rows, waiting=waiting)[0]
        for waiting in ([OFFER[0], OFFER[3]], rows[[0, 3]])
    ]
    np.testing.assert_array_equal(*laws)
    assert mixts.Greedy(prior(), seed=1).act(OFFER, waiting=[OFFER[1]]) in range(5)
