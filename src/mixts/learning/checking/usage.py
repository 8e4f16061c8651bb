"""Which components tasks come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts._typing import Array, Bool, Float

PROMISE = 3.0
"""Fewer tasks than this, expected by a component's weight, say nothing if none comes: of a right
prior that happens with a probability of up to exp(-3) = 5 %."""
SHARE = 0.1
"""Of the promise: a component with less than this is unused."""


@dataclass(frozen=True)
class Usage:
    """How many tasks each component is responsible for, of those with observations."""

    names: tuple[str, ...]
    weights: Float[Array, " L"]
    n_tasks: int
    """Tasks with observations that some component can explain."""
    found: Float[Array, " L"]
    """The expected number of tasks: the sum of P(s | task)."""
    largest: Float[Array, " L"]
    """The largest P(s | task) of any task."""

    @property
    def promised(self) -> Float[Array, " L"]:
        """How many tasks the component's weight says."""
        return np.asarray(self.weights * self.n_tasks)

    @property
    def told(self) -> Bool[Array, " L"]:
        """Whether there are enough tasks to tell: a promise of at least 3."""
        return np.asarray(self.promised >= PROMISE)

    @property
    def unused(self) -> Bool[Array, " L"]:
        """Fewer than a tenth of the tasks that the weight promises, where that is at least 3."""
        return np.asarray(self.told & (self.found < SHARE * self.promised))
