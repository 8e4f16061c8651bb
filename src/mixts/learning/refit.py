"""Refit a prior: go on from what an earlier prior knows, with the statistics of further tasks.

A service shows some arms often and others hardly ever. A prior that is learned from its log alone
guesses the others from the arms that were shown, which are the good ones: it forgets why the others
were not shown. So a refit counts the earlier prior as the tasks that it was learned from: in the M
step of component s, ``known`` pseudo-tasks of each arm, drawn from the earlier component and
observed exactly, stand beside the new tasks. An arm without new observations keeps its parameters.

New kinds of task are components beside the earlier ones, which stay where the earlier tasks were.
A new one begins at a group of similar tasks that the mixture explains badly.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from mixts import _checks
from mixts._typing import Array, Bool
from mixts.errors import ParameterError
from mixts.families import Family, Statistics
from mixts.families.population import arm_population
from mixts.learning.climbing import Patience, Restart, climb
from mixts.learning.em import (
    RestartSpec,
    canonical,
    groups_of,
    known_tasks,
    points_of,
    refined,
    start,
)
from mixts.learning.histories import observed_tasks, statistics_of
from mixts.learning.learn import Learned, unused_name
from mixts.learning.models import Model, model_of
from mixts.learning.models.predictive import mixture_evidence
from mixts.learning.stack import closest, component_shares
from mixts.origin import Origin
from mixts.prior import MixturePrior

LEAST_KNOWN = 1.0
"""Least number of pseudo-tasks of an arm of a component: a new arm's guess counts as one task."""
NEW_TASKS = 10
"""Least number of tasks for each component that have tried a new arm. From fewer its spread is
learned too wide, so that a policy tries it everywhere; until then it looks like the other arms."""
_FIXED = 1e9
"""Pseudo-tasks of what is not learned, such as the broad component: it stays as it is."""
_UNKNOWN = 1e-6
"""Least weight of a new component, and pseudo-tasks from which the earlier prior knows it."""
_WEIGHT_ROUNDS = 2
"""Number of climbs in which the weight of a new component is found."""
_SPARE_GROUPS = 3
"""Groups of similar tasks beyond the number of components, so that a small kind is one of them."""
_FRESH = 2
"""Number of fresh starts, in which all components begin at groups of similar tasks."""
_LARGEST_GAIN = 500.0
"""Largest gain of a task's log evidence that counts in a promise: its exponential is finite."""
_TRIED = 3
"""Number of groups from which a new component begins: those that promise the largest evidence."""


def refit_prior(
    prior: MixturePrior,
    tasks: Any,
    *,
    n_tasks: float | None = None,
    n_more: int = 0,
    seed: int = 1,
) -> MixturePrior:
    """Learn further from new tasks, beginning with a prior and the tasks that it was learned from.

    Components keep their names and their meaning. Their parameters and weights move as far as the
    new tasks outweigh the earlier ones. Arms that no new task of a component tried keep their
    parameters. An arm that was added stays new until ten tasks for each component have tried it.

    Parameters
    ----------
    prior
        The earlier prior.
    tasks
        Statistics of new tasks, or histories, as in :func:`mixts.learn_prior`. The earlier prior
        must not have been learned from them: they would count twice.
    n_tasks
        Number of tasks that the earlier prior counts for; None takes that of ``prior.origin``.
    n_more
        Number of new components to learn from tasks that the earlier ones explain badly; they come
        last. If negative, so many times the two components that are most alike become one.
    seed
        Seed of the groups of tasks at which new components begin.

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
    return refit(prior, tasks, n_tasks=n_tasks, n_more=n_more, seed=seed).prior


def refit(
    prior: MixturePrior,
    tasks: Any,
    *,
    n_tasks: float | None = None,
    n_more: int = 0,
    seed: int = 1,
) -> Learned:
    """Refit a prior, and return it with how it was learned; see :func:`refit_prior`."""
    if prior.family.plans:
        raise ParameterError(f"only priors of arms and of features are refitted, got {prior!r}")
    origin, statistics = origin_of(prior, n_tasks), _observed(prior, tasks)
    number = _checks.count(n_more, "n_more", least=1 - prior.n_components)
    pooled = _Pooled(_Task(statistics, prior.collapse(), origin.collapse()), seed)
    task = _Task(statistics, prior, origin)
    for _ in range(-number):
        task = task.merged()
    restart = task.climbed()
    for _ in range(number):
        task, restart = task.grown(restart, pooled)
    later, history = task.result(restart), restart.history
    one = pooled.task.result(pooled.restart)
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


class _Task:
    """What to learn: new tasks, and the earlier prior with the tasks that it was learned from."""

    def __init__(self, statistics: Statistics, prior: MixturePrior, origin: Origin) -> None:
        self.statistics, self.prior, self.origin = statistics, prior, origin
        family, options = prior.family, prior.family.learning_settings()
        options.pop("noise_std", None)  # it is learned further, too
        if family.settings().get("covariance_type") == "spherical":
            # Spherical covariances are not learned. Mapped by any diagonal, they become diagonal.
            family = family.mapped(np.eye(family.statistics_shape[0]))
        options["covariance_type"] = family.settings().get("covariance_type")
        model = model_of(statistics, **options)
        known = np.maximum(origin.known, LEAST_KNOWN)
        if family.n_arms is not None:
            known[:, self.still_new] = _FIXED
        known[~origin.learned] = _FIXED
        weights = np.maximum(prior.weights, 1e-9)
        self.start = MixturePrior(family, weights / weights.sum())
        self.model: Model = model.after(self.start, known, origin.n_tasks * self.start.weights)

    @property
    def still_new(self) -> Bool[Array, " K"]:
        """New arms that too few tasks have tried: they keep their parameters."""
        n_tasks = (self.statistics.pulls > 0).sum(axis=0)
        return np.asarray(self.prior.arms.new & (n_tasks < NEW_TASKS * self.prior.n_components))

    def climbed(self, start: MixturePrior | None = None) -> Restart:
        """Learn from a start, by default the earlier prior."""
        begin = self.start if start is None else start
        quick, patience = self.model.quick(), Patience()
        restart = climb(quick or self.model, begin.family, begin.weights, patience)
        return restart if quick is None else refined(self.model, restart, patience)

    def merged(self) -> _Task:
        """Return the task with the two most similar components joined, at the place of the first.

        A broad component, which was not learned, stays apart.
        """
        prior, learned = self.prior, np.flatnonzero(self.origin.learned)
        if len(learned) < 2:
            raise ParameterError(f"{prior!r} has no two learned components to join")
        i, j = learned[list(closest(prior.select(learned), self.statistics))]
        heavy = i if prior.weights[i] >= prior.weights[j] else j
        both, weights = prior.select([i, j]).collapse(), prior.weights.copy()
        weights[i] += weights[j]
        known = self.origin.known.copy()
        known[i] += known[j]
        kept = [s for s in range(prior.n_components) if s != j]
        parts = [both if s == i else prior.select([s]) for s in kept]
        origin = replace(self.origin, known=known[kept])
        joined = prior.select([heavy if s == i else s for s in kept]).replace(
            family=reduce(Family.append, [part.family for part in parts]), weights=weights[kept],
            arm_prior=None, descriptions=None, origin=origin,
        )  # fmt: skip
        return _Task(self.statistics, joined, origin)

    def grown(self, restart: Restart, pooled: _Pooled) -> tuple[_Task, Restart]:
        """Return the task with one component more, and the restart that explains most.

        Until tasks say more, the new component is like all tasks together, and counts as one task.
        """
        begins = [*pooled.insertions(restart.prior), *pooled.fresh(restart.prior)]
        found = [self._with_new(begin, pooled.restart.prior.family) for begin in begins]
        return max(found, key=lambda pair: float(pair[1].history.log_evidence[-1]))

    def _with_new(self, begin: MixturePrior, like: Family) -> tuple[_Task, Restart]:
        """Climb from a mixture whose last component is new.

        The earlier tasks say how the earlier components share the rest, and nothing of the new
        one's weight: the pseudo-tasks for that follow its share of the tasks.
        """
        name = unused_name("new kind", (*(self.prior.names or ()), *(self.prior.kinds or ())))
        known = np.concatenate([self.origin.known, np.full_like(self.origin.known[:1], _UNKNOWN)])
        origin, weight = replace(self.origin, known=known), float(begin.weights[-1])
        for _ in range(_WEIGHT_ROUNDS):
            wider = self.prior.append(like, max(weight, _UNKNOWN), name).replace(origin=origin)
            task = _Task(self.statistics, wider, origin)
            restart = task.climbed(begin)
            begin = restart.prior
            weight = float(component_shares(begin, self.statistics)[:, -1].mean())
        return task, restart

    def result(self, restart: Restart) -> MixturePrior:
        """Return the learned prior with names, arms and the origin."""
        prior, origin, family = self.prior, self.origin, restart.prior.family
        known = origin.known + known_tasks(self.model, restart.prior)
        known[~origin.learned] = 0.0
        if family.n_arms is not None:
            known[:, self.still_new] = 0.0
        result = prior.replace(
            family=family, weights=restart.prior.weights, descriptions=None, arm_prior=None,
            origin=Origin(origin.n_tasks + len(self.statistics), known),
        )  # fmt: skip
        if family.n_arms is not None:
            result = result.replace(
                arm_prior=arm_population(result.family, known), origin=result.origin
            )
            result = result.mark_new(np.flatnonzero(self.still_new).tolist())
        return result


class _Pooled:
    """One component for all tasks, and groups of similar tasks in which new kinds may be found."""

    def __init__(self, task: _Task, seed: int) -> None:
        self.task, self.restart, self._seed = task, task.climbed(), seed

    def groups(self, n: int, number: int) -> MixturePrior:
        """Return components of groups of similar tasks; even and odd numbers group differently."""
        model = self.task.model
        spec = RestartSpec(model, self.restart, n, self._seed, "refit", number, Patience())
        groups = groups_of(spec, points_of(spec))
        return start(model, self.restart.prior, int(groups.max()) + 1, groups)[0]

    def fresh(self, mixture: MixturePrior) -> list[MixturePrior]:
        """Return mixtures of one component more that begin at groups, in the mixture's order."""
        found, tasks = [], self.task.statistics
        for number in range(_FRESH):
            first = self.groups(mixture.n_components + 1, number)
            if first.n_components == mixture.n_components + 1:
                overlap = component_shares(mixture, tasks).T @ component_shares(first, tasks)
                _, own = linear_sum_assignment(-overlap)
                rest = np.setdiff1d(np.arange(first.n_components), own)
                found.append(first.select([*own, *rest]))
        return found

    def insertions(self, mixture: MixturePrior) -> list[MixturePrior]:
        """Return the mixture with one component more, from groups of tasks that it explains badly.

        A component of weight w that explains task t better by the factor r_t promises an evidence
        of the sum over tasks of ln(1 - w + w r_t).
        """
        model, found = self.task.model, []
        n = min(mixture.n_components + _SPARE_GROUPS, model.n_tasks)
        before = mixture_evidence(mixture, model.statistics)[:, None]
        for number in (0, 1):  # linked by posteriors, and by estimates
            first = self.groups(n, number)
            gain = np.minimum(model.log_evidence(first.family) - before, _LARGEST_GAIN)
            promise = np.log(1 - first.weights + first.weights * np.exp(gain)).sum(axis=0)
            for g, value in enumerate(promise.tolist()):
                part, weight = first.family.select([g]), min(float(first.weights[g]), 0.5)
                found.append((value, mixture.append(part, weight)))
        found.sort(key=lambda pair: -pair[0])
        return [longer for _, longer in found[:_TRIED]]
