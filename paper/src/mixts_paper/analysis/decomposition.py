"""The regret decomposition of the paper's proofs, measured in simulations.

The Bayes regret is the sum of two expectations: by how much the best action is
better than believed, and by how much the chosen action is worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts import MixturePrior
from mixts.environments import BanditEnvironment, BanditProblem
from mixts.errors import ParameterError
from mixts.extend import Array, Estimate, Float, estimate
from mixts.families import Family
from mixts.simulation import Round
from mixts_paper.analysis.inequalities import (
    ActionObserver,
    ActionRecorder,
    Inequality,
    MeasuredRegret,
    play,
)
from mixts_paper.bounds import feature_width, lemmas, theorem1

_ROUNDING = 1e-12
"""Relative rounding error of sums of some thousand numbers."""


@dataclass(frozen=True, repr=False)
class Decomposition(MeasuredRegret):
    """Both parts of MixTS's regret, and the sums by which the proof of Theorem 1 bounds them.

    With mu_t(a, s) the mean reward of a under component s given the history, the Bayes regret is

        E sum_t (mu_*(A_t*) - mu_t(A_t*, S_*))  +  E sum_t (mu_t(A_t, S_t) - mu_*(A_t)),

    because (A_t*, S_*) and (A_t, S_t) have the same law given the history  [paper: Eq. 1]. Run by
    run the two sides differ, by mu_t(A_t, S_t) - mu_t(A_t*, S_*), whose expectation is 0. All
    numbers are of the belief before the round's update. ||a||_{t,s} is the norm of Sigma_{t,s}.

    Attributes
    ----------
    first : (n_runs, n_rounds) array
        mu_*(A_t*) - mu_t(A_t*, S_*): by how much the best action is better than believed.
    second : (n_runs, n_rounds) array
        mu_t(A_t, S_t) - mu_*(A_t): by how much the chosen action is worse than believed.
    sampled : (n_runs, n_rounds) array of int
        S_t, the latent state that MixTS drew.
    norm : (n_runs, n_rounds) array
        ||A_t||_{t,S_t}.
    best_norm : (n_runs, n_rounds) array
        ||A_t*||_{t,S_*}.
    squared_norms : (n_runs, L) array
        sum_t ||A_t||_{t,s}^2, over all rounds, for every latent state.
    largest_norms : (n_runs,) array
        sum_t max_s ||A_t||_{t,s}.
    log_determinant_ratios : (n_runs, L) array
        log(det Sigma_{n+1,s}^-1 / det Sigma_0,s^-1), for every latent state.
    kappa : (n_runs,) array
        Largest norm of an action on offer in the run.
    prior : MixturePrior
        The prior of MixTS.
    results : Results
        Results of the simulation: regret, reward and true latent states.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper.analysis import decompose_regret
    >>> prior = mixts.MixturePrior(mixts.GaussianArms([[1, 0], [0, 1]], [[0.1, 0.1]] * 2, 0.5))
    >>> parts = decompose_regret(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> parts.first.shape
    (20, 50)
    >>> abs(parts.deviation) < 3  # standard errors between the two sides of Eq. 1
    True
    """

    first: Float[Array, "n_runs n_rounds"]
    second: Float[Array, "n_runs n_rounds"]
    norm: Float[Array, "n_runs n_rounds"]
    best_norm: Float[Array, "n_runs n_rounds"]
    squared_norms: Float[Array, "n_runs L"]
    largest_norms: Float[Array, " n_runs"]
    log_determinant_ratios: Float[Array, "n_runs L"]

    @property
    def n_features(self) -> int:
        """d, the number of features, or of arms."""
        return self.prior.family.to_linear().n_features

    @property
    def width(self) -> Float[Array, "n_runs n_rounds"]:
        """sigma_t(A_t, S_t) = sqrt(2 d log(dn)) ||A_t||_{t,S_t}."""
        return feature_width(self.norm, self.n_features, self.n_rounds)

    @property
    def best_width(self) -> Float[Array, "n_runs n_rounds"]:
        """sigma_t(A_t*, S_*), whose expectation is that of ``width``."""
        return feature_width(self.best_norm, self.n_features, self.n_rounds)

    @property
    def gap(self) -> Float[Array, "n_runs n_rounds"]:
        """first + second - regret, whose expectation is 0 in every round."""
        return self.first + self.second - self.regret

    @property
    def sum(self) -> Float[Array, "n_runs n_rounds"]:
        """first + second."""
        return self.first + self.second

    def __repr__(self) -> str:
        about = {"first": "", "second": "", "sum": "", "regret": ""}
        gap = f", {self.deviation:.1f} standard errors from 0"
        return self._table("Decomposition of the regret", {**about, "gap": gap})

    def curve(self, quantity: str) -> Estimate:
        """Return means over runs of the sum up to each round, and standard errors.

        Parameters
        ----------
        quantity
            "first", "second", "sum", "regret", "gap", "width" or "best_width".

        Returns
        -------
        Estimate
            Means and standard errors, each (n_rounds,).
        """
        return estimate(np.cumsum(getattr(self, quantity), axis=1))

    @property
    def deviation(self) -> float:
        """Mean of the gap, divided by its standard error: standard normal if Eq. 1 holds.

        NaN for a single run, 0 where the two sides differ only by rounding.
        """
        return _deviation(self.total("gap"), np.abs(self.regret).sum(axis=1).mean())

    def inequalities(self) -> dict[str, Inequality]:
        """Return the steps of the proof by name, with both sides measured."""
        return _inequalities(self)


def _deviation(gap: Estimate, size: float) -> float:
    """Return the gap in standard errors; ``size`` is the size of the sums that it compares."""
    if abs(gap.mean) <= _ROUNDING * size:
        return 0.0
    return math.copysign(math.inf, gap.mean) if gap.error == 0 else float(gap.mean / gap.error)


# -- simulation -----------------------------------------------------------------------------------


def decompose_regret(
    prior: MixturePrior,
    environment: BanditEnvironment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    **options: Any,
) -> Decomposition:
    """Play MixTS and measure the two expectations whose sum is its Bayes regret  [paper: Eq. 1].

    The runs are, to the bit, those of ``simulate({"MixTS": prior}, environment, n_rounds, n_runs,
    seed)``. All numbers are exact. Linear families take long: every component's posterior is
    computed in each round.

    Parameters
    ----------
    prior
        Prior of :class:`GaussianArms` (the linear bandit of the unit vectors) or
        :class:`LinearGaussian`. Its components are the environment's latent states.
    environment, n_rounds, n_runs, seed
        As in :func:`mixts.simulate`.
    options
        Other options of :func:`mixts.simulate`, such as ``block_size`` and ``engine``; one process
        plays unless an engine is given.

    Returns
    -------
    Decomposition
        Both parts of the regret, round by round.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper.analysis import decompose_regret
    >>> prior = mixts.MixturePrior(mixts.GaussianArms([[1, 0], [0, 1]], [[0.1, 0.1]] * 2, 0.5))
    >>> parts = decompose_regret(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> mean, error = parts.total("first")
    >>> print(f"{mean:.2f} ± {error:.2f}")
    0.61 ± 1.22
    """
    observer = DecompositionObserver(prior)
    return Decomposition.of(prior, play(observer, environment, (n_rounds, n_runs, seed), **options))


def _check_linear(prior: Any) -> None:
    """Raise an error for a prior for which the proofs do not define everything."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    if prior.family.common_noise is None or prior.family.plans:
        raise ParameterError(
            "regret is decomposed for linear bandits: the prior must be of GaussianArms or "
            f"LinearGaussian, got {prior.family!r}"
        )


class PartsRecorder(ActionRecorder):
    """Recorder of the two parts of each round's regret, and of the norms that the proof sums up.

    Eq. 1 adds and subtracts mu_t(A_t*, S_*) = mu_t(A_t, S_t), which are equal in expectation given
    the history: the true best action with the true state, and the action taken with the state
    sampled, have the same law  [paper: Eq. 1].
    """

    def __init__(self, family: Family, problem: BanditProblem) -> None:
        super().__init__(family, problem)
        self._squared_norms = np.zeros((len(problem.latent), family.n_components))
        self._largest_norms = np.zeros(len(problem.latent))

    def measure(self, round_: Round) -> dict[str, Array]:
        problem, sampled, rows = self._problem, round_.sampled, np.arange(len(round_.sampled))
        best, means, latent = problem.best_action, problem.means, problem.latent
        mean, variance = self.moments(round_, best)
        self._squared_norms += variance[:, 0]
        self._largest_norms += np.sqrt(variance[:, 0].max(axis=1))
        return {
            "sampled": sampled,
            "first": means[rows, best] - mean[rows, 1, latent],
            "second": mean[rows, 0, sampled] - means[rows, round_.chosen],
            "norm": np.sqrt(variance[rows, 0, sampled]),
            "best_norm": np.sqrt(variance[rows, 1, latent]),
        }

    def arrays(self) -> dict[str, Array]:
        """Return the parts of each round, and the sums over all rounds."""
        return {
            **super().arrays(),
            "squared_norms": self._squared_norms,
            "largest_norms": self._largest_norms,
            "log_determinant_ratios": self.log_determinant_ratios(),
        }


class DecompositionObserver(ActionObserver):
    """Observer of MixTS that records both parts of the regret."""

    recorder = PartsRecorder

    def __init__(self, prior: MixturePrior) -> None:
        _check_linear(prior)
        super().__init__(prior)


# -- steps of the proof of Theorem 1 ---------------------------------------------------------------


def _inequalities(measured: Decomposition) -> dict[str, Inequality]:
    """Return the steps from the regret to n, d and lambda, by name  [paper: App. A].

    "maxima" and "trace" need not hold: :mod:`mixts_paper.bounds.lemmas` says why.
    """
    family = measured.prior.family.to_linear()
    values = np.maximum(np.linalg.eigvalsh(family.full_covariances()), 0)
    # Infinite where something is known exactly.
    precisions = np.divide(1.0, values, out=np.full_like(values, np.inf), where=values > 0)
    kappa = float(measured.kappa.max())
    size = (measured.n_rounds, family.n_features, family.noise_std, kappa, float(values.max()))
    return {
        **_of_expectations(measured, size),
        **_of_norms(measured, size),
        **_of_determinants(measured, size, values.max(axis=1), precisions.sum(axis=1)),
    }


Size = tuple[int, int, float, float, float]
"""n, d, sigma, kappa and lambda."""


def _of_expectations(measured: Decomposition, size: Size) -> dict[str, Inequality]:
    n, d, sigma, kappa, variance = size
    n_components = measured.prior.n_components
    widths, best_widths = measured.width.sum(axis=1), measured.best_width.sum(axis=1)
    theorem = theorem1(n, d, n_components, sigma, kappa, variance, form="appendix")
    return {
        "regret": Inequality(
            "regret ≤ the bound of Theorem 1, end of the proof",
            "App. A", measured.regret.sum(axis=1), np.array(theorem), True,
        ),
        "first": Inequality(
            "sum of the first part ≤ Σ_t σ_t(A_t,*, S_*) + κ √(λ d / (2π))",
            "App. A, Step 1", measured.first.sum(axis=1),
            lemmas.first_part_bound(best_widths, d, kappa, variance), True,
        ),
        "second": Inequality(
            "sum of the second part ≤ √2 Σ_t σ_t(A_t, S_t) + 2 σ √(L n log n) "
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
            "Σ_t σ_t(A_t, S_t) ≤ σ d √(2 c₁ n log(dn))",
            "App. A", measured.width.sum(axis=1), np.array(lemmas.width_sum_bound(*size)),
        ),
        "norms": Inequality(
            "Σ_t ||A_t||_t,S_t ≤ Σ_t max_s ||A_t||_t,s", "App. A", norms, largest
        ),
        "maxima": Inequality(
            "Σ_t max_s ||A_t||_t,s ≤ max_s √(n Σ_t ||A_t||_t,s²)",
            "App. A", largest, root,
        ),
        "root": Inequality(
            "max_s √(n Σ_t ||A_t||_t,s²) ≤ σ √(c₁ n d)",
            "App. A", root, np.array(lemmas.norm_sum_bound(*size)),
        ),
    }  # fmt: skip


def _of_determinants(
    measured: Decomposition, size: Size, variances: Array, precision_traces: Array
) -> dict[str, Inequality]:
    (n, d, sigma, kappa, _), ratios = size, measured.log_determinant_ratios
    return {
        "squares": Inequality(
            "Σ_t ||A_t||_t,s² ≤ σ² (1 + κ² λ_s / σ²) log det Σ₀,s/Σ_n+1,s",
            "App. A, Lemma 2", measured.squared_norms,
            lemmas.norm_series_bound(ratios, sigma, kappa, variances),
        ),
        "trace": Inequality(
            "log det Σ₀,s/Σ_n+1,s ≤ d log(1 + n κ² / (σ² tr(Σ₀,s⁻¹)))",
            "App. A", ratios, lemmas.trace_bound(n, d, sigma, kappa, precision_traces),
        ),
        "determinant": Inequality(
            "log det Σ₀,s/Σ_n+1,s ≤ d log(1 + n κ² λ / (σ² d))",
            "App. A", ratios, np.array(lemmas.log_determinant_bound(*size)),
        ),
    }  # fmt: skip
