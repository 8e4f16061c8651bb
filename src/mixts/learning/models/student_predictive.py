"""Predictions of tasks whose noise is unknown: first their scatter, then Student variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from scipy import special

from mixts._typing import Array, Float, Int
from mixts.families import Family, LinearStudent, Statistics, StudentArms
from mixts.learning.models.gaussian import draw_rewards
from mixts.learning.models.linear import LinearPredictive, Rotated
from mixts.learning.models.predictive import ArmPredictive, Prediction


class NoiseBelief:
    """Freedom and unit of the noise of each task under each component, as parts are predicted."""

    def __init__(self, noise_prior: tuple[Array, Array], n_tasks: int) -> None:
        self.freedom, self.unit = (np.tile(x, (n_tasks, 1)) for x in noise_prior)

    def scatter(self, spare: Int[Array, " n"], squares: Float[Array, " n"]) -> Prediction:
        """Return the part of squared residuals, and learn from them.

        With ``spare`` degrees of freedom and noise sigma they are sigma^2 times a chi-squared
        variable; divided by the unit, a beta prime variable.
        """
        tasks = np.flatnonzero(spare)
        freedom, unit = self.freedom[tasks], self.unit[tasks]
        more, own = spare[tasks, None], squares[tasks, None]
        less = special.betainc(more / 2, freedom / 2, own / (unit + own))
        # Without the terms that all components share.
        log = special.gammaln((freedom + more) / 2) - special.gammaln(freedom / 2)
        log -= 0.5 * (more * np.log(unit) + (freedom + more) * np.log1p(own / unit))
        self._learn(tasks, more, own)
        return Prediction("noise", tasks, log, less, np.zeros_like(less))

    def reward(
        self, tasks: Int[Array, " m"], gap: Float[Array, "m L"], alpha: Float[Array, "m L"]
    ) -> Prediction:
        """Return the part of a reward that is ``gap`` from its mean, and learn from it.

        ``alpha`` is its variance in units of the noise variance.
        """
        freedom, unit, square = self.freedom[tasks], self.unit[tasks], gap * gap / alpha
        log = -special.betaln(freedom / 2, 0.5) - 0.5 * np.log(unit * alpha)
        log -= 0.5 * (freedom + 1) * np.log1p(square / unit)
        less = special.stdtr(freedom, gap / np.sqrt(alpha * unit / freedom))
        self._learn(tasks, np.ones(1), square)
        return Prediction("rewards", tasks, log, less, np.zeros_like(less))

    def _learn(self, tasks: Int[Array, " m"], n: Array, misfit: Array) -> None:
        self.freedom[tasks] += n
        self.unit[tasks] += misfit


class StudentPredictive(ArmPredictive):
    """Predictions of squared deviations, then of the averages of arms."""

    family_type: ClassVar[type[Family]] = StudentArms

    def parts(self) -> Iterator[Prediction]:
        noise = NoiseBelief(self.family.noise_prior, len(self.pulls))
        spare = np.maximum(self.pulls - 1, 0).sum(axis=1)
        yield noise.scatter(spare, self.statistics.array("squares").sum(axis=1))
        ratio = self.family.variance / self.family.noise_std[:, None] ** 2
        for arm in range(self.pulls.shape[1]):
            tasks = np.flatnonzero(self.pulls[:, arm])
            alpha = ratio[:, arm] + 1 / self.pulls[tasks, arm, None]
            average = self.statistics.array("average")[tasks, arm, None]
            yield noise.reward(tasks, average - self.family.mean[:, arm], alpha)

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        return draw_rewards(rng, pulls, means[:, :-1], means[:, -1:])


class LinearStudentPredictive(LinearPredictive):
    """Predictions of the residual noise, then of rotated rewards, in units of the noise."""

    family_type: ClassVar[type[Family]] = LinearStudent

    def parts(self) -> Iterator[Prediction]:
        noise = NoiseBelief(self.family.noise_prior, len(self.count))
        yield noise.scatter(self.spare, self.residual)
        for rotated in self._blocks(np.arange(len(self.count))):
            innovation = rotated.innovations(rotated.rewards[..., None])[..., 0]
            scale = np.exp(rotated.log_scale)
            for j in range(rotated.real.shape[1]):
                rows = np.flatnonzero(rotated.real[:, j])
                wide = scale[rows, :, j]
                yield noise.reward(rotated.tasks[rows], innovation[rows, :, j] * wide, wide**2)

    def _split(self, parameters: Float[Array, "m b p"]) -> tuple[Array, Array]:
        return parameters[..., :-1], parameters[..., -1]

    def _score(
        self, rotated: Rotated, rewards: Float[Array, "m r b"], residual: Float[Array, "m b"]
    ) -> Float[Array, "m b"]:
        degrees, unit = (x[:, None] for x in self.family.noise_prior)
        real = rotated.real[:, None, :, None]
        misfit = (rotated.innovations(rewards) ** 2 * real).sum(axis=2) + residual[:, None]
        n = (self.spare[rotated.tasks] + rotated.real.sum(axis=1))[:, None, None]
        log = special.gammaln((degrees + n) / 2) - special.gammaln(degrees / 2)
        log = log - 0.5 * (n * np.log(np.pi * unit) + (degrees + n) * np.log1p(misfit / unit))
        log = log - (rotated.log_scale[..., None] * real).sum(axis=2)
        return np.asarray(special.logsumexp(self.prior.log_weights[:, None] + log, axis=1))
