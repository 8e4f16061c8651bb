"""Linear posteriors in the core: dropped, grown, dormant or refreshed, the numbers are the same.

Everything is compared with a belief that is computed afresh from the statistics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _program
from mixts.families import _core_linear, _linear_bernoulli_posterior
from mixts.families._core_linear import CoreLinearPosterior
from mixts.families.linear import LinearPosterior
from tests.programs import CORE

KINDS = ("full", "tied", "diag", "spherical")
kinds = pytest.mark.parametrize("kind", KINDS)
N_COMPONENTS = 3
TOLERANCE = {"rtol": 1e-8, "atol": 1e-9}

pytestmark = [
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.skipif(CORE is None, reason="the compiled core is not installed"),
]


def make_prior(kind: str, d: int, spread: float = 1.0, noise_std: float = 0.5) -> Any:
    rng = np.random.default_rng(d)
    root = rng.normal(size=(N_COMPONENTS, d, d)) / np.sqrt(d)
    full = root @ np.swapaxes(root, 1, 2) + 0.05 * np.eye(d)
    covariance = {
        "full": (full + np.swapaxes(full, 1, 2)) / 2,
        "tied": (full[0] + full[0].T) / 2,
        "diag": rng.uniform(0.1, 1.0, (N_COMPONENTS, d)),
        "spherical": np.array([0.3, 0.6, 0.3]),  # the first and the last share a root
    }[kind]
    mean = spread * rng.normal(size=(N_COMPONENTS, d))
    family = mixts.LinearGaussian(mean, covariance, noise_std, covariance_type=kind)
    return mixts.MixturePrior(family, weights=[0.5, 0.2, 0.3])


def make_posterior(prior: mixts.MixturePrior, n_tasks: int, n_slots: int | None) -> Any:
    """A posterior with room for so many tasks in the core; None: for all of them."""
    family: Any = prior.family
    if _program.core is None:
        return LinearPosterior(family, family.empty_statistics(n_tasks), prior.log_weights)
    budget = 1 << 30 if n_slots is None else n_slots * family.task_bytes
    empty = family.empty_statistics(n_tasks)
    return CoreLinearPosterior(family, empty, prior.log_weights, budget=budget)


class Fixed:
    """A generator whose normal numbers are known: parameters become a root's columns."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def standard_normal(self, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(self.x, shape).copy()


def sampled_moments(posterior: Any, task: int, component: int) -> tuple[Any, Any]:
    """Mean and covariance of what the sampler makes of zeros and of unit vectors."""
    d = posterior.prior.n_features
    tasks, latent = np.array([task]), np.array([component])
    mean = posterior.sample(Fixed(np.zeros(d)), tasks, latent)[0]
    columns = [posterior.sample(Fixed(e), tasks, latent)[0] - mean for e in np.eye(d)]
    return mean, np.transpose(columns) @ np.array(columns)


def assert_is_its_statistics(posterior: Any, prior: mixts.MixturePrior) -> None:
    fresh = prior.condition(posterior.statistics.copy())
    np.testing.assert_allclose(posterior.log_evidence(), fresh.log_evidence, **TOLERANCE)
    every = np.arange(len(posterior.statistics))
    np.testing.assert_allclose(posterior.component_means(every), fresh.component_mean, **TOLERANCE)
    active = ~np.isneginf(posterior.relative_evidence)
    found = posterior.relative_evidence[active]
    np.testing.assert_allclose(found, fresh.log_evidence[active], **TOLERANCE)
    for task in every:
        for component in np.flatnonzero(active[task]):
            mean, covariance = sampled_moments(posterior, task, component)
            np.testing.assert_allclose(mean, fresh.component_mean[task, component], **TOLERANCE)
            np.testing.assert_allclose(
                covariance, fresh.component_covariance[task, component], **TOLERANCE
            )


# -- single observations, batches and runs ---------------------------------------------------------


@kinds
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
def test_every_number_of_observations(kind: str, d: int) -> None:
    """Fewer than half the dimension, about it, and more: no step may lose anything."""
    prior = make_prior(kind, d)
    posterior, rng = make_posterior(prior, 1, None), np.random.default_rng(0)
    for _ in range(2 * d + 4):
        assert_is_its_statistics(posterior, prior)
        posterior.update(np.zeros(1, int), (rng.normal(size=(1, d)), rng.normal(size=1)))
    assert_is_its_statistics(posterior, prior)


@kinds
def test_many_dimensions(kind: str) -> None:
    """Two tasks in forty dimensions, one of them observed more often than the other."""
    prior = make_prior(kind, 40)
    posterior, rng = make_posterior(prior, 2, None), np.random.default_rng(0)
    for t in range(44):
        tasks = np.array([0, 1] if t % 3 else [1])
        posterior.update(tasks, (rng.normal(size=(len(tasks), 40)), rng.normal(size=len(tasks))))
        if t in (7, 8, 9, 16, 17, 19, 20, 21, 43):
            assert_is_its_statistics(posterior, prior)


@kinds
@pytest.mark.parametrize("n", [1, 3, 8, 9, 30])
def test_a_batch_after_single_observations(kind: str, n: int) -> None:
    """Up to 2 d at a time a step each, more as one factorisation."""
    prior = make_prior(kind, 4)
    posterior, rng = make_posterior(prior, 1, None), np.random.default_rng(0)
    for size in (1, n, 1, n, 1, 1):
        posterior.update(np.zeros(size, int), (rng.normal(size=(size, 4)), rng.normal(size=size)))
        assert_is_its_statistics(posterior, prior)


@kinds
@pytest.mark.parametrize("n_slots", [1, None])
@pytest.mark.parametrize("reads", [1, 7, 1000], ids=["read always", "read at times", "read last"])
def test_runs_of_one_action(kind: str, n_slots: int | None, reads: int) -> None:
    """The same action again and again, as a bandit does; read in between, or not."""
    prior, d = make_prior(kind, 4), 4
    posterior, rng = make_posterior(prior, 2, n_slots), np.random.default_rng(5)
    actions = np.concatenate([rng.normal(size=(2, d)), np.eye(d)[[1]], np.zeros((1, d))])
    lengths = [1, 6, 2, 9, 1, 1, 3, 12, 30, 4]
    history = np.repeat(rng.integers(4, size=len(lengths)), lengths)
    for t, action in enumerate(history):
        tasks = np.array([[0], [1], [0, 1], [1, 1, 1]][t % 4])
        posterior.update(
            tasks, (np.tile(actions[action], (len(tasks), 1)), rng.normal(size=len(tasks)))
        )
        if t % reads == reads - 1:
            assert_is_its_statistics(posterior, prior)
    assert_is_its_statistics(posterior, prior)


# -- more tasks than fit ---------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("n_slots", [1, 2, 3])
def test_a_full_pool_changes_nothing(kind: str, n_slots: int) -> None:
    """Seven tasks in one, two or three slots, beside seven in seven."""
    prior, n_tasks, d = make_prior(kind, 4), 7, 4
    small, large = make_posterior(prior, n_tasks, n_slots), make_posterior(prior, n_tasks, None)
    rng = np.random.default_rng(1)
    for size in (7, 1, 3, 2, 7, 12, 1, 40, 5, 1, 7, 2):
        tasks = rng.integers(n_tasks, size=size)
        rows, rewards = rng.normal(size=(size, d)), rng.normal(size=size)
        for posterior in (small, large):
            posterior.update(tasks, (rows, rewards))
        assert small._core.n_resident <= n_slots
        np.testing.assert_allclose(small.log_evidence(), large.log_evidence(), **TOLERANCE)
    assert large._core.n_resident == n_tasks
    assert_is_its_statistics(small, prior)
    assert_is_its_statistics(large, prior)
    np.testing.assert_allclose(
        small.statistics.array("factor"), large.statistics.array("factor"), rtol=1e-12, atol=1e-12
    )


@kinds
def test_samples_of_more_tasks_than_fit(kind: str) -> None:
    """All at once, with repeats, in any order: each entry has its own task and component."""
    prior, n_tasks, d = make_prior(kind, 4), 5, 4
    posterior, rng = make_posterior(prior, n_tasks, 2), np.random.default_rng(1)
    posterior.update(np.arange(15) % 5, (rng.normal(size=(15, d)), rng.normal(size=15)))
    fresh = prior.condition(posterior.statistics.copy())
    tasks, latent = np.array([4, 0, 3, 4, 1, 2, 0]), np.array([0, 1, 2, 2, 0, 1, 1])
    means = posterior.sample(Fixed(np.zeros(d)), tasks, latent)
    np.testing.assert_allclose(means, fresh.component_mean[tasks, latent], **TOLERANCE)


@kinds
def test_tasks_that_arrive_when_the_pool_is_full(kind: str) -> None:
    prior = make_prior(kind, 3)
    posterior, rng = make_posterior(prior, 2, 2), np.random.default_rng(1)
    posterior.update(np.array([0, 1]), (rng.normal(size=(2, 3)), rng.normal(size=2)))
    posterior.add_tasks(3)
    for _ in range(4):
        posterior.update(np.arange(5), (rng.normal(size=(5, 3)), rng.normal(size=5)))
    assert posterior._core.n_resident <= 2
    assert_is_its_statistics(posterior, prior)


def test_clicks_of_more_tasks_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task's posteriors are kept at a time: means and draws are those of a roomy belief."""
    prior = mixts.MixturePrior(mixts.LinearBernoulli([[1, 0], [0, 1]], [0.5, 0.5], "spherical"))
    large, rng, read = prior.belief(3), np.random.default_rng(1), [0, 1, 2, 0]
    monkeypatch.setattr(_linear_bernoulli_posterior, "BUDGET_BYTES", 0)
    small = prior.belief(3)
    for _ in range(5):
        rows, clicks = rng.normal(size=(3, 2)), rng.integers(2, size=3)
        found = []
        for belief in (small, large):
            belief.update(rows, clicks, tasks=[0, 1, 2])
            draws = belief.sample(np.random.default_rng(0), read)
            means = belief.posterior.component_means(np.array(read))
            found.append((*draws, means, belief.mean_rewards(rows)))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
    assert (len(small.posterior._kept), len(large.posterior._kept)) == (1, 3)


# -- dormant components ----------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("n_slots", [1, None])
def test_dormant_components_wake(kind: str, n_slots: int | None) -> None:
    """Two tasks whose fortunes turn: first one component explains the rewards, then another."""
    prior, d = make_prior(kind, 3, spread=4.0, noise_std=0.2), 3
    posterior, rng = make_posterior(prior, 2, n_slots), np.random.default_rng(2)
    marked, woke, before = 0, 0, np.zeros((2, N_COMPONENTS), bool)
    means = prior.family.mean
    for phase in range(6):
        for t in range(25):
            tasks = np.array([0, 1] if t % 2 else [1, 0])
            rows = rng.normal(size=(2, d)) * np.eye(d)[phase % d]
            truth = means[(tasks + phase // 2) % N_COMPONENTS]
            rewards = (rows * truth).sum(axis=1) + 0.2 * rng.normal(size=2)
            posterior.update(tasks, (rows, rewards))
            now = np.isneginf(posterior.relative_evidence)
            marked, woke, before = marked + (now & ~before).sum(), woke + (before & ~now).sum(), now
        assert_is_its_statistics(posterior, prior)
    # Components that share a root are active as long as any of them matters.
    assert (marked > 0) == (kind != "tied")
    assert woke > 0 or kind in ("tied", "spherical")


@pytest.mark.parametrize("n", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_a_component_that_matters_is_never_dormant(n: int) -> None:
    """Random histories whose truth jumps: dormant components have less than 1e-16 of the weight.

    Checked after every update, against evidence computed from the statistics. Sixty histories have
    every dimension with every kind and every number of slots.
    """
    marked, woke = 0, 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        d, kind, n_slots = 1 + seed % 5, KINDS[seed % 4], 1 + seed % 3
        noise_std = 10 ** rng.uniform(-2, 0.5)
        prior = make_prior(kind, d, spread=10 ** rng.uniform(-0.5, 1), noise_std=noise_std)
        posterior = make_posterior(prior, 3, n_slots)
        before = np.zeros((3, N_COMPONENTS), bool)
        for t in range(40):
            if t % 13 == 0:
                theta = prior.family.mean[rng.integers(N_COMPONENTS, size=3)]
            size = rng.choice([1, 2, 2 * d + 3])
            tasks, rows = rng.integers(3, size=size), rng.normal(size=(size, d))
            rows *= rng.choice([np.ones(d), np.eye(d)[t % d]])
            noise = noise_std * rng.normal(size=size)
            posterior.update(tasks, (rows, (rows * theta[tasks]).sum(axis=1) + noise))
            log_weights = np.log(prior.condition(posterior.statistics.copy()).weights + 1e-300)
            dormant = np.isneginf(posterior.relative_evidence)
            below = log_weights - log_weights.max(axis=1, keepdims=True)
            assert np.all(below[dormant] < np.log(1e-16)), (seed, t)
            marked, woke = marked + (dormant & ~before).sum(), woke + (before & ~dormant).sum()
            before = dormant
    assert marked > n
    assert woke > n / 5


# -- refresh ---------------------------------------------------------------------------------------


@kinds
def test_rounding_is_wiped_out_now_and_then(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine thousand single steps cross two refreshes; frequent ones change nothing either."""
    prior, d, n = make_prior(kind, 3), 3, 9000
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(n, d))
    rewards = rows @ rng.normal(size=d) + 0.5 * rng.normal(size=n)
    belief = prior.belief()
    for row, reward in zip(rows, rewards, strict=True):
        belief.update(row, reward)
    fresh = prior.condition(belief.statistics)
    np.testing.assert_allclose(belief.log_evidence, fresh.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(belief.component_mean, fresh.component_mean, rtol=1e-8)
    monkeypatch.setattr(_core_linear, "_REFRESH", 4)
    often = make_posterior(prior, 1, None)
    for t in range(70):
        often.update(np.zeros(1, int), (rows[t : t + 1], rewards[t : t + 1]))
        assert_is_its_statistics(often, prior)
