"""The regret decomposition of the paper's proofs, measured in simulations.

The Bayes regret is the sum of two expectations: by how much the best action is
better than believed, and by how much the chosen action is worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float, Int
from mixts.bounds import feature_width
from mixts.diagnostics._inequalities import Inequality, PriorScales, inequalities
from mixts.engines import EngineLike
from mixts.environments import BanditEnvironment
from mixts.environments.bandit import BanditProblem
from mixts.environments.base import Problem
from mixts.errors import ParameterError
from mixts.families.base import Family
from mixts.prior import MixturePrior
from mixts.simulation._blocks import Simulation
from mixts.simulation.observe import Observer, Round, RoundRecorder, check_latent
from mixts.simulation.results import Results
from mixts.simulation.simulate import prepare, simulate

Quantity = Literal["first", "second", "sum", "regret", "gap", "width", "best_width"]
"""Quantity to sum over rounds: "sum" is first + second, "gap" is "sum" minus the regret."""

_ROUNDING = 1e-12
"""Relative rounding error of sums of some thousand numbers."""


@dataclass(frozen=True, repr=False)
class Decomposition:
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
    scales : PriorScales
        Properties of the prior on which the bounds depend.
    results : Results
        Results of the simulation: regret, reward and true latent states.

    Examples
    --------
    >>> import mixts
    >>> from mixts.diagnostics import decompose_regret
    >>> prior = mixts.MixturePrior(mixts.GaussianArms([[1, 0], [0, 1]], [[0.1, 0.1]] * 2, 0.5))
    >>> parts = decompose_regret(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> parts.first.shape
    (20, 50)
    >>> abs(parts.deviation) < 3  # standard errors between the two sides of Eq. 1
    True
    """

    first: Float[Array, "n_runs n_rounds"]
    second: Float[Array, "n_runs n_rounds"]
    sampled: Int[Array, "n_runs n_rounds"]
    norm: Float[Array, "n_runs n_rounds"]
    best_norm: Float[Array, "n_runs n_rounds"]
    squared_norms: Float[Array, "n_runs L"]
    largest_norms: Float[Array, " n_runs"]
    log_determinant_ratios: Float[Array, "n_runs L"]
    kappa: Float[Array, " n_runs"]
    scales: PriorScales
    results: Results

    @classmethod
    def of(cls, prior: MixturePrior, results: Results) -> Decomposition:
        """Return the decomposition from the results of a simulation that was observed.

        Parameters
        ----------
        prior
            The prior of MixTS.
        results
            Results of :func:`prepare_decomposition`'s simulation.

        Returns
        -------
        Decomposition
            Both parts of the regret.
        """
        (observed,) = results.observed.values()
        return cls(**observed, scales=PriorScales.of(prior.family.to_linear()), results=results)

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
        return int(self.first.shape[1])

    @property
    def largest_action(self) -> float:
        """kappa of the proof, the largest norm of an action in any run."""
        return float(self.kappa.max())

    @property
    def width(self) -> Float[Array, "n_runs n_rounds"]:
        """sigma_t(A_t, S_t) = sqrt(2 d log(dn)) ||A_t||_{t,S_t}."""
        return feature_width(self.norm, self.scales.n_features, self.n_rounds)

    @property
    def best_width(self) -> Float[Array, "n_runs n_rounds"]:
        """sigma_t(A_t*, S_*), whose expectation is that of ``width``."""
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
        """Return the mean over runs of the sum over rounds, and its standard error.

        Parameters
        ----------
        quantity
            "first", "second", "sum" (first + second), "regret", "gap" (sum - regret), "width" or
            "best_width".

        Returns
        -------
        Estimate
            Mean and standard error.
        """
        return estimate(self._of(quantity).sum(axis=1))

    def curve(self, quantity: Quantity) -> Estimate:
        """Return means over runs of the sum up to each round, and standard errors.

        Parameters
        ----------
        quantity
            As for :meth:`total`.

        Returns
        -------
        Estimate
            Means and standard errors, each (n_rounds,).
        """
        return estimate(np.cumsum(self._of(quantity), axis=1))

    @property
    def deviation(self) -> float:
        """Mean of the gap, divided by its standard error: standard normal if Eq. 1 holds.

        NaN for a single run, 0 where the two sides differ only by rounding.
        """
        return _deviation(self.total("gap"), np.abs(self.regret).sum(axis=1).mean())

    @property
    def width_deviation(self) -> float:
        """Widths of (A_t, S_t) minus those of (A_t*, S_*), in standard errors."""
        gap = estimate((self.width - self.best_width).sum(axis=1))
        return _deviation(gap, self.width.sum(axis=1).mean())

    def inequalities(self) -> dict[str, Inequality]:
        """Return the steps of the proof by name, with both sides measured."""
        return inequalities(self)

    def _of(self, quantity: Quantity) -> Float[Array, "n_runs n_rounds"]:
        if quantity not in get_args(Quantity):
            raise ParameterError(f"expected one of {get_args(Quantity)}, got {quantity!r}")
        if quantity == "sum":
            return self.first + self.second
        return np.asarray(getattr(self, quantity))


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
    *,
    block_size: int | None = None,
    name: str = "MixTS",
    engine: EngineLike = 1,
    progress: bool = False,
) -> Decomposition:
    """Play MixTS and measure the two expectations whose sum is its Bayes regret  [paper: Eq. 1].

    The runs are, to the bit, those of ``simulate({name: prior}, environment, n_rounds, n_runs,
    seed)``. All numbers are exact. Linear families take long: every component's posterior is
    computed in each round.

    Parameters
    ----------
    prior
        Prior of :class:`GaussianArms` (the linear bandit of the unit vectors) or
        :class:`LinearGaussian`. Its components are the environment's latent states.
    environment, n_rounds, n_runs, seed, block_size
        As in :func:`mixts.simulate`.
    name
        Name of the agent, on which its random numbers depend.
    engine, progress
        As in :func:`mixts.simulate`.

    Returns
    -------
    Decomposition
        Both parts of the regret, round by round.

    Examples
    --------
    >>> import mixts
    >>> from mixts.diagnostics import decompose_regret
    >>> prior = mixts.MixturePrior(mixts.GaussianArms([[1, 0], [0, 1]], [[0.1, 0.1]] * 2, 0.5))
    >>> parts = decompose_regret(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> mean, error = parts.total("first")
    >>> print(f"{mean:.2f} ± {error:.2f}")
    0.61 ± 1.22
    """
    _check(prior, environment)
    results = simulate(
        {name: prior}, environment, n_rounds, n_runs, seed, progress=progress,
        engine=engine, block_size=block_size, observe=DecompositionObserver(prior),
    )  # fmt: skip
    return Decomposition.of(prior, results)


def prepare_decomposition(
    prior: MixturePrior,
    environment: BanditEnvironment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    block_size: int | None = None,
    name: str = "MixTS",
) -> Simulation:
    """Check the arguments of :func:`decompose_regret`, and return a simulation of blocks.

    Parameters
    ----------
    prior, environment, n_rounds, n_runs, seed, block_size
        As for :func:`decompose_regret`.
    name
        Name of the agent in the results.

    Returns
    -------
    Simulation
        An observed simulation; :meth:`Decomposition.of` takes its results.

    Examples
    --------
    >>> import mixts
    >>> from mixts.diagnostics import Decomposition, prepare_decomposition
    >>> from mixts.simulation.simulate import assemble
    >>> prior = mixts.MixturePrior(mixts.GaussianArms([[1, 0], [0, 1]], [[0.1, 0.1]] * 2, 0.5))
    >>> environment = mixts.BanditEnvironment(prior)
    >>> simulation = prepare_decomposition(prior, environment, n_rounds=50, n_runs=20, seed=1)
    >>> results = assemble(simulation, map(simulation.play, range(simulation.n_blocks)))
    >>> Decomposition.of(prior, results).first.shape
    (20, 50)
    """
    _check(prior, environment)
    return prepare(
        {name: prior}, environment, n_rounds, n_runs, seed,
        block_size=block_size, observe=DecompositionObserver(prior),
    )  # fmt: skip


def _check(prior: Any, environment: Any) -> None:
    ours = _linear_size(prior)
    if not isinstance(environment, BanditEnvironment):
        raise ParameterError(
            "environment must be a BanditEnvironment, which knows the mean of every action, got "
            f"{type(environment).__name__}"
        )
    theirs = environment.prior.family
    same = type(theirs) is type(prior.family)
    if not same or _linear_size(environment.prior) != ours:
        raise ParameterError(
            f"prior must be of the environment's actions, {theirs!r}, got {prior.family!r}"
        )


def _linear_size(prior: Any) -> int:
    """Return the number of features of a prior for which the proofs define everything."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    family = prior.family
    size = family.n_features or family.n_arms
    if not isinstance(family.noise_std, float) or size is None:
        raise ParameterError(
            "regret is decomposed for linear bandits: the prior must be of GaussianArms or "
            f"LinearGaussian, got {family!r}"
        )
    return size


class DecompositionObserver(Observer):
    """Observer of MixTS that records both parts of the regret."""

    def __init__(self, prior: MixturePrior) -> None:
        self._prior = prior

    def start(self, agent: Any, problem: Problem) -> PartsRecorder:
        check_latent(problem.latent, self._prior)
        assert isinstance(problem, BanditProblem)
        return PartsRecorder(self._prior.family, problem)


class PartsRecorder(RoundRecorder):
    """Recorder of the two parts of each round's regret, and of the norms that the proof sums up.

    Eq. 1 adds and subtracts mu_t(A_t*, S_*) = mu_t(A_t, S_t), which are equal in expectation given
    the history: the true best action with the true state, and the action taken with the state
    sampled, have the same law  [paper: Eq. 1].
    """

    def __init__(self, family: Family, problem: BanditProblem) -> None:
        super().__init__()
        self._family, self._problem = family, problem
        n = len(problem.latent)
        self._squared_norms = np.zeros((n, family.n_components))
        self._largest_norms = np.zeros(n)
        self._kappa = np.zeros(n)
        self._belief: Any = None

    def measure(self, round_: Round) -> dict[str, Array]:
        problem, sampled, rows = self._problem, round_.sampled, np.arange(len(round_.sampled))
        best, means, latent = problem.best_action, problem.means, problem.latent
        index = np.stack([round_.chosen, best], axis=1)
        sets = round_.offer.actions
        actions = index if sets is None else _rows_of(sets, index)
        mean, variance = self._family.reward_moments(round_.belief.statistics, actions)
        self._squared_norms += variance[:, 0]
        self._largest_norms += np.sqrt(variance[:, 0].max(axis=1))
        np.maximum(self._kappa, _largest_norms(sets), out=self._kappa)
        return {
            "sampled": sampled,
            "first": means[rows, best] - mean[rows, 1, latent],
            "second": mean[rows, 0, sampled] - means[rows, round_.chosen],
            "norm": np.sqrt(variance[rows, 0, sampled]),
            "best_norm": np.sqrt(variance[rows, 1, latent]),
        }

    def after_update(self, round_: Round) -> None:
        self._belief = round_.belief

    def arrays(self) -> dict[str, Array]:
        """Return the parts of each round, and the sums over all rounds."""
        return {
            **super().arrays(),
            "squared_norms": self._squared_norms,
            "largest_norms": self._largest_norms,
            "kappa": self._kappa,
            "log_determinant_ratios": self._family.log_determinant_ratios(self._belief.statistics),
        }


def _rows_of(sets: Array, index: Int[Array, "n m"]) -> Float[Array, "n m d"]:
    """Return the features of some actions of each run, from shared action sets or its own."""
    return sets[index] if sets.ndim == 2 else sets[np.arange(len(index))[:, None], index]


def _largest_norms(sets: Array | None) -> Any:
    """Return the largest norm of an action on offer, of each run or of all; arms have norm 1."""
    return 1.0 if sets is None else np.linalg.norm(sets, axis=-1).max(axis=-1)
