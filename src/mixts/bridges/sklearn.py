"""scikit-learn estimator: learn a prior with ``fit``, compare priors with ``GridSearchCV``.

Samples of scikit-learn are tasks. Statistics have a ``shape`` of their own (the arms, or the
features), which scikit-learn would mistake for the number of samples: pass ``tasks_of(statistics)``
to functions that split tasks. The estimator takes both. Needs the extra ``paper``.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, Literal, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, Float, Int
from mixts.errors import MissingExtraError, StatisticsError
from mixts.families import Family, Statistics
from mixts.learning import Learned, LearningOptions, Method, learn, mixture_evidence
from mixts.learning.histories import statistics_of
from mixts.prior import MixturePrior

__all__ = [
    "MixturePriorEstimator",
    "Tasks",
    "tasks_of",
]

try:
    from sklearn.base import BaseEstimator, DensityMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingExtraError(
        "MixturePriorEstimator needs scikit-learn: pip install 'mixts[sklearn]'"
    ) from error


class Tasks:
    """Statistics whose ``shape`` is (n_tasks,), as scikit-learn expects it."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics

    @property
    def shape(self) -> tuple[int]:
        """(n_tasks,)."""
        return (len(self.statistics),)

    def __len__(self) -> int:
        return len(self.statistics)

    def __getitem__(self, index: Any) -> Statistics | Tasks:
        """Return one task's statistics for an integer, and tasks for any other index."""
        # scikit-learn indexes tasks[index, ...].
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]
        chosen = self.statistics[index]
        return chosen if chosen.single else Tasks(chosen)

    def __repr__(self) -> str:
        return f"Tasks({self.statistics!r})"


def tasks_of(statistics: Any) -> Tasks:
    """Wrap statistics, so that ``GridSearchCV`` and others can split them.

    Parameters
    ----------
    statistics
        Statistics of tasks, or histories as :func:`mixts.learn_prior` takes them.

    Returns
    -------
    Tasks
        The tasks, for scikit-learn.
    """
    return Tasks(_statistics(statistics))


class MixturePriorEstimator(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A mixture prior learned from past tasks, as a scikit-learn estimator.

    ``score`` is the mean log evidence of a task; on held-out tasks ``GridSearchCV`` maximises it.

    Parameters
    ----------
    n_components, method
        As in :func:`mixts.learn_prior`.
    engine
        As in :func:`mixts.learn_prior`. In searches it must be None or a number, because executors
        and engines cannot be cloned. If the search itself uses several processes, ``engine=1``
        keeps each fit in its process.
    random_state
        The ``seed`` of :func:`mixts.learn_prior`.
    noise_std, noise, covariance_type, horizon, initial, support, offset
        As in :class:`mixts.learning.LearningOptions`.
    n_restarts, max_iterations, tolerance, select, max_components, n_folds, robust
        As in :class:`mixts.learning.LearningOptions`.

    Attributes
    ----------
    prior_
        The learned prior.
    learned_
        How the prior was learned, a :class:`mixts.learning.Learned`.
    n_components_
        Number of components, with the broad one if ``robust`` asked for it.

    Examples
    --------
    >>> import numpy as np
    >>> import mixts
    >>> from mixts.bridges.sklearn import tasks_of
    >>> from mixts.families import BernoulliStatistics
    >>> from sklearn.model_selection import GridSearchCV
    >>> clicks = np.tile([[9, 1], [1, 9]], (20, 1))
    >>> tasks = BernoulliStatistics(successes=clicks, failures=10 - clicks)
    >>> estimator = mixts.MixturePriorEstimator(engine=1, random_state=1)
    >>> search = GridSearchCV(estimator, {"n_components": [1, 2]}).fit(tasks_of(tasks))
    >>> search.best_params_
    {'n_components': 2}
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        method: Method = "evidence",
        *,
        engine: Any = None,
        random_state: Any = None,
        **options: Any,
    ) -> None:
        given = {"n_components": n_components, "method": method, "engine": engine}
        given |= {"random_state": random_state, **options}
        # scikit-learn finds the parameters in the signature, and a value of each in an attribute.
        known = inspect.signature(type(self)).parameters
        _checks.known_options(given, known)
        for name, parameter in known.items():
            setattr(self, name, given.get(name, parameter.default))

    def fit(self, tasks: Any, y: None = None) -> Self:
        """Learn the prior of these tasks.

        Parameters
        ----------
        tasks
            Statistics, ``tasks_of(statistics)``, or histories.
        y
            Ignored.

        Returns
        -------
        MixturePriorEstimator
            This estimator.
        """
        given = self.get_params(deep=False)
        seed = _seed(given.pop("random_state"))
        self.learned_: Learned = learn(_statistics(tasks), seed=seed, **given)
        self.prior_: MixturePrior = self.learned_.prior
        self.n_components_: int = self.prior_.n_components
        return self

    def score(self, tasks: Any, y: None = None) -> float:
        """Return the mean log evidence of a task, ln sum_s w_s p(task | s).

        Parameters
        ----------
        tasks
            Statistics, ``tasks_of(statistics)``, or histories.
        y
            Ignored.

        Returns
        -------
        float
            The mean over tasks.
        """
        return float(self.score_samples(tasks).mean())

    def score_samples(self, tasks: Any) -> Float[Array, " n"]:
        """Return the log evidence of each task.

        Parameters
        ----------
        tasks
            As for :meth:`score`.

        Returns
        -------
        array
            Log evidence, (n_tasks,); -inf for an impossible task.
        """
        statistics = self._checked(tasks)
        return mixture_evidence(self.prior_, statistics)

    def predict_proba(self, tasks: Any) -> Float[Array, "n L"]:
        """Return P(component | task).

        Parameters
        ----------
        tasks
            As for :meth:`score`.

        Returns
        -------
        array
            Probabilities, (n_tasks, L).
        """
        statistics = self._checked(tasks)
        return self.prior_.condition(statistics).weights

    def predict(self, tasks: Any) -> Int[Array, " n"]:
        """Return the most likely component of each task.

        Parameters
        ----------
        tasks
            As for :meth:`score`.

        Returns
        -------
        array
            Indices of components, (n_tasks,).
        """
        return np.asarray(self.predict_proba(tasks).argmax(axis=1))

    def _checked(self, tasks: Any) -> Statistics:
        check_is_fitted(self, "prior_")
        statistics = _statistics(tasks, self.prior_.family)
        self.prior_.family.check_statistics(statistics)
        return statistics


def _signature(own: inspect.Signature) -> inspect.Signature:
    """Return a signature with the options of learning in place of ``**options``."""
    *given, _ = own.parameters.values()
    names = {parameter.name for parameter in given}
    more = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default)
        for each in fields(LearningOptions)
        if each.name not in names
    ]
    return own.replace(parameters=[*given, *more])


MixturePriorEstimator.__init__.__signature__ = _signature(  # type: ignore[attr-defined]
    inspect.signature(MixturePriorEstimator.__init__)
)


def _statistics(tasks: Any, family: Family | None = None) -> Statistics:
    """Return statistics with the task axis from any form of tasks."""
    if isinstance(tasks, Tasks):
        return tasks.statistics
    statistics = statistics_of(tasks, family)
    if not len(statistics):
        raise StatisticsError("there are no tasks: give at least one")
    return statistics[np.array([0])] if statistics.single else statistics


def _seed(random_state: Any) -> Any:
    """Return the seed as it is; draw a number from a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state
