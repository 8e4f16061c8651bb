"""Exact values of policies on Bernoulli arms, by backward induction over counts; no simulation.

All that a history of K Bernoulli arms says is how many successes and failures each arm had. After t
rounds there are C(t + 2K - 1, 2K - 1) such counts, so for two arms and some ten rounds every belief
that can arise is known, and with it the best possible policy and the value of any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations_with_replacement

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError
from mixts.families.bernoulli import BernoulliStatistics


@dataclass(frozen=True)
class CountTree:
    """All counts that K arms can have within a number of rounds, one row each, round by round."""

    counts: Int[Array, "n 2 K"]
    """Successes, then failures, of each arm."""
    starts: Int[Array, " t"]
    """Rows ``starts[t]`` to ``starts[t + 1]`` are the counts after t rounds."""
    following: Int[Array, "m 2 K"]
    """Rows after a success, then a failure, of each arm; the last counts have none."""

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the longest history."""
        return len(self.starts) - 2

    def statistics(self, n_rounds: int) -> BernoulliStatistics:
        """Return all histories of fewer than ``n_rounds`` rounds, as the statistics of tasks.

        These are the histories after which a policy with this horizon still has to decide.
        """
        counts = self.counts[: self.starts[n_rounds]]
        return BernoulliStatistics(successes=counts[:, 0], failures=counts[:, 1])

    def value(
        self,
        success: Float[Array, "n K"],
        horizon: int,
        probabilities: Float[Array, "m K"] | None = None,
    ) -> float:
        """Return the expected sum of rewards of a policy, or of the best policy.

        ``V_t(c) = sum_a q_a(c) [p_a(c) (1 + V_{t+1}(c + success of a)) + (1 - p_a(c)) V_{t+1}(c +
        failure of a)]``, from ``V_h = 0`` back to the first round. The best policy has the maximum
        over the arms in place of the sum.

        Parameters
        ----------
        success
            p: probability that the next reward of each arm is 1, after every history. It is the
            arm's mean reward under the belief.
        horizon
            h: number of rounds.
        probabilities
            q: probability that the policy takes each arm, after every history; None: the best
            policy, which is the Bayes-optimal one.
        """
        if not 1 <= horizon <= self.n_rounds:
            raise ParameterError(f"horizon must be from 1 to {self.n_rounds}, got {horizon}")
        values = np.zeros(self.starts[horizon + 1])
        for t in reversed(range(horizon)):
            rows = slice(self.starts[t], self.starts[t + 1])
            won, lost = np.moveaxis(values[self.following[rows]], 1, 0)
            each = success[rows] * (1 + won) + (1 - success[rows]) * lost
            values[rows] = (
                each.max(axis=1)
                if probabilities is None
                else (probabilities[rows] * each).sum(axis=1)
            )
        return float(values[0])


@cache
def count_tree(n_arms: int, n_rounds: int) -> CountTree:
    """Return all counts that ``n_arms`` arms can have within ``n_rounds`` rounds."""
    n_outcomes = 2 * n_arms
    by_round = [
        [
            tuple(outcomes.count(i) for i in range(n_outcomes))
            for outcomes in combinations_with_replacement(range(n_outcomes), t)
        ]
        for t in range(n_rounds + 1)
    ]
    rows = {counts: row for row, counts in enumerate(chain.from_iterable(by_round))}
    inner = list(rows)[: len(rows) - len(by_round[-1])]
    following = [
        [rows[(*counts[:i], counts[i] + 1, *counts[i + 1 :])] for i in range(n_outcomes)]
        for counts in inner
    ]
    return CountTree(
        np.array(list(rows)).reshape(-1, 2, n_arms),
        np.cumsum([0, *map(len, by_round)]),
        np.array(following).reshape(-1, 2, n_arms),
    )
