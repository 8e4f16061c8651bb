"""Pooled coefficients beside dense singular priors, statsmodels and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import mixts
from mixts import _random
from mixts.families import LinearBernoulliStatistics, LinearStatistics
from mixts.families._linear_bernoulli_posterior import click_tasks
from mixts.families._logistic import posterior_moments
from mixts.learning import learn_pooled, with_offsets
from mixts.learning.pooled import (
    N_FOLDS,
    RIDGES,
    best_ridge,
    equations,
    held_out_gains,
    improved,
)

D, P = 3, 4
"""Numbers of a task's own features, and of pooled ones."""


def drawn(seed: int, n_tasks: int, n_rows: int) -> tuple[Any, Any]:
    """Return rows [z, x] and log odds of tasks; the first number is an intercept."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_tasks, n_rows, D + P)).round(2)
    rows[..., 0] = 1.0
    rows[..., D : D + 2] = rows[:, :1, D : D + 2]  # facts of the task
    theta = np.array([0.5, -1.0, 0.3]) + 0.6 * rng.normal(size=(n_tasks, D))
    beta = np.array([1.0, -0.5, 0.8, 0.0])
    return rows, (rows[..., :D] * theta[:, None]).sum(axis=2) + rows[..., D:] @ beta


def histories(rows: Any, rewards: Any) -> list[tuple[Any, Any]]:
    return list(zip(rows, rewards, strict=True))


# -- one offset is as good as all pooled columns ---------------------------------------------------


def both_priors(kind: str, covariance_type: str) -> tuple[mixts.MixturePrior, mixts.MixturePrior]:
    """Return a prior of rows [z, o], and the same prior of rows [z, x]: singular covariances."""
    rng = np.random.default_rng(7)
    beta, mean = rng.normal(size=P), rng.normal(size=(2, D))
    roots = rng.normal(size=(2, D, D)) / 2
    covariance = roots @ np.swapaxes(roots, 1, 2)
    if covariance_type == "diag":
        covariance = np.diagonal(covariance, axis1=1, axis2=2).copy()
    if covariance_type == "tied":
        covariance = covariance[0]
    ends = {"full": ((0, 0), (0, P), (0, P)), "tied": ((0, P), (0, P)), "diag": ((0, 0), (0, P))}
    dense = np.append(mean, np.tile(beta, (2, 1)), axis=1)

    def family(mean: Any, covariance: Any) -> Any:
        if kind == "clicks":
            return mixts.LinearBernoulli(mean, covariance, covariance_type)  # type: ignore[arg-type]
        if kind == "noise of each task":
            return mixts.LinearStudent(mean, covariance, 0.5, 6.0, covariance_type)  # type: ignore[arg-type]
        return mixts.LinearGaussian(mean, covariance, 0.5, covariance_type)  # type: ignore[arg-type]

    short = family(mean, covariance).with_offset()
    return (
        mixts.MixturePrior(short, [0.4, 0.6]),
        mixts.MixturePrior(family(dense, np.pad(covariance, ends[covariance_type])), [0.4, 0.6]),
    )


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
@pytest.mark.parametrize("kind", ["common noise", "noise of each task"])
def test_offset_equals_dense_singular_covariance(kind: str, covariance_type: str) -> None:
    short, dense = both_priors(kind, covariance_type)
    assert short.family.has_offset
    beta = dense.family.mean[0, D:]
    rows, means = drawn(1, 4, 12)
    rewards = means + 0.5 * np.random.default_rng(2).normal(size=means.shape)
    shorter = np.append(rows[..., :D], (rows[..., D:] @ beta)[..., None], axis=2)
    one, other = short.belief(n_tasks=4), dense.belief(n_tasks=4)
    for t in range(12):
        one.update(shorter[:, t], rewards[:, t])
        other.update(rows[:, t], rewards[:, t])
    again = short.condition(with_offsets(other.statistics, beta))
    for belief in (one, again):
        np.testing.assert_allclose(belief.log_evidence, other.log_evidence, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(belief.weights, other.weights, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(
            belief.mean_rewards(shorter[0]), other.mean_rewards(rows[0]), rtol=1e-10, atol=1e-10
        )
        np.testing.assert_allclose(
            belief.component_covariance[:, :, :D, :D],
            other.component_covariance[:, :, :D, :D],
            rtol=1e-10, atol=1e-10,
        )  # fmt: skip


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
def test_offset_of_clicks_equals_dense_singular_covariance(covariance_type: str) -> None:
    """Modes are the same; integrals use the points of other dimensions, and say how well."""
    short, dense = both_priors("clicks", covariance_type)
    beta = dense.family.mean[0, D:]
    rows, odds = drawn(3, 4, 30)
    clicks = (np.random.default_rng(4).random(odds.shape) < expit(odds)).astype(float)
    other = dense.belief(n_tasks=4)
    for t in range(30):
        other.update(rows[:, t], clicks[:, t])
    one = short.condition(with_offsets(other.statistics, beta))
    modes = [
        posterior_moments(prior.family.design, click_tasks(belief.statistics), 0)
        for prior, belief in ((short, one), (dense, other))
    ]
    np.testing.assert_allclose(modes[0].log_evidence, modes[1].log_evidence, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        modes[0].mean[..., :D], modes[1].mean[..., :D], rtol=1e-10, atol=1e-10
    )
    error = np.hypot(one.evidence_error, other.evidence_error)
    assert (np.abs(one.log_evidence - other.log_evidence) <= 3 * error + 1e-10).all()


# -- learning beside other programs ----------------------------------------------------------------


def test_one_component_is_the_mixed_model_of_statsmodels() -> None:
    models = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    rows, means = drawn(5, 300, 15)
    rewards = means + 0.5 * np.random.default_rng(6).normal(size=means.shape)
    found = learn_pooled(histories(rows, rewards), 1, P, ridge=0.0, seed=1, tolerance=1e-8)
    flat, groups = rows.reshape(-1, D + P), np.repeat(np.arange(300), 15)
    theirs = models.MixedLM(rewards.ravel(), flat, groups, exog_re=flat[:, :D]).fit(reml=False)
    ours = np.append(found.prior.family.mean[0, :D], found.coefficients)
    # The weak hyperprior, one pseudo-task of 300, moves the variances by less than one percent.
    np.testing.assert_allclose(ours, theirs.fe_params, atol=0.02 * theirs.bse_fe.min())
    covariance = found.prior.family.covariance[0, :D, :D]
    np.testing.assert_allclose(covariance, theirs.cov_re, atol=0.01 * theirs.cov_re.max())
    assert found.prior.family.noise_std**2 == pytest.approx(theirs.scale, rel=0.01)


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("ridge", [0.0, 20.0])
def test_without_variance_it_is_the_logistic_regression_of_scikit_learn(ridge: float) -> None:
    rows, odds = drawn(8, 60, 20)
    rows = rows[..., [0, *range(D, D + P)]]  # an intercept, which has no penalty
    clicks = (np.random.default_rng(9).random(odds.shape) < expit(odds)).astype(float)
    family = mixts.LinearBernoulli([[0.0]], [[0.0]], "diag").with_offset()
    statistics = mixts.learning.statistics_of(histories(rows, clicks))
    found = improved(mixts.MixturePrior(family), statistics, np.zeros(P), ridge, 1e-11)
    theirs = LogisticRegression(C=1 / ridge if ridge else np.inf, tol=1e-10, max_iter=1000)
    theirs.fit(rows[..., 1:].reshape(-1, P), clicks.ravel())
    np.testing.assert_allclose(found.beta, theirs.coef_[0], atol=1e-5)
    assert found.prior.family.mean[0, 0] == pytest.approx(theirs.intercept_[0], abs=1e-5)


def test_without_variance_rewards_have_least_squares() -> None:
    rows, means = drawn(10, 50, 10)
    rewards = means + 0.5 * np.random.default_rng(11).normal(size=means.shape)
    family = mixts.LinearGaussian(np.zeros((1, D)), np.zeros((1, D)), 0.5, "diag").with_offset()
    statistics = mixts.learning.statistics_of(histories(rows, rewards))
    assert isinstance(statistics, LinearStatistics)
    found = improved(mixts.MixturePrior(family), statistics, np.zeros(P), 0.0, 1e-11)
    ours = np.append(found.prior.family.mean[0, :D], found.beta)
    theirs = np.linalg.lstsq(rows.reshape(-1, D + P), rewards.ravel(), rcond=None)[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize("kind", ["common noise", "noise of each task", "clicks"])
def test_the_gradient_is_that_of_the_evidence(kind: str) -> None:
    """No step along any coefficient improves the evidence that the families compute."""
    short, _ = both_priors(kind, "full")
    rows, odds = drawn(12, 80, 30)
    rng = np.random.default_rng(13)
    rewards = odds + 0.5 * rng.normal(size=odds.shape)
    if kind == "clicks":
        rewards = (rng.random(odds.shape) < expit(odds)).astype(float)
    statistics = mixts.learning.statistics_of(histories(rows, rewards))
    found = improved(short, statistics, np.zeros(P), 1.0, 1e-11)

    def objective(beta: Any) -> float:
        evidence = mixts.learning.mixture_evidence(found.prior, with_offsets(statistics, beta))
        return float(evidence.sum() - (beta**2).sum() / 2)

    # The evidence of clicks has an error of its own, in which shorter steps drown.
    length = 0.1 if kind == "clicks" else 0.001
    pairs = [(objective(found.beta + x), objective(found.beta - x)) for x in length * np.eye(P)]
    up, down = np.array(pairs).T
    curve, slope = up + down - 2 * objective(found.beta), up - down
    assert (curve < 0).all()
    distance = np.abs(slope / (2 * curve)) * length
    assert (distance < (0.01 if kind == "clicks" else 1e-4)).all()


def test_the_information_of_short_tasks_is_positive() -> None:
    """With broad coefficients, posteriors of few clicks are far from normal."""
    rows, odds = drawn(17, 40, 3)
    clicks = (np.random.default_rng(18).random(odds.shape) < expit(odds)).astype(float)
    family = mixts.LinearBernoulli(np.zeros((1, D)), np.full((1, D), 30.0), "diag").with_offset()
    statistics = mixts.learning.statistics_of(histories(rows, clicks))
    found = equations(mixts.MixturePrior(family), statistics, np.zeros(P))
    assert np.linalg.eigvalsh(found.information).min() > -1e-9
    before = found.log_evidence.sum()
    assert improved(mixts.MixturePrior(family), statistics, np.zeros(P), 0.1).objective > before


# -- the ridge -------------------------------------------------------------------------------------


def test_noise_has_an_infinite_ridge_and_effects_have_a_small_one() -> None:
    rng = np.random.default_rng(14)
    rows, means = drawn(15, 100, 10)
    rewards = means + 0.5 * rng.normal(size=means.shape)
    rows[..., D:] = rng.normal(size=rows[..., D:].shape).round(2)  # nothing to do with the rewards
    chance = learn_pooled(histories(rows, rewards), 1, P, seed=1)
    assert np.abs(chance.coefficients).max() < 0.05
    rows, means = drawn(15, 100, 10)
    effects = learn_pooled(
        histories(rows, means + 0.5 * rng.normal(size=means.shape)), 1, P, seed=1
    )
    np.testing.assert_allclose(effects.coefficients, [1.0, -0.5, 0.8, 0.0], atol=0.25)
    assert effects.ridge < chance.ridge


def test_gains_of_held_out_tasks_are_those_of_learning_on_the_others() -> None:
    rng = np.random.default_rng(17)
    rows, means = drawn(18, 23, 8)
    tasks = histories(rows, means + 0.5 * rng.normal(size=means.shape))
    statistics = mixts.learning.statistics_of(tasks)
    prior = mixts.learning.learn_pooled(tasks, 1, P, seed=1).prior
    unit, gains = held_out_gains(prior, statistics, P, 3)
    order = _random.stream(3, "pooled", "folds").permutation(len(tasks))
    direct = np.zeros(len(RIDGES))
    for fold in np.array_split(order, N_FOLDS):
        held, others = statistics[np.sort(fold)], statistics[np.setdiff1d(order, fold)]
        for i, ridge in enumerate(RIDGES):
            found = improved(prior, others, np.zeros(P), ridge * unit, least_gain=1e-13)
            direct[i] += equations(found.prior, held, found.beta).log_evidence.sum()
    np.testing.assert_allclose(gains - gains[0], direct - direct[0], rtol=1e-4, atol=1e-4)


def test_a_small_gain_does_not_pay_for_effects() -> None:
    kept = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows, means = drawn(100 + seed, 60, 8)
        rows[..., D:] = rng.normal(size=(len(rows), 1, P)).round(2)
        rewards = rows[..., 0] + rng.normal(size=means.shape)
        kept += bool(learn_pooled(histories(rows, rewards), 1, P, seed=1).coefficients.any())
    assert kept <= 4, f"{kept} of 30 data sets without effects have some; 8 would at any gain"


def test_one_task_has_a_ridge() -> None:
    rows, means = drawn(16, 1, 40)
    statistics = mixts.learning.statistics_of(histories(rows, means))
    short, _ = both_priors("common noise", "full")
    assert 0 < best_ridge(short.collapse(), statistics, P, 1) < np.inf


def test_tasks_whose_rows_repeat_have_one_row_in_a_table() -> None:
    rows = np.array([[[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]])
    statistics = mixts.learning.statistics_of(histories(rows, np.array([[1.0, 0.0]])))
    assert isinstance(statistics, LinearBernoulliStatistics)
    shorter = with_offsets(statistics, np.array([2.0, 2.0]))
    np.testing.assert_array_equal(shorter.array("rows"), [[1.0, 2.0]])
    np.testing.assert_array_equal(shorter.array("trials"), [2])
