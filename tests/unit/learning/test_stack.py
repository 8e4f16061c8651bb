"""Stacking: weights of mixtures, their union, and the components that are merged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, special

import mixts
from mixts.families import GaussianStatistics, Statistics
from mixts.learning import Method, Rule, Selection, learn, mixture_evidence
from mixts.learning.stack import (
    LEAST_MEAN_GAIN,
    MERGE_TOLERANCE,
    PRECISION,
    component_names,
    drop_few,
    merge_same,
    optimal_weights,
    prices,
    stack_weights,
    union,
    with_kinds,
)
from tests.oracles.learning_references import drawn, statistics_of


def table(seed: int, n_candidates: int = 4, n_tasks: int = 80) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(-6, 2, n_tasks) + rng.normal(0, 1.0, (n_candidates, n_tasks))


def evidence(held_out: np.ndarray, weights: np.ndarray) -> float:
    """Log evidence of all tasks under the union, by brute force."""
    with np.errstate(divide="ignore"):
        joint = np.log(weights)[:, None] + held_out
    return float(special.logsumexp(joint, axis=0).sum())


def bernoulli_tasks(n_kinds: int, n_tasks: int, seed: int, n_rows: int = 12) -> Statistics:
    rng = np.random.default_rng(seed)
    mean = rng.beta(1, 1, size=(n_kinds, 5))
    prior = mixts.MixturePrior(mixts.BernoulliArms(6 * mean + 0.1, 6 * (1 - mean) + 0.1))
    return statistics_of(drawn(prior, n_tasks, n_rows, seed), prior)


# -- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_weights_maximise_the_evidence_of_the_union(seed: int) -> None:
    held_out = table(seed)
    found = optimal_weights(held_out)
    best = optimize.minimize(
        lambda w: -evidence(held_out, np.maximum(w, 1e-300)) / 80,
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12},
    )
    assert found.sum() == pytest.approx(1.0)
    assert evidence(held_out, found) / 80 >= -best.fun - PRECISION


@pytest.mark.parametrize("seed", range(5))
def test_a_stack_is_never_below_its_best_mixture_and_each_member_is_earned(seed: int) -> None:
    held_out = table(seed)
    weights = stack_weights(held_out)
    price = prices(4, 80)
    alone = (held_out.sum(axis=1) - price).max()
    member = weights > 0
    assert member.sum() > 1
    assert evidence(held_out, weights) - price[member].sum() > alone - 0.1
    everything = evidence(held_out, optimal_weights(held_out))
    # Members that were left out would have added less than their prices.
    assert everything - evidence(held_out, weights) < price[~member].sum() + 0.1


def test_equal_mixtures_are_not_joined() -> None:
    held_out = np.repeat(table(1, 1), 3, axis=0)
    np.testing.assert_array_equal(stack_weights(held_out), [1, 0, 0])
    better = held_out + np.array([[0.0], [0.5], [-0.5]])
    np.testing.assert_array_equal(stack_weights(better), [0, 1, 0])


@pytest.mark.parametrize(("share", "member"), [(0.9, 2), (1.1, 8)])
def test_many_components_must_be_worth_it(share: float, member: int) -> None:
    """Eight components predict better than two by a share of the price of the six others."""
    held_out = np.repeat(table(3, 1, n_tasks=400), 8, axis=0)
    held_out[0] -= 1.0
    held_out[7] += share * 6 * LEAST_MEAN_GAIN
    np.testing.assert_array_equal(np.flatnonzero(stack_weights(held_out)) + 1, [member])


@pytest.mark.parametrize(("gain", "joined"), [(5.3, False), (7.0, True)])
def test_a_mixture_joins_by_what_it_adds_to_a_task(gain: float, joined: bool) -> None:
    """One task in fifty needs the third mixture, which adds 0.01 or 0.04 to the mean of a task."""
    held_out = np.zeros((3, 8000))
    held_out[1] = -np.inf
    held_out[2] = -9.0
    held_out[2, ::50] = gain
    assert (stack_weights(held_out)[2] > 0) == joined


def test_halves_of_the_tasks_join_two_mixtures() -> None:
    """By symmetry, each mixture has half of the weight."""
    good = np.repeat([[0.0, -5.0], [-5.0, 0.0]], 20, axis=1)
    np.testing.assert_allclose(stack_weights(good), [0.5, 0.5], atol=1e-3)


def test_impossible_tasks_do_not_decide() -> None:
    held_out = table(2, 2)
    weights = stack_weights(held_out)
    held_out = np.column_stack([held_out, [-np.inf, -np.inf]])
    np.testing.assert_array_equal(stack_weights(held_out), weights)
    # A task that only one mixture can explain gives weight to this mixture.
    only = np.column_stack([np.array([[0.0] * 30, [-9.0] * 30]), [-np.inf, -1.0]])
    found = stack_weights(only)
    assert 0 < found[1] < 0.1
    np.testing.assert_array_equal(stack_weights(np.full((2, 3), -np.inf)), [1, 0])
    # Two tasks that need two further mixtures.
    needed = np.array([[0.0, -np.inf, -np.inf], [-1.0, 0.0, -np.inf], [-1.0, -np.inf, 0.0]])
    assert (stack_weights(np.repeat(needed, 5, axis=1)) > 0).sum() > 1
    assert np.isfinite(evidence(needed, stack_weights(needed)))


# -- the union ------------------------------------------------------------------------------------


def test_the_evidence_of_a_union_is_the_weighted_sum(tmp_path: Path) -> None:
    tasks = bernoulli_tasks(3, 40, seed=1)
    mixtures = [mixts.learn_prior(tasks, n, seed=1, n_restarts=1, engine=1) for n in (1, 2, 3)]
    weights = [0.2, 0.5, 0.3]
    joined = union(mixtures, weights)
    parts = [np.log(w) + mixture_evidence(m, tasks) for w, m in zip(weights, mixtures, strict=True)]
    expected = special.logsumexp(parts, axis=0)
    np.testing.assert_allclose(mixture_evidence(joined, tasks), expected, rtol=1e-12)
    assert joined.n_components == 6
    assert (np.diff(joined.weights) <= 0).all()
    joined.save(tmp_path / "prior.json")
    again = mixts.MixturePrior.load(tmp_path / "prior.json")
    np.testing.assert_array_equal(mixture_evidence(again, tasks), mixture_evidence(joined, tasks))


def test_a_union_has_the_noise_of_the_heaviest_mixture() -> None:
    parts = [
        mixts.MixturePrior(mixts.GaussianArms([[0.0, 1.0]], [[1.0, 1.0]], noise))
        for noise in (0.5, 0.7)
    ]
    assert union(parts, [0.4, 0.6]).family.noise_std == 0.7


@pytest.mark.parametrize(("kind", "joined"), [("diag", "diag"), ("full", "full"), ("tied", "full")])
def test_covariances_of_joined_linear_mixtures(kind: str, joined: str) -> None:
    covariance = {"diag": np.ones((2, 3)), "full": np.stack([np.eye(3)] * 2), "tied": np.eye(3)}
    family = mixts.LinearGaussian(np.zeros((2, 3)), covariance[kind], 0.5, kind)  # type: ignore[arg-type]
    both = family.append(family)
    assert both.covariance_type == joined
    np.testing.assert_array_equal(both.full_covariances(), np.stack([np.eye(3)] * 4))


def test_equal_components_are_merged_and_different_ones_kept() -> None:
    tasks = bernoulli_tasks(2, 60, seed=2)
    prior = mixts.learn_prior(tasks, 2, seed=1, n_restarts=1, engine=1)
    merged = merge_same(union([prior, prior], [0.7, 0.3]), tasks)
    assert merged.n_components == 2
    np.testing.assert_allclose(merged.weights, prior.weights)
    np.testing.assert_allclose(merged.family.parameter_means(), prior.family.parameter_means())
    mixtures = [mixts.learn_prior(tasks, n, seed=1, n_restarts=1, engine=1) for n in (1, 2, 4)]
    joined = union(mixtures, [0.3, 0.4, 0.3])
    few = merge_same(joined, tasks)
    assert 2 < few.n_components <= joined.n_components
    change = mixture_evidence(few, tasks) - mixture_evidence(joined, tasks)
    assert np.abs(change).mean() <= MERGE_TOLERANCE


# -- learning -------------------------------------------------------------------------------------


def test_rules_make_their_priors_of_one_comparison() -> None:
    tasks = bernoulli_tasks(4, 90, seed=3)
    options = {"seed": 1, "n_restarts": 1, "n_folds": 3, "max_components": 4, "engine": 1}
    stacked = learn(tasks, "auto", **options)
    assert stacked.selection is not None
    assert stacked.selection.rule == "stack"
    rules: tuple[Rule, ...] = ("best", "one-standard-error")
    for rule in rules:
        learned = learn(tasks, "auto", select=rule, **options)
        assert learned.selection is not None
        np.testing.assert_array_equal(learned.selection.held_out, stacked.selection.held_out)
        assert learned.selection.chosen == stacked.selection.by(rule).chosen
        assert learned.prior.n_components == learned.selection.chosen
        assert learned.selection.members == {learned.selection.chosen: 1.0}
    best = stacked.selection.by("best")
    assert best.chosen == stacked.selection.candidates[stacked.selection.best]


@pytest.mark.parametrize("method", ["evidence", "two-stage"])
def test_a_selection_is_learned_from_other_tasks(method: str) -> None:
    """Here the same tasks: then the prior is the same, too, to the bit."""
    tasks = bernoulli_tasks(3, 60, seed=4)
    options = {"seed": 1, "n_restarts": 1, "n_folds": 3, "max_components": 3, "engine": 1}
    first = learn(tasks, "auto", method, **options)  # type: ignore[arg-type]
    again = learn(tasks, first.selection, method, **options)  # type: ignore[arg-type]
    assert again.selection is first.selection
    assert first.prior.n_components > 1
    np.testing.assert_array_equal(again.prior.weights, first.prior.weights)
    for name, array in first.prior.family.arrays().items():
        np.testing.assert_array_equal(again.prior.family.arrays()[name], array)


def test_one_kind_costs_nothing() -> None:
    """Stacked priors of tasks of one kind predict other such tasks as well as one component."""
    losses = []
    for seed in range(6):
        tasks = bernoulli_tasks(1, 200, seed, n_rows=8)
        options = {"seed": 1, "n_restarts": 1, "max_components": 3, "engine": 1}
        learned = learn(tasks[np.arange(60)], "auto", n_folds=3, **options)
        rest = tasks[np.arange(60, 200)]
        loss = mixture_evidence(learned.unimodal, rest) - mixture_evidence(learned.prior, rest)
        losses.append(loss.mean())
    assert np.mean(losses) < 0.005


def test_the_sentence_names_the_joined_mixtures() -> None:
    held_out = np.repeat([[0.0, -5.0, -1.0], [-5.0, 0.0, -1.0], [-9.0, -9.0, -9.0]], 20, axis=1)
    selection = Selection((1, 2, 3), held_out, np.zeros(3), 1, 5, "stack")
    assert set(selection.members) == {1, 2}
    assert selection.sentence == (
        "1 kind predicts best; mixtures of 1 (50%) and 2 (50%) kinds together predict still "
        "better, so the prior joins them."
    )


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(mixts.errors.ParameterError, match="select must be one of"):
        learn(bernoulli_tasks(1, 10, 0), "auto", select="most")  # type: ignore[arg-type]


# -- kinds ----------------------------------------------------------------------------------------


def two_kinds(n_tasks: int = 200) -> tuple[mixts.MixturePrior, Statistics]:
    """Return four components that describe two kinds, and tasks of both kinds."""
    likes = np.array([[9.0, 1, 1], [9, 2, 1], [1, 1, 9], [1, 2, 9]])
    prior = mixts.MixturePrior(mixts.BernoulliArms(likes, 10 - likes), [0.1, 0.35, 0.15, 0.4])
    return prior, statistics_of(drawn(prior, n_tasks, 12, 1), prior)


def test_components_belong_to_the_kind_that_has_their_tasks() -> None:
    prior, tasks = two_kinds()
    account = mixts.MixturePrior(
        mixts.BernoulliArms([[9, 1.5, 1], [1, 1.5, 9]], [[1, 8.5, 9], [9, 8.5, 1]])
    )
    found = with_kinds(prior, account, tasks)
    # The kind of the components 2 and 3 weighs 0.55, that of 0 and 1 weighs 0.45.
    np.testing.assert_array_equal(found.weights, [0.4, 0.15, 0.35, 0.1])
    assert found.kinds == ("kind 1", "kind 1", "kind 2", "kind 2")
    assert component_names(found) == ["kind 1a", "kind 1b", "kind 2a", "kind 2b"]
    np.testing.assert_allclose(mixture_evidence(found, tasks), mixture_evidence(prior, tasks))
    # The names of kinds do not depend on the order in which the account has them.
    again = with_kinds(prior.select([3, 1, 0, 2]), account.select([1, 0]), tasks)
    assert again.kinds == found.kinds
    np.testing.assert_allclose(again.weights, found.weights)


def test_one_kind_may_have_all_components() -> None:
    prior, tasks = two_kinds()
    found = with_kinds(prior, prior.collapse(), tasks)
    assert found.kind_names == ("kind 1",)
    assert component_names(found) == ["kind 1a", "kind 1b", "kind 1c", "kind 1d"]


def test_components_of_their_own_kinds_need_no_kinds() -> None:
    prior, tasks = two_kinds()
    some = prior.select([1, 3])
    found = with_kinds(some, some, tasks)
    assert found.kinds is None
    assert component_names(found) == ["kind 1", "kind 2"]


def test_names_of_many_components_sort_as_the_components_do() -> None:
    family = mixts.BernoulliArms(np.ones((30, 2)), np.ones((30, 2)))
    names = component_names(mixts.MixturePrior(family, kinds=["kind 1"] * 29 + ["kind 2"]))
    assert names == sorted(set(names))
    assert (names[0], names[27], names[29]) == ("kind 1aa", "kind 1bb", "kind 2")


@pytest.mark.parametrize("method", ["evidence", "two-stage"])
def test_a_stack_is_read_by_the_kinds_of_one_standard_error(method: Method) -> None:
    tasks = bernoulli_tasks(3, 150, 2)
    options = {"seed": 1, "n_restarts": 1, "n_folds": 3, "max_components": 5, "engine": 1}
    first = learn(tasks, "auto", method, **options)
    selection = first.selection
    assert selection is not None
    assert len(selection.members) > 1
    account = selection.by("one-standard-error").chosen
    assert selection.n_kinds == account
    prior = first.prior
    assert len(prior.kind_names) <= account < prior.n_components
    totals = prior.sum_by_kind(prior.weights)
    assert (np.diff(totals) <= 0).all()
    # The selection of other tasks, which need not have learned the account.
    again = learn(tasks, selection, method, **options).prior
    assert again.kinds == prior.kinds
    assert selection.by("best").n_kinds is None


def test_tasks_of_one_kind_are_called_one_kind() -> None:
    tasks = bernoulli_tasks(1, 150, 3)
    prior = mixts.learn_prior(tasks, "auto", seed=1, n_restarts=1, max_components=4, engine=1)
    assert set(prior.kind_names) == {"kind 1"}


def outlying_tasks(clip: bool) -> GaussianStatistics:
    """200 tasks of one kind; three of them have a reward of 100,000."""
    rng = np.random.default_rng(1)
    mean = rng.normal([1, 2, 3, 4], 0.5, (200, 4))
    tasks, arms = np.repeat(np.arange(200), 10), rng.integers(4, size=2000)
    rewards = mean[tasks, arms] + rng.normal(size=2000)
    rewards[[5, 705, 1505]] = 1e5
    if clip:
        rewards = np.clip(rewards, *np.quantile(rewards, [0.01, 0.99]))
    statistics = GaussianStatistics.empty((4,), 200)
    statistics.observe(tasks, statistics.observations(arms, rewards))
    return statistics


def test_outliers_make_no_kinds() -> None:
    learned = learn(outlying_tasks(clip=False), "auto", seed=1, engine=1)
    assert learned.selection is not None
    assert learned.selection.best > 0
    assert learned.prior.n_components == 1
    given = learn(outlying_tasks(clip=False), 2, seed=1, n_restarts=1, engine=1)
    assert given.prior.n_components == 2


def test_clipped_outliers_make_no_kinds() -> None:
    assert learn(outlying_tasks(clip=True), "auto", seed=1, engine=1).prior.n_components == 1


@pytest.mark.parametrize(
    ("weights", "n_tasks", "kept"),
    [
        ([0.97, 0.03], 100, 1), ([0.96, 0.04], 100, 2), ([0.6, 0.4], 3, 2),
        ([0.89, 0.11], 10, 2), ([0.91, 0.09], 10, 1),
    ],
)  # fmt: skip
def test_a_kind_has_a_few_tasks(weights: list[float], n_tasks: int, kept: int) -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[1, 2], [2, 1]], [[1, 1], [1, 1]]), weights)
    found = drop_few(prior, n_tasks)
    assert found.n_components == kept
    assert found.weights.sum() == pytest.approx(1)
