"""One suite over all families: what a prior and a belief do, whatever the rewards."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from tests.contracts.problems import (
    ALL_CASES,
    ARMS,
    HORIZON,
    N_COMPONENTS,
    N_MOVES,
    N_STATES,
    SIZE,
    WEIGHTS,
    FamilyCase,
    some,
)

pytestmark = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)

ROUNDING = 1e-10
"""Relative: dozens of operations on well-scaled numbers lose a few of sixteen digits."""

READINGS = (
    "log_evidence",
    "weights",
    "component_mean",
    "component_covariance",
    "mean",
    "covariance",
)


def assert_same_belief(one: mixts.Belief, other: mixts.Belief) -> None:
    for name in READINGS:
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=ROUNDING, atol=ROUNDING, err_msg=name
        )


# -- beliefs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, SIZE - 1, SIZE, 2 * SIZE + 1, 60])
def test_condition_is_incremental(case: FamilyCase, n: int) -> None:
    """One by one, in one batch, and from the statistics: the same belief."""
    history = case.history(1, n)
    stepwise, batch = case.prior.belief(), case.prior.belief()
    for i in range(n):
        stepwise.update(*some(history, i))
    batch.update(*history)
    assert_same_belief(stepwise, batch)
    assert_same_belief(stepwise, case.prior.condition(stepwise.statistics))
    assert_same_belief(stepwise, case.prior.condition(batch.statistics))


def test_no_history_is_the_prior(case: FamilyCase) -> None:
    belief = case.prior.belief()
    np.testing.assert_array_equal(belief.log_evidence, np.zeros(N_COMPONENTS))
    np.testing.assert_allclose(belief.weights, WEIGHTS, rtol=1e-15)


def test_history_moves_the_weights(case: FamilyCase) -> None:
    """A test that only compares two computations would not notice this."""
    assert abs(case.belief(1, 40).weights - WEIGHTS).max() > 0.05


def test_update_returns_none(case: FamilyCase) -> None:
    belief = case.prior.belief()
    history = case.history(1, 2)
    assert belief.update(*some(history, 0)) is None
    assert belief.update(*history) is None


def test_an_update_of_nothing_changes_nothing(case: FamilyCase) -> None:
    belief = case.tasks(1, 3, 12)
    before = belief.log_evidence
    belief.update(*case.history(2, 0), tasks=np.zeros(0, int))
    np.testing.assert_array_equal(belief.log_evidence, before)
    assert belief.statistics.n_observations.sum() == 12 * case.n_steps


def test_a_posterior_is_a_prior(case: FamilyCase) -> None:
    """Half the history as a prior, then the rest: the same posterior, and evidences that add up."""
    history = case.history(3, 30)
    whole, first = case.prior.belief(), case.prior.belief()
    whole.update(*history)
    first.update(*some(history, slice(14)))
    second = first.as_prior().belief()
    second.update(*some(history, slice(14, None)))
    assert first.as_prior().names == case.prior.names
    if not case.conjugate:
        # A normal distribution with the posterior's moments is close to it, and no more.
        np.testing.assert_allclose(second.weights, whole.weights, atol=0.05)
        deviation = np.sqrt(np.diagonal(whole.covariance))
        assert np.all(np.abs(second.mean - whole.mean) < 0.5 * deviation)
        return
    np.testing.assert_allclose(
        first.log_evidence + second.log_evidence, whole.log_evidence, rtol=ROUNDING
    )
    np.testing.assert_allclose(second.weights, whole.weights, rtol=1e-8)
    np.testing.assert_allclose(second.mean, whole.mean, rtol=1e-8)
    np.testing.assert_allclose(second.covariance, whole.covariance, rtol=1e-8, atol=1e-10)


def test_a_posterior_of_one_of_many_tasks_is_a_prior(case: FamilyCase) -> None:
    belief = case.tasks(3, 3, 30)
    fresh = belief.as_prior(1).belief()
    np.testing.assert_allclose(fresh.weights, belief.weights[1], rtol=ROUNDING)
    np.testing.assert_allclose(fresh.mean, belief.mean[1], rtol=ROUNDING, atol=ROUNDING)
    for wrong in (None, 3, -1):
        with pytest.raises(errors.TaskError):
            belief.as_prior(wrong)
    with pytest.raises(errors.TaskError):
        case.prior.belief().as_prior(0)


def test_statistics_are_a_snapshot(case: FamilyCase) -> None:
    """Statistics that were read never change, and beliefs made from them do not write to them."""
    belief = case.tasks(4, 2, 10)
    taken = belief.statistics
    copy, evidence = taken.copy(), belief.log_evidence
    belief.update(*case.history(5, 2))
    assert taken == copy
    assert belief.statistics != copy
    other = case.prior.condition(taken)
    other.update(*case.history(6, 2))
    assert taken == copy
    np.testing.assert_allclose(case.prior.condition(taken).log_evidence, evidence, rtol=ROUNDING)


def test_new_tasks_leave_the_old_ones_alone(case: FamilyCase) -> None:
    belief = case.tasks(4, 2, 14)
    before, snapshot = belief.log_evidence, belief.statistics
    indices = belief.add_tasks(3)
    assert indices.tolist() == [2, 3, 4]
    assert belief.n_tasks == 5
    assert len(belief.statistics) == 5
    assert len(snapshot) == 2
    np.testing.assert_array_equal(belief.log_evidence[:2], before)
    np.testing.assert_allclose(belief.weights[2:], np.tile(WEIGHTS, (3, 1)), rtol=1e-15)
    history = case.history(5, 8)
    belief.update(*history, tasks=np.full(8, 3))
    alone = case.prior.belief()
    alone.update(*history)
    np.testing.assert_allclose(belief.log_evidence[3], alone.log_evidence, rtol=ROUNDING)
    np.testing.assert_array_equal(belief.log_evidence[:2], before)
    assert_same_belief(belief, case.prior.condition(belief.statistics))
    assert belief.add_tasks(0).tolist() == []


def test_tasks_may_all_come_later(case: FamilyCase) -> None:
    belief = case.prior.belief(0)
    for name in READINGS:
        assert getattr(belief, name).shape[0] == 0, name
    belief.add_tasks(2)
    belief.update(*case.history(5, 2))
    assert_same_belief(belief, case.prior.condition(belief.statistics))


def test_pickled_beliefs_go_on(case: FamilyCase) -> None:
    belief = case.tasks(4, 2, 10)
    again = pickle.loads(pickle.dumps(belief))
    for one in (belief, again):
        one.update(*case.history(4, 6), tasks=[0, 1, 1, 0, 1, 1])
    assert again.statistics == belief.statistics
    for name in READINGS:
        np.testing.assert_array_equal(getattr(again, name), getattr(belief, name), err_msg=name)


# -- statistics ------------------------------------------------------------------------------------


def arrays(statistics: Any) -> list[Any]:
    return [statistics.array(name) for name in statistics.fields]


def assert_close(one: Any, other: Any) -> None:
    assert one.shape == other.shape
    for ours, theirs in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=ROUNDING, atol=ROUNDING)


def test_statistics_are_a_monoid(case: FamilyCase) -> None:
    a, b, c = (case.tasks(seed, 3, 12).statistics for seed in (11, 12, 13))
    empty = case.prior.belief(3).statistics
    assert a + empty == a
    assert empty + a == a
    assert_close((a + b) + c, a + (b + c))
    assert_close(a + b, b + a)
    assert (a + b).n_observations.sum() == 24 * case.n_steps
    assert a + b != a


def test_merging_is_conditioning_on_both(case: FamilyCase) -> None:
    history = case.history(11, 20)
    whole, first, second = (case.prior.belief() for _ in range(3))
    whole.update(*history)
    first.update(*some(history, slice(7)))
    second.update(*some(history, slice(7, None)))
    merged = first.statistics + second.statistics
    assert_close(merged, whole.statistics)
    assert_same_belief(case.prior.condition(merged), whole)


def test_concatenation_and_indexing_undo_each_other(case: FamilyCase) -> None:
    a, b = (case.tasks(seed, 3, 12).statistics for seed in (11, 12))
    both = a.concatenate(b)
    assert len(both) == 6
    assert both[:3] == a
    assert both[np.arange(3, 6)] == b
    assert both[np.arange(6) < 3] == a
    assert both[[5, 0, 5]] == b[[2]].concatenate(a[[0]], b[[2]])
    assert_same_belief(case.prior.condition(both[4]), case.prior.condition(b[1]))
    assert case.prior.condition(both[4]).weights.shape == (N_COMPONENTS,)
    with pytest.raises(errors.TaskError):
        both[6]


@pytest.mark.parametrize("name", ["tasks.json", "tasks.npz", "tasks"])
def test_statistics_files(case: FamilyCase, name: str, tmp_path: Any) -> None:
    for statistics in (case.tasks(11, 3, 12).statistics, case.belief(11, 5).statistics):
        statistics.save(tmp_path / name)
        again = mixts.Statistics.load(tmp_path / name)
        assert type(again) is type(statistics)
        assert again == statistics
        np.testing.assert_array_equal(
            case.prior.condition(again).log_evidence, case.prior.condition(statistics).log_evidence
        )


def test_statistics_that_do_not_fit_are_refused(case: FamilyCase) -> None:
    ours = case.prior.belief(2).statistics
    priors = [other.prior for other in ALL_CASES]
    others = [prior for prior in priors if type(prior.belief(2).statistics) is not type(ours)]
    assert len(others) >= 5
    for other in others:
        with pytest.raises(errors.StatisticsError):
            ours + other.belief(2).statistics
        with pytest.raises(errors.StatisticsError):
            ours.concatenate(other.belief(2).statistics)
        with pytest.raises(errors.StatisticsError):
            case.prior.condition(other.belief(2).statistics)
    with pytest.raises(errors.StatisticsError, match="concatenate"):
        ours + case.prior.belief(3).statistics


# -- priors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prior.json", "prior.npz", "prior"])
def test_prior_files(case: FamilyCase, name: str, tmp_path: Any) -> None:
    case.prior.save(tmp_path / name)
    again = mixts.MixturePrior.load(tmp_path / name)
    assert repr(again) == repr(case.prior)
    np.testing.assert_array_equal(again.weights, case.prior.weights)
    statistics = case.tasks(11, 3, 12).statistics
    np.testing.assert_array_equal(
        again.condition(statistics).log_evidence, case.prior.condition(statistics).log_evidence
    )


def test_select_takes_components(case: FamilyCase) -> None:
    order = [2, 0]
    part = case.prior.select(order)
    assert part.names == ("wild", "calm")
    np.testing.assert_allclose(part.weights, WEIGHTS[order] / WEIGHTS[order].sum())
    statistics = case.belief(11, 9).statistics
    whole = case.prior.condition(statistics)
    np.testing.assert_allclose(
        part.condition(statistics).log_evidence, whole.log_evidence[order], rtol=ROUNDING
    )
    np.testing.assert_allclose(
        part.condition(statistics).component_mean, whole.component_mean[order], rtol=ROUNDING
    )


def kept_by_collapse(case: FamilyCase, covariance: Any) -> Any:
    """Arms: each one's variance. MDPs: the rewards', and of a row of transitions their sum."""
    variance = np.diag(covariance)
    if case.mdp:
        rewards, rows = np.split(variance, [N_STATES * N_MOVES])
        return np.append(rewards, rows.reshape(-1, N_STATES).sum(axis=1))
    return variance if case.name in ARMS else covariance


def test_collapse_keeps_the_moments(case: FamilyCase) -> None:
    one = case.prior.collapse()
    assert one.n_components == 1
    assert one.weights.tolist() == [1.0]
    assert type(one.family) is type(case.prior.family)
    belief, collapsed = case.prior.belief(), one.belief()
    n = case.n_rewards
    np.testing.assert_allclose(collapsed.mean[:n], belief.mean[:n], rtol=ROUNDING)
    ours, theirs = (kept_by_collapse(case, b.covariance[:n, :n]) for b in (collapsed, belief))
    np.testing.assert_allclose(ours, theirs, rtol=ROUNDING, atol=ROUNDING)


def test_draws_have_the_shapes_of_tasks(case: FamilyCase) -> None:
    family = case.prior.family
    latent, theta = case.prior.draw(np.random.default_rng(0), 7)
    assert latent.shape == (7,)
    assert latent.dtype.kind == "i"
    assert theta.shape == (7, case.size)
    means = family.mean_rewards(theta, case.actions)
    assert means.shape == (7, *case.means_shape)
    best = family.best_action(np.random.default_rng(0), theta, case.actions)
    if case.mdp:
        # In the last step nothing comes after: the best action has the best mean reward.
        assert best.shape == (7, HORIZON, N_STATES)
        best = best[:, -1]
    np.testing.assert_array_equal(best, means.argmax(axis=-1))
    first = means.reshape(7, -1)[:, 0]
    laws = family.reward_laws(theta, np.zeros(7, int), first)
    rewards = family.outcomes(np.random.default_rng(0), laws)
    assert rewards.shape == (7,)
    empty, none = case.prior.draw(np.random.default_rng(0), 0)
    assert (empty.shape, none.shape) == ((0,), (0, case.size))


def test_a_prior_shows_what_it_is(case: FamilyCase) -> None:
    text = repr(case.prior)
    for part in (type(case.prior.family).__name__, "3 components", "calm", "odd", "wild", "0.5"):
        assert part in text


def test_parameters_cannot_be_written_to(case: FamilyCase) -> None:
    for array in (case.prior.weights, *case.prior.family.arrays().values()):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.5
