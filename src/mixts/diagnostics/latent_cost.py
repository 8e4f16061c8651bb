"""What finding the latent state costs: both sides of each step of the bounds that know P_0.

The regret of a round is W_t + B_t: W_t is what not knowing the parameters costs once the latent
state is known (learning), B_t what not knowing the state costs (identification). ``docs/theory.md``
has the proofs; every step that can be measured is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float, Int
from mixts.diagnostics._inequalities import Inequality
from mixts.diagnostics._latent_steps import latent_steps
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


@dataclass(frozen=True, repr=False)
class LatentCost:
    """Costs of learning and identification of MixTS, and the sums by which proofs bound them.

    All numbers are of the belief before the round's update. m_t(a, s) and u_t(a, s) are the mean
    and the variance of the mean reward of action a given the history and S = s.

    Attributes
    ----------
    learning : (n_runs, n_rounds) array
        max_a theta'(a) - m_t(A', S'), for a draw (S', theta') from the belief with best action A':
        its expectation given the history is W_t. The true state and parameters would do too, but
        they stay the same for all rounds: a run in a thousand would decide the average.
    identification : (n_runs, n_rounds) array
        m_t(A_t, S_t) - sum_s P_t(s) m_t(A_t, s), whose expectation given the history is B_t.
    excess : (n_runs, n_rounds) array
        m_t(A_t, S_t) - Y_t: what the ledger of the drawn state is charged.
    sampled : (n_runs, n_rounds) array of int
        S_t, the latent state that MixTS drew.
    within : (n_runs, n_rounds) array
        sum_s P_t(s) u_t(A_t, s): the variance of the taken action's mean within the states.
    between : (n_runs, n_rounds) array
        The variance of m_t(A_t, S) over the states.
    roots : (n_runs, n_rounds) array
        sum_{s<s'} sqrt(P_t(s) P_t(s')), a supermartingale.
    products : (n_runs, n_rounds) array
        sum_{s<s'} P_t(s) P_t(s').
    pairs : (n_runs, L, L) array
        sum_t P_t(s) P_t(s').
    variances : (n_runs, L) array
        sum_t u_t(A_t, s).
    mean_range : (n_runs,) array
        Largest difference between two states' means of a taken action.
    final_weights : (n_runs, L) array
        P_{n+1}.
    gain : (n_runs, L) array
        1/2 sum_t log(1 + u_t(A_t, s) / sigma^2); NaN for rewards without Gaussian noise.
    n_actions : (n_runs,) array of int
        Number of actions on offer.
    kappa : (n_runs,) array
        Largest norm of an action on offer; 1 for arms.
    fixed : (n_runs,) array of bool
        Whether all rounds of the run offered the same actions.
    prior : MixturePrior
        The prior of MixTS.
    results : Results
        Results of the simulation: regret, reward and true latent states.

    Examples
    --------
    >>> import mixts
    >>> from mixts.diagnostics import measure_latent_cost
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> cost = measure_latent_cost(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> cost.learning.shape
    (20, 50)
    >>> all(step.holds for step in cost.inequalities().values())
    True
    """

    learning: Float[Array, "n_runs n_rounds"]
    identification: Float[Array, "n_runs n_rounds"]
    excess: Float[Array, "n_runs n_rounds"]
    sampled: Int[Array, "n_runs n_rounds"]
    within: Float[Array, "n_runs n_rounds"]
    between: Float[Array, "n_runs n_rounds"]
    roots: Float[Array, "n_runs n_rounds"]
    products: Float[Array, "n_runs n_rounds"]
    pairs: Float[Array, "n_runs L L"]
    variances: Float[Array, "n_runs L"]
    mean_range: Float[Array, " n_runs"]
    final_weights: Float[Array, "n_runs L"]
    gain: Float[Array, "n_runs L"]
    n_actions: Int[Array, " n_runs"]
    kappa: Float[Array, " n_runs"]
    fixed: Array
    prior: MixturePrior
    results: Results

    @classmethod
    def of(cls, prior: MixturePrior, results: Results) -> LatentCost:
        """Return the measurements from the results of a simulation that was observed.

        Parameters
        ----------
        prior
            The prior of MixTS.
        results
            Results of :func:`prepare_latent_cost`'s simulation.

        Returns
        -------
        LatentCost
            The measurements.
        """
        (observed,) = results.observed.values()
        return cls(**observed, prior=prior, results=results)

    @property
    def regret(self) -> Float[Array, "n_runs n_rounds"]:
        """mu_*(A_t*) - mu_*(A_t)."""
        return self.results.regret[self.results.agents[0]]

    @property
    def latent(self) -> Int[Array, " n_runs"]:
        """S, the true latent state of each run."""
        return self.results.latent

    @property
    def n_rounds(self) -> int:
        """Number of rounds, n."""
        return int(self.learning.shape[1])

    @property
    def information(self) -> Float[Array, " n_runs"]:
        """H(P_0) - H(P_{n+1}), whose expectation is the information of n rounds on the state."""
        return _entropies(self.prior.weights[None])[0] - _entropies(self.final_weights)

    def total(self, quantity: str) -> Estimate:
        """Return the mean over runs of a sum over rounds, and its standard error.

        Parameters
        ----------
        quantity
            Name of an array over rounds, such as "learning" or "identification".

        Returns
        -------
        Estimate
            Mean and standard error.
        """
        return estimate(np.asarray(getattr(self, quantity)).sum(axis=1))

    @property
    def largest_ratio(self) -> float:
        """Largest (E B_t)^2 / (r_B E between_t) over rounds in which the states still matter.

        Lemma 1 says that it is at most 1; with few runs chance adds to it.
        """
        rank = min(self.rank, np.count_nonzero(self.prior.weights) - 1)
        mean, spread = self.identification.mean(axis=0), self.between.mean(axis=0)
        counts = spread > 1e-2 * spread.max()
        ratio = np.divide(mean**2, rank * spread, out=np.zeros_like(mean), where=counts)
        return float(ratio.max())

    @property
    def rank(self) -> int:
        """r = min(d, K)."""
        n_features = self.prior.family.n_features or int(self.n_actions.max())
        return min(n_features, int(self.n_actions.max()))

    def inequalities(self) -> dict[str, Inequality]:
        """Return the steps of the proofs by name, with both sides measured."""
        return latent_steps(self)

    def __repr__(self) -> str:
        s = self.results.settings
        rows = {
            name: self.total(name)
            for name in ("regret", "learning", "identification", "within", "between")
        }
        lines = [f"  {name}: {mean:.3f} ± {error:.3f}" for name, (mean, error) in rows.items()]
        head = f"LatentCost of {s['n_runs']} runs of {s['n_rounds']} rounds, seed {s['seed']}"
        return "\n".join([head, *lines])


def _entropies(weights: Float[Array, "n L"]) -> Float[Array, " n"]:
    """Return the entropy of each row, in nats."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return -(weights * logs).sum(axis=1)


# -- simulation -----------------------------------------------------------------------------------


def measure_latent_cost(
    prior: MixturePrior,
    environment: BanditEnvironment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    block_size: int | None = None,
    engine: EngineLike = 1,
) -> LatentCost:
    """Play MixTS and measure both sides of each step of the bounds that know the latent prior.

    Parameters
    ----------
    prior
        Prior of arms, or of linear rewards with Gaussian noise; the environment's own.
    environment, n_rounds, n_runs, seed, block_size, engine
        As in :func:`mixts.simulate`.

    Returns
    -------
    LatentCost
        The costs and sums, round by round.

    Examples
    --------
    >>> import mixts
    >>> from mixts.diagnostics import measure_latent_cost
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> cost = measure_latent_cost(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> mean, error = cost.total("identification")
    >>> print(f"{mean:.2f} ± {error:.2f}")
    0.82 ± 0.09
    """
    _check(prior)
    results = simulate(
        {"MixTS": prior}, environment, n_rounds, n_runs, seed,
        engine=engine, block_size=block_size, observe=LatentCostObserver(prior),
    )  # fmt: skip
    return LatentCost.of(prior, results)


def prepare_latent_cost(
    prior: MixturePrior,
    environment: BanditEnvironment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    block_size: int | None = None,
) -> Simulation:
    """Check the arguments of :func:`measure_latent_cost`, and return a simulation of blocks.

    Parameters
    ----------
    prior, environment, n_rounds, n_runs, seed, block_size
        As for :func:`measure_latent_cost`.

    Returns
    -------
    Simulation
        An observed simulation; :meth:`LatentCost.of` takes its results.

    Examples
    --------
    >>> import mixts
    >>> from mixts.diagnostics import LatentCost, prepare_latent_cost
    >>> from mixts.simulation.simulate import assemble
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> environment = mixts.BanditEnvironment(prior)
    >>> simulation = prepare_latent_cost(prior, environment, n_rounds=50, n_runs=20, seed=1)
    >>> results = assemble(simulation, map(simulation.play, range(simulation.n_blocks)))
    >>> LatentCost.of(prior, results).learning.shape
    (20, 50)
    """
    _check(prior)
    return prepare(
        {"MixTS": prior}, environment, n_rounds, n_runs, seed,
        block_size=block_size, observe=LatentCostObserver(prior),
    )  # fmt: skip


def _check(prior: Any) -> None:
    if not isinstance(prior, MixturePrior) or prior.family.plans:
        raise ParameterError(f"prior must be a MixturePrior of arms or features, got {prior!r}")


class LatentCostObserver(Observer):
    """Observer of MixTS that records what finding the latent state costs."""

    def __init__(self, prior: MixturePrior) -> None:
        self._prior = prior

    def start(self, agent: Any, problem: Problem) -> LatentCostRecorder:
        check_latent(problem.latent, self._prior)
        assert isinstance(problem, BanditProblem)
        return LatentCostRecorder(self._prior.family, problem)


class LatentCostRecorder(RoundRecorder):
    """Recorder of both costs of each round, and of the sums that the proofs bound."""

    def __init__(self, family: Family, problem: BanditProblem) -> None:
        super().__init__()
        self._family, self._problem = family, problem
        n, L = len(problem.latent), family.n_components
        self._variances = np.zeros((n, L))
        self._weights: list[Array] = []
        self._mean_range, self._kappa = np.zeros(n), np.zeros(n)
        self._sets: list[Any] = []
        self._fixed = True
        self._final: Any = None

    def measure(self, round_: Round) -> dict[str, Array]:
        family, sampled, rows = self._family, round_.sampled, np.arange(len(round_.sampled))
        # A draw of its own: MixTS does not show the parameters that it drew.
        latent, parameters = round_.belief.sample(round_.rng)
        values = family.mean_rewards(parameters, round_.offer.actions)
        if round_.offer.mask is not None:
            values = np.where(round_.offer.mask, values, -np.inf)
        best = values.argmax(axis=1)
        mean, variance = family.reward_moments(
            round_.belief.statistics, self._actions(round_, np.stack([round_.chosen, best], 1))
        )
        taken, weights = mean[:, 0], round_.belief.weights
        mixed = (weights * taken).sum(axis=1)
        self._weights.append(weights)
        self._variances += variance[:, 0]
        np.maximum(self._mean_range, np.ptp(taken, axis=1), out=self._mean_range)
        return {
            "sampled": sampled,
            "learning": values[rows, best] - mean[rows, 1, latent],
            "identification": taken[rows, sampled] - mixed,
            "excess": taken[rows, sampled] - round_.outcome.rewards,
            "within": (weights * variance[:, 0]).sum(axis=1),
            "between": (weights * (taken - mixed[:, None]) ** 2).sum(axis=1),
        }

    def _actions(self, round_: Round, index: Int[Array, "n m"]) -> Array:
        """Return arms, or the features of rows of the action sets."""
        sets = round_.offer.actions
        if sets is None:
            self._kappa[:] = 1.0
            return index
        self._fixed &= sets.ndim == 2 and (not self._sets or self._sets[0] is sets)
        self._sets = [sets]
        largest = np.linalg.norm(sets, axis=-1).max(axis=-1)
        np.maximum(self._kappa, largest, out=self._kappa)
        return sets[index] if sets.ndim == 2 else sets[np.arange(len(index))[:, None], index]

    def after_update(self, round_: Round) -> None:
        self._final = round_.belief

    def arrays(self) -> dict[str, Array]:
        """Return the costs of each round, and the sums over all rounds."""
        n, family = len(self._kappa), self._family
        weights = np.stack(self._weights, axis=2)
        gain = np.full(self._variances.shape, np.nan)
        if isinstance(family.noise_std, float):
            # By the matrix determinant lemma the sum of the logarithms is this one.
            gain = 0.5 * family.log_determinant_ratios(self._final.statistics)
        return {
            **super().arrays(),
            "roots": (np.sqrt(weights).sum(axis=1) ** 2 - 1) / 2,
            "products": (1 - (weights**2).sum(axis=1)) / 2,
            "pairs": weights @ weights.swapaxes(1, 2),
            "variances": self._variances,
            "gain": gain,
            "mean_range": self._mean_range,
            "kappa": self._kappa,
            "final_weights": self._final.weights,
            "n_actions": np.full(n, self._problem.means.shape[1]),
            "fixed": np.full(n, self._fixed),
        }
