"""Parts that look inside an agent while it plays."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mixts._typing import Array, Int
from mixts.agents import MixTS
from mixts.environments import Environment
from mixts.experiments.base import Arrays, Part
from mixts.prior import MixturePrior
from mixts.simulation import prepare


class TruthPart(Part):
    """The probability that MixTS gives the true latent state after each round: ``truth``.

    The runs are, to the bit, those of MixTS in a simulation with the same seed and block size.
    """

    def __init__(
        self,
        prior: MixturePrior,
        environment: Environment,
        n_rounds: int,
        n_runs: int,
        seed: int,
        *,
        block_size: int | None = None,
    ) -> None:
        self._prior = prior
        self._simulation = prepare(
            {"MixTS": prior}, environment, n_rounds, n_runs, seed, block_size=block_size
        )
        self.cost = 2e-5 * n_rounds * self._simulation.width(0)

    @property
    def n_blocks(self) -> int:
        return self._simulation.n_blocks

    def play(self, block: int) -> Arrays:
        watched: list[_Watched] = []
        make = partial(_watch, watched, self._prior)
        simulation = prepare(
            {"MixTS": make}, self._simulation.environment, self._simulation.n_rounds,
            self._simulation.n_runs, self._simulation.seed,
            block_size=self._simulation.block_size,
        )  # fmt: skip
        simulation.play(block)
        return {"truth": np.stack(watched[0].weights, axis=1)}


class _Watched(MixTS):
    """MixTS that notes the weight of the truth after each update."""

    def __init__(self, prior: MixturePrior, n_tasks: int, seed: Any, latent: Array) -> None:
        super().__init__(prior, n_tasks, seed)
        self._truth: Int[Array, " n"] = latent
        self.weights: list[Array] = []

    def update(self, *feedback: Any, **how: Any) -> None:
        super().update(*feedback, **how)
        self.weights.append(self.belief.weights[np.arange(len(self._truth)), self._truth])


def _watch(
    watched: list[_Watched], prior: MixturePrior, n_tasks: int, seed: Any, latent: Array
) -> _Watched:
    watched.append(_Watched(prior, n_tasks, seed, latent))
    return watched[-1]
