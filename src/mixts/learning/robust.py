"""A broad component with a small weight: tasks of a kind that was never seen before."""

from __future__ import annotations

import numpy as np

from mixts import _checks
from mixts.errors import ParameterError
from mixts.families import BernoulliArms, Family, LinearGaussian, TabularMDP
from mixts.families.arms import ArmFamily
from mixts.prior import MixturePrior

BROADER = 9.0
"""How much larger the variances of the broad component are than those of the whole mixture."""


def robust_prior(prior: MixturePrior, weight: float = 0.01) -> MixturePrior:
    """The prior with one more component, as broad as is sensible, of this weight.

    Bernoulli arms: Beta(1, 1). MDPs: one count for all that any component thinks possible.
    Others: the mean of the whole mixture with nine times its variance. A task that no component
    explains then falls to the broad one and is learned from scratch, instead of being forced into
    a kind that it is not. If the components have names, it is called "other".
    """
    share = _checks.positive_number(weight, "weight")
    if share >= 1:
        raise ParameterError(f"weight must be between 0 and 1, got {weight!r}")
    joined = _appended(prior.family, broad_family(prior))
    weights = np.append(prior.weights * (1 - share), share)
    names = None if prior.names is None else [*prior.names, _free("other", prior.names)]
    result = MixturePrior(joined, weights / weights.sum(), names, prior.arm_names)
    retired = np.flatnonzero(prior.retired).tolist()
    return result.retire_arms(retired) if retired else result


def broad_family(prior: MixturePrior) -> Family:
    """One component that leaves open what the prior's components are sure of."""
    family, one = prior.family, prior.family.collapse(prior.weights)
    if isinstance(family, BernoulliArms):
        return BernoulliArms.uniform(family.n_arms)
    if isinstance(family, TabularMDP):
        reward, transition = (
            (part > 0).any(axis=0, keepdims=True).astype(float) for part in family.arrays_of_counts
        )
        return TabularMDP(reward, transition, family.horizon, family.initial)
    if isinstance(one, LinearGaussian):
        return LinearGaussian(one.mean, BROADER * one.covariance, one.noise_std)
    assert isinstance(one, ArmFamily)
    marginal = one.prior_marginal(np.zeros(1, np.int64))
    return one.match(marginal.mean(), BROADER * marginal.variance(), one.settings())


def _appended(family: Family, other: Family) -> Family:
    if isinstance(family, LinearGaussian) and isinstance(other, LinearGaussian):
        mean = np.concatenate([family.mean, other.mean])
        covariance = np.concatenate([family.full_covariances(), other.full_covariances()])
        return LinearGaussian(mean, covariance, family.noise_std)
    if isinstance(family, TabularMDP) and isinstance(other, TabularMDP):
        reward, transition = (
            np.concatenate(pair)
            for pair in zip(family.arrays_of_counts, other.arrays_of_counts, strict=True)
        )
        return TabularMDP(reward, transition, family.horizon, family.initial)
    ours, theirs = family.arrays(), other.arrays()
    joined = {name: np.concatenate([ours[name], theirs[name]]) for name in ours}
    return type(family).restore(family.settings(), joined)


def _free(name: str, taken: tuple[str, ...]) -> str:
    return name if name not in taken else _free(f"{name}'", taken)
