"""Theorem 2: how much MixTS can lose in n episodes of a tabular MDP.

The theorem is written twice, and not quite the same. The statement (Sec. 5.2) is

    6 |X| h^(3/2) sqrt(c_1 |A| n log(4 |X||A| n)) + sqrt(L h n log n) + c_2,
    c_1 = log(1 + h n / (2 |X||A| Lambda_0,min)),

with a c_2 of which it says only that it is poly-logarithmic in n. The end of App. B has 4 sqrt(2)
instead of 6, the same second term, and 2 |X||A| h^2 + 3 L h in the place of c_2. Both are here as
they are printed. Read closely, the steps of App. B give neither:

- The sum of the widths enters once in Step 1 and sqrt(2) times in Step 4, and is itself
  2 / sqrt|X| (from c_t) plus 2 sqrt(2) (from phi_t) in the unit of the first term: together
  (1 + sqrt 2) (2 sqrt 2 + 2 / sqrt|X|), 8.4 for ten states, more than 6. (The lemma that bounds the
  sum says 4, and the last line of its proof 4 sqrt 2.)
- Constants in the same way: (1 + sqrt 2) |X||A| h^2 + |X| h^2, not 2 |X||A| h^2.
- The latent state is missed with probability at most 2 L h / n in an episode that costs at most h:
  over n episodes that is 2 L h^2, where Step 4 has 2 L h.
- The return of an episode is taken as h/4-sub-Gaussian, as if its rewards were independent. They
  are not: a state visited once tends to be visited again.
- The value difference lemma lacks a plus sign before h ||T' - T||.

At the paper's own setting (ten states, two actions, h = 20, n = 1000, L = 2) both forms are about
1.3 million, while no policy can lose more than n h = 20,000. They tell how regret grows with the
problem, not how large it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import ArrayLike
from mixts.bounds import arguments
from mixts.bounds.arguments import Form
from mixts.bounds.terms import BoundTerms


def theorem2_bound(
    n: ArrayLike,
    n_states: int,
    n_actions: int,
    horizon: int,
    n_components: int,
    min_pseudo_count: float,
    form: Form = "statement",
) -> Any:
    """The bound on the Bayes regret of n episodes in a tabular MDP  [paper: Thm 2].

    ``n`` is a number, or an array for a curve. ``min_pseudo_count`` is Lambda_0,min, the least
    total pseudo-count of any component's reward or transition prior at any pair of state and
    action, ``family.min_pseudo_count`` of a :class:`TabularMDP`. ``form="statement"`` omits the
    unspecified c_2 of the theorem's statement; ``form="appendix"`` is the end of App. B. The parts
    are given by :func:`theorem2_terms`, and the module says where the forms differ.
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
    """The terms whose sum is :func:`theorem2_bound`  [paper: Thm 2] [paper: App. B].

    ``c1`` is log(1 + h n / (2 |X||A| Lambda_0,min)), ``identification`` sqrt(L h n log n), and the
    appendix's ``constant`` 2 |X||A| h^2 + 3 L h.
    """
    episodes = arguments.rounds(n)
    X, A = _checks.count(n_states, "n_states"), _checks.count(n_actions, "n_actions")
    h, L = _checks.count(horizon, "horizon"), _checks.count(n_components, "n_components")
    least = _checks.positive_number(min_pseudo_count, "min_pseudo_count")
    stated = arguments.form(form) == "statement"
    factor = 6.0 if stated else 4 * np.sqrt(2)
    c1 = np.log1p(h * episodes / (2 * X * A * least))
    learning = factor * X * h**1.5 * np.sqrt(c1 * A * episodes * np.log(4 * X * A * episodes))
    identification = np.sqrt(L * h * episodes * np.log(episodes))
    constant = np.full(episodes.shape, 0.0 if stated else 2.0 * X * A * h**2 + 3.0 * L * h)
    return arguments.as_given(BoundTerms(c1, learning, identification, constant))
