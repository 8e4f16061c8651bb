"""Inequalities of proofs, with both sides measured, and those of the proof of Theorem 1."""

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
N_EQUAL = 3.0
"""Two sides of an identity agree if they differ by at most this many standard errors."""
CHANCE = 0.05
"""Probability that chance alone refutes one of several claims that are judged together."""

_ROUNDING = 1e-9
"""Relative difference up to which two sides count as equal."""


class PriorScales(NamedTuple):
    """The properties of a prior on which the proof's bounds depend.

    Attributes
    ----------
    n_features : int
        Number of features, d.
    noise_std : float
        Standard deviation of the reward noise, sigma.
    variances : (L,) array
        lambda_s, the largest eigenvalue of each component's covariance.
    precision_traces : (L,) array
        tr(Sigma_0,s^-1); infinite for a singular covariance.

    Examples
    --------
    >>> import mixts
    >>> from mixts.diagnostics import PriorScales
    >>> means, variances = [[1, 0], [0, 1]], [0.1, 0.2]
    >>> family = mixts.LinearGaussian(means, variances, 0.5, covariance_type="spherical")
    >>> scales = PriorScales.of(family)
    >>> scales.variances, scales.max_prior_variance
    (array([0.1, 0.2]), 0.2)
    """

    n_features: int
    noise_std: float
    variances: Float[Array, " L"]
    precision_traces: Float[Array, " L"]

    @classmethod
    def of(cls, family: LinearGaussian) -> Self:
        """Return the properties of a linear family.

        Parameters
        ----------
        family
            The family.

        Returns
        -------
        PriorScales
            Its properties.
        """
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

    The arrays have the runs first. A second axis, if there is one, is cases for each of which the
    claim is made: latent states, pairs of states or groups of rounds.

    Attributes
    ----------
    claim : str
        left <= right, in symbols.
    place : str
        Place in the paper.
    left : array
        Left side of each run (and case).
    right : array
        Right side of each run (and case).
    in_expectation : bool
        Whether the claim is about expectations only, not about every run.
    equality : bool
        Whether the expectations are claimed to be equal.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts.diagnostics import Inequality
    >>> step = Inequality("x <= y", "App. A", left=np.array([1.0, 2.0]), right=np.array([2.0, 2.5]))
    >>> step.holds, step.tightness
    (True, 0.8)
    """

    claim: str
    place: str
    left: Float[Array, "..."]
    right: Float[Array, "..."]
    in_expectation: bool = False
    equality: bool = False

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
        """Whether the claim holds: in every run and case, or in expectation, within errors.

        An expectation may be too large by two standard errors, and equal ones may differ by three;
        where there are several cases, by as many as chance alone exceeds in any of them with
        probability 0.05 (Student's t, Bonferroni), if that is more.
        """
        if not self.in_expectation:
            return self.share == 1
        mean, error = self._excess
        limit = _n_errors(len(self.left), mean.size, N_EQUAL if self.equality else N_ERRORS)
        size = np.abs(self.right).reshape(len(self.right), -1).mean(axis=0)
        far = np.abs(mean) if self.equality else mean
        return bool((far <= limit * error + _ROUNDING * size).all())

    @property
    def deviation(self) -> float:
        """Largest excess of left over right in standard errors, for a claim about expectations.

        Of an equality, the largest difference. Infinite if a side that does not vary is too large.
        """
        mean, error = self._excess
        far = np.abs(mean) if self.equality else mean
        rounding = _ROUNDING * np.abs(self.right).reshape(len(self.right), -1).mean(axis=0)
        far = np.where(np.abs(far) <= rounding, 0.0, far)
        steady = np.copysign(np.inf, far, where=far != 0, out=np.zeros_like(far))
        return float(np.divide(far, error, out=steady, where=error > rounding).max())

    @property
    def _excess(self) -> Estimate:
        """Mean of left - right for each case, and its standard error: infinite for one run."""
        mean, error = estimate((self.left - self.right).reshape(len(self.left), -1))
        return Estimate(mean, np.where(np.isnan(error), np.inf, error))

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


def _n_errors(n_runs: int, n_cases: int, least: float) -> float:
    """Return how many standard errors chance alone may add in one of several cases."""
    if n_cases == 1 or n_runs < 2:
        return least
    from scipy import special  # takes as long to import as all of mixts

    return max(least, float(special.stdtrit(n_runs - 1, 1 - CHANCE / n_cases)))
