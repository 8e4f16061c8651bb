"""Hypothesis strategies: priors of every family with a history of one task or several.

The numbers are well scaled on purpose. The extremes have tests of their own against references at
fifty digits; here a broken property should be found, and shrunk to something readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import mixts

FEWER = settings(max_examples=settings.default.max_examples // 2)
"""Where an example is several beliefs, or one that is read in full."""

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")
ARMS = ("bernoulli", "gaussian", "poisson")
KINDS = (*COVARIANCE_TYPES, *ARMS)


@dataclass(frozen=True)
class Problem:
    """Parameters stacked by component (a tied covariance apart), and a history."""

    kind: str
    first: Any
    second: Any
    noise_std: float
    weights: Any
    actions: Any
    outcomes: Any

    @property
    def n_components(self) -> int:
        return len(self.first)

    @property
    def n_rounds(self) -> int:
        return len(self.outcomes)

    @property
    def prior(self) -> mixts.MixturePrior:
        return mixts.MixturePrior(self._family(), weights=self.weights)

    def _family(self) -> Any:
        if self.kind == "bernoulli":
            return mixts.BernoulliArms(self.first, self.second)
        if self.kind == "poisson":
            return mixts.PoissonArms(self.first, self.second)
        if self.kind == "gaussian":
            return mixts.GaussianArms(self.first, self.second, self.noise_std)
        return mixts.LinearGaussian(
            self.first, self.second, self.noise_std, covariance_type=self.kind
        )

    def with_components(self, index: Sequence[int], weights: Any) -> Problem:
        """The same history under these components, in this order, with these weights."""
        second = self.second if self.kind == "tied" else self.second[list(index)]
        return replace(self, first=self.first[list(index)], second=second, weights=weights)

    def part(self, rounds: Any) -> Problem:
        """The same prior with these rounds of the history, in this order."""
        return replace(self, actions=self.actions[rounds], outcomes=self.outcomes[rounds])

    def belief(self) -> mixts.Belief:
        """The whole history in one call."""
        belief = self.prior.belief()
        belief.update(self.actions, self.outcomes)
        return belief

    def incremental(self) -> mixts.Belief:
        """The history one observation at a time."""
        belief = self.prior.belief()
        for action, outcome in zip(self.actions, self.outcomes, strict=True):
            belief.update(action, outcome)
        return belief


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    """Floats without subnormals: nothing here is about those."""
    return st.floats(low, high, allow_subnormal=False)


def table(shape: Any, low: float, high: float) -> st.SearchStrategy[Any]:
    return arrays(np.float64, shape, elements=numbers(low, high))


@st.composite
def covariances(draw: st.DrawFn, kind: str, n_components: int, d: int) -> Any:
    """Quarters, so that B B' is exact and may be exactly singular."""
    if kind == "spherical":
        return draw(table(n_components, 0.0, 4.0))
    if kind == "diag":
        return draw(table((n_components, d), 0.0, 4.0))
    shape = (d, d) if kind == "tied" else (n_components, d, d)
    root = draw(arrays(np.int64, shape, elements=st.integers(-6, 6))) / 4
    return root @ np.swapaxes(root, -1, -2)


@st.composite
def problems(
    draw: st.DrawFn,
    kinds: Sequence[str] = KINDS,
    rounds: tuple[int, int] = (1, 16),
    n_components: tuple[int, int] = (1, 4),
) -> Problem:
    kind = draw(st.sampled_from(kinds))
    components, size = draw(st.integers(*n_components)), draw(st.integers(1, 3))
    n, shape = draw(st.integers(*rounds)), (components, size)
    shares = draw(table(components, 0.01, 1.0))
    arms = arrays(np.int64, n, elements=st.integers(0, size - 1))
    noise_std = draw(numbers(0.1, 2.0))
    if kind == "bernoulli":
        first, second = draw(table(shape, 0.1, 50.0)), draw(table(shape, 0.1, 50.0))
        actions, outcomes = draw(arms), draw(arrays(np.int64, n, elements=st.integers(0, 1)))
    elif kind == "poisson":
        first, second = draw(table(shape, 0.1, 50.0)), draw(table(shape, 0.1, 10.0))
        actions, outcomes = draw(arms), draw(arrays(np.int64, n, elements=st.integers(0, 30)))
    elif kind == "gaussian":
        first, second = draw(table(shape, -3.0, 3.0)), draw(table(shape, 0.01, 4.0))
        actions, outcomes = draw(arms), draw(table(n, -4.0, 4.0))
    else:
        first, second = draw(table(shape, -3.0, 3.0)), draw(covariances(kind, components, size))
        actions, outcomes = draw(table((n, size), -2.0, 2.0)), draw(table(n, -4.0, 4.0))
    return Problem(kind, first, second, noise_std, shares / shares.sum(), actions, outcomes)


@st.composite
def batches(draw: st.DrawFn, n: int) -> list[Any]:
    """The rounds 0..n-1 in any order, cut anywhere; some batches may be empty."""
    order = np.array(draw(st.permutations(range(n))), dtype=int)
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
    return np.split(order, cuts)
