"""A bound in the effective number of latent states.

For each state a ledger is kept: by how much did its predictions exceed the rewards in the rounds in
which it was drawn? The ledger of the true state is a martingale and stays below
``rad(N) = sqrt(v (N + 1) (log(N + 1) + 2 log(1 / delta)))`` after N draws, with probability
1 - delta. A state whose ledger is larger is probably wrong and is hardly drawn any more; the others
have cost no more than their ledgers. State s is drawn n P_0(s) times on average, which
brings in P_0. Proof: ``docs/theory.md``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float
from mixts.bounds import _arguments
from mixts.errors import ParameterError

_DELTAS = np.exp(-np.linspace(0.05, 40.0, 800))
"""Values of delta among which the least bound is sought. A bound holds for every delta, and its
logarithm moves by less than a thousandth between neighbours."""


def count_bound(
    n: ArrayLike,
    weights: ArrayLike,
    noise_std: float,
    kappa: float,
    prior_variance: float,
    mean_range: float,
    delta: float | None = None,
) -> Any:
    """Return the bound on the cost of identification, E sum_t B_t, by counts of draws.

    It needs the condition (C) of :func:`mixts.bounds.entropy_terms`. With v = sigma^2 + kappa^2
    lambda and p_s = min(1, n P_0(s)) it is

        sum_s p_s (rad(n P_0(s) / p_s) + D + sqrt(2 v / pi)) + n delta D,

    about sqrt(3 v L_eff n log n) for delta = 1 / n and large n. States of vanishing probability
    cost nothing.

    Parameters
    ----------
    n
        Number of rounds, or an array of them for a curve.
    weights
        Latent prior P_0, (L,).
    noise_std, kappa
        Standard deviation of the noise, and largest norm of an action.
    prior_variance
        lambda, the largest eigenvalue of the covariance that all components share.
    mean_range
        D, the largest difference between two components' means of an action, as for
        :func:`mixts.bounds.entropy_terms`.
    delta
        Probability with which the true state's ledger may be too large, between 0 and 1. None: the
        least bound over delta.

    Returns
    -------
    float or array
        The bound; 0 for one latent state.

    Examples
    --------
    >>> from mixts import bounds
    >>> skewed = [0.9, 0.05, 0.05]
    >>> costs = bounds.count_bound([100, 1000], skewed, 0.5, 1, prior_variance=0.01, mean_range=1)
    >>> costs.round(1)
    array([ 31. , 100.8])
    """
    rounds = _arguments.rounds(n)
    p = _arguments.weights(weights)
    p = p[p > 0]
    sigma = _checks.positive_number(noise_std, "noise_std")
    k = _checks.positive_number(kappa, "kappa")
    v = sigma**2 + k**2 * _arguments.at_least_zero(prior_variance, "prior_variance")
    D = _arguments.at_least_zero(mean_range, "mean_range")
    if delta is not None and not 0 < delta < 1:
        raise ParameterError(f"delta must be between 0 and 1, got {delta!r}")
    if len(p) == 1:
        return _arguments.plain(np.zeros_like(rounds))
    drawn = np.minimum(1.0, rounds[..., None] * p)
    draws = rounds[..., None] * p / drawn
    burden = drawn.sum(axis=-1) * (D + math.sqrt(2 * v / math.pi))

    def total(delta: float) -> Array:
        paid = (drawn * radius(draws, v, delta)).sum(axis=-1)
        return np.asarray(paid + burden + rounds * delta * D)

    if delta is not None:
        return _arguments.plain(total(float(delta)))
    return _arguments.plain(np.min([total(d) for d in _DELTAS], axis=0))


def radius(n_draws: ArrayLike, variance: float, delta: float) -> Float[Array, "..."]:
    """Return rad(N) = sqrt(v (N + 1) (log(N + 1) + 2 log(1 / delta))).

    The true state's predictions exceed the rewards of its N draws by more than this, at any time,
    with probability at most delta.

    Parameters
    ----------
    n_draws
        Numbers of draws N.
    variance
        v, at least the variance of a reward given the state.
    delta
        Probability.

    Returns
    -------
    array
        The radius for each number.
    """
    more = np.asarray(n_draws, float) + 1
    return np.sqrt(variance * more * (np.log(more) - 2 * math.log(delta)))
