"""Pending clicks: what the silence of decisions that wait says about Bernoulli arms.

A decision takes an arm of click rate theta; a click, if there is one, has come by now with
probability F. The silence so far has the likelihood ``1 - theta F = (1 - theta) + theta (1 - F)``:
no click, or one that is still to come. For m pending decisions of an arm the product is

    sum_j e_j(1 - F_1, ..., 1 - F_m) theta^j (1 - theta)^(m - j),

where j clicks are still to come and e_j is an elementary symmetric polynomial. A Beta(a, b) arm
becomes a mixture of Beta(a + j, b + m - j) with weights e_j B(a + j, b + m - j) / B(a, b), whose
sum is the evidence of the silence. All terms are positive, so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Float, Int
from mixts.families.base import Waiting
from mixts.families.choice import draw_rows

_BLOCK = 1 << 20
"""Numbers in one array."""


class Pending(NamedTuple):
    """Decisions that wait for a click; their silence counts.

    Parameters
    ----------
    actions
        Arms, by index or by the prior's arm names: one, or an array of m.
    arrived
        Probability that a click of the decision would have come by now: a number, or (m,). For
        a delay with distribution function F and a decision of age t it is F(t): 0 says
        nothing, and 1 is the reward 0.
    tasks
        The task of each decision; None for one task without a task axis.

    Examples
    --------
    An arm was shown twice: a click on the first showing would have come by now with probability
    0.9, on the second with probability 0.1.

    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> pending = mixts.Pending(actions=[0, 0], arrived=[0.9, 0.1])
    >>> mixts.Greedy(prior, seed=1).act(waiting=pending)
    1
    """

    actions: Any
    arrived: Any
    tasks: Any = None


class Silence:
    """What the pending decisions of n tasks say, by pairs of a task and an arm.

    Parameters
    ----------
    waiting
        Pending decisions; a task is a position on the first axis of the parameters.
    a, b
        Parameters of the arms' Beta distributions.
    """

    def __init__(
        self, waiting: Waiting, a: Float[Array, "n L K"], b: Float[Array, "n L K"]
    ) -> None:
        assert waiting.arrived is not None
        n_tasks, n_components, self._n_arms = a.shape
        self._before = a, b
        key = waiting.tasks * self._n_arms + waiting.actions
        order = np.argsort(key, kind="stable")
        pairs, first, self.counts = np.unique(key[order], return_index=True, return_counts=True)
        self.rows, self.arms = pairs // self._n_arms, pairs % self._n_arms
        """Task and arm of each pair; ``counts`` has the number of its decisions."""
        self._a, self._b = a[self.rows, :, self.arms], b[self.rows, :, self.arms]
        most = int(self.counts.max(initial=0))
        pair, missing = np.repeat(np.arange(len(pairs)), self.counts), np.zeros((len(pairs), most))
        missing[pair, np.arange(len(order)) - first[pair]] = 1.0 - waiting.arrived[order]
        self._log_e = _log_symmetric(missing)
        each = np.repeat(np.arange(len(pairs)), n_components)
        evidence, clicks = np.empty(len(each)), np.empty(len(each))
        for part, law, log_total in self._laws(each, np.tile(np.arange(n_components), len(pairs))):
            evidence[part] = log_total
            clicks[part] = np.einsum("pj,j->p", law, np.arange(most + 1.0))
        self.clicks: Float[Array, "pairs L"] = clicks.reshape(self._a.shape)
        """E[number of clicks still to come | silence, component]."""
        self.log_evidence: Float[Array, "n L"] = np.zeros((n_tasks, n_components))
        """log p(silence | component) of each task: arms are independent given the component."""
        np.add.at(self.log_evidence, self.rows, evidence.reshape(self._a.shape))

    def weigh(self, weights: Float[Array, "m L"], tasks: Int[Array, " m"]) -> Float[Array, "m L"]:
        """Return the weights of components, given the silence as well."""
        with np.errstate(divide="ignore"):
            return softmax(np.log(weights) + self.log_evidence[tasks])

    def expect(self) -> Float[Array, "2 n L K"]:
        """Return the parameters of the arms as if the expected clicks, and no others, had come.

        The means are those given the silence. The variances are as small as they will be when all
        outcomes are known.
        """
        after = np.stack(self._before)
        after[0][self.rows, :, self.arms] += self.clicks
        after[1][self.rows, :, self.arms] += self.counts[:, None] - self.clicks
        return after

    def draw_clicks(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], weights: Float[Array, "m L"]
    ) -> tuple[Int[Array, "m K"], Int[Array, "m K"]]:
        """Draw a component by its weight, then how many decisions of each arm get a click.

        Returns these numbers, and those of the other decisions. A task may occur several times;
        its draws are independent.
        """
        latent = draw_rows(rng, weights)
        first, end = (np.searchsorted(self.rows, tasks, side) for side in ("left", "right"))
        row = np.repeat(np.arange(len(tasks)), end - first)
        pair = np.arange(len(row)) - np.repeat(np.cumsum(end - first) - end, end - first)
        drawn = np.empty(len(row), np.int64)
        for part, law, _ in self._laws(pair, latent[row]):
            drawn[part] = draw_rows(rng, law)
        clicks, others = np.zeros((2, len(tasks), self._n_arms), np.int64)
        clicks[row, self.arms[pair]] = drawn
        others[row, self.arms[pair]] = self.counts[pair] - drawn
        return clicks, others

    def _laws(
        self, pair: Int[Array, " p"], latent: Int[Array, " p"]
    ) -> Iterator[tuple[slice, Float[Array, "q j"], Float[Array, " q"]]]:
        """Yield parts of pairs given components: P(j clicks come | silence), log p(silence)."""
        size = max(1, _BLOCK // self._log_e.shape[1])
        for start in range(0, len(pair), size):
            part = slice(start, start + size)
            own, n = pair[part], self.counts[pair[part], None]
            a, b = (x[own, latent[part], None] for x in (self._a, self._b))
            step, j = np.arange(self._log_e.shape[1] - 1), np.arange(self._log_e.shape[1])
            # B(a + j, b + n - j) / B(a, b), from ratios near one: beta functions of large
            # parameters would cancel.
            won, lost, all_ = (_running(np.log((x + step) / (a + b))) for x in (a, b, a + b))
            lost = np.take_along_axis(lost, np.maximum(n - j, 0), axis=1)
            logs = self._log_e[own] + won + lost - np.take_along_axis(all_, n, axis=1)
            top = logs.max(axis=1, keepdims=True)
            law = np.exp(logs - top)
            total = law.sum(axis=1, keepdims=True)
            yield part, law / total, (top + np.log(total))[:, 0]


def _running(values: Float[Array, "p _"]) -> Float[Array, "p _"]:
    """Return the sums of the first 0, 1, 2, ... values of each row."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


def _log_symmetric(values: Float[Array, "g m"]) -> Float[Array, "g j"]:
    """Return the logarithms of the elementary symmetric polynomials e_0, ..., e_m of each row."""
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    found = np.full((len(values), values.shape[1] + 1), -np.inf)
    found[:, 0] = 0.0
    for i, log_value in enumerate(logs.T):
        found[:, 1 : i + 2] = np.logaddexp(
            found[:, 1 : i + 2], found[:, : i + 1] + log_value[:, None]
        )
    return found
