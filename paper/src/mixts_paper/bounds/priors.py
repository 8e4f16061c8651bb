"""All bounds for a prior: the value of each, or the condition of it that fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixts import MixturePrior
from mixts.errors import ParameterError
from mixts.extend import Array, ArrayLike, Float, checks
from mixts.families import Family, GaussianArms
from mixts_paper.bounds.entropies import (
    EntropyTerms,
    best_action_entropy,
    bounded_entropy_bound,
    common_mean_range,
    count_bound,
    entropy,
    entropy_terms,
)
from mixts_paper.bounds.models import (
    gaussian_separation,
    known_mdps,
    narrow_terms,
    separated_bound,
)
from mixts_paper.bounds.theorems import theorem1, theorem2

ENTROPY, COUNTS, KNOWN, NARROW = "entropy", "counts", "known models", "narrow components"
IDENTIFICATION, IDS = "entropy, identification alone", "entropy, MixIDS"
THEOREMS = {
    f"Theorem {number}, {form}": (number, form)
    for number in (1, 2)
    for form in ("statement", "appendix")
}

_WITHOUT_C2 = "without the theorem's unspecified c_2"
_GAUSSIAN = "needs rewards with Gaussian noise of a known standard deviation"
_NO_WIDTH = "needs components of width 0, which know their parameters"
_COMMON = (
    "needs one covariance for all components, isotropic or, for arms, diagonal: otherwise the "
    "posterior means of two components may end any distance apart"
)
_FIXED = "needs an action set that is the same in every round"
_ARMS = "needs arms, or unit vectors as actions"
_IDS = "needs arms: elsewhere MixIDS only estimates the regret of an action"
_MDP = "holds for tabular MDPs (and Bernoulli arms: one state, one step)"


class PriorBound(NamedTuple):
    """One bound for a prior: its value, or the condition that fails.

    Attributes
    ----------
    name : str
        Name of the bound, such as "entropy".
    value : float or None
        The bound on the Bayes regret; None if it does not apply.
    remark : str
        Without a value, the condition that fails; otherwise what to know about the bound.
    whole : bool
        Whether the whole regret of MixTS is bounded, not only a part, nor that of another policy.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper import bounds
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[7, 3], [3, 7]], [[3, 7], [7, 3]]))
    >>> least = bounds.of(prior, 1000).least
    >>> least.name, round(least.value, 1)
    ('entropy', 26.3)
    """

    name: str
    value: float | None
    remark: str = ""
    whole: bool = True


@dataclass(frozen=True, repr=False)
class PriorBounds:
    """Bounds on MixTS's Bayes regret for tasks from a prior; made by :func:`of`.

    All assume that tasks are drawn from the prior, and that the action sets of later rounds tell
    nothing about a task that its past does not tell.

    Attributes
    ----------
    prior : MixturePrior
        Prior of the tasks.
    n : int
        Number of rounds or episodes.
    rows : tuple of PriorBound
        The bounds, those that do not apply included.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper import bounds
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[7, 3], [3, 7]], [[3, 7], [7, 3]]))
    >>> found = bounds.of(prior, 1000)
    >>> sorted(found.applicable)
    ['Theorem 2, appendix', 'Theorem 2, statement', 'entropy', 'entropy, MixIDS']
    >>> found.conditions["counts"]
    'needs rewards with Gaussian noise of a known standard deviation'
    """

    prior: MixturePrior
    n: int
    rows: tuple[PriorBound, ...]

    @property
    def applicable(self) -> dict[str, float]:
        """The bounds that apply, by name."""
        return {row.name: row.value for row in self.rows if row.value is not None}

    @property
    def conditions(self) -> dict[str, str]:
        """For each bound that does not apply, the condition that fails."""
        return {row.name: row.remark for row in self.rows if row.value is None}

    @property
    def least(self) -> PriorBound | None:
        """The least complete bound on the whole regret of MixTS; None if none applies."""
        whole = [row for row in self.rows if row.value is not None and row.whole]
        complete = [row for row in whole if row.remark != _WITHOUT_C2]
        return min(complete, key=lambda row: row.value or 0.0, default=None)

    def __getitem__(self, name: str) -> float:
        """Return the bound of this name."""
        found = self.applicable
        if name in found:
            return found[name]
        if name in self.conditions:
            raise KeyError(f"{name} does not apply: it {self.conditions[name]}")
        raise KeyError(f"no bound {name!r}; bounds: {[row.name for row in self.rows]}")

    def __iter__(self) -> Iterator[PriorBound]:
        return iter(self.rows)

    def __repr__(self) -> str:
        unit = "episodes" if self.prior.family.plans else "rounds"
        cells = [
            (row.name, "-" if row.value is None else f"{row.value:,.4g}", row.remark)
            for row in self.rows
        ]
        first, second = (max(len(row[i]) for row in cells) for i in (0, 1))
        lines = [
            f"  {name.ljust(first)}  {value.rjust(second)}  {remark}".rstrip()
            for name, value, remark in cells
        ]
        head = f"Bounds on the Bayes regret of {self.n:,} {unit}, {self.prior.family!r}"
        return "\n".join([head, *lines])


def of(prior: MixturePrior, n: int, actions: ArrayLike | None = None) -> PriorBounds:
    """Return every bound that applies to a prior, and why the others do not.

    Theorem 1 does not depend on the latent prior [paper: Sec. 4.3]; bounds by entropy do.

    Parameters
    ----------
    prior
        Prior of the tasks, which is also the agent's.
    n
        Number of rounds, or of episodes.
    actions
        For linear rewards: the action set of all rounds, (K, d), or a stack of different sets,
        (m, K, d), which give kappa and K. None for arms and MDPs.

    Returns
    -------
    PriorBounds
        The bounds; they print as a table.

    Examples
    --------
    >>> import mixts
    >>> from mixts_paper import bounds
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[7, 3], [3, 7]], [[3, 7], [7, 3]]))
    >>> round(bounds.of(prior, 1000)["entropy"], 1)
    26.3
    """
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    n = checks.count(n, "n")
    family, weights = prior.family, prior.weights
    if not weights.all():
        family, weights = family.select(np.flatnonzero(weights)), weights[weights > 0]
    if prior.arms.retired.any():
        family = family.as_arms.arms(np.flatnonzero(~prior.arms.retired))
    if family.n_features is None and actions is not None:
        raise ParameterError(f"{family!r} has no features: leave actions out")
    if family.plans:
        rows = _of_mdps(family, weights, n)
    elif family.common_noise is not None:
        rows = _of_gaussian(family, weights, n, actions)
    elif family.n_arms is not None and family.reward_range == (0.0, 1.0):
        rows = _of_bounded(family, weights, n)
    else:
        rows = _with_failures(
            {}, f"needs Gaussian noise, rewards in [0, 1] on arms, or an MDP: {family!r}"
        )
    return PriorBounds(prior, n, tuple(rows))


def _with_failures(found: dict[str, PriorBound], reason: str) -> list[PriorBound]:
    """Return the found bounds and all others, which fail for this reason, in a fixed order."""
    names = (ENTROPY, COUNTS, KNOWN, NARROW, *THEOREMS, IDS)
    rows = [found.get(name, PriorBound(name, None, reason)) for name in names]
    return [*rows, *(row for name, row in found.items() if name not in names)]


def _theorems(number: int, bound: Callable[..., Any], *arguments: Any) -> dict[str, PriorBound]:
    """Return both forms of a theorem."""
    rows = [
        PriorBound(
            name, float(bound(*arguments, form=form)), _WITHOUT_C2 if form == "statement" else ""
        )
        for name, (its_number, form) in THEOREMS.items()
        if its_number == number
    ]
    return {row.name: row for row in rows}


def _wide(variance: float) -> PriorBound:
    """Return that components are too wide for the bound for known models."""
    return PriorBound(KNOWN, None, f"{_NO_WIDTH}; the largest width is {math.sqrt(variance):.3g}")


# -- Gaussian rewards -----------------------------------------------------------------------------


class _LinearBandit(NamedTuple):
    """A linear bandit as the bounds see it."""

    weights: Float[Array, " L"]
    mean: Float[Array, "L d"]
    covariance: Float[Array, "L d d"]
    noise_std: float
    variances: Float[Array, " L"]
    actions: Array | None
    """The action set (K, d) of every round; None if it changes."""
    n_actions: int
    kappa: float
    arms: bool
    """Whether all actions are unit vectors."""

    @property
    def reward_means(self) -> Float[Array, "L K"]:
        """Prior mean of every action of a fixed set, under every component."""
        assert self.actions is not None
        return self.mean @ self.actions.T

    @property
    def spread(self) -> float | None:
        """Largest difference of two components' means of an arm; None without arms."""
        return float(np.ptp(self.mean, axis=0).max()) if self.arms else None

    @property
    def mean_range(self) -> float | None:
        """D, the most by which components' posterior means of an action differ, if bounded."""
        return common_mean_range(self.mean, self.covariance, self.kappa, self.spread)

    def entropy_terms(self, n: int, best_actions: Array | None = None) -> EntropyTerms:
        """Return the bounds by entropy; ``best_actions`` are the entropies of the best action."""
        return entropy_terms(
            n, self.weights, self.mean, self.covariance, self.noise_std, self.kappa, self.n_actions,
            best_actions, self.spread,
        )  # fmt: skip


def _linear_bandit(family: Family, weights: Array, actions: ArrayLike | None) -> _LinearBandit:
    linear = family.to_linear()
    covariance = np.array(linear.full_covariances())
    variances = np.maximum(np.linalg.eigvalsh(covariance)[:, -1], 0.0)
    if actions is None:
        sets = np.eye(linear.n_features)[None]
    else:
        sets = checks.numbers(actions, "actions must be numbers", ParameterError)
        if sets.ndim not in (2, 3) or sets.shape[-1] != linear.n_features or not sets.size:
            raise ParameterError(
                f"actions must have shape (K, d) or (m, K, d) with d = {linear.n_features}, got "
                f"{sets.shape}"
            )
        sets = sets.reshape(-1, *sets.shape[-2:])
    unit = ((sets == 0) | (sets == 1)).all() and (sets.sum(axis=-1) == 1).all()
    kappa = float(np.linalg.norm(sets, axis=-1).max())
    return _LinearBandit(
        weights, np.array(linear.mean), covariance, float(linear.noise_std), variances,
        sets[0] if len(sets) == 1 else None, sets.shape[1], kappa, bool(unit),
    )  # fmt: skip


def _of_gaussian(
    family: Family, weights: Array, n: int, actions: ArrayLike | None
) -> list[PriorBound]:
    if family.n_arms is None and actions is None:
        return _with_failures({}, "needs the actions (K, d), on which kappa and K depend")
    bandit = _linear_bandit(family, weights, actions)
    sizes = n, bandit.mean.shape[1], len(weights)
    noise = bandit.noise_std, bandit.kappa, bandit.variances.max()
    found = _theorems(1, theorem1, *sizes, *noise)
    terms = bandit.entropy_terms(n, _best_action_entropies(bandit))
    found[ENTROPY] = PriorBound(ENTROPY, float(terms.bound), _least_form(terms))
    found[IDS] = _ids_of_arms(n, bandit)
    found[COUNTS] = _counts(n, bandit, terms)
    found[KNOWN] = _known(bandit)
    found[NARROW] = _narrow(n, bandit, terms)
    return _with_failures(found, _MDP)


def _ids_of_arms(n: int, bandit: _LinearBandit) -> PriorBound:
    """Return the bound of the information ratio that MixIDS minimises."""
    if not bandit.arms or bandit.actions is None:
        return PriorBound(IDS, None, _IDS)
    return PriorBound(IDS, float(bandit.entropy_terms(n).joint), whole=False)


def _best_action_entropies(bandit: _LinearBandit) -> Float[Array, " L"] | None:
    """Return h_s, or an upper bound of it; None if action sets change."""
    if bandit.actions is None:
        return None
    diagonal = np.diagonal(bandit.covariance, axis1=1, axis2=2)
    correlated = (bandit.covariance - diagonal[:, :, None] * np.eye(len(diagonal[0]))).any()
    if bandit.arms and not correlated:
        index = bandit.actions.argmax(axis=1)
        return best_action_entropy(
            GaussianArms(bandit.mean[:, index], diagonal[:, index], bandit.noise_std)
        )
    means = bandit.reward_means
    tied = (means == means.max(axis=1, keepdims=True)).sum(axis=1)
    return np.log(np.where(bandit.variances > 0, bandit.n_actions, tied))


def _least_form(terms: EntropyTerms) -> str:
    if terms.best_arm == terms.bound:
        return "by the entropy of the best action"
    if terms.joint == terms.bound:
        return "learning and identification in one root"
    return f"learning {terms.learning:.4g} + identification {terms.identification:.4g}"


def _counts(n: int, bandit: _LinearBandit, terms: EntropyTerms) -> PriorBound:
    widest, D = float(bandit.variances.max()), bandit.mean_range
    if D is None:
        return PriorBound(COUNTS, None, _COMMON)
    found = count_bound(n, bandit.weights, bandit.noise_std, bandit.kappa, widest, D)
    remark = f"learning {terms.learning:.4g} + identification {found:.4g}"
    return PriorBound(COUNTS, float(terms.learning + found), remark)


def _known(bandit: _LinearBandit) -> PriorBound:
    if bandit.variances.any():
        return _wide(bandit.variances.max())
    if bandit.actions is None:
        return PriorBound(KNOWN, None, _FIXED)
    means = bandit.reward_means
    separation = gaussian_separation(means, bandit.noise_std)
    return _finite(separated_bound(bandit.weights, means, separation, None))


def _finite(found: float) -> PriorBound:
    if math.isinf(found):
        reason = (
            "needs both best actions of every pair of states to tell the pair apart; with n, "
            "known_models grows with log n instead"
        )
        return PriorBound(KNOWN, None, reason)
    return PriorBound(KNOWN, found, "for every number of rounds")


def _narrow(n: int, bandit: _LinearBandit, terms: EntropyTerms) -> PriorBound:
    isotropic = bandit.mean_range is not None and np.ptp(np.diag(bandit.covariance[0])) == 0
    if not bandit.arms or bandit.actions is None:
        return PriorBound(NARROW, None, _ARMS if bandit.actions is not None else _FIXED)
    if not isotropic:
        return PriorBound(NARROW, None, "needs one width for all arms of all components")
    width = math.sqrt(bandit.variances[0])
    learning = float(terms.learning)
    found = narrow_terms(n, bandit.weights, bandit.reward_means, width, bandit.noise_std, learning)
    return PriorBound(NARROW, found.bound)


# -- rewards in [0, 1] and MDPs -------------------------------------------------------------------


def _of_bounded(family: Family, weights: Array, n: int) -> list[PriorBound]:
    h, (n_arms,) = best_action_entropy(family), family.statistics_shape
    mean, variance = family.parameter_means(), family.parameter_variances()
    # A beta distribution has variance m (1 - m) / (alpha + beta + 1).
    least = float((mean * (1 - mean) / variance - 1).min())
    found = _theorems(2, theorem2, n, 1, n_arms, 1, len(weights), least)
    bound = float(bounded_entropy_bound(n, weights, n_arms, h))
    found[ENTROPY] = PriorBound(ENTROPY, bound)
    found[KNOWN] = _wide(variance.max())
    # The n rewards of an arm tell at most log(n + 1) on its mean: only their sum counts.
    told = entropy(weights) + n_arms * math.log(n + 1)
    ids = math.sqrt(n_arms * n * told / 2)
    found[IDS] = PriorBound(IDS, ids, whole=False)
    return _with_failures(found, _GAUSSIAN)


def _of_mdps(family: Any, weights: Array, n: int) -> list[PriorBound]:
    size = (n, family.n_states, family.n_actions, family.horizon, len(weights))
    found = _theorems(2, theorem2, *size, family.min_pseudo_count)
    found[IDS] = PriorBound(IDS, None, "needs arms: MixIDS does not plan")
    known = not family.parameter_variances().any()
    bound = float(bounded_entropy_bound(n, weights, None, 0.0, family.horizon))
    remark = "needs few actions to bound the cost of learning, and policies are many"
    if known:
        found[ENTROPY] = PriorBound(ENTROPY, bound)
        mdps = family.mdp(family.parameter_means())
        found[KNOWN] = _finite(known_mdps(weights, mdps))
    else:
        found[ENTROPY] = PriorBound(ENTROPY, None, remark)
        found[IDENTIFICATION] = PriorBound(
            IDENTIFICATION, bound, "for the cost of finding the latent state", whole=False
        )
        found[KNOWN] = _wide(family.parameter_variances().max())
    return _with_failures(found, _GAUSSIAN)
