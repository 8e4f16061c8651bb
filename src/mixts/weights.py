"""Weights that sum to one."""

from __future__ import annotations

import numpy as np

from mixts.typing import Array, Float


def softmax(logs: Float[Array, "m L"]) -> Float[Array, "m L"]:
    """The weights of which each row has the logarithms, up to a constant.

    scipy's takes arrays of any kind, and for that several times as long.
    """
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(weights)
