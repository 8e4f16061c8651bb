"""Bounds for known models, and for narrow components, which are nearly known.

The proofs are in ``docs/theory.md``.

**Known models.** Regret comes from drawing state s' while s is true, or the reverse, which happens
in a round with probability 2 P_t(s) P_t(s'). When action a is taken, sqrt(P_t(s) P_t(s')) shrinks
on average by the factor rho_a(s, s'): the *affinity* int sqrt(p_s(y | a) p_s'(y | a)) dy of the two
laws of its observation. With alpha = 1 - rho for the best action of s and beta for that of s',

    regret <= sum_{s < s'} gap_{ss'} sqrt(P_0(s) P_0(s')) / (2 sqrt(alpha beta))

for every number of rounds. An MDP is a case of it: an action is a policy, an observation an
episode. Where an action is tied with others for the best, and ties are broken at random, gaps and
alphas are averages over the tied actions.

**Narrow components.** As long as the best arm is the one that its state suggests, regret is that of
known models. Two terms are added, which vanish with the width: the probability e that another arm
is best, and affinities that get worse as an arm is learned, because the posterior means of two
states meet there. By then most of sqrt(P_t(s) P_t(s')) is gone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts.errors import ParameterError
from mixts.extend import Array, ArrayLike, Float, checks
from mixts.planning import MDP
from mixts_paper.bounds.theorems import at_least_zero, checked_rounds, checked_weights

_TIED = 1e-12
"""Relative difference below which two actions count as equally good: rounding."""


def gaussian_affinity(means: ArrayLike, noise_std: float) -> Float[Array, "L L K"]:
    """Return rho_a(s, s') = exp(-(mu_s(a) - mu_s'(a))^2 / (8 sigma^2)) of Gaussian rewards.

    Parameters
    ----------
    means
        Mean reward of every action in every state, (L, K).
    noise_std
        Standard deviation of the rewards, sigma.

    Returns
    -------
    array
        Affinities: state, state, action.

    Examples
    --------
    The first action tells the two states apart, the second does not.

    >>> from mixts_paper import bounds
    >>> bounds.gaussian_affinity(means=[[1.0, 0.5], [0.0, 0.5]], noise_std=0.5)[0, 1].round(4)
    array([0.6065, 1.    ])
    """
    return 1.0 - gaussian_separation(means, noise_std)


def bernoulli_affinity(means: ArrayLike) -> Float[Array, "L L K"]:
    """Return rho_a(s, s') = sqrt(p q) + sqrt((1 - p) (1 - q)) of Bernoulli rewards.

    Parameters
    ----------
    means
        Probability of reward 1 of every action in every state, (L, K).

    Returns
    -------
    array
        Affinities: state, state, action.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> bounds.bernoulli_affinity(means=[[0.9, 0.5], [0.1, 0.5]])[0, 1].round(4)
    array([0.6, 1. ])
    """
    return 1.0 - bernoulli_separation(_table(means))


def gaussian_separation(means: ArrayLike, noise_std: float) -> Float[Array, "L L K"]:
    """Return 1 - rho of Gaussian rewards, without the loss of digits where rho is close to 1."""
    mean, sigma = _table(means), checks.positive_number(noise_std, "noise_std")
    return -np.expm1(-(((mean[:, None] - mean) / sigma) ** 2) / 8)


def bernoulli_separation(means: Float[Array, "L ..."]) -> Float[Array, "L L ..."]:
    """Return 1 - rho of Bernoulli rewards: half the squared distance of the laws' roots."""
    if not ((means >= 0) & (means <= 1)).all():
        raise ParameterError("means of Bernoulli rewards must be between 0 and 1")
    roots = np.stack([np.sqrt(means), np.sqrt(1 - means)])
    return 0.5 * ((roots[:, :, None] - roots[:, None]) ** 2).sum(axis=0)


def known_models(
    weights: ArrayLike, means: ArrayLike, affinity: ArrayLike, n: float | None = None
) -> float:
    """Return the bound on the Bayes regret of MixTS if every component knows its parameters.

    Parameters
    ----------
    weights
        Latent prior P_0, (L,).
    means
        Mean reward of every action in every state, (L, K).
    affinity
        rho_a(s, s'), (L, L, K), as :func:`gaussian_affinity` and :func:`bernoulli_affinity` return
        it; for other observations int sqrt(p_s p_s') dy.
    n
        Number of rounds. If given, a pair of states costs at most what :func:`one_sided_bound`
        says, which also bounds pairs that only one of their best actions tells apart.

    Returns
    -------
    float
        The bound; infinite if n is None and only one of the two best actions tells some pair apart.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> means = [[0.9, 0.1], [0.1, 0.9]]
    >>> round(bounds.known_models([0.5, 0.5], means, bounds.bernoulli_affinity(means)), 4)
    1.0
    """
    rho = checks.numbers(affinity, "affinity must be numbers (L, L, K)", ParameterError)
    if not ((rho >= 0) & (rho <= 1)).all():
        raise ParameterError("affinities must be between 0 and 1")
    return separated_bound(weights, means, 1.0 - rho, n)


def separated_bound(
    weights: ArrayLike, means: ArrayLike, separation: Array, n: float | None
) -> float:
    """Return :func:`known_models` from 1 - rho, which keeps its digits where rho is near 1.

    Parameters
    ----------
    weights, means, n
        As for :func:`known_models`.
    separation
        1 - rho_a(s, s'), (L, L, K).
    """
    p, mean = checked_weights(weights), _table(means)
    if len(mean) != len(p) or separation.shape != (len(p), *mean.shape):
        raise ParameterError(
            f"expected means (L, K) and affinity (L, L, K) of {len(p)} states, got {mean.shape} "
            f"and {separation.shape}"
        )
    top = mean.max(axis=1, keepdims=True)
    best = mean >= top - _TIED * np.abs(mean).max()
    chance = best / best.sum(axis=1, keepdims=True)
    # value[s, s'] is the mean reward in s of the action that is best in s'.
    value = mean @ chance.T
    apart = np.einsum("rsa,ra->rs", separation, chance)
    return pairs_bound(p, value, apart, n)


def pairs_bound(
    weights: Float[Array, " L"],
    value: Float[Array, "L L"],
    apart: Float[Array, "L L"],
    n: float | None = None,
) -> float:
    """Return the sum over pairs of states, for actions of any kind.

    Parameters
    ----------
    weights
        P_0, (L,).
    value
        Mean reward in state s of the action that is best in s', (L, L).
    apart
        1 - rho(s, s') of the action that is best in s, (L, L).
    n
        Number of rounds, or None.
    """
    own = np.diag(value)
    rounds = None if n is None else float(checked_rounds(n))
    total = 0.0
    for s in range(len(weights)):
        for r in range(s + 1, len(weights)):
            gap = float((own[s] - value[s, r]) + (own[r] - value[r, s]))
            p, q = float(weights[s]), float(weights[r])
            if gap <= _TIED * np.abs(value).max() or p * q == 0:
                continue
            alpha, beta = float(apart[s, r]), float(apart[r, s])
            product = math.sqrt(alpha * beta)
            cost = math.sqrt(p * q) / (2 * product) if product > 0 else math.inf
            if rounds is not None:
                both = one_sided_bound(rounds, p, q, beta), one_sided_bound(rounds, q, p, alpha)
                cost = min(cost, *both)
            total += gap * cost
    return total


def one_sided_bound(n: float, first: float, second: float, apart: float) -> float:
    """Return a bound of sum_t E[P_t(s) P_t(s')] that needs only the best action of s'.

    With l = 1 / log n it is e log(n) P_0(s)^(1 - l) P_0(s')^l / (2 beta) + P_0(s), for n >= e^2; or
    n times the largest possible mean, n min(P_0(s), P_0(s')), if that is less.

    Parameters
    ----------
    n
        Number of rounds.
    first, second
        P_0(s) and P_0(s').
    apart
        beta, 1 - rho(s, s') of the action that is best in s'.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> round(bounds.one_sided_bound(n=1000, first=0.5, second=0.5, apart=0.2), 2)
    23.97
    """
    trivial = n * min(first, second)
    if apart <= 0 or n < math.e**2:
        return trivial
    power = 1 / math.log(n)
    product = first ** (1 - power) * second**power
    return min(trivial, math.e * math.log(n) * product / (2 * apart) + first)


# -- MDPs -----------------------------------------------------------------------------------------


def known_mdps(weights: ArrayLike, mdps: MDP, n: float | None = None) -> float:
    """Return the bound on the Bayes regret of MixTS over episodes of one of L known MDPs.

    An action is a policy and an observation an episode: rewards 0 or 1 and next states, independent
    given the state and the action, with the state after the last step. Ties are broken at random.

    Parameters
    ----------
    weights
        Latent prior P_0, (L,).
    mdps
        The MDP of each latent state, a batch of shape (L,), with mean rewards in [0, 1].
    n
        Number of episodes, as for :func:`known_models`.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper import bounds
    >>> prior = mixts.RiverSwim(n_states=4, horizon=8).prior
    >>> mdps = prior.family.mdp(prior.family.parameter_means())
    >>> round(bounds.known_mdps(prior.weights, mdps), 2)
    1.03
    """
    p = checked_weights(weights)
    if mdps.shape != (len(p),):
        raise ParameterError(f"expected a batch of {len(p)} MDPs, got {mdps!r}")
    policies = best_policies(mdps)
    value, apart = np.empty((len(p), len(p))), np.empty((len(p), len(p)))
    for s in range(len(p)):
        for r in range(len(p)):
            value[s, r] = _value(mdps[s], policies[r])
            apart[s, r] = 1 - episode_affinity(mdps[s], mdps[r], policies[s])
    return pairs_bound(p, value, apart, n)


def best_policies(mdps: MDP) -> Float[Array, "L h X A"]:
    """Return the best policy of each MDP as probabilities of actions, ties shared equally."""
    values = mdps.plan().values
    ahead = np.concatenate([values[:, 1:], np.zeros_like(values[:, :1])], axis=1)
    # Value of every action at every step: (L, h, X, A).
    scores = mdps.rewards[:, None] + np.einsum("lxay,lhy->lhxa", mdps.transitions, ahead)
    top = scores.max(axis=-1, keepdims=True)
    best = scores >= top - _TIED * np.abs(scores).max()
    return best / best.sum(axis=-1, keepdims=True)


def episode_affinity(first: MDP, second: MDP, policy: Float[Array, "h X A"]) -> float:
    """Return the affinity of the two laws of an episode under a policy.

    It is sum_x P(X_1 = x) b_1(x), where b_{h+1} = 1 and b_i(x) is the mean over the policy's
    actions of rho_reward(x, a) sum_x' sqrt(T_s(x, a, x') T_s'(x, a, x')) b_{i+1}(x').
    """
    reward = 1 - bernoulli_separation(np.stack([first.rewards, second.rewards]))[0, 1]
    moved = np.sqrt(first.transitions * second.transitions)
    return _along(policy, lambda ahead: reward * (moved @ ahead), 1.0, first.initial)


def _value(mdp: MDP, policy: Float[Array, "h X A"]) -> float:
    """Return the value of a policy that may mix actions."""
    return _along(policy, lambda ahead: mdp.rewards + mdp.transitions @ ahead, 0.0, mdp.initial)


def _along(policy: Float[Array, "h X A"], step: Any, end: float, initial: Array) -> float:
    """Return the mean over first states of the values of backward induction along a policy."""
    values = np.full(policy.shape[1], end)
    for chance in policy[::-1]:
        values = (chance * step(values)).sum(axis=1)
    return float(initial @ values)


def _table(means: ArrayLike) -> Float[Array, "L K"]:
    return checks.real_array(means, "means", 2)


# -- narrow components -----------------------------------------------------------------------------


_MOST_PULLS = 1024
"""Largest m that is tried. The bound holds for every m, and R_m is close to its limit long before;
a table of all pairs of numbers of pulls takes 8 MiB."""


class NarrowTerms(NamedTuple):
    """Parts of the bound of :func:`narrow_terms`, which is their sum.

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
    >>> from mixts_paper import bounds
    >>> means = [[1.0, 0.0], [0.0, 1.0]]
    >>> terms = bounds.narrow_terms(100, [0.5, 0.5], means, width=0.2, noise_std=0.5, learning=0.5)
    >>> round(terms.pairs, 2), round(terms.slips, 2), round(terms.bound, 2)
    (2.79, 0.04, 3.33)
    """

    learning: float
    pairs: float
    slips: float

    @property
    def bound(self) -> float:
        """learning + pairs + slips."""
        return self.learning + self.pairs + self.slips


def narrow_terms(
    n: int,
    weights: ArrayLike,
    prior_means: ArrayLike,
    width: float,
    noise_std: float,
    learning: float,
) -> NarrowTerms:
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
        Bound on the cost of learning, such as that of :func:`mixts_paper.bounds.entropy_terms`; 0
        to leave it out.

    Returns
    -------
    NarrowTerms
        The parts; ``bound`` is their sum.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> means = [[1.0, 0.0], [0.0, 1.0]]
    >>> round(bounds.narrow_terms(100, [0.5, 0.5], means, 0.2, 0.5, learning=0.5).bound, 2)
    3.33
    """
    n, p = checks.count(n, "n"), checked_weights(weights)
    mean = checks.real_array(prior_means, "prior_means", 2)
    if len(mean) != len(p):
        raise ParameterError(f"expected means of {len(p)} components, got {len(mean)}")
    width = at_least_zero(width, "width")
    sigma = checks.positive_number(noise_std, "noise_std")
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
