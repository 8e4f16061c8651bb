"""Bad observations: each kind gives its own clear error, and leaves the belief as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from tests.contracts.problems import CASES, SIZE, FamilyCase

pytestmark = pytest.mark.usefixtures("unchecked")

NAN, INF = np.nan, np.inf


def at(array: Any, index: Any, value: float) -> Any:
    """A copy with one entry changed."""
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


families = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def exact(belief: mixts.Belief) -> list[Any]:
    statistics = belief.statistics
    found = [belief.log_evidence, belief.weights, belief.mean]
    return found + [statistics.array(name).copy() for name in statistics.fields]


def assert_refused(
    belief: mixts.Belief, update: tuple[Any, ...], kind: type[Exception], message: str | None = None
) -> None:
    before = exact(belief)
    with pytest.raises(kind, match=message) as caught:
        belief.update(*update)
    assert type(caught.value) is kind
    for one, other in zip(exact(belief), before, strict=True):
        np.testing.assert_array_equal(one, other)


OUTSIDE: dict[str, list[float]] = {
    "bernoulli": [0.5, 2.0, -1.0, NAN, INF],
    "poisson": [0.5, -1.0, NAN, INF, 1e300],
    "spend": [-0.5, NAN, INF, -INF],
}
SUPPORT = {
    "bernoulli": "must be 0 or 1",
    "poisson": "must be whole numbers from 0 to .*",
    "spend": "must be numbers from 0 to .*",
}


@families
def test_rewards_outside_the_support(case: FamilyCase) -> None:
    belief = case.tasks(1, 2, 9)
    actions, _ = case.history(2, 2)
    for outcome in OUTSIDE.get(case.name, [NAN, INF, -INF]):
        expected = SUPPORT.get(case.name, "must be numbers between .* and .*")
        message = rf"{expected}, got {outcome} \(observation 1\)"
        message = message.replace("+", r"\+")
        assert_refused(belief, (actions, [1.0, outcome]), errors.OutcomeError, message)


@families
@pytest.mark.parametrize("outcomes", [["one", "two"], [None, 1.0], [[1.0], [1.0, 0.0]], ["1", "0"],
                                      np.ones(2, complex)], ids=str)  # fmt: skip
def test_rewards_that_are_not_numbers(case: FamilyCase, outcomes: Any) -> None:
    actions, _ = case.history(2, 2)
    assert_refused(case.tasks(1, 2, 9), (actions, outcomes), errors.OutcomeError)


@families
def test_shapes_that_do_not_fit(case: FamilyCase) -> None:
    belief = case.tasks(1, 2, 9)
    actions, outcomes = case.history(2, 2)
    for wrong in (outcomes[:1], outcomes[None], outcomes[0], np.ones(3)):
        assert_refused(belief, (actions, wrong), errors.ActionError, "got shapes")
    assert_refused(belief, (actions[:1], outcomes[:1]), errors.ObservationError, "2 tasks, got 1")
    assert_refused(
        belief, (actions, outcomes, [0, 1, 1]), errors.ObservationError, r"as tasks \(3\), got 2"
    )


@families
def test_tasks_that_do_not_exist(case: FamilyCase) -> None:
    belief = case.tasks(1, 2, 9)
    update = case.history(2, 2)
    for tasks, message in [
        ([0, 2], "between 0 and 1, got 2; add_tasks"),
        ([-1, 0], "between 0 and 1, got -1"),
        ([0.0, 1.0], "integers, got .* float64"),
        ([True, False], "integers, got .* bool"),
        ([[0], [1]], r"one-dimensional .* got shape \(2, 1\)"),
        ([[0], [1, 1]], "one-dimensional"),
        (["a", "b"], "integers"),
        (1, "one-dimensional"),
    ]:
        assert_refused(belief, (*update, tasks), errors.TaskError, message)
    single = case.belief(1, 3)
    assert_refused(single, (*update, [0, 0]), errors.TaskError, "leave tasks out")


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "poisson", "spend"])
def test_arms_that_do_not_exist(name: str) -> None:
    belief = FamilyCase(name).tasks(1, 2, 9)
    ones = [1.0, 1.0]
    for arms, message in [
        ([0, SIZE], rf"from 0 to {SIZE - 1}, got {SIZE} \(observation 1\)"),
        ([-1, 0], rf"from 0 to {SIZE - 1}, got -1 \(observation 0\)"),
        ([0.0, 1.0], "arm indices .* got type float64"),
        ([True, False], "arm indices .* got type bool"),
        (["a", "b"], "arm indices"),
        ([[0], [1, 1]], "arm indices"),
        ([None, 0], "arm indices"),
    ]:
        assert_refused(belief, (arms, ones), errors.ActionError, message)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "spherical"])
def test_features_that_do_not_fit(name: str) -> None:
    belief = FamilyCase(name).tasks(1, 2, 9)
    rows, ones = np.ones((2, SIZE)), [1.0, 1.0]
    for actions, message in [
        (rows[:, 1:], rf"\(m, {SIZE}\) with m outcomes; got shapes \(2, {SIZE - 1}\)"),
        (rows[0], "got shapes"),
        (rows[None], "got shapes"),
        ([0, 1], "got shapes"),
        (
            at(rows, (1, 2), NAN),
            r"features must be numbers between .*, got .*nan.* \(observation 1\)",
        ),
        (
            at(rows, (0, 0), INF),
            r"features must be numbers between .*, got .*inf.* \(observation 0\)",
        ),
        (["a", "b"], f"feature vectors of {SIZE} numbers"),
        ([[1.0], [1.0, 2.0]], f"feature vectors of {SIZE} numbers"),
    ]:
        assert_refused(belief, (actions, ones), errors.ActionError, message)


BATCHES = {"few": 3, "beyond 2 d": 2 * SIZE + 2, "long": 200}


@families
@pytest.mark.parametrize("length", BATCHES)
@pytest.mark.parametrize("n_tasks", [None, 1, 3])
def test_only_the_last_of_a_batch_is_bad(case: FamilyCase, length: str, n_tasks: Any) -> None:
    """All or none, on every path: one by one, or a whole history at once."""
    n = BATCHES[length]
    belief = case.belief(1, 5) if n_tasks is None else case.tasks(1, n_tasks, 5)
    actions, outcomes = case.history(2, n)
    tasks = () if n_tasks is None else (np.arange(n) % n_tasks,)
    # Twice: before and after the statistics were handed out.
    for _ in range(2):
        bad = (actions, at(outcomes, -1, NAN), *tasks)
        assert_refused(belief, bad, errors.OutcomeError, rf"\(observation {n - 1}\)")
        wrong = at(actions, (-1, 0), NAN) if case.linear else np.append(actions[:-1], SIZE)
        assert_refused(belief, (wrong, outcomes, *tasks), errors.ActionError)
    belief.update(actions, outcomes, *tasks)
    fresh = case.prior.condition(belief.statistics)
    np.testing.assert_allclose(belief.log_evidence, fresh.log_evidence, rtol=1e-9)


@families
def test_a_belief_survives_huge_rewards(case: FamilyCase) -> None:
    """Either refused, or absorbed with weights that are still numbers."""
    if case.name in ("bernoulli", "poisson"):
        pytest.skip("counts are bounded by their support")
    for outcome in (1e100, 1e160, 1e308):
        belief = case.belief(1, 5)
        try:
            belief.update(case.history(2, 1)[0], [outcome])
        except errors.OutcomeError:
            continue
        assert np.isfinite(belief.weights).all()
        assert belief.weights.sum() == pytest.approx(1.0)
