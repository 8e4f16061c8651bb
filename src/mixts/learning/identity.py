"""Which components of two priors are the same: those that claim the same tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from mixts.families import Statistics
from mixts.learning.learn import unused_name
from mixts.learning.models.predictive import mixture_evidence
from mixts.learning.stack import component_shares
from mixts.prior import MixturePrior

LEAST_OVERLAP = 0.5
"""Least overlap of two components that are the same: half of what one claims."""
MOST_OF = 0.5
"""Share of a component's tasks that make it a part of another component."""
NEW_GAIN = 1.0
"""Mean gain of log evidence of a component's tasks from which on it is new, not a part of an old
one: its tasks are e times as probable as they were."""
_COMPARED = 5000
"""Largest number of tasks on which components are compared."""


@dataclass(frozen=True)
class Matched:
    """A later prior with the order and the names of an earlier one, and what became of those."""

    prior: MixturePrior
    """The later prior: components that the earlier one has come first, in its order."""
    kept: tuple[str, ...]
    new: tuple[str, ...] = ()
    """Components whose tasks the earlier prior did not explain."""
    split: tuple[tuple[str, str], ...] = ()
    """Components that are a part of an earlier one, each with its name."""
    merged: tuple[tuple[str, str], ...] = ()
    """Earlier components whose tasks belong to another one now, each with its name."""
    gone: tuple[str, ...] = ()
    """Earlier components that have no tasks any more."""

    @property
    def sentence(self) -> str:
        """Summary of what became of the components."""
        parts = [f"{len(self.kept)} kept" if self.kept else "none kept"]
        parts += [f"{name!r} is new" for name in self.new]
        parts += [f"{name!r} split from {old!r}" for name, old in self.split]
        parts += [f"{old!r} merged into {name!r}" for old, name in self.merged]
        parts += [f"{name!r} is gone" for name in self.gone]
        return ", ".join(parts)


def match_components(before: MixturePrior, after: MixturePrior, tasks: Statistics) -> Matched:
    """Give the components of a later prior the order and the names of an earlier one.

    Two components overlap by ``sum_t p_t q_t / sqrt(sum_t p_t^2 sum_t q_t^2)``, where p_t and q_t
    are their probabilities given task t. Pairs are those with the largest sum of overlaps.

    Parameters
    ----------
    before, after
        Two priors of the same family.
    tasks
        Statistics of tasks, on which both are compared.

    Returns
    -------
    Matched
        The later prior in the order of the earlier one, new components last, and the changes.
    """
    some = tasks[np.linspace(0, len(tasks) - 1, min(len(tasks), _COMPARED)).astype(int)]
    old, new = component_shares(before, some), component_shares(after, some)
    norms = np.sqrt(np.outer((old**2).sum(axis=0), (new**2).sum(axis=0)))
    overlap = old.T @ new / np.maximum(norms, 1e-300)
    rows, columns = linear_sum_assignment(-overlap)
    same = overlap[rows, columns] >= LEAST_OVERLAP
    place = dict(zip(columns[same].tolist(), rows[same].tolist(), strict=True))
    later = [s for s in range(after.n_components) if s not in place]
    order = [*sorted(place, key=place.__getitem__), *later]
    labels = before.names or [f"kind {s + 1}" for s in range(before.n_components)]
    names = [labels[place[j]] for j in order if j in place]
    kept, gain = tuple(names), mixture_evidence(after, some) - mixture_evidence(before, some)
    fresh, parts = [], []
    for j in later:
        explained = float(new[:, j] @ gain) / max(float(new[:, j].sum()), 1e-300)
        source = int(np.argmax(old.T @ new[:, j]))
        is_part = explained < NEW_GAIN
        name = unused_name(
            f"part of {labels[source]}" if is_part else "new kind", (*names, *labels)
        )
        names.append(name)
        if is_part:
            parts.append((name, labels[source]))
        else:
            fresh.append(name)
    merged, gone = [], []
    for i in sorted(set(range(before.n_components)) - set(place.values())):
        flow = old[:, i] @ new / max(float(old[:, i].sum()), 1e-300)
        target = int(np.argmax(flow))
        if flow[target] > MOST_OF and target in place:
            merged.append((labels[i], labels[place[target]]))
        else:
            gone.append(labels[i])
    kinds = None
    if before.kinds is not None:
        kinds = [before.kinds[place[j]] for j in order if j in place] + names[len(kept) :]
    unnamed = before.names is None and list(names) == labels
    prior = after.select(order).replace(names=None if unnamed else names, kinds=kinds)
    return Matched(
        prior.replace(weights=after.weights[order], origin=prior.origin),
        kept, tuple(fresh), tuple(parts), tuple(merged), tuple(gone),
    )  # fmt: skip
