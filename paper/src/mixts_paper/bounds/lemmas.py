"""The steps of the proofs in App. A and App. B, as functions that a simulation can check.

Arguments are those of :func:`theorem1` and :func:`theorem2`, and are not checked here.

**App. A.** With ||a||_{t,s}^2 = a' Sigma_{t,s} a, the proof of Theorem 1 goes from the regret to
its two parts (Eq. 1, and Eq. 9 on the event E_0 that theta_* is near its prior mean), from
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

- The third step is wrong in general: a sum of maxima is not below the maximum of sums. It holds if
  one component is the widest in every direction, as in the paper's own experiment, whose components
  share one covariance. It fails if each component is wide in a direction of its own. The conclusion
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

from mixts.extend import ArrayLike
from mixts.planning import MDP
from mixts_paper.bounds.theorems import (
    Form,
    checked_form,
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
    """
    return plain(d**1.5 * np.exp(-(np.asarray(epsilon) ** 2) / (2 * d)) / np.sqrt(2 * np.pi))


def norm_series_bound(
    log_determinant_ratio: ArrayLike, noise_std: float, kappa: float, prior_variance: ArrayLike
) -> Any:
    """Return sigma^2 (1 + C) log(det Sigma_{n+1,s}^-1 / det Sigma_0,s^-1)  [paper: Lemma 2].

    It bounds sum_t ||A_t||_{t,s}^2, in every run and for every state. C is the least that the lemma
    allows, kappa^2 lambda_s / sigma^2, with ``prior_variance`` the largest eigenvalue lambda_s of
    the state's own covariance. Both may be arrays, which broadcast.
    """
    variance, ratio = np.asarray(prior_variance), np.asarray(log_determinant_ratio)
    return plain((noise_std**2 + kappa**2 * variance) * ratio)


def log_determinant_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """Return d log(1 + n kappa^2 lambda / (sigma^2 d)), for the log ratio  [paper: App. A]."""
    c1 = theorem1_terms(n, d, 1, noise_std, kappa, max_prior_variance).c1
    return d * c1 / (1 + (kappa / noise_std) ** 2 * max_prior_variance)


def trace_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, precision_trace: ArrayLike
) -> Any:
    """Return d log(1 + n kappa^2 / (sigma^2 tr(Sigma_0,s^-1)))  [paper: App. A].

    The step before :func:`log_determinant_bound`, which does not hold for every prior: see the
    module. ``precision_trace`` may be an array; it is infinite where something is known exactly.
    """
    per_trace = np.asarray(n, float) * (kappa / noise_std) ** 2
    return plain(d * np.log1p(per_trace / np.asarray(precision_trace)))


def norm_sum_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """Return sigma sqrt(c_1 n d), for sum_t ||A_t||_{t,S_t}  [paper: App. A]."""
    c1 = theorem1_terms(n, d, 1, noise_std, kappa, max_prior_variance).c1
    return plain(noise_std * np.sqrt(c1 * np.asarray(n, float) * d))


def width_sum_bound(
    n: ArrayLike, d: int, noise_std: float, kappa: float, max_prior_variance: float
) -> Any:
    """Return sigma d sqrt(2 c_1 n log(dn)), for the sum of the widths  [paper: App. A].

    Term 1 is 3 sqrt(2) times this in the statement and 2 sqrt(2) times in the appendix; the steps
    add up to 1 + sqrt(2).
    """
    norms = norm_sum_bound(n, d, noise_std, kappa, max_prior_variance)
    return plain(norms * np.sqrt(2 * d * np.log(d * np.asarray(n, float))))


def prior_width(n: ArrayLike, d: int, kappa: float, max_prior_variance: float) -> Any:
    """Return kappa sqrt(2 lambda d log(dn)), the largest width sigma_t(a, s)  [paper: App. A]."""
    return plain(kappa * np.sqrt(2 * max_prior_variance * d * np.log(d * np.asarray(n, float))))


def round_bound(n: ArrayLike, d: int, kappa: float, max_prior_variance: float) -> Any:
    """Return M = sqrt(2 kappa^2 lambda d log(dn)) + kappa, the most lost on E_0  [paper: App. A].

    It bounds the loss of one round. The summand kappa is the norm of an action times that of a
    prior mean, which is assumed to be at most 1.
    """
    return prior_width(n, d, kappa, max_prior_variance) + kappa


def first_part_bound(
    best_width_sum: ArrayLike, d: int, kappa: float, max_prior_variance: float
) -> Any:
    """Return E sum_t sigma_t(A_t*, S_*) + kappa sqrt(lambda d / (2 pi))  [paper: App. A].

    The end of Step 1, for the first part of the regret, summed over the rounds of Sec. 4.1
    [paper: Eq. 2]. Its widths may be exchanged for sigma_t(A_t, S_t), which have the same
    expectation.
    """
    return plain(np.asarray(best_width_sum) + kappa * np.sqrt(max_prior_variance * d / (2 * np.pi)))


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
    """
    terms = theorem1_terms(n, d, n_components, noise_std, kappa, max_prior_variance)
    most = round_bound(n, d, kappa, max_prior_variance)
    return plain(
        np.sqrt(2) * np.asarray(width_sum) + terms.identification + 3 * n_components * most
    )


# -- App. B ---------------------------------------------------------------------------------------


def pseudo_count_variance(total: ArrayLike) -> Any:
    """Return sigma^2 = 1 / (4 (total + 1)): X - E X is sigma^2-sub-Gaussian  [paper: Lemma 4].

    That is, log E exp(u (X - E X)) <= u^2 sigma^2 / 2 for every u, where X ~ Beta(alpha, beta) and
    ``total`` is alpha + beta, or X is an entry of a Dirichlet vector and ``total`` the sum of its
    counts. Where alpha = beta it is the variance, and elsewhere more.
    """
    return plain(1 / (4 * (np.asarray(total, float) + 1)))


def value_difference_bound(other: MDP, mdp: MDP, policy: ArrayLike) -> Any:
    """Return E sum_i (R' - R + h ||T' - T||_1)(X_i, A_i), for V_M'(pi) - V_M(pi)  [paper: Lemma 5].

    ``other`` is M', in which the episodes of the expectation are played; the lemma does not say
    where, and it holds for episodes of M as well. Mean rewards are between 0 and 1. The MDPs have
    one shape, horizon and initial distribution, and policies are as :meth:`MDP.value` takes them.
    The plus sign is not in the paper.
    """
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
    """
    terms = theorem2_terms(n, n_states, n_actions, horizon, 1, min_pseudo_count)
    factor = 4.0 if checked_form(form) == "statement" else 4 * np.sqrt(2)
    return plain(factor / 6 * terms.learning + n_states * n_actions * horizon**2)
