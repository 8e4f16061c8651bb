"""Learning with offsets: the last coefficient is 1 in every task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import mixts
from mixts.errors import ParameterError
from mixts.families.coefficients import CoefficientFamily
from mixts.learning import check_prior, flat_family, learn_pooled, learn_prior, refit_prior


def tasks(clicks: bool, offset: bool = True) -> list[tuple[Any, Any]]:
    """Return 60 tasks of two kinds, whose rows end with an offset."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 15, 3)).round(1)
    rows[..., 0] = 1.0
    theta = np.array([[1.0, -1.0], [-1.0, 1.0]])[np.arange(60) % 2]
    means = (rows[..., :2] * theta[:, None]).sum(axis=2) + rows[..., 2]
    rewards = means + 0.5 * rng.normal(size=means.shape)
    if clicks:
        rewards = (rng.random(means.shape) < expit(means)).astype(float)
    if not offset:
        rows, rewards = rows[..., :2], rewards - rows[..., 2]
    return list(zip(rows, rewards, strict=True))


def test_rewards_are_learned_as_without_the_offset() -> None:
    ours = learn_prior(tasks(False), 2, seed=1, offset=True)
    theirs = learn_prior(tasks(False, offset=False), 2, seed=1)
    by_slope = [np.argsort(prior.family.mean[:, 1]) for prior in (ours, theirs)]  # equal weights
    np.testing.assert_allclose(
        ours.family.mean[by_slope[0], :2], theirs.family.mean[by_slope[1]], rtol=1e-9
    )
    np.testing.assert_array_equal(ours.family.mean[:, 2], [1.0, 1.0])
    assert ours.family.noise_std == pytest.approx(theirs.family.noise_std)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
@pytest.mark.parametrize("family", ["clicks", "rewards", "noise of each task"])
def test_all_families_keep_the_offset(family: str, covariance_type: str) -> None:
    options: dict[str, Any] = {"noise": "per-task"} if family == "noise of each task" else {}
    options |= {"covariance_type": covariance_type, "seed": 1}
    given = tasks(family == "clicks")
    prior = learn_prior(given, 2, offset=True, n_restarts=1, **options)
    assert isinstance(prior.family, CoefficientFamily)
    assert prior.family.has_offset
    assert prior.family.learning_settings()["offset"] is True
    assert prior.collapse().family.has_offset
    later = refit_prior(prior, given)
    assert later.family.has_offset
    assert check_prior(prior, given, seed=1).n_tasks == 60


@pytest.mark.parametrize("method", ["evidence", "two-stage"])
def test_the_number_of_components_may_be_compared(method: Any) -> None:
    prior = learn_prior(tasks(False), "auto", method, seed=1, offset=True, max_components=3)
    assert prior.family.has_offset
    assert prior.n_components >= 2


def test_an_offset_moves_the_intercept_of_clicks() -> None:
    given = [(np.append(x[:, :2], np.full((15, 1), 2.0), axis=1), y) for x, y in tasks(True)]
    shifted = learn_prior(given, 1, seed=1, offset=True, max_iterations=100)
    plain = learn_prior([(x[:, :2], y) for x, y in given], 1, seed=1, max_iterations=100)
    # The hyperprior is centred on the common coefficients, which the offset moves as well.
    np.testing.assert_allclose(
        shifted.family.mean[0, :2] + [2.0, 0.0], plain.family.mean[0], atol=0.05
    )


def test_the_flat_family_has_the_offset() -> None:
    assert flat_family(tasks(True), offset=True).learning_settings() == {"offset": True}


def test_with_and_without_are_inverses() -> None:
    family = mixts.LinearGaussian([[1.0, 2.0]], [0.3], 1.0, "spherical")
    wider = family.with_offset()
    assert wider.has_offset
    assert not family.has_offset
    np.testing.assert_array_equal(wider.without_offset().full_covariances(), 0.3 * np.eye(2)[None])
    np.testing.assert_array_equal(wider.without_offset().mean, family.mean)


def test_arms_have_no_offset() -> None:
    with pytest.raises(ParameterError, match="offset is for tasks with features"):
        learn_prior([([0, 1], [1, 0]), ([1, 1], [0, 1])], 1, offset=True)


@pytest.mark.parametrize(
    ("n_pooled", "ridge", "message"),
    [
        (3, None, "n_pooled must be less than the 3 numbers of a row, got 3"),
        (0, None, "n_pooled"),
        (1, -1.0, "ridge must be a number of at least 0"),
    ],
)
def test_wrong_arguments(n_pooled: int, ridge: float | None, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        learn_pooled(tasks(False), 1, n_pooled, ridge=ridge)


def test_arms_have_no_pooled_coefficients() -> None:
    with pytest.raises(ParameterError, match="pooled coefficients need tasks with features"):
        learn_pooled([([0, 1], [1, 0]), ([1, 1], [0, 1])], 1, 1)


def test_a_comparison_goes_on_with_its_selection() -> None:
    found = learn_pooled(tasks(False), "auto", 1, seed=1, max_components=2)
    assert found.coefficients == pytest.approx([1.0], abs=0.1)
    assert found.learned.selection is not None
