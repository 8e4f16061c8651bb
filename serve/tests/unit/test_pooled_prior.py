"""A prior with pooled effects in the service: facts stand beside the features of each action."""

from __future__ import annotations

from pathlib import Path

import mixts_serve
import numpy as np
import pytest

import mixts
from mixts.errors import ActionError

ITEM = mixts.LevelFeature("item", ("book", "film"))
EFFECTS = mixts.Pooled(
    [mixts.NumberFeature("age", 40, 10), ITEM],
    [("age", "item")],
    ["age"],
    coefficients=[-3.0, 3.0],
)
FAMILY = mixts.LinearBernoulli(np.zeros((1, 2)), np.full((1, 2), 0.1), "diag").with_offset()
FEATURES = mixts.Features([ITEM], pooled=EFFECTS)
PRIOR = mixts.MixturePrior(FAMILY, features=FEATURES)


def offered(**facts: object) -> list[dict[str, object]]:
    return [{"id": item, "features": {"item": item, **facts}} for item in ("book", "film")]


def test_a_service_decides_by_facts_and_keeps_the_offset(tmp_path: Path) -> None:
    with (
        mixts_serve.DecisionStore(tmp_path / "s.db") as store,
        mixts_serve.Decider(PRIOR, store, policy="greedy", seed=1) as service,
    ):
        young, old = (service.decide(f"{age}", actions=offered(age=age)) for age in (20, 60))
        assert (young.arm, old.arm) == ("book", "film")
        service.reward(young.id, 1)
        service.reward(old.id, 0)
        with pytest.raises(ActionError, match="unknown feature 'size'"):
            service.decide("20", actions=offered(size=3))
        rows = FEATURES.rows([{"item": "book"}, {"item": "film"}], context={"age": 20})
        belief = PRIOR.belief()
        belief.update(rows[0], 1)
        means = service.task("20").mean_rewards
        np.testing.assert_allclose(means, belief.mean_rewards(rows), rtol=1e-9)
