"""Statistics that count without a prior, and what families answer for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts.extend._families import some
from tests.contracts.problems import (
    ALL_CASES,
    N_COMPONENTS,
    NOISE,
    WEIGHTS,
    FamilyCase,
)

pytestmark = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)

ROUNDING = 1e-10


def counted(case: FamilyCase, parts: list[Any], tasks: Any) -> Any:
    """The statistics of two tasks that observed each part in turn."""
    family = case.prior.family
    statistics = family.statistics_type.empty(family.statistics_shape, 2)
    for part, owners in zip(parts, tasks, strict=True):
        given = (*part, None) if len(part) == 1 else part
        statistics.observe(owners, statistics.observations(*given))
    return statistics


@pytest.mark.usefixtures("program")
def test_statistics_count_as_beliefs_do(case: FamilyCase) -> None:
    history, owners = case.history(1, 12), np.array([0, 1] * 6)
    belief = case.prior.belief(2)
    for i in range(12):
        belief.update(*some(history, slice(i, i + 1)), tasks=owners[i : i + 1])
    assert counted(case, [history], [owners]) == belief.statistics
    halves = [some(history, slice(5)), some(history, slice(5, None))]
    assert counted(case, halves, [owners[:5], owners[5:]]) == belief.statistics


@pytest.mark.usefixtures("unchecked")
def test_a_refused_observation_counts_nothing(case: FamilyCase) -> None:
    history = case.history(1, 4)
    statistics = counted(case, [history], [[0, 1, 0, 1]])
    before = statistics.copy()
    given = (*history, None) if len(history) == 1 else history
    good = statistics.observations(*given)
    for tasks in ([0, 1, 0, 2], [0, 1, 0, -1], [0, 1]):
        with pytest.raises((mixts.errors.TaskError, mixts.errors.ObservationError)):
            statistics.observe(tasks, good)
    bad = [array.copy() for array in good]
    outcomes = bad[2] if case.mdp else bad[1]
    outcomes[-1] = np.nan
    with pytest.raises(mixts.errors.OutcomeError):
        statistics.observe([0, 1, 0, 1], tuple(bad))
    assert statistics == before


def test_log_evidence_is_that_of_the_belief(case: FamilyCase) -> None:
    belief = case.tasks(3, 3, 20)
    found = case.prior.family.log_evidence(belief.statistics)
    np.testing.assert_allclose(found, belief.log_evidence, rtol=ROUNDING, atol=ROUNDING)


def test_moments_of_the_prior(case: FamilyCase) -> None:
    family, belief = case.prior.family, case.prior.belief()
    np.testing.assert_allclose(family.parameter_means(), belief.component_mean, rtol=ROUNDING)
    variances = np.diagonal(belief.component_covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(family.parameter_variances(), variances, rtol=ROUNDING, atol=1e-15)


def test_quantiles_hold_their_share_of_draws(case: FamilyCase) -> None:
    family, n = case.prior.family, 4000
    for s in range(N_COMPONENTS):
        draws = family.draw(np.random.default_rng(s), np.full(n, s))
        free = family.parameter_variances()[s] > 0
        for p in (0.1, 0.5, 0.9):
            share = (draws < family.parameter_quantiles(p)[s]).mean(axis=0)
            # Six standard errors of a share.
            assert np.all(np.abs(share - p)[free] < 6 * np.sqrt(p * (1 - p) / n))
    low, high = (family.parameter_quantiles(p) for p in (0.1, 0.9))
    assert np.all(low <= high)


def test_a_broad_component_is_broad(case: FamilyCase) -> None:
    family = case.prior.family
    broad, one = family.broaden(WEIGHTS, 9.0), family.collapse(WEIGHTS)
    assert broad.n_components == 1
    assert type(broad) is type(family)
    assert np.all(broad.parameter_variances().mean() > family.parameter_variances().mean(axis=1))
    if family.reward_range is None:
        means, expected = broad.parameter_means(), one.parameter_means()
        np.testing.assert_allclose(
            means[:, : case.n_rewards], expected[:, : case.n_rewards], rtol=1e-9
        )
        ratio = broad.parameter_variances() / one.parameter_variances()
        np.testing.assert_allclose(ratio[:, : case.n_rewards], 9.0, rtol=1e-9)


def test_reward_moments_are_those_of_the_posterior(case: FamilyCase) -> None:
    family, belief = case.prior.family, case.tasks(3, 3, 20)
    if family.plans:
        with pytest.raises(mixts.errors.ParameterError):
            family.reward_moments(belief.statistics, np.zeros((3, 1), int))
        return
    rng = np.random.default_rng(0)
    arms = rng.integers(case.n_rewards, size=(3, 2))
    actions = arms if family.n_features is None else rng.normal(size=(3, 2, case.n_rewards))
    rows = np.eye(case.size)[arms] if family.n_features is None else actions
    mean, variance = family.reward_moments(belief.statistics, actions)
    if case.conjugate:
        p = rows.shape[2]
        expected = np.einsum("tap,tlp->tal", rows, belief.component_mean[..., :p])
        np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-12)
        covariance = belief.component_covariance[..., :p, :p]
        expected = np.einsum("tap,tlpq,taq->tal", rows, covariance, rows)
        np.testing.assert_allclose(variance, expected, rtol=1e-9, atol=1e-12)
    else:
        assert_moments_of_draws(family, belief, actions, mean, variance)
    latent = np.array([2, 0, 2])
    given = family.reward_moments(belief.statistics, actions, latent)
    for one, every in zip(given, (mean, variance), strict=True):
        np.testing.assert_allclose(one, every[np.arange(3), :, latent], rtol=1e-9, atol=1e-12)


def assert_moments_of_draws(
    family: Any, belief: mixts.Belief, actions: Any, mean: Any, variance: Any
) -> None:
    """Compare moments (t, a, L) of mean rewards with those of 4000 draws, by six errors."""
    n = 4000
    for task in range(3):
        for s in range(N_COMPONENTS):
            tasks = np.full(n, task)
            theta = belief.sample_parameters(np.random.default_rng(s), np.full(n, s), tasks=tasks)
            drawn = family.mean_rewards(theta, actions[task])
            error = drawn.std(axis=0) / np.sqrt(n)
            assert np.all(np.abs(drawn.mean(axis=0) - mean[task, :, s]) < 6 * error)
            np.testing.assert_allclose(drawn.var(axis=0), variance[task, :, s], rtol=0.15)


def test_linear_bandits_have_a_linear_form(case: FamilyCase) -> None:
    family = case.prior.family
    if family.common_noise is None:
        with pytest.raises(mixts.errors.ParameterError, match="not a linear bandit"):
            family.to_linear()
        return
    assert family.to_linear().noise_std == family.common_noise == NOISE


def test_readings_of_some_tasks(case: FamilyCase) -> None:
    belief, tasks = case.tasks(3, 3, 20), [2, 0, 2]
    posterior, index = belief.posterior, np.array(tasks)
    np.testing.assert_array_equal(posterior.component_means(index), belief.component_mean[tasks])
    np.testing.assert_array_equal(
        posterior.component_covariances(index), belief.component_covariance[tasks]
    )
    every = belief.mean_rewards(case.actions)
    np.testing.assert_allclose(
        belief.mean_rewards(case.actions, tasks), every[tasks], rtol=ROUNDING, atol=ROUNDING
    )
    latent, theta = belief.sample(np.random.default_rng(0), tasks)
    assert (latent.shape, theta.shape) == ((3,), (3, case.size))
    with pytest.raises(mixts.errors.TaskError):
        belief.mean_rewards(case.actions, [3])


def test_families_of_arms_have_arms(case: FamilyCase) -> None:
    family, every = case.prior.family, np.arange(N_COMPONENTS)
    if family.n_arms is None:
        with pytest.raises(mixts.errors.ParameterError, match="only families of arms"):
            _ = family.as_arms
        return
    some = family.as_arms.arms([2, 0, 2])
    means = family.as_arms.prior_marginal(every).mean()
    np.testing.assert_allclose(some.prior_marginal(every).mean(), means[:, [2, 0, 2]])


def test_families_of_features_have_other_coordinates(case: FamilyCase) -> None:
    family, statistics = case.prior.family, case.tasks(3, 2, 15).statistics
    matrix = np.random.default_rng(0).normal(size=(case.n_rewards, case.n_rewards))
    if family.n_features is None:
        with pytest.raises(mixts.errors.ParameterError, match="has no features"):
            family.mapped(matrix)
        for call in (lambda: statistics.mapped(matrix), lambda: statistics.feature_squares):
            with pytest.raises(mixts.errors.StatisticsError, match="has no feature rows"):
                call()
        return
    found = statistics.mapped(matrix)
    squares = matrix @ statistics.feature_squares @ matrix.T
    np.testing.assert_allclose(found.feature_squares, squares, rtol=1e-9, atol=1e-9)
    before, after = (
        each.log_evidence(seen)
        for each, seen in ((family, statistics), (family.mapped(np.linalg.inv(matrix)), found))
    )
    # The evidence of clicks is an estimate, which depends on the coordinates.
    np.testing.assert_allclose(after, before, rtol=1e-7 if case.conjugate else 0.01)


def test_the_link_makes_mean_rewards_linear(case: FamilyCase) -> None:
    family, rng = case.prior.family, np.random.default_rng(0)
    theta = family.draw(rng, np.zeros(2, int))
    rewards = family.mean_rewards(np.vstack([theta, theta.mean(axis=0)]), case.actions)
    scale = np.log(rewards / (1 - rewards)) if family.link == "logit" else rewards
    np.testing.assert_allclose(scale[2], scale[:2].mean(axis=0), rtol=1e-9)


def test_a_row_takes_its_bytes(case: FamilyCase) -> None:
    family, history = case.prior.family, case.history(1, 2)
    sizes = [
        len(counted(case, [some(history, slice(n))], [[0] * n]).encode()[0]) for n in range(1, 3)
    ]
    assert sizes[1] - sizes[0] == family.row_bytes
    assert (family.row_bytes > 0) == (case.name == "logistic")
