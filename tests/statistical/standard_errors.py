"""Deviations in units of standard errors, and how large the largest of many may be."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-4
"""The probability that a correct program fails a test whose seed was not looked at."""


def limit(n_comparisons: int) -> float:
    """Return a limit that one of n normal deviations exceeds with probability FALSE_ALARM at most.

    Bonferroni: the deviations may depend on each other. 5.3 for 500 of them, 5.8 for 10,000.
    """
    return float(stats.norm.isf(FALSE_ALARM / 2 / n_comparisons))


ROUNDING = 1e-12


def quotient(difference: Any, error: Any) -> Any:
    """difference / error; where nothing is random, only no difference at all is 0."""
    difference, error = np.broadcast_arrays(difference, error)
    certain = np.where(abs(difference) < ROUNDING, 0.0, np.inf)
    return np.divide(difference, error, out=certain, where=error > ROUNDING)


def of_mean(samples: Any, expected: Any = 0.0) -> Any:
    """Samples (n, ...), independent along the first axis, against their expectation."""
    error = np.std(samples, axis=0, ddof=1) / np.sqrt(len(samples))
    return quotient(np.mean(samples, axis=0) - expected, error)


def of_frequency(counts: Any, n: int, probabilities: Any) -> Any:
    """Counts of n trials against known probabilities."""
    p = np.asarray(probabilities)
    return quotient(np.asarray(counts) / n - p, np.sqrt(p * (1 - p) / n))


def of_centred_sum(samples: Any, variances: Any, third_moments: Any) -> Any:
    """A sum of independent, centred variables of known variances and absolute third moments.

    A few rare, large terms are not normal: where Lyapunov's ratio is above 0.1 nothing is said.
    """
    variance = np.sum(variances, axis=0)
    normal = np.sum(third_moments, axis=0) < 0.1 * variance**1.5
    return np.where(normal, quotient(np.sum(samples, axis=0), np.sqrt(variance)), 0.0)


def assert_within(deviations: Any) -> None:
    """All of them within the limit for their number."""
    worst = np.unravel_index(np.argmax(abs(deviations)), np.shape(deviations))
    bound = limit(np.size(deviations))
    assert abs(deviations[worst]) < bound, (
        f"{deviations[worst]:.2f} standard errors at {tuple(map(int, worst))}, limit {bound:.2f}"
    )
