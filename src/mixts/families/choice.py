"""The greedy choice: the best available action, ties broken at random."""

from __future__ import annotations

import numpy as np

from mixts.errors import ActionError
from mixts.families.kernels.choice import take_best
from mixts.typing import Array, Bool, Float, Int

_NO_MASK = np.zeros((0, 0), bool)


def best_rows(
    rng: np.random.Generator, scores: Float[Array, "m K"], mask: Bool[Array, "m K"] | None
) -> Int[Array, " m"]:
    """The index of the largest available score in each row; equal ones are equally likely."""
    best = np.empty(len(scores), np.int64)
    ties = np.empty(len(scores), np.int64)
    bad = take_best(scores, _NO_MASK if mask is None else mask, best, ties)
    if bad >= 0:
        raise ActionError(
            f"the actions of decision {bad} must have finite features: its mean rewards are "
            f"{scores[bad]}; mask what is only padding"
        )
    if (ties > 1).any():
        for row in np.flatnonzero(ties > 1):
            same = scores[row] == scores[row, best[row]]
            if mask is not None:
                same &= mask[row]
            best[row] = rng.choice(np.flatnonzero(same))
    return best
