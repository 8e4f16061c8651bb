"""The calls of MABWiser: the same sequence works on its object and on ours."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.bridges.mabwiser import MAB

pd = pytest.importorskip("pandas")

RATES = np.array([[0.8, 0.2, 0.1], [0.1, 0.2, 0.8]])


def arm_prior(**names: Any) -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.BernoulliArms(9 * RATES, 9 * (1 - RATES)), **names)


def linear_prior(n_arms: int = 2, n_numbers: int = 3) -> mixts.MixturePrior:
    mean = np.zeros((2, n_arms * n_numbers))
    mean[0, 0] = mean[1, n_numbers] = 1.0
    return mixts.MixturePrior(mixts.LinearGaussian(mean, np.ones(2), 0.5, "spherical"))


def theirs(arms: list[Any], contextual: bool) -> Any:
    """MABWiser's Thompson sampling."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that it imports
        mab = pytest.importorskip("mabwiser.mab")
    policy = mab.LearningPolicy
    return mab.MAB(arms, policy.LinTS() if contextual else policy.ThompsonSampling(), seed=1)


# -- the same calls ------------------------------------------------------------------------------


def play(mab: Any, contextual: bool) -> list[Any]:
    """Make every call in a usual order; return what the calls return."""
    arms = mab.arms.copy()
    many = [[1.0, 0.5, 0.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]
    history = (many,) if contextual else ()
    one = ([[0.5, 0.5, 1.0]],) if contextual else ()
    table = pd.DataFrame(many, columns=["a", "b", "c"], index=[7, 5, 9])
    calls: list[tuple[str, *tuple[Any, ...]]] = [
        ("fit", [arms[0], arms[1], arms[0]], [1, 0, 1], *history),
        ("predict", *one),
        ("predict_expectations", *one),
        ("predict", many),
        ("predict_expectations", many),
        ("partial_fit", np.array(arms[:1]), np.array([0]), *(np.array(c) for c in one)),
        ("partial_fit", pd.Series(arms[:2]), pd.Series([0, 1]), *(c[:2] for c in history)),
    ]
    if contextual:
        calls += [("predict", table), ("fit", arms[:1] * 3, [1, 0, 0], table)]
    else:
        new = type(arms[0])("9")
        calls += [("add_arm", new), ("partial_fit", [new], [1]), ("predict_expectations",)]
        calls += [("remove_arm", arms[0]), ("predict",), ("predict_expectations",)]
    # MABWiser changes dictionaries that it has returned.
    return [deepcopy(getattr(mab, name)(*arguments)) for name, *arguments in calls]


def kinds(value: Any) -> Any:
    """Return the types of a result, with the keys of dictionaries."""
    if isinstance(value, list):
        return [kinds(part) for part in value]
    if isinstance(value, dict):
        assert all(isinstance(number, float) for number in value.values())  # also numpy's
        return dict.fromkeys(value, float)
    return type(value)


@pytest.mark.parametrize("policy", ["ts", "ids", "greedy", "ucb"])
@pytest.mark.parametrize("arms", [["a", "b", "c"], [1, 2, 3], [0.5, 1.5, 2.5]])
def test_the_calls_of_context_free_bandits(arms: list[Any], policy: str) -> None:
    ours = MAB(arms, arm_prior(), policy, seed=1)
    found = play(ours, False)
    assert kinds(found) == kinds(play(theirs(arms, False), False))
    assert found[1] in arms
    assert len(found[3]) == 3
    assert list(found[-1]) == [*arms[1:], type(arms[0])("9")] == ours.arms


@pytest.mark.parametrize("policy", ["ts", "ids", "greedy", "ucb"])
def test_the_calls_of_contextual_bandits(policy: str) -> None:
    found = play(MAB(["a", "b"], linear_prior(), policy, seed=1), True)
    assert kinds(found) == kinds(play(theirs(["a", "b"], True), True))


# -- what is ours --------------------------------------------------------------------------------


def test_observations_reach_the_belief() -> None:
    mab = MAB(["x", "y", "z"], arm_prior(), seed=1)
    mab.fit(["x", "z", "x"], [1, 0, 1])
    mab.partial_fit(["y"], [1])
    belief = arm_prior().belief(1)
    belief.update([0, 2, 0, 1], [1, 0, 1, 1], tasks=[0, 0, 0, 0])
    np.testing.assert_array_equal(mab.belief.weights, belief.weights)
    mab.fit(["z"], [1])
    belief = arm_prior().belief(1)
    belief.update([2], [1])
    np.testing.assert_array_equal(mab.belief.weights, belief.weights)


def test_arms_are_found_by_the_names_of_the_prior() -> None:
    prior = arm_prior(arm_names=["x", "y", "z"])
    mab = MAB(["z", "x", "y"], prior, "greedy")
    assert list(mab.predict_expectations()) == ["z", "x", "y"]
    mab.fit(["z"] * 5, [1] * 5)
    means = mab.predict_expectations()
    assert max(means, key=means.__getitem__) == "z" == mab.predict()
    np.testing.assert_allclose([means[a] for a in "xyz"], mab.belief.mean_rewards()[0])


def test_many_tasks() -> None:
    mab = MAB(["x", "y", "z"], arm_prior(), "greedy", n_tasks=3)
    mab.fit(["x"] * 6 + ["x"] * 6, [1] * 6 + [0] * 6, tasks=[0] * 6 + [2] * 6)
    assert mab.predict()[0::2] == ["x", "z"]
    assert mab.predict(tasks=2) == "z"
    assert mab.predict(tasks=[2, 0, 2]) == ["z", "x", "z"]
    by_task = mab.predict_expectations(tasks=[0, 1])
    np.testing.assert_allclose(
        [list(one.values()) for one in by_task], mab.belief.mean_rewards()[:2]
    )
    assert isinstance(mab.predict_expectations(tasks=np.int64(1)), dict)
    linear = MAB(["a", "b"], linear_prior(), n_tasks=2, seed=1)
    linear.partial_fit(["a", "b"], [1.0, 0.2], np.eye(3)[:2], tasks=[1, 1])
    assert len(linear.predict(np.eye(3)[:2])) == 2
    with pytest.raises(errors.ActionError, match="a context for each of 2 tasks, got 3"):
        linear.predict(np.eye(3))


def test_contexts_are_the_features_of_each_arm() -> None:
    mab = MAB(["a", "b"], linear_prior(), "greedy")
    expected = mab.predict_expectations([[2.0, 0.0, 0.0]])
    mean = linear_prior().belief().mean
    assert expected == {"a": pytest.approx(2 * mean[0]), "b": pytest.approx(2 * mean[3])}
    # A model of one's own: both arms share the coefficients.
    shared = mixts.MixturePrior(mixts.LinearGaussian([[1.0, -1.0]], [1.0], 0.5, "spherical"))
    own = MAB(["a", "b"], shared, "greedy", rows=lambda x: np.stack([x, x[:, ::-1]], axis=1))
    assert own.predict_expectations([[3.0, 1.0]]) == {"a": 2.0, "b": -2.0}
    own.fit(["b"], [5.0], [[1.0, 0.0]])
    assert own.belief.mean[0, 1] > 0


def test_thompson_sampling_predicts_the_best_of_one_draw() -> None:
    """The kind is drawn once for all arms: most draws favour one end, hardly any both."""
    mab = MAB(["x", "y", "z"], arm_prior(), seed=1)
    draws = mab.predict_expectations([[0]] * 500)
    both = np.mean([draw["x"] > 0.5 and draw["z"] > 0.5 for draw in draws])
    alone = np.mean([draw["x"] > 0.5 for draw in draws]) * np.mean(
        [draw["z"] > 0.5 for draw in draws]
    )
    assert both < 0.1 < alone


def test_a_removed_arm_still_tells_the_kind_and_returns_anew() -> None:
    mab = MAB(["x", "y", "z"], arm_prior(), "greedy")
    mab.fit(["x"] * 5, [0] * 5)
    weights = mab.belief.weights
    mab.remove_arm("x")
    np.testing.assert_array_equal(mab.belief.weights, weights)
    assert mab.predict() == "z"
    with pytest.raises(errors.ActionError, match="unknown arm 'x'; arms:"):
        mab.partial_fit(["x"], [1])
    mab.add_arm("x")
    assert mab.predict_expectations()["x"] == pytest.approx(RATES.mean(), abs=0.02)
    mab.fit(["x"], [1])
    assert mab.arms == ["y", "z", "x"]
    # Not even the best arm is chosen after its removal.
    mab.fit(["z"] * 5, [1] * 5)
    assert mab.predict() == "z"
    mab.remove_arm("z")
    assert set(mab.predict([[0]] * 20)) <= {"y", "x"}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(errors.ParameterError, match="the prior has 3 arms, got 2"):
        MAB(["x", "y"], arm_prior())
    with pytest.raises(errors.ParameterError, match="arms must differ"):
        MAB(["x", "x", "y"], arm_prior())
    with pytest.raises(errors.ParameterError, match="must be the prior's arms"):
        MAB(["x", "y", "w"], arm_prior(arm_names=["x", "y", "z"]))
    with pytest.raises(errors.ParameterError, match="policy must be one of"):
        MAB(["x", "y", "z"], arm_prior(), "best")
    with pytest.raises(errors.ParameterError, match="the prior must have arms"):
        MAB([0, 1], mixts.RiverSwim().prior)
    mab = MAB(["x", "y", "z"], arm_prior())
    with pytest.raises(errors.ActionError, match="unknown arm 'w'"):
        mab.fit(["w"], [1])
    with pytest.raises(errors.ObservationError, match="leave contexts out"):
        mab.fit(["x"], [1], [[1.0]])
    with pytest.raises(errors.ParameterError, match="this has one task"):
        mab.predict(tasks=[0])
    with pytest.raises(errors.ParameterError, match="must differ from all others"):
        mab.add_arm("x")
    mab.remove_arm("x")
    mab.remove_arm("y")
    with pytest.raises(errors.ParameterError, match="the only arm left"):
        mab.remove_arm("z")
    linear = MAB(["a", "b"], linear_prior())
    with pytest.raises(errors.ActionError, match="a linear prior needs contexts"):
        linear.predict()
    with pytest.raises(errors.ActionError, match="needs contexts of 3 numbers, got 2"):
        linear.predict([[1.0, 2.0]])
    with pytest.raises(errors.ObservationError, match="a context for each decision, got 2 and 1"):
        linear.fit(["a", "b"], [1.0, 0.0], [[1.0, 2.0, 3.0]])
    with pytest.raises(errors.ParameterError, match="nothing about the coefficients"):
        linear.add_arm("c")


def test_refused_observations_change_nothing() -> None:
    mab = MAB(["a", "b", "c"], arm_prior(), seed=1)
    mab.fit(["a"] * 5, [1] * 5)
    before = mab.belief.weights
    for call in (mab.fit, mab.partial_fit):
        with pytest.raises(errors.OutcomeError):
            call(["a"], [0.5])
        np.testing.assert_array_equal(mab.belief.weights, before)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", ["a", 3, [["a"], ["b"]], np.array([["a"], ["b"]])])
def test_decisions_are_a_list_of_arms(wrong: Any) -> None:
    mab = MAB(["a", "b", "c"], arm_prior(), seed=1)
    with pytest.raises(errors.MixtsError, match=r"list of arms|unknown arm"):
        mab.fit(wrong, [1, 0])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", ["abc", [["a"], ["b"], ["c"]], 3])
def test_arms_are_a_list_of_keys(wrong: Any) -> None:
    with pytest.raises(errors.ParameterError, match="arms must be a list of"):
        MAB(wrong, arm_prior())


@pytest.mark.usefixtures("unchecked")
def test_arms_of_numpy_become_plain_numbers() -> None:
    assert type(MAB(np.array([1, 2, 3]), arm_prior(), seed=1).predict()) is int


@pytest.mark.usefixtures("unchecked")
def test_a_number_is_no_context() -> None:
    with pytest.raises(errors.ActionError, match="contexts must have shape"):
        MAB(["a", "b", "c"], arm_prior()).predict(3)
