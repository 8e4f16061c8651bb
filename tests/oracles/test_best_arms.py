"""P(an arm is the best of independent ones) against scipy, 30 digits and closed forms."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import special

import mixts
from mixts.families.best_arms import LOG_GAMMA, LOGIT_BETA, MINUS_LOG_GAMMA, NORMAL, best_arms
from tests import programs
from tests.oracles.best_arm_references import FORMS, first_of_two, needles, plain

pytestmark = pytest.mark.usefixtures("program")

CODES = dict(zip(FORMS, (NORMAL, LOGIT_BETA, LOG_GAMMA, MINUS_LOG_GAMMA), strict=True))
CLOSE = 1e-10
"""Error that the quadrature allows in masses and sums."""


def probabilities(form: str, a: Any, b: Any) -> Any:
    """Return the probabilities of one component; fail if the quadrature did not converge."""
    parameters = np.array([a, b], dtype=float)[:, None, None]
    found = best_arms(CODES[form], parameters, np.ones((1, 1)), np.ones((1, len(a)), dtype=bool))
    assert found.error[0] == 0
    return found.chance[0]


def log_uniform(rng: np.random.Generator, low: float, high: float, n: int) -> Any:
    return np.exp(rng.uniform(np.log(low), np.log(high), n))


def young(form: str, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Little data: wide distributions that are far from normal."""
    if form == "normal":
        return rng.normal(size=n), log_uniform(rng, 0.1, 3, n)
    return log_uniform(rng, 0.4, 8, n), log_uniform(rng, 0.4, 8, n)


def uneven(form: str, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Needles beside haystacks."""
    if form == "normal":
        return rng.normal(size=n), log_uniform(rng, 1e-8, 10, n)
    count, share = log_uniform(rng, 2, 1e5, n), np.clip(0.4 + 0.05 * rng.normal(size=n), 0.2, 0.6)
    return (count * share, count * (1 - share)) if form == "logit-beta" else (count, count / share)


def small(form: str, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Parameters far below one, whose tails are hundreds of units long."""
    if form == "normal":
        return 1e30 * rng.normal(size=n), 1e60 * log_uniform(rng, 0.1, 3, n)
    return log_uniform(rng, 0.06, 0.5, n), log_uniform(rng, 0.06, 0.5, n)


def check_against_scipy(form: str, kind: Any, seed: int, n_problems: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(n_problems):
        a, b = kind(form, rng, int(rng.integers(2, most + 1)))
        expected, gap = plain(form, a, b)
        if gap < CLOSE:
            compared += 1
            np.testing.assert_allclose(probabilities(form, a, b), expected, rtol=0, atol=2 * CLOSE)
    assert compared >= n_problems / 2


@pytest.mark.parametrize("kind", [young, uneven, small])
@pytest.mark.parametrize("form", FORMS)
def test_against_scipy(form: str, kind: Any) -> None:
    check_against_scipy(form, kind, 1, 6, 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [young, uneven, small])
@pytest.mark.parametrize("form", FORMS)
def test_against_scipy_at_length(form: str, kind: Any) -> None:
    check_against_scipy(form, kind, 2, 200, 20)


# -- sharp distributions ---------------------------------------------------------------------------


def sharp(form: str, count: float, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Some widths of 1 / sqrt(count) apart."""
    width = count**-0.5
    if form == "normal":
        return 1e6 + width * rng.normal(size=n), width**2 * log_uniform(rng, 0.2, 5, n)
    many, apart = count * log_uniform(rng, 0.2, 5, n), np.exp(width * rng.normal(size=n))
    return many, 3.0 * many * apart


@cache
def two_needles(form: str) -> tuple[Any, Any, Any]:
    a, b = sharp(form, 1e8, np.random.default_rng(3), 2)
    return a, b, needles(form, a, b)


@pytest.mark.parametrize("form", FORMS)
def test_needles(form: str) -> None:
    """With 1e8 observations, and with rewards near 1e6 that are known to 1e-4."""
    a, b, expected = two_needles(form)
    np.testing.assert_allclose(probabilities(form, a, b), expected, rtol=0, atol=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1e3, 1e6, 1e10, 1e12])
@pytest.mark.parametrize("form", FORMS)
def test_needles_at_length(form: str, count: float) -> None:
    """With 1e12 observations a density has few more than ten digits."""
    close = CLOSE if count < 1e12 else 2 * CLOSE
    rng = np.random.default_rng(4)
    for n in (2, 3):
        a, b = sharp(form, count, rng, n)
        expected = needles(form, a, b)
        np.testing.assert_allclose(probabilities(form, a, b), expected, rtol=0, atol=close)


# -- closed forms ----------------------------------------------------------------------------------


def check_two(form: str, seed: int, n_problems: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(n_problems):
        a, b = (young if rng.random() < 0.5 else uneven)(form, rng, 2)
        if form == "logit-beta":
            a[0] = np.ceil(min(a[0], 200.0))
        elif form != "normal":
            a = np.minimum(a, 3000.0)
        expected = first_of_two(form, a, b)
        found = probabilities(form, a, b)
        np.testing.assert_allclose(found, [expected, 1 - expected], rtol=0, atol=CLOSE)


@pytest.mark.parametrize("form", FORMS)
def test_two_arms(form: str) -> None:
    check_two(form, 5, 5)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_two_arms_at_length(form: str) -> None:
    check_two(form, 6, 60)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("form", ["logit-beta", "minus-log-gamma"])
def test_powers(form: str, scale: float) -> None:
    """F(x) = x^a of a Beta(a, 1) variable, and e^(-b / x) of an inverse Gamma(1, b) one.

    The best of such arms has the sum of their parameters, of which each has its share.
    """
    parameters = scale * np.array([0.3, 7.0, 1.0, 0.05, 2.0, 2.0])
    ones = np.ones_like(parameters)
    given = (parameters, ones) if form == "logit-beta" else (ones, parameters)
    expected = parameters / parameters.sum()
    np.testing.assert_allclose(probabilities(form, *given), expected, rtol=0, atol=CLOSE)


def test_nearly_zero_or_one() -> None:
    """Beta(a, b) with a, b -> 0: +-, and the logit is exponential with rate b or a, resp."""
    a, b = 1e-12 * np.array([1.0, 3.0]), 1e-12 * np.array([2.0, 0.5])
    (up1, up2), (down1, down2) = a / (a + b), b / (a + b)
    first = up1 * down2 + up1 * up2 * b[1] / b.sum() + down1 * down2 * a[0] / a.sum()
    found = probabilities("logit-beta", a, b)
    np.testing.assert_allclose(found, [first, 1 - first], rtol=0, atol=CLOSE)


@pytest.mark.parametrize("scale", [1e-50, 1.0, 1e12])
def test_normals_with_one_mean(scale: float) -> None:
    """1/4 + arcsin(rho) / (2 pi), with the correlation of the differences to the other two.

    Also where the mean's neighbours among the doubles are further away than the arms are wide, and
    where the sharpest arm cannot win.
    """
    variance = scale * np.array([1e-6, 1.0, 4.0])
    found = probabilities("normal", [*np.full(3, 1e8), -1e8], [*variance, 1e-60])
    for i in range(3):
        v, others = variance[i], np.delete(variance, i)
        rho = v / np.sqrt((v + others[0]) * (v + others[1]))
        assert found[i] == pytest.approx(0.25 + np.arcsin(rho) / (2 * np.pi), abs=CLOSE)


@pytest.mark.parametrize("form", FORMS)
def test_many_equal_arms(form: str) -> None:
    found = probabilities(form, np.full(300, 2.0), np.full(300, 3.0))
    np.testing.assert_allclose(found, 1 / 300, rtol=0, atol=CLOSE)


# -- certain arms, masks, mixtures -----------------------------------------------------------------


def test_a_certain_arm_is_best_when_all_others_are_below() -> None:
    mean, variance = np.array([0.2, -1.0, 0.7, 0.3, 0.7]), np.array([0.3, 2.0, 0.0, 0.01, 0.0])
    prior = mixts.MixturePrior(mixts.GaussianArms(mean[None], variance[None], 1.0))
    found, _ = mixts.MixTS(prior, seed=0).action_probabilities()
    free = [0, 1, 3]
    below = special.ndtr((0.7 - mean[free]) / np.sqrt(variance[free])).prod()
    np.testing.assert_allclose(found[[2, 4]], below / 2, rtol=1e-9)
    assert found[free].sum() == pytest.approx(1 - below, abs=CLOSE)


def test_the_best_mean_with_a_certain_arm() -> None:
    """E[max(theta, c)] = c Phi(z) + m (1 - Phi(z)) + sd phi(z), with z = (c - m) / sd."""
    mean, deviation, certain = 0.2, 0.7, 0.5
    parameters = np.array([[mean, certain, -9.0], [deviation**2, 0.0, 0.0]])[:, None, None]
    found = best_arms(NORMAL, parameters, np.ones((1, 1)), np.ones((1, 3), bool))
    z = (certain - mean) / deviation
    below, density = special.ndtr(z), np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found.chance[0], [1 - below, below, 0.0], rtol=0, atol=CLOSE)
    expected = certain * below + mean * (1 - below) + deviation * density
    assert found.best[0] == pytest.approx(expected, rel=1e-11)


def test_a_batch_is_its_decisions(program: str) -> None:
    """Rows with masks and histories of their own, at once and one by one: the same numbers.

    The plain program may sum them in another order.
    """
    rng = np.random.default_rng(7)
    family = mixts.BernoulliArms(rng.uniform(0.5, 4, (3, 5)), rng.uniform(0.5, 4, (3, 5)))
    agent = mixts.MixTS(mixts.MixturePrior(family), 8, seed=0)
    agent.update(rng.integers(5, size=60), rng.integers(2, size=60), rng.integers(8, size=60))
    mask = rng.random((8, 5)) < 0.6
    mask[:, 2] = True
    together, _ = agent.action_probabilities(mask=mask)
    for task in range(8):
        alone, _ = agent.action_probabilities(tasks=[task], mask=mask[task])
        rounding = 0.0 if program == "core" else 1e-14
        np.testing.assert_allclose(alone[0], together[task], rtol=0, atol=rounding)
    np.testing.assert_array_equal(together[~mask], 0.0)
    np.testing.assert_allclose(together.sum(axis=1), 1.0, rtol=0, atol=1e-14)


def test_what_rounding_spoils_is_reported() -> None:
    """2^73 observations: doubles hardly resolve a density 1e-11 wide, and the error says so."""
    count = 2.0**73
    share = 0.5 + np.array([[0.5, -0.3, 0.6]]) / np.sqrt(count)
    agent = mixts.MixTS(mixts.MixturePrior(mixts.BernoulliArms(count * share, count * (1 - share))))
    mask = np.array([True, True, False])
    found, errors = agent.action_probabilities(mask=mask)
    assert found.sum() == pytest.approx(1.0)
    assert np.all((errors[mask] > 1e-8) & (errors[mask] < 1e-4))
    assert errors[2] == 0


@pytest.mark.skipif(programs.CORE is None, reason="the compiled core is not installed")
def test_elementary_functions() -> None:
    """To the last digits, also of e^x - 1 and ln(1 + x) for small x; no less than e^-700."""
    wide = np.concatenate([np.linspace(-700, 700, 2001), [0.0, -0.5 * np.log(2)]])
    tiny = np.outer([-1.0, 1.0], 10.0 ** np.linspace(-300, 0, 500)).ravel()
    log = np.concatenate([0.9999 * tiny, np.linspace(-0.999, 3, 500), [0.0]])
    exp, expm1, log1p = range(3)
    for function, x in [(exp, wide), (exp, tiny), (expm1, wide), (expm1, tiny), (log1p, log)]:
        found = np.empty((3, len(x)))
        programs.CORE.elementary_functions(x, found)
        expected = (np.exp, np.expm1, np.log1p)[function](x)
        np.testing.assert_allclose(found[function], expected, rtol=1e-15)
    found = np.empty((3, 2))
    programs.CORE.elementary_functions(np.array([-1e300, -700.0]), found)
    assert found[exp, 0] == found[exp, 1] > 0


# -- both programs ---------------------------------------------------------------------------------


@pytest.mark.skipif(programs.CORE is None, reason="the compiled core is not installed")
@pytest.mark.parametrize("form", FORMS[:3])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e4, 1e8])
def test_the_programs_agree(form: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways over the same line: chances and best means have ten digits in common."""
    rng = np.random.default_rng(8)
    shape = (2, 3, 12)
    apart = min(1.0, scale**-0.5)
    if form == "normal":
        first, second = 5 + rng.normal(size=shape) * apart, rng.uniform(0.2, 2, shape) / scale
    else:
        first, second = scale * np.exp(apart * rng.normal(size=(2, *shape)))
    parameters, mask = np.stack([first, second]), rng.random((2, 12)) < 0.8
    weights = rng.dirichlet(np.ones(3), 2)
    found = []
    for core in (programs.CORE, None):
        monkeypatch.setattr("mixts._program.core", core)
        found.append(best_arms(CODES[form], parameters, weights, mask))
    np.testing.assert_allclose(found[0].chance, found[1].chance, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found[0].best, found[1].best, rtol=1e-9)
    np.testing.assert_array_equal(found[0].error, found[1].error)


@pytest.mark.parametrize("form", FORMS[:3])
def test_the_best_mean_is_that_of_draws(form: str) -> None:
    rng = np.random.default_rng(9)
    a, b = rng.uniform(0.5, 6, (2, 5))
    draw: Any = {
        "normal": lambda: a + np.sqrt(b) * rng.standard_normal((400_000, 5)),
        "logit-beta": lambda: rng.beta(a, b, (400_000, 5)),
        "log-gamma": lambda: rng.gamma(a, 1 / b, (400_000, 5)),
    }[form]
    best = draw().max(axis=1)
    parameters = np.stack([a, b])[:, None, None]
    found = best_arms(CODES[form], parameters, np.ones((1, 1)), np.ones((1, 5), bool)).best[0]
    assert abs(found - best.mean()) < 5 * best.std() / np.sqrt(len(best))
