"""The share of decisions that new arms get: at least, and at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, Bool, Float
from mixts.errors import ParameterError
from mixts.families.choice import draw_rows

Rankings = tuple[Array, Array, Array]
"""Ranked actions (m, k), the probability that each action is among them (m, K), and its error."""


class NewShare(NamedTuple):
    """Smallest and largest probability of all new arms together."""

    least: float = 0.0
    most: float = 1.0

    def __str__(self) -> str:
        return f"{self.least:g}-{self.most:g}" if self.least else f"{self.most:g}"

    @classmethod
    def checked(cls, given: Any) -> NewShare:
        """Return the share that one number, the largest, or a pair of numbers means."""
        pair = given if isinstance(given, (tuple, list)) else (0.0, given)
        numbers = all(
            isinstance(x, (int, float, np.number)) and not isinstance(x, bool) for x in pair
        )
        if len(pair) != 2 or not numbers or not 0 <= pair[0] <= pair[1] <= 1:
            raise ParameterError(
                "the share of new arms must be between 0 and 1, or a pair of such numbers with the "
                f"smaller one first, got {given!r}"
            )
        return cls(float(pair[0]), float(pair[1]))

    def apply(
        self,
        probabilities: Float[Array, "m K"],
        available: Bool[Array, "m K"],
        new: Bool[Array, " k"],
    ) -> Float[Array, "m K"]:
        """Return probabilities in which new arms together have a share within the limits.

        What they lack is added to the available new arms evenly; of what they have too much, each
        loses the same part. The other arms share the rest in proportion, or evenly if they had
        nothing. Decisions in which only new arms, or none, are available keep their probabilities.
        """
        if not new.any():
            return probabilities
        fresh, old = available & new, available & ~new
        taken = np.where(fresh, probabilities, 0.0).sum(axis=1, keepdims=True)
        wanted = np.clip(taken, self.least, self.most)
        both = fresh.any(axis=1, keepdims=True) & old.any(axis=1, keepdims=True)
        changed = both & (wanted != taken)
        if not changed.any():
            return probabilities
        part = np.where(
            wanted > taken,
            probabilities + (wanted - taken) / np.maximum(fresh.sum(axis=1, keepdims=True), 1),
            probabilities * (wanted / np.where(taken > 0, taken, 1.0)),
        )
        rest = np.where(old & (taken < 1), probabilities, 0.0)
        rest = np.where(rest.sum(axis=1, keepdims=True) > 0, rest, old)
        rest = rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)
        return np.where(changed, np.where(fresh, part, 0.0) + (1 - wanted) * rest, probabilities)

    def apply_to_rankings(
        self,
        rng: np.random.Generator,
        rank: Callable[[Bool[Array, "m K"], int], Rankings],
        available: Bool[Array, "m K"],
        new: Bool[Array, " k"],
        k: int,
    ) -> Rankings:
        """Rank k actions such that a share of the rankings within the limits has new arms.

        In the smallest share of the rankings, the last place goes to a new arm that is drawn
        evenly, and the others to known arms. Without enough known arms nothing is limited.

        Parameters
        ----------
        rng
            Draws which rankings may have new arms.
        rank
            Ranks that many of the available actions.
        available
            Available actions.
        new
            New arms.
        k
            Number of actions to rank.
        """
        old, fresh = available & ~new, available & new
        rows = (old.sum(axis=1) >= k) & fresh.any(axis=1)
        if not rows.any() or (self.least == 0 and self.most == 1):
            return rank(available, k)
        known = np.where(rows[:, None], old, available)
        trial, free = np.where(rows, self.least, 0.0), np.where(rows, self.most, 1.0)
        parts = [(free - trial, rank(available, k)), (1 - free, rank(known, k))]
        if self.least > 0:
            others = rank(known, k - 1) if k > 1 else _nothing(available)
            parts.append((trial, _with_one_new(rng, others, np.where(rows[:, None], fresh, known))))
        shares = np.stack([share for share, _ in parts], axis=1)
        drawn = draw_rows(rng, shares)
        chosen = np.stack([rankings[0] for _, rankings in parts])[drawn, np.arange(len(rows))]
        probabilities, error = (
            sum(share[:, None] * rankings[i] for share, rankings in parts) for i in (1, 2)
        )
        return chosen, np.asarray(probabilities), np.asarray(error)


def _nothing(available: Bool[Array, "m K"]) -> Rankings:
    """Return rankings of no actions."""
    zeros = np.zeros(available.shape)
    return np.zeros((len(available), 0), np.int64), zeros, zeros


def _with_one_new(
    rng: np.random.Generator, rankings: Rankings, fresh: Bool[Array, "m K"]
) -> Rankings:
    """Return rankings with one new arm, drawn evenly, in the last place."""
    ranked, probabilities, error = rankings
    even = fresh / fresh.sum(axis=1, keepdims=True)
    return np.column_stack([ranked, draw_rows(rng, even)]), probabilities + even, error
