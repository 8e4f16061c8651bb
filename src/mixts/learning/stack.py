"""Stacking: the union of mixtures of different sizes, weighted by how well they predict tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import product
from string import ascii_lowercase

import numpy as np
from scipy import special

from mixts._typing import Array, Float
from mixts.families import Family, Statistics
from mixts.prior import MixturePrior

PRECISION = 1e-6
"""Largest distance of the mean log evidence of a task from its maximum over all weights."""
_MOST_STEPS = 10_000
_IMPOSSIBLE = 500.0
"""Log evidence by which a mixture that rules a task out is below the best mixture for the task."""
LEAST_GAIN = 1.0
"""Log evidence of all held-out tasks together that one more mixture must add. A weight that is
fitted to the tasks adds about one by chance, as in Akaike's criterion."""
LEAST_MEAN_GAIN = 0.005
"""Mean log evidence of a task that each component of a mixture must add, since every component
takes time in every decision. As much counts as no difference, see ``MERGE_TOLERANCE``."""
NEGLIGIBLE = 0.01
"""Weight below which a mixture is left out."""
MERGE_TOLERANCE = 0.005
"""Mean change of a task's log evidence by which all merged components together may differ from the
union. The differences between numbers of components that matter are about ten times as large."""
MOST_KINDS = 6
"""Largest number of kinds that components are sorted into: more are hard to read."""
_PAIRS = tuple(map("".join, product(ascii_lowercase, repeat=2)))
"""Letters of components of a kind that has more than 26."""
LEAST_TASKS = 4.0
"""Least weight of a component, in tasks; a tenth of the tasks if there are fewer than 40. A few
tasks are no kind: usually they have a few huge rewards in common, and nothing else."""
_COMPARED = 500
"""Largest number of tasks on which components are compared with each other."""


def stack_weights(held_out: Float[Array, "c n"]) -> Float[Array, " c"]:
    """Weight mixtures so that few of them together predict the held-out tasks best.

    Every mixture has a price, see :func:`prices`. The first member has the largest evidence less
    its price. The mixture that adds most comes next, and so on, while it adds more than its price.
    All others have weight zero.

    Parameters
    ----------
    held_out
        Held-out log evidence of every task under mixtures of 1, 2, 3 ... components.

    Returns
    -------
    array
        Weight of each mixture; the weights sum to one.
    """
    possible = held_out[:, np.isfinite(held_out.max(axis=0))]
    if not possible.size:
        return np.eye(len(held_out))[0]
    possible = np.maximum(possible, possible.max(axis=0) - _IMPOSSIBLE)
    price = prices(*held_out.shape)
    members = [int(np.argmax(possible.sum(axis=1) - price))]
    weights, value = np.ones(1), float(possible[members[0]].sum())
    while len(members) < len(held_out):
        trials = []
        for c in range(len(held_out)):
            if c not in members:
                trial = optimal_weights(possible[[*members, c]])
                reached = union_evidence(possible[[*members, c]], trial)
                trials.append((reached - price[c], c, trial, reached))
        best = max(trials, key=lambda trial: trial[0])
        if not best[0] > value:
            break
        weights, value = best[2:]
        members.append(best[1])
    found = np.zeros(len(held_out))
    # A later member can make an earlier one needless.
    found[members] = np.where(weights < NEGLIGIBLE, 0.0, weights)
    return found / found.sum()


def prices(n_candidates: int, n_tasks: int) -> Float[Array, " c"]:
    """Return the log evidence that mixtures of 1, 2, 3 ... components must add over all tasks."""
    return np.maximum(LEAST_GAIN, LEAST_MEAN_GAIN * n_tasks * np.arange(1, n_candidates + 1))


def optimal_weights(held_out: Float[Array, "c n"]) -> Float[Array, " c"]:
    """Maximise the mean over tasks of ``ln sum_c v_c p_c(task)`` over the weights v.

    The objective is concave. A step of expectation maximisation multiplies each weight by its
    derivative. The largest derivative minus one bounds the distance from the maximum: the steps
    stop when it is below ``PRECISION``.
    """
    evidence = np.exp(held_out - held_out.max(axis=0))
    weights = np.full(len(held_out), 1 / len(held_out))
    for _ in range(_MOST_STEPS):
        derivative = (evidence / (weights @ evidence)).mean(axis=1)
        if derivative.max() <= 1 + PRECISION:
            break
        weights = weights * derivative
    return np.asarray(weights / weights.sum())


def union_evidence(held_out: Float[Array, "c n"], weights: Float[Array, " c"]) -> float:
    """Compute the log evidence of all tasks under the union of mixtures."""
    return float(special.logsumexp(held_out, axis=0, b=weights[:, None]).sum())


def union(mixtures: Sequence[MixturePrior], weights: Sequence[float]) -> MixturePrior:
    """Return the components of all mixtures as one prior, sorted by weight.

    Parameters
    ----------
    mixtures
        Mixtures of one family. Numbers that all components share, such as the noise of Gaussian
        rewards, are those of the mixture with the largest weight.
    weights
        Weight of each mixture.

    Returns
    -------
    MixturePrior
        The evidence of a task is the weighted sum of its evidences under the mixtures, if they
        agree in what all components share.
    """
    order = np.argsort(-np.asarray(weights), kind="stable").tolist()
    family = reduce(Family.append, [mixtures[c].family for c in order])
    joined = np.concatenate([weights[c] * mixtures[c].weights for c in order])
    return by_weight(MixturePrior(family, joined / joined.sum()))


def merge_same(prior: MixturePrior, tasks: Statistics) -> MixturePrior:
    """Merge components that are practically the same, so that one has the weight of both.

    Replacing component j by component i changes each task's log evidence a little. The pair with
    the smallest mean absolute change over tasks comes first, and merging stops before the changes
    add up to ``MERGE_TOLERANCE``. Absolute changes matter: the tasks were learned from, so that a
    gain of evidence on them would be no reason to drop a broad component.
    """
    log_evidence = prior.family.log_evidence(tasks[np.arange(min(len(tasks), _COMPARED))])
    evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
    weights, kept, left = prior.weights.copy(), np.arange(prior.n_components), MERGE_TOLERANCE
    while len(kept) > 1:
        change = _changes(evidence[:, kept], weights[kept])
        i, j = np.unravel_index(np.argmin(change), change.shape)
        left -= float(change[i, j])
        if left < 0:
            break
        weights[kept[i]] += weights[kept[j]]
        kept = np.delete(kept, j)
    merged = prior.select(kept)
    weights = weights[kept] / weights[kept].sum()
    return by_weight(MixturePrior(merged.family, weights))


def closest(prior: MixturePrior, tasks: Statistics) -> tuple[int, int]:
    """Return the two components that differ least: the tasks' evidence changes least if one of them
    replaces the other."""
    if prior.n_components == 1:
        raise ValueError("one component has no other")
    some = np.linspace(0, len(tasks) - 1, min(len(tasks), _COMPARED)).astype(int)
    log_evidence = prior.family.log_evidence(tasks[some])
    evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
    change = np.nan_to_num(_changes(evidence, prior.weights), posinf=1e300)
    np.fill_diagonal(change, np.inf)
    i, j = np.unravel_index(np.argmin(change), change.shape)
    return min(int(i), int(j)), max(int(i), int(j))


def drop_few(prior: MixturePrior, n_tasks: int) -> MixturePrior:
    """Leave out components with the weight of fewer than ``LEAST_TASKS`` of the tasks."""
    kept = prior.weights * n_tasks >= min(LEAST_TASKS, n_tasks / 10)
    return prior.select(np.flatnonzero(kept)) if kept.any() else prior


def _changes(evidence: Float[Array, "n L"], weights: Float[Array, " L"]) -> Float[Array, "L L"]:
    """Return the mean change of a task's log evidence if i replaces j, for each pair (i, j)."""
    ratio = evidence / (evidence @ weights)[:, None]
    change = np.full((len(weights), len(weights)), np.inf)
    for j in range(len(weights)):
        others = np.delete(np.arange(len(weights)), j)
        factor = 1 + weights[j] * (ratio[:, others] - ratio[:, [j]])
        with np.errstate(divide="ignore"):  # a task that only component j explains
            change[others, j] = np.abs(np.log(np.maximum(factor, 0.0))).mean(axis=0)
    return change


def by_weight(prior: MixturePrior) -> MixturePrior:
    """Return the prior with the heaviest component first."""
    return prior.select(np.argsort(-prior.weights, kind="stable"))


def with_kinds(prior: MixturePrior, account: MixturePrior, tasks: Statistics) -> MixturePrior:
    """Sort the components into the kinds of a smaller mixture, the account of the kinds.

    A component belongs to the kind under which its tasks fall: the kind k that maximises
    ``sum over tasks of P(component | task) P(k | task)``.

    Returns
    -------
    MixturePrior
        The same components, those of the kind with the largest weight first, and the heaviest
        first within a kind. Kinds are called "kind 1", "kind 2" ... in this order; ``kinds`` is
        None if each component is a kind of its own.
    """
    kind = np.argmax(component_shares(prior, tasks).T @ component_shares(account, tasks), axis=1)
    weights = np.bincount(kind, prior.weights, account.n_components)
    rank = np.argsort(np.argsort(-weights, kind="stable"))[kind]
    order = np.lexsort((-prior.weights, rank))
    names = [f"kind {rank[s] + 1}" for s in order]
    distinct = len(set(names)) == len(names)
    return prior.select(order).replace(kinds=None if distinct else names)


def component_shares(prior: MixturePrior, tasks: Statistics) -> Float[Array, "n L"]:
    """Return P(component | task); zero for a task that no component explains."""
    joint = prior.log_weights + prior.family.log_evidence(tasks)
    largest = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - np.where(np.isfinite(largest), largest, 0.0))
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300))


def component_names(prior: MixturePrior) -> list[str]:
    """Name components after their kinds: "kind 1", or "kind 1a", "kind 1b" ... if several."""
    number = Counter(prior.kinds or ())
    seen: Counter[str] = Counter()
    names = []
    for kind in prior.kinds or prior.kind_names:
        letters = ascii_lowercase if number[kind] <= len(ascii_lowercase) else _PAIRS
        names.append(kind + letters[seen[kind]] if number[kind] > 1 else kind)
        seen[kind] += 1
    return names
