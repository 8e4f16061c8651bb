"""Refit a prior: go on from what an earlier prior knows, with the statistics of further tasks.

A service shows some arms often and others hardly ever. A prior that is learned from its log alone
guesses the others from the arms that were shown, which are the good ones: it forgets why the others
were not shown. So a refit counts the earlier prior as the tasks that it was learned from: in the M
step of component s, ``known`` pseudo-tasks of each arm, drawn from the earlier component and
observed exactly, stand beside the new tasks. An arm without new observations keeps its parameters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mixts import _checks
from mixts.errors import ParameterError
from mixts.families import Statistics
from mixts.families.population import arm_population
from mixts.learning.em import History, Patience, canonical, climb, known_tasks, refined
from mixts.learning.histories import observed_tasks, statistics_of
from mixts.learning.learn import Learned
from mixts.learning.models import model_of
from mixts.origin import Origin
from mixts.prior import MixturePrior

LEAST_KNOWN = 1.0
"""Least number of pseudo-tasks of an arm of a component: a new arm's parameters, which nobody has
observed, count as one task."""
_FIXED = 1e9
"""Pseudo-tasks of a component that was not learned, such as the broad one: it stays as it is."""


def refit_prior(prior: MixturePrior, tasks: Any, *, n_tasks: float | None = None) -> MixturePrior:
    """Learn further from new tasks, beginning with a prior and the tasks that it was learned from.

    Components keep their number, their names and their meaning. Their parameters and weights move
    as far as the new tasks outweigh the earlier ones. Arms that no new task of a component tried
    keep their parameters.

    Parameters
    ----------
    prior
        The earlier prior.
    tasks
        Statistics of new tasks, or histories, as in :func:`mixts.learn_prior`. The earlier prior
        must not have been learned from them: they would count twice.
    n_tasks
        Number of tasks that the earlier prior counts for; None takes that of ``prior.origin``.

    Returns
    -------
    MixturePrior
        The prior after the new tasks. It has an origin, so that it can be refitted again.

    Examples
    --------
    A service showed the second arm to nobody, so its parameters stay.

    >>> import mixts
    >>> from mixts.families import BernoulliStatistics
    >>> from mixts.learning import refit_prior
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[5.0, 1.0]], [[5.0, 9.0]]))
    >>> clicks = BernoulliStatistics(successes=[[8, 0], [9, 0]], failures=[[2, 0], [1, 0]])
    >>> refit_prior(prior, clicks, n_tasks=2).family.parameter_means().round(2)
    array([[0.63, 0.1 ]])
    """
    return refit(prior, tasks, n_tasks=n_tasks).prior


def refit(prior: MixturePrior, tasks: Any, *, n_tasks: float | None = None) -> Learned:
    """Refit a prior, and return it with how it was learned; see :func:`refit_prior`."""
    if prior.family.plans:
        raise ParameterError(f"only priors of arms and of features are refitted, got {prior!r}")
    origin, statistics = origin_of(prior, n_tasks), _observed(prior, tasks)
    later, history = _climbed(statistics, prior, origin)
    one, _ = _climbed(statistics, prior.collapse(), origin.collapse())
    return Learned(later, one, "evidence", history, (history,), converged=history.converged)


def origin_of(prior: MixturePrior, n_tasks: float | None = None) -> Origin:
    """Return the origin of a prior, or one of so many tasks, all observed exactly."""
    family, origin = prior.family, prior.origin
    if n_tasks is not None:
        n = float(_checks.positive_number(n_tasks, "n_tasks"))
        if origin is not None and origin.n_tasks:
            return replace(origin, n_tasks=n, known=origin.known * (n / origin.n_tasks))
        known = n * prior.weights
        if family.n_arms is not None:
            known = known[:, None] * ~prior.arms.new
        return Origin(n, known)
    if origin is None:
        raise ParameterError(
            "the prior does not say how many tasks it was learned from, so new tasks cannot be "
            "weighed against it: give n_tasks, the number of tasks that it counts for"
        )
    return origin


def _observed(prior: MixturePrior, tasks: Any) -> Statistics:
    """Return the tasks that have observations, in their canonical order."""
    statistics = statistics_of(tasks, prior.family)
    prior.family.check_statistics(statistics)
    statistics = observed_tasks(statistics)
    return statistics[canonical(statistics)]


def _climbed(
    statistics: Statistics, prior: MixturePrior, origin: Origin
) -> tuple[MixturePrior, History]:
    """Return the prior after these tasks, and the course of learning."""
    family, options = prior.family, prior.family.learning_settings()
    options.pop("noise_std", None)  # it is learned further, too
    if family.settings().get("covariance_type") == "spherical":
        # Spherical covariances are not learned. Mapped by any diagonal, they become diagonal.
        family = family.mapped(np.eye(family.statistics_shape[0]))
    options["covariance_type"] = family.settings().get("covariance_type")
    model, start = model_of(statistics, **options), MixturePrior(family, prior.weights)
    learned = origin.learned
    known = np.maximum(origin.known, LEAST_KNOWN)
    known[~learned] = _FIXED
    weights = np.maximum(prior.weights, 1e-9)
    weights = weights / weights.sum()
    later = model.after(start, known, origin.n_tasks * weights)
    quick, patience = later.quick(), Patience()
    restart = climb(quick or later, family, weights, patience)
    if quick is not None:
        restart = refined(later, restart, patience)
    known = origin.known + known_tasks(model, restart.prior)
    known[~learned] = 0.0
    result = prior.replace(
        family=restart.prior.family, weights=restart.prior.weights, descriptions=None,
        arm_prior=None,
        origin=Origin(origin.n_tasks + len(statistics), known),
    )  # fmt: skip
    if family.n_arms is not None:
        untried = prior.arms.new & ~statistics.pulls.any(axis=0)
        result = result.replace(arm_prior=arm_population(result.family, known))
        result = result.mark_new(np.flatnonzero(untried).tolist())
    return result, restart.history
