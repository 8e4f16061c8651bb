"""One suite over all families: what a prior and a belief do, whatever the rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixts import errors
from mixts.extend._comparisons import ROUNDING
from mixts.extend._families import (
    FAMILY_RULES,
    READINGS,
    FamilyProblem,
    same_belief,
    some,
)
from tests.contracts.problems import (
    ALL_CASES,
    ARMS,
    HORIZON,
    N_MOVES,
    N_STATES,
    WEIGHTS,
    FamilyCase,
)

pytestmark = [
    pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name),
    pytest.mark.usefixtures("program"),
]


@pytest.mark.parametrize("rule", FAMILY_RULES, ids=lambda rule: rule.__name__)
@pytest.mark.usefixtures("unchecked")
def test_every_family_keeps_the_rules(
    case: FamilyCase, rule: Callable[[FamilyProblem], None]
) -> None:
    rule(case)


# -- beliefs ---------------------------------------------------------------------------------------


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


def test_tasks_may_all_come_later(case: FamilyCase) -> None:
    belief = case.prior.belief(0)
    for name in READINGS:
        assert getattr(belief, name).shape[0] == 0, name
    belief.add_tasks(2)
    belief.update(*case.history(5, 2))
    same_belief(belief, case.prior.condition(belief.statistics), "from the statistics")


# -- statistics ------------------------------------------------------------------------------------


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


def test_select_takes_names_and_weights(case: FamilyCase) -> None:
    order = [2, 0]
    part = case.prior.select(order)
    assert part.names == ("wild", "calm")
    np.testing.assert_allclose(part.weights, WEIGHTS[order] / WEIGHTS[order].sum())


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
    laws = family.reward_parameters(theta, np.zeros(7, int), first)
    rewards = family.outcomes(np.random.default_rng(0), laws)
    assert rewards.shape == (7,)
    empty, none = case.prior.draw(np.random.default_rng(0), 0)
    assert (empty.shape, none.shape) == ((0,), (0, case.size))


def test_a_prior_shows_what_it_is(case: FamilyCase) -> None:
    text = repr(case.prior)
    for part in (type(case.prior.family).__name__, "3 components", "calm", "odd", "wild", "0.5"):
        assert part in text
