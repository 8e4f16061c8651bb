"""Steps of a proof as inequalities with measured sides, and the recorder that measures them.

The bounds of the paper and those that know the latent prior are proved in steps. Each step is an
inequality between sums over rounds, and simulations of MixTS measure both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mixts import MixturePrior
from mixts.environments import BanditProblem, Environment, Problem
from mixts.errors import ParameterError
from mixts.extend import Array, ArrayLike, Estimate, Float, Int, estimate
from mixts.families import Family, GaussianArms
from mixts.simulation import Observer, Results, Round, RoundRecorder, check_latent, simulate
from mixts_paper.bounds.comparison import N_ERRORS

N_EQUAL = 3.0
"""Two sides of an identity agree if they differ by at most this many standard errors."""
CHANCE = 0.05
"""Probability that chance alone refutes one of several claims that are judged together."""

_ROUNDING = 1e-9
"""Relative difference up to which two sides count as equal."""


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
    >>> from mixts_paper.analysis import Inequality
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
        far, error, rounding = self._excess
        limit = N_EQUAL if self.equality else N_ERRORS
        if far.size > 1 and len(self.left) > 1:
            limit = max(limit, float(chance_errors(len(self.left), far.size)))
        return bool((far <= limit * error + rounding).all())

    @property
    def deviation(self) -> float:
        """Largest excess of left over right in standard errors, for a claim about expectations.

        Of an equality, the largest difference. Infinite if a side that does not vary is too large.
        """
        far, error, rounding = self._excess
        far = np.where(np.abs(far) <= rounding, 0.0, far)
        steady = np.copysign(np.inf, far, where=far != 0, out=np.zeros_like(far))
        return float(np.divide(far, error, out=steady, where=error > rounding).max())

    @property
    def _excess(self) -> tuple[Array, Array, Array]:
        """For each case: mean of left - right, its standard error, and the limit of rounding.

        Of an equality, the distance between the means. The error of a single run is infinite.
        """
        mean, error = estimate((self.left - self.right).reshape(len(self.left), -1))
        rounding = _ROUNDING * np.abs(self.right).reshape(len(self.right), -1).mean(axis=0)
        far = np.abs(mean) if self.equality else mean
        return far, np.where(np.isnan(error), np.inf, error), rounding

    def __repr__(self) -> str:
        left, right = self.means
        verdict = "holds" if self.holds else "fails"
        if not self.in_expectation:
            verdict = f"holds in {self.share:.1%} of all cases"
        return (
            f"{self.claim} ({self.place}): {left.mean:.4g} <= {right.mean:.4g} on average, "
            f"tightness {self.tightness:.3g}, {verdict}"
        )


def _over_runs(values: Float[Array, "..."]) -> Estimate:
    """Average over runs; the states of a run are not independent, so they are averaged first."""
    return estimate(values.reshape(len(values), -1).mean(axis=1))


def chance_errors(n_runs: ArrayLike, n_cases: int) -> Any:
    """Return how many standard errors chance alone exceeds in one of several cases.

    That happens with probability ``CHANCE`` at most (Student's t, Bonferroni). NaN for one run.
    """
    from scipy import special  # takes as long to import as all of mixts

    return special.stdtrit(np.asarray(n_runs, float) - 1, 1 - CHANCE / max(n_cases, 1))


# -- measurements ----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MeasuredRegret:
    """Measurements of MixTS in a simulation; derived classes say of what."""

    kappa: Float[Array, " n_runs"]
    sampled: Int[Array, "n_runs n_rounds"]
    prior: MixturePrior
    results: Results

    @classmethod
    def of(cls, prior: MixturePrior, results: Results) -> Self:
        """Return the measurements from the results of a simulation that was observed.

        Parameters
        ----------
        prior
            The prior of MixTS.
        results
            Results of a simulation that an observer of this kind observed.
        """
        (observed,) = results.observed.values()
        return cls(**observed, prior=prior, results=results)

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
        """Number of rounds, n."""
        return int(self.regret.shape[1])

    def total(self, quantity: str) -> Estimate:
        """Return the mean over runs of a sum over rounds, and its standard error.

        Parameters
        ----------
        quantity
            Name of an array over rounds, such as "regret".

        Returns
        -------
        Estimate
            Mean and standard error.
        """
        return estimate(np.asarray(getattr(self, quantity)).sum(axis=1))

    def _table(self, head: str, rows: Mapping[str, str]) -> str:
        """Return the totals of quantities, each with a remark, as text."""
        s = self.results.settings
        lines = [f"{head} of {s['n_runs']} runs of {s['n_rounds']} rounds, seed {s['seed']}"]
        for name, remark in rows.items():
            mean, error = self.total(name)
            lines.append(f"  {name}: {mean:.2f} ± {error:.2f}{remark}")
        return "\n".join(lines)


class ActionRecorder(RoundRecorder):
    """Recorder of the moments of taken actions under every component.

    Parameters
    ----------
    family
        Family of MixTS's prior.
    problem
        What the environment drew for the block of runs.
    """

    def __init__(self, family: Family, problem: BanditProblem) -> None:
        super().__init__()
        self._family, self._problem = family, problem
        self._kappa = np.zeros(len(problem.latent))
        self._final: Any = None

    def moments(
        self, round_: Round, other: Int[Array, " n"]
    ) -> tuple[Float[Array, "n 2 L"], Float[Array, "n 2 L"]]:
        """Return mean and variance of the mean rewards of the action taken and of another one.

        The largest norm of an action on offer is kept; arms have norm 1.
        """
        index = np.stack([round_.chosen, other], axis=1)
        sets = round_.choices.actions
        if sets is None:
            self._kappa[:] = 1.0
            return self._family.reward_moments(round_.belief.statistics, index)
        largest = np.linalg.norm(sets, axis=-1).max(axis=-1)
        np.maximum(self._kappa, largest, out=self._kappa)
        # Action sets are shared by all runs, or each run has its own.
        actions = sets[index] if sets.ndim == 2 else sets[np.arange(len(index))[:, None], index]
        return self._family.reward_moments(round_.belief.statistics, actions)

    def log_determinant_ratios(self) -> Float[Array, "n L"]:
        """Return log(det Sigma_{n,s}^-1 / det Sigma_0,s^-1) after the last round.

        It is ln det(I + Sigma_0 V / sigma^2) with the sum V of x x' over the rows taken, so that no
        covariance is inverted; of arms all these matrices are diagonal.
        """
        family, statistics = self._family, self._final.statistics
        if isinstance(family, GaussianArms):
            ratio = family.variance / family.noise_std**2
            return np.log1p(statistics.pulls[:, None] * ratio).sum(axis=2)
        linear, root = family.to_linear(), statistics.array("factor")[:, :-1, :-1]
        squares = np.swapaxes(root, 1, 2) @ root
        learned = linear.full_covariances() @ (squares[:, None] / linear.noise_std**2)
        return np.linalg.slogdet(np.eye(linear.n_features) + learned).logabsdet

    def after_update(self, round_: Round) -> None:
        self._final = round_.belief

    def arrays(self) -> dict[str, Array]:
        """Return the measurements of each round, and the largest norm of an action."""
        return {**super().arrays(), "kappa": self._kappa}


class ActionObserver(Observer):
    """Observer of MixTS whose latent states are the prior's components.

    Parameters
    ----------
    prior
        The prior of MixTS.
    """

    recorder: ClassVar[type[ActionRecorder]]
    """Class of the recorder of a block of runs."""

    def __init__(self, prior: MixturePrior) -> None:
        self.prior = prior

    def start(self, agent: Any, problem: Problem) -> ActionRecorder:
        check_latent(problem.latent, self.prior)
        if not isinstance(problem, BanditProblem):
            raise ParameterError(
                "environment must be a BanditEnvironment, which knows the mean of every action"
            )
        return self.recorder(self.prior.family, problem)


def play(
    observer: ActionObserver, environment: Environment, size: tuple[int, int, int], **options: Any
) -> Results:
    """Play MixTS under an observer, in this process unless an engine is given.

    ``size`` is the number of rounds, the number of runs, and the seed.
    """
    options = {"engine": 1, **options, "observe": observer}
    return simulate({"MixTS": observer.prior}, environment, *size, **options)
