"""The inequalities that App. A strings together, each with both sides within reach of a simulation.

With ||a||_{t,s}^2 = a' Sigma_{t,s} a, the proof of Theorem 1 goes from the regret to its two parts
(Eq. 1, and on the event E_0 that theta_* is near its prior mean [paper: Eq. 9]), from these to the
sum of the widths sigma_t(A_t, S_t) = sqrt(2 d log(dn)) ||A_t||_{t,S_t}, and from there to n, d and
lambda, the largest eigenvalue of any component's covariance:

    E sum_t mu_*(A_t*) - mu_t(A_t*, S_*) <= E sum_t sigma_t(A_t*, S_*)
                                            + kappa sqrt(lambda d / (2 pi))
    E sum_t mu_t(A_t, S_t) - mu_*(A_t)   <= sqrt(2) E sum_t sigma_t(A_t, S_t)
                                            + 2 sigma sqrt(L n log n) + 3 L M
    sum_t ||A_t||_{t,S_t} <= sum_t max_s ||A_t||_{t,s} <= max_s sqrt(n sum_t ||A_t||_{t,s}^2)
    sum_t ||A_t||_{t,s}^2 <= sigma^2 (1 + kappa^2 lambda_s / sigma^2) log det ratio_s
    log det ratio_s       <= d log(1 + n kappa^2 / (sigma^2 tr(Sigma_0,s^-1)))
                          <= d log(1 + n kappa^2 lambda / (sigma^2 d))

Here they are as they are printed. Read closely:

- The widest step is the third: a sum of maxima is not below the maximum of sums. It holds where one
  component is the widest in every direction, as in the paper's own experiment, whose components
  share one covariance, and fails where each is wide in a direction of its own. What it is used for
  is true all the same: no posterior is wider than that of the prior N(., lambda I), for which the
  other steps can be done.
- The determinant is compared with the trace on both sides of a ratio, and below the line that is
  the wrong way round: det(Sigma_0,s^-1) is at most (tr(Sigma_0,s^-1) / d)^d. The bound with the
  trace fails for priors that are not isotropic; the last one is true, because the ratio is
  det(I + C'V C / sigma^2) with C C' = Sigma_0,s, of trace at most d + n kappa^2 lambda / sigma^2.
- Eq. 9 is Eq. 1 under the indicator of E_0, as if that changed nothing. But E_0 is about theta_*
  and S_*, with which A_t* goes together and A_t and S_t do not: the means mu_t(A_t*, S_*) and
  mu_t(A_t, S_t) no longer cancel. What is left is where E_0 fails, with probability 1 / n at most.
  A simulation measures the parts of Eq. 1, without E_0.
- Lemma 1 lacks a factor 2 for the two tails of a Gaussian, and with it the term with 2 pi.
- M lacks a factor 2: two actions and two means are compared.
- The second part is bounded on the event E_0 only. Without it, by App. A's own account, at most
  kappa sqrt(lambda d / (2 pi)) + kappa is added.
- Its widths are printed with log(dn) until the last display of Step 3, which has log n. The sets of
  Step 2 have log n throughout: then the union bound of Lemma 3 lacks a factor d.
- In the proof of Lemma 2 ||sigma^-2 A_n|| is meant to be ||A_n|| / sigma.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike
from mixts.bounds import arguments
from mixts.bounds.theorem1 import theorem1_terms
from mixts.errors import ParameterError


def gaussian_tail_bound(d: int, epsilon: ArrayLike) -> Any:
    """d^(3/2) exp(-epsilon^2 / (2 d)) / sqrt(2 pi)  [paper: Lemma 1].

    For E ||X|| 1{||X|| >= epsilon}, where X ~ N(0, Sigma) and the norm is that of Sigma^-1. This is
    what is printed, and a factor 2 is missing: an entry of X is large in two directions. For d = 1
    the left side is twice this at every epsilon, for d = 2 it is up to 1.16 times this below
    epsilon = 1.5. From d = 3 on what is printed holds all the same, because the proof adds up
    entries of which one would do.
    """
    d = _checks.count(d, "d")
    least = _at_least_zero(epsilon, "epsilon")
    return arguments.plain(d**1.5 * np.exp(-(least**2) / (2 * d)) / np.sqrt(2 * np.pi))


def norm_series_bound(
    log_determinant_ratio: ArrayLike, noise_std: float, kappa: float, prior_variance: ArrayLike
) -> Any:
    """sigma^2 (1 + C) log(det Sigma_{n+1,s}^-1 / det Sigma_0,s^-1)  [paper: Lemma 2].

    It bounds sum_t ||A_t||_{t,s}^2, in every run and for every state. C is the least that the lemma
    allows, kappa^2 lambda_s / sigma^2, with ``prior_variance`` the largest eigenvalue lambda_s of
    the state's own covariance. Both may be arrays, which broadcast.
    """
    ratio = _at_least_zero(log_determinant_ratio, "log_determinant_ratio")
    variance = _at_least_zero(prior_variance, "prior_variance")
    sigma = _checks.positive_number(noise_std, "noise_std")
    k = _checks.positive_number(kappa, "kappa")
    return arguments.plain((sigma**2 + k**2 * variance) * ratio)


def log_determinant_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """d log(1 + n kappa^2 lambda / (sigma^2 d)), for the log of the ratio  [paper: App. A]."""
    c1 = theorem1_terms(n, d, 1, noise_std, kappa, max_prior_variance).c1
    return d * c1 / (1 + (kappa / noise_std) ** 2 * max_prior_variance)


def trace_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, precision_trace: ArrayLike
) -> Any:
    """d log(1 + n kappa^2 / (sigma^2 tr(Sigma_0,s^-1)))  [paper: App. A].

    The step before :func:`log_determinant_bound`, which does not hold for every prior: see the
    module. ``precision_trace`` may be an array; it is infinite where something is known exactly.
    """
    rounds = arguments.rounds(n)
    d = _checks.count(d, "d")
    sigma = _checks.positive_number(noise_std, "noise_std")
    k = _checks.positive_number(kappa, "kappa")
    expected = "precision_trace must be a number above 0"
    trace = _checks.numbers(precision_trace, expected, ParameterError)
    if not (trace > 0).all():
        raise ParameterError(f"{expected}, got {precision_trace!r}")
    return arguments.plain(d * np.log1p(rounds * (k / sigma) ** 2 / trace))


def norm_sum_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """sigma sqrt(c_1 n d), for sum_t ||A_t||_{t,S_t}  [paper: App. A]."""
    c1 = theorem1_terms(n, d, 1, noise_std, kappa, max_prior_variance).c1
    return arguments.plain(noise_std * np.sqrt(c1 * arguments.rounds(n) * d))


def width_sum_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """sigma d sqrt(2 c_1 n log(dn)), for the sum of the widths  [paper: App. A].

    Term 1 is 3 sqrt(2) times this in the statement and 2 sqrt(2) times in the appendix; the steps
    add up to 1 + sqrt(2).
    """
    norms = norm_sum_bound(n, d, noise_std, kappa, max_prior_variance)
    return arguments.plain(norms * np.sqrt(2 * d * np.log(d * arguments.rounds(n))))


def prior_width(n: ArrayLike, d: int, kappa: float, max_prior_variance: float) -> Any:
    """kappa sqrt(2 lambda d log(dn)): no width sigma_t(a, s) is larger  [paper: App. A]."""
    rounds = arguments.rounds(n)
    d, k = _checks.count(d, "d"), _checks.positive_number(kappa, "kappa")
    variance = arguments.at_least_zero(max_prior_variance, "max_prior_variance")
    return arguments.plain(k * np.sqrt(2 * variance * d * np.log(d * rounds)))


def round_bound(n: ArrayLike, d: int, kappa: float, max_prior_variance: float) -> Any:
    """M = sqrt(2 kappa^2 lambda d log(dn)) + kappa, the most a round loses on E_0  [paper: App. A].

    What is added is the norm of an action times that of a prior mean, which is assumed to be at
    most 1.
    """
    return prior_width(n, d, kappa, max_prior_variance) + kappa


def first_part_bound(
    best_width_sum: ArrayLike, d: int, kappa: float, max_prior_variance: float
) -> Any:
    """E sum_t sigma_t(A_t*, S_*) + kappa sqrt(lambda d / (2 pi))  [paper: App. A].

    The end of Step 1, for the first part of the regret, summed over the rounds of Sec. 4.1
    [paper: Eq. 2]. Its widths may be exchanged for sigma_t(A_t, S_t), which have the same
    expectation.
    """
    total = _at_least_zero(best_width_sum, "best_width_sum")
    d, k = _checks.count(d, "d"), _checks.positive_number(kappa, "kappa")
    variance = arguments.at_least_zero(max_prior_variance, "max_prior_variance")
    return arguments.plain(total + k * np.sqrt(variance * d / (2 * np.pi)))


def second_part_bound(
    width_sum: ArrayLike,
    n: int,
    d: int,
    n_components: int,
    noise_std: float,
    kappa: float,
    max_prior_variance: float,
) -> Any:
    """sqrt(2) E sum_t sigma_t(A_t, S_t) + 2 sigma sqrt(L n log n) + 3 L M  [paper: App. A].

    The end of Step 3, for the second part of the regret; in Sec. 4.1 with any eta [paper: Eq. 3],
    here with the proof's sqrt(2). At width 0 nothing is left of the widths, and nothing at all of
    the first part: the price is that of finding the latent state [paper: Sec. 4.3].
    """
    total = _at_least_zero(width_sum, "width_sum")
    terms = theorem1_terms(n, d, n_components, noise_std, kappa, max_prior_variance)
    most = round_bound(n, d, kappa, max_prior_variance)
    return arguments.plain(np.sqrt(2) * total + terms.identification + 3 * n_components * most)


def _at_least_zero(value: ArrayLike, name: str) -> Array:
    """One number or any array of them."""
    expected = f"{name} must be a finite number, at least 0, or an array of them"
    array = _checks.numbers(value, expected, ParameterError)
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        raise ParameterError(f"{expected}, got {array[~good].flat[0]}")
    return array
