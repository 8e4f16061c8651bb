"""Learned priors, against an independent computation of the objective that they maximise."""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from mixts import _program
from mixts.learning import flat_family, learn
from mixts.learning.em import PSEUDO
from mixts.learning.models import model_of
from tests.oracles.learning_references import (
    COVARIANCE_TYPES,
    KINDS,
    NOISE,
    Case,
    Hyperprior,
    case_of,
    coordinates,
    divergences,
    gradient,
    log_evidence,
    mixture_evidence,
    true_prior,
)

NOISY = ("gaussian", *COVARIANCE_TYPES)
SETTINGS = (
    [(kind, 2, False) for kind in KINDS]
    + [(kind, 1, False) for kind in ("bernoulli", "gaussian", "poisson", "full", "support")]
    + [(kind, 2, True) for kind in ("gaussian", "full")]
)
"""The family, how many components, and whether the noise is given."""


@cache
def case(kind: str) -> Case:
    return case_of(kind, n_tasks=16, lengths=1 + np.arange(16) % 8)


@cache
def learned(
    kind: str, n_components: int, noise_is_given: bool = False, program: str = "core"
) -> Any:
    """To where rounding is all that is left to gain, by the program that runs."""
    given = {"noise_std": NOISE} if noise_is_given else {}
    return learn(
        case(kind).statistics, n_components, seed=0, n_restarts=1, tolerance=1e-13,
        max_iterations=20_000, engine=1, **case(kind).options, **given,
    )  # fmt: skip


@cache
def hyperprior(kind: str, n_components: int, noise_is_given: bool) -> Hyperprior:
    """A single component is held by the population of arms, several by what they share."""
    options = {k: v for k, v in case(kind).options.items() if k != "covariance_type"}
    if noise_is_given:
        options["noise_std"] = NOISE
    flat = flat_family(case(kind).statistics, **options)
    noise = flat.noise_std if kind in NOISY and not noise_is_given else None  # type: ignore[attr-defined]
    if n_components == 1:
        centre = learned(kind, n_components, noise_is_given).centre
        return Hyperprior(flat if centre is None else centre, 1.0, noise)
    centre = learned(kind, n_components, noise_is_given).unimodal.family
    return Hyperprior(centre, PSEUDO / n_components, noise)


# -- the references themselves -------------------------------------------------------------------


def test_urns_are_integrals_over_beta_densities() -> None:
    family: Any = true_prior("bernoulli").family
    arms, rewards = np.array([0, 0, 1, 0, 2, 1, 0]), np.array([1.0, 0, 1, 1, 0, 0, 1])
    found = log_evidence(family, [(arms, rewards)])[0]
    for s in range(2):
        likelihood = 1.0
        for k in range(3):
            y = rewards[arms == k]
            a, b = family.alpha[s, k], family.beta[s, k]
            likelihood *= float(
                mpmath.quad(
                    lambda p, a=a, b=b, y=y: (
                        p ** (a - 1 + y.sum()) * (1 - p) ** (b - 1 + (1 - y).sum())
                    ),
                    [0, 1],
                )
                / mpmath.beta(a, b)
            )
        assert found[s] == pytest.approx(np.log(likelihood), abs=1e-12)


def test_negative_binomials_are_integrals_over_gamma_densities() -> None:
    family: Any = true_prior("poisson").family
    rewards = np.array([3.0, 0.0, 5.0, 1.0])
    found = log_evidence(family, [(np.zeros(4, int), rewards)])[0]
    for s in range(2):
        density = stats.gamma(family.shape[s, 0], scale=1 / family.rate[s, 0]).pdf
        value, _ = integrate.quad(
            lambda x, density=density: density(x) * stats.poisson.pmf(rewards, x).prod(),
            0, 40, epsabs=1e-14, limit=200,
        )  # fmt: skip
        assert found[s] == pytest.approx(np.log(value), abs=1e-8)


@pytest.mark.parametrize("kind", ["bernoulli", "poisson", "gaussian"])
def test_divergences_are_integrals_of_logarithms(kind: str) -> None:
    law: dict[str, Any] = {
        "bernoulli": lambda f: stats.beta(f.alpha[0, 0], f.beta[0, 0]),
        "poisson": lambda f: stats.gamma(f.shape[0, 0], scale=1 / f.rate[0, 0]),
        "gaussian": lambda f: stats.norm(f.mean[0, 0], f.variance[0, 0] ** 0.5),
    }
    first, second = (one_arm(kind, s) for s in (0, 1))
    ours, theirs = law[kind](first), law[kind](second)
    x = ours.ppf((np.arange(200_000) + 0.5) / 200_000)
    # The midpoints of so many quantiles: what lies beyond the outermost has a part of 1e-4.
    expected = np.mean(ours.logpdf(x) - theirs.logpdf(x))
    assert divergences(first, second)[0] == pytest.approx(expected, rel=1e-3)


def one_arm(kind: str, component: int) -> Any:
    """The first arm of one component."""
    family = true_prior(kind).family.select([component])
    arrays = {name: array[:, :1] for name, array in family.arrays().items()}
    return type(family).restore(family.settings(), arrays)


# -- the library against them --------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "n_components", "noise_is_given"), SETTINGS)
def test_the_last_evidence_is_the_marginal_likelihood(
    kind: str, n_components: int, noise_is_given: bool, program: str
) -> None:
    result = learned(kind, n_components, noise_is_given, program)
    family, weights = result.prior.family, result.prior.weights
    assert result.prior.n_components == n_components
    assert result.history.converged
    found = result.history.log_evidence[-1]
    # A few hundred terms, of some units each, every one with all digits but the last three.
    close = {"rel": 1e-11, "abs": 1e-9}
    assert found == pytest.approx(mixture_evidence(family, weights, case(kind).tasks), **close)
    belief = result.prior.condition(case(kind).statistics)
    mixed = special.logsumexp(np.log(weights) + belief.log_evidence, axis=1).sum()
    assert found == pytest.approx(mixed, **close)


@pytest.mark.parametrize("kind", KINDS)
def test_both_programs_learn_the_same_prior(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    priors = []
    for core in (_program.core, None):
        monkeypatch.setattr(_program, "core", core)
        options = {"seed": 0, "n_restarts": 3, "engine": 1, **case(kind).options}
        priors.append(learn(case(kind).statistics, 2, **options).prior)
    one, other = ({"weights": p.weights, **p.family.arrays()} for p in priors)
    for name, array in one.items():
        scale = 1e-8 * np.abs(array).max()
        np.testing.assert_allclose(array, other[name], rtol=1e-8, atol=scale, err_msg=name)


@pytest.mark.parametrize(("kind", "n_components", "noise_is_given"), SETTINGS)
def test_the_hyperprior_is_what_it_is_said_to_be(
    kind: str, n_components: int, noise_is_given: bool
) -> None:
    """Up to a constant: differences between what was learned, the centre and other families."""
    result = learned(kind, n_components, noise_is_given)
    reference = hyperprior(kind, n_components, noise_is_given)
    given = {"noise_std": NOISE} if noise_is_given else {}
    model = model_of(case(kind).statistics, **case(kind).options, **given)
    model = model.about(reference.centre, reference.pseudo)
    free = coordinates(result.prior, noise_is_free=kind in NOISY and not noise_is_given)
    rng = np.random.default_rng(1)
    found, expected = [], []
    for size in (0.0, 0.1, 0.5):
        family, weights = free.rebuild(free.start + size * rng.normal(size=len(free.start)))
        found.append(model.log_hyperprior(family) + reference.pseudo * np.log(weights).sum())
        expected.append(reference(family, weights))
    assert found[0] == pytest.approx(result.history.log_hyperprior[-1], rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "n_components", "noise_is_given"), SETTINGS)
def test_nothing_is_left_to_gain(kind: str, n_components: int, noise_is_given: bool) -> None:
    """The slope is zero where learning ended, and wherever one goes from there it is downhill.

    The last gain was below 1e-13 a task. Of steps that shrink by a factor r that leaves
    g = 1e-13 n / (1 - r) to gain, and where the slope changes by c a unit of length a slope of at
    most sqrt(2 c g): with c of some tens, 1e-4 if r < 0.99, where a way of 0.1 makes some units.
    """
    result = learned(kind, n_components, noise_is_given)
    reference = hyperprior(kind, n_components, noise_is_given)
    free = coordinates(result.prior, noise_is_free=kind in NOISY and not noise_is_given)

    def objective(x: Any) -> float:
        family, weights = free.rebuild(x)
        return mixture_evidence(family, weights, case(kind).tasks) + reference(family, weights)

    rng = np.random.default_rng(2)
    away = rng.normal(size=len(free.start))
    away *= 0.1 / np.sqrt(np.mean(away**2))
    far = gradient(lambda t: objective(free.start + t[0] * away), np.ones(1))[0]
    slope = np.linalg.norm(gradient(objective, free.start))
    assert slope < 1e-3 * abs(far) / np.linalg.norm(away)
    top = objective(free.start)
    for size in (1e-3, 1e-2, 0.1):
        for direction in rng.normal(size=(3, len(free.start))):
            assert objective(free.start + size * direction) < top
