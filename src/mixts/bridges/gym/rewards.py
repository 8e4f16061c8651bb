"""Rewards of any environment as the zeros and ones that a tabular MDP learns from."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts.errors import OutcomeError, ParameterError


class RewardScale:
    """What a reward is worth between 0 and 1.

    Without ``binarize`` rewards are 0 or 1 and stay as they are. With ``binarize=(low, high)`` the
    probability of a 1 is ``(reward - low) / (high - low)``. Returns over a fixed number of steps
    are rescaled alike, so the best policy stays the best; but a drawn reward says less than the
    number it was drawn for, so posteriors are wider than they need be.

    After the end of an episode every step gives 0, which must therefore be between the two.
    """

    def __init__(self, binarize: tuple[float, float] | None = None) -> None:
        self.binarize = binarize
        self._low, self._high = 0.0, 1.0
        if binarize is not None:
            self._low, self._high = _range(binarize)

    def mean(self, reward: Any) -> float:
        """The probability of a 1; a reward that cannot be taken is refused."""
        number = float(reward)
        if self.binarize is None and number not in (0.0, 1.0):
            raise OutcomeError(
                f"rewards must be 0 or 1, got {reward!r}: with binarize=(low, high) others are "
                "rescaled and drawn"
            )
        if not self._low <= number <= self._high:
            raise OutcomeError(
                f"binarize says that rewards are from {self._low:g} to {self._high:g}, got "
                f"{reward!r}: make it wider"
            )
        return (number - self._low) / (self._high - self._low)

    def draw(self, reward: Any, rng: np.random.Generator) -> float:
        """0 or 1, with the mean of the reward."""
        mean = self.mean(reward)
        return mean if mean in (0.0, 1.0) else float(rng.random() < mean)


def _range(binarize: Any) -> tuple[float, float]:
    try:
        low, high = map(float, binarize)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"binarize must be (low, high), got {binarize!r}") from error
    if not -np.inf < low <= 0 <= high < np.inf or low == high:
        raise ParameterError(
            "binarize=(low, high) must be finite, low below high, with 0 between them (or at "
            f"one): an episode that has ended gives 0; got {binarize!r}"
        )
    return low, high
