"""Pooled coefficients: effects that are the same in all tasks, learned beside the mixture.

A row of the logs is [z, x]. The coefficients theta of z differ between tasks and follow the
mixture. The coefficients beta of x are *pooled*: one vector for all tasks. So a reward depends on
``z'theta + x'beta``, as in a mixed model. Once beta is known, ``o = x'beta`` is one number, and the
row that a prior gets is [z, o], whose last coefficient is 1: an offset.

Learning alternates. Given beta, a mixture is learned from the rows [z, o]. Given the mixture, beta
maximises the evidence of all tasks minus ``ridge / 2 |beta|^2``. With the shares r of component s
in task t, ``H = noise^2 I + Z Sigma_s Z'`` and ``e = y - Z m_s - X beta``, its equations are those
of generalised least squares::

    gradient = sum_ts r X' H^-1 e        information = sum_ts r X' H^-1 X

For clicks, residuals are clicks minus their rates, averaged over the posterior of theta, and the
variance of the noise is ``W^-1`` with ``W = p (1 - p)``. The columns z belong to the equations,
too, without a ridge: a common shift of the components' means, which the next mixture learns again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from mixts import _checks, _random
from mixts._progress import step
from mixts._typing import Array, Float, Int, Seed
from mixts.engines import EngineLike
from mixts.errors import ConvergenceWarning, ParameterError
from mixts.families import (
    LinearBernoulli,
    LinearBernoulliStatistics,
    LinearStatistics,
    LinearStudent,
    Statistics,
)
from mixts.families._linear_bernoulli_posterior import click_tasks
from mixts.families._logistic import posterior_moments
from mixts.families.coefficients import CoefficientFamily
from mixts.learning.histories import observed_tasks, statistics_of
from mixts.learning.learn import Learned, learn, seed_number
from mixts.learning.models.predictive import mixture_evidence
from mixts.prior import MixturePrior

RIDGES = (0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e6)
"""Ridges that are compared, in units of the mean information about a coefficient: 1 halves a
typical coefficient, and the last leaves all pooled effects out."""
NEAR = 0.1
"""Ridge, in these units, of the coefficients around which the evidence is expanded."""

NEARLY = 1.0
"""Nats of all held-out tasks by which a smaller ridge must beat a larger one: what Akaike's
criterion asks of a coefficient. Facts that say nothing win by less than that in most data."""

N_FOLDS = 5
"""Parts of the tasks that are held out in turn to choose the ridge."""

MOST_COMPARED = 1000
"""Most tasks on which ridges are compared."""

MOST_ROUNDS = 5
"""Most rounds of learning the mixture again."""

GAIN = 1e-3
"""Stop when a round improves the evidence of a task by less than this many nats on average."""

_MOST_STEPS = 50
STEP_GAIN = 1e-5
"""Newton's steps end when the next one promises less than this many nats a task."""

_BLOCK = 1 << 22
"""Numbers of a temporary array: 32 MiB."""

_NODES = 16
"""Nodes of quadrature over log odds: for deviations up to 3, rates are right to 1e-4."""


@dataclass(frozen=True)
class LearnedPooled:
    """Pooled coefficients, and the mixture that was learned beside them."""

    coefficients: Float[Array, " p"]
    """beta."""
    ridge: float
    """Penalty of beta: each coefficient has the prior N(0, 1 / ridge); infinity leaves all out."""
    learned: Learned
    """The prior of rows [z, o], whose last number is the offset ``o = x'beta``."""

    @property
    def prior(self) -> MixturePrior:
        """The prior of rows [z, o]."""
        return self.learned.prior


def learn_pooled(
    tasks: Any,
    n_components: int | Literal["auto"],
    n_pooled: int,
    *,
    ridge: float | None = None,
    seed: Seed = None,
    engine: EngineLike = None,
    **options: Any,
) -> LearnedPooled:
    """Learn effects that are the same in all tasks beside a mixture of those that differ.

    Parameters
    ----------
    tasks
        Tasks with features, as in :func:`mixts.learn_prior`. The last ``n_pooled`` numbers of each
        row have pooled coefficients. Scale them to about the same spread: they share one ridge.
    n_components
        Number of components of the mixture, or "auto".
    n_pooled
        Number of pooled coefficients.
    ridge
        Penalty ``ridge / 2`` times the sum of the squared coefficients; None chooses the one under
        which held-out tasks have the largest evidence.
    seed, engine
        As in :func:`mixts.learn_prior`.
    **options
        Further options: the fields of :class:`mixts.learning.LearningOptions`.

    Returns
    -------
    LearnedPooled
        The pooled coefficients, and a prior for rows whose last number is the offset: the sum of
        the pooled numbers times their coefficients.

    Examples
    --------
    Rewards rise by 2 for each unit of the last number, in all tasks; the effect of the first number
    differs.

    >>> import numpy as np
    >>> from mixts.learning import learn_pooled
    >>> rng = np.random.default_rng(1)
    >>> rows = rng.normal(size=(100, 20, 2))
    >>> effects = rng.normal(size=(100, 1))
    >>> rewards = rows[..., 0] * effects + 2 * rows[..., 1] + rng.normal(size=(100, 20))
    >>> found = learn_pooled(list(zip(rows, rewards)), 1, 1, seed=1)
    >>> found.coefficients.round(1), found.prior.family.mean.shape
    (array([2.]), (1, 2))
    """
    seed = seed_number(seed)
    statistics = observed_tasks(statistics_of(tasks))

    def mixture(known: Statistics, before: Learned | None) -> Learned:
        number: Any = n_components if before is None else before.selection or n_components
        return learn(known, number, seed=seed, engine=engine, offset=True, **options)

    return alternate(statistics, n_pooled, mixture, ridge=ridge, seed=seed)


def with_offsets(statistics: Statistics, coefficients: Float[Array, " p"]) -> Statistics:
    """Return the statistics of rows [z, x'beta] from those of rows [z, x].

    Parameters
    ----------
    statistics
        Statistics of rows whose last numbers are x.
    coefficients
        beta.

    Returns
    -------
    Statistics
        Statistics of shorter rows, whose last number is the offset.
    """
    return statistics.mapped(offset_matrix(statistics.shape[0], coefficients))


def offset_matrix(n_numbers: int, coefficients: Float[Array, " p"]) -> Float[Array, "e d"]:
    """Return the matrix by which a row [z, x] becomes [z, x'beta]."""
    n_own = n_numbers - len(coefficients)
    matrix = np.eye(n_own + 1, n_numbers)
    matrix[n_own] = np.append(np.zeros(n_own), coefficients)
    return matrix


def alternate(
    statistics: Statistics,
    n_pooled: int,
    learn_mixture: Callable[[Statistics, Learned | None], Learned],
    *,
    ridge: float | None = None,
    seed: int = 1,
) -> LearnedPooled:
    """Learn pooled coefficients and a mixture in turn, until the evidence stops improving.

    Parameters
    ----------
    statistics
        Tasks with rows [z, x].
    n_pooled
        Number of x.
    learn_mixture
        Function of the statistics of rows [z, o], and what it returned last, or None at first.
    ridge
        As in :func:`learn_pooled`.
    seed
        Seed of all that is random.

    Returns
    -------
    LearnedPooled
        The coefficients, and what ``learn_mixture`` returned for them.
    """
    _check(statistics, n_pooled, ridge)
    beta = np.zeros(n_pooled)
    step(f"learning {n_pooled:,} pooled coefficients")
    for _ in range(2):  # the first mixture explains pooled effects by the tasks, the second not
        one = _one_component(with_offsets(statistics, beta), seed)
        chosen = best_ridge(one, statistics, n_pooled, seed) if ridge is None else ridge
        beta = improved(one, statistics, beta, chosen).beta
    learned = learn_mixture(with_offsets(statistics, beta), None)
    for _ in range(MOST_ROUNDS):
        before = objective(learned.prior, statistics, beta, chosen)
        after = improved(learned.prior, statistics, beta, chosen)
        if after.objective - before < GAIN * len(statistics):
            break
        again = learn_mixture(with_offsets(statistics, after.beta), learned)
        if objective(again.prior, statistics, after.beta, chosen) <= before:
            break
        learned, beta = again, after.beta
    return LearnedPooled(beta, float(chosen), learned)


def _check(statistics: Statistics, n_pooled: int, ridge: float | None) -> None:
    _checks.count(n_pooled, "n_pooled")
    if not isinstance(statistics, (LinearStatistics, LinearBernoulliStatistics)):
        raise ParameterError(f"pooled coefficients need tasks with features, got {statistics!r}")
    if n_pooled >= statistics.shape[0]:
        raise ParameterError(
            f"n_pooled must be less than the {statistics.shape[0]} numbers of a row, got "
            f"{n_pooled}: the first ones belong to the task"
        )
    if ridge is not None and not ridge >= 0:
        raise ParameterError(f"ridge must be a number of at least 0, got {ridge!r}")


def _one_component(statistics: Statistics, seed: int) -> MixturePrior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learn(statistics, 1, seed=seed, offset=True).prior


# -- beta, given the mixture ----------------------------------------------------------------------


class Point(NamedTuple):
    """Pooled coefficients, and the prior whose means were shifted with them."""

    prior: MixturePrior
    beta: Float[Array, " p"]
    objective: float


def objective(
    prior: MixturePrior, statistics: Statistics, beta: Float[Array, " p"], ridge: float
) -> float:
    """Return the log evidence of all tasks minus the penalty."""
    return float(equations(prior, statistics, beta).log_evidence.sum() - _penalty(beta, ridge))


def _penalty(beta: Float[Array, " p"], ridge: float) -> float:
    return 0.0 if not beta.any() else ridge / 2 * float(beta @ beta)


def improved(
    prior: MixturePrior,
    statistics: Statistics,
    beta: Float[Array, " p"],
    ridge: float,
    least_gain: float = STEP_GAIN,
) -> Point:
    """Return the pooled coefficients with the largest objective under a prior.

    Newton's steps with the information of the evidence; a step that lowers the objective is halved.
    """
    d = statistics.shape[0] - len(beta)
    if np.isinf(ridge):
        return Point(prior, np.zeros_like(beta), objective(prior, statistics, 0.0 * beta, 1.0))
    penalty = np.append(np.zeros(d), np.full(len(beta), ridge))
    found = equations(prior, statistics, beta)
    now = Point(prior, beta, float(found.log_evidence.sum()) - _penalty(beta, ridge))
    for _ in range(_MOST_STEPS):
        gradient = found.gradient - penalty * np.append(np.zeros(d), now.beta)
        matrix = found.information + np.diag(penalty)
        move = np.linalg.lstsq(matrix, gradient, rcond=1e-10)[0]
        if gradient @ move < least_gain * len(statistics):
            break
        for length in (1.0, 0.5, 0.25, 0.125):
            family = now.prior.family
            assert isinstance(family, CoefficientFamily)
            mean = family.mean + np.append(length * move[:d], 0.0)
            moments = mean, family.covariance, family.covariance_type
            shifted = now.prior.replace(family=family.with_moments(*moments))
            further = now.beta + length * move[d:]
            found = equations(shifted, statistics, further)
            value = float(found.log_evidence.sum()) - _penalty(further, ridge)
            if value >= now.objective:
                break
        else:
            break
        gain, now = value - now.objective, Point(shifted, further, value)
        if gain < least_gain * len(statistics):
            break
    return now


def best_ridge(prior: MixturePrior, statistics: Statistics, n_pooled: int, seed: int) -> float:
    """Return the largest ridge under which tasks that were held out have nearly the most evidence.

    Parameters
    ----------
    prior
        Prior with one component.
    statistics
        Tasks with rows [z, x].
    n_pooled
        Number of x.
    seed
        Seed of the division of the tasks.
    """
    unit, gains = held_out_gains(prior, statistics, n_pooled, seed)
    chosen = int(np.flatnonzero(gains >= gains.max() - NEARLY)[-1])
    if len(statistics) < 2:  # nothing to hold out
        return unit
    return np.inf if chosen == len(RIDGES) - 1 else RIDGES[chosen] * unit


def held_out_gains(
    prior: MixturePrior, statistics: Statistics, n_pooled: int, seed: int
) -> tuple[float, Float[Array, " r"]]:
    """Return the unit of the ridges, and what held-out tasks gain in evidence under each ridge.

    Evidence is taken as quadratic around coefficients with a small ridge, which it is for one
    component with a common noise. Then each fold needs its equations once, whatever the ridges.
    Gains are in nats, of all tasks that were compared, beside those coefficients.

    Parameters
    ----------
    prior, statistics, n_pooled, seed
        As in :func:`best_ridge`.
    """
    some = _random.stream(seed, "pooled", "folds").permutation(len(statistics))[:MOST_COMPARED]
    tasks, d = statistics[np.sort(some)], statistics.shape[0] - n_pooled
    information = equations(prior, tasks, np.zeros(n_pooled)).information
    unit = float(np.diagonal(information)[d:].mean()) or 1.0
    near = improved(prior, tasks, np.zeros(n_pooled), NEAR * unit)
    folds = [
        equations(near.prior, statistics[np.sort(fold)], near.beta)
        for fold in np.array_split(some, min(N_FOLDS, len(some)))
    ]
    gradients, matrices = (np.stack([fold[i] for fold in folds]) for i in (1, 2))
    gains = np.zeros(len(RIDGES))
    for i, ridge in enumerate(RIDGES):
        penalty = np.append(np.zeros(d), np.full(n_pooled, ridge * unit))
        for own, matrix in zip(gradients, matrices, strict=True):
            others = gradients.sum(axis=0) - own - penalty * np.append(np.zeros(d), near.beta)
            rest = matrices.sum(axis=0) - matrix + np.diag(penalty)
            move = np.linalg.lstsq(rest, others, rcond=1e-10)[0]
            gains[i] += own @ move - move @ matrix @ move / 2
    return unit, gains


# -- equations ------------------------------------------------------------------------------------


class Equations(NamedTuple):
    """Log evidence of tasks, and its derivatives by a shift of all means and by beta."""

    log_evidence: Float[Array, " n"]
    gradient: Float[Array, " d"]
    information: Float[Array, "d d"]


def equations(prior: MixturePrior, statistics: Statistics, beta: Float[Array, " p"]) -> Equations:
    """Return the equations of a step from beta.

    Parameters
    ----------
    prior
        Prior of rows [z, o].
    statistics
        Tasks with rows [z, x].
    beta
        Pooled coefficients.

    Returns
    -------
    Equations
        The log evidence of each task, its gradient and its information.
    """
    clicks = isinstance(prior.family, LinearBernoulli)
    return (_of_clicks if clicks else _of_rewards)(prior, statistics, beta)


def _of_rewards(prior: MixturePrior, statistics: Statistics, beta: Float[Array, " p"]) -> Equations:
    """Return the equations of linear rewards, from the triangles of the tasks.

    With ``B = Z C / noise`` and ``M = I + B'B``, ``noise^2 H^-1 = I - B M^-1 B'``. A noise of each
    task has the sharpness ``(degrees + n) / (degrees noise_std^2 + e' H^-1 e)`` instead of
    ``1 / noise^2``.
    """
    assert isinstance(statistics, LinearStatistics)
    known = with_offsets(statistics, beta)
    shares = prior.condition(known).weights
    factor, count = statistics.array("factor"), statistics.array("count")
    width = factor.shape[1] - 1
    gradient, information = np.zeros(width), np.zeros((width, width))
    size = max(1, _BLOCK // (width + 1) ** 2)
    for first in range(0, len(factor), size):
        part = slice(first, first + size)
        more = _of_triangles(prior.family, factor[part], count[part], shares[part], beta)
        gradient += more[0]
        information += more[1]
    return Equations(mixture_evidence(prior, known), gradient, information)


def _of_triangles(
    family: Any,
    factor: Float[Array, "n e e"],
    count: Int[Array, " n"],
    shares: Float[Array, "n L"],
    beta: Float[Array, " p"],
) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    rest = family.without_offset()
    d, roots = rest.n_features, rest.roots
    rows, target = factor[..., :-1], factor[..., -1] - factor[..., d:-1] @ beta
    flat = rows.reshape(-1, rows.shape[2])
    gradient, information = np.zeros(rows.shape[2]), np.zeros((rows.shape[2],) * 2)
    for s in range(rest.n_components):
        b = rows[..., :d] @ (roots.matrices()[roots.group_of[s]] / rest.unit_noise)
        gap = target - rows[..., :d] @ rest.mean[s]
        turned = np.swapaxes(b, 1, 2)
        matrix = np.eye(d) + turned @ b
        lower = np.linalg.cholesky(matrix)
        inside = np.linalg.solve(lower, turned @ rows)
        own = np.linalg.solve(lower, turned @ gap[..., None])[..., 0]
        sharp = np.full(len(gap), 1 / rest.unit_noise**2)
        if isinstance(rest, LinearStudent):
            misfit = (gap**2).sum(axis=1) - (own**2).sum(axis=1)
            degrees, unit = (x[s] for x in rest.noise_prior)
            sharp = (degrees + count) / (unit + misfit)
        weight = shares[:, s] * sharp
        by_row = np.repeat(weight, rows.shape[1])
        information += (flat * by_row[:, None]).T @ flat
        gradient += flat.T @ (by_row * gap.ravel())
        less = inside.reshape(-1, inside.shape[2])
        by_row = np.repeat(weight, d)
        information -= (less * by_row[:, None]).T @ less
        gradient -= less.T @ (by_row * own.ravel())
    return gradient, information


def _of_clicks(prior: MixturePrior, statistics: Statistics, beta: Float[Array, " p"]) -> Equations:
    """Return the equations of clicks, from the posterior moments of the tasks' coefficients.

    With ``M = I + C' Z' W Z C``, ``H^-1 = W - W Z C M^-1 C' Z' W``, with W at the posterior mean.
    """
    family, tasks = prior.family, click_tasks(statistics)  # type: ignore[arg-type]
    assert isinstance(family, LinearBernoulli)
    rows, d = tasks.rows, family.n_features - 1
    known = tasks._replace(rows=np.column_stack([rows[:, :d], rows[:, d:] @ beta]))
    found = posterior_moments(family.design, known)
    joint = prior.log_weights + found.log_evidence
    evidence = special.logsumexp(joint, axis=1)
    shares = np.exp(joint - evidence[:, None])
    owners = np.repeat(np.arange(len(shares)), np.diff(tasks.offsets))
    z, nodes = special.roots_hermitenorm(_NODES)
    nodes = nodes / nodes.sum()
    gradient, information = np.zeros(rows.shape[1]), np.zeros((rows.shape[1],) * 2)
    for s in range(family.n_components):
        eta = (known.rows * found.mean[owners, s]).sum(axis=1)
        inside = found.covariance[:, s, :d, :d]
        spread = np.einsum("ni,nij,nj->n", rows[:, :d], inside[owners], rows[:, :d])
        odds = eta[:, None] + np.sqrt(np.maximum(spread, 0.0))[:, None] * z
        share = shares[owners, s]
        rate, at = special.expit(odds) @ nodes, special.expit(eta)
        gradient += rows.T @ (share * (tasks.successes - tasks.trials * rate))
        curved = (tasks.trials * at * (1 - at))[:, None] * rows
        information += (share[:, None] * curved).T @ rows
        pulls = np.stack(
            [_by_task(curved * rows[:, i : i + 1], owners, len(shares)) for i in range(d)], axis=1
        )
        root = family.design.root[family.design.group_of[s], :d, :d]
        square = np.eye(d) + root.T @ pulls[:, :, :d] @ root
        less = np.linalg.solve(np.linalg.cholesky(square), root.T @ pulls)
        weighted = (shares[:, s, None, None] * less).reshape(-1, rows.shape[1])
        information -= weighted.T @ less.reshape(-1, rows.shape[1])
    return Equations(evidence, gradient, (information + information.T) / 2)


def _by_task(
    values: Float[Array, "N d"], owners: Int[Array, " N"], n_tasks: int
) -> Float[Array, "n d"]:
    """Return the sums of the rows of each task."""
    starts = np.searchsorted(owners, np.arange(n_tasks))
    total = np.add.reduceat(values, np.minimum(starts, len(values) - 1), axis=0)
    total[np.diff(np.append(starts, len(values))) == 0] = 0.0
    return total
