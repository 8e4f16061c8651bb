"""Comparison of a belief with a reference.

The project's tolerances: log evidence within 1e-9 max(1, |value|); differences between components,
which is what weights need, within 1e-8 (1 + |difference|). Comparisons are made in exact
arithmetic, so the tolerance is spent by the library alone.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from tests.oracles.references import MixtureReference, exact

EVIDENCE = Decimal("1e-9")
DIFFERENCE = Decimal("1e-8")
ROUNDING = Decimal("4.5e-16")  # two units in the last place: a float cannot say more
SMALLEST = Decimal("1e-307")  # below it floats lose digits

ORDINARY = Decimal("1e-10")
"""Posterior moments where nothing is extreme, in posterior standard deviations (means) and as a
fraction (variances): n times prior variance over noise variance is below 1e5 or so, and rounding
is amplified by no more than that."""

EXTREME = Decimal("1e-6")
"""The same for the extremes: what shows only after some 1e12 samples."""


def evidence_error(values: Any, reference: Any) -> Decimal:
    """The worst error of log evidences, in units of the tolerance."""
    return max(
        abs(value - truth) / (EVIDENCE * max(Decimal(1), abs(truth)))
        for value, truth in zip(exact(values), reference, strict=True)
    )


def difference_error(values: Any, reference: Any) -> Decimal:
    """The worst error of differences between components, in units of the tolerance."""
    ours = np.subtract.outer(exact(values), exact(values))
    truth = np.subtract.outer(reference, reference)
    return np.max(abs(ours - truth) / (DIFFERENCE * (1 + abs(truth))))


def weights_error(values: Any, reference: MixtureReference) -> Decimal:
    """The worst relative error of weights, in units of what the differences' tolerance allows.

    `log w_s = -log sum_r exp(score_r - score_s)` moves by the w-weighted mean of the differences'
    errors.
    """
    gaps = abs(np.subtract.outer(reference.log_evidence, reference.log_evidence))
    allowed = DIFFERENCE * ((1 + gaps) @ reference.weights) + ROUNDING
    error = abs(exact(values) - reference.weights)
    return np.max(error / (reference.weights * allowed + SMALLEST))


def deviations(covariance: Any) -> Any:
    """Standard deviations; a zero variance may come out of fifty digits as minus nothing."""
    return np.array([max(c, Decimal(0)).sqrt() for c in np.diagonal(covariance)], dtype=object)


def mean_error(mean: Any, truth: Any, covariance: Any, shift: Decimal = ORDINARY) -> Decimal:
    """The worst error of a mean, in units of ``shift`` standard deviations (and of rounding)."""
    allowed = shift * deviations(covariance) + 100 * ROUNDING * max(abs(truth)) + SMALLEST
    return np.max(abs(exact(mean) - truth) / allowed)


def covariance_error(
    covariance: Any, truth: Any, shift: Decimal = ORDINARY, floor: float = 0.0
) -> Decimal:
    """The worst error of a covariance, in units of ``shift`` times the product of deviations.

    ``floor`` is the variance that a direction without any may come out with.
    """
    scales = deviations(truth)
    allowed = shift * np.multiply.outer(scales, scales) + Decimal(floor) + SMALLEST
    return np.max(abs(exact(covariance) - truth) / allowed)


def errors(
    belief: Any, reference: MixtureReference, shift: Decimal = ORDINARY, floor: float = 0.0
) -> dict[str, Decimal]:
    """Every error of a one-task belief, each in units of its tolerance."""
    means, covariances = belief.component_mean, belief.component_covariance
    assert means.shape == reference.component_mean.shape
    assert covariances.shape == reference.component_covariance.shape
    truths = list(zip(reference.component_mean, reference.component_covariance, strict=True))
    return {
        "log evidence": evidence_error(belief.log_evidence, reference.log_evidence),
        "differences": difference_error(belief.log_evidence, reference.log_evidence),
        "weights": weights_error(belief.weights, reference),
        "component mean": max(
            mean_error(m, *truth, shift) for m, truth in zip(means, truths, strict=True)
        ),
        "component covariance": max(
            covariance_error(c, truth[1], shift, floor)
            for c, truth in zip(covariances, truths, strict=True)
        ),
        "mean": mean_error(belief.mean, reference.mean, reference.covariance, shift),
        "covariance": covariance_error(belief.covariance, reference.covariance, shift, floor),
    }


def assert_agrees(
    belief: Any, reference: MixtureReference, shift: Decimal = ORDINARY, floor: float = 0.0
) -> None:
    """Every number of the belief within its tolerance; failures show how many times over."""
    found = errors(belief, reference, shift, floor)
    beyond = {name: f"{error:.3g}" for name, error in found.items() if error > 1}
    assert not beyond, f"errors in units of their tolerances: {beyond}"
