"""Measure what finding the latent state costs, and each step of the bounds that know the prior P_0.

The regret of a round is W_t + B_t: W_t is what not knowing the parameters costs once the latent
state is known (learning), B_t what not knowing the state costs (identification). ``docs/theory.md``
has the proofs; every step that can be measured is measured here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixts import MixturePrior
from mixts.environments import BanditEnvironment, BanditProblem
from mixts.errors import ParameterError
from mixts.extend import Array, Float, Int
from mixts.families import Family
from mixts.simulation import Round
from mixts_paper.analysis.inequalities import (
    ActionObserver,
    ActionRecorder,
    Inequality,
    MeasuredRegret,
    play,
)
from mixts_paper.bounds import EntropyTerms, bounded_entropy_bound, entropy, entropy_terms
from mixts_paper.bounds.entropies import best_action_entropy, common_mean_range, count_bound, radius
from mixts_paper.bounds.models import gaussian_separation, narrow_terms, separated_bound


@dataclass(frozen=True, repr=False)
class LatentCost(MeasuredRegret):
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
    >>> from mixts_paper.analysis import measure_latent_cost
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
    fixed: Array

    @property
    def information(self) -> Float[Array, " n_runs"]:
        """H(P_0) - H(P_{n+1}), whose expectation is the information of n rounds on the state."""
        return _entropies(self.prior.weights[None])[0] - _entropies(self.final_weights)

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
        names = ("regret", "learning", "identification", "within", "between")
        return self._table("LatentCost", dict.fromkeys(names, ""))


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
    **options: Any,
) -> LatentCost:
    """Play MixTS and measure both sides of each step of the bounds that know the latent prior.

    Parameters
    ----------
    prior
        Prior of arms, or of linear rewards with Gaussian noise; the environment's own.
    environment, n_rounds, n_runs, seed
        As in :func:`mixts.simulate`.
    options
        Other options of :func:`mixts.simulate`, such as ``block_size`` and ``engine``; one process
        plays unless an engine is given.

    Returns
    -------
    LatentCost
        The costs and sums, round by round.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper.analysis import measure_latent_cost
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> cost = measure_latent_cost(prior, mixts.BanditEnvironment(prior), 50, n_runs=20, seed=1)
    >>> mean, error = cost.total("identification")
    >>> print(f"{mean:.2f} ± {error:.2f}")
    0.82 ± 0.09
    """
    observer = LatentCostObserver(prior)
    return LatentCost.of(prior, play(observer, environment, (n_rounds, n_runs, seed), **options))


class LatentCostRecorder(ActionRecorder):
    """Recorder of both costs of each round, and of the sums that the proofs bound."""

    def __init__(self, family: Family, problem: BanditProblem) -> None:
        super().__init__(family, problem)
        n = len(problem.latent)
        self._variances, self._mean_range = np.zeros((n, family.n_components)), np.zeros(n)
        self._weights: list[Array] = []
        self._offered: Array | None = None
        self._fixed = True

    def measure(self, round_: Round) -> dict[str, Array]:
        family, sampled, rows = self._family, round_.sampled, np.arange(len(round_.sampled))
        # A draw of its own: MixTS does not show the parameters that it drew.
        latent, parameters = round_.belief.sample(round_.rng)
        values = family.mean_rewards(parameters, round_.choices.actions)
        if round_.choices.mask is not None:
            values = np.where(round_.choices.mask, values, -np.inf)
        best = values.argmax(axis=1)
        mean, variance = self.moments(round_, best)
        self._note(round_.choices.actions)
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

    def _note(self, sets: Array | None) -> None:
        """Note whether all rounds offer the same actions."""
        if sets is not None:
            self._fixed &= sets.ndim == 2 and (self._offered is None or self._offered is sets)
            self._offered = sets

    def arrays(self) -> dict[str, Array]:
        """Return the costs of each round, and the sums over all rounds."""
        n, family = len(self._kappa), self._family
        weights = np.stack(self._weights, axis=2)
        gain = np.full(self._variances.shape, np.nan)
        if family.common_noise is not None:
            # By the matrix determinant lemma the sum of the logarithms is this one.
            gain = 0.5 * self.log_determinant_ratios()
        return {
            **super().arrays(),
            "roots": (np.sqrt(weights).sum(axis=1) ** 2 - 1) / 2,
            "products": (1 - (weights**2).sum(axis=1)) / 2,
            "pairs": weights @ weights.swapaxes(1, 2),
            "variances": self._variances,
            "gain": gain,
            "mean_range": self._mean_range,
            "final_weights": self._final.weights,
            "n_actions": np.full(n, self._problem.means.shape[1]),
            "fixed": np.full(n, self._fixed),
        }


class LatentCostObserver(ActionObserver):
    """Observer of MixTS that records what finding the latent state costs."""

    recorder = LatentCostRecorder

    def __init__(self, prior: MixturePrior) -> None:
        if not isinstance(prior, MixturePrior) or prior.family.plans:
            raise ParameterError(f"prior must be a MixturePrior of arms or features, got {prior!r}")
        super().__init__(prior)


# -- steps of the proofs ---------------------------------------------------------------------------


PLACE = "docs/theory.md"
_GROUPS = 2.0
"""Rounds are judged in groups, each as long as all before it: most happens in the first."""


class _Setting(NamedTuple):
    """The quantities on which the bounds depend."""

    weights: Float[Array, " L"]
    n: int
    kappa: float
    n_actions: int
    mean_range: float | None
    """D; None if (C) fails."""
    proxy: float | None
    """q: rewards given a state are sub-Gaussian with this variance under the mixture."""
    terms: EntropyTerms | None
    """None for rewards without Gaussian noise."""
    plain: EntropyTerms | None
    """The same without the entropy of the best action."""
    width: float
    """Largest standard deviation of a parameter under a component."""


def latent_steps(measured: LatentCost) -> dict[str, Inequality]:
    """Return the steps by name; those whose conditions the problem does not meet are left out."""
    one = _setting_of(measured)
    steps = {**_of_any_rewards(measured, one), **_of_information(measured, one)}
    if one.terms is not None:
        steps |= _of_variances(measured, one) | _of_bounds(measured, one)
    if one.mean_range is not None:
        steps |= _of_counts(measured, one)
    if one.width == 0 and one.terms is not None and measured.fixed.all():
        steps |= _of_known_models(measured, one)
    return steps


def _setting_of(measured: LatentCost) -> _Setting:
    prior, family = measured.prior, measured.prior.family
    n, K = measured.n_rounds, int(measured.n_actions.max())
    kappa = float(measured.kappa.max())
    width = float(np.sqrt(family.parameter_variances().max()))
    sigma = family.common_noise
    if sigma is None:
        bounded = family.reward_range == (0.0, 1.0)
        return _Setting(
            prior.weights, n, kappa, K, None, 0.25 if bounded else None, None, None, width
        )
    linear = family.to_linear()
    mean, covariance = np.array(linear.mean), np.array(linear.full_covariances())
    given, h = None, None
    if family.n_arms is not None:
        given, h = float(np.ptp(mean, axis=0).max()), best_action_entropy(family)
    size = (n, prior.weights, mean, covariance, sigma, kappa, K)
    D = common_mean_range(mean, covariance, kappa, given)
    variance = float(np.linalg.eigvalsh(covariance).max())
    proxy = None if D is None else sigma**2 + kappa**2 * variance + D**2 / 4
    return _Setting(
        prior.weights, n, kappa, K, D, proxy,
        entropy_terms(*size, h, given), entropy_terms(*size, None, given), width,
    )  # fmt: skip


def _mean(claim: str, left: Array, right: Array | float, equality: bool = False) -> Inequality:
    return Inequality(claim, PLACE, left, np.asarray(right, float), True, equality)


def _every(claim: str, left: Array, right: Array | float) -> Inequality:
    return Inequality(claim, PLACE, left, np.asarray(right, float))


def _of_any_rewards(measured: LatentCost, one: _Setting) -> dict[str, Inequality]:
    both = (measured.learning + measured.identification).sum(axis=1)
    drawn = (measured.sampled % 2 == 0).sum(axis=1).astype(float)
    # The expectation is n times the prior probability; the true state's own varies with the draws.
    expected = one.n * (measured.latent % 2 == 0).astype(float)
    rank = measured.rank
    states = min(rank, int(np.count_nonzero(one.weights)) - 1)
    return {
        "parts": _mean("E Σ_t (W_t + B_t) = regret", both, measured.regret.sum(axis=1), True),
        "counts": _mean(
            "E N_{n+1}(s) = n P₀(s), every other state together", drawn, expected, True
        ),
        "roots": _mean(
            "E √(P_t(s) P_t(s')) does not increase with t",
            _grouped(np.diff(measured.roots, axis=1)), 0.0,
        ),
        "identification by round": _squares(
            "(E B_t)² ≤ r_B E between_t", measured.identification, measured.between, states
        ),
        "learning by round": _squares(
            "(E W_t)² ≤ r E within_t", measured.learning, measured.within, rank
        ),
    }  # fmt: skip


def _squares(claim: str, part: Array, variance: Array, rank: int) -> Inequality:
    """Return (E part)^2 <= rank E variance, summed over groups of rounds.

    The product of two independent runs has the square as its expectation, without the bias that the
    square of an average would have.
    """
    half = len(part) // 2
    first, second = slice(0, half), slice(half, 2 * half)
    right = rank * (variance[first] + variance[second]) / 2
    return _mean(claim, _grouped(part[first] * part[second]), _grouped(right))


def _grouped(values: Float[Array, "n t"]) -> Float[Array, "n g"]:
    """Return sums over groups of rounds: the first, the second, the next two, the next four ..."""
    starts = [0]
    while (after := max(1, int(_GROUPS * starts[-1]))) < values.shape[1]:
        starts.append(after)
    return np.add.reduceat(values, starts, axis=1)


def _of_information(measured: LatentCost, one: _Setting) -> dict[str, Inequality]:
    steps = {
        "information": _mean("I(S; H_{n+1}) ≤ H(P₀)", measured.information, entropy(one.weights))
    }
    if one.proxy is not None:
        steps["between by information"] = _mean(
            "E Σ_t between_t ≤ 2 q I(S; H_{n+1})",
            measured.between.sum(axis=1), 2 * one.proxy * measured.information,
        )  # fmt: skip
    if one.terms is None and one.proxy is not None and measured.fixed.all():
        h = best_action_entropy(measured.prior.family)
        bound = bounded_entropy_bound(one.n, one.weights, one.n_actions, h)
        alone = bounded_entropy_bound(one.n, one.weights, one.n_actions, 0.0)
        steps["identification"] = _mean(
            "E Σ_t B_t ≤ √(r_B n H(P₀) / 2)", measured.identification.sum(axis=1), alone
        )
        steps["entropy"] = _mean("regret ≤ the entropy bound", measured.regret.sum(axis=1), bound)
    return steps


def _of_variances(measured: LatentCost, one: _Setting) -> dict[str, Inequality]:
    assert one.plain is not None
    within, between = measured.within.sum(axis=1), measured.between.sum(axis=1)
    names = (
        "2 σ² H(P₀) + κ² tr Cov(θ)",
        "2 (σ² + κ² λ) H(P₀) + κ² tr Cov(θ₀,S)",
        "2 (σ² + κ² λ + D²/4) H(P₀)",
    )
    forms = {
        f"between {i}": _mean(f"E Σ_t between_t ≤ {name}", between, b)
        for i, (name, b) in enumerate(zip(names, one.plain.between, strict=False), start=1)
    }
    return {
        "gain": _every(
            "1/2 Σ_t log(1 + u_t(A_t,s) / σ²) ≤ γ_s",
            measured.gain, one.plain.information,
        ),
        "within": _every("Σ_t u_t(A_t,s) ≤ w_s", measured.variances, one.plain.within),
        "total": _mean("E Σ_t (within_t + between_t) ≤ j", within + between, one.plain.total),
        **forms,
    }  # fmt: skip


def _of_bounds(measured: LatentCost, one: _Setting) -> dict[str, Inequality]:
    terms = one.terms if measured.fixed.all() else one.plain
    assert terms is not None
    identification = measured.identification.sum(axis=1)
    regret = measured.regret.sum(axis=1)
    steps = {
        "learning": _mean("E Σ_t W_t ≤ √(r n w)", measured.learning.sum(axis=1), terms.learning),
        "identification": _mean("E Σ_t B_t ≤ √(r_B n b)", identification, terms.identification),
        "entropy": _mean("regret ≤ the entropy bound", regret, terms.bound),
    }
    family = measured.prior.family
    if family.n_arms is not None and one.mean_range is not None and measured.fixed.all():
        sigma = family.common_noise
        assert sigma is not None
        if np.ptp(family.parameter_variances()) == 0:
            found = narrow_terms(
                one.n, one.weights, family.parameter_means(), one.width, sigma, 0.0
            )
            steps["narrow"] = _mean(
                "E Σ_t B_t ≤ the bound for narrow components", identification, found.bound
            )
    return steps


def _of_counts(measured: LatentCost, one: _Setting) -> dict[str, Inequality]:
    assert one.mean_range is not None
    assert one.proxy is not None
    sigma = measured.prior.family.common_noise
    assert sigma is not None
    v = one.proxy - one.mean_range**2 / 4
    delta = 1 / max(2, one.n)
    true = measured.sampled == measured.latent[:, None]
    ledger, drawn = np.cumsum(measured.excess * true, axis=1), np.cumsum(true, axis=1)
    lost = (ledger > radius(drawn, v, delta)).any(axis=1)
    bound = count_bound(
        one.n, one.weights, sigma, one.kappa, (v - sigma**2) / one.kappa**2, one.mean_range
    )
    return {
        "confidence": _mean(
            f"P(the true state's ledger ever exceeds rad) ≤ δ = {delta:g}",
            lost.astype(float), delta,
        ),
        "mean range": _every("m_t(a,s) - m_t(a,s') ≤ D", measured.mean_range, one.mean_range),
        "count bound": _mean(
            "E Σ_t B_t ≤ the count bound", measured.identification.sum(axis=1), bound
        ),
    }  # fmt: skip


def _of_known_models(measured: LatentCost, one: _Setting) -> dict[str, Inequality]:
    """Return the steps for arms without width: the cost of each pair of states."""
    family = measured.prior.family
    if family.n_arms is None or family.common_noise is None:
        return {}
    means = family.parameter_means()
    separation = gaussian_separation(means, family.common_noise)
    best = means.argmax(axis=1)
    apart = np.take_along_axis(separation, best[:, None, None], axis=2)[:, :, 0]
    s, r = np.triu_indices(len(means), 1)
    told = (best[s] != best[r]) & (apart[s, r] * apart[r, s] > 0)
    s, r = s[told], r[told]
    if not len(s):
        return {}
    speed = 2 * np.sqrt(apart[s, r] * apart[r, s])
    bound = separated_bound(one.weights, means, separation, None)
    steps = {
        "pairs": _mean(
            "E Σ_t P_t(s) P_t(s') ≤ √(P₀(s) P₀(s')) / (2 √(α β)), each pair",
            measured.pairs[:, s, r], np.sqrt(one.weights[s] * one.weights[r]) / speed,
        ),
    }  # fmt: skip
    if told.all():
        # Over all rounds: in one of them X falls a lot in the few runs that hit upon the state.
        paid = float(speed.min()) * measured.products[:, :-1].sum(axis=1)
        steps["shrinking"] = _mean(
            "2 √(α β) Σ_t E X_t² ≤ E X_1 - E X_n, X_t = √(P_t(s) P_t(s'))",
            paid, measured.roots[:, 0] - measured.roots[:, -1],
        )  # fmt: skip
    if math.isfinite(bound):
        steps["known models"] = _mean(
            "regret ≤ the bound for known models", measured.regret.sum(axis=1), bound
        )
    return steps
