"""Whether what came lies where it was predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from mixts._typing import Array, Float, Int

LEVELS = (0.5, 0.8, 0.95)
"""Of the central intervals whose coverage is counted."""

SIGNIFICANCE = 0.01
"""Of the verdict: so rarely is a right prior called wrong. Its three tests share it."""

SLIGHT = 0.03
"""A deviation of less than this: every probability is right to within three points in a hundred."""

FEWEST = 10
"""Predictions without which nothing is said."""

_WORDS = {
    "narrow": "predictions are {}too narrow",
    "wide": "predictions are {}too wide",
    "high": "what comes is {}above the predictions",
    "low": "what comes is {}below the predictions",
    "shape": "predictions have {}the wrong shape",
}
_NOISE_WORDS = {
    "high": "the noise is {}larger than noise_std",
    "low": "the noise is {}smaller than noise_std",
    "narrow": "the noise varies {}more than predicted",
    "wide": "the noise varies {}less than predicted",
    "shape": "the noise has {}another distribution",
}


class Coverage(NamedTuple):
    """How often central intervals of a level held what came; the error is that of a right prior."""

    level: float
    found: float
    error: float


@dataclass(frozen=True)
class Calibration:
    """Probability integral transforms of one kind of prediction: uniform if the prior is right."""

    group: str
    """What is predicted: rewards, transitions or noise."""
    transforms: Float[Array, " k"]
    """P(less than what came), ties broken at random: 0.5 is the median of the prediction."""
    tasks: Int[Array, " k"]
    """The task of each."""

    @property
    def n_predictions(self) -> int:
        """How many there are."""
        return len(self.transforms)

    def coverage(self) -> list[Coverage]:
        """Of the central 50, 80 and 95 % intervals, with binomial standard errors."""
        out = np.abs(2 * self.transforms - 1)
        n = max(self.n_predictions, 1)
        return [
            Coverage(level, float((out <= level).mean()) if len(out) else np.nan,
                     float(np.sqrt(level * (1 - level) / n)))
            for level in LEVELS
        ]  # fmt: skip

    def deviation_curve(self) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """The transforms in order, and by how much more of them are below each than should be.

        Just before and just after each of its steps.
        """
        u, n = np.sort(self.transforms), max(self.n_predictions, 1)
        rank = np.arange(len(u)) / n
        after = np.stack([rank - u, rank + 1 / n - u], axis=1)
        return np.repeat(u, 2), after.reshape(-1)

    @property
    def deviation(self) -> float:
        """The largest error of any predicted probability (Kolmogorov and Smirnov's distance)."""
        return float(np.abs(self.deviation_curve()[1]).max(initial=0.0))

    @property
    def p_value(self) -> float:
        """How likely a right prior has as large a deviation (Stephens's approximation)."""
        root = np.sqrt(self.n_predictions)
        if not root:
            return 1.0
        return float(special.kolmogorov((root + 0.12 + 0.11 / root) * self.deviation))

    @property
    def location(self) -> float:
        """The mean of the transforms less 1/2 in its standard errors: positive if too much came."""
        return float((self.transforms - 0.5).sum() * np.sqrt(12 / max(self.n_predictions, 1)))

    @property
    def spread(self) -> float:
        """The same of |2 u - 1|: positive if too much is far from the middle of the predictions."""
        out = np.abs(2 * self.transforms - 1) - 0.5
        return float(out.sum() * np.sqrt(12 / max(self.n_predictions, 1)))

    @property
    def findings(self) -> tuple[str, ...]:
        """What is wrong: narrow or wide, high or low, or, if neither is seen, the shape.

        The spread, the location and the deviation are each tested at a third of 1 %.
        """
        if self.n_predictions < FEWEST:
            return ()
        limit = float(special.ndtri(1 - SIGNIFICANCE / 6))
        found = []
        if abs(self.spread) > limit:
            found.append("narrow" if self.spread > 0 else "wide")
        if abs(self.location) > limit:
            found.append("high" if self.location > 0 else "low")
        if not found and self.p_value < SIGNIFICANCE / 3:
            found.append("shape")
        if self.group == "noise" and {"high", "low"} & set(found):
            # Noise of another size has another spread, too.
            found = [name for name in found if name in ("high", "low")]
        return tuple(found)

    @property
    def verdict(self) -> str:
        """In words."""
        if self.n_predictions < FEWEST:
            return "too few to tell"
        if not self.findings:
            return "calibrated"
        words = _NOISE_WORDS if self.group == "noise" else _WORDS
        degree = "slightly " if self.deviation < SLIGHT else ""
        return ", and ".join(words[name].format(degree) for name in self.findings)
