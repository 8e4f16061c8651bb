"""Means of independent numbers, with their standard errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixts.typing import Array, Float


class Estimate(NamedTuple):
    """A mean over runs or tasks and its standard error; that of a single one is unknown, NaN."""

    mean: Any
    error: Any


def estimate(values: Float[Array, "n ..."]) -> Estimate:
    """The mean over the first axis, runs or tasks, and its standard error; NaN of none."""
    n = len(values)
    mean = values.mean(axis=0) if n else np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(mean.shape, np.nan)
    return Estimate(mean, error) if mean.ndim else Estimate(float(mean), float(error))
