"""Learn what the arms of each component look like, and let rarely tried arms resemble them.

Also from how many tasks the arms, or the components, are known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._typing import Array, Float
from mixts.families import Family
from mixts.families.population import arm_population
from mixts.learning.models import Model
from mixts.learning.starts import PSEUDO
from mixts.origin import Origin
from mixts.prior import MixturePrior


@dataclass(frozen=True)
class Population:
    """Distribution of the arms of each component, as far as the tasks show it."""

    arm_prior: Family
    """One arm: the distribution of a new arm's parameters under each component."""
    known: Float[Array, "L K"]
    """Number of tasks from which each component knows each arm; see ``tasks_known``."""

    @property
    def every_arm(self) -> Family:
        """The arm prior for each arm."""
        return self.arm_prior.as_arms.arms([0] * self.known.shape[1])

    def replaced(self, family: Family, least: float = 0.0) -> Family:
        """Return the family with the arm prior where no more than this many tasks are known."""
        new, unknown = self.every_arm.arrays(), self.known <= least
        arrays = {
            k: np.where(unknown, new[k], old) if old.ndim > 1 else old
            for k, old in family.arrays().items()
        }
        return family.restore(family.settings(), arrays)


def population(model: Model, prior: MixturePrior) -> Population | None:
    """Return the population of arms in the model's tasks, or None if the family has no arms."""
    family = prior.family
    if family.n_arms is None:
        return None
    share = special.softmax(prior.log_weights + model.log_evidence(family), axis=1)
    known = model.tasks_known(family, share)
    return Population(arm_population(family, known), known)


def with_arm_prior(model: Model, prior: MixturePrior) -> MixturePrior:
    """Return a learned prior with its arm prior; arms that a component does not know come from it.

    The hyperprior of several components makes an arm resemble itself in all tasks. Where its
    pseudo-tasks say more about an arm than the tasks do, the other arms of the component know
    better. Arms that no task tried are marked as new.
    """
    found = population(model, prior)
    if found is None:
        return prior
    n = prior.n_components
    family = found.replaced(prior.family, PSEUDO / n if n > 1 else 0.0)
    result = prior.replace(family=family, arm_prior=found.arm_prior)
    return result.mark_new(np.flatnonzero(~model.statistics.pulls.any(axis=0)).tolist())


def known_tasks(model: Model, prior: MixturePrior) -> Float[Array, "L *K"]:
    """Return from how many of the model's tasks each arm of each component is known."""
    share = np.ones((model.n_tasks, 1))
    if prior.n_components > 1:
        share = special.softmax(prior.log_weights + model.log_evidence(prior.family), axis=1)
    return model.tasks_known(prior.family, share)


def with_origin(model: Model, prior: MixturePrior) -> MixturePrior:
    """Return a prior that was learned from the model's tasks with its origin."""
    return prior.replace(origin=Origin(model.n_tasks, known_tasks(model, prior)))
