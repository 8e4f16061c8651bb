"""Calls of ``learn``: the same result on every engine, and the content of the result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.families import BernoulliStatistics
from mixts.learning import learn
from mixts.learning.select import gap_error, one_standard_error
from tests.oracles.learning_references import (
    HORIZON,
    KINDS,
    SUPPORT,
    Case,
    case_of,
    drawn,
    statistics_of,
    true_prior,
)

FEW = ("bernoulli", "poisson", "full", "support")
"""One of each way in which components are improved."""


@cache
def case(kind: str) -> Case:
    return case_of(kind)


def learned(kind: str, n_components: Any = 2, statistics: Any = None, **more: Any) -> Any:
    given = {"seed": 1, "n_restarts": 2, "engine": 1, **case(kind).options, **more}
    return learn(case(kind).statistics if statistics is None else statistics, n_components, **given)


def assert_same(one: mixts.MixturePrior, two: mixts.MixturePrior) -> None:
    """To the bit."""
    np.testing.assert_array_equal(one.weights, two.weights)
    for name, array in one.family.arrays().items():
        np.testing.assert_array_equal(array, two.family.arrays()[name])
    assert one.family.settings() == two.family.settings()


# -- the same, whatever the order and wherever it runs -------------------------------------------


@pytest.mark.parametrize("kind", FEW)
def test_the_order_of_tasks_makes_no_difference(kind: str) -> None:
    order = np.random.default_rng(0).permutation(24)
    one, two = (learned(kind, statistics=s) for s in (None, case(kind).statistics[order]))
    assert_same(one.prior, two.prior)
    assert_same(one.unimodal, two.unimodal)
    np.testing.assert_array_equal(one.history.objective, two.history.objective)


def test_the_order_of_tasks_makes_no_difference_to_their_number() -> None:
    order = np.random.default_rng(0).permutation(24)
    options = {"n_folds": 2, "max_components": 2, "n_restarts": 1}
    one = learned("bernoulli", "auto", **options)
    two = learned("bernoulli", "auto", case("bernoulli").statistics[order], **options)
    assert_same(one.prior, two.prior)
    np.testing.assert_array_equal(one.selection.held_out, two.selection.held_out)
    np.testing.assert_array_equal(one.selection.bic, two.selection.bic)


def test_the_same_in_processes_and_threads(processes: Any) -> None:
    here = learned("full", n_restarts=3)
    assert_same(here.prior, learned("full", n_restarts=3, engine=None).prior)
    assert_same(here.prior, learned("full", n_restarts=3, engine=processes).prior)
    with ThreadPoolExecutor(2) as pool:
        there = learned("full", n_restarts=3, engine=pool)
        assert pool.submit(int).result() == 0  # its giver's to close
    assert_same(here.prior, there.prior)
    for one, two in zip(here.restarts, there.restarts, strict=True):
        np.testing.assert_array_equal(one.objective, two.objective)


def test_seeds() -> None:
    assert_same(learned("tied", seed=3).prior, learned("tied", seed=3).prior)
    assert learned("tied", seed=None).prior.n_components == 2
    same = [learned("tied", seed=np.random.default_rng(5)).prior for _ in range(2)]
    assert_same(*same)
    plain, by_name = learned("tied", seed=4).prior, mixts.learn_prior(
        case("tied").statistics, 2, seed=4, n_restarts=2, engine=1, covariance_type="tied"
    )  # fmt: skip
    assert_same(plain, by_name)


# -- what the result tells -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", FEW)
def test_components_come_by_weight_and_the_best_restart_is_kept(kind: str) -> None:
    result = learned(kind, 3)
    assert (np.diff(result.prior.weights) <= 0).all()
    assert result.prior.weights.sum() == pytest.approx(1.0)
    assert len(result.restarts) == 2
    assert result.history.objective[-1] == max(one.objective[-1] for one in result.restarts)
    assert result.unimodal.n_components == 1
    assert_same(result.unimodal, learned(kind, 1).prior)
    for name, array in result.prior.family.arrays().items():
        if name in ("alpha", "beta", "shape", "rate", "reward", "variance"):
            assert (array > 0).all()


def test_noise_that_is_given_is_kept() -> None:
    for kind in ("gaussian", "full"):
        for n in (1, 2):
            assert learned(kind, n, noise_std=0.37).prior.family.noise_std == 0.37


# -- how many ------------------------------------------------------------------------------------


def test_one_standard_error_by_hand() -> None:
    """Of 0, 2, 0, 2 the standard error is sqrt(1/3), and of two folds sqrt(3) times that: 1."""
    best = np.array([5.0, 3.0, 9.0, 1.0])
    swing = np.array([-1.0, 1.0, -1.0, 1.0])
    np.testing.assert_allclose(gap_error(np.array([best - swing - 0.5, best]), 2), [1.0, 0.0])
    assert one_standard_error(np.array([best - swing - 0.99, best]), 2) == 0
    assert one_standard_error(np.array([best - swing - 1.01, best]), 2) == 1
    # With five folds it is sqrt((1 + 5 / 4) / 3) = 0.866.
    assert one_standard_error(np.array([best - swing - 0.86, best]), 5) == 0
    assert one_standard_error(np.array([best - swing - 0.87, best]), 5) == 1
    # The error is that of the difference: a shift of all tasks is certain, however they vary.
    assert one_standard_error(np.array([best - 0.01, best]), 5) == 1
    assert one_standard_error(np.array([best, best - 0.01]), 5) == 0
    # The first that is near enough, though the second would be nearer.
    near = [best - swing - 0.5, best - swing / 2 - 0.1, best]
    assert one_standard_error(np.array(near), 2) == 0


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "full"])
def test_auto_finds_two_clear_kinds(kind: str) -> None:
    prior = true_prior(kind)
    # So many that other draws, as of another numpy, do not change the choice: ten seeds agree.
    n_tasks = 150
    statistics = statistics_of(drawn(prior, n_tasks, 25, seed=6), prior)
    result = learned(kind, "auto", statistics, n_folds=3, max_components=3, n_restarts=1)
    selection = result.selection
    assert selection.chosen == 2
    assert selection.members[2] > 0.5
    assert selection.candidates == (1, 2, 3)
    assert selection.held_out.shape == (3, n_tasks)
    assert selection.gap[selection.best] == 0
    assert np.argmin(selection.bic) == 1
    # BIC by hand: every component has its own numbers, and the weights sum to one.
    each = {"bernoulli": 6, "gaussian": 6, "full": 5}[kind]
    n_numbers = 2 * (each + 1) - 1 + (0 if kind == "bernoulli" else 1)
    expected = -2 * result.history.log_evidence[-1] + n_numbers * np.log(n_tasks)
    assert selection.bic[1] == pytest.approx(expected)


def n_components_of_one_kind(kind: str, seed: int, n_tasks: int = 80, **more: Any) -> int:
    """Return the number of components within one standard error, for tasks of one kind."""
    family: Any = {
        "bernoulli": mixts.BernoulliArms([[2, 4, 6, 2]], [[2, 2, 2, 2]]),
        "full": mixts.LinearGaussian([[1, -1]], [[[1.0, 0.3], [0.3, 0.5]]], 0.5),
    }[kind]
    prior = mixts.MixturePrior(family)
    tasks = drawn(prior, n_tasks, {"bernoulli": 20, "full": 10}[kind], seed)
    more = {"select": "one-standard-error", **more}
    found = learn(statistics_of(tasks, prior), "auto", seed=seed, engine=1, **more)
    return found.selection.chosen  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bernoulli", "full"])
def test_auto_leaves_one_kind_alone(kind: str) -> None:
    found = [n_components_of_one_kind(kind, 1000 + seed) for seed in range(100)]
    assert found.count(1) >= 95


def test_auto_leaves_one_kind_alone_in_a_few_trials() -> None:
    """With 95 of 100 as the least, 5 or fewer of 8 have a probability below 0.006."""
    options = {"n_tasks": 30, "n_restarts": 1, "n_folds": 3, "max_components": 2}
    found = [n_components_of_one_kind("full", 2000 + seed, **options) for seed in range(8)]
    assert found.count(1) >= 6


# -- two stages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_two_stages_find_clear_clusters(kind: str) -> None:
    """Each task is believed to be of the component that stands for its kind."""
    prior = true_prior(kind)
    rng = np.random.default_rng(7)
    parts = [drawn(mixts.MixturePrior(prior.family.select([s])), 40, 60, 8 + s) for s in (0, 1)]
    tasks = [*parts[0], *parts[1]]
    statistics = statistics_of(tasks, prior)[rng.permutation(80)]
    result = learned(kind, 2, statistics, method="two-stage")
    assert result.method == "two-stage"
    assert result.history is None
    latent = [
        result.prior.condition(statistics_of(part, prior)).weights.argmax(axis=1) for part in parts
    ]
    right = (latent[0] == 0).mean() + (latent[1] == 1).mean()
    assert max(right, 2 - right) > 1.8


def test_two_stages_have_the_moments_of_all_tasks() -> None:
    prior = true_prior("gaussian")
    statistics = statistics_of(drawn(prior, 400, 30, seed=9), prior)
    one: Any = learned("gaussian", 2, statistics, method="two-stage").unimodal.family
    expected: Any = prior.collapse().family
    sd = np.sqrt(expected.variance / 400)
    assert (np.abs(one.mean - expected.mean) < 4.5 * sd).all()
    assert np.allclose(one.variance, expected.variance, rtol=4.5 * np.sqrt(2 / 400))


# -- numbers and shapes -------------------------------------------------------------------------


def test_support_is_kept_in_the_flat_prior() -> None:
    flat: Any = mixts.learning.flat_family(
        case("support").statistics, horizon=HORIZON, support=SUPPORT
    )
    np.testing.assert_array_equal(flat.transition[0], SUPPORT)


def offset_histories(offset: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sixty linear tasks of one kind, whose rewards lie about ``offset``."""
    rng = np.random.default_rng(4)
    histories = []
    for n in rng.integers(3, 20, size=60):
        theta = np.array([offset, 0.5, -0.5]) + 0.3 * rng.normal(size=3)
        features = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
        histories.append((features, features @ theta + 0.5 * rng.normal(size=n)))
    return histories


def test_where_rewards_lie_changes_nothing_but_the_mean() -> None:
    """A centre at zero would widen what all tasks have in common, and split one kind in two."""
    here, there = (
        learn(offset_histories(offset), "auto", seed=0, n_restarts=1, max_components=2, engine=1)
        for offset in (0.0, 50.0)
    )
    assert here.selection is not None
    assert there.selection is not None
    assert (here.selection.chosen, there.selection.chosen) == (1, 1)
    ours, theirs = here.unimodal.family, there.unimodal.family
    assert np.allclose(theirs.mean - ours.mean, [[50.0, 0.0, 0.0]], atol=1e-3)
    assert np.allclose(theirs.covariance, ours.covariance, atol=1e-3)
    assert abs(theirs.noise_std - ours.noise_std) < 1e-3


@pytest.mark.parametrize("noise_std", [None, 0.5])
def test_rewards_near_a_hundred_million_keep_their_digits(noise_std: float | None) -> None:
    """Features that depend, and rewards 1e8 noises from zero: sums of squares would lose them."""

    def learned(offset: float) -> Any:
        tasks = [
            (np.column_stack([x, x[:, :1] + x[:, 1:2]]), y) for x, y in offset_histories(offset)
        ]
        return mixts.learn_prior(tasks, 1, noise_std=noise_std).family

    near, far = learned(0.0), learned(1e8)
    # A reward near 1e8 is rounded to 1.5e-8, and the factors keep sums of a hundred of them.
    assert far.noise_std == pytest.approx(near.noise_std, rel=1e-6)
    assert np.allclose(far.covariance, near.covariance, atol=1e-6)
    features = np.array([[1.0, 0.3, -2.0, 1.3]])
    assert features @ far.mean[0] - 1e8 == pytest.approx(features @ near.mean[0], abs=1e-6)


@pytest.mark.usefixtures("program")
def test_numbers_that_are_too_far_apart_are_named() -> None:
    tasks = [(np.column_stack([x, 1e6 * x[:, 1:]]), y) for x, y in offset_histories(1e8)]
    with pytest.raises(errors.StatisticsError, match=r"rewards are about 1e\+08.*Divide features"):
        mixts.learn_prior(tasks, 1, noise_std=1e-9)


@pytest.mark.parametrize("n", [2, 5])
def test_two_stages_know_how_much_tasks_differ(n: int) -> None:
    """Of Beta(2, 2) tasks with n observations each, also where n is small."""
    rng = np.random.default_rng(0)
    successes = rng.binomial(n, rng.beta(2, 2, size=(5000, 1)))
    tasks = BernoulliStatistics(successes=successes, failures=n - successes)
    family = mixts.learn_prior(tasks, 1, "two-stage", seed=0).family
    assert isinstance(family, mixts.BernoulliArms)
    # The standard error of the total is about 0.3 at n = 2: 1 / sqrt(5000) in the variance.
    assert abs((family.alpha + family.beta)[0, 0] - 4) < 1


def test_one_task_makes_two_stages_no_surer() -> None:
    successes = np.zeros((40, 2), int)
    failures = np.zeros((40, 2), int)
    successes[:, 0], failures[:, 0] = 3, 2
    successes[0, 1] = 1  # the only observation of the second arm
    tasks = BernoulliStatistics(successes=successes, failures=failures)
    family = mixts.learn_prior(tasks, 1, "two-stage", seed=0).family
    assert isinstance(family, mixts.BernoulliArms)
    assert (family.alpha + family.beta)[0, 1] < 4
