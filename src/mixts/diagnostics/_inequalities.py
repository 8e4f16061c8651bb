"""The inequalities of the proof of Theorem 1, with both sides measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float
from mixts.bounds import lemmas, theorem1_bound
from mixts.families import LinearGaussian

if TYPE_CHECKING:
    from mixts.diagnostics.decomposition import Decomposition

N_ERRORS = 2.0
"""A difference of fewer standard errors does not show that an expectation is larger."""

_ROUNDING = 1e-9
"""Relative difference up to which two sides count as equal."""


class PriorScales(NamedTuple):
    """The properties of a prior on which the proof's bounds depend."""

    n_features: int
    noise_std: float
    variances: Float[Array, " L"]
    """lambda_s, the largest eigenvalue of each component's covariance."""
    precision_traces: Float[Array, " L"]
    """tr(Sigma_0,s^-1); infinite for a singular covariance."""

    @classmethod
    def of(cls, family: LinearGaussian) -> Self:
        """Return the properties of a linear family."""
        values = np.maximum(np.linalg.eigvalsh(family.full_covariances()), 0)
        precisions = np.divide(1.0, values, out=np.full_like(values, np.inf), where=values > 0)
        return cls(family.n_features, family.noise_std, values.max(axis=1), precisions.sum(axis=1))

    @property
    def max_prior_variance(self) -> float:
        """lambda_0,max."""
        return float(self.variances.max())


@dataclass(frozen=True, repr=False)
class Inequality:
    """One step of the proof: a sum of each run, and its bound.

    The arrays have the runs first; a second axis, if there is one, is the latent states.
    """

    claim: str
    """left <= right, in symbols."""
    place: str
    """Place in the paper."""
    left: Float[Array, "..."]
    right: Float[Array, "..."]
    in_expectation: bool = False
    """Whether the claim is about expectations only, not about every run."""

    def __post_init__(self) -> None:
        left, right = np.broadcast_arrays(self.left, self.right)
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "right", right)

    @property
    def means(self) -> tuple[Estimate, Estimate]:
        """Averages of left and right over the runs (and states), with standard errors."""
        return _over_runs(self.left), _over_runs(self.right)

    @property
    def share(self) -> float:
        """Share of runs (and states) in which the inequality holds."""
        return float((self.left <= self.right * (1 + _ROUNDING)).mean())

    @property
    def tightness(self) -> float:
        """left / right of the means, for a claim about expectations; else the largest ratio."""
        left, right = self.left, self.right
        if self.in_expectation:
            left, right = left.mean(keepdims=True), right.mean(keepdims=True)
        # 0 <= 0 counts as tight.
        ratio = np.divide(left, right, out=np.where(left > 0, np.inf, 1.0), where=right > 0)
        return float(ratio.max())

    @property
    def holds(self) -> bool:
        """Whether the claim holds: in every run and state, or in expectation, within errors."""
        if not self.in_expectation:
            return self.share == 1
        gap = _over_runs(self.left - self.right)
        return bool(gap.mean <= 0 or gap.mean <= N_ERRORS * gap.error)

    def __repr__(self) -> str:
        left, right = self.means
        verdict = "holds" if self.holds else "fails"
        if not self.in_expectation:
            verdict = f"holds in {self.share:.1%} of all cases"
        return (
            f"{self.claim} ({self.place}): {left.mean:.4g} <= {right.mean:.4g} on average, "
            f"tightness {self.tightness:.3g}, {verdict}"
        )


def inequalities(measured: Decomposition) -> dict[str, Inequality]:
    """Return the steps from the regret to n, d and lambda, by name  [paper: App. A].

    "maxima" and "trace" need not hold: :mod:`mixts.bounds.lemmas` says why.
    """
    scales = measured.scales
    size = (
        measured.n_rounds, scales.n_features, scales.noise_std,
        measured.largest_action, scales.max_prior_variance,
    )  # fmt: skip
    return {
        **_of_expectations(measured, size),
        **_of_norms(measured, size),
        **_of_determinants(measured, size),
    }


Size = tuple[int, int, float, float, float]
"""n, d, sigma, kappa and lambda."""


def _of_expectations(measured: Decomposition, size: Size) -> dict[str, Inequality]:
    n, d, sigma, kappa, variance = size
    n_components = len(measured.scales.variances)
    widths, best_widths = measured.width.sum(axis=1), measured.best_width.sum(axis=1)
    theorem = theorem1_bound(n, d, n_components, sigma, kappa, variance, form="appendix")
    return {
        "regret": Inequality(
            "regret <= the bound of Theorem 1, end of the proof",
            "App. A", measured.regret.sum(axis=1), np.array(theorem), True,
        ),
        "first": Inequality(
            "sum of the first part <= sum_t sigma_t(A_t*, S_*) + kappa sqrt(lambda d / (2 pi))",
            "App. A, Step 1", measured.first.sum(axis=1),
            lemmas.first_part_bound(best_widths, d, kappa, variance), True,
        ),
        "second": Inequality(
            "sum of the second part <= sqrt(2) sum_t sigma_t(A_t, S_t) + 2 sigma sqrt(L n log n) "
            "+ 3 L M",
            "App. A, Step 3", measured.second.sum(axis=1),
            lemmas.second_part_bound(widths, n, d, n_components, sigma, kappa, variance), True,
        ),
    }  # fmt: skip


def _of_norms(measured: Decomposition, size: Size) -> dict[str, Inequality]:
    norms, largest = measured.norm.sum(axis=1), measured.largest_norms
    root = np.sqrt(size[0] * measured.squared_norms.max(axis=1))
    return {
        "widths": Inequality(
            "sum_t sigma_t(A_t, S_t) <= sigma d sqrt(2 c_1 n log(dn))",
            "App. A", measured.width.sum(axis=1), np.array(lemmas.width_sum_bound(*size)),
        ),
        "norms": Inequality(
            "sum_t ||A_t||_{t,S_t} <= sum_t max_s ||A_t||_{t,s}", "App. A", norms, largest
        ),
        "maxima": Inequality(
            "sum_t max_s ||A_t||_{t,s} <= max_s sqrt(n sum_t ||A_t||_{t,s}^2)",
            "App. A", largest, root,
        ),
        "root": Inequality(
            "max_s sqrt(n sum_t ||A_t||_{t,s}^2) <= sigma sqrt(c_1 n d)",
            "App. A", root, np.array(lemmas.norm_sum_bound(*size)),
        ),
    }  # fmt: skip


def _of_determinants(measured: Decomposition, size: Size) -> dict[str, Inequality]:
    n, d, sigma, kappa, _ = size
    ratios, scales = measured.log_determinant_ratios, measured.scales
    return {
        "squares": Inequality(
            "sum_t ||A_t||_{t,s}^2 <= sigma^2 (1 + kappa^2 lambda_s / sigma^2) log det ratio",
            "App. A, Lemma 2", measured.squared_norms,
            lemmas.norm_series_bound(ratios, sigma, kappa, scales.variances),
        ),
        "trace": Inequality(
            "log det ratio <= d log(1 + n kappa^2 / (sigma^2 tr(Sigma_0,s^-1)))",
            "App. A", ratios, lemmas.trace_bound(n, d, sigma, kappa, scales.precision_traces),
        ),
        "determinant": Inequality(
            "log det ratio <= d log(1 + n kappa^2 lambda / (sigma^2 d))",
            "App. A", ratios, np.array(lemmas.log_determinant_bound(*size)),
        ),
    }  # fmt: skip


def _over_runs(values: Float[Array, "..."]) -> Estimate:
    """Average over runs; the states of a run are not independent, so they are averaged first."""
    return estimate(values.reshape(len(values), -1).mean(axis=1))
