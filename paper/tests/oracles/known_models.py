"""MixTS on Bernoulli arms of known means, without sampling error.

The belief depends on the history through the counts of each arm only, so the law of the counts
after t rounds, given each state, is the whole game. Every expectation here is a sum over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

Counts = tuple[tuple[int, int], ...]
"""Failures and successes of each arm."""


class Node(NamedTuple):
    """One possible belief of a round."""

    chance: float
    """Probability of the node."""
    belief: Any
    """P_t, (L,)."""
    law: Any
    """Probability of each arm under MixTS, (K,)."""


class Game:
    """A latent prior over mean vectors; ties for the best arm are broken at random."""

    def __init__(self, weights: Any, means: Any) -> None:
        self.weights, self.means = np.array(weights, float), np.array(means, float)
        best = self.means == self.means.max(axis=1, keepdims=True)
        self.best = best / best.sum(axis=1, keepdims=True)
        """P(A* = a | s)."""

    @cache  # noqa: B019 - a game lives as long as its tests
    def rounds(self, n: int) -> list[list[Node]]:
        """Return the nodes of each round."""
        return list(self._rounds(n))

    def _rounds(self, n: int) -> Iterator[list[Node]]:
        n_arms = self.means.shape[1]
        # P(counts | s), for counts that can occur.
        laws: dict[Counts, Any] = {((0, 0),) * n_arms: np.ones(len(self.weights))}
        for _ in range(n):
            nodes, after = [], {}
            for counts, given in laws.items():
                joint = self.weights * given
                chance = joint.sum()
                law = joint @ self.best / chance
                nodes.append(Node(float(chance), joint / chance, law))
                for arm in np.flatnonzero(law):
                    for reward in (0, 1):
                        likelihood = self.likelihood(arm)[:, reward]
                        moved = given * law[arm] * likelihood
                        if not moved.any():
                            continue
                        pair = list(counts[arm])
                        pair[reward] += 1
                        key = (*counts[:arm], tuple(pair), *counts[arm + 1 :])
                        after[key] = after.get(key, 0.0) + moved
            yield nodes
            laws = after

    def likelihood(self, arm: int) -> Any:
        """P(reward | s) of an arm, (L, 2)."""
        return np.stack([1 - self.means[:, arm], self.means[:, arm]], axis=1)

    def regret(self, node: Node) -> float:
        """Expected regret of the round."""
        return float(node.belief @ (self.means.max(axis=1) - self.means @ node.law))

    def products(self, node: Node) -> Any:
        """P_t(s) P_t(s'), (L, L)."""
        return np.outer(node.belief, node.belief)

    def roots_after(self, node: Node, arm: int) -> Any:
        """E[sqrt(P_{t+1}(s) P_{t+1}(s'))] after a pull of the arm, by Bayes' rule, (L, L)."""
        total = np.zeros((len(self.weights),) * 2)
        for reward in (0, 1):
            joint = node.belief * self.likelihood(arm)[:, reward]
            chance = joint.sum()
            if chance > 0:
                total += chance * np.sqrt(np.outer(joint / chance, joint / chance))
        return total

    def information(self, node: Node, labels: Any) -> float:
        """I(label; Y_t | H_t, A_t) for a variable with P(label | s) in rows, (L, labels)."""
        joint = node.belief[:, None] * labels
        total = 0.0
        for arm, chance in enumerate(node.law):
            table = joint.T @ self.likelihood(arm)
            product = np.outer(table.sum(axis=1), table.sum(axis=0))
            seen = table > 0
            total += chance * float((table[seen] * np.log(table[seen] / product[seen])).sum())
        return total

    def spread(self, node: Node) -> float:
        """Variance of the taken arm's mean over the states: what TS's action sees."""
        mean = node.belief @ self.means
        return float(node.law @ (node.belief @ (self.means - mean) ** 2))
