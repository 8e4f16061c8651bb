"""The law of a decision by other means than the library's: which action is best, given a component.

Arms: adaptive quadrature of one arm's density times the others' distribution functions. Linear: a
normal orthant probability of the differences to the other actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate, stats

import mixts


def _distributions(family: Any) -> Any:
    if isinstance(family, mixts.BernoulliArms):
        return stats.beta(family.alpha, family.beta)
    if isinstance(family, mixts.PoissonArms):
        return stats.gamma(family.shape, scale=1 / family.rate)
    return stats.norm(family.mean, np.sqrt(family.variance))


def _best_arm(family: Any, available: Any) -> Any:
    law = _distributions(family)

    def density(x: float) -> Any:
        """Of all components and arms at once: the densities of scipy cost a call, not a number."""
        pdf, cdf = law.pdf(x), law.cdf(x)
        result = np.zeros(pdf.shape)
        for a in available:
            others = [b for b in available if b != a]
            result[:, a] = pdf[:, a] * np.prod(cdf[:, others], axis=1)
        return result

    low, high = law.ppf(1e-13).min(), law.isf(1e-13).max()
    inner = np.unique([law.ppf(q) for q in (0.01, 0.3, 0.7, 0.99)])
    return integrate.quad_vec(density, low, high, epsabs=1e-9, norm="max", points=inner)[0]


def _best_row(family: Any, actions: Any, available: Any) -> Any:
    result = np.zeros((family.n_components, len(actions)))
    for s, (mean, covariance) in enumerate(zip(family.mean, family.covariance, strict=True)):
        for a in available:
            gaps = actions[[b for b in available if b != a]] - actions[a]
            law = stats.multivariate_normal(gaps @ mean, gaps @ covariance @ gaps.T)
            result[s, a] = law.cdf(np.zeros(len(gaps)))
    return result


def best_action_law(belief: mixts.Belief, actions: Any = None, mask: Any = None) -> Any:
    """P(S_t = s, A_t = a), (L, K), from the posterior of a one-task belief."""
    family = belief.as_prior().family
    n_actions = family.n_arms if actions is None else len(actions)
    available = np.flatnonzero(np.ones(n_actions, bool) if mask is None else mask)
    given = (
        _best_arm(family, available) if actions is None else _best_row(family, actions, available)
    )
    np.testing.assert_allclose(given.sum(axis=1), 1.0, atol=1e-4)
    return belief.weights[:, None] * given
