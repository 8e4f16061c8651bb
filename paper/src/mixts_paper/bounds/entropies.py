"""Bounds in the entropy of the latent prior, and in the effective number of its states.

The regret of a round is W_t + B_t: W_t is what not knowing the parameters costs once the latent
state is known (*learning*), B_t what not knowing the state costs (*identification*). The proofs are
in ``docs/theory.md``.

**Entropy.** Both costs are inner products of the best action with something unknown. MixTS draws
its action from the law of the best action. The unknown's variance at that action is at least the
square of the mean inner product, divided by r. Over n rounds these variances add up to little: each
is paid for by information or by a drop of the covariance. With gamma_s the most information that n
rounds can give on theta once the state s is known, and r = min(d, K), r_B = min(d, K, L - 1):

    E sum_t W_t <= sqrt(r n w),     w = sum_s P_0(s) w_s
    E sum_t B_t <= sqrt(r_B n b),   b = 2 sigma^2 H(P_0) + kappa^2 tr Cov(theta)
    regret      <= sqrt(r n min(w + b, j)),
                   j = 2 sigma^2 (H(P_0) + sum_s P_0(s) gamma_s) + kappa^2 tr Cov(theta)

The condition (C) makes b smaller: all covariances are equal, and either isotropic or, where actions
are unit vectors, diagonal.

**Effective number of states.** The ledger of a state is the sum by which its predictions exceeded
the rewards, over the rounds in which it was drawn. The ledger of the true state is a martingale and
stays below ``rad(N) = sqrt(v (N + 1) (log(N + 1) + 2 log(1 / delta)))`` after N draws, with
probability 1 - delta. A state whose ledger is larger is probably wrong and is hardly drawn any
more; the others have cost no more than their ledgers. State s is drawn n P_0(s) times on average,
which brings in P_0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts import MixTS, MixturePrior
from mixts.errors import ParameterError
from mixts.extend import Array, ArrayLike, Float, checks
from mixts.families import Family
from mixts_paper.bounds.theorems import at_least_zero, checked_rounds, checked_weights, plain

_EQUAL = 1e-12
"""Relative difference up to which covariances count as equal: rounding of a width's square."""


class EntropyTerms(NamedTuple):
    """Bounds in the entropy of the latent prior, and the sums inside their roots.

    Attributes
    ----------
    learning : float or array
        sqrt(r n w), for E sum_t W_t.
    identification : float or array
        sqrt(r_B n b), for E sum_t B_t; 0 for one latent state.
    joint : float or array
        sqrt(r n min(w + b, j)), for the regret.
    best_arm : float or array
        sqrt(2 r q n H(A*)), for the regret; infinite without (C) or without a fixed action set.
    information : (..., L) array
        gamma_s, the most information that n rounds can give on the parameters of each state.
    within : (..., L) array
        w_s, the sum inside the root of ``learning`` for each state.
    between : tuple of float
        The forms of b: that of any covariances and, under (C), two more; the least one counts.
    total : float or array
        j, one of the sums inside the root of ``joint``.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts_paper import bounds
    >>> means, covariances = np.eye(2), 0.01 * np.array([np.eye(2), np.eye(2)])
    >>> terms = bounds.entropy_terms(100, [0.9, 0.1], means, covariances, 0.5, kappa=1, n_actions=2)
    >>> round(terms.learning, 2), round(terms.identification, 2), round(terms.bound, 2)
    (10.59, 5.91, 13.49)
    """

    learning: Any
    identification: Any
    joint: Any
    best_arm: Any
    information: Float[Array, "... L"]
    within: Float[Array, "... L"]
    between: tuple[float, ...]
    total: Any

    @property
    def bound(self) -> Any:
        """The least of learning + identification, joint and best_arm."""
        split = self.learning + self.identification
        return plain(np.minimum(np.minimum(split, self.joint), self.best_arm))


def entropy(weights: ArrayLike) -> float:
    """Return H(P_0) = -sum_s P_0(s) log P_0(s), in nats.

    Parameters
    ----------
    weights
        Latent prior, (L,).

    Returns
    -------
    float
        The entropy, between 0 and log L.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.entropy([0.5, 0.5]), 4), round(bounds.entropy([0.9, 0.1]), 4)
    (0.6931, 0.3251)
    """
    p = checked_weights(weights)
    p = p[p > 0]
    # Adding 0 turns the -0.0 of a single state into 0.
    return float(-(p * np.log(p)).sum()) + 0.0


def effective_states(weights: ArrayLike) -> float:
    """Return L_eff = (sum_s sqrt(P_0(s)))^2, the exponential of Renyi's entropy of order 1/2.

    Parameters
    ----------
    weights
        Latent prior, (L,).

    Returns
    -------
    float
        L for the uniform prior, less for any other, at least 1.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.effective_states([0.25] * 4), 4), round(bounds.effective_states([0.9, 0.1]), 4)
    (4.0, 1.6)
    """
    return float(np.sqrt(checked_weights(weights)).sum() ** 2)


def best_action_entropy(family: Family) -> Float[Array, " L"]:
    """Return h_s = H(A* | S = s) for each component of a family of independent arms.

    Parameters
    ----------
    family
        The arms of each component.

    Returns
    -------
    array
        The entropy of the best arm under each component, in nats.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper import bounds
    >>> family = mixts.BernoulliArms(alpha=[[90, 10], [5, 5]], beta=[[10, 90], [5, 5]])
    >>> bounds.best_action_entropy(family).round(4)
    array([0.    , 0.6931])
    """
    prior = MixturePrior(family)
    states = (prior.select([s]) for s in range(prior.n_components))
    # An agent that knows the state takes each arm with the probability that it is best.
    chance = np.stack([MixTS(state).action_probabilities()[0] for state in states])
    logs = np.log(chance, out=np.zeros_like(chance), where=chance > 0)
    return np.maximum(-(chance * logs).sum(axis=1), 0.0)


def entropy_terms(
    n: ArrayLike,
    weights: ArrayLike,
    prior_means: ArrayLike,
    covariances: ArrayLike,
    noise_std: float,
    kappa: float,
    n_actions: int,
    best_action_entropy: ArrayLike | None = None,
    mean_range: float | None = None,
) -> EntropyTerms:
    """Return the bounds for a linear bandit with Gaussian noise, and their parts.

    Parameters
    ----------
    n
        Number of rounds, or an array of them for a curve.
    weights
        Latent prior P_0, (L,).
    prior_means, covariances
        Moments of each component, (L, d) and (L, d, d); covariances may be singular.
    noise_std, kappa
        Standard deviation of the noise, and largest norm of an action.
    n_actions
        Largest number of actions of a round, K.
    best_action_entropy
        h_s = H(A* | S = s), (L,), or any upper bounds, such as log K; only for an action set that
        is the same in every round. None: the set changes.
    mean_range
        D, at least the largest difference between two components' posterior means of an action. For
        unit vectors (arms) the largest difference between two prior means of an arm is enough,
        and diagonal covariances satisfy (C). None: actions are any vectors, so that (C) needs
        isotropic covariances, and D is kappa times the largest distance between prior means. Unused
        where covariances differ or are tilted: (C) fails.

    Returns
    -------
    EntropyTerms
        The terms; ``bound`` is the least bound on the regret.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts_paper import bounds
    >>> means, covariances = np.eye(2), 0.01 * np.array([np.eye(2), np.eye(2)])
    >>> n, weights = [100, 400], [0.9, 0.1]
    >>> terms = bounds.entropy_terms(n, weights, means, covariances, 0.5, kappa=1, n_actions=2)
    >>> terms.identification.round(2)
    array([ 5.91, 11.82])
    """
    rounds = checked_rounds(n)
    p = checked_weights(weights)
    mean, covariance = _moments(prior_means, covariances, len(p))
    sigma2 = checks.positive_number(noise_std, "noise_std") ** 2
    k2 = checks.positive_number(kappa, "kappa") ** 2
    d = mean.shape[1]
    rank = min(d, checks.count(n_actions, "n_actions"))
    h = None if best_action_entropy is None else _entropies(best_action_entropy, len(p))
    variance = np.maximum(np.linalg.eigvalsh(covariance)[:, -1], 0.0)
    trace = np.trace(covariance, axis1=1, axis2=2)
    gamma = d / 2 * np.log1p(rounds[..., None] * k2 * variance / (d * sigma2))
    within = _within(rounds[..., None], gamma, k2 * variance, k2 * trace, sigma2)
    if h is not None:
        within = np.minimum(within, 2 * (sigma2 + k2 * variance) * h)
    spread = p @ ((mean - p @ mean) ** 2).sum(axis=1)
    latent = entropy(p)
    total_variance = k2 * (p @ trace + spread)
    between, proxy = [2 * sigma2 * latent + total_variance], np.inf
    D = common_mean_range(mean, covariance, np.sqrt(k2), mean_range)
    if D is not None:
        noise = sigma2 + k2 * variance.max()
        proxy = noise + D**2 / 4
        between += [2 * noise * latent + k2 * spread, 2 * proxy * latent]
    total = 2 * sigma2 * (latent + gamma @ p) + total_variance
    w, b = within @ p, min(between)
    best = np.full(rounds.shape, np.inf)
    if h is not None and D is not None:
        best = np.sqrt(2 * rank * proxy * rounds * min(np.log(n_actions), latent + p @ h))
    return EntropyTerms(
        learning=plain(np.sqrt(rank * rounds * w)),
        identification=plain(np.sqrt(min(rank, np.count_nonzero(p) - 1) * rounds * b)),
        joint=plain(np.sqrt(rank * rounds * np.minimum(w + b, total))),
        best_arm=plain(best),
        information=gamma,
        within=within,
        between=tuple(map(float, between)),
        total=plain(total),
    )


def bounded_entropy_bound(
    n: ArrayLike,
    weights: ArrayLike,
    n_arms: int | None,
    best_action_entropy: ArrayLike,
    reward_range: float = 1.0,
) -> Any:
    """Return the bound for rewards in an interval, such as those of Bernoulli arms.

    The lesser of sqrt(K n H(A*) / 2), with H(A*) <= min(log K, H(P_0) + sum_s P_0(s) h_s), and
    sqrt(K n sum_s P_0(s) h_s / 2) + sqrt(min(K, L - 1) n H(P_0) / 2), times the length of the
    interval.

    Parameters
    ----------
    n
        Number of rounds or episodes, or an array of them.
    weights
        Latent prior P_0, (L,).
    n_arms
        Number of arms, K. None: any number, as for policies; then every h_s must be 0, or the bound
        is infinite.
    best_action_entropy
        h_s = H(A* | S = s), (L,), or one number for all; with zeros the bound is that on the cost
        of identification alone.
    reward_range
        Length of the interval of rewards: 1, or the horizon for episodes with rewards in [0, 1].

    Returns
    -------
    float or array
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.bounded_entropy_bound(1000, [0.9, 0.1], n_arms=5, best_action_entropy=0.1), 2)
    28.56
    """
    rounds = checked_rounds(n)
    p = checked_weights(weights)
    scale = checks.positive_number(reward_range, "reward_range")
    h = float(p @ _entropies(best_action_entropy, len(p)))
    latent = entropy(p)
    rank, most = np.inf, np.inf
    if n_arms is not None:
        rank = checks.count(n_arms, "n_arms")
        most = np.log(rank)
    # Where nothing is to be learned the rank of the actions does not matter, however large.
    learning = rank * h if h > 0 else 0.0
    states = min(rank, np.count_nonzero(p) - 1)
    split = np.sqrt(rounds * learning / 2) + np.sqrt(states * rounds * latent / 2)
    whole = min(most, latent + h)
    best_arm = np.sqrt(rank * rounds * whole / 2) if whole > 0 else np.zeros_like(rounds)
    return plain(scale * np.minimum(split, best_arm))


def _within(
    n: Array, gamma: Array, variance: Array, trace: Array, noise: float
) -> Float[Array, "... L"]:
    """Return w_s without h_s; ``variance`` and ``trace`` include kappa^2."""
    ratio = variance / np.where(variance > 0, np.log1p(variance / noise), 1.0)
    forms = np.minimum(2 * noise * gamma + trace, 2 * gamma * ratio)
    return np.where(variance > 0, np.minimum(forms, n * variance), 0.0)


def common_mean_range(
    means: Float[Array, "L d"],
    covariances: Float[Array, "L d d"],
    kappa: float,
    mean_range: float | None = None,
) -> float | None:
    """Return D, by which the posterior means of an action under two states differ at most.

    Parameters
    ----------
    means, covariances, kappa, mean_range
        As for :func:`entropy_terms`.

    Returns
    -------
    float or None
        D; None if the covariances do not satisfy (C): then posterior means may end any distance
        apart.
    """
    first = covariances[0]
    diagonal = np.diag(first)
    scale = _EQUAL * np.abs(covariances).max()
    differ = (np.abs(covariances - first) > scale).any()
    tilted = (np.abs(first - np.diag(diagonal)) > scale).any()
    if differ or tilted:
        return None
    if mean_range is not None:
        return at_least_zero(mean_range, "mean_range")
    if np.ptp(diagonal) > scale:
        return None
    return kappa * float(np.linalg.norm(means[:, None] - means, axis=2).max())


def _moments(means: ArrayLike, covariances: ArrayLike, L: int) -> tuple[Array, Array]:
    mean = checks.real_array(means, "prior_means", 2)
    covariance = checks.real_array(covariances, "covariances", 3)
    d = mean.shape[1]
    if len(mean) != L or covariance.shape != (L, d, d):
        raise ParameterError(
            f"expected prior_means (L, d) and covariances (L, d, d) of {L} components, got "
            f"{mean.shape} and {covariance.shape}"
        )
    checks.covariance_stack(covariance, "covariances")
    return mean, covariance


def _entropies(value: ArrayLike, L: int) -> Float[Array, " L"]:
    expected = f"best_action_entropy must be a number, at least 0, for each of {L} components"
    array = checks.numbers(value, expected, ParameterError)
    if array.shape not in ((), (L,)) or not np.isfinite(array).all() or (array < 0).any():
        raise ParameterError(f"{expected}, got {value!r}")
    return np.broadcast_to(array, (L,))


# -- counts of draws -------------------------------------------------------------------------------


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

    It needs the condition (C) of :func:`mixts_paper.bounds.entropy_terms`. With
    v = sigma^2 + kappa^2 lambda and p_s = min(1, n P_0(s)) it is

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
        :func:`mixts_paper.bounds.entropy_terms`.
    delta
        Probability with which the true state's ledger may be too large, between 0 and 1. None: the
        least bound over delta.

    Returns
    -------
    float or array
        The bound; 0 for one latent state.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> skewed = [0.9, 0.05, 0.05]
    >>> costs = bounds.count_bound([100, 1000], skewed, 0.5, 1, prior_variance=0.01, mean_range=1)
    >>> costs.round(1)
    array([ 31. , 100.8])
    """
    rounds = checked_rounds(n)
    p = checked_weights(weights)
    p = p[p > 0]
    sigma = checks.positive_number(noise_std, "noise_std")
    k = checks.positive_number(kappa, "kappa")
    v = sigma**2 + k**2 * at_least_zero(prior_variance, "prior_variance")
    D = at_least_zero(mean_range, "mean_range")
    if delta is not None and not 0 < delta < 1:
        raise ParameterError(f"delta must be between 0 and 1, got {delta!r}")
    if len(p) == 1:
        return plain(np.zeros_like(rounds))
    drawn = np.minimum(1.0, rounds[..., None] * p)
    draws = rounds[..., None] * p / drawn
    burden = drawn.sum(axis=-1) * (D + math.sqrt(2 * v / math.pi))

    def total(delta: float) -> Array:
        paid = (drawn * radius(draws, v, delta)).sum(axis=-1)
        return np.asarray(paid + burden + rounds * delta * D)

    if delta is not None:
        return plain(total(float(delta)))
    return plain(np.min([total(d) for d in _DELTAS], axis=0))


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
