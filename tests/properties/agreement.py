"""When two beliefs are the same.

Each may be off by the project's tolerance for log evidence, 1e-9 max(1, |value|), and for
differences between components, 1e-8 (1 + |difference|); two of them differ by at most twice that.
The moments of these well-scaled problems follow with the same digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EVIDENCE = 2e-9
DIFFERENCE = 2e-8


def assert_same_evidence(ours: Any, theirs: Any) -> None:
    """Arrays whose last axis is the components."""
    assert ours.shape == theirs.shape
    assert np.all(abs(ours - theirs) <= EVIDENCE * np.maximum(1.0, abs(theirs)))
    gaps, others = (e[..., :, None] - e[..., None, :] for e in (ours, theirs))
    assert np.all(abs(gaps - others) <= DIFFERENCE * (1 + abs(others)))


def assert_same_weights(ours: Any, theirs: Any, log_evidence: Any) -> None:
    """A log weight moves by the mean of the differences' errors; none lets a zero be positive."""
    gaps = abs(log_evidence[..., :, None] - log_evidence[..., None, :])
    allowed = DIFFERENCE * np.sum((1 + gaps) * theirs[..., None, :], axis=-1) + 1e-15
    assert np.all(abs(ours - theirs) <= theirs * allowed + 1e-307)
    np.testing.assert_allclose(ours.sum(axis=-1), 1.0, rtol=1e-12)


def assert_same_moments(ours: Any, theirs: Any) -> None:
    for name in ("component_mean", "component_covariance", "mean", "covariance"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8, err_msg=name)


def assert_same(ours: Any, theirs: Any) -> None:
    """Two beliefs under the same prior, by everything that can be read from them."""
    evidence = theirs.log_evidence
    assert_same_evidence(ours.log_evidence, evidence)
    assert_same_weights(ours.weights, theirs.weights, evidence)
    assert_same_moments(ours, theirs)
