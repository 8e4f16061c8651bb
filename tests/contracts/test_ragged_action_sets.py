"""Action sets of different sizes: padded, masked, and the padding never looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contracts.agents import CASES, AgentCase

LINEAR = [case for case in CASES if case.linear]
pytestmark = pytest.mark.parametrize("case", LINEAR, ids=lambda c: c.agent)

SIZES = np.array([1, 3, 5, 2])


def padded(rng: np.random.Generator, filler: float) -> tuple[Any, Any]:
    """Return padded sets with SIZES actions, and a mask that excludes the padding."""
    mask = np.arange(SIZES.max()) < SIZES[:, None]
    sets = rng.normal(size=(len(SIZES), SIZES.max(), 4))
    sets[~mask] = filler
    return sets, mask


@pytest.mark.parametrize("filler", [np.nan, 1e300, 0.0], ids=["nan", "huge", "zero"])
def test_padding_does_not_matter(case: AgentCase, filler: float) -> None:
    """Same seed, same real actions, whatever stands in the rest: the same decisions and numbers."""
    decisions = []
    for stuffing in (filler, -1.0):
        agent, rng = case.build(len(SIZES), seed=2), np.random.default_rng(7)
        for _ in range(8):
            sets, mask = padded(rng, stuffing)
            probabilities, errors = agent.action_probabilities(sets, mask=mask)
            chosen = agent.act(sets, mask=mask)
            logged = agent.act_with_probabilities(sets, mask=mask, floor=0.01)
            assert mask[np.arange(len(SIZES)), chosen].all()
            for p in (probabilities, logged[1]):
                assert np.all(p[~mask] == 0)
                np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
            decisions.append([probabilities, errors, chosen, *logged])
            agent.update(case.taken(sets, logged[0]), case.rewards(rng, chosen))
    for ours, theirs in zip(decisions[:8], decisions[8:], strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_padding_is_as_good_as_a_smaller_set(case: AgentCase) -> None:
    agent, twin, rng = case.build(None, seed=2), case.build(None, seed=2), np.random.default_rng(7)
    for _ in range(20):
        rows = rng.normal(size=(3, 4))
        filled = np.concatenate([rows, np.full((2, 4), np.nan)])
        mask = np.arange(5) < 3
        chosen = agent.act(filled, mask=mask)
        assert chosen == twin.act(rows)
        reward = case.rewards(rng, chosen)
        for who in (agent, twin):
            who.update(rows[chosen], reward)
