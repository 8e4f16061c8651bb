"""Properties of planning: no policy beats the plan, names do not matter, steps add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mixts

pytestmark = pytest.mark.usefixtures("program")

Arguments = tuple[Any, Any, int, Any]


@st.composite
def arguments(draw: st.DrawFn) -> Arguments:
    """Draw the arrays of an MDP with some impossible transitions and some equal rewards."""
    n_states, n_actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    rewards = np.round(rng.random((n_states, n_actions)), draw(st.integers(0, 3)))
    rows = rng.random((n_states, n_actions, n_states))
    rows *= rng.random(rows.shape) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    rows[..., 0] += rows.sum(axis=-1) == 0
    rows /= rows.sum(axis=-1, keepdims=True)
    return rewards, rows, draw(st.integers(1, 5)), rng.dirichlet(np.ones(n_states))


@given(arguments(), st.integers(0, 2**32))
def test_no_policy_is_better_than_the_plan(of: Arguments, seed: int) -> None:
    mdp = mixts.MDP(*of)
    policies = np.random.default_rng(seed).integers(
        mdp.n_actions, size=(20, mdp.horizon, mdp.n_states)
    )
    plan = mdp.plan()
    assert np.all(mdp.evaluate(policies) <= plan.values + 1e-12)
    np.testing.assert_allclose(mdp.evaluate(plan.policy), plan.values, rtol=1e-12, atol=1e-12)
    assert mdp.value(plan.policy) == pytest.approx(plan.values[0] @ mdp.initial, abs=1e-12)
    assert np.all((plan.values >= 0) & (plan.values <= mdp.horizon + 1e-12))


@given(arguments(), st.integers(0, 2**32))
def test_names_of_states_do_not_matter(of: Arguments, seed: int) -> None:
    mdp = mixts.MDP(*of)
    order = np.random.default_rng(seed).permutation(mdp.n_states)
    renamed = mixts.MDP(
        mdp.rewards[order], mdp.transitions[order][:, :, order], mdp.horizon, mdp.initial[order]
    )
    ours, theirs = renamed.plan(), mdp.plan()
    np.testing.assert_allclose(ours.values, theirs.values[:, order], rtol=1e-12, atol=1e-12)
    # Rounding may break a tie another way, but not to anybody's loss.
    back = np.empty_like(theirs.policy)
    back[:, order] = ours.policy
    np.testing.assert_allclose(mdp.evaluate(back), theirs.values, rtol=1e-12, atol=1e-12)


@given(arguments(), st.floats(0.0, 1.0))
def test_one_more_step_is_planned_first(of: Arguments, gift: float) -> None:
    """A longer horizon leaves the later steps as they were; a gift in every step adds up."""
    mdp = mixts.MDP(*of)
    longer = mixts.MDP(mdp.rewards, mdp.transitions, mdp.horizon + 1, mdp.initial).plan()
    np.testing.assert_array_equal(longer.values[1:], mdp.plan().values)
    np.testing.assert_array_equal(longer.policy[1:], mdp.plan().policy)
    kinder = mixts.MDP((mdp.rewards + gift) / 2, mdp.transitions, mdp.horizon, mdp.initial).plan()
    remaining = np.arange(mdp.horizon, 0, -1)[:, None]
    expected = (mdp.plan().values + gift * remaining) / 2
    np.testing.assert_allclose(kinder.values, expected, rtol=1e-12, atol=1e-12)
