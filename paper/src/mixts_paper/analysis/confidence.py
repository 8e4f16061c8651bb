"""Latent confidence sets of the paper's proofs, measured in simulations.

A measure compares the mean reward that the sampled component predicts with the reward that came,
and computes the width of that prediction. The set C_t has the latent states whose predictions have
not been too high so far.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from mixts import Belief, MixturePrior
from mixts.environments import Environment, Problem
from mixts.errors import ParameterError
from mixts.extend import Array, ArrayLike, Bool, Float, Int, checks
from mixts.families import Family, Trajectory
from mixts.simulation import Observer, Results, Round, RoundRecorder, check_latent, simulate
from mixts_paper.bounds import feature_width, reward_width, transition_width

# -- confidence widths -----------------------------------------------------------------------------


class Measure(ABC):
    """Excess and width of a round; it reads the belief before the update and changes nothing."""

    radius_factor: float
    """r of the radius r sqrt(N_t(s))."""

    @abstractmethod
    def __call__(self, round_: Round) -> dict[str, Float[Array, " n"]]:
        """Measure one round of all runs.

        Returns
        -------
        dict
            ``excess``: the mean under the sampled component minus the reward. ``width``: the width
            of that mean. ``error``: its standard error, 0 where the mean is exact.
        """


class RewardMeasure(Measure):
    """Measure of the action that was taken in a bandit, under the sampled component.

    With Gaussian noise the mean is a'theta_{t,s}, the width sqrt(2 d log(d n)) ||a|| and the radius
    2 sigma sqrt(N log n). Gaussian arms are the linear bandit of the unit vectors, so d is the
    number of arms. App. A writes mean and width at time t inside the sum over past rounds, but
    means the belief of the round in which s was sampled  [paper: App. A].

    Bernoulli arms are the MDP of one state and one step; the width is c_t alone, with h = 1.
    """

    def __init__(self, family: Family, n_rounds: int) -> None:
        self._family, self._n_rounds = family, n_rounds
        self._size = family.n_features or family.n_arms or 0
        noise = family.common_noise
        self.radius_factor = (1 if noise is None else 2 * noise) * math.sqrt(math.log(n_rounds))

    def __call__(self, round_: Round) -> dict[str, Float[Array, " n"]]:
        latent, (taken, rewards) = round_.sampled, round_.outcome.feedback
        moments = self._family.reward_moments(round_.belief.statistics, taken[:, None], latent)
        mean, variance = (x[:, 0] for x in moments)
        if self._family.common_noise is not None:
            width = feature_width(np.sqrt(variance), self._size, self._n_rounds)
        else:
            # A beta distribution has variance m (1 - m) / (alpha + beta + 1).
            total = mean * (1 - mean) / variance - 1
            width = reward_width(total, 1, self._size, self._n_rounds)
        return {"excess": mean - rewards, "width": width, "error": np.zeros(len(latent))}


class EpisodeMeasure(Measure):
    """Mean value of the policy, and width h sum_i (c_t + phi_t)(X_i, A_i, s) along the episode.

    The radius is sqrt(h N log n). App. B writes V_t(pi_t, s) and beta_t inside the sum over past
    episodes, but means V_l(pi_l, s) and beta_l of the episode in which s was sampled
    [paper: App. B]. With high probability no V_M(pi), M ~ P_t(. | s), is further above the mean
    than the width's expectation over episodes of M  [paper: Sec. 5.1].
    """

    def __init__(self, family: Any, n_rounds: int, n_samples: int) -> None:
        self._family, self._n_rounds, self._n_samples = family, n_rounds, n_samples
        self.radius_factor = math.sqrt(family.horizon * math.log(n_rounds))

    def __call__(self, round_: Round) -> dict[str, Float[Array, " n"]]:
        (trajectory,) = round_.outcome.feedback
        belief, latent = round_.belief, round_.sampled
        value, error = self.mean_value(round_.rng, belief, latent, round_.chosen)
        width = self._width(belief, latent, trajectory)
        return {"excess": value - trajectory.returns, "width": width, "error": error}

    def mean_value(
        self,
        rng: np.random.Generator,
        belief: Belief,
        latent: Int[Array, " n"],
        policy: Int[Array, "n h X"],
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Return V_t(pi, s), the mean of V_M(pi) over MDPs M ~ P_t(. | s), and its standard error.

        It is not the value of the mean MDP: a state that is visited more than once makes the value
        a product of unknown numbers  [paper: Sec. 5.1]. The regret of an episode is in
        expectation V_*(pi_*) - V_t(pi_*, S_*), and V_t(pi_t, S_t) - V_*(pi_t)  [paper: Eq. 6].
        """
        n, m = len(latent), self._n_samples
        tasks = np.repeat(np.arange(n), m)
        parameters = belief.sample_parameters(rng, np.repeat(latent, m), tasks)
        values = self._family.mdp(parameters).value(np.repeat(policy, m, axis=0)).reshape(n, m)
        return values.mean(axis=1), values.std(axis=1, ddof=1) / math.sqrt(m)

    def _width(
        self, belief: Belief, latent: Int[Array, " n"], trajectory: Trajectory
    ) -> Float[Array, " n"]:
        family, statistics = self._family, cast(Any, belief.statistics)
        size = (family.n_states, family.n_actions, self._n_rounds)
        rewards = (family.reward[latent] + statistics.rewards).sum(axis=3)
        transitions = (family.transition[latent] + statistics.transitions).sum(axis=3)
        both = reward_width(rewards, *size) + transition_width(transitions, *size)
        steps = trajectory.n_steps
        rows = np.arange(len(latent))[:, None]
        along = both[rows, trajectory.states[:, :steps], trajectory.actions]
        if trajectory.lengths is not None:
            along = np.where(np.arange(steps) < trajectory.lengths[:, None], along, 0.0)
        return np.asarray(family.horizon * along.sum(axis=1))


def measure_of(prior: Any, n_rounds: int, n_samples: int) -> Measure:
    """Return the measure of a prior's family; raise ``ParameterError`` if the proofs have none."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    family = prior.family
    if family.plans:
        return EpisodeMeasure(family, n_rounds, n_samples)
    if family.common_noise is not None or family.reward_range is not None:
        return RewardMeasure(family, n_rounds)
    raise ParameterError(
        f"the proofs have no confidence width for {family!r}: its rewards are neither bounded nor "
        "Gaussian. Sets are defined for LinearGaussian, GaussianArms, BernoulliArms and TabularMDP"
    )


# -- confidence sets -------------------------------------------------------------------------------


PROOFS_ETA = math.sqrt(2)
"""Factor on the widths with which both proofs define G_t."""


class Threshold(NamedTuple):
    """The eta below which sets lose a state, and where they lose it first.

    Attributes
    ----------
    eta : float
        A smaller eta loses the state; this eta and larger ones lose none. Infinite where data
        refute a component without uncertainty; negative where no eta loses a state.
    error : float
        Standard error of eta, from sampled means; 0 where means are exact.
    run : int
        Index of the run.
    round : int
        Round in which the set lost the state, from 0; ``n_rounds`` is after the last.
    state : int
        Index of the latent state.

    Examples
    --------
    >>> from mixts_paper.analysis import Threshold
    >>> Threshold(eta=0.4, error=0.0, run=3, round=17, state=1).eta
    0.4
    """

    eta: float
    error: float
    run: int
    round: int
    state: int


@dataclass(frozen=True, repr=False)
class ConfidenceSets:
    """Predicted and received rewards of MixTS, round by round, and the sets that follow.

    With N_t(s) the number of rounds before t in which s was sampled, the sets are
    C_t = {s: G_t(s) <= r sqrt(N_t(s))} with the total excess of the predictions of s,
    G_t(s) = sum_{l<t} 1{S_l = s} (mu_l(A_l, s) - eta sigma_l(A_l, s) - Y_l)
    [paper: Sec. 4.1]. All numbers are of the belief before the round's update. G_t is linear in
    eta, so one simulation serves every eta: methods take it as an argument, by default the proofs'
    sqrt 2.

    Arrays over time have ``n_rounds + 1`` entries: entry t is before round t, the last after all.

    Attributes
    ----------
    sampled : (n_runs, n_rounds) array of int
        S_t, the latent state that MixTS drew.
    excess : (n_runs, n_rounds) array
        mu_t(A_t, S_t) - Y_t: the mean reward (or value) under the sampled state minus the reward.
    width : (n_runs, n_rounds) array
        sigma_t(A_t, S_t), or in an episode h times the sum of c_t + phi_t along its steps, which
        Lemma 6 adds up.
    error : (n_runs, n_rounds) array
        Standard error of ``excess`` where its mean was sampled, 0 where it is exact.
    radius_factor : float
        r: the radius of the set is r sqrt(N_t(s)).
    n_components : int
        Number of latent states, L.
    results : Results
        Results of the simulation: regret, reward and true latent states.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper.analysis import follow_confidence_sets
    >>> prior = mixts.MixturePrior(mixts.GaussianArms([[1, 0], [0, 1]], [[0.1, 0.1]] * 2, 0.5))
    >>> sets = follow_confidence_sets(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> sets.contains().shape
    (20, 51, 2)
    >>> print(sets.missed().sum())
    0
    """

    sampled: Int[Array, "n_runs n_rounds"]
    excess: Float[Array, "n_runs n_rounds"]
    width: Float[Array, "n_runs n_rounds"]
    error: Float[Array, "n_runs n_rounds"]
    radius_factor: float
    n_components: int
    results: Results

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
        """Sum a round's values over the rounds before t in which s was sampled."""
        n_runs, n_rounds = self.sampled.shape
        totals = np.zeros((n_runs, n_rounds + 1, self.n_components), values.dtype)
        np.put_along_axis(totals[:, 1:], self.sampled[..., None], values[..., None], axis=2)
        return np.cumsum(totals, axis=1, out=totals)

    @property
    def counts(self) -> Int[Array, "n_runs times L"]:
        """N_t(s), the number of rounds before t in which s was sampled  [paper: Sec. 4.1]."""
        return self._totals(np.ones_like(self.sampled))

    @property
    def total_excess(self) -> Float[Array, "n_runs times L"]:
        """Total excess at eta = 0."""
        return self._totals(self.excess)

    @property
    def total_width(self) -> Float[Array, "n_runs times L"]:
        """Decrease of G_t(s) when eta grows by 1."""
        return self._totals(self.width)

    @property
    def total_error(self) -> Float[Array, "n_runs times L"]:
        """Standard error of ``total_excess``, and so of G_t(s)."""
        return np.sqrt(self._totals(self.error**2))

    @property
    def radius(self) -> Float[Array, "n_runs times L"]:
        """r sqrt(N_t(s)), the excess that the noise of rewards can explain."""
        return self.radius_factor * np.sqrt(self.counts)

    # -- sets ---------------------------------------------------------------------------------

    def gap(self, eta: float = PROOFS_ETA) -> Float[Array, "n_runs times L"]:
        """Return G_t(s), the total excess  [paper: Sec. 4.1].

        Parameters
        ----------
        eta
            Factor on the widths.

        Returns
        -------
        array
            G_t(s), (n_runs, n_rounds + 1, L).
        """
        return self.total_excess - _checked(eta) * self.total_width

    def contains(self, eta: float = PROOFS_ETA) -> Bool[Array, "n_runs times L"]:
        """Return whether s is in C_t.

        Parameters
        ----------
        eta
            Factor on the widths.

        Returns
        -------
        array
            True where the set of the time contains the state, (n_runs, n_rounds + 1, L).
        """
        return self.gap(eta) <= self.radius

    def excluded(self, eta: float = PROOFS_ETA) -> Bool[Array, "n_runs L"]:
        """Return whether s was ever outside the set.

        Parameters
        ----------
        eta
            Factor on the widths.

        Returns
        -------
        array
            True for each state that was outside at some time of the run, (n_runs, L).
        """
        return np.asarray((~self.contains(eta)).any(axis=1))

    def missed(self, eta: float = PROOFS_ETA) -> Bool[Array, " n_runs"]:
        """Return whether the true latent state was ever outside the set.

        The proofs bound the probability of a miss in a round by 2 L / n for linear bandits
        [paper: Lemma 3], from the probabilities of a parameter far from its mean and of noise
        [paper: Eq. 10], and by 2 L h / n for MDPs  [paper: Lemma 7].

        Parameters
        ----------
        eta
            Factor on the widths.

        Returns
        -------
        array
            True for each run that missed its latent state at some time, (n_runs,).
        """
        return self._of_truth(self.excluded(eta))

    def sweep(self, etas: ArrayLike) -> dict[str, Array]:
        """Return how the sets change with eta: a table as columns, a row for each eta.

        ``excluded`` and ``missed`` are the shares of runs in which any state, or the true state, is
        ever outside. ``size`` is the mean number of states in the set of a round, and
        ``missed_rounds`` the mean number of rounds of a run without the true state, which the
        proofs bound.

        Parameters
        ----------
        etas
            Factors on the widths, (m,).

        Returns
        -------
        dict
            Columns ``eta``, ``excluded``, ``missed``, ``size`` and ``missed_rounds``, each (m,).
        """
        column = np.atleast_1d(checks.numbers(etas, "etas must be numbers", ParameterError))
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
        """Return the eta below which s is outside C_t."""
        slack, width = self.total_excess - self.radius, self.total_width
        certain = np.where(slack > 0, np.inf, -np.inf)
        return np.divide(slack, width, out=certain, where=width > 0)

    @property
    def exclusion(self) -> Threshold:
        """The smallest eta that excludes no state, and where a smaller one does so first."""
        return self._threshold(np.ones((len(self.latent), self.n_components), bool))

    @property
    def miss(self) -> Threshold:
        """The smallest eta that keeps the true state, and where a smaller one loses it first."""
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


# -- simulation -----------------------------------------------------------------------------------


class ConfidenceObserver(Observer):
    """Observer of MixTS that records what the confidence sets are made of."""

    def __init__(self, prior: MixturePrior, measure: Measure) -> None:
        self._prior, self._measure = prior, measure

    def start(self, agent: Any, problem: Problem) -> RoundRecorder:
        check_latent(problem.latent, self._prior)
        return _ConfidenceRecorder(self._measure)


class _ConfidenceRecorder(RoundRecorder):
    def __init__(self, measure: Measure) -> None:
        super().__init__()
        self._measure = measure

    def measure(self, round_: Round) -> dict[str, Array]:
        return {"sampled": round_.sampled, **self._measure(round_)}


def follow_confidence_sets(
    prior: MixturePrior,
    environment: Environment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    n_samples: int = 32,
    **options: Any,
) -> ConfidenceSets:
    """Play MixTS and record the latent confidence sets of the proofs  [paper: Sec. 4.1].

    The runs are, to the bit, those of ``simulate({"MixTS": prior}, environment, n_rounds,
    n_runs, seed)``: the diagnostic has random numbers of its own.

    With :class:`LinearGaussian`, :class:`GaussianArms` (the linear bandit of the unit vectors) and
    :class:`BernoulliArms` (an MDP of one state and one step) all numbers are exact. With a
    :class:`TabularMDP` the mean value of a policy under the sampled component is an average over
    sampled MDPs, whose standard error is kept.

    Parameters
    ----------
    prior
        The prior of MixTS. The environment's latent states must be its components.
    environment, n_rounds, n_runs, seed
        As in :func:`mixts.simulate`.
    n_samples
        Number of MDPs to sample for the mean value of a policy.
    options
        Other options of :func:`mixts.simulate`, such as ``block_size`` and ``engine``; one process
        plays unless an engine is given.

    Returns
    -------
    ConfidenceSets
        Excess and width of every round, and the sets for any eta.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper.analysis import follow_confidence_sets
    >>> prior = mixts.MixturePrior(mixts.GaussianArms([[1, 0], [0, 1]], [[0.1, 0.1]] * 2, 0.5))
    >>> sets = follow_confidence_sets(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> table = sets.sweep([0.0, 0.5])
    >>> table["missed"]
    array([0., 0.])
    """
    n_samples = checks.count(n_samples, "n_samples", least=2)
    measure = measure_of(prior, checks.count(n_rounds, "n_rounds"), n_samples)
    results = simulate(
        {"MixTS": prior}, environment, n_rounds, n_runs, seed,
        **{"engine": 1, **options, "observe": ConfidenceObserver(prior, measure)},
    )  # fmt: skip
    return ConfidenceSets(
        **results.observed["MixTS"],
        radius_factor=measure.radius_factor,
        n_components=prior.n_components,
        results=results,
    )
