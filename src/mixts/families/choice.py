"""Choice of actions: checked action sets, the best by scores or by draws, ties at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts import _checks, _program
from mixts._typing import ActionsLike, Array, Bool, Float, Int
from mixts.errors import ActionError

NO_MASK = np.zeros((0, 0), bool)
"""What a loop gets if every action is available."""

_FAR = 40.0
"""A component so many nats below the leading one adds less to the sum of weights than rounding."""


def draw_latent(
    log_weights: Float[Array, " L"],
    relative: Float[Array, "n L"],
    tasks: Int[Array, " m"],
    uniform: Float[Array, " m"],
) -> Int[Array, " m"]:
    """Draw S ~ P_t of each task by inversion: the first state whose cumulative weight exceeds u."""
    if _program.core is not None:
        latent = np.empty(len(tasks), np.int64)
        _program.core.draw_latent(log_weights, relative, tasks, uniform, latent)
        return latent
    logs = log_weights + relative[tasks]
    logs -= logs.max(axis=1, keepdims=True)
    total = np.cumsum(np.where(logs > -_FAR, np.exp(logs), 0.0), axis=1)
    return np.asarray((total > uniform[:, None] * total[:, -1:]).argmax(axis=1))


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


def take_best(scores: Float[Array, "m K"], mask: Array, best: Int[Array, " m"]) -> int:
    """Write the first available action of the largest score in each row.

    Returns 0, or 1 if some row has ties, or -1 - i if row i has an available score that is not
    finite. The mask may be NO_MASK.
    """
    if _program.core is not None:
        scores = np.ascontiguousarray(scores)
        return int(_program.core.take_best(scores, np.ascontiguousarray(mask), best))
    masked = np.where(mask, scores, -np.inf) if len(mask) else scores
    bad = ~np.isfinite(scores) & (mask if len(mask) else True)
    if bad.any():
        return -1 - int(bad.any(axis=1).argmax())
    best[:] = masked.argmax(axis=1)
    top = np.take_along_axis(masked, best[:, None], axis=1)
    return int((masked == top).sum() > len(best))


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

    The first d entries of theta count. The sum over features has a fixed order, so that the bits do
    not depend on the number of decisions and threads, as those of BLAS do.
    """
    sets = np.ascontiguousarray(actions).reshape(-1, *actions.shape[-2:])
    if _program.core is None:
        return best_rows(rng, np.einsum("mkd,md->mk", sets, theta[:, : sets.shape[2]]), mask)
    scores = np.empty((len(theta), sets.shape[1]))
    best = np.empty(len(theta), np.int64)
    available = NO_MASK if mask is None else np.ascontiguousarray(mask)
    theta = np.ascontiguousarray(theta)
    code = _program.core.take_best_product(theta, sets, available, scores, best)
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


_LEAST_DRAWS = 2
"""Draws of every component: an error needs two."""


# -- draws ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strata:
    """The components of n draws for each of m decisions, one component after the other.

    Each component has a number of draws that its weight fixes, so that ``sum_s w_s (mean over the
    draws of s)`` has the right expectation, and only the parameters given the component are
    sampled. A policy takes its action from what the draws say: given the draws, these probabilities
    are the true ones.
    """

    weights: Float[Array, "m L"]
    """Weights of the components; negligible ones are 0."""
    counts: Int[Array, "m L"]
    """Number of draws of each component; n in each row."""

    @classmethod
    def of(cls, weights: Float[Array, "m L"], n_samples: int, negligible: float) -> Strata:
        """Give each component draws in proportion to its weight, but at least two.

        The numbers depend on the weights alone: chance has no part in them.
        """
        weights = np.where(weights > negligible, weights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        counts = _LEAST_DRAWS * (weights > 0) + (n_samples * weights).astype(np.int64)
        numbers = counts.sum(axis=1)
        counts[np.arange(len(counts)), weights.argmax(axis=1)] += numbers.max(initial=0) - numbers
        return cls(weights, counts)

    @property
    def latent(self) -> Int[Array, "m n"]:
        """The component of each draw."""
        m, n_components = self.counts.shape
        each = np.tile(np.arange(n_components), m)
        n = int(self.counts[:1].sum())
        return np.repeat(each, self.counts.reshape(-1)).reshape(m, n)

    @property
    def shares(self) -> Float[Array, "m n"]:
        """The probability of each draw."""
        each = self.weights / np.maximum(self.counts, 1)
        return np.take_along_axis(each, self.latent, axis=1)

    def average(self, values: Float[Array, "m n j"]) -> tuple[Array, Array]:
        """Return the expectation of values of the draws, (m, j), and its standard error."""
        rows, latent = np.nonzero(self.counts)
        n, weight = self.counts[rows, latent, None], self.weights[rows, latent, None]
        starts = np.cumsum(n) - n[:, 0]
        flat = values.reshape(-1, values.shape[2])
        mean = np.add.reduceat(flat, starts) / n
        square = np.add.reduceat(flat * flat, starts) / n
        variance = np.maximum(square - mean * mean, 0.0) / (n - 1)
        first = np.searchsorted(rows, np.arange(len(self.counts)))
        total = np.add.reduceat(weight * mean, first)
        return total, np.sqrt(np.add.reduceat(weight * weight * variance, first))


@dataclass(frozen=True)
class Draws:
    """Draws of the mean rewards, or utilities, of K actions for each of m decisions."""

    strata: Strata
    values: Float[Array, "m n K"]

    def inclusion(
        self, mask: Bool[Array, "m K"], k: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(action is among the best k) and its standard error; ties share."""
        m, n, n_actions = self.values.shape
        every = np.repeat(mask, n, axis=0)
        found = inclusion(self.values.reshape(-1, n_actions), every, k)
        chance, error = self.strata.average(found.reshape(m, n, n_actions))
        # Rounding must leave no sure action just below one.
        return np.minimum(chance / (chance.sum(axis=1, keepdims=True) / k), 1.0), error

    def ranking(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], k: int
    ) -> tuple[Int[Array, "m k"], Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the best k actions of one of the draws, and ``inclusion``.

        The draw is taken by its probability: given the draws, those of being included are true.
        """
        one = self.values[np.arange(len(mask)), draw_rows(rng, self.strata.shares)]
        return top_rows(rng, one, mask, k), *self.inclusion(mask, k)

    def gains(self, mask: Bool[Array, "m K"], lead: Int[Array, " m"]) -> Float[Array, " m"]:
        """Return the expectation of the best value minus that of the leading action."""
        best = np.where(mask[:, None], self.values, -np.inf).max(axis=2)
        own = np.take_along_axis(self.values, lead[:, None, None], axis=2)[:, :, 0]
        return self.strata.average((best - own)[:, :, None])[0][:, 0]

    def variances(self) -> Float[Array, "m K"]:
        """Return the variance of each action's value."""
        gap = self.values - self.strata.average(self.values)[0][:, None]
        return self.strata.average(gap * gap)[0]

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the least value of each action such that those up to it have the probability."""
        order = np.argsort(self.values, axis=1)
        shares = np.broadcast_to(self.strata.shares[:, :, None], order.shape)
        total = np.take_along_axis(shares, order, axis=1).cumsum(axis=1)
        below = total < probability[:, None, None] * total[:, -1:] * (1 - 1e-12)
        place = np.take_along_axis(order, below.sum(axis=1, keepdims=True), axis=1)
        return np.take_along_axis(self.values, place, axis=1)[:, 0]
