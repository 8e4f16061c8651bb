"""The bounds of earlier work that Sec. 4.3 sets beside Theorem 1, with constants of ours.

The discussion gives orders only, without constants and logarithms:

- Hong et al. (2020), "Latent Bandits Revisited", with the same algorithm: c' n + sqrt(L n), where
  c' is proportional to the prior's largest width sqrt(lambda). It is linear in n because what is
  learned of the parameters is not used.
- Abeille and Lazaric (2017), for LinTS: d^(3/2) sqrt(n). It is frequentist: it holds whatever the
  parameters are, and no prior helps it.

For the first, this paper's own proof supplies constants that can be compared. The norms of the
posterior, which the last step of App. A sums up, are held at the prior's, each at most
kappa sqrt(lambda); all else stays as in Theorem 1:

    F sqrt(d log(dn)) kappa sqrt(lambda) n + 2 sigma sqrt(L n log n) + c_2,

with the F = 6 of the statement, or the F = 4 and the c_2 of the appendix. So the first terms of the
two bounds differ in nothing but sigma sqrt(c_1 n d) against kappa sqrt(lambda) n, and where they
cross depends neither on F nor on the logarithms. ``form="width"`` pays a single width of the prior
in every round, F = sqrt(2) and no c_2: the smallest constant with a meaning, but not one to compare
with Theorem 1's, which counts widths 3 sqrt(2) times.

For the second there is nothing to take a constant from: it is a shape over n and d.

A slip of the discussion: not c_1 but its root, and so Term 1, scales with the width sqrt(lambda).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from mixts import _checks
from mixts._typing import ArrayLike
from mixts.bounds import arguments
from mixts.bounds.arguments import Form
from mixts.bounds.lemmas import prior_width
from mixts.bounds.theorem1 import theorem1_terms

_SMALLEST_RATIO = 1e-8
"""Below it the crossing is 2 d to 8 digits, and solving for it would lose as many."""


def linear_bound(
    n: ArrayLike,
    d: int,
    n_components: int,
    noise_std: float,
    kappa: float,
    max_prior_variance: float,
    form: Form | Literal["width"] = "statement",
) -> Any:
    """c' n + 2 sigma sqrt(L n log n): regret if posteriors never sharpened  [paper: Sec. 4.3].

    The arguments are those of :func:`theorem1_bound`, and ``form`` says which of its forms this is
    to be compared with: c' is 3 sqrt(2) times the prior's width, kappa sqrt(2 lambda d log(dn)), in
    the statement and 2 sqrt(2) times in the appendix. With ``form="width"`` it is that width once.
    The module derives the constants, which are not the earlier paper's.
    """
    stated: Form = "statement" if form == "width" else arguments.form(form)
    terms = theorem1_terms(n, d, n_components, noise_std, kappa, max_prior_variance, stated)
    times = {"width": 1.0, "statement": 3 * np.sqrt(2), "appendix": 2 * np.sqrt(2)}[form]
    rate = times * prior_width(n, d, kappa, max_prior_variance)
    return arguments.plain(rate * arguments.rounds(n) + terms.identification + terms.constant)


def lints_order(n: ArrayLike, d: int) -> Any:
    """d^(3/2) sqrt(n), the order of LinTS's frequentist regret  [paper: Sec. 4.3].

    Neither constant nor logarithms: for shapes, not levels. Theorem 1 is of a smaller order where
    c_1 < d and sqrt(L) < d^(3/2).
    """
    return arguments.plain(_checks.count(d, "d") ** 1.5 * np.sqrt(arguments.rounds(n)))


def crossing(d: int, noise_std: float, kappa: float, max_prior_variance: float) -> float:
    """The n from which Theorem 1 is below :func:`linear_bound` of the same form.

    The first terms are equal where c_1 d = kappa^2 lambda n / sigma^2, that is, with
    r = kappa^2 lambda / sigma^2 and x = r n / d, where (1 + r) log(1 + x) = x. That is at n = 2 d
    for a tight prior, and grows like d log r with a wide one. NaN where nothing is to be learned:
    both bounds are then Term 2.
    """
    d = _checks.count(d, "d")
    sigma = _checks.positive_number(noise_std, "noise_std")
    k = _checks.positive_number(kappa, "kappa")
    ratio = (k / sigma) ** 2 * arguments.at_least_zero(max_prior_variance, "max_prior_variance")
    if ratio == 0:
        return float("nan")
    if ratio < _SMALLEST_RATIO:
        return 2.0 * d

    from scipy import optimize  # takes long to import, and is rarely needed

    def gap(log_x: float) -> float:
        x = np.exp(log_x)
        return float(np.log1p(ratio) + np.log(np.log1p(x)) - log_x)

    # log(1 + x) > x / (1 + x / 2) puts the root above 2 r, and log(1 + x) <= 2 log(1 + r) + 2 for
    # the x of the upper end puts it below.
    low, high = np.log(2 * ratio), np.log(2 * (1 + ratio) * (np.log1p(ratio) + 1))
    return float(np.exp(optimize.brentq(gap, low, high, xtol=1e-14)) * d / ratio)
