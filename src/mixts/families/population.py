"""What the arms of each component look like: the distribution that a new arm comes from.

The arms of a component are exchangeable: each arm has a mean over tasks, drawn from the component's
population of arms, and varies between tasks around it. A new arm's mean in a task therefore has
the population's mean, and the sum of both variances.
"""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, ArrayLike, Float, Int
from mixts.families.arms import ArmFamily
from mixts.families.base import Family

PSEUDO_ARMS = 1.0
"""Number of pseudo-arms of each component. They differ from the other arms as much as tasks differ
in one arm, so that one or two arms do not determine alone how much arms differ."""

_HALVINGS = 60
_NEARLY_ALL = 0.95
"""Largest variance of a bounded mean, relative to that of a mean which is always at a bound."""


def arm_population(family: Family, known: ArrayLike | None = None) -> ArmFamily:
    """Return the distribution of a new arm's mean under each component: a family of one arm.

    Arm k of a component has the learned mean m_k and the variance v_k between tasks; m_k was
    estimated from n_k tasks and errs by v_k / n_k. With weights c_k = n_k / (n_k + 1), the share of
    data in m_k, the population's mean mu and the variance t between arms solve

    ``mu = sum u_k m_k / sum u_k``, with ``u_k = c_k / (t + v_k / n_k)``, and
    ``sum u_k (m_k - mu)^2 + PSEUDO_ARMS v / t = sum c_k - 1 + PSEUDO_ARMS``,

    where v is the mean of the v_k with weights c_k: the estimate of Paule and Mandel with a
    pseudo-arm. The new arm has the mean mu and the variance v + t + 1 / sum u_k.

    Parameters
    ----------
    family
        A family of arms.
    known
        The numbers n_k of tasks, (L, K), need not be whole; None where all parameters are known.

    Returns
    -------
    ArmFamily
        A family of the same type and settings with the same components and one arm.
    """
    prior = family.as_arms.prior_marginal(np.arange(family.n_components))
    mean, within = prior.mean(), prior.variance()
    share, error = np.ones(mean.shape), np.zeros(mean.shape)
    if known is not None:
        n = np.asarray(known, float)
        share = n / (n + 1)
        error = within / np.maximum(n, 1e-12)
        # A component without any observation describes arms as it describes each of them.
        none = share.sum(axis=1) <= 1e-9
        share[none], error[none] = 1.0, 0.0
    average = (share * within).sum(axis=1) / share.sum(axis=1)
    between = _between(mean, error, share, PSEUDO_ARMS * average)
    trust = share / (between[:, None] + error + 1e-300)
    centre = (trust * mean).sum(axis=1) / trust.sum(axis=1)
    variance = average + between + 1 / trust.sum(axis=1)
    return like_arms(family, centre[:, None], variance[:, None])


def like_arms(
    family: Family, mean: Float[Array, "L k"], variance: Float[Array, "L k"]
) -> ArmFamily:
    """Return arms of a family's type and settings with these means and variances, made possible."""
    if family.reward_range is not None:
        low, high = family.reward_range
        variance = np.minimum(variance, _NEARLY_ALL * (mean - low) * (high - mean))
    return family.as_arms.like(mean, variance)


def _between(
    mean: Float[Array, "L K"],
    error: Float[Array, "L K"],
    share: Float[Array, "L K"],
    pseudo: Float[Array, " L"],
) -> Float[Array, " L"]:
    """Solve for the variance between arms by bisection of its logarithm: the sum falls in it."""
    freedom = share.sum(axis=1) - 1 + PSEUDO_ARMS
    spread = (mean.max(axis=1) - mean.min(axis=1)) ** 2
    high = (share.sum(axis=1) * spread + pseudo) / freedom
    high = np.maximum(high, 1e-280)
    low = 1e-14 * high
    for _ in range(_HALVINGS):
        middle = np.sqrt(low * high)
        trust = share / (middle[:, None] + error)
        centre = (trust * mean).sum(axis=1) / trust.sum(axis=1)
        total = (trust * (mean - centre[:, None]) ** 2).sum(axis=1) + pseudo / middle
        above = total > freedom
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(np.sqrt(low * high))


def tasks_known(
    family: Family, pulls: Int[Array, "n K"], share: Float[Array, "n L"]
) -> Float[Array, "L K"]:
    """Return from how many tasks each component knows each arm.

    A task that tried an arm n times counts n / (n + n0) of a task, times its share in the
    component; n0 observations are worth as much as the component's knowledge of the arm.
    """
    worth = _worth(family)
    known = np.empty(worth.shape)
    for s in range(len(worth)):
        known[s] = share[:, s] @ (pulls / (pulls + worth[s]))
    return known


def _worth(family: Family) -> Float[Array, "L K"]:
    """Return the number of observations that halve the variance of an arm's mean.

    A typical observation multiplies the variance by n0 / (n0 + 1).
    """
    prior = family.as_arms.prior_marginal(np.arange(family.n_components))
    before = prior.variance()
    after = prior.expect(np.ones(before.shape)).variance()
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = after / (before - after)
    return np.where(np.isfinite(worth) & (worth > 0), worth, 1e12)
