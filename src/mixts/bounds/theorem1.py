"""Theorem 1: how much MixTS can lose in n rounds of a linear bandit.

The theorem is written twice, and not quite the same. The statement (Sec. 4.2) is

    6 sigma d sqrt(c_1 n log(dn)) + 2 sigma sqrt(L n log n) + c_2,
    c_1 = (1 + kappa^2 lambda / sigma^2) log(1 + kappa^2 lambda n / (sigma^2 d)),

with lambda = max_s lambda_max(Sigma_0,s), a variance, and a c_2 of which it says only that it is
poly-logarithmic in n. The end of App. A has 4 instead of 6, the same second term, and in the place
of c_2

    3 L sqrt(2 kappa^2 lambda d log(dn)) + 2 sqrt(kappa^2 lambda d / (2 pi)) + 4 L kappa.

Both are here as they are printed. Read closely:

- The sum of the widths enters with the factors sqrt(2) in Step 1 and 2 in Step 3: the appendix's
  own steps add up to 2 + sqrt(2), which is below both 4 and 6.
- The bound M on what one round can lose lacks a factor 2, and so do its 3 L M.
- The norm of the prior means is assumed to be at most 1; the paper's own experiment has 1.049,
  which does no harm: it enters the constant only.
- Sec. 6.1 writes the width sigma_0 where the theorem has lambda; with covariances sigma_0^2 I that
  is sigma_0^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import ArrayLike
from mixts.bounds import arguments
from mixts.bounds.arguments import Form
from mixts.bounds.terms import BoundTerms


def theorem1_bound(
    n: ArrayLike,
    d: int,
    n_components: int,
    noise_std: float,
    kappa: float,
    max_prior_variance: float,
    form: Form = "statement",
) -> Any:
    """The bound on the Bayes regret of n rounds of a linear bandit  [paper: Thm 1].

    ``n`` is a number, or an array for a curve. ``kappa`` is the largest norm of an action, and
    ``max_prior_variance`` is lambda_0,max, the largest eigenvalue of any component's covariance
    (``family.max_prior_variance`` of a :class:`LinearGaussian`). ``form="statement"`` omits the
    unspecified c_2 of the theorem's statement; ``form="appendix"`` is the end of App. A. The parts
    are given by :func:`theorem1_terms`, and the module says where the forms differ.
    """
    return theorem1_terms(n, d, n_components, noise_std, kappa, max_prior_variance, form).bound


def theorem1_terms(
    n: ArrayLike,
    d: int,
    n_components: int,
    noise_std: float,
    kappa: float,
    max_prior_variance: float,
    form: Form = "statement",
) -> BoundTerms:
    """The terms whose sum is :func:`theorem1_bound`  [paper: Eq. 5] [paper: App. A].

    ``c1`` is (1 + kappa^2 lambda / sigma^2) log(1 + kappa^2 lambda n / (sigma^2 d)), and
    ``identification`` 2 sigma sqrt(L n log n).
    """
    rounds = arguments.rounds(n)
    d, L = _checks.count(d, "d"), _checks.count(n_components, "n_components")
    sigma = _checks.positive_number(noise_std, "noise_std")
    k = _checks.positive_number(kappa, "kappa")
    variance = arguments.at_least_zero(max_prior_variance, "max_prior_variance")
    stated = arguments.form(form) == "statement"
    ratio = k * k * variance / (sigma * sigma)
    c1 = (1 + ratio) * np.log1p(ratio * rounds / d)
    log_dn = np.log(d * rounds)
    learning = (6.0 if stated else 4.0) * sigma * d * np.sqrt(c1 * rounds * log_dn)
    identification = 2 * sigma * np.sqrt(L * rounds * np.log(rounds))
    width = k * np.sqrt(variance * d)
    constant = (
        np.zeros_like(rounds)
        if stated
        else 3 * L * width * np.sqrt(2 * log_dn) + 2 * width / np.sqrt(2 * np.pi) + 4.0 * L * k
    )
    return arguments.as_given(BoundTerms(c1, learning, identification, constant))
