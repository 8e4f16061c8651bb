"""The regret bounds of Theorems 1 and 2, and the confidence widths of their proofs.

**Theorem 1: n rounds of a linear bandit.** The paper has two versions of the theorem. The statement
(Sec. 4.2) is

    6 sigma d sqrt(c_1 n log(dn)) + 2 sigma sqrt(L n log n) + c_2,
    c_1 = (1 + kappa^2 lambda / sigma^2) log(1 + kappa^2 lambda n / (sigma^2 d)),

with lambda = max_s lambda_max(Sigma_0,s), a variance, and a c_2 that is only said to be
poly-logarithmic in n. The end of App. A has 4 instead of 6, the same second term, and in the place
of c_2

    3 L sqrt(2 kappa^2 lambda d log(dn)) + 2 sqrt(kappa^2 lambda d / (2 pi)) + 4 L kappa.

This module has both as printed. Remarks:

- The sum of the widths enters with the factors sqrt(2) in Step 1 and 2 in Step 3: the appendix's
  own steps add up to 2 + sqrt(2), which is below both 4 and 6.
- The bound M on the loss of one round lacks a factor 2, and so do its 3 L M.
- The norm of the prior means is assumed to be at most 1; the paper's own experiment has 1.049,
  which does no harm: it enters the constant only.
- Sec. 6.1 writes the width sigma_0 where the theorem has lambda; with covariances sigma_0^2 I that
  is sigma_0^2.

**Theorem 2: n episodes of a tabular MDP.** Here too there are two versions. The statement
(Sec. 5.2) is

    6 |X| h^(3/2) sqrt(c_1 |A| n log(4 |X||A| n)) + sqrt(L h n log n) + c_2,
    c_1 = log(1 + h n / (2 |X||A| Lambda_0,min)),

with a c_2 that is only said to be poly-logarithmic in n. The end of App. B has 4 sqrt(2) instead
of 6, the same second term, and 2 |X||A| h^2 + 3 L h in the place of c_2. This module has both as
printed. The steps of App. B give neither:

- The sum of the widths enters once in Step 1 and sqrt(2) times in Step 4, and is itself
  2 / sqrt|X| (from c_t) plus 2 sqrt(2) (from phi_t) in the unit of the first term: together
  (1 + sqrt 2) (2 sqrt 2 + 2 / sqrt|X|), 8.4 for ten states, more than 6. (The lemma that bounds the
  sum says 4, and the last line of its proof 4 sqrt 2.)
- The constants add up in the same way to (1 + sqrt 2) |X||A| h^2 + |X| h^2, not 2 |X||A| h^2.
- The latent state is missed with probability at most 2 L h / n in an episode that costs at most h:
  over n episodes that is 2 L h^2, but Step 4 has 2 L h.
- The return of an episode is taken as h/4-sub-Gaussian, as if its rewards were independent. They
  are not: a state visited once tends to be visited again.
- The value difference lemma lacks a plus sign before h ||T' - T||.

At the paper's own setting (ten states, two actions, h = 20, n = 1000, L = 2) both forms are about
1.3 million, while no policy can lose more than n h = 20,000. They show how regret grows with the
problem, not how large it is.

**Widths.** Parts of App. A write log n where the text has log(dn), and give the factor before the
norm as sqrt(2 d log n), 2 sqrt(d log n) and 2 sqrt(d log(dn)). This module has the text's widths;
the proofs of the latent confidence sets multiply them by eta = sqrt(2).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from mixts.errors import ParameterError, WeightsError
from mixts.extend import Array, ArrayLike, Float, checks

Form = Literal["statement", "appendix"]
"""Version of a bound: that of the theorem's statement, or that of the end of its proof."""


class BoundTerms(NamedTuple):
    """Parts of a regret bound: numbers, or arrays if n is an array.

    Attributes
    ----------
    c1 : float or array
        Factor by which a tight prior helps; it is part of ``learning``, not added.
    learning : float or array
        Regret of learning the parameters if the latent state were known (Term 1).
    identification : float or array
        Regret of identifying the latent state (Term 2).
    constant : float or array
        The rest, poly-logarithmic in n; 0 in the statements, which do not specify their c_2.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> terms = bounds.theorem1_terms(1000, 2, 5, noise_std=0.5, kappa=1, max_prior_variance=0.1)
    >>> round(terms.learning, 1), round(terms.identification, 1), round(terms.bound, 1)
    (1425.3, 185.8, 1611.2)
    """

    c1: Any
    learning: Any
    identification: Any
    constant: Any

    @property
    def bound(self) -> Any:
        """learning + identification + constant."""
        return self.learning + self.identification + self.constant


def theorem1(
    n: ArrayLike,
    d: int,
    n_components: int,
    noise_std: float,
    kappa: float,
    max_prior_variance: float,
    form: Form = "statement",
) -> Any:
    """Return the bound on the Bayes regret of n rounds of a linear bandit  [paper: Thm 1].

    Parameters
    ----------
    n
        Number of rounds, or an array of them for a curve.
    d
        Number of features.
    n_components
        Number of latent states, L.
    noise_std
        Standard deviation of the reward noise, sigma.
    kappa
        Largest norm of an action.
    max_prior_variance
        lambda_0,max, the largest eigenvalue of any component's covariance
        (``family.max_prior_variance`` of a :class:`LinearGaussian`).
    form
        "statement" omits the unspecified c_2 of the theorem's statement; "appendix" is the end of
        App. A. The module says where they differ.

    Returns
    -------
    float or array
        The sum of :func:`theorem1_terms`.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bound = bounds.theorem1(
    ...     [100, 400], d=2, n_components=5, noise_std=0.5, kappa=1, max_prior_variance=0.1
    ... )
    >>> bound.round(1)
    array([333.1, 879. ])
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
    """Return the terms whose sum is :func:`theorem1`  [paper: Eq. 5] [paper: App. A].

    ``c1`` is (1 + kappa^2 lambda / sigma^2) log(1 + kappa^2 lambda n / (sigma^2 d)), and
    ``identification`` is 2 sigma sqrt(L n log n).

    Parameters
    ----------
    n, d, n_components, noise_std, kappa, max_prior_variance, form
        As for :func:`theorem1`.

    Returns
    -------
    BoundTerms
        The terms, and c_1.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> terms = bounds.theorem1_terms(1000, 2, 5, noise_std=0.5, kappa=1, max_prior_variance=0.1)
    >>> round(terms.c1, 3), round(terms.identification, 1)
    (7.425, 185.8)
    """
    rounds = checked_rounds(n)
    d, L = checks.count(d, "d"), checks.count(n_components, "n_components")
    sigma = checks.positive_number(noise_std, "noise_std")
    k = checks.positive_number(kappa, "kappa")
    variance = at_least_zero(max_prior_variance, "max_prior_variance")
    stated = checked_form(form) == "statement"
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
    return BoundTerms(*map(plain, (c1, learning, identification, constant)))


def theorem2(
    n: ArrayLike,
    n_states: int,
    n_actions: int,
    horizon: int,
    n_components: int,
    min_pseudo_count: float,
    form: Form = "statement",
) -> Any:
    """Return the bound on the Bayes regret of n episodes in a tabular MDP  [paper: Thm 2].

    Parameters
    ----------
    n
        Number of episodes, or an array of them for a curve.
    n_states, n_actions, horizon
        Size of the MDP: ``|X|``, ``|A|`` and h.
    n_components
        Number of latent states, L.
    min_pseudo_count
        Lambda_0,min, the least total pseudo-count of any component's reward or transition prior at
        any pair of state and action (``family.min_pseudo_count`` of a :class:`TabularMDP`).
    form
        "statement" omits the unspecified c_2 of the theorem's statement; "appendix" is the end of
        App. B. The module says where they differ.

    Returns
    -------
    float or array
        The sum of :func:`theorem2_terms`.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bound = bounds.theorem2(
    ...     1000, n_states=10, n_actions=2, horizon=20, n_components=2, min_pseudo_count=30
    ... )
    >>> round(bound)
    1367065
    """
    return theorem2_terms(
        n, n_states, n_actions, horizon, n_components, min_pseudo_count, form
    ).bound


def theorem2_terms(
    n: ArrayLike,
    n_states: int,
    n_actions: int,
    horizon: int,
    n_components: int,
    min_pseudo_count: float,
    form: Form = "statement",
) -> BoundTerms:
    """Return the terms whose sum is :func:`theorem2`  [paper: Thm 2] [paper: App. B].

    ``c1`` is ``log(1 + h n / (2 |X||A| Lambda_0,min))``, ``identification`` is sqrt(L h n log n),
    and the appendix's ``constant`` is ``2 |X||A| h^2 + 3 L h``.

    Parameters
    ----------
    n, n_states, n_actions, horizon, n_components, min_pseudo_count, form
        As for :func:`theorem2`.

    Returns
    -------
    BoundTerms
        The terms, and c_1.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> terms = bounds.theorem2_terms(1000, 10, 2, 20, n_components=2, min_pseudo_count=30)
    >>> round(terms.c1, 3), round(terms.identification, 1)
    (2.872, 525.7)
    """
    episodes = checked_rounds(n)
    X, A = checks.count(n_states, "n_states"), checks.count(n_actions, "n_actions")
    h, L = checks.count(horizon, "horizon"), checks.count(n_components, "n_components")
    least = checks.positive_number(min_pseudo_count, "min_pseudo_count")
    stated = checked_form(form) == "statement"
    factor = 6.0 if stated else 4 * np.sqrt(2)
    c1 = np.log1p(h * episodes / (2 * X * A * least))
    learning = factor * X * h**1.5 * np.sqrt(c1 * A * episodes * np.log(4 * X * A * episodes))
    identification = np.sqrt(L * h * episodes * np.log(episodes))
    constant = np.full(episodes.shape, 0.0 if stated else 2.0 * X * A * h**2 + 3.0 * L * h)
    return BoundTerms(*map(plain, (c1, learning, identification, constant)))


# -- widths ---------------------------------------------------------------------------------------


def feature_width(norm: Float[Array, "..."], n_features: int, n: int) -> Any:
    """Return sigma_t(a, s) = sqrt(2 d log(d n)) ||a||_{Sigma_{t,s}}  [paper: Sec. 4.2].

    Parameters
    ----------
    norm
        Norms of actions in the posterior covariance.
    n_features
        Number of features, d.
    n
        Number of rounds.

    Returns
    -------
    float or array
        The width for each norm.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts_paper import bounds
    >>> bounds.feature_width(np.array([0.1, 0.2]), n_features=2, n=100).round(3)
    array([0.46 , 0.921])
    """
    return np.sqrt(2 * n_features * np.log(n_features * n)) * norm


def reward_width(total: Float[Array, "..."], n_states: int, n_actions: int, n: int) -> Any:
    """Return ``c_t(x, a, s) = sqrt(2 log(2 |X||A| n) / (total + 1))``  [paper: Eq. 7].

    Parameters
    ----------
    total
        ``|alpha^R_{t,s}(x, a)|``, the pseudo-counts and counts of the pair's rewards.
    n_states, n_actions, n
        Numbers of states, actions and episodes.

    Returns
    -------
    float or array
        The width for each total.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts_paper import bounds
    >>> bounds.reward_width(np.array([1.0, 100.0]), n_states=10, n_actions=2, n=1000).round(3)
    array([3.255, 0.458])
    """
    return np.sqrt(2 * np.log(2 * n_states * n_actions * n) / (total + 1))


def transition_width(total: Float[Array, "..."], n_states: int, n_actions: int, n: int) -> Any:
    """Return ``phi_t(x, a, s) = sqrt(4 |X| log(4 |X||A| n) / (total + 1))``  [paper: Eq. 8].

    It is a width in the 1-norm.

    Parameters
    ----------
    total
        ``|alpha^T_{t,s}(x, a)|``, the pseudo-counts and counts of the pair's transitions.
    n_states, n_actions, n
        As for :func:`reward_width`.

    Returns
    -------
    float or array
        The width for each total.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts_paper import bounds
    >>> bounds.transition_width(np.array([1.0, 100.0]), n_states=10, n_actions=2, n=1000).round(3)
    array([15.026,  2.115])
    """
    return np.sqrt(4 * n_states * np.log(4 * n_states * n_actions * n) / (total + 1))


# -- checks of arguments ---------------------------------------------------------------------------


def checked_rounds(n: ArrayLike) -> Float[Array, "..."]:
    """Return numbers of rounds or episodes as an array, which may have no axis."""
    expected = "n must be a number of rounds or episodes, or an array of them, at least 1"
    array = checks.numbers(n, expected, ParameterError)
    good = np.isfinite(array) & (array >= 1)
    if np.asarray(n).dtype.kind == "b" or not good.all():
        bad = n if array.ndim == 0 else array[~good][:1]
        raise ParameterError(f"{expected}, got {bad}")
    return array


def checked_weights(value: ArrayLike) -> Float[Array, " L"]:
    """Return a latent prior: probabilities that sum to one."""
    array = checks.numbers(value, "weights must be numbers", WeightsError)
    if array.ndim != 1 or not array.size:
        raise WeightsError(f"weights must have shape (L,), got {array.shape}")
    return checks.weight_vector(array, len(array))


def at_least_zero(value: Any, name: str) -> float:
    """Return a finite number, at least 0."""
    array = checks.numbers(value, f"{name} must be a number", ParameterError)
    if array.ndim != 0 or not 0 <= array < np.inf:
        raise ParameterError(f"{name} must be a finite number, at least 0, got {value!r}")
    return float(array)


def plain(value: Any) -> Any:
    """Return a plain number for an array without axes."""
    return float(value) if np.ndim(value) == 0 else value


def checked_form(value: Any) -> Form:
    """Return the form, or raise ``ParameterError``."""
    if value not in get_args(Form):
        raise ParameterError(f'form must be "statement" or "appendix", got {value!r}')
    return value
