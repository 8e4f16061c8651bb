"""Learning priors of spend arms: the objective, the kinds, two stages, tasks without purchases."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.families import SpendStatistics
from mixts.learning import check_prior, flat_family, learn
from mixts.learning.models import model_of

TRUE = mixts.MixturePrior(
    mixts.SpendArms(
        [[6.0, 1.0, 2.0], [1.0, 6.0, 2.0]], [[20.0, 30.0, 20.0], [30.0, 20.0, 20.0]],
        [[3.0, 2.0, 2.5], [2.0, 4.0, 2.5]], np.full((2, 3), 9.0),
        np.full((2, 3), 8.0), np.full((2, 3), 4.0),
    ),
    [0.6, 0.4],
)  # fmt: skip


def tasks_of(prior: mixts.MixturePrior, n: int, length: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    family: Any = prior.family
    latent, theta = prior.draw(rng, n)
    owners = np.repeat(np.arange(n), length)
    arms = rng.integers(family.n_arms, size=len(owners))
    laws = family.reward_parameters(theta[owners], arms, theta[owners, arms])
    statistics = SpendStatistics.empty((family.n_arms,), n)
    statistics.observe(owners, statistics.observations(arms, family.outcomes(rng, laws)))
    return latent, statistics


@cache
def past() -> tuple[Any, Any]:
    return tasks_of(TRUE, 200, 60, seed=1)


@cache
def learned() -> Any:
    return learn(past()[1], 2, seed=1, n_restarts=2, engine=1)


def test_the_model_has_the_evidence_of_the_family() -> None:
    statistics = past()[1]
    model = model_of(statistics)
    found, expected = model.log_evidence(TRUE.family), TRUE.family.log_evidence(statistics)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("n_components", [1, 3])
def test_the_objective_never_falls(n_components: int) -> None:
    found = learn(past()[1], n_components, seed=2, n_restarts=2, engine=1)
    for restart in found.restarts:
        steps = np.diff(restart.objective)
        assert (steps >= -1e-9 * np.abs(restart.objective[0])).all()


def test_a_step_climbs_the_penalised_evidence() -> None:
    """One improvement raises the expected log density, so it must raise the objective."""
    model = model_of(past()[1])
    family: Any = model.centre
    share = np.ones((200, 1))
    values = []
    for _ in range(15):
        values.append(float(model.log_evidence(family).sum()) + model.log_hyperprior(family))
        family = model.improve(family, share)
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0] + 10


def test_the_hyperprior_is_largest_at_its_centre() -> None:
    model = model_of(past()[1])
    centre: Any = model.centre
    best = model.log_hyperprior(centre)
    for name, array in centre.arrays().items():
        for factor in (0.7, 1.4):
            moved = mixts.SpendArms(**{**centre.arrays(), name: array * factor})
            assert model.log_hyperprior(moved) < best


def test_kinds_are_found() -> None:
    latent, statistics = past()
    prior = learned().prior
    weights = prior.condition(statistics).weights
    share = (weights.argmax(axis=1) == latent).mean()
    assert max(share, 1 - share) > 0.9
    order = [0, 1] if share > 0.5 else [1, 0]
    family: Any = prior.family.select(order)
    truth = TRUE.family.parameter_means()
    found = family.parameter_means()
    np.testing.assert_allclose(found[:, 3:6], truth[:, 3:6], atol=0.05)
    np.testing.assert_allclose(found[:, 6:], truth[:, 6:], atol=0.4)


def test_packing_is_undone() -> None:
    model = model_of(past()[1])
    family: Any = learned().prior.family
    again: Any = model.unpack(model.pack(family), 2)
    for name, array in family.arrays().items():
        np.testing.assert_allclose(again.arrays()[name], array, rtol=1e-12)
    assert model.unpack(np.full(36, 100.0), 2) is None


def test_two_stages() -> None:
    latent, statistics = past()
    found = learn(statistics, 2, method="two-stage", seed=1)
    share = (found.prior.condition(statistics).weights.argmax(axis=1) == latent).mean()
    assert max(share, 1 - share) > 0.85


def test_the_number_of_kinds_is_chosen() -> None:
    some = past()[1][np.arange(60)]
    found = learn(some, "auto", seed=1, n_restarts=1, n_folds=2, max_components=3, engine=1)
    # A kind may have several components, if mixtures were joined.
    assert found.prior.by_kind().n_components == 2


def test_a_check_accepts_the_truth_and_refuses_another_spend() -> None:
    _, statistics = tasks_of(TRUE, 300, 40, seed=3)
    good = check_prior(TRUE, statistics, seed=1)
    for calibration in good.calibration.values():
        assert calibration.p_value > 1e-3
    moved = mixts.SpendArms(**{**TRUE.family.arrays(), "log_spend": TRUE.family.log_spend + 1})  # type: ignore[attr-defined]
    bad = check_prior(mixts.MixturePrior(moved, TRUE.weights), statistics, seed=1)
    assert min(c.p_value for c in bad.calibration.values()) < 1e-6
    wide = mixts.SpendArms(**{**TRUE.family.arrays(), "scale": TRUE.family.scale * 4})  # type: ignore[attr-defined]
    bad = check_prior(mixts.MixturePrior(wide, TRUE.weights), statistics, seed=1)
    assert bad.calibration["noise"].p_value < 1e-6


@pytest.mark.parametrize("method", ["evidence", "two-stage"])
@pytest.mark.parametrize("rewards", [[0.0], [5.0], [0.0, 5.0], [0.0, 1e-6], [1e6]])
def test_few_and_equal_rewards(method: Any, rewards: list[float]) -> None:
    """No purchase at all, nothing but purchases, equal spends: still a prior with finite means."""
    statistics = SpendStatistics.empty((2,), 12)
    owners = np.arange(24) % 12
    outcomes = np.resize(rewards, 24)
    statistics.observe(owners, statistics.observations(np.arange(24) % 2, outcomes))
    prior = learn(statistics, 1, method=method, seed=1, engine=1).prior
    assert np.isfinite(prior.family.parameter_means()).all()
    assert np.isfinite(flat_family(statistics).parameter_variances()).all()
