"""The number of components: compare mixtures on tasks that they were not learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from mixts import _random
from mixts._progress import step
from mixts._typing import Array, Float, Int
from mixts.engines import Engine
from mixts.families import Statistics
from mixts.learning.climbing import Patience, Restart, best
from mixts.learning.em import RestartSpec, digests, pooled_restart, run_all
from mixts.learning.models import Model, model_of
from mixts.learning.options import LearningOptions, Rule
from mixts.learning.passes import Passes
from mixts.learning.stack import MOST_KINDS, prices, stack_weights, union_evidence
from mixts.prior import MixturePrior

ENOUGH = 2
"""Stop after this many candidates in a row that do not predict better by their price."""
LEAST_TASKS = 3
"""Least number of tasks for each component of a candidate, on average."""


@dataclass(frozen=True)
class Selection:
    """Candidate numbers of components, compared on tasks that they were not learned from."""

    candidates: tuple[int, ...]
    """Numbers of components that were compared."""
    held_out: Float[Array, "c n"]
    """Held-out log evidence of every task under each candidate."""
    bic: Float[Array, " c"]
    """-2 log evidence + parameters times ln(tasks), of the fit to all tasks; smaller is better."""
    chosen: int
    """Number of components that was chosen; in a stack, that of the mixture with the largest
    weight."""
    n_folds: int
    """Number of parts that the tasks were divided into."""
    rule: Rule = "one-standard-error"
    """How the choice was made."""

    @property
    def mean(self) -> Float[Array, " c"]:
        """Mean held-out log evidence of a task under each candidate."""
        return np.asarray(self.held_out.mean(axis=1))

    @property
    def best(self) -> int:
        """Index of the candidate with the largest mean."""
        return int(np.argmax(self.mean))

    @property
    def gap(self) -> Float[Array, " c"]:
        """Difference between the best candidate's mean and each candidate's mean."""
        return np.asarray(self.mean[self.best] - self.mean)

    @property
    def standard_error(self) -> Float[Array, " c"]:
        """Standard error of each candidate's mean difference from the best candidate."""
        return gap_error(self.held_out, self.n_folds)

    @cached_property
    def weights(self) -> Float[Array, " c"]:
        """Weight of each candidate in the prior; unless stacked, the chosen one has them all."""
        if self.rule == "stack":
            return stack_weights(self.held_out)
        return np.asarray(np.array(self.candidates) == self.chosen, float)

    def by(self, rule: Rule) -> Selection:
        """Return what another rule makes of the same comparison."""
        chosen = self.candidates[_CHOICES[rule](self.held_out, self.n_folds)]
        return replace(self, chosen=chosen, rule=rule)

    @property
    def members(self) -> dict[int, float]:
        """Numbers of components of the mixtures in the prior, with the weight of each mixture."""
        pairs = zip(self.candidates, self.weights.tolist(), strict=True)
        return {candidate: weight for candidate, weight in pairs if weight > 0}

    @property
    def n_kinds(self) -> int | None:
        """Number of components of the mixture whose kinds a stack is read by; None if not stacked.

        It is the mixture of the rule of one standard error, or the largest that is readable.
        """
        if self.rule != "stack":
            return None
        return min(self.by("one-standard-error").chosen, MOST_KINDS)

    @property
    def sentence(self) -> str:
        """Reason for the choice, in a sentence."""
        best = self.candidates[self.best]
        first = f"{_kinds(best)} {'predicts' if best == 1 else 'predict'} best"
        if len(self.members) > 1:
            parts = [f"{n} ({weight:.0%})" for n, weight in self.members.items()]
            joined = f"mixtures of {_listed(parts)} kinds together predict"
            better = union_evidence(self.held_out, self.weights) > self.held_out.sum(axis=1).max()
            how = "still better" if better else "nearly as well with fewer components"
            return f"{first}; {joined} {how}, so the prior joins them."
        if best == self.chosen:
            return f"{first}."
        one = self.chosen == 1
        reason = f"{'is' if one else 'are'} within one standard error"
        if self.rule == "stack":
            reason = f"{'predicts' if one else 'predict'} nearly as well"
        was = f"{self.chosen} {'was' if one else 'were'} chosen"
        return f"{first}; {_kinds(self.chosen)} {reason}, so {was}."


def _kinds(n: int) -> str:
    return "1 kind" if n == 1 else f"{n} kinds"


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def gap_error(held_out: Float[Array, "c n"], n_folds: int) -> Float[Array, " c"]:
    """Compute the standard error of each candidate's mean difference from the best candidate.

    Differences are taken task by task. Folds share most of their training tasks, so their errors
    are correlated: Nadeau and Bengio's correction (2003) multiplies the standard error of
    independent differences by sqrt(1 + k / (k - 1)).
    """
    n = held_out.shape[1]
    if n < 2:
        return np.zeros(len(held_out))
    difference = held_out[np.argmax(held_out.mean(axis=1))] - held_out
    plain = difference.std(axis=1, ddof=1) / np.sqrt(n)
    return np.asarray(plain * np.sqrt(1 + n_folds / (n_folds - 1)))


def one_standard_error(held_out: Float[Array, "c n"], n_folds: int) -> int:
    """Return the first candidate whose mean is within one standard error of the best mean."""
    mean = held_out.mean(axis=1)
    return int(np.argmax(mean.max() - mean <= gap_error(held_out, n_folds)))


_CHOICES: dict[Rule, Callable[[Float[Array, "c n"], int], int]] = {
    "stack": lambda held_out, n_folds: int(np.argmax(stack_weights(held_out))),
    "best": lambda held_out, n_folds: int(np.argmax(held_out.mean(axis=1))),
    "one-standard-error": one_standard_error,
}
"""Index of the chosen candidate, by rule."""


N_RESTARTS, N_FOLD_RESTARTS = 5, 2
"""Default number of restarts on all tasks, and on all tasks but those of one fold: fewer, because
there are many folds."""


@dataclass(frozen=True)
class Training:
    """Tasks to learn from, and how to learn."""

    statistics: Statistics
    options: LearningOptions
    seed: int
    elsewhere: Passes | None = None
    """All tasks, if the statistics are only a sample of them."""

    @property
    def whole(self) -> Model:
        """Model of all tasks, also of those that memory does not hold."""
        return self.model if self.elsewhere is None else self.model.sample_of(self.elsewhere)

    @cached_property
    def model(self) -> Model:
        """Model of the tasks in memory."""
        return self.model_of(self.statistics)

    def model_of(self, statistics: Statistics) -> Model:
        """Return the model of some of the tasks."""
        return model_of(statistics, **self.options.of_model)

    @property
    def patience(self) -> Patience:
        """Stopping rule of a restart."""
        return Patience(self.options.max_iterations, self.options.tolerance)

    @property
    def n_expected(self) -> int:
        """Expected number of restarts of a comparison, by which an engine is chosen."""
        return (self.options.n_restarts or N_RESTARTS) * (self.options.n_folds + 1) * 3

    def restarts(
        self, model: Model, pooled: Restart, n_components: int, fold: int | None = None
    ) -> list[RestartSpec]:
        """Return the restarts of a mixture of all tasks, or of all but those of a fold."""
        usual, part = (N_RESTARTS, "all") if fold is None else (N_FOLD_RESTARTS, f"fold {fold}")
        return [
            RestartSpec(model, pooled, n_components, self.seed, part, r, self.patience)
            for r in range(self.options.n_restarts or usual)
        ]


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`compare`."""

    selection: Selection
    restarts: dict[int, tuple[Restart, ...]]
    """Restarts on all tasks, by number of components."""
    pooled: Restart
    """One component, learned from all tasks."""


def compare(training: Training, where: Engine) -> Comparison:
    """Compare mixtures from one component upwards, and choose by the rule of its options."""
    n = len(training.statistics)
    n_folds = max(2, min(training.options.n_folds, n))
    parts = folds(n, n_folds, training.seed)
    # Equal tasks cannot belong to two components, and their differences have no standard error.
    n_distinct = len(set(digests(training.statistics)))
    limit = max(1, min(training.options.max_components, n // LEAST_TASKS, n_distinct))
    whole = training.model
    bar = step(f"comparing 1 kind (of at most {limit}) on {n:,} tasks", n_folds + 1)
    pooled = pooled_restart(whole, training.patience)
    bar.advance(1)
    folded = []
    for k in range(int(parts.max()) + 1):
        folded.append(_Fold.of(training, parts == k))
        bar.advance(1)
    held_out, bic = [], []
    found: dict[int, tuple[Restart, ...]] = {}
    for candidate in range(1, limit + 1):
        scores = np.empty(n)
        by_fold, restarts = _restarts(training, candidate, whole, pooled, folded, where)
        for part, restart in zip(folded, by_fold, strict=True):
            scores[part.inside] = task_evidence(restart.prior, part.test)
        held_out.append(scores)
        found[candidate] = restarts
        bic.append(_bic(best(restarts), whole, candidate))
        worth = np.sum(held_out, axis=1) - prices(candidate, n)
        if candidate - 1 - int(np.argmax(worth)) >= ENOUGH:
            break
    table = np.array(held_out)
    rule = training.options.select
    chosen = _CHOICES[rule](table, n_folds) + 1
    selection = Selection(tuple(found), table, np.array(bic), chosen, n_folds, rule)
    return Comparison(selection, found, pooled)


def task_evidence(prior: MixturePrior, model: Model) -> Float[Array, " n"]:
    """Compute ln p(task) under the mixture for each task of the model."""
    joint = prior.log_weights + model.log_evidence(prior.family)
    return np.asarray(special.logsumexp(joint, axis=1))


def folds(n_tasks: int, n_folds: int, seed: int) -> Int[Array, " n"]:
    """Assign tasks to folds at random; the sizes of folds differ by at most one."""
    order = _random.stream(seed, "learn", "folds").permutation(n_tasks)
    return np.asarray(order % n_folds)


@dataclass(frozen=True)
class _Fold:
    """Tasks of one fold, all other tasks, and one component learned from the others."""

    inside: Array
    test: Model
    train: Model
    pooled: Restart

    @classmethod
    def of(cls, training: Training, inside: Array) -> _Fold:
        test, train = (training.model_of(training.statistics[part]) for part in (inside, ~inside))
        return cls(inside, test, train, pooled_restart(train, training.patience))


def _restarts(
    training: Training,
    n_components: int,
    whole: Model,
    pooled: Restart,
    folded: list[_Fold],
    where: Engine,
) -> tuple[list[Restart], tuple[Restart, ...]]:
    """Return the best restart without each fold, and all restarts on all tasks."""
    if n_components == 1:
        return [part.pooled for part in folded], (pooled,)
    specs = []
    for k, fold in enumerate(folded):
        specs += training.restarts(fold.train, fold.pooled, n_components, k)
    n = len(specs) // len(folded)
    specs += training.restarts(whole, pooled, n_components)
    n_tasks = len(training.statistics)
    restarts = run_all(specs, where, f"comparing {n_components} kinds on {n_tasks:,} tasks")
    by_fold = [best(restarts[k * n : (k + 1) * n]) for k in range(len(folded))]
    return by_fold, tuple(restarts[len(folded) * n :])


def _bic(restart: Restart, model: Model, n_components: int) -> float:
    evidence = float(restart.history.log_evidence[-1])
    return -2 * evidence + model.n_parameters(n_components) * float(np.log(model.n_tasks))
