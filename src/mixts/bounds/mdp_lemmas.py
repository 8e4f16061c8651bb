"""The lemmas of App. B, each with both sides within reach of a computation.

Read closely:

- Lemma 4's variance holds for every entry of a Dirichlet vector, which is how App. B uses it. For
  the vector in the Euclidean sense it does not: of two equal counts the two entries move against
  each other, and in the direction (1, -1) the variance is twice what the lemma allows.
- Lemma 5 lacks a plus sign before h ||T' - T||_1. Without it the right side may be negative where
  both values are equal.
- Lemma 6 says 4 and the end of its proof 4 sqrt(2). What its steps give is 2 sqrt(2) + 2 / sqrt|X|,
  which is below 4 from three states on. (The sum of phi_t is printed with a factor h too many.)
- In the same proof a pair's widths of its first h visits are replaced by 1, "the regret in a step".
  Widths may be larger, and as counts rest during an episode there may be 2 h such visits: where
  episodes are long, pairs few and the prior weak, the sum exceeds both forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import ArrayLike
from mixts.bounds import arguments
from mixts.bounds.arguments import Form
from mixts.bounds.theorem2 import theorem2_terms
from mixts.errors import ParameterError
from mixts.planning import MDP


def pseudo_count_variance(total: ArrayLike) -> Any:
    """sigma^2 = 1 / (4 (total + 1)): X - E X is sigma^2-sub-Gaussian  [paper: Lemma 4].

    That is, log E exp(u (X - E X)) <= u^2 sigma^2 / 2 for every u, where X ~ Beta(alpha, beta) and
    ``total`` is alpha + beta, or X is an entry of a Dirichlet vector and ``total`` the sum of its
    counts. Where alpha = beta it is the variance, and elsewhere more.
    """
    expected = "total must be a finite number above 0, or an array of them"
    array = _checks.numbers(total, expected, ParameterError)
    good = np.isfinite(array) & (array > 0)
    if not good.all():
        raise ParameterError(f"{expected}, got {array[~good].flat[0]}")
    return arguments.plain(1 / (4 * (array + 1)))


def value_difference_bound(other: MDP, mdp: MDP, policy: ArrayLike) -> Any:
    """E sum_i (R' - R + h ||T' - T||_1)(X_i, A_i), for V_M'(pi) - V_M(pi)  [paper: Lemma 5].

    ``other`` is M', in which the episodes of the expectation are played; the lemma does not say
    where, and it holds for episodes of M as well. Mean rewards are between 0 and 1. The MDPs are
    two, or two batches of one shape, with policies as :meth:`MDP.value` takes them. The plus sign
    is not in the paper.
    """
    same = (mdp.shape, mdp.rewards.shape, mdp.horizon) == (
        other.shape, other.rewards.shape, other.horizon,
    )  # fmt: skip
    if not same or not np.array_equal(mdp.initial, other.initial):
        raise ParameterError(
            "the MDPs must have one shape, horizon and initial distribution, got "
            f"{other!r} and {mdp!r}"
        )
    apart = abs(other.transitions - mdp.transitions).sum(axis=-1)
    gap = other.rewards - mdp.rewards + other.horizon * apart
    # A sum along episodes is a value: that of the same policy where the gap is what is paid.
    return MDP(gap, other.transitions, other.horizon, other.initial).value(policy)


def episode_width_sum_bound(
    n: ArrayLike,
    n_states: int,
    n_actions: int,
    horizon: int,
    min_pseudo_count: float,
    form: Form = "statement",
) -> Any:
    """F |X| h sqrt(|A| n h log(4 |X||A| n) c_1) + |X||A| h^2  [paper: Lemma 6].

    For h sum_t sum_i (c_t + phi_t)(X_{t,i}, A_{t,i}, s), the widths of n episodes, where
    ``min_pseudo_count`` is Lambda_0,s and c_1 = log(1 + n h / (2 |X||A| Lambda_0,s)). F is 4 in
    the lemma and 4 sqrt(2) at the end of its proof, ``form="appendix"``. Neither bounds the sum for
    every prior: see the module.
    """
    terms = theorem2_terms(n, n_states, n_actions, horizon, 1, min_pseudo_count)
    factor = 4.0 if arguments.form(form) == "statement" else 4 * np.sqrt(2)
    return arguments.plain(factor / 6 * terms.learning + n_states * n_actions * horizon**2)
