"""Checks of action sets, and the best available action, ties broken at random."""

from __future__ import annotations

import numpy as np

from mixts import _checks
from mixts._typing import ActionsLike, Array, Bool, Float, Int
from mixts.errors import ActionError
from mixts.families._kernels.choice import take_best, take_best_product

NO_MASK = np.zeros((0, 0), bool)
"""What a loop gets if every action is available."""


def feature_sets(actions: ActionsLike | None, n_features: int, n_rows: int) -> tuple[Array, int]:
    """Return action sets, (K, d) for all decisions or (n_rows, K, d), and their size K."""
    array = _checks.numbers(
        [] if actions is None else actions, "actions must be numbers", ActionError
    )
    good = array.ndim == 2 or (array.ndim == 3 and array.shape[0] == n_rows)
    if not good or array.shape[-1] != n_features or array.shape[-2] == 0:
        raise ActionError(
            f"actions must have shape (K, {n_features}), or ({n_rows}, K, {n_features}) with one "
            f"set for each decision, got {None if actions is None else array.shape}"
        )
    return array, array.shape[-2]


def finite_actions(actions: Array, mask: Bool[Array, "m K"]) -> Array:
    """Return action sets with zeros for masked actions; refuse others that are not finite."""
    used = np.asarray(mask.any(axis=0)) if actions.ndim == 2 else mask
    if not used.all():
        actions = np.where(used[..., None], actions, 0.0)
    if not np.isfinite(actions).all():
        bad = mask & ~np.isfinite(actions).all(axis=-1)
        raise ActionError(
            f"the actions of decision {int(bad.any(axis=1).argmax())} must have finite features; "
            "mask the padding"
        )
    return actions


def best_rows(
    rng: np.random.Generator, scores: Float[Array, "m K"], mask: Bool[Array, "m K"] | None
) -> Int[Array, " m"]:
    """Return the index of the largest available score in each row, ties at random."""
    best = np.empty(len(scores), np.int64)
    available = NO_MASK if mask is None else mask
    code = take_best(scores, available, best)
    if code:
        resolve(rng, code, scores, available, best)
    return best


def top_rows(
    rng: np.random.Generator, scores: Float[Array, "m K"], mask: Bool[Array, "m K"], k: int
) -> Int[Array, "m k"]:
    """Return the indices of the k largest available scores of each row, ties at random."""
    if not np.isfinite(scores[mask]).all():
        row = int((mask & ~np.isfinite(scores)).any(axis=1).argmax())
        raise ActionError(f"the actions of decision {row} must have finite features")
    last = np.where(mask, -scores, np.inf)
    luck = np.asarray(rng.random(scores.shape))
    return np.lexsort((luck, last))[:, :k]


def inclusion(scores: Float[Array, "m K"], mask: Bool[Array, "m K"], k: int) -> Float[Array, "m K"]:
    """Return P(action is among the k highest available scores), ties at random."""
    if k == 0:
        return np.zeros(scores.shape)
    scores = np.where(mask, scores, -np.inf)
    edge = np.partition(scores, -k, axis=1)[:, -k, None]
    above, equal = scores > edge, mask & (scores == edge)
    room = k - above.sum(axis=1, keepdims=True)
    return above + equal * (room / equal.sum(axis=1, keepdims=True))


def draw_rows(rng: np.random.Generator, probabilities: Float[Array, "m K"]) -> Int[Array, " m"]:
    """Draw one index for each row of probabilities; never one of probability zero."""
    total = np.cumsum(probabilities, axis=1)
    threshold = rng.random(len(probabilities)) * total[:, -1]
    # The first index whose cumulative sum exceeds the threshold has a positive probability.
    return np.asarray((total > threshold[:, None]).argmax(axis=1))


def best_products(
    rng: np.random.Generator,
    theta: Float[Array, "m d"],
    actions: Array,
    mask: Bool[Array, "m K"] | None,
) -> Int[Array, " m"]:
    """Return ``best_rows`` of the scores a'theta, for action sets (K, d) or (m, K, d).

    A compiled loop computes the scores: it is faster than BLAS for one decision, and gives the same
    bits for any number of decisions and threads.
    """
    sets = np.ascontiguousarray(actions).reshape(-1, *actions.shape[-2:])
    scores = np.empty((len(theta), sets.shape[1]))
    best = np.empty(len(theta), np.int64)
    available = NO_MASK if mask is None else mask
    code = take_best_product(theta, sets, available, scores, best)
    if code:
        resolve(rng, code, scores, available, best)
    return best


def resolve(
    rng: np.random.Generator,
    code: int,
    scores: Float[Array, "m K"],
    mask: Array,
    best: Int[Array, " m"],
) -> None:
    """Raise the error that the compiled loop found, or break ties; the mask may be NO_MASK."""
    if code < 0:
        row = -1 - code
        raise ActionError(
            f"the actions of decision {row} must have finite features: its mean rewards are "
            f"{scores[row]}; mask the padding"
        )
    # Among equal scores, take the one with the largest of independent uniform numbers.
    same = scores == np.take_along_axis(scores, best[:, None], axis=1)
    if len(mask):
        same &= mask
    rows = np.flatnonzero(same.sum(axis=1) > 1)
    best[rows] = np.where(same[rows], rng.random((len(rows), scores.shape[1])), -1.0).argmax(axis=1)
