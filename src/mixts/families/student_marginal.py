"""Mean rewards whose noise is unknown: Student distributions, and beliefs about decisions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.families.noise import draw_noise, noise_nodes
from mixts.families.quadrature import LOG_2PI_E, MeanDistribution, NormalMarginal
from mixts.families.rewards import ArmRewards, IndependentRewards, RewardBelief

_BLOCK = 1 << 22
"""Numbers of Normal marginals at a time: decisions times components times nodes times arms."""


@dataclass(frozen=True)
class StudentMarginal(MeanDistribution):
    """Student distributions of actions' means: given the noise sigma they are normal.

    The four parameters are the location m, the spread r, and the freedom f and unit u of the noise:
    given sigma, the mean is N(m, sigma^2 r), and u / sigma^2 is chi-squared with f degrees of
    freedom. All actions of a task have the same noise, and independent means given the noise.
    """

    @property
    def location(self) -> Array:
        return self.parameters[0]

    @property
    def spread(self) -> Array:
        return self.parameters[1]

    @property
    def freedom(self) -> Array:
        return self.parameters[2]

    @property
    def unit(self) -> Array:
        return self.parameters[3]

    def noise(self) -> Array:
        """Return E[sigma^2]."""
        return np.asarray(self.unit / (self.freedom - 2))

    def sample(self, rng: np.random.Generator) -> Array:
        return self.sample_both(rng)[0]

    def sample_both(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw the noise of each task, (...), and all its means given this noise, (..., K)."""
        sigma = draw_noise(rng, self.freedom[..., 0], self.unit[..., 0])
        x = rng.standard_normal(self.location.shape)
        return self.location + np.sqrt(self.spread) * sigma[..., None] * x, sigma

    def mean(self) -> Array:
        return self.location

    def variance(self) -> Array:
        return np.asarray(self.spread * self.noise())

    def quantile(self, probability: float | Array) -> Array:
        from scipy import special  # takes as long to import as all of mixts

        scale = np.sqrt(self.spread * self.unit / self.freedom)
        return np.asarray(self.location + scale * special.stdtrit(self.freedom, probability))

    def cdf(self, value: Array) -> Array:
        from scipy import special

        gap, scale = value - self.location, np.sqrt(self.spread * self.unit / self.freedom)
        # A certain mean has no spread: its distribution function is a step.
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.where(gap == 0, 0.0, gap / scale)
        return np.where((scale == 0) & (gap == 0), 1.0, special.stdtr(self.freedom, scaled))

    def expect(self, n: Array) -> Self:
        """Return the distributions after n more rewards; what they say of the noise is left out."""
        spread = self.spread / (1 + n * self.spread)
        after = np.stack(np.broadcast_arrays(self.location, spread, self.freedom, self.unit))
        return replace(self, parameters=after)

    def reward_entropy(self, mean: Array, variance: Array) -> Array:
        return np.asarray(0.5 * (LOG_2PI_E + np.log(self.noise() + variance)))

    def observe(self, average: Array, squares: Array, n: Array) -> tuple[Array, Array]:
        """Return each action's mean after n rewards of this average, and their log evidence.

        ``squares`` are the squared deviations from the average. The log evidence lacks the terms
        that do not depend on the parameters.
        """
        from scipy import special

        gap, wide = average - self.location, 1 + n * self.spread
        misfit = squares + n * gap * gap / wide
        half, more = 0.5 * self.freedom, 0.5 * np.maximum(n, 1)
        # ln Gamma(half + more) - ln Gamma(half), without subtracting two large numbers.
        log_evidence = special.gammaln(more) - special.betaln(half, more)
        log_evidence = np.where(n > 0, log_evidence, 0.0) - 0.5 * (
            n * np.log(self.unit) + np.log(wide)
        )
        log_evidence = log_evidence - (half + 0.5 * n) * np.log1p(misfit / self.unit)
        return self.location + n * self.spread / wide * gap, log_evidence

    def given_noise(
        self, weights: Float[Array, "m L"]
    ) -> tuple[NormalMarginal, Float[Array, "m L G"]]:
        """Return the normal distributions given values of the noise, (2, m, L, G, K).

        The weights of pairs of a component and a value come with them.
        """
        square, share = noise_nodes(self.freedom[..., 0], self.unit[..., 0])
        spread = self.spread[:, :, None] * square[..., None]
        location = np.broadcast_to(self.location[:, :, None], spread.shape)
        return NormalMarginal(np.stack([location, spread]), 1.0), weights[..., None] * share


class StudentRewards(RewardBelief):
    """Mean rewards of actions with unknown noise."""

    @property
    @abstractmethod
    def marginal(self) -> StudentMarginal: ...

    @abstractmethod
    def draw_both(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> tuple[Float[Array, "n K"], Float[Array, " n"]]:
        """Draw the mean rewards and the noise for pairs of a decision and a component."""

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self.draw_both(rng, rows, latent)[0]

    def draw_estimates(
        self, rng: np.random.Generator, latent: Int[Array, "m n"], n_more: Int[Array, " m"]
    ) -> Float[Array, "m n K"]:
        """Draw what the mean of each action would be after ``n_more`` rewards of it."""
        rows = np.repeat(np.arange(len(latent)), latent.shape[1])
        drawn, sigma = self.draw_both(rng, rows, latent.reshape(-1))
        means, noise = drawn.reshape(*latent.shape, drawn.shape[1]), sigma.reshape(*latent.shape, 1)
        n = n_more[:, None, None]
        averages = means + noise / np.sqrt(np.maximum(n, 1)) * rng.standard_normal(means.shape)
        spare = np.broadcast_to(np.maximum(n - 1, 0), means.shape)
        squares = noise**2 * 2 * rng.standard_gamma(0.5 * spare)
        weights, marginal = self._relevant()
        assert isinstance(marginal, StudentMarginal)
        after, log_evidence = marginal.expand(1).observe(
            averages[:, :, None], squares[:, :, None], n[..., None]
        )
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)[:, None, :, None]
        after_weights = softmax(np.moveaxis(log_weights + log_evidence, 2, -1))
        estimates = np.einsum("mnkl,mnlk->mnk", after_weights, after)
        return np.where(n > 0, estimates, self.means()[:, None])

    def _reward_entropy(self) -> Float[Array, "m K"]:
        noise = np.einsum("ml,mlk->mk", self.weights, self.marginal.noise())
        return np.asarray(0.5 * (LOG_2PI_E + np.log(noise + self.variances())))


@dataclass(frozen=True)
class StudentArmRewards(ArmRewards, StudentRewards):
    """Mean rewards of arms, which are independent given the component and the noise.

    Everything that needs their joint distribution is a sum over values of the noise
    (``noise_nodes``), for which arms are independent and normal.
    """

    weights: Float[Array, "m L"]
    distributions: StudentMarginal

    @property
    def marginal(self) -> StudentMarginal:
        return self.distributions

    def draw_both(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> tuple[Float[Array, "n K"], Float[Array, " n"]]:
        return self.marginal.select(rows, latent).sample_both(rng)

    def _parts(self) -> list[slice]:
        """Return parts of the decisions whose marginals given the noise fit into memory."""
        _, m, n_components, n_arms = self.marginal.parameters.shape
        size = max(1, _BLOCK // (64 * n_components * n_arms))
        return [slice(start, start + size) for start in range(0, m, size)]

    def _normal(self, rows: slice) -> IndependentRewards:
        """Return the belief in which pairs of a component and a noise are the components."""
        own = self.marginal.select(np.arange(len(self.weights))[rows])
        marginal, weights = own.given_noise(self.weights[rows])
        m, n_arms = len(weights), marginal.parameters.shape[-1]
        flat = replace(marginal, parameters=marginal.parameters.reshape(2, m, -1, n_arms))
        return IndependentRewards(weights.reshape(m, -1), flat)

    def best(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(arm is the best) by quadrature over means and noise, and its errors."""
        chance, error = np.empty(mask.shape), np.empty(mask.shape)
        for rows in self._parts():
            chance[rows], error[rows] = self._normal(rows).best(rng, mask[rows], n_samples)
        return chance, error

    def expected_best(self, mask: Bool[Array, "m K"]) -> Float[Array, " m"]:
        best = np.empty(len(mask))
        for rows in self._parts():
            best[rows] = self._normal(rows).expected_best(mask[rows])
        return best

    def expecting(self, counts: Int[Array, "m K"]) -> StudentArmRewards:
        """Return the belief as if ``counts`` more rewards of each arm had come, all expected.

        They count for the means, but not for the noise: rewards that do not scatter would make it
        small.
        """
        n, old = counts[:, None], self.marginal
        gap, wide = self.means()[:, None] - old.location, 1 + n * old.spread
        misfit = (n * gap * gap / wide).sum(axis=2)
        freedom, unit = old.freedom[..., 0], old.unit[..., 0]
        log_evidence = -0.5 * (np.log(wide).sum(axis=2) + freedom * np.log1p(misfit / unit))
        with np.errstate(divide="ignore"):
            weights = softmax(np.log(self.weights) + log_evidence)
        location = old.location + n * old.spread * gap / wide
        after = np.stack([location, old.spread / wide, old.freedom, old.unit + misfit[..., None]])
        return StudentArmRewards(weights, StudentMarginal(after))
