"""The sets C_t of latent states that have not been found to promise too much, for any eta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ParameterError
from mixts.simulation.results import Results

PROOFS_ETA = math.sqrt(2)
"""The factor on the text's widths with which both proofs define G_t."""


class Threshold(NamedTuple):
    """The eta below which sets begin to lose a state, and where they do."""

    eta: float
    """The state is lost at every smaller eta, at this one and larger ones none is. Infinite where a
    component that leaves nothing to learn is refuted; negative where no eta at all loses one."""
    error: float
    """The standard error of eta, from means that were sampled; 0 where they are exact."""
    run: int
    round: int
    """The set lost the state in this round, counted from 0; ``n_rounds`` is after the last."""
    state: int


@dataclass(frozen=True, repr=False)
class ConfidenceSets:
    """What MixTS promised and got in every round of every run, and the sets that follow from it.

    With N_t(s) the number of rounds before t in which s was sampled, the sets are
    C_t = {s: G_t(s) <= r sqrt(N_t(s))} with the total excess over what s promised,
    G_t(s) = sum_{l<t} 1{S_l = s} (mu_l(A_l, s) - eta sigma_l(A_l, s) - Y_l)
    [paper: Sec. 4.1]. Everything is of the belief before the round's update. G_t is linear in eta,
    so one simulation serves every eta: each method takes it, and the default is the proofs' sqrt 2.

    Arrays over time have ``n_rounds + 1`` entries: that of a round is before it, the last after all
    of them.
    """

    sampled: Int[Array, "n_runs n_rounds"]
    """S_t, the latent state that MixTS drew."""
    excess: Float[Array, "n_runs n_rounds"]
    """mu_t(A_t, S_t) - Y_t: the mean reward (or value) under the sampled state, less the reward."""
    width: Float[Array, "n_runs n_rounds"]
    """sigma_t(A_t, S_t), or in an episode h times the sum of c_t + phi_t along its steps: what
    Lemma 6 adds up."""
    error: Float[Array, "n_runs n_rounds"]
    """The standard error of ``excess`` where its mean was sampled, 0 where it is exact."""
    radius_factor: float
    """r: the radius of the set is r sqrt(N_t(s))."""
    n_components: int
    results: Results
    """The simulation that was followed: regret, reward and true latent states."""

    @property
    def latent(self) -> Int[Array, " n_runs"]:
        """S_*, the true latent state of each run."""
        return self.results.latent

    def __repr__(self) -> str:
        n_runs, n_rounds = self.sampled.shape
        lines = [
            f"ConfidenceSets of {n_runs} runs of {n_rounds} rounds, "
            f"{self.n_components} latent states"
        ]
        for what, threshold in (("exclude a", self.exclusion), ("miss the true", self.miss)):
            eta, error, run, t, state = threshold
            about = f" ± {error:.2g}" if error else ""
            where = (
                f" (state {state} in round {t} of run {run})" if eta > 0 else ": never for eta > 0"
            )
            lines.append(f"  {what} state below eta {eta:.4g}{about}{where}")
        return "\n".join(lines)

    # -- sums over time -----------------------------------------------------------------------

    def _totals(self, values: Array) -> Array:
        """The sum of a round's values over the rounds before t in which s was sampled."""
        n_runs, n_rounds = self.sampled.shape
        totals = np.zeros((n_runs, n_rounds + 1, self.n_components), values.dtype)
        np.put_along_axis(totals[:, 1:], self.sampled[..., None], values[..., None], axis=2)
        return np.cumsum(totals, axis=1, out=totals)

    @property
    def counts(self) -> Int[Array, "n_runs times L"]:
        """N_t(s): how often s was sampled before t  [paper: Sec. 4.1]."""
        return self._totals(np.ones_like(self.sampled))

    @property
    def total_excess(self) -> Float[Array, "n_runs times L"]:
        """The excess that does not depend on eta: G_t(s) at eta = 0."""
        return self._totals(self.excess)

    @property
    def total_width(self) -> Float[Array, "n_runs times L"]:
        """What G_t(s) loses by one more eta."""
        return self._totals(self.width)

    @property
    def total_error(self) -> Float[Array, "n_runs times L"]:
        """The standard error of ``total_excess``, and so of G_t(s)."""
        return np.sqrt(self._totals(self.error**2))

    @property
    def radius(self) -> Float[Array, "n_runs times L"]:
        """r sqrt(N_t(s)), what the noise of the rewards explains."""
        return self.radius_factor * np.sqrt(self.counts)

    # -- sets ---------------------------------------------------------------------------------

    def gap(self, eta: float = PROOFS_ETA) -> Float[Array, "n_runs times L"]:
        """G_t(s), the total excess  [paper: Sec. 4.1]."""
        return self.total_excess - _checked(eta) * self.total_width

    def contains(self, eta: float = PROOFS_ETA) -> Bool[Array, "n_runs times L"]:
        """Whether s is in C_t."""
        return self.gap(eta) <= self.radius

    def excluded(self, eta: float = PROOFS_ETA) -> Bool[Array, "n_runs L"]:
        """Whether s was ever outside the set."""
        return np.asarray((~self.contains(eta)).any(axis=1))

    def missed(self, eta: float = PROOFS_ETA) -> Bool[Array, " n_runs"]:
        """Whether the true latent state was ever outside the set.

        The proofs bound the probability of that in a round by 2 L / n for linear bandits
        [paper: Lemma 3], from that of a parameter far from its mean and that of noise
        [paper: Eq. 10], and by 2 L h / n for MDPs  [paper: Lemma 7].
        """
        return self._of_truth(self.excluded(eta))

    def sweep(self, etas: ArrayLike) -> dict[str, Array]:
        """What becomes of the sets as eta falls: a table as columns, a row for each eta.

        ``excluded`` and ``missed`` are the shares of runs in which any state, and the true one, is
        ever outside. ``size`` is the mean number of states in the set of a round, and
        ``missed_rounds`` the mean over runs of the number of rounds without the true state, which
        the proofs want bounded.
        """
        column = np.atleast_1d(_checks.numbers(etas, "etas must be numbers", ParameterError))
        excess, width, radius = self.total_excess, self.total_width, self.radius
        rows = []
        for eta in column.tolist():
            outside = excess - _checked(eta) * width > radius
            ever, now = np.asarray(outside.any(axis=1)), outside[:, :-1]
            truth = np.take_along_axis(now, self.latent[:, None, None], axis=2)
            rows.append(
                (
                    ever.any(axis=1).mean(),
                    self._of_truth(ever).mean(),
                    self.n_components - now.sum(axis=2).mean(),
                    truth.sum(axis=(1, 2)).mean(),
                )
            )
        names = ("excluded", "missed", "size", "missed_rounds")
        columns = np.array(rows, float).reshape(-1, len(names)).T
        return {"eta": column, **dict(zip(names, columns, strict=True))}

    def _of_truth(self, table: Array) -> Array:
        return np.take_along_axis(table, self.latent[:, None], axis=1)[:, 0]

    # -- where sets begin to lose states ------------------------------------------------------

    def _limits(self) -> Float[Array, "n_runs times L"]:
        """s is outside C_t at every eta below this, and at no other."""
        slack, width = self.total_excess - self.radius, self.total_width
        certain = np.where(slack > 0, np.inf, -np.inf)
        return np.divide(slack, width, out=certain, where=width > 0)

    @property
    def thresholds(self) -> Float[Array, "n_runs L"]:
        """Below it s is excluded at some time in the run; at it, and above it, never."""
        return self._limits().max(axis=1)

    @property
    def exclusion(self) -> Threshold:
        """The largest eta at which any state is ever excluded, and where that is."""
        return self._threshold(np.ones((len(self.latent), self.n_components), bool))

    @property
    def miss(self) -> Threshold:
        """The largest eta at which the true latent state is ever missed, and where that is."""
        return self._threshold(self.latent[:, None] == np.arange(self.n_components))

    def _threshold(self, states: Bool[Array, "n_runs L"]) -> Threshold:
        limits = np.where(states[:, None], self._limits(), -np.inf)
        run, t, state = (int(i) for i in np.unravel_index(np.argmax(limits), limits.shape))
        eta, width = float(limits[run, t, state]), float(self.total_width[run, t, state])
        error = float(self.total_error[run, t, state]) / width if width > 0 else 0.0
        return Threshold(eta, error, run, t, state)


def _checked(eta: Any) -> float:
    number = isinstance(eta, (int, float, np.integer, np.floating)) and not isinstance(eta, bool)
    if not number or not math.isfinite(eta):
        raise ParameterError(f"eta must be a finite number, got {eta!r}")
    return float(eta)
