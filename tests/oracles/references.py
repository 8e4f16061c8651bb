"""Reference answers from first principles, at fifty digits.

Nothing here is shared with the library, formulas included:

- Gaussian models: the joint normal law of (rewards, parameters) is written down and the rewards
  are eliminated one coordinate at a time. The pivots give the density of the history, what is
  left is the posterior. `whole_history` starts from the (n + d) x (n + d) joint covariance;
  `kalman` keeps only the parameters' d x d block, for histories too long for that.
- Counts: ratios of integrals `integral of theta^(a-1) (1-theta)^(b-1)` and `integral of
  lambda^(a-1) exp(-b lambda)`, as beta and gamma functions, or by quadrature; and urn fractions.

Inputs are taken as the exact numbers that the floats are. With prior variance / noise variance up
to 1e12 and 1e5 observations, subtractions lose some 17 digits, squares of them 34: fifty digits
leave 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

DIGITS = 50
WHOLE_HISTORY = 60
"""Longer histories go through `kalman`: the joint law takes the cube of the number of rewards."""
Exact = Any  # numpy arrays of Decimal

with mpmath.workdps(DIGITS + 10):
    TWO_PI = Decimal(mpmath.nstr(2 * mpmath.pi, DIGITS + 5))


@dataclass(frozen=True)
class Reference:
    """One component after a history: log p(history), and the parameters' mean and covariance."""

    log_evidence: Decimal
    mean: Exact
    covariance: Exact


@dataclass(frozen=True)
class MixtureReference:
    """All components after a history, and the mixture of them."""

    log_evidence: Exact
    weights: Exact
    component_mean: Exact
    component_covariance: Exact
    mean: Exact
    covariance: Exact


def exact(values: Any) -> Exact:
    """Floats as the numbers they are."""
    array = np.asarray(values, dtype=object)
    out = np.empty(array.shape, dtype=object)
    out.flat = [
        Decimal(v) if isinstance(v, (int, Decimal)) else Decimal(float(v)) for v in array.flat
    ]
    return out


# -- Gaussian --------------------------------------------------------------------------------------


def _log_density(n: int, determinant: Decimal, quadratic: Decimal) -> Decimal:
    return -(n * TWO_PI.ln() + determinant.ln() + quadratic) / 2


def whole_history(
    mean: Any, covariance: Any, noise_std: float, rows: Any, rewards: Any
) -> Reference:
    """`theta ~ N(mean, covariance)`, `y = rows theta + noise`: the joint law, y eliminated."""
    with localcontext() as context:
        context.prec = DIGITS
        theta, sigma, y = exact(mean), exact(covariance), exact(rewards)
        n, d = len(y), len(theta)
        design = np.vstack([exact(np.reshape(rows, (n, d))), exact(np.eye(d))])
        location = design @ theta
        joint = design @ sigma @ design.T
        joint[np.arange(n), np.arange(n)] += Decimal(float(noise_std)) ** 2
        determinant, quadratic = Decimal(1), Decimal(0)
        for reward in y:
            pivot, error = joint[0, 0], reward - location[0]
            determinant *= pivot
            quadratic += error * error / pivot
            gain = joint[1:, 0] / pivot
            location = location[1:] + gain * error
            joint = joint[1:, 1:] - np.multiply.outer(gain, joint[0, 1:])
        return Reference(_log_density(n, determinant, quadratic), location, joint)


def kalman(mean: Any, covariance: Any, noise_std: float, rows: Any, rewards: Any) -> Reference:
    """The same by the product of the predictive densities, `p(y_1) p(y_2 | y_1) ...`."""
    with localcontext() as context:
        context.prec = DIGITS
        theta, sigma, y = exact(mean), exact(covariance), exact(rewards)
        design = exact(np.reshape(rows, (len(y), len(theta))))
        noise = Decimal(float(noise_std)) ** 2
        determinant, quadratic = Decimal(1), Decimal(0)
        for row, reward in zip(design, y, strict=True):
            reach = sigma @ row
            predictive, error = row @ reach + noise, reward - row @ theta
            determinant *= predictive
            quadratic += error * error / predictive
            gain = reach / predictive
            theta = theta + gain * error
            sigma = sigma - np.multiply.outer(gain, reach)
        return Reference(_log_density(len(y), determinant, quadratic), theta, sigma)


# -- counts ----------------------------------------------------------------------------------------


def _decimal(value: Any) -> Decimal:
    return Decimal(mpmath.nstr(value, DIGITS))


def _moments(log_integral: Callable[[int], Any]) -> tuple[Decimal, Decimal, Decimal]:
    """Log evidence, mean and variance from logs of `integral of theta^k likelihood prior`."""
    evidence, first, second = (log_integral(k) for k in (0, 1, 2))
    mean = mpmath.exp(first - evidence)
    variance = mpmath.exp(second - evidence) - mean**2
    return _decimal(evidence), _decimal(mean), _decimal(variance)


def bernoulli_arm(alpha: float, beta: float, rewards: Any) -> tuple[Decimal, Decimal, Decimal]:
    """`B(alpha + ones, beta + zeros) / B(alpha, beta)`, and moments as further such ratios."""
    ones = int(np.sum(np.asarray(rewards)))
    zeros = int(np.size(rewards)) - ones
    with mpmath.workdps(2 * DIGITS):

        def log_beta(a: Any, b: Any) -> Any:
            return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)

        a, b = mpmath.mpf(float(alpha)), mpmath.mpf(float(beta))
        return _moments(lambda k: log_beta(a + ones + k, b + zeros) - log_beta(a, b))


def poisson_arm(shape: float, rate: float, rewards: Any) -> tuple[Decimal, Decimal, Decimal]:
    """Gamma integrals `Gamma(a) / b^a`, over the product of the counts' factorials."""
    counts = np.asarray(rewards).astype(int).ravel()
    with mpmath.workdps(2 * DIGITS):

        def log_gamma_integral(a: Any, b: Any) -> Any:
            return mpmath.loggamma(a) - a * mpmath.log(b)

        a, b = mpmath.mpf(float(shape)), mpmath.mpf(float(rate))
        values, times = np.unique(counts, return_counts=True)
        factorials = mpmath.fsum(
            int(t) * mpmath.loggamma(int(v) + 1) for v, t in zip(values, times, strict=True)
        )
        total, n = int(counts.sum()), len(counts)
        return _moments(
            lambda k: (
                log_gamma_integral(a + total + k, b + n) - log_gamma_integral(a, b) - factorials
            )
        )


def gaussian_arm(
    mean: float, variance: float, noise_std: float, rewards: Any
) -> tuple[Decimal, Decimal, Decimal]:
    """One arm is a linear model with the feature 1."""
    solve = whole_history if np.size(rewards) <= WHOLE_HISTORY else kalman
    answer = solve([mean], [[variance]], noise_std, np.ones((np.size(rewards), 1)), rewards)
    return answer.log_evidence, answer.mean[0], answer.covariance[0, 0]


def urn(alpha: float, beta: float, rewards: Sequence[int]) -> Fraction:
    """The probability of an ordered sequence of zeros and ones, as a product of urn fractions."""
    ones, zeros, probability = Fraction(float(alpha)), Fraction(float(beta)), Fraction(1)
    for reward in rewards:
        probability *= (ones if reward else zeros) / (ones + zeros)
        ones, zeros = ones + int(reward), zeros + 1 - int(reward)
    return probability


def quadrature(
    prior: Callable[[Any], Any],
    likelihood: Callable[[Any], Any],
    points: Sequence[float],
) -> tuple[Decimal, Decimal, Decimal]:
    """Log evidence, mean, variance with nothing but integrals of the unnormalised prior density."""
    with mpmath.workdps(30):
        mass = mpmath.quad(prior, points)

        def log_integral(k: int) -> Any:
            value = mpmath.quad(lambda x: x**k * likelihood(x) * prior(x), points)
            return mpmath.log(value / mass)

        return _moments(log_integral)


# -- mixtures --------------------------------------------------------------------------------------


def arms_component(
    arm: Callable[[int, Any], tuple[Decimal, Decimal, Decimal]],
    n_arms: int,
    actions: Any,
    rewards: Any,
) -> Reference:
    """Arms are independent given the component: evidences multiply."""
    actions, rewards = np.asarray(actions), np.asarray(rewards)
    with localcontext() as context:
        context.prec = DIGITS
        answers = [arm(a, rewards[actions == a]) for a in range(n_arms)]
        covariance = exact(np.zeros((n_arms, n_arms)))
        for a, answer in enumerate(answers):
            covariance[a, a] = answer[2]
        mean = np.array([answer[1] for answer in answers], dtype=object)
        return Reference(sum(answer[0] for answer in answers), mean, covariance)


def mixture(weights: Any, components: Sequence[Reference]) -> MixtureReference:
    """Bayes' rule over the components, and the moments of the mixture."""
    with localcontext() as context:
        context.prec = DIGITS
        evidence = np.array([c.log_evidence for c in components], dtype=object)
        highest = max(evidence)
        scores = [w * (e - highest).exp() for w, e in zip(exact(weights), evidence, strict=True)]
        posterior = np.array([score / sum(scores) for score in scores], dtype=object)
        means = np.array([c.mean for c in components], dtype=object)
        covariances = np.array([c.covariance for c in components], dtype=object)
        mean = posterior @ means
        spread = sum(
            p * (c.covariance + np.multiply.outer(c.mean - mean, c.mean - mean))
            for p, c in zip(posterior, components, strict=True)
        )
        return MixtureReference(evidence, posterior, means, covariances, mean, spread)
