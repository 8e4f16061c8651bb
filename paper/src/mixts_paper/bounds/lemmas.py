"""The steps of the proofs in App. A and App. B, as functions that a simulation can check.

**App. A.** With ||a||_{t,s}^2 = a' Sigma_{t,s} a, the proof of Theorem 1 goes from the regret to
its two parts (Eq. 1, and on the event E_0 that theta_* is near its prior mean [paper: Eq. 9]), from
these to the sum of the widths sigma_t(A_t, S_t) = sqrt(2 d log(dn)) ||A_t||_{t,S_t}, and from there
to n, d and lambda, the largest eigenvalue of any component's covariance:

    E sum_t mu_*(A_t*) - mu_t(A_t*, S_*) <= E sum_t sigma_t(A_t*, S_*)
                                            + kappa sqrt(lambda d / (2 pi))
    E sum_t mu_t(A_t, S_t) - mu_*(A_t)   <= sqrt(2) E sum_t sigma_t(A_t, S_t)
                                            + 2 sigma sqrt(L n log n) + 3 L M
    sum_t ||A_t||_{t,S_t} <= sum_t max_s ||A_t||_{t,s} <= max_s sqrt(n sum_t ||A_t||_{t,s}^2)
    sum_t ||A_t||_{t,s}^2 <= sigma^2 (1 + kappa^2 lambda_s / sigma^2) log det ratio_s
    log det ratio_s       <= d log(1 + n kappa^2 / (sigma^2 tr(Sigma_0,s^-1)))
                          <= d log(1 + n kappa^2 lambda / (sigma^2 d))

This module has the steps as printed. Remarks:

- The widest step is the third: a sum of maxima is not below the maximum of sums. It holds where one
  component is the widest in every direction, as in the paper's own experiment, whose components
  share one covariance, and fails where each is wide in a direction of its own. The conclusion
  is true nevertheless: no posterior is wider than that of the prior N(., lambda I), for which the
  other steps hold.
- The determinant is compared with the trace on both sides of a ratio, and below the line that is
  the wrong way round: det(Sigma_0,s^-1) is at most (tr(Sigma_0,s^-1) / d)^d. The bound with the
  trace fails for priors that are not isotropic; the last one is true, because the ratio is
  det(I + C'V C / sigma^2) with C C' = Sigma_0,s, of trace at most d + n kappa^2 lambda / sigma^2.
- Eq. 9 is Eq. 1 under the indicator of E_0, as if that changed nothing. But E_0 is about theta_*
  and S_*, with which A_t* goes together and A_t and S_t do not: the means mu_t(A_t*, S_*) and
  mu_t(A_t, S_t) no longer cancel. The difference comes from where E_0 fails, with probability at
  most 1 / n. A simulation measures the parts of Eq. 1, without E_0.
- Lemma 1 lacks a factor 2 for the two tails of a Gaussian, and with it the term with 2 pi.
- M lacks a factor 2: two actions and two means are compared.
- The second part is bounded on the event E_0 only. Without it, by App. A's own account, at most
  kappa sqrt(lambda d / (2 pi)) + kappa is added.
- Its widths are printed with log(dn) until the last display of Step 3, which has log n. The sets of
  Step 2 have log n throughout: then the union bound of Lemma 3 lacks a factor d.
- In the proof of Lemma 2 ||sigma^-2 A_n|| is meant to be ||A_n|| / sigma.

**App. B.** Remarks:

- Lemma 4's variance holds for every entry of a Dirichlet vector, which is how App. B uses it. For
  the vector in the Euclidean sense it does not: of two equal counts the two entries move against
  each other, and in the direction (1, -1) the variance is twice what the lemma allows.
- Lemma 5 lacks a plus sign before h ||T' - T||_1. Without it the right side may be negative where
  both values are equal.
- Lemma 6 says 4 and the end of its proof 4 sqrt(2). Its steps give 2 sqrt(2) + 2 / sqrt|X|,
  which is below 4 for three or more states. (The sum of phi_t is printed with a factor h too many.)
- In the same proof a pair's widths of its first h visits are replaced by 1, "the regret in a step".
  Widths may be larger, and since counts do not change during an episode there may be 2 h such
  visits: with long episodes, few pairs and a weak prior the sum exceeds both forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts.errors import ParameterError
from mixts.extend import Array, ArrayLike, checks
from mixts.planning import MDP
from mixts_paper.bounds.theorems import (
    Form,
    at_least_zero,
    checked_form,
    checked_rounds,
    plain,
    theorem1_terms,
    theorem2_terms,
)

# -- App. A ---------------------------------------------------------------------------------------


def gaussian_tail_bound(d: int, epsilon: ArrayLike) -> Any:
    """Return d^(3/2) exp(-epsilon^2 / (2 d)) / sqrt(2 pi)  [paper: Lemma 1].

    It bounds E ||X|| 1{||X|| >= epsilon}, where X ~ N(0, Sigma) in the norm of Sigma^-1. The
    printed bound lacks a factor 2: an entry of X is large in two directions. For d = 1
    the left side is twice this at every epsilon, for d = 2 it is up to 1.16 times this below
    epsilon = 1.5. From d = 3 on the printed bound holds nevertheless, because the proof sums over
    all entries of X where one entry would do.

    Parameters
    ----------
    d
        Dimension of X.
    epsilon
        Least norm, or an array of them.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bounds.gaussian_tail_bound(d=3, epsilon=[0, 3, 6]).round(4)
    array([2.073 , 0.4625, 0.0051])
    """
    d = checks.count(d, "d")
    least = _at_least_zero(epsilon, "epsilon")
    return plain(d**1.5 * np.exp(-(least**2) / (2 * d)) / np.sqrt(2 * np.pi))


def norm_series_bound(
    log_determinant_ratio: ArrayLike, noise_std: float, kappa: float, prior_variance: ArrayLike
) -> Any:
    """Return sigma^2 (1 + C) log(det Sigma_{n+1,s}^-1 / det Sigma_0,s^-1)  [paper: Lemma 2].

    It bounds sum_t ||A_t||_{t,s}^2, in every run and for every state. C is the least that the lemma
    allows, kappa^2 lambda_s / sigma^2, with ``prior_variance`` the largest eigenvalue lambda_s of
    the state's own covariance. Both may be arrays, which broadcast.

    Parameters
    ----------
    log_determinant_ratio
        Log ratio of the determinants, or an array of them.
    noise_std, kappa
        As for :func:`theorem1`.
    prior_variance
        Largest eigenvalue of the state's covariance, lambda_s, or an array of them.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bounds.norm_series_bound(2.0, noise_std=0.5, kappa=1, prior_variance=0.25)
    1.0
    """
    ratio = _at_least_zero(log_determinant_ratio, "log_determinant_ratio")
    variance = _at_least_zero(prior_variance, "prior_variance")
    sigma = checks.positive_number(noise_std, "noise_std")
    k = checks.positive_number(kappa, "kappa")
    return plain((sigma**2 + k**2 * variance) * ratio)


def log_determinant_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """Return d log(1 + n kappa^2 lambda / (sigma^2 d)), for the log ratio  [paper: App. A].

    Parameters
    ----------
    n, d, noise_std, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.log_determinant_bound(100, 2, 0.5, kappa=1, max_prior_variance=0.25), 4)
    7.8637
    """
    c1 = theorem1_terms(n, d, 1, noise_std, kappa, max_prior_variance).c1
    return d * c1 / (1 + (kappa / noise_std) ** 2 * max_prior_variance)


def trace_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, precision_trace: ArrayLike
) -> Any:
    """Return d log(1 + n kappa^2 / (sigma^2 tr(Sigma_0,s^-1)))  [paper: App. A].

    The step before :func:`log_determinant_bound`, which does not hold for every prior: see the
    module. ``precision_trace`` may be an array; it is infinite where something is known exactly.

    Parameters
    ----------
    n, d, noise_std, kappa
        As for :func:`theorem1`.
    precision_trace
        Trace of the inverse prior covariance of a state, or an array of them.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.trace_bound(100, 2, 0.5, kappa=1, precision_trace=8.0), 4)
    7.8637
    """
    rounds = checked_rounds(n)
    d = checks.count(d, "d")
    sigma = checks.positive_number(noise_std, "noise_std")
    k = checks.positive_number(kappa, "kappa")
    expected = "precision_trace must be a number above 0"
    trace = checks.numbers(precision_trace, expected, ParameterError)
    if not (trace > 0).all():
        raise ParameterError(f"{expected}, got {precision_trace!r}")
    return plain(d * np.log1p(rounds * (k / sigma) ** 2 / trace))


def norm_sum_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """Return sigma sqrt(c_1 n d), for sum_t ||A_t||_{t,S_t}  [paper: App. A].

    Parameters
    ----------
    n, d, noise_std, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.norm_sum_bound(100, 2, 0.5, kappa=1, max_prior_variance=0.25), 3)
    19.829
    """
    c1 = theorem1_terms(n, d, 1, noise_std, kappa, max_prior_variance).c1
    return plain(noise_std * np.sqrt(c1 * checked_rounds(n) * d))


def width_sum_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """Return sigma d sqrt(2 c_1 n log(dn)), for the sum of the widths  [paper: App. A].

    Term 1 is 3 sqrt(2) times this in the statement and 2 sqrt(2) times in the appendix; the steps
    add up to 1 + sqrt(2).

    Parameters
    ----------
    n, d, noise_std, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.width_sum_bound(100, 2, 0.5, kappa=1, max_prior_variance=0.25), 2)
    91.28
    """
    norms = norm_sum_bound(n, d, noise_std, kappa, max_prior_variance)
    return plain(norms * np.sqrt(2 * d * np.log(d * checked_rounds(n))))


def prior_width(n: ArrayLike, d: int, kappa: float, max_prior_variance: float) -> Any:
    """Return kappa sqrt(2 lambda d log(dn)), the largest width sigma_t(a, s)  [paper: App. A].

    Parameters
    ----------
    n, d, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.prior_width(100, 2, kappa=1, max_prior_variance=0.25), 3)
    2.302
    """
    rounds = checked_rounds(n)
    d, k = checks.count(d, "d"), checks.positive_number(kappa, "kappa")
    variance = at_least_zero(max_prior_variance, "max_prior_variance")
    return plain(k * np.sqrt(2 * variance * d * np.log(d * rounds)))


def round_bound(n: ArrayLike, d: int, kappa: float, max_prior_variance: float) -> Any:
    """Return M = sqrt(2 kappa^2 lambda d log(dn)) + kappa, the most lost on E_0  [paper: App. A].

    It bounds the loss of one round. The summand kappa is the norm of an action times that of a
    prior mean, which is assumed to be at most 1.

    Parameters
    ----------
    n, d, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.round_bound(100, 2, kappa=1, max_prior_variance=0.25), 3)
    3.302
    """
    return prior_width(n, d, kappa, max_prior_variance) + kappa


def first_part_bound(
    best_width_sum: ArrayLike, d: int, kappa: float, max_prior_variance: float
) -> Any:
    """Return E sum_t sigma_t(A_t*, S_*) + kappa sqrt(lambda d / (2 pi))  [paper: App. A].

    The end of Step 1, for the first part of the regret, summed over the rounds of Sec. 4.1
    [paper: Eq. 2]. Its widths may be exchanged for sigma_t(A_t, S_t), which have the same
    expectation.

    Parameters
    ----------
    best_width_sum
        Expected sum of the widths sigma_t(A_t*, S_*), or an array of them.
    d, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.first_part_bound(40.0, 2, kappa=1, max_prior_variance=0.25), 3)
    40.282
    """
    total = _at_least_zero(best_width_sum, "best_width_sum")
    d, k = checks.count(d, "d"), checks.positive_number(kappa, "kappa")
    variance = at_least_zero(max_prior_variance, "max_prior_variance")
    return plain(total + k * np.sqrt(variance * d / (2 * np.pi)))


def second_part_bound(
    width_sum: ArrayLike,
    n: int,
    d: int,
    n_components: int,
    noise_std: float,
    kappa: float,
    max_prior_variance: float,
) -> Any:
    """Return sqrt(2) E sum_t sigma_t(A_t, S_t) + 2 sigma sqrt(L n log n) + 3 L M  [paper: App. A].

    The end of Step 3, for the second part of the regret; in Sec. 4.1 with any eta [paper: Eq. 3],
    here with the proof's sqrt(2). At width 0 nothing is left of the widths, and nothing at all of
    the first part: the price is that of finding the latent state [paper: Sec. 4.3].

    Parameters
    ----------
    width_sum
        Expected sum of the widths sigma_t(A_t, S_t), or an array of them.
    n
        Number of rounds.
    d, n_components, noise_std, kappa, max_prior_variance
        As for :func:`theorem1`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.second_part_bound(40.0, 100, 2, 5, 0.5, kappa=1, max_prior_variance=0.25), 2)
    154.08
    """
    total = _at_least_zero(width_sum, "width_sum")
    terms = theorem1_terms(n, d, n_components, noise_std, kappa, max_prior_variance)
    most = round_bound(n, d, kappa, max_prior_variance)
    return plain(np.sqrt(2) * total + terms.identification + 3 * n_components * most)


# -- App. B ---------------------------------------------------------------------------------------


def pseudo_count_variance(total: ArrayLike) -> Any:
    """Return sigma^2 = 1 / (4 (total + 1)): X - E X is sigma^2-sub-Gaussian  [paper: Lemma 4].

    That is, log E exp(u (X - E X)) <= u^2 sigma^2 / 2 for every u, where X ~ Beta(alpha, beta) and
    ``total`` is alpha + beta, or X is an entry of a Dirichlet vector and ``total`` the sum of its
    counts. Where alpha = beta it is the variance, and elsewhere more.

    Parameters
    ----------
    total
        Sum of the pseudo-counts, or an array of them.

    Returns
    -------
    float or array
        The variance sigma^2.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bounds.pseudo_count_variance([1, 4, 24])
    array([0.125, 0.05 , 0.01 ])
    """
    expected = "total must be a finite number above 0, or an array of them"
    array = checks.numbers(total, expected, ParameterError)
    good = np.isfinite(array) & (array > 0)
    if not good.all():
        raise ParameterError(f"{expected}, got {array[~good].flat[0]}")
    return plain(1 / (4 * (array + 1)))


def value_difference_bound(other: MDP, mdp: MDP, policy: ArrayLike) -> Any:
    """Return E sum_i (R' - R + h ||T' - T||_1)(X_i, A_i), for V_M'(pi) - V_M(pi)  [paper: Lemma 5].

    ``other`` is M', in which the episodes of the expectation are played; the lemma does not say
    where, and it holds for episodes of M as well. Mean rewards are between 0 and 1. The MDPs are
    two, or two batches of one shape, with policies as :meth:`MDP.value` takes them. The plus sign
    is not in the paper.

    Parameters
    ----------
    other
        M', or a batch of MDPs.
    mdp
        M, or a batch of the same shape.
    policy
        Policies, as for :meth:`MDP.value`.

    Returns
    -------
    float or array
        The bound, for each MDP of a batch.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper import bounds
    >>> river = mixts.RiverSwim(n_states=4, horizon=8)
    >>> left, right = river.mean_mdp("left"), river.mean_mdp("right")
    >>> policy = right.plan().policy
    >>> bound = bounds.value_difference_bound(right, left, policy)
    >>> print(round(right.value(policy) - left.value(policy), 2), round(bound, 2))
    1.5 76.48
    """
    same = (mdp.shape, mdp.rewards.shape, mdp.horizon) == (
        other.shape, other.rewards.shape, other.horizon,
    )  # fmt: skip
    if not same or not np.array_equal(mdp.initial, other.initial):
        raise ParameterError(
            "the MDPs must have one shape, horizon and initial distribution, got "
            f"{other!r} and {mdp!r}"
        )
    apart = abs(other.transitions - mdp.transitions).sum(axis=-1)
    gap = other.rewards - mdp.rewards + other.horizon * apart
    # A sum along episodes is the value of the policy in an MDP whose rewards are the gap.
    return MDP(gap, other.transitions, other.horizon, other.initial).value(policy)


def episode_width_sum_bound(
    n: ArrayLike,
    n_states: int,
    n_actions: int,
    horizon: int,
    min_pseudo_count: float,
    form: Form = "statement",
) -> Any:
    """Return ``F |X| h sqrt(|A| n h log(4 |X||A| n) c_1) + |X||A| h^2``  [paper: Lemma 6].

    It is the lemma's bound on h sum_t sum_i (c_t + phi_t)(X_{t,i}, A_{t,i}, s), the widths of n
    episodes. ``min_pseudo_count`` is Lambda_0,s, and c_1 is
    ``log(1 + n h / (2 |X||A| Lambda_0,s))``. F is 4 in the lemma, and 4 sqrt(2) at the end of its
    proof (``form="appendix"``). Neither bounds the sum for every prior: see the module.

    Parameters
    ----------
    n, n_states, n_actions, horizon, min_pseudo_count, form
        As for :func:`theorem2`.

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.episode_width_sum_bound(100, 4, 2, horizon=8, min_pseudo_count=1))
    29354
    """
    terms = theorem2_terms(n, n_states, n_actions, horizon, 1, min_pseudo_count)
    factor = 4.0 if checked_form(form) == "statement" else 4 * np.sqrt(2)
    return plain(factor / 6 * terms.learning + n_states * n_actions * horizon**2)


def _at_least_zero(value: ArrayLike, name: str) -> Array:
    """Return a number, or an array of them, as an array."""
    expected = f"{name} must be a finite number, at least 0, or an array of them"
    array = checks.numbers(value, expected, ParameterError)
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        raise ParameterError(f"{expected}, got {array[~good].flat[0]}")
    return array
