"""Means over users who are held out in several splits, with errors that know it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixts.experiments.base import Arrays
from mixts.simulation import Estimate
from studies._shared import Array

EARLY = 5
"""Rounds of the cold start."""


class Scores(NamedTuple):
    """Of an agent, or of how much more one has than another."""

    early: Estimate
    """Mean rating of the films taken in the first rounds."""
    whole: Estimate
    """The same of all rounds."""
    evidence: Estimate
    """All held-out log evidence over all ratings."""
    by_user: Estimate
    """Held-out log evidence a rating, every user counting the same."""


class Pairs(NamedTuple):
    """What was measured of users in the splits in which they are held out."""

    arrays: Arrays

    def scores(self, name: str, other: str | None = None) -> Scores:
        """Of an agent; of the difference to another, pair by pair."""
        a = self.arrays
        reward, evidence = a[f"reward/{name}"], a[f"evidence/{name}"]
        if other is not None:
            reward, evidence = reward - a[f"reward/{other}"], evidence - a[f"evidence/{other}"]
        n = a["n_ratings"].astype(float)
        return Scores(
            self.mean(reward[:, :EARLY].mean(axis=1)),
            self.mean(reward.mean(axis=1)),
            self.mean(evidence / n, n),
            self.mean(evidence / n),
        )

    def mean(self, values: Array, weights: Array | None = None) -> Estimate:
        return clustered(values, self.arrays["latent"], self.arrays["split"], weights)

    def split_lead(self, split: int, name: str, other: str) -> float:
        """What one agent has more than another in evidence a rating, in one split."""
        a, inside = self.arrays, self.arrays["split"] == split
        gap = a[f"evidence/{name}"] - a[f"evidence/{other}"]
        return float(gap[inside].sum() / a["n_ratings"][inside].sum())


def clustered(
    values: Array,
    users: Array,
    splits: Array,
    weights: Array | None = None,
) -> Estimate:
    """The weighted mean of (user, split) pairs and its standard error, clustered both ways.

    Pairs of the same user are alike, and so are pairs of the same split, which share a prior. With
    the residuals e = w (v - mean) / sum w, summed within users, within splits, and not at all, the
    variance is V_user + V_split - V_pair (Cameron, Gelbach and Miller, 2011), and never less than
    V_user or V_split alone, which in small samples the difference may be. Splits overlap in whom
    they train on: what is common to all ten of them is not in the error.
    """
    w = np.ones(len(values)) if weights is None else weights
    mean = float(w @ values / w.sum())
    residual = w * (values - mean) / w.sum()
    by_user, by_split = _variance(residual, users), _variance(residual, splits)
    both = by_user + by_split - float(residual @ residual)
    return Estimate(mean, float(np.sqrt(max(both, by_user, by_split))))


def _variance(residual: Array, clusters: Array) -> float:
    """Of the mean, where what is in one cluster goes together; 0 of a single cluster."""
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], residual)
    return float(sums @ sums) * len(sums) / (len(sums) - 1) if len(sums) > 1 else 0.0
