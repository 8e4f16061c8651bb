"""The estimator keeps scikit-learn's convention, over tasks."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split

import mixts
from mixts import errors
from mixts.bridges.sklearn import MixturePriorEstimator, Tasks, tasks_of
from mixts.families import BernoulliStatistics
from mixts.learning import LearningOptions, learn

MEANS = np.array([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]])
TRUE = mixts.MixturePrior(mixts.BernoulliArms(20 * MEANS, 20 * (1 - MEANS)))
N = 60


@pytest.fixture(scope="module")
def tasks() -> Any:
    rng = np.random.default_rng(0)
    _, theta = TRUE.draw(rng, N)
    belief = TRUE.belief(N)
    owners = np.repeat(np.arange(N), 20)
    arms = rng.integers(3, size=len(owners))
    belief.update(arms, TRUE.family.outcomes(rng, theta[owners, arms]), tasks=owners)
    return belief.statistics


def estimator(**parameters: Any) -> MixturePriorEstimator:
    defaults: dict[str, Any] = {"n_components": 2, "n_restarts": 1, "engine": 1, "random_state": 0}
    return MixturePriorEstimator(**defaults | parameters)


@pytest.fixture(scope="module")
def fitted(tasks: Any) -> MixturePriorEstimator:
    return estimator().fit(tasks)


def test_it_learns_what_learn_learns(fitted: MixturePriorEstimator, tasks: Any) -> None:
    learned = learn(tasks, 2, n_restarts=1, engine=1, seed=0)
    np.testing.assert_array_equal(fitted.prior_.family.alpha, learned.prior.family.alpha)
    np.testing.assert_array_equal(fitted.prior_.weights, learned.prior.weights)
    assert fitted.learned_.method == "evidence"
    assert fitted.n_components_ == 2
    robust = estimator(robust=0.05).fit(tasks)
    assert robust.n_components_ == 3
    np.testing.assert_allclose(robust.prior_.weights[2], 0.05)


def test_score_and_components(fitted: MixturePriorEstimator, tasks: Any) -> None:
    belief = fitted.prior_.condition(tasks)
    joint = fitted.prior_.log_weights + belief.log_evidence
    each = np.logaddexp(joint[:, 0], joint[:, 1])
    np.testing.assert_allclose(fitted.score_samples(tasks), each)
    np.testing.assert_allclose(fitted.score(tasks_of(tasks)), each.mean())
    np.testing.assert_array_equal(fitted.predict_proba(tasks), belief.weights)
    np.testing.assert_array_equal(fitted.predict(tasks), belief.weights.argmax(axis=1))
    # One task, and a list of single ones, as scikit-learn may hand them on.
    assert fitted.predict(tasks[3]).shape == (1,)
    parts = [tasks[t] for t in range(5)]
    np.testing.assert_array_equal(fitted.predict(parts), fitted.predict(tasks)[:5])


def test_parameters_and_clones() -> None:
    first = estimator(n_components="auto", robust=0.01)
    assert first.get_params()["robust"] == 0.01
    assert first.set_params(method="two-stage").method == "two-stage"
    twin = clone(first)
    assert twin is not first
    assert twin.get_params() == first.get_params()
    # Those of learn, under scikit-learn's name for the seed.
    arguments = {**inspect.signature(learn).parameters, **LearningOptions.__dataclass_fields__}
    own = MixturePriorEstimator().get_params()
    assert set(own) == set(arguments) - {"tasks", "seed", "options"} | {"random_state"}
    for name in set(arguments) - {"tasks", "seed", "options", "n_components"}:
        assert own[name] == arguments[name].default


def test_random_states(tasks: Any) -> None:
    given = np.random.RandomState(3)
    weights = [estimator(random_state=given).fit(tasks).prior_.weights for _ in range(2)]
    again = estimator(random_state=np.random.RandomState(3)).fit(tasks).prior_.weights
    np.testing.assert_array_equal(weights[0], again)


def test_a_search_over_tasks(tasks: Any) -> None:
    grid = {"n_components": [1, 2], "method": ["evidence", "two-stage"]}
    search = GridSearchCV(estimator(), grid, cv=KFold(3, shuffle=True, random_state=0))
    search.fit(tasks_of(tasks))
    assert search.best_params_["n_components"] == 2
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    # Refitted to all tasks, not to as many as there are arms.
    assert search.best_estimator_.learned_.prior.n_components == 2
    expected = estimator(**search.best_params_).fit(tasks).score(tasks)
    np.testing.assert_allclose(search.score(tasks_of(tasks)), expected)


def test_cross_validation_holds_tasks_out(tasks: Any) -> None:
    folds = KFold(2, shuffle=True, random_state=1)
    scores = cross_val_score(estimator(), tasks_of(tasks), cv=folds)
    for score, (train, test) in zip(scores, folds.split(np.arange(N)), strict=True):
        np.testing.assert_allclose(score, estimator().fit(tasks[train]).score(tasks[test]))


def test_tasks_are_indexed_as_samples_are(tasks: Any) -> None:
    given = tasks_of(tasks)
    assert (len(given), given.shape) == (N, (N,))
    one = given[4]
    assert isinstance(one, BernoulliStatistics)
    assert one == tasks[4]
    some = given[np.array([3, 1]), ...]
    assert isinstance(some, Tasks)
    assert some.statistics == tasks[[3, 1]]
    assert repr(some).startswith("Tasks(BernoulliStatistics(2 tasks")
    train, test = train_test_split(given, test_size=0.25, random_state=0)
    assert (len(train), len(test)) == (45, 15)
    raw = tasks_of([([0, 1, 1], [1, 0, 1]), ([2], [0])])
    assert raw.statistics.n_observations.tolist() == [3, 1]


def test_refusals(fitted: MixturePriorEstimator, tasks: Any, unchecked: None) -> None:
    with pytest.raises(NotFittedError):
        estimator().score(tasks)
    with pytest.raises(errors.StatisticsError, match=r"needs BernoulliStatistics of shape \(3,\)"):
        fitted.score(tasks.with_arms(1))
    with pytest.raises(errors.StatisticsError, match="there are no tasks"):
        fitted.predict(tasks[:0])
    with pytest.raises(errors.ParameterError, match="method must be one of"):
        estimator(method="guess").fit(tasks)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "mixts.bridges.sklearn")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(errors.MissingExtraError, match=r"mixts\[sklearn\]"):
        importlib.import_module("mixts.bridges.sklearn")
