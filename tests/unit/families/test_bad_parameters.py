"""Impossible parameters and calls: each gives its own clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors

pytestmark = pytest.mark.usefixtures("unchecked")

TWO = np.ones((2, 3))
EYE = np.tile(np.eye(3), (2, 1, 1))
SKEW = EYE + np.triu(np.full((3, 3), 0.1), 1)
INDEFINITE = EYE - 1.25 * np.diag([1.0, 0.0, 0.0])
NAN, INF = np.nan, np.inf
ARMS = mixts.BernoulliArms(TWO, TWO)


def at(array: Any, index: Any, value: float) -> Any:
    """A copy with one entry changed."""
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


def linear(mean: Any, covariance: Any, noise_std: Any = 1.0, kind: Any = "full") -> Any:
    return mixts.LinearGaussian(mean, covariance, noise_std, covariance_type=kind)


# -- families and priors ---------------------------------------------------------------------------

Bad = tuple[Callable[[], Any], type[Exception], str]

FAMILIES: dict[str, Bad] = {
    "alpha zero": (
        lambda: mixts.BernoulliArms(at(TWO, (1, 2), 0.0), TWO),
        errors.ParameterError, r"alpha must be above 0, got 0\.0 at index \(1, 2\)",
    ),
    "beta negative": (
        lambda: mixts.BernoulliArms(TWO, at(TWO, (0, 1), -1.0)),
        errors.ParameterError, r"beta must be above 0, got -1\.0 at index \(0, 1\)",
    ),
    "alpha nan": (
        lambda: mixts.BernoulliArms(at(TWO, (1, 0), NAN), TWO),
        errors.ParameterError, r"alpha must be finite, got nan at index \(1, 0\)",
    ),
    "beta infinite": (
        lambda: mixts.BernoulliArms(TWO, at(TWO, (0, 0), INF)),
        errors.ParameterError, "beta must be finite, got inf",
    ),
    "shapes differ": (
        lambda: mixts.BernoulliArms(TWO, TWO[:1]),
        errors.ParameterError, r"same shape, got \(2, 3\) and \(1, 3\)",
    ),
    "no component axis": (
        lambda: mixts.BernoulliArms(TWO[0], TWO[0]),
        errors.ParameterError, r"alpha must have 2 axes .* got shape \(3,\)",
    ),
    "no arms": (
        lambda: mixts.BernoulliArms(TWO[:, :0], TWO[:, :0]),
        errors.ParameterError, "alpha is empty",
    ),
    "ragged": (
        lambda: mixts.BernoulliArms([[1.0], [1.0, 2.0]], TWO),
        errors.ParameterError, "alpha must be an array of numbers",
    ),
    "words": (
        lambda: mixts.BernoulliArms([["one", "two"]], TWO),
        errors.ParameterError, "alpha must be an array of numbers",
    ),
    "numbers as words": (
        lambda: mixts.BernoulliArms([["1", "2"]], [[1.0, 2.0]]),
        errors.ParameterError, "alpha must be an array of numbers",
    ),
    "complex": (
        lambda: mixts.BernoulliArms(np.ones((1, 2), complex), np.ones((1, 2))),
        errors.ParameterError, "alpha must be an array of numbers",
    ),
    "no arms to count": (
        lambda: mixts.BernoulliArms.uniform(0), errors.ParameterError, "n_arms .* at least 1, got 0"
    ),
    "variance negative": (
        lambda: mixts.GaussianArms(TWO, at(TWO, (1, 1), -0.5), 1.0),
        errors.ParameterError, r"variance must be at least 0, got -0\.5 at index \(1, 1\)",
    ),
    "mean nan": (
        lambda: mixts.GaussianArms(at(TWO, (0, 0), NAN), TWO, 1.0),
        errors.ParameterError, "mean must be finite, got nan",
    ),
    "noise zero": (
        lambda: mixts.GaussianArms(TWO, TWO, 0.0),
        errors.ParameterError, r"noise_std must be a number between .*, got 0\.0",
    ),
    "noise negative": (
        lambda: linear(TWO, EYE, -1.0), errors.ParameterError, r"noise_std .* got -1\.0"
    ),
    "noise nan": (lambda: linear(TWO, EYE, NAN), errors.ParameterError, "noise_std .* got nan"),
    "noise infinite": (
        lambda: linear(TWO, EYE, INF), errors.ParameterError, "noise_std .* got inf"
    ),
    "noise array": (
        lambda: mixts.GaussianArms(TWO, TWO, [1.0, 2.0]),
        errors.ParameterError, r"noise_std must be a number above 0, got \[1\.0, 2\.0\]",
    ),
    "shape zero": (
        lambda: mixts.PoissonArms(at(TWO, (0, 2), 0.0), TWO),
        errors.ParameterError, r"shape must be above 0, got 0\.0",
    ),
    "rate negative": (
        lambda: mixts.PoissonArms(TWO, -TWO),
        errors.ParameterError, r"rate must be above 0, got -1\.0",
    ),
    "not symmetric": (
        lambda: linear(TWO, SKEW),
        errors.CovarianceError, r"covariance\[0\] must be symmetric, .* its transpose by 0\.1",
    ),
    "not PSD": (
        lambda: linear(TWO, INDEFINITE),
        errors.CovarianceError, r"covariance\[0\] .* smallest eigenvalue is -0\.25",
    ),
    "tied not PSD": (
        lambda: linear(TWO, -np.eye(3), kind="tied"),
        errors.CovarianceError, "smallest eigenvalue is -1",
    ),
    "variance of a diagonal": (
        lambda: linear(TWO, at(TWO, (1, 1), -0.5), kind="diag"),
        errors.ParameterError, r"covariance must be at least 0, got -0\.5",
    ),
    "spherical nan": (
        lambda: linear(TWO, [1.0, NAN], kind="spherical"),
        errors.ParameterError, "covariance must be finite",
    ),
    "covariance of another type": (
        lambda: linear(TWO, np.eye(3)),
        errors.ParameterError, r"covariance must have 3 axes .* got shape \(3, 3\)",
    ),
    "covariance of another size": (
        lambda: linear(TWO, EYE[:, :2, :2]),
        errors.ParameterError, r"must have shape \(2, 3, 3\) .* got \(2, 2, 2\)",
    ),
    "unknown type": (
        lambda: linear(TWO, EYE, kind="banded"),
        errors.ParameterError, "covariance_type must be one of .*'full'.* got 'banded'",
    ),
    "weights too large": (
        lambda: mixts.MixturePrior(ARMS, weights=[0.5, 0.6]),
        errors.WeightsError, r"sum to 1 within 1e-09, got 1\.1; divide",
    ),
    "weights a little off": (
        lambda: mixts.MixturePrior(ARMS, weights=[0.5, 0.5 + 2e-9]),
        errors.WeightsError, "sum to 1",
    ),
    "weights negative": (
        lambda: mixts.MixturePrior(ARMS, weights=[1.5, -0.5]),
        errors.WeightsError, "at least 0, got",
    ),
    "weights nan": (
        lambda: mixts.MixturePrior(ARMS, weights=[NAN, 1.0]),
        errors.WeightsError, "finite",
    ),
    "weights of other length": (
        lambda: mixts.MixturePrior(ARMS, weights=[1.0]),
        errors.WeightsError, r"shape \(2,\), one for each component, got \(1,\)",
    ),
    "weights ragged": (
        lambda: mixts.MixturePrior(ARMS, weights=[[1.0], [0.5, 0.5]]),
        errors.WeightsError, "must be numbers",
    ),
    "not a family": (
        lambda: mixts.MixturePrior(TWO), errors.ParameterError, "family must be .* got ndarray"
    ),
    "names missing": (
        lambda: mixts.MixturePrior(ARMS, names=["one"]),
        errors.ParameterError, "names must have 2 entries, got 1",
    ),
    "names twice": (
        lambda: mixts.MixturePrior(ARMS, names=["one", "one"]),
        errors.ParameterError, "names must be distinct",
    ),
    "names of numbers": (
        lambda: mixts.MixturePrior(ARMS, names=[1, 2]),
        errors.ParameterError, "names must be a sequence of strings",
    ),
    "names is a number": (
        lambda: mixts.MixturePrior(ARMS, names=2),
        errors.ParameterError, "names must be a sequence of strings",
    ),
    "arm names of a linear family": (
        lambda: mixts.MixturePrior(linear(TWO, EYE), arm_names=["a", "b", "c"]),
        errors.ParameterError, "arm_names need a family with arms",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_impossible_parameters(name: str) -> None:
    make, kind, message = FAMILIES[name]
    with pytest.raises(kind, match=message) as caught:
        make()
    assert type(caught.value) is kind


def too_large() -> dict[str, Any]:
    """Return constructors of families with a parameter that overflows sums and products."""
    one = np.ones((1, 2))
    return {
        "gaussian variance": lambda x: mixts.GaussianArms(one, at(one, (0, 1), x * x), 1e-75),
        "gaussian mean": lambda x: mixts.GaussianArms(at(one, (0, 1), -x), one, 1e-75),
        "student variance": lambda x: mixts.StudentArms(one, at(one, (0, 0), x * x), [1.0], [3.0]),
        "bernoulli": lambda x: mixts.BernoulliArms(x * one, x * one),
        "poisson": lambda x: mixts.PoissonArms(x * one, one),
        "linear": lambda x: mixts.LinearGaussian(one, [x * x], 0.1, "spherical"),
        "linear mean": lambda x: mixts.LinearGaussian(x * one, [1.0], 0.1, "spherical"),
    }


@pytest.mark.parametrize("name", too_large())
def test_parameters_too_large_to_compute_with(name: str) -> None:
    make = too_large()[name]
    with pytest.raises(errors.ParameterError, match="too large to compute with"):
        make(1e77)
    belief = mixts.MixturePrior(make(1e75)).belief()
    belief.update(0 if belief.prior.family.n_arms else [1.0, 0.0], 1)
    assert np.isfinite(belief.log_evidence).all()
    assert np.isfinite(belief.weights).all()


def test_a_component_may_be_singular_or_certain() -> None:
    """Some unusual input is valid."""
    mixts.GaussianArms(TWO, 0 * TWO, 1.0)
    linear(TWO, 0 * EYE)
    linear(TWO, np.ones((3, 3)), kind="tied")
    linear(TWO, EYE + np.triu(np.full((3, 3), 1e-12), 1))  # rounding of a symmetric matrix
    assert mixts.MixturePrior(ARMS, weights=[0.0, 1.0]).weights.tolist() == [0.0, 1.0]
    assert mixts.MixturePrior(ARMS, weights=[0.5, 0.5 + 1e-10]).weights.sum() == 1.0


# -- calls -----------------------------------------------------------------------------------------

PRIOR = mixts.MixturePrior(ARMS)
MORE = mixts.MixturePrior(mixts.BernoulliArms.uniform(4))
LINEAR = mixts.MixturePrior(linear(TWO, EYE))
RNG = np.random.default_rng(0)

CALLS: dict[str, Bad] = {
    "statistics of another kind": (
        lambda: PRIOR.condition(LINEAR.belief().statistics),
        errors.StatisticsError, "BernoulliStatistics of shape \\(3,\\), got LinearStatistics",
    ),
    "statistics of more arms": (
        lambda: PRIOR.condition(MORE.belief().statistics),
        errors.StatisticsError, "shape \\(3,\\), got",
    ),
    "too many observations": (
        lambda: mixts.families.LinearStatistics(count=[2**63 - 1], factor=np.zeros((1, 3, 3))),
        errors.StatisticsError, "count must be from 0 to 2",
    ),
    "no statistics": (lambda: PRIOR.condition(None), errors.StatisticsError, "got None"),
    "tasks below zero": (lambda: PRIOR.belief(-1), errors.ParameterError, "n_tasks .* got -1"),
    "tasks of a fraction": (
        lambda: LINEAR.belief(2.5), errors.ParameterError, "n_tasks .* got 2.5"
    ),
    "draws below zero": (lambda: PRIOR.draw(RNG, -1), errors.ParameterError, "n must be .* got -1"),
    "components unknown": (
        lambda: PRIOR.select([2]), errors.ParameterError, r"numbered 0 to 1, got \[2\]"
    ),
    "components ragged": (
        lambda: PRIOR.select([[0], [1, 1]]), errors.ParameterError, "list of component indices"
    ),
    "components without weight": (
        lambda: mixts.MixturePrior(PRIOR.family, weights=[0.0, 1.0]).select([0]),
        errors.ParameterError, "no weight",
    ),
    "latent unknown": (
        lambda: PRIOR.belief().sample_parameters(RNG, 2), errors.MixtsError, "latent .* below 2"
    ),
    "new tasks below zero": (
        lambda: PRIOR.belief(2).add_tasks(-1), errors.ParameterError, "n must be .* got -1"
    ),
    "new tasks of one": (
        lambda: PRIOR.belief().add_tasks(1), errors.ParameterError, "create it with n_tasks"
    ),
    "features of arms": (
        lambda: PRIOR.belief().mean_rewards(np.eye(3)), errors.ActionError, "3 fixed arms"
    ),
    "features missing": (
        lambda: LINEAR.belief().mean_rewards(), errors.ActionError, r"shape \(K, 3\).* got None"
    ),
    "agent without a prior": (
        lambda: mixts.MixTS(PRIOR.family), errors.ParameterError, "MixturePrior, got BernoulliArms"
    ),
    "agent with half a sample": (
        lambda: mixts.MixTS(PRIOR, n_samples=0.5), errors.ParameterError, "n_samples .* got 0.5"
    ),
    "seed below zero": (lambda: mixts.MixTS(PRIOR, seed=-1), errors.ParameterError, "seed .* -1"),
    "seed of words": (lambda: mixts.MixTS(PRIOR, seed="x"), errors.ParameterError, "seed .* 'x'"),
    "oracle of an unknown state": (
        lambda: mixts.Oracle(PRIOR, 2), errors.ParameterError, r"\(0 to 1\).* got 2"
    ),
    "oracle of some tasks": (
        lambda: mixts.Oracle(PRIOR, [0, 1], n_tasks=3), errors.ParameterError, "each of the 3 tasks"
    ),
    "oracle of ragged states": (
        lambda: mixts.Oracle(PRIOR, [[0], [1, 1]], n_tasks=2), errors.ParameterError, "latent must"
    ),
    "another prior that is none": (
        lambda: mixts.MixTS(PRIOR).use_prior(None), errors.ParameterError, "MixturePrior, got None"
    ),
    "Exp4 without gamma": (
        lambda: mixts.Exp4(TWO), errors.ParameterError, "give gamma, or n_rounds"
    ),
    "CorralExp4 without gamma": (
        lambda: mixts.CorralExp4(PRIOR), errors.ParameterError, "give gamma, or n_rounds"
    ),
    "gamma above one": (
        lambda: mixts.Exp4(TWO, gamma=1.5), errors.ParameterError, "gamma .* 0 and 1, got 1.5"
    ),
    "gamma of words": (
        lambda: mixts.Exp4(TWO, gamma="much"), errors.ParameterError, "gamma .* got 'much'"
    ),
    "gamma zero without eta": (
        lambda: mixts.Exp4(TWO, gamma=0.0), errors.ParameterError, "give eta with gamma = 0"
    ),
    "eta zero": (
        lambda: mixts.Exp4(TWO, gamma=0.1, eta=0.0), errors.ParameterError, r"eta .* got 0\.0"
    ),
    "no rounds": (lambda: mixts.Exp4(TWO, 0), errors.ParameterError, "n_rounds .* 1, got 0"),
    "experts nan": (
        lambda: mixts.Exp4(at(TWO, (0, 0), NAN), 10), errors.ParameterError, "must be finite"
    ),
    "experts of one axis": (
        lambda: mixts.Exp4(TWO[0], 10), errors.ParameterError, "experts must have 2 axes"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_impossible_calls(name: str) -> None:
    call, kind, message = CALLS[name]
    with pytest.raises(kind, match=message):
        call()
