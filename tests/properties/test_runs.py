"""A task that repeats its action: numbers move at once, roots and means catch up later."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixts

N_TASKS = 3


def prior_of(kind: str, d: int, rng: np.random.Generator) -> mixts.MixturePrior:
    n = 3
    roots = rng.normal(size=(n, d, d))
    covariance = {
        "full": roots @ roots.transpose(0, 2, 1),
        "tied": roots[0] @ roots[0].T,
        "diag": rng.uniform(0.0, 2.0, (n, d)),
        "spherical": rng.uniform(0.1, 2.0, n),
    }[kind]
    family = mixts.LinearGaussian(rng.normal(size=(n, d)), covariance, 0.5, covariance_type=kind)
    return mixts.MixturePrior(family)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@settings(max_examples=15)
@given(
    d=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    runs=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=3, max_size=12),
)
def test_runs_of_one_action(kind: str, d: int, seed: int, runs: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(seed)
    prior = prior_of(kind, d, rng)
    actions = rng.normal(size=(3, d))
    belief = prior.belief(N_TASKS)
    for choice, length in runs:
        for step in range(length):
            rewards = rng.normal(size=N_TASKS)
            if step % 3 == 2:
                # Several observations of one task in a call, some of another action.
                rows = actions[[choice, choice, 0, choice]]
                belief.update(rows, rng.normal(size=4), tasks=[0, 0, 0, 2])
            else:
                belief.update(np.tile(actions[choice], (N_TASKS, 1)), rewards)
        if length % 2:
            belief.sample(rng)  # one component of each task catches up in the middle
    fresh = prior.condition(belief.statistics)
    np.testing.assert_allclose(belief.log_evidence, fresh.log_evidence, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(belief.component_mean, fresh.component_mean, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_what_is_sampled_in_a_run_is_up_to_date(kind: str) -> None:
    """The sampled covariance is the posterior's: an action repeated 2,000 times is known.

    Fifty tasks with the same history, sixty draws of each.
    """
    rng = np.random.default_rng(7)
    prior = prior_of(kind, 3, rng)
    action = np.array([1.0, -0.5, 0.25])
    belief, actions = prior.belief(50), np.tile(action, (50, 1))
    for reward in rng.normal(0.3, 0.5, 2000):
        belief.update(actions, np.full(50, reward))
    exact = prior.condition(belief.statistics)
    for latent in range(3):
        states = np.full(50, latent)
        draws = np.concatenate([belief.sample_parameters(rng, states) for _ in range(60)])
        spread = np.sqrt(action @ exact.component_covariance[0, latent] @ action)
        # A variance from n normal draws has a relative standard error of sqrt(2 / n).
        assert np.var(draws @ action) == pytest.approx(spread**2, rel=5 * np.sqrt(2 / 3000))
        error = abs(draws @ action - exact.component_mean[0, latent] @ action)
        assert error.mean() < 2 * spread
