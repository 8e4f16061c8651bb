"""Actions compared under linear posteriors: moments, votes and regrets, by plain formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _program
from mixts.errors import ActionError, ParameterError
from tests.unit.families.test_linear_pool import TOLERANCE, kinds, make_posterior, make_prior

pytestmark = pytest.mark.usefixtures("unchecked", "program")

N_SAMPLES = 60


def learned(kind: str, d: int, n_tasks: int, n_slots: int | None = None) -> tuple[Any, Any]:
    """A prior and a posterior: task t has 2 t observations, some of them repeats that wait."""
    prior = make_prior(kind, d)
    posterior, rng = make_posterior(prior, n_tasks, n_slots), np.random.default_rng(3)
    for task in range(n_tasks):
        row = rng.normal(size=(1, d))
        for t in range(2 * task):
            row = rng.normal(size=(1, d)) if t % 3 == 0 else row
            posterior.update(np.array([task]), (row, rng.normal(size=1)))
    return prior, posterior


def weights_of(prior: mixts.MixturePrior, posterior: Any, tasks: Any) -> Any:
    logs = prior.log_weights + posterior.relative_evidence[tasks]
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def compare(prior: Any, posterior: Any, tasks: Any, actions: Any, mask: Any = None) -> Any:
    """Probabilities, errors and regrets, from the same seed."""
    tasks = np.asarray(tasks)
    mask = np.ones((len(tasks), actions.shape[-2]), bool) if mask is None else mask
    weights = weights_of(prior, posterior, tasks)
    arguments = (tasks, weights, actions, mask, N_SAMPLES)
    probabilities, variances, regrets = posterior.best_in_draws(
        np.random.default_rng(7), *arguments
    )
    return probabilities, np.sqrt(variances), regrets


# -- moments ---------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("n_slots", [1, None])
@pytest.mark.parametrize("shared", [True, False], ids=["one set", "a set for each"])
@pytest.mark.parametrize(("d", "n_actions"), [(1, 1), (3, 5), (6, 2), (5, 16), (4, 33)])
def test_moments(kind: str, n_slots: int | None, shared: bool, d: int, n_actions: int) -> None:
    prior, posterior = learned(kind, d, 4, n_slots)
    tasks, rng = np.array([3, 0, 1, 2, 3, 3]), np.random.default_rng(5)
    actions = rng.normal(size=(n_actions, d) if shared else (len(tasks), n_actions, d))
    sets = np.broadcast_to(actions, (len(tasks), n_actions, d))
    fresh = prior.condition(posterior.statistics.copy())
    mean, variance = posterior.action_moments(tasks, actions)
    expected = np.einsum("mkd,mld->mlk", sets, fresh.component_mean[tasks])
    np.testing.assert_allclose(mean, expected, **TOLERANCE)
    np.testing.assert_array_equal(posterior.action_means(tasks, actions), mean)
    expected = np.einsum("mkd,mlde,mke->mlk", sets, fresh.component_covariance[tasks], sets)
    np.testing.assert_allclose(variance, expected, **TOLERANCE)


def with_dormant(kind: str, n_slots: int | None) -> tuple[Any, Any]:
    """Two tasks, each explained by one component: the others are dormant, unless they share it."""
    prior = make_prior(kind, 3, spread=4.0, noise_std=0.2)
    posterior, rng = make_posterior(prior, 2, n_slots), np.random.default_rng(2)
    for _ in range(12):
        rows, tasks = rng.normal(size=(2, 3)), np.array([0, 1])
        posterior.update(tasks, (rows, (rows * prior.family.mean[:2]).sum(axis=1)))
    return prior, posterior


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
@pytest.mark.parametrize("n_slots", [1, None])
def test_dormant_components_are_left_out(kind: str, n_slots: int | None) -> None:
    if _program.core is None:
        pytest.skip("no component is dormant in the plain program")
    prior, posterior = with_dormant(kind, n_slots)
    tasks, actions = np.array([0, 1]), np.random.default_rng(0).normal(size=(4, 3))
    dormant = np.isneginf(posterior.relative_evidence)
    assert dormant.any()
    assert not dormant.all()
    mean, variance = posterior.action_moments(tasks, actions)
    assert not mean[dormant].any()
    assert not variance[dormant].any()
    fresh = prior.condition(posterior.statistics.copy())
    expected = np.einsum("kd,mld->mlk", actions, fresh.component_mean)
    np.testing.assert_allclose(mean[~dormant], expected[~dormant], **TOLERANCE)
    probabilities, _, regrets = compare(prior, posterior, tasks, actions)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    mixture = np.einsum("ml,mlk->mk", fresh.weights, expected)
    np.testing.assert_allclose(
        regrets - regrets.min(axis=1, keepdims=True),
        mixture.max(axis=1, keepdims=True) - mixture,
        **TOLERANCE,
    )


# -- draws -----------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("n_actions", [1, 2, 7, 16, 17, 40])
def test_draws_by_a_plain_loop(kind: str, n_actions: int) -> None:
    """The same normal numbers, without projections: draw, score, vote."""
    if _program.core is None:
        pytest.skip("the plain program is a plain loop, with other roots")
    prior, posterior = learned(kind, 4, 3)
    actions = np.random.default_rng(1).normal(size=(n_actions, 4))
    found = compare(prior, posterior, [2], actions)
    fresh = prior.condition(posterior.statistics.copy()).as_prior(2)
    weights, family = weights_of(prior, posterior, [2])[0], fresh.family
    rng, probability, square, gain = np.random.default_rng(7), 0.0, 0.0, 0.0
    means = actions @ (weights @ family.mean)
    x = rng.standard_normal((int((2 + np.floor(N_SAMPLES / 2 * weights)).sum()), 4))
    for s in prior.family.roots.members:
        n = 2 + int(N_SAMPLES / 2 * weights[s])
        own, x = x[:n], x[n:]
        step = own @ np.linalg.cholesky(family.covariance[s]).T @ actions.T
        both = np.stack([actions @ family.mean[s] + step, actions @ family.mean[s] - step])
        votes = (both == both.max(axis=2, keepdims=True)).mean(axis=0)
        probability = probability + weights[s] * votes.mean(axis=0)
        square = square + weights[s] ** 2 * votes.var(axis=0) / (n - 1)
        gain += weights[s] * (both.max(axis=2) - both[:, :, means.argmax()]).mean()
    assert len(x) == 0
    regret = gain + means.max() - means
    plain = (probability, np.sqrt(square), regret)
    for array, expected in zip(found, plain, strict=True):
        np.testing.assert_allclose(array[0], expected, rtol=1e-7, atol=1e-9)


@kinds
@pytest.mark.parametrize("shared", [True, False], ids=["one set", "a set for each"])
def test_many_decisions_are_single_ones_in_order(kind: str, shared: bool) -> None:
    """To the last bit."""
    prior, posterior = learned(kind, 3, 4)
    tasks = np.array([1, 3, 3, 0, 2])
    actions = np.random.default_rng(2).normal(size=(5, 3) if shared else (5, 5, 3))
    mask = np.random.default_rng(4).random((5, 5)) < 0.7
    mask[:, 0] = True
    together = compare(prior, posterior, tasks, actions, mask)
    weights, rng = weights_of(prior, posterior, tasks), np.random.default_rng(7)
    for i in range(5):
        part = slice(i, i + 1)
        own = actions if shared else actions[part]
        alone = posterior.best_in_draws(rng, tasks[part], weights[part], own, mask[part], N_SAMPLES)
        np.testing.assert_array_equal(alone[2, 0], together[2][i])


@kinds
@pytest.mark.parametrize("n_slots", [1, 2])
def test_tasks_that_were_dropped(kind: str, n_slots: int) -> None:
    prior, small = learned(kind, 4, 5, n_slots)
    _, large = learned(kind, 4, 5)
    actions = np.random.default_rng(2).normal(size=(5, 6, 4))
    found = [compare(prior, posterior, np.arange(5), actions) for posterior in (small, large)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    assert _program.core is None or small._core.n_resident <= n_slots
    # In another order, every decision still has its own task, and its own actions.
    order = np.array([4, 1, 3, 0, 2])
    mixed = compare(prior, small, order, actions[order])
    gaps = [regrets - regrets.min(axis=1, keepdims=True) for regrets in (mixed[2], found[1][2])]
    np.testing.assert_allclose(gaps[0], gaps[1][order], rtol=1e-7, atol=1e-9)


# -- special actions -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_actions", [3, 9, 16, 30, 35])
def test_equal_actions_share_everything(n_actions: int) -> None:
    """Wherever they lie among the others."""
    prior, posterior = learned("full", 5, 3)
    actions = np.random.default_rng(6).normal(size=(n_actions, 5))
    best = int(np.argmax(compare(prior, posterior, [2], actions)[0]))
    copies = [0, n_actions // 2, n_actions - 1]
    actions[copies] = actions[best]
    everything = [found[0] for found in compare(prior, posterior, [2], actions)]
    for found in everything:
        assert len(set(found[copies])) == 1
    probabilities = everything[0]
    assert 0 < probabilities[copies[0]] <= 1 / 3
    np.testing.assert_allclose(probabilities.sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_components", [1, 2])
def test_an_action_that_is_surely_best(n_components: int) -> None:
    family = mixts.LinearGaussian(
        np.tile([1.0, 2.0], (n_components, 1)), np.zeros((n_components, 2)), 0.5, "diag"
    )
    prior = mixts.MixturePrior(family)
    posterior = make_posterior(prior, 1, None)
    actions = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    probabilities, errors, regrets = compare(prior, posterior, [0], actions)
    np.testing.assert_array_equal(probabilities, [[0.0, 1.0, 0.0]])
    np.testing.assert_allclose(errors, np.zeros((1, 3)), atol=1e-30)
    np.testing.assert_array_equal(regrets, [[1.0, 0.0, 0.5]])


def test_known_components_need_no_luck() -> None:
    """Without spread inside the components the regret is the exact sum over them."""
    mean = np.array([[1.0, 0.0], [0.0, 3.0]])
    family = mixts.LinearGaussian(mean, np.zeros((2, 2)), 0.5, "diag")
    prior = mixts.MixturePrior(family, weights=[0.9, 0.1])
    posterior = make_posterior(prior, 1, None)
    probabilities, _, regrets = compare(prior, posterior, [0], np.eye(2))
    np.testing.assert_allclose(probabilities, [[0.9, 0.1]], rtol=1e-15)
    np.testing.assert_allclose(regrets, [[0.1 * 3, 0.9 * 1]], rtol=1e-14)


@kinds
def test_masked_actions_do_not_exist(kind: str) -> None:
    """Their features may be anything; the others get the numbers that they have alone."""
    prior, posterior = learned(kind, 4, 3)
    actions = np.random.default_rng(6).normal(size=(19, 4))
    mask = np.random.default_rng(9).random((1, 19)) < 0.5
    padded = np.where(mask[0, :, None], actions, [np.nan, np.inf, -np.inf, 1e300])
    found = compare(prior, posterior, [2], padded, mask)
    alone = compare(prior, posterior, [2], np.ascontiguousarray(actions[mask[0]]))
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_array_equal(one[mask], other[0])
        np.testing.assert_array_equal(one[~mask], 0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_slots", [1, None])
def test_features_must_be_finite(value: float, n_slots: int | None) -> None:
    prior, posterior = learned("full", 3, 3, n_slots)
    actions = np.random.default_rng(6).normal(size=(3, 4, 3))
    actions[1, 2, 0] = value
    with pytest.raises(ActionError, match="decision 1 must have finite features"):
        compare(prior, posterior, [0, 1, 2], actions)
    mask = np.ones((3, 4), bool)
    mask[1, 2] = False
    assert np.isfinite(compare(prior, posterior, [0, 1, 2], actions, mask)[2]).all()


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("place", [0, 9])
def test_features_whose_scores_are_no_numbers_are_refused(place: int) -> None:
    """The difference of two products that overflow compares with nothing, wherever it stands."""
    root = 1e9 * np.array([[1.0, 0.0], [-1.0, 1.0]])
    family = mixts.LinearGaussian(np.zeros((2, 2)), np.stack([root @ root.T, 2 * root @ root.T]), 1)
    actions = np.random.default_rng(1).normal(size=(12, 2))
    actions[place] = 1e300
    agent = mixts.MixTS(mixts.MixturePrior(family), seed=1)
    with pytest.raises(ActionError, match="decision 0 must have finite features"):
        agent.action_probabilities(actions)


def test_draws_that_would_take_minutes_are_refused() -> None:
    """The core's loop cannot be interrupted."""
    agent = mixts.MixTS(make_prior("full", 3), seed=1, n_samples=10**9)
    with pytest.raises(ParameterError, match="n_samples must be at most 869565217 for sets of 5"):
        agent.action_probabilities(np.eye(5, 3))
