"""The regret in two parts, run by run and round by round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float, Int
from mixts.bounds import feature_width
from mixts.diagnostics.decomposition.inequalities import Inequality, PriorScales, inequalities
from mixts.errors import ParameterError
from mixts.simulation.results import Results

Quantity = Literal["first", "second", "sum", "regret", "gap", "width", "best_width"]
"""What is summed over rounds; "sum" is of the two parts, "gap" that less the regret."""


_ROUNDING = 1e-12
"""Relative to sums of some thousand numbers."""


@dataclass(frozen=True, repr=False)
class Decomposition:
    """Both parts of MixTS's regret, and what the proof of Theorem 1 bounds them by.

    With mu_t(a, s) the mean reward of a under component s given the history, the Bayes regret is

        E sum_t (mu_*(A_t*) - mu_t(A_t*, S_*))  +  E sum_t (mu_t(A_t, S_t) - mu_*(A_t)),

    because (A_t*, S_*) and (A_t, S_t) have one law given the history  [paper: Eq. 1]. Run by run
    the two sides differ, by mu_t(A_t, S_t) - mu_t(A_t*, S_*), whose expectation is 0. All is of the
    belief before the round's update. ||a||_{t,s} is the norm of Sigma_{t,s}.
    """

    first: Float[Array, "n_runs n_rounds"]
    """mu_*(A_t*) - mu_t(A_t*, S_*): by how much the best is better than believed."""
    second: Float[Array, "n_runs n_rounds"]
    """mu_t(A_t, S_t) - mu_*(A_t): by how much what is taken is worse than believed."""
    sampled: Int[Array, "n_runs n_rounds"]
    """S_t, the latent state that MixTS drew."""
    norm: Float[Array, "n_runs n_rounds"]
    """||A_t||_{t,S_t}."""
    best_norm: Float[Array, "n_runs n_rounds"]
    """||A_t*||_{t,S_*}."""
    squared_norms: Float[Array, "n_runs L"]
    """sum_t ||A_t||_{t,s}^2, of all rounds, for every latent state."""
    largest_norms: Float[Array, " n_runs"]
    """sum_t max_s ||A_t||_{t,s}."""
    log_determinant_ratios: Float[Array, "n_runs L"]
    """log(det Sigma_{n+1,s}^-1 / det Sigma_0,s^-1), for every latent state."""
    kappa: Float[Array, " n_runs"]
    """The largest norm of any action that was offered in the run."""
    scales: PriorScales
    results: Results
    """The simulation that was followed: regret, reward and true latent states."""

    @property
    def regret(self) -> Float[Array, "n_runs n_rounds"]:
        """mu_*(A_t*) - mu_*(A_t)."""
        return self.results.regret[self.results.agents[0]]

    @property
    def latent(self) -> Int[Array, " n_runs"]:
        """S_*, the true latent state of each run."""
        return self.results.latent

    @property
    def n_rounds(self) -> int:
        """n."""
        return int(self.first.shape[1])

    @property
    def largest_action(self) -> float:
        """The kappa of the proof: the largest norm of any action in any run."""
        return float(self.kappa.max())

    @property
    def width(self) -> Float[Array, "n_runs n_rounds"]:
        """sigma_t(A_t, S_t) = sqrt(2 d log(dn)) ||A_t||_{t,S_t}."""
        return feature_width(self.norm, self.scales.n_features, self.n_rounds)

    @property
    def best_width(self) -> Float[Array, "n_runs n_rounds"]:
        """sigma_t(A_t*, S_*), of the same expectation as ``width``."""
        return feature_width(self.best_norm, self.scales.n_features, self.n_rounds)

    @property
    def gap(self) -> Float[Array, "n_runs n_rounds"]:
        """first + second - regret, whose expectation is 0 in every round."""
        return self.first + self.second - self.regret

    def __repr__(self) -> str:
        s = self.results.settings
        about = {
            "first": "mu_*(A_t*) - mu_t(A_t*, S_*)",
            "second": "mu_t(A_t, S_t) - mu_*(A_t)",
            "sum": "of both parts",
            "regret": "mu_*(A_t*) - mu_*(A_t)",
            "gap": f"sum - regret, {self.deviation:.1f} standard errors from 0",
        }
        rows = []
        for name, text in about.items():
            mean, error = self.total(name)  # type: ignore[arg-type]
            rows.append((name, f"{mean:.2f}", f"± {error:.2f}", text))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"  {name.ljust(widths[0])}  {mean.rjust(widths[1])} {error.ljust(widths[2])}  {text}"
            for name, mean, error, text in rows
        ]
        head = (
            f"Decomposition of the regret of {s['n_runs']} runs of {s['n_rounds']} rounds, "
            f"seed {s['seed']}"
        )
        return "\n".join([head, *lines])

    # -- sums ---------------------------------------------------------------------------------

    def total(self, quantity: Quantity) -> Estimate:
        """The mean over runs of the sum over rounds, and its standard error."""
        return estimate(self._of(quantity).sum(axis=1))

    def curve(self, quantity: Quantity) -> Estimate:
        """Means over runs of the sum up to each round, and standard errors, (n_rounds,)."""
        return estimate(np.cumsum(self._of(quantity), axis=1))

    @property
    def deviation(self) -> float:
        """The mean of the gap in its standard errors: a standard normal number, if Eq. 1 holds.

        NaN for a single run, 0 where the sides differ by no more than rounding.
        """
        return _deviation(self.total("gap"), np.abs(self.regret).sum(axis=1).mean())

    @property
    def width_deviation(self) -> float:
        """The same of the widths of (A_t, S_t) less those of (A_t*, S_*), equal in expectation."""
        gap = estimate((self.width - self.best_width).sum(axis=1))
        return _deviation(gap, self.width.sum(axis=1).mean())

    def inequalities(self) -> dict[str, Inequality]:
        """The steps of the proof, by name, with both sides measured."""
        return inequalities(self)

    def _of(self, quantity: Quantity) -> Float[Array, "n_runs n_rounds"]:
        if quantity not in get_args(Quantity):
            raise ParameterError(f"expected one of {get_args(Quantity)}, got {quantity!r}")
        if quantity == "sum":
            return self.first + self.second
        return np.asarray(getattr(self, quantity))


def _deviation(gap: Estimate, size: float) -> float:
    """``size`` is that of the sums whose difference it is."""
    if abs(gap.mean) <= _ROUNDING * size:
        return 0.0
    return math.copysign(math.inf, gap.mean) if gap.error == 0 else float(gap.mean / gap.error)
