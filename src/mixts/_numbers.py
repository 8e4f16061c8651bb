"""Means with standard errors, and normalised weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, Float


class Estimate(NamedTuple):
    """A mean over runs or tasks and its standard error (NaN for a single run)."""

    mean: Any
    error: Any


def estimate(values: Float[Array, "n ..."]) -> Estimate:
    """Return the mean over the first axis (runs or tasks) and its standard error.

    Parameters
    ----------
    values
        One value for each run or task, on the first axis.

    Returns
    -------
    Estimate
        Mean and standard error; the error of a single value is NaN.
    """
    n = len(values)
    mean = values.mean(axis=0) if n else np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(mean.shape, np.nan)
    return Estimate(mean, error) if mean.ndim else Estimate(float(mean), float(error))


def softmax(logs: Float[Array, "... L"]) -> Float[Array, "... L"]:
    """Return each row's weights, normalised, from their logarithms up to a constant.

    ``scipy.special.softmax`` accepts any array and takes several times as long.
    """
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights)
