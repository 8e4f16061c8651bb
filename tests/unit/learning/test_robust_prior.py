from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.learning import learn, robust_prior
from mixts.learning.learn import BROADER
from tests.contracts.problems import FAMILIES, FamilyCase
from tests.oracles.learning_references import case_of, drawn, statistics_of

OUTLIERS: dict[str, Any] = {
    "bernoulli": (np.repeat(np.arange(4), 40), np.repeat([1.0, 1.0, 0.0, 0.0], 40)),
    "gaussian": (np.repeat(np.arange(4), 5), np.repeat([6.0, -6.0, 6.0, -6.0], 5)),
    "poisson": (np.repeat(np.arange(4), 5), np.repeat([90.0, 0.0, 90.0, 0.0], 5)),
    "full": (np.repeat(np.eye(4), 3, axis=0), np.repeat([7.0, -7.0, 7.0, -7.0], 3)),
}
"""Histories that no component of the contracts' priors explains."""


@pytest.mark.parametrize("name", FAMILIES)
def test_one_more_component_with_the_weight_that_was_asked_for(name: str) -> None:
    prior = FamilyCase(name).prior
    safe = robust_prior(prior, 0.05)
    assert safe.n_components == prior.n_components + 1
    np.testing.assert_allclose(safe.weights[:-1], 0.95 * prior.weights, rtol=1e-12)
    assert safe.weights[-1] == pytest.approx(0.05)
    assert safe.names == (*prior.names, "other")  # type: ignore[misc]
    # The others are as they were.
    draw = np.random.default_rng(0)
    _, theta = prior.draw(draw, 3)
    ours, theirs = safe.family.select([0, 1, 2]), prior.family
    for latent in range(3):
        for one, two in zip(_moments(ours, latent), _moments(theirs, latent), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    assert theta.shape[0] == 3


def _moments(family: Any, latent: int) -> tuple[Any, ...]:
    if family.n_features is not None:
        return family.mean[latent], family.full_covariances()[latent]
    if isinstance(family, mixts.TabularMDP):
        return family.reward[latent], family.transition[latent]
    marginal = family.prior_marginal(np.array([latent]))
    return marginal.mean(), marginal.variance()


@pytest.mark.parametrize("name", OUTLIERS)
def test_the_broad_component_explains_what_no_other_does(name: str) -> None:
    prior = FamilyCase(name).prior
    belief = robust_prior(prior).belief()
    belief.update(*OUTLIERS[name])
    evidence = belief.log_evidence
    assert evidence[-1] > evidence[:-1].max()
    assert belief.weights[-1] > 0.5


def test_the_broad_component_of_mdps_knows_only_what_is_possible() -> None:
    prior = FamilyCase("tabular with zeros").prior
    family: Any = robust_prior(prior).family
    for ours, theirs in zip(
        family.arrays_of_counts, prior.family.arrays_of_counts, strict=True  # type: ignore[attr-defined]
    ):  # fmt: skip
        np.testing.assert_array_equal(ours[-1], (theirs > 0).any(axis=0))


@pytest.mark.parametrize("name", ["gaussian", "poisson", "full"])
def test_the_broad_component_has_the_mean_of_all_and_more_variance(name: str) -> None:
    prior = FamilyCase(name).prior
    one = prior.family.collapse(prior.weights)
    broad = robust_prior(prior).family.select([3])
    np.testing.assert_allclose(_moments(broad, 0)[0], _moments(one, 0)[0], rtol=1e-9)
    np.testing.assert_allclose(_moments(broad, 0)[1], BROADER * _moments(one, 0)[1], rtol=1e-9)


def test_names_that_are_taken_and_names_that_are_not_there() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2), names=["other"])
    assert robust_prior(prior).names == ("other", "other 2")
    assert robust_prior(mixts.MixturePrior(mixts.BernoulliArms.uniform(2))).names is None


def test_retired_arms_stay_retired_and_arms_keep_their_names() -> None:
    family = mixts.BernoulliArms([[2.0, 1.0, 3.0]], [[1.0, 2.0, 3.0]])
    prior = mixts.MixturePrior(family, arm_names=["a", "b", "c"]).retire_arms(["b"])
    safe = robust_prior(prior)
    assert safe.arm_names == prior.arm_names
    np.testing.assert_array_equal(safe.arms.retired, [False, True, False])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("weight", [0.0, 1.0, -0.5, np.nan, "much"])
def test_weights_that_are_none(weight: Any) -> None:
    with pytest.raises(errors.ParameterError, match="weight must be"):
        robust_prior(mixts.MixturePrior(mixts.BernoulliArms.uniform(2)), weight)


def test_learning_appends_it() -> None:
    case = case_of("gaussian")
    plain = learn(case.statistics, 2, seed=0, n_restarts=1)
    safe = learn(case.statistics, 2, seed=0, n_restarts=1, robust=0.02)
    np.testing.assert_array_equal(safe.prior.weights, robust_prior(plain.prior, 0.02).weights)
    odd = drawn(mixts.MixturePrior(mixts.GaussianArms([[9.0] * 3], [[0.1] * 3], 0.5)), 1, 9, 0)
    belief = safe.prior.condition(statistics_of(odd, safe.prior))
    assert belief.weights[0, -1] > 0.99
