"""References for learning: the objective, computed independently from raw histories.

Nothing of the library is used but the learned numbers. Tasks are lists of observations, not
statistics; the evidence is a product of one-step predictions for counts (Polya's urn, the negative
binomial law) and a multivariate normal density of all rewards of a task for the others. The
hyperprior is written as Kullback-Leibler divergences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

import mixts
from mixts.families import TabularStatistics

COVARIANCE_TYPES = ("full", "tied", "diag")
MDPS = ("tabular", "support")
KINDS = ("bernoulli", "gaussian", "poisson", *COVARIANCE_TYPES, *MDPS)
HORIZON, NOISE = 4, 0.5
SUPPORT = np.array(
    [[[1, 1, 0], [0, 1, 1]], [[1, 0, 1], [1, 1, 1]], [[0, 1, 0], [1, 1, 1]]], dtype=bool
)
"""Possible transitions; in state 2 the first action has a single outcome."""

Task = tuple[Any, ...]
"""Arms or features and rewards; of MDPs states, actions, rewards and next states."""


# -- tasks ----------------------------------------------------------------------------------------


def true_prior(kind: str) -> mixts.MixturePrior:
    """Return a prior with two kinds of task that a few observations distinguish."""
    weights = [0.6, 0.4]
    if kind == "bernoulli":
        family: Any = mixts.BernoulliArms([[8, 2, 4], [2, 7, 4]], [[2, 7, 4], [8, 2, 4]])
    elif kind == "gaussian":
        family = mixts.GaussianArms([[1, -1, 0], [-1, 1, 0]], np.full((2, 3), 0.1), NOISE)
    elif kind == "poisson":
        family = mixts.PoissonArms([[8, 4, 3], [4, 9, 3]], [[2, 4, 2], [4, 2, 2]])
    elif kind in COVARIANCE_TYPES:
        covariance = {
            "full": [[[0.2, 0.05], [0.05, 0.1]], [[0.1, -0.04], [-0.04, 0.3]]],
            "tied": [[0.2, 0.05], [0.05, 0.1]],
            "diag": [[0.2, 0.1], [0.1, 0.3]],
        }[kind]
        family = mixts.LinearGaussian([[1.5, -1], [-1, 1.5]], covariance, NOISE, kind)  # type: ignore[arg-type]
    else:
        rng = np.random.default_rng(3)
        reward = np.array([[[6, 2], [2, 6], [3, 3]], [[2, 6], [6, 2], [3, 3]]], float)
        reward = np.stack([reward, reward[::-1]], axis=2)
        transition = rng.uniform(0.5, 5.0, (2, 3, 2, 3))
        if kind == "support":
            transition = np.where(SUPPORT, transition, 0.0)
        family = mixts.TabularMDP(reward, transition, HORIZON, np.full(3, 1 / 3))
    return mixts.MixturePrior(family, weights)


def drawn(prior: mixts.MixturePrior, n_tasks: int, lengths: Any, seed: int) -> list[Task]:
    """Draw tasks from a prior, each with so many observations of random actions."""
    rng = np.random.default_rng(seed)
    family: Any = prior.family
    _, theta = prior.draw(rng, n_tasks)
    tasks: list[Task] = []
    for parameters, n in zip(theta, np.broadcast_to(lengths, n_tasks), strict=True):
        if isinstance(family, mixts.TabularMDP):
            mdp = family.mdp(parameters)
            x, a = rng.integers(family.n_states, size=n), rng.integers(family.n_actions, size=n)
            rewards = (rng.random(n) < mdp.rewards[x, a]).astype(float)
            upto = mdp.transitions[x, a].cumsum(axis=1)
            to = (upto > rng.random((n, 1)) * upto[:, -1:]).argmax(axis=1)
            tasks.append((x, a, rewards, to))
        elif isinstance(family, mixts.LinearGaussian):
            features = rng.normal(size=(n, family.n_features))
            tasks.append((features, family.outcomes(rng, features @ parameters)))
        else:
            arms = rng.integers(family.n_arms, size=n)
            tasks.append((arms, family.outcomes(rng, parameters[arms])))
    return tasks


def statistics_of(tasks: list[Task], like: mixts.MixturePrior) -> Any:
    """The library's statistics of these tasks."""
    family: Any = like.family
    if isinstance(family, mixts.TabularMDP):
        shape = (len(tasks), family.n_states, family.n_actions)
        rewards, transitions = np.zeros((*shape, 2), int), np.zeros((*shape, shape[1]), int)
        for i, (x, a, r, to) in enumerate(tasks):
            np.add.at(rewards[i], (x, a, np.where(r > 0, 0, 1)), 1)
            np.add.at(transitions[i], (x, a, to), 1)
        return TabularStatistics(rewards=rewards, transitions=transitions)
    belief = like.belief(len(tasks))
    owners = np.repeat(np.arange(len(tasks)), [len(task[1]) for task in tasks])
    actions, outcomes = (np.concatenate([task[i] for task in tasks]) for i in (0, 1))
    belief.update(actions, outcomes, owners)
    return belief.statistics


@dataclass(frozen=True)
class Case:
    """Past tasks of one family, as they happened and as statistics."""

    kind: str
    tasks: list[Task]
    statistics: Any

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for learning from these tasks."""
        if self.kind in MDPS:
            support = {"support": SUPPORT} if self.kind == "support" else {}
            return {"horizon": HORIZON, **support}
        return {"covariance_type": self.kind} if self.kind in COVARIANCE_TYPES else {}


def case_of(kind: str, n_tasks: int = 24, lengths: Any = None, seed: int = 0) -> Case:
    """By default tasks of 1 to 12 observations."""
    prior = true_prior(kind)
    if lengths is None:
        lengths = 1 + np.arange(n_tasks) % 12
    tasks = drawn(prior, n_tasks, lengths, seed)
    return Case(kind, tasks, statistics_of(tasks, prior))


# -- the evidence ---------------------------------------------------------------------------------


def log_evidence(family: Any, tasks: list[Task]) -> Any:
    """ln p(task | s), (n, L)."""
    if isinstance(family, (mixts.LinearGaussian, mixts.GaussianArms)):
        return np.array([_normal_evidence(family, *task) for task in tasks])
    return np.array([_predicted(family, task) for task in tasks])


def mixture_evidence(family: Any, weights: Any, tasks: list[Task]) -> float:
    """The marginal likelihood of all tasks."""
    each = special.logsumexp(np.log(weights) + log_evidence(family, tasks), axis=1)
    return float(each.sum())


def covariances(family: Any) -> Any:
    """(L, d, d), from whatever the family keeps."""
    n, d = family.mean.shape
    if isinstance(family, mixts.GaussianArms):
        return np.array([np.diag(row) for row in family.variance])
    if family.covariance_type == "diag":
        return np.array([np.diag(row) for row in family.covariance])
    return np.broadcast_to(family.covariance, (n, d, d))


def _normal_evidence(family: Any, actions: Any, rewards: Any) -> list[float]:
    design = np.eye(family.n_arms)[actions] if actions.ndim == 1 else actions
    noise = family.noise_std**2 * np.eye(len(rewards))
    return [
        float(
            stats.multivariate_normal.logpdf(
                rewards, design @ mean, design @ covariance @ design.T + noise
            )
        )
        for mean, covariance in zip(family.mean, covariances(family), strict=True)
    ]


def earlier(columns: Any) -> Any:
    """Count how often each entry's value occurs before it."""
    return np.tril(columns[:, None] == columns, -1).sum(axis=1)


def _predicted(family: Any, task: Task) -> Any:
    """One observation after the other, each predicted from those before it."""
    if isinstance(family, mixts.TabularMDP):
        x, a, r, to = task
        pair = x * family.n_actions + a
        n = family.n_components
        reward = family.reward.reshape(n, -1, 2)
        transition = family.transition.reshape(n, -1, family.n_states)
        return _urn(reward, pair, np.where(r > 0, 0, 1)) + _urn(transition, pair, to)
    arms, rewards = task
    if isinstance(family, mixts.BernoulliArms):
        counts = np.stack([family.alpha, family.beta], axis=2)
        return _urn(counts, arms, np.where(rewards > 0, 0, 1))
    seen = earlier(arms)
    won = np.tril(arms[:, None] == arms, -1) @ rewards
    shape, rate = family.shape[:, arms] + won, family.rate[:, arms] + seen
    return stats.nbinom.logpmf(rewards, shape, rate / (rate + 1)).sum(axis=1)


def _urn(counts: Any, rows: Any, outcomes: Any) -> Any:
    """Polya's urn: every outcome puts one more of its kind into its row's urn."""
    same = earlier(rows * counts.shape[2] + outcomes)
    kind = counts[:, rows, outcomes] + same
    return np.log(kind / (counts.sum(axis=2)[:, rows] + earlier(rows))).sum(axis=1)


# -- the hyperprior -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hyperprior:
    """``pseudo`` tasks of the centre for each component and for the weights, and what else is said.

    Gaussian families prefer components that vary alike, and noise that is learned has one pseudo
    reward, or a part of it, about ``noise``.
    """

    centre: Any
    pseudo: float
    noise: float | None = None

    def __call__(self, family: Any, weights: Any) -> float:
        value = self.pseudo * float(np.log(weights).sum())
        value -= self.pseudo * float(np.sum(divergences(self.centre, family)))
        if isinstance(family, (mixts.LinearGaussian, mixts.GaussianArms)):
            value -= self._unlike(family)
            if self.noise is not None:
                ratio = (self.noise / family.noise_std) ** 2
                value -= self.pseudo / 2 * (ratio - np.log(ratio))
        return value

    def _unlike(self, family: Any) -> float:
        """(d + 1) / 2 sum_s (ln det Sigma_s - ln det W), d = 1 where dimensions are apart."""
        each = covariances(family)
        kind = getattr(family, "covariance_type", "diag")
        if kind == "tied":
            return 0.0
        tasks = family.mean.shape[1] + 1 if kind == "full" else 2
        alike = np.linalg.inv(np.mean([np.linalg.inv(one) for one in each], axis=0))
        gap = [np.linalg.slogdet(one)[1] - np.linalg.slogdet(alike)[1] for one in each]
        return tasks / 2 * float(np.sum(gap))


def divergences(centre: Any, family: Any) -> Any:
    """KL(centre || component) of each component."""
    if isinstance(family, mixts.BernoulliArms):
        first = np.stack([centre.alpha, centre.beta], axis=2)
        return _dirichlet(first, np.stack([family.alpha, family.beta], axis=2))
    if isinstance(family, mixts.TabularMDP):
        n = family.n_components
        return sum(
            _dirichlet(ours.reshape(1, -1, k), theirs.reshape(n, -1, k))
            for ours, theirs, k in (
                (centre.reward, family.reward, 2),
                (centre.transition, family.transition, family.n_states),
            )
        )
    if isinstance(family, mixts.PoissonArms):
        a, b, c, d = centre.shape, centre.rate, family.shape, family.rate
        each = (a - c) * special.digamma(a) - special.gammaln(a) + special.gammaln(c)
        return (each + c * np.log(b / d) + a * (d - b) / b).sum(axis=1)
    own = covariances(centre)[0]
    gaps = family.mean - centre.mean
    return np.array(
        [
            (np.trace(np.linalg.solve(one, own)) + gap @ np.linalg.solve(one, gap) - len(gap)) / 2
            + (np.linalg.slogdet(one)[1] - np.linalg.slogdet(own)[1]) / 2
            for one, gap in zip(covariances(family), gaps, strict=True)
        ]
    )


def _dirichlet(centre: Any, counts: Any) -> Any:
    """Sum over rows; outcomes that are impossible in both are left out."""
    total = np.zeros(len(counts))
    for row in range(counts.shape[1]):
        possible = centre[0, row] > 0
        c = centre[0, row, possible]
        logs = special.digamma(c) - special.digamma(c.sum())
        for s, a in enumerate(counts[:, row][:, possible]):
            norm = special.gammaln(c.sum()) - special.gammaln(c).sum()
            norm -= special.gammaln(a.sum()) - special.gammaln(a).sum()
            total[s] += norm + ((c - a) * logs).sum()
    return total


# -- free coordinates -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinates:
    """All parameters of a mixture as one vector without constraints, and back."""

    start: Any
    rebuild: Callable[[Any], tuple[Any, Any]]


def coordinates(prior: mixts.MixturePrior, *, noise_is_free: bool) -> Coordinates:
    """Weights as logarithms, up to a factor; positive numbers as logarithms, covariances as
    Cholesky factors with logarithms on the diagonal; means as they are."""
    family: Any = prior.family
    pieces: list[tuple[Any, Callable[[Any], Any]]] = [
        (np.log(prior.weights[1:] / prior.weights[0]), _weights)
    ]
    if isinstance(family, mixts.TabularMDP):
        pieces += [_positive(family.reward), _positive(family.transition)]
    elif isinstance(family, mixts.BernoulliArms):
        pieces += [_positive(family.alpha), _positive(family.beta)]
    elif isinstance(family, mixts.PoissonArms):
        pieces += [_positive(family.shape), _positive(family.rate)]
    else:
        pieces += [(family.mean, lambda x: x), _spread(family)]
        if noise_is_free:
            pieces.append(_positive(np.array(family.noise_std)))
    starts = [np.asarray(piece) for piece, _ in pieces]
    cuts = np.cumsum([piece.size for piece in starts])[:-1]

    def rebuild(x: Any) -> tuple[Any, Any]:
        parts = [
            back(part.reshape(piece.shape))
            for part, piece, (_, back) in zip(np.split(x, cuts), starts, pieces, strict=True)
        ]
        return _family(family, parts[1:]), parts[0]

    return Coordinates(np.concatenate([piece.ravel() for piece in starts]), rebuild)


def _weights(logits: Any) -> Any:
    return special.softmax(np.append(0.0, logits))


def _positive(array: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Zeros stay out of it, and where they are."""
    possible = array > 0

    def back(logs: Any) -> Any:
        out = np.zeros(array.shape)
        out[possible] = np.exp(logs)
        return out

    return np.log(array[possible]), back


def _spread(family: Any) -> tuple[Any, Callable[[Any], Any]]:
    if isinstance(family, mixts.GaussianArms):
        return _positive(family.variance)
    if family.covariance_type == "diag":
        return _positive(family.covariance)
    d = family.mean.shape[1]
    rows, columns = np.tril_indices(d)
    factor = np.linalg.cholesky(family.covariance)[..., rows, columns]
    diagonal = rows == columns

    def back(entries: Any) -> Any:
        lower = np.zeros((*entries.shape[:-1], d, d))
        lower[..., rows, columns] = np.where(diagonal, np.exp(entries), entries)
        return lower @ np.swapaxes(lower, -1, -2)

    return np.where(diagonal, np.log(np.where(diagonal, factor, 1.0)), factor), back


def _family(like: Any, parts: list[Any]) -> Any:
    if isinstance(like, mixts.TabularMDP):
        return mixts.TabularMDP(*parts, like.horizon, like.initial)
    if isinstance(like, (mixts.BernoulliArms, mixts.PoissonArms)):
        return type(like)(*parts)
    noise = float(parts[2]) if len(parts) == 3 else like.noise_std
    if isinstance(like, mixts.GaussianArms):
        return mixts.GaussianArms(parts[0], parts[1], noise)
    return mixts.LinearGaussian(parts[0], parts[1], noise, like.covariance_type)


def gradient(function: Callable[[Any], float], at: Any, step: float = 1e-5) -> Any:
    """Central differences: errors of step^2, and of rounding divided by the step."""
    unit = step * np.eye(len(at))
    return np.array([(function(at + h) - function(at - h)) / (2 * step) for h in unit])
