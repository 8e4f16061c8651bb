"""Tasks from which little can be learned, and arguments that make no sense.

Of the former comes a sensible prior or a clear error, never a NaN and never a warning of numpy's;
of the latter always an error that says what was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.learning import flat_family, learn
from tests.oracles.learning_references import (
    COVARIANCE_TYPES,
    HORIZON,
    KINDS,
    MDPS,
    SUPPORT,
    Case,
    Task,
    case_of,
    drawn,
    statistics_of,
    true_prior,
)

QUICK = ("bernoulli", "gaussian", "poisson", "full", "support")
"""What the other kinds have besides is tested where it is made; here they are slow tests."""


def _quick(kinds: tuple[str, ...]) -> list[Any]:
    return [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in kinds]


CASES, LINEAR = _quick(KINDS), _quick(COVARIANCE_TYPES)

METHODS = ("evidence", "two-stage")
ARMS = ("bernoulli", "gaussian", "poisson")


def of(kind: str, tasks: list[Task]) -> Case:
    return Case(kind, tasks, statistics_of(tasks, true_prior(kind)))


def usable(case: Case, n_components: Any, method: Any = "evidence", **more: Any) -> Any:
    """Learned, with all numbers finite; an agent acts with it, and its objective never fell."""
    result = learn(
        case.statistics, n_components, method, seed=0, n_restarts=1, engine=1, n_folds=2,
        max_components=2, **case.options, **more,
    )  # fmt: skip
    for prior in (result.prior, result.unimodal):
        assert all(np.isfinite(array).all() for array in prior.family.arrays().values())
        actions = np.eye(2) if case.kind in COVARIANCE_TYPES else None
        mixts.MixTS(prior, seed=0).act(actions)
        assert np.isfinite(prior.condition(case.statistics).log_evidence).all()
    if result.history is not None:
        never_falls(result.history)
    return result


def never_falls(history: Any) -> None:
    """But for rounding: sums of at most some thousand terms, none much larger than the sum."""
    objective = history.objective
    assert np.isfinite(objective).all()
    slack = 1e-10 * np.abs([history.log_evidence, history.log_hyperprior]).sum(axis=0).max()
    assert (np.diff(objective) >= -slack).all()


# -- little to learn from --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("length", [1, 5])
def test_a_single_task(kind: str, length: int) -> None:
    case = case_of(kind, n_tasks=1, lengths=length)
    assert usable(case, 1).prior.n_components == 1
    assert usable(case, "auto").prior.n_components == 1
    with pytest.raises(errors.ParameterError, match=r"2 components need at least .* got 1"):
        learn(case.statistics, 2, seed=0, **case.options)


@pytest.mark.parametrize("kind", CASES)
def test_a_single_task_in_two_stages(kind: str) -> None:
    case = case_of(kind, n_tasks=1, lengths=5)
    if kind in COVARIANCE_TYPES:
        with pytest.raises(errors.ParameterError, match="at least 2 tasks, got 1"):
            usable(case, 1, "two-stage")
    else:
        assert usable(case, 1, "two-stage").prior.n_components == 1


@pytest.mark.parametrize("kind", CASES)
def test_identical_tasks_are_of_one_kind(kind: str) -> None:
    case = of(kind, 12 * case_of(kind, n_tasks=1, lengths=8).tasks)
    assert usable(case, "auto").prior.n_components == 1
    with pytest.raises(errors.ParameterError, match=r"tasks that differ|are equal"):
        usable(case, 2, "two-stage")
    if kind not in COVARIANCE_TYPES:
        usable(case, 1, "two-stage")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", CASES)
def test_tasks_of_very_different_length(kind: str, method: str) -> None:
    case = case_of(kind, n_tasks=10, lengths=[1, 1, 1, 2, 3, 300, 1, 1, 5, 40])
    assert usable(case, 2, method).prior.n_components == 2


@pytest.mark.parametrize("kind", CASES)
def test_tasks_of_one_observation(kind: str) -> None:
    case = case_of(kind, n_tasks=20, lengths=1)
    for n in (1, 3):
        assert usable(case, n).prior.n_components == n


@pytest.mark.parametrize("kind", CASES)
def test_tasks_without_observations_say_nothing(kind: str) -> None:
    """To the bit, for they are left out; a prior of nothing at all is refused."""
    prior = true_prior(kind)
    tasks = drawn(prior, 12, 3 * (np.arange(12) % 3), seed=4)
    some = usable(of(kind, tasks), 2)
    others = usable(of(kind, [task for task in tasks if len(task[1])]), 2)
    np.testing.assert_array_equal(some.prior.weights, others.prior.weights)
    for name, array in some.prior.family.arrays().items():
        np.testing.assert_array_equal(array, others.prior.family.arrays()[name])
    nothing = of(kind, drawn(prior, 3, 0, seed=4))
    for method in METHODS:
        with pytest.raises(errors.StatisticsError, match="observed, but none of 3 was"):
            usable(nothing, 1, method)
    options = {k: v for k, v in nothing.options.items() if k != "covariance_type"}
    with pytest.raises(errors.StatisticsError, match="none of 3"):
        flat_family(nothing.statistics, **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ARMS)
def test_an_untried_arm_looks_like_the_arms_of_its_kind(kind: str, method: str) -> None:
    tasks = [
        (arms[arms < 2], rewards[arms < 2]) for arms, rewards in case_of(kind, lengths=12).tasks
    ]
    prior = usable(of(kind, tasks), 2, method).prior
    marginal = prior.family.prior_marginal(np.arange(2))
    expected = prior.arm_prior.prior_marginal(np.arange(2))
    np.testing.assert_allclose(marginal.mean()[:, 2], expected.mean()[:, 0], rtol=1e-6)
    np.testing.assert_allclose(marginal.variance()[:, 2], expected.variance()[:, 0], rtol=1e-6)
    # The arms that were tried say where an arm of a kind lies, and between them.
    tried = np.sort(marginal.mean()[:, :2], axis=1)
    inside = (tried[:, 0] <= expected.mean()[:, 0]) & (expected.mean()[:, 0] <= tried[:, 1])
    assert inside.all()


@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_rewards_that_are_always_the_same(kind: str, reward: float) -> None:
    tasks = [(arms, np.full(len(arms), reward)) for arms, _ in case_of(kind).tasks]
    for method in METHODS:
        prior = usable(of(kind, tasks), 1, method).prior
        assert np.allclose(prior.belief().mean_rewards(), reward, atol=0.1)
    usable(of(kind, tasks), 2)


@pytest.mark.parametrize("kind", ["gaussian", *LINEAR])
@pytest.mark.parametrize("reward", [0.0, 3.0])
def test_gaussian_rewards_that_never_vary(kind: str, reward: float) -> None:
    tasks = [(actions, np.full(len(actions), reward)) for actions, _ in case_of(kind).tasks]
    for n in (1, 2):
        assert usable(of(kind, tasks), n).prior.family.noise_std > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["gaussian", *LINEAR])
def test_rewards_without_noise(kind: str) -> None:
    rng = np.random.default_rng(5)
    tasks = []
    for actions, _ in case_of(kind, lengths=6).tasks:
        design = np.eye(3)[actions] if actions.ndim == 1 else actions
        tasks.append((actions, design @ rng.normal(size=design.shape[1])))
    for method in METHODS:
        # Below what the rewards themselves are, and above the zero that nothing divides by.
        assert 0 < usable(of(kind, tasks), 2, method).prior.family.noise_std < 1
    assert usable(of(kind, tasks), 2, noise_std=1e-4).prior.family.noise_std == 1e-4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("kind", ["gaussian", *LINEAR])
def test_large_and_small_rewards(kind: str, scale: float, method: str) -> None:
    """The same prior in other units, for nothing in learning has a unit of its own."""
    plain = case_of(kind)
    scaled = of(kind, [(actions, scale * rewards) for actions, rewards in plain.tasks])
    found, expected = (
        usable(case, 1, method, tolerance=1e-13).prior.family for case in (scaled, plain)
    )
    # Where the slope is flat, rounding moves the end by the root of what it moves the height.
    np.testing.assert_allclose(found.mean / scale, expected.mean, rtol=1e-5, atol=1e-6)
    assert found.noise_std / scale == pytest.approx(expected.noise_std, rel=1e-5)
    usable(scaled, 2, method)


def test_many_poisson_rewards() -> None:
    tasks = [(arms, 1e5 * rewards) for arms, rewards in case_of("poisson").tasks]
    for method in METHODS:
        family = usable(of("poisson", tasks), 2, method).prior.family
        assert (family.shape / family.rate > 1e3).all()  # the means are of the rewards' size


FEATURES: dict[str, Callable[[Any], Any]] = {
    "constant": lambda x: np.column_stack([x[:, 0], np.ones(len(x))]),
    "zero": lambda x: np.column_stack([x[:, 0], np.zeros(len(x))]),
    "collinear": lambda x: np.column_stack([x[:, 0], 2 * x[:, 0]]),
    "all zero": np.zeros_like,
    "of different size": lambda x: x * [1e-6, 1e6],
}


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("name", FEATURES)
def test_features_that_say_little(kind: str, name: str) -> None:
    tasks = [(FEATURES[name](x), y) for x, y in case_of(kind).tasks]
    for method in METHODS if name != "all zero" else METHODS[:1]:
        assert usable(of(kind, tasks), 2, method).prior.n_components == 2


@pytest.mark.parametrize("kind", LINEAR)
def test_a_task_whose_features_are_all_zero(kind: str) -> None:
    (features, rewards), *others = case_of(kind).tasks
    case = of(kind, [(np.zeros_like(features), rewards), *others])
    for method in METHODS:
        assert usable(case, 2, method).prior.n_components == 2


@pytest.mark.parametrize("kind", MDPS)
def test_unvisited_pairs_get_the_common_prior(kind: str) -> None:
    tasks = [tuple(part[task[0] > 0] for part in task) for task in case_of(kind, lengths=20).tasks]
    case = of(kind, tasks)
    for method in METHODS:
        learned = usable(case, 2, method)
        ours, one = (prior.family.transition for prior in (learned.prior, learned.unimodal))
        np.testing.assert_allclose(ours[:, 0], np.repeat(one[:, 0], 2, axis=0), rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", MDPS)
def test_zeros_are_where_support_says_and_nowhere_else(kind: str, method: str) -> None:
    learned = usable(case_of(kind), 2, method)
    possible = SUPPORT if kind == "support" else np.ones_like(SUPPORT)
    for prior in (learned.prior, learned.unimodal):
        np.testing.assert_array_equal(prior.family.transition > 0, [possible] * prior.n_components)
        assert (prior.family.reward > 0).all()


def test_a_support_that_tasks_contradict_is_refused() -> None:
    """With the number of the task as it was given, whatever order learning has them in."""
    case = case_of("support", n_tasks=9, lengths=6)
    for task in range(9):
        tasks = list(case.tasks)
        x, a, r, to = tasks[task]
        tasks[task] = (np.append(x, 2), np.append(a, 0), np.append(r, 1.0), np.append(to, 0))
        message = f"task {task} went from state 2 with action 0 to state 0"
        with pytest.raises(errors.StatisticsError, match=message):
            learn(of("support", tasks).statistics, 1, horizon=HORIZON, support=SUPPORT)


# -- arguments -------------------------------------------------------------------------------------

BERNOULLI, LINEAR, TABULAR = (case_of(kind).statistics for kind in ("bernoulli", "full", "tabular"))
GAUSSIAN, POISSON = (case_of(kind).statistics for kind in ("gaussian", "poisson"))
BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no components": (BERNOULLI, {"n_components": 0}, "n_components must be a whole number"),
    "half a component": (BERNOULLI, {"n_components": 1.5}, "n_components must be a whole number"),
    "a true component": (BERNOULLI, {"n_components": True}, "n_components must be a whole number"),
    "too many": (BERNOULLI, {"n_components": 25}, "25 components need at least .* got 24"),
    "another word": (BERNOULLI, {"n_components": "many"}, "a number or 'auto', got 'many'"),
    "method": (BERNOULLI, {"method": "em"}, "method must be one of .*'two-stage'.* got 'em'"),
    "tolerance": (BERNOULLI, {"tolerance": 0.0}, "tolerance must be a number"),
    "tolerance nan": (BERNOULLI, {"tolerance": np.nan}, "tolerance must be a number"),
    "iterations": (BERNOULLI, {"max_iterations": 0}, "max_iterations must be a whole number"),
    "restarts": (BERNOULLI, {"n_restarts": 0}, "n_restarts must be a whole number"),
    "folds": (BERNOULLI, {"n_folds": 1}, "n_folds must be a whole number, at least 2"),
    "most components": (BERNOULLI, {"max_components": 0}, "max_components must be a whole"),
    "robust": (BERNOULLI, {"robust": 1.0}, "robust must be a weight"),
    "robust below": (BERNOULLI, {"robust": -0.1}, "robust must be a weight"),
    "robust nan": (BERNOULLI, {"robust": np.nan}, "weight"),
    "engine zero": (BERNOULLI, {"engine": 0}, "engine must be None, a number of worker"),
    "engine word": (BERNOULLI, {"engine": "two"}, "engine must be None"),
    "noise of counts": (BERNOULLI, {"noise_std": 1.0}, "noise_std has no meaning"),
    "noise of Poisson": (POISSON, {"noise_std": 1.0}, "noise_std has no meaning"),
    "noise of MDPs": (TABULAR, {"noise_std": 1.0, "horizon": 4}, "noise_std has no meaning"),
    "noise zero": (LINEAR, {"noise_std": 0.0}, "noise_std must be"),
    "noise negative": (GAUSSIAN, {"noise_std": -1.0}, "noise_std must be"),
    "noise nan": (LINEAR, {"noise_std": np.nan}, "noise_std must be"),
    "diagonal arms": (GAUSSIAN, {"covariance_type": "diag"}, "covariance_type has no meaning"),
    "spherical": (LINEAR, {"covariance_type": "spherical"}, "'full', 'tied' or 'diag'"),
    "horizon of arms": (BERNOULLI, {"horizon": 3}, "horizon has no meaning"),
    "initial of arms": (BERNOULLI, {"initial": [1.0]}, "initial has no meaning"),
    "support of linear": (LINEAR, {"support": SUPPORT}, "support has no meaning"),
    "no horizon": (TABULAR, {}, "horizon is needed"),
    "horizon zero": (TABULAR, {"horizon": 0}, "horizon must be a whole number"),
    "support numbers": (TABULAR, {"horizon": 4, "support": SUPPORT * 1.0}, "must be boolean"),
    "support shape": (TABULAR, {"horizon": 4, "support": SUPPORT[0]}, r"shape \(3, 2, 3\)"),
    "support nowhere": (
        TABULAR, {"horizon": 4, "support": np.zeros_like(SUPPORT)},
        "no next state after action 0 in state 0",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BAD)
def test_arguments_that_make_no_sense(name: str) -> None:
    statistics, arguments, message = BAD[name]
    with pytest.raises(errors.ParameterError, match=message):
        learn(statistics, **{"n_components": 2, "seed": 0, **arguments})


@pytest.mark.parametrize("function", [learn, mixts.learn_prior, flat_family])
def test_an_unknown_option_is_named_beside_the_options(function: Any) -> None:
    arguments = () if function is flat_family else (2,)
    message = "^unknown option 'restarts'; options: method, .*n_restarts"
    with pytest.raises(TypeError, match=message):
        function(BERNOULLI, *arguments, restarts=3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "tasks",
    [
        None, "tasks", [], 3, [1, 2], [([0, 1], [1.0])], [([0.5], [1.0])],
        [(np.zeros((2, 2, 2)), np.zeros(2))], [([0], [1.0]), (np.ones((1, 2)), [1.0])],
        [mixts.Trajectory([0], [0], [1.0]), ([0], [1.0])],
    ],
)  # fmt: skip
def test_tasks_that_are_none(tasks: Any) -> None:
    with pytest.raises(errors.StatisticsError):
        learn(tasks, 1)


def test_stopping_too_early_is_said() -> None:
    with pytest.warns(errors.ConvergenceWarning, match="after 2 iterations .* max_iterations"):
        learned = learn(BERNOULLI, 2, seed=0, max_iterations=2, tolerance=1e-12)
    assert not learned.history.converged  # type: ignore[union-attr]
    assert learned.history.n_iterations == 2  # type: ignore[union-attr]
