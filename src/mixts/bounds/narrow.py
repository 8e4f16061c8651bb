"""A bound for narrow components: that of known models, plus terms that vanish with the width.

As long as the best arm is the one that its state suggests, regret is that of known models. Two
things are added: the chance e that another arm is best, and affinities that get worse as an arm is
learned, because the posterior means of two states meet there. By then most of
sqrt(P_t(s) P_t(s')) is gone. Proof: ``docs/theory.md``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float
from mixts.bounds import _arguments
from mixts.bounds.entropy import best_arm_entropy, entropy_terms
from mixts.errors import ParameterError

_MOST_PULLS = 1024
"""Largest m that is tried. The bound holds for every m, and R_m is close to its limit long before;
a table of all pairs of numbers of pulls takes 8 MiB."""


class NarrowTerms(NamedTuple):
    """Parts of :func:`narrow_bound`, which is their sum.

    Attributes
    ----------
    learning : float
        Bound on the cost of learning parameters, E sum_t W_t.
    pairs : float
        Cost of telling pairs of states apart while each one's own arm is best.
    slips : float
        2 n e D, for tasks whose best arm is not that of their state.

    Examples
    --------
    >>> from mixts import bounds
    >>> means = [[1.0, 0.0], [0.0, 1.0]]
    >>> terms = bounds.narrow_terms(100, [0.5, 0.5], means, width=0.2, noise_std=0.5)
    >>> round(terms.learning, 2), round(terms.pairs, 2), round(terms.slips, 2)
    (0.47, 2.79, 0.04)
    """

    learning: float
    pairs: float
    slips: float

    @property
    def bound(self) -> float:
        """learning + pairs + slips."""
        return self.learning + self.pairs + self.slips


def narrow_bound(
    n: int,
    weights: ArrayLike,
    prior_means: ArrayLike,
    width: float,
    noise_std: float,
    learning: float | None = None,
) -> float:
    """Return the bound on the Bayes regret of K Gaussian arms whose components are narrow.

    Parameters
    ----------
    n
        Number of rounds.
    weights
        Latent prior P_0, (L,).
    prior_means
        Mean of every arm under every component, (L, K).
    width
        Standard deviation sigma_0 of every arm under every component.
    noise_std
        Standard deviation of the rewards, sigma.
    learning
        Bound on the cost of learning; 0 to leave it out. None: that of
        :func:`mixts.bounds.entropy_terms`.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from mixts import bounds
    >>> means = [[1.0, 0.0], [0.0, 1.0]]
    >>> round(bounds.narrow_bound(100, [0.5, 0.5], means, width=0.2, noise_std=0.5), 2)
    3.3
    """
    return narrow_terms(n, weights, prior_means, width, noise_std, learning).bound


def narrow_terms(
    n: int,
    weights: ArrayLike,
    prior_means: ArrayLike,
    width: float,
    noise_std: float,
    learning: float | None = None,
) -> NarrowTerms:
    """Return the parts of :func:`narrow_bound`.

    Parameters
    ----------
    n, weights, prior_means, width, noise_std, learning
        As for :func:`narrow_bound`.

    Returns
    -------
    NarrowTerms
        The parts.

    Examples
    --------
    >>> from mixts import bounds
    >>> means = [[1.0, 0.0], [0.0, 1.0]]
    >>> round(bounds.narrow_terms(100, [0.5, 0.5], means, width=0.2, noise_std=0.5).pairs, 2)
    2.79
    """
    n, p = _checks.count(n, "n"), _arguments.weights(weights)
    mean = _checks.real_array(prior_means, "prior_means", 2)
    if len(mean) != len(p):
        raise ParameterError(f"expected means of {len(p)} components, got {len(mean)}")
    width = _arguments.at_least_zero(width, "width")
    sigma = _checks.positive_number(noise_std, "noise_std")
    if learning is None:
        learning = learning_bound(n, p, mean, width, sigma)
    mean, p = mean[p > 0], p[p > 0]
    best = mean.argmax(axis=1)
    mean_range = float(np.ptp(mean, axis=0).max())
    slips = 2 * n * slip_probability(p, mean, width) * mean_range
    costs: dict[tuple[float, float], float] = {}
    pairs = 0.0
    for s in range(len(p)):
        for r in range(s + 1, len(p)):
            if best[s] == best[r]:
                continue
            # Rounded: pairs that differ by rounding only share one computation.
            x, y = sorted(float(f"{abs(mean[s, a] - mean[r, a]):.12e}") for a in (best[s], best[r]))
            if (x, y) not in costs:
                costs[x, y] = pair_cost(n, x, y, width, sigma)
            pairs += math.sqrt(p[s] * p[r]) * costs[x, y]
    return NarrowTerms(float(learning), pairs, slips)


def learning_bound(n: int, weights: Array, means: Array, width: float, noise_std: float) -> float:
    """Return the learning term of :func:`mixts.bounds.entropy_terms` for these arms."""
    h, (L, K) = best_arm_entropy(means, width), means.shape
    covariance = np.broadcast_to(width**2 * np.eye(K), (L, K, K))
    terms = entropy_terms(n, weights, means, covariance, noise_std, 1.0, K, h)
    return float(terms.learning)


def slip_probability(
    weights: Float[Array, " L"], means: Float[Array, "L K"], width: float
) -> float:
    """Return e, an upper bound of P(A* != a_S): a union bound over the other arms."""
    from scipy import special  # takes as long to import as all of mixts

    own = means.argmax(axis=1)
    ahead = means.max(axis=1, keepdims=True) - means
    if width == 0:
        return 0.0
    chance = special.ndtr(-ahead / (width * math.sqrt(2)))
    chance[np.arange(len(means)), own] = 0.0
    return float(weights @ np.minimum(chance.sum(axis=1), 1.0))


def pair_cost(n: int, x: float, y: float, width: float, noise_std: float) -> float:
    """Return C_{ss'}: the least over m of c_0 + sum_{k<=m} (c_k - c_{k-1}) R_k + what is left.

    Parameters
    ----------
    n
        Number of rounds.
    x, y
        Distances between the two states' prior means of the best arm of each.
    width, noise_std
        sigma_0 and sigma.
    """
    trivial = n / 2 * (x + y)
    if min(x, y) == 0:
        return trivial
    m = 0 if width == 0 else min(n - 1, _MOST_PULLS)
    factors = _factors(x, y, width, noise_std, m)
    k = np.arange(1, m + 2)
    left = np.exp(-(min(x, y) ** 2) * k / (8 * (noise_std**2 + k * width**2)))
    sums = factors[0] + np.concatenate([[0.0], np.cumsum(np.diff(factors) * left[:-1])])
    if width == 0:
        # The factors do not change, so m = n - 1 leaves nothing over.
        return min(trivial, float(sums[0]))
    rest = trivial * left
    if m == n - 1:
        rest[-1] = 0.0
    return min(trivial, float((sums + rest).min()))


def _factors(x: float, y: float, width: float, noise_std: float, m: int) -> Float[Array, " m"]:
    """Return c_k for k = 0, .., m: the largest ratio of cost to progress up to k pulls of each."""
    noise = noise_std**2
    shrink = noise / (noise + np.arange(m + 1) * width**2)
    variance = noise + width**2 * shrink

    def arm(distance: float) -> tuple[Array, Array]:
        apart = distance * shrink
        return apart, np.sqrt(-np.expm1(-(apart**2) / (8 * variance)))

    (first, root), (second, other) = arm(x), arm(y)
    table = (first[:, None] + second) / (2 * root[:, None] * other)
    np.maximum.accumulate(table, axis=0, out=table)
    np.maximum.accumulate(table, axis=1, out=table)
    return np.asarray(table.diagonal())
