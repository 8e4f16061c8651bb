"""Statistics that count without a prior, and what families answer for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from tests.contracts.problems import ALL_CASES, N_COMPONENTS, WEIGHTS, FamilyCase, some

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


def test_appended_components_come_last(case: FamilyCase) -> None:
    family = case.prior.family
    joined, order = family.append(family.select([2])), [0, 1, 2, 2]
    assert joined.n_components == N_COMPONENTS + 1
    statistics = case.tasks(3, 2, 15).statistics
    np.testing.assert_allclose(
        joined.log_evidence(statistics), family.log_evidence(statistics)[:, order], rtol=ROUNDING
    )


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
    family, statistics = case.prior.family, case.tasks(3, 2, 15).statistics
    if not isinstance(family.noise_std, float):
        for call in (family.to_linear, lambda: family.log_determinant_ratios(statistics)):
            with pytest.raises(mixts.errors.ParameterError, match="not a linear bandit"):
                call()
        return
    linear = family.to_linear()
    assert linear.noise_std == family.noise_std
    ratios = family.log_determinant_ratios(statistics)
    belief = case.prior.condition(statistics)
    prior = np.linalg.slogdet(case.prior.belief().component_covariance).logabsdet
    now = np.linalg.slogdet(belief.component_covariance).logabsdet
    np.testing.assert_allclose(ratios, prior - now, rtol=1e-8, atol=1e-8)


def test_readings_of_some_tasks(case: FamilyCase) -> None:
    belief, tasks = case.tasks(3, 3, 20), [2, 0, 2]
    np.testing.assert_array_equal(belief.component_means(tasks), belief.component_mean[tasks])
    np.testing.assert_array_equal(
        belief.component_covariances(tasks), belief.component_covariance[tasks]
    )
    every = belief.mean_rewards(case.actions)
    np.testing.assert_allclose(
        belief.mean_rewards(case.actions, tasks), every[tasks], rtol=ROUNDING, atol=ROUNDING
    )
    latent, theta = belief.sample(np.random.default_rng(0), tasks)
    assert (latent.shape, theta.shape) == ((3,), (3, case.size))
    for call in (belief.component_means, belief.component_covariances):
        with pytest.raises(mixts.errors.TaskError):
            call([3])
